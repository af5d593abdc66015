// How much output at a time a run can afford, said to programs that would otherwise ask for more than their budget
// has: a call that is cut off by its limit is made again, and paid again.
#pragma once

#include <cstdint>

#include "core/rows.h"
#include "store/read_pool.h"

namespace interlock::server {

// Tokens, by the tightest hard dollar budget that covers the run and its own ceiling, at what a large model's output
// costs; 0: nothing limits it, or it cannot be read. Blocks.
std::int64_t affordable_output(store::ReadPool& reads, core::OrgId org, const core::Run& run, Instant now);

}  // namespace interlock::server
