// What is said to the person in front of a run: what it waits for, and what it came to.
#pragma once

#include <optional>
#include <string>

#include "core/rows.h"
#include "store/read_pool.h"

namespace interlock::supervisor {

// "waiting for /src, held by a run of agent 'coder' (run_…); 2 ahead". Empty when the rows cannot be read.
std::optional<std::string> waiting_text(store::ReadPool& reads, core::OrgId org, core::RunId run);

// One line: which run, how it ended, how long it took, its model calls, its cost, and where to see more.
std::string receipt_of(const core::Run& run, const std::string& url);

}  // namespace interlock::supervisor
