// `interlock demo --gateway`: agents call models that cost nothing, through the gateway, until a dollar is used up.
//
// A server of its own with a simulated provider; agents in threads, each in one of the three dialects, some streaming.
// What they were answered is held against the ledger by whoever calls this.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/output.h"
#include "demo/demo.h"

namespace interlock::demo {

struct GatewayPlay {
    std::int64_t calls = 0;
    std::int64_t refused = 0;     // By the budget.
    std::int64_t failed = 0;      // By anything else.
    std::int64_t most_nanos = 0;  // Settled and held together, the most that was seen.
    std::int64_t settled_nanos = 0;
    std::int64_t held_nanos = 0;  // At the end.
    std::int64_t limit_nanos = 0;
    std::string sentence;  // What a refused agent was told.
};

// The error is a sentence.
Result<GatewayPlay, std::string> play_gateway(const DemoOptions& options, const std::string& directory,
                                              const cli::CliOutput& terminal);

}  // namespace interlock::demo
