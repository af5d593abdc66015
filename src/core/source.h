// Where the core gets a row that it does not have in memory: a question by key, answered from the last committed state.
//
// A source that cannot answer (a disk that fails) says "no such row" and remembers that it failed; whoever drives the
// core asks it afterwards and throws the outcome away. So no rule ever has to think about a disk.
#pragma once

#include <cstdint>
#include <variant>

#include "core/rows.h"

namespace interlock::core {

using ColdRow = std::variant<Window, Session, Message, Run, Hold, CostEvent, Rollup, Answer>;

class RowSource {
 public:
    virtual ~RowSource() = default;

    // Completes a row whose key is filled in. False when there is none.
    virtual bool load(OrgId org, ColdRow& row) = 0;

    // What the committed ledger holds for a scope in a span of time, by counted_at (runs: by admitted_at).
    virtual Amounts sum(OrgId org, const Scope& scope, WindowSpan span) = 0;
};

}  // namespace interlock::core
