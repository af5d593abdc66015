// The ledger: money set aside and money spent.
//
//   (1) Every counter (agent, run, session, day, budget window) is the sum of its cost events, after every command. A
//       sum above limits::counter_max is written as that.
//   (2) A hold is admitted against all budgets that cover it, or not at all. An event counts in the windows its hold
//   was
//       admitted in. A charge without a hold counts in those of its own time, a correction in those of its event.
//   (3) A hold ends once: settled, released, or expired. Expiry releases what never left and charges at its bound, as
//       estimated, what may have reached a provider. Nothing is given back because time passed.
//   (4) A run's own hold covers the run: its charges and holds take from it first and return to it what they did not
//       use.
//   (5) Money that is gone is recorded, also past a limit: as overage, and the budgets it hurt are frozen.
//   (6) Who opened a hold ends it. The gateway's settlement is never refused for being late: the difference to what was
//       booked meanwhile is an event of its own.
#pragma once

#include <optional>
#include <string>

#include "core/budgets.h"
#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

// `key` and `fingerprint` are the command's own: a cost event is the record of its command.
ChargeReply charge(OrgState& state, Stamp stamp, const Charge& command, CommandKey key, std::uint64_t fingerprint);
ReserveReply reserve(OrgState& state, Stamp stamp, const Reserve& command);
HoldReply extend_hold(OrgState& state, Stamp stamp, const ExtendHold& command);
SettleReply settle_hold(OrgState& state, Stamp stamp, const SettleHold& command, CommandKey key,
                        std::uint64_t fingerprint);
HoldReply release_hold(OrgState& state, Stamp stamp, const ReleaseHold& command);
CorrectReply correct_charge(OrgState& state, Stamp stamp, const CorrectCharge& command, CommandKey key,
                            std::uint64_t fingerprint);

// A hold's lease has run out.
void expire_hold(OrgState& state, Stamp stamp, HoldId id);

// Why a hold of this size cannot be opened beside those that are open: one hold, the org, the agent and an API key that
// is no operator's each have a bound. What comes out of the run's own hold is held already.
struct RefusedHold {
    ReserveStatus status;  // too_many or amount_too_large.
    std::string detail;
};
std::optional<RefusedHold> refuse_hold(OrgState& state, const Attribution& who, const Amounts& bound,
                                       const Hold* own = nullptr);

// Whether this is the API key of an operator or admin.
bool is_operators_key(OrgState& state, const std::string& id);

// ---- for runs.cc --------------------------------------------------------------------------------------------------

// What the own hold of a run above covers already of a run that is to be admitted.
void relieve_by_parent(OrgState& state, const Run& run, std::vector<BudgetImpact>& impacts);
// Why a run above has no room for this one.
std::optional<BudgetRefusal> past_parents_ceiling(OrgState& state, const Run& run, std::int64_t usd);

// Sets the run's own hold aside. The budgets have been asked, and the touches are relieved.
void open_run_hold(OrgState& state, Stamp stamp, Run& run, const std::vector<BudgetImpact>& impacts);

enum class RestOfRun { known_unspent, may_be_spent };
// Ends every open hold of a run that is ending, its own last. `run` gets what that charges.
void close_run_holds(OrgState& state, Stamp stamp, Run& run, RestOfRun rest);

// Records what the run's owner reports at the end. Empty when a counter would leave its range: then nothing is changed.
std::optional<Seq> charge_final(OrgState& state, Stamp stamp, Run& run, const FinalCharge& command);

// Whether who.run is live and the fence is its own; 0 means that the caller does not state one.
enum class RunCheck { fine, run_not_found, stale_fence, run_ended };
RunCheck check_run(OrgState& state, RunId run, Fence fence);

}  // namespace interlock::core
