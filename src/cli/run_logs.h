// Following a run, for the commands that start or attach to one.
#pragma once

#include <cstdint>
#include <string>

#include "cli/context.h"

namespace interlock::cli {

// Prints what the run's process writes from `offset` on until the run has ended. Returns the run's own exit code.
ExitCode follow_to_end(Context& context, ApiClient& client, const std::string& run, std::int64_t offset);

}  // namespace interlock::cli
