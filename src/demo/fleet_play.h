// `interlock demo --serve`: a server with a page to look at, and a simulated fleet that keeps it busy.
//
// A real server with simulated models, on a directory of the demo's own; clients and an operator in threads, which use
// nothing but its API; processes that it starts itself. It needs no network, no key and no other program but a shell;
// with git there are worktrees, too. When it ends, however it is asked to, no process of it is left.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "cli/output.h"
#include "demo/demo.h"

namespace interlock::demo {

struct FleetPlay {
    std::int64_t runs = 0;
    std::int64_t calls = 0;
    std::int64_t refused = 0;
    std::int64_t oddities = 0;  // Unexpected answers, of which this is the first.
    std::string first_oddity;
    bool all_ended = true;  // Every process.
};

// Until it is told to end, or options.seconds are over. The error is a sentence.
Result<FleetPlay, std::string> play_fleet(const DemoOptions& options, const std::string& directory,
                                          const cli::CliOutput& terminal);

}  // namespace interlock::demo
