// Budgets: what may be spent, by whom, in which window, and what happens when it is.
//
//   (1) A window's `settled` is the sum of the events that count in it, its `held` the sum of its open holds' parts,
//   from
//       the first moment of the budget on: a new budget starts with what the ledger already holds for its window.
//   (2) Admission never takes settled + held of a hard window past its limit. Only money that is already spent does:
//       then the event says by how much, and the budget is frozen until a person looks.
//   (3) Each warn threshold fires once per window, and exhaustion once per window.
//   (4) A window's marks ascend in time. Without corrections they also ascend in what was settled, and none says more
//       than its counter. So do the org's.
//   (5) An agent paused by a budget is resumed when that window turns or the limit makes room, and by nothing else but
//       a person.
//
// A window is exhausted when its events have reached the limit, or when something that an empty window would have
// admitted no longer fits beside them. Money that is merely held does not exhaust: it may come back.
#pragma once

#include <optional>
#include <vector>

#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

BudgetReply put_budget(OrgState& state, Stamp stamp, const PutBudget& command);
BudgetReply delete_budget(OrgState& state, Stamp stamp, const DeleteBudget& command);
BudgetReply unfreeze_budget(OrgState& state, Stamp stamp, const UnfreezeBudget& command);

// What an amount means for one of the budgets that cover it.
struct BudgetImpact {
    LiveBudget* budget = nullptr;
    WindowSpan span;
    std::int64_t amount = 0;            // In the budget's metric.
    std::int64_t relief = 0;            // Of the amount, what was held for it before it came.
    RowTable<Window>::Ref window = {};  // Empty: it has no row yet.
    std::int64_t limit = 0;             // The window as it stands.
    std::int64_t settled = 0;
    std::int64_t held = 0;
    bool hard = true;
};

// Every budget that covers this at that time, by name, also those whose metric it has nothing of.
std::vector<BudgetImpact> budget_impacts(OrgState& state, const Attribution& who, const Amounts& amounts,
                                         Instant counted_at);

// Why not, if not. The first budget by name that says no.
struct Denial {
    bool frozen = false;
    BudgetImpact impact;
    BudgetRefusal refusal;
};
std::optional<Denial> deny(OrgState& state, const std::vector<BudgetImpact>& impacts);

// What the budget does when it has refused this. The only change a refused command can make.
void after_denial(OrgState& state, Stamp stamp, const Denial& denial, const Attribution& who);

// The window's row, made if it is not there yet.
Window& window_of(OrgState& state, const BudgetImpact& impact);

// How long a bucket of time is in a window of this kind. About a hundred of them make one.
Duration bucket_of(WindowKind kind);

// The only ways in which `settled` changes: each leaves a mark where it is the first in a bucket of time (SpendMark).
// What is counted in a window that is over counts in that window's last bucket.
Window& spend_in_window(OrgState& state, Stamp stamp, const BudgetImpact& impact, std::int64_t amount);
void spend_in_org(OrgState& state, Stamp stamp, std::int64_t usd);

// After `settled` has grown: thresholds, exhaustion.
void after_spending(OrgState& state, Stamp stamp, const BudgetImpact& impact, const Attribution& who);

void freeze(OrgState& state, const std::string& budget, const std::string& reason);

}  // namespace interlock::core
