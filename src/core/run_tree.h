// The tree of runs: a program of a run may start further runs, which are children of that run. See ADR 33.
//
//   (1) A child has no more than its parent. It claims only what its parent's claims enclose, and named resources; it
//       spends below the ceilings of all runs above it; it carries its parent's workflow, session and tags.
//   (2) A run's claims cover the runs below it. They exclude all other runs, and siblings exclude each other.
//   (3) The end of a run ends the queued runs below it and asks the live ones to stop, in the same step. A lease that
//       runs out also ends the leases of the runs below.
//   (4) `settled_below` of a run is the sum of what the runs below it have settled.
//   (5) A child waits for nothing that may never become free: not for what its ancestors hold, and not for what only
//       runs hold that wait for children themselves.
//
// limits::run_depth_max bounds every walk up, limits::unfinished_runs_per_tree_max every walk down.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

const Run* parent_of(OrgState& state, const Run& run);
bool is_below(OrgState& state, const Run& run, RunId above);
// Runs below this one that have not ended, the oldest first.
std::vector<RunId> unfinished_below(OrgState& state, const Run& run);

// Why a run cannot have this child.
struct RefusedChild {
    AdmitStatus status;
    std::string detail;
};
std::optional<RefusedChild> refuse_child(OrgState& state, const AdmitRun& command);
// A child whose directories are not inside of its parent's. A worktree that the server makes is not.
Complaint outside_parent(OrgState& state, const Run& run);
Complaint too_many_in_tree(OrgState& state, RunId parent);

// What is charged for a run or its child is on the run's account. Its workflow, session and tags win over what is
// stated: budgets on them were set to bound this run. Tags may be added.
void inherit(Attribution& who, const Run& run);

// Sets what a child has from its parent. The parent is live.
void add_parent(OrgState& state, Run& run, RunId parent);

// Runs of `places` that keep `run` from `place`. `kept`: the places are those of runs ahead in line.
enum class Standing { claimed, kept };
std::vector<RunId> in_the_way(OrgState& state, const PlaceIndex& places, Standing standing, const Run& run,
                              const Place& place);
bool is_in_the_way(OrgState& state, const PlaceIndex& places, Standing standing, const Run& run, const Place& place);

// Invariant (5), for a run that `holders` keep from a place, or the runs under a cap from a slot. Too careful where a
// run does other work while its child waits.
bool waits_in_vain(OrgState& state, const Run& run, WaitsFor what, const std::vector<RunId>& holders);

// The owner of a run owns what its program has started. A tick ends these leases next, each within the tick's bound.
void end_leases_below(OrgState& state, Stamp stamp, const Run& run);

// The smallest room that the ceilings of the run and of all runs above it leave; nothing where there is no ceiling.
// What is drawn from `own`, the hold of one of these runs, counts already for the runs above that one.
struct CeilingRoom {
    const Run* run = nullptr;
    std::int64_t settled = 0;  // Nano-dollars, with all runs below.
    std::int64_t held = 0;
    std::int64_t free = 0;
};
std::optional<CeilingRoom> room_below_ceilings(OrgState& state, const Run* run, const Hold* own);

// Why there is no room for as much. What costs nothing is never refused, as with budgets, also when money that was gone
// already has passed the ceiling.
std::optional<BudgetRefusal> past_ceiling(const std::optional<CeilingRoom>& room, std::int64_t more);
std::string describe(const BudgetRefusal& refusal);

// A client's run whose parent has ended. Its owner was a program of the parent, so the lease is not renewed any more.
bool is_left_to_lease(OrgState& state, const Run& run);

// Counts what a run has settled for the runs above it.
void count_above(OrgState& state, const Run& run, std::int64_t usd);

}  // namespace interlock::core
