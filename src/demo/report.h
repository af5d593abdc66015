// The end of the demo: what the agents were told, held against what the store says.
//
// The checks share nothing with core/: they compare the agents' books with rows. That the rows agree with each other is
// the checker's part (verify/verify.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/output.h"
#include "demo/books.h"
#include "store/store.h"

namespace interlock::demo {

struct Check {
    std::string about;
    bool holds = false;
    std::vector<std::string> sentences;
};

// In the order in which they are printed. `kill` is empty when nothing was killed.
Result<std::vector<Check>, store::ReadError> outside_checks(store::Snapshot& snapshot, const DemoBooks& books,
                                                            const std::optional<KillTally>& kill);

// A line for each check; `columns` is where a terminal's lines end, 0 for lines of any length.
std::string to_text(const std::vector<Check>& checks, const cli::CliOutput& terminal, std::size_t columns);

}  // namespace interlock::demo
