// `interlock bench`: how many charges the running server takes, and how long each waits for its answer.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/context.h"

namespace interlock::cli {

ExitCode bench(Context& context, const Invocation& invocation);

// The value below which `share` (0…1) of the sorted values lie; 0 of none.
std::int64_t percentile(const std::vector<std::int64_t>& sorted, double share);

}  // namespace interlock::cli
