// Which rows a command is going to ask for, as far as can be seen before it is applied.
//
// For sources where a question is a network round trip (RowSource::is_remote). A row that is named
// here and not asked for costs a little time, and so does one that is asked for and not named: nothing is decided here.
#pragma once

#include <string_view>
#include <vector>

#include "core/command.h"
#include "core/org_state.h"

namespace interlock::core {

// Adds the rows that are not in memory.
void add_expected(OrgState& state, Stamp stamp, const CommandBody& body, std::vector<ColdRow>& rows);

// The id that is tried first for something made on behalf of something else (ledger.cc).
Id first_derived_id(std::string_view what, Id of);

}  // namespace interlock::core
