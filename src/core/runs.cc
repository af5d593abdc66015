#include "core/runs.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ensure.h"
#include "base/result.h"
#include "base/text.h"
#include "core/agent_keys.h"
#include "core/agents.h"
#include "core/budgets.h"
#include "core/check.h"
#include "core/ledger.h"
#include "core/limits.h"
#include "core/line_walk.h"
#include "core/run_tree.h"

namespace interlock::core {
namespace {

std::string ended_because(const Run& run) {
    return run.reason.empty() ? "the run has ended" : fmt::format("the run has ended: {}", run.reason);
}

// What became of the run, written down. Its row is put by whoever changes it.
void add_step(OrgState& state, Stamp stamp, Run& run, std::string reason = {}, WaitsFor waits_for = WaitsFor::nothing) {
    run.steps += 1;
    state.run_steps.add() = {run.id, run.steps, stamp.at, run.state, waits_for, std::move(reason)};
}

// Here, and nowhere else, a run's state changes, a run in line included.
void move_to(OrgState& state, Stamp stamp, Run& run, RunState to, std::string reason = {},
             WaitsFor waits_for = WaitsFor::nothing) {
    run.state = to;
    add_step(state, stamp, run, std::move(reason), waits_for);
}

// What keeps a run from starting now.
struct AdmissionObstacle {
    WaitsFor what = WaitsFor::nothing;
    std::optional<Denial> denial = {};          // For budgets.
    std::optional<BudgetRefusal> ceiling = {};  // Of a run above it.
    std::vector<RunId> in_the_way = {};         // For places.
    std::string detail = {};
};

// ---- asking -------------------------------------------------------------------------------------------------------

// A budget of runs counts a run once, however often it goes back in line.
std::int64_t uncounted_runs(const Run& run) { return run.admitted_at == far_past ? 1 : 0; }

Amounts asked_amounts(const Run& run) {
    Amounts amounts = run.hold_bound;
    amounts.runs = uncounted_runs(run);
    return amounts;
}

// A run that sets nothing aside still means to spend: a budget that has nothing left refuses it too.
Amounts needed_amounts(const Run& run) {
    const auto some = [](std::int64_t amount) { return std::max<std::int64_t>(1, amount); };
    return {some(run.hold_bound.usd), some(run.hold_bound.tokens), some(run.hold_bound.calls), uncounted_runs(run)};
}

std::vector<RunId> colliding(OrgState& state, const PlaceIndex& places, Standing standing, const Run& run) {
    std::vector<RunId> found;
    std::set<RunId> seen;
    for (const Place& place : run.wanted) {
        for (const RunId other : in_the_way(state, places, standing, run, place)) {
            if (seen.insert(other).second) found.push_back(other);
        }
    }
    return found;
}

// `kept` is for those who walk the line and know it already.
std::optional<AdmissionObstacle> place_obstacle(OrgState& state, Stamp stamp, const Run& run, const PlaceIndex* kept) {
    if (auto holders = colliding(state, state.claimed(), Standing::claimed, run); !holders.empty()) {
        return AdmissionObstacle{.what = WaitsFor::workspace, .in_the_way = std::move(holders)};
    }
    // Walking the line is slow, and seldom needed: somebody there must want the same place, although it is free.
    if (!collides_any(state.wanted(), run)) return std::nullopt;
    const PlaceIndex ahead_kept = kept != nullptr ? PlaceIndex() : kept_ahead_of(state, stamp, line_key(run));
    auto ahead = colliding(state, kept != nullptr ? *kept : ahead_kept, Standing::kept, run);
    if (ahead.empty()) return std::nullopt;
    return AdmissionObstacle{.what = WaitsFor::workspace, .in_the_way = std::move(ahead)};
}

std::optional<AdmissionObstacle> cap_obstacle(OrgState& state, const Run& run) {
    const auto at_most = [](WaitsFor what, std::size_t live, std::int64_t max, std::string whose) {
        if (static_cast<std::int64_t>(live) < max) return std::optional<AdmissionObstacle>{};
        return std::optional(
            AdmissionObstacle{.what = what, .detail = fmt::format("{} has {} of {} runs", whose, live, max)});
    };
    const auto capped = [&](WaitsFor what, CapKind kind, const std::string& name, std::size_t live, std::string whose) {
        const Cap* cap = state.caps.find({kind, name});
        return cap == nullptr ? std::optional<AdmissionObstacle>{}
                              : at_most(what, live, cap->max_live, std::move(whose));
    };
    const std::string& agent = run.who.agent;
    if (auto no = at_most(WaitsFor::agent_cap, state.live_of_agent(agent), state.agent(agent)->max_concurrent_runs,
                          fmt::format("agent '{}'", agent))) {
        return no;
    }
    if (!run.who.provider.empty()) {
        if (auto no =
                capped(WaitsFor::provider_cap, CapKind::provider, run.who.provider,
                       state.live_of_provider(run.who.provider), fmt::format("provider '{}'", run.who.provider))) {
            return no;
        }
    }
    if (!run.node.empty()) {
        if (auto no = capped(WaitsFor::node_cap, CapKind::node, run.node, state.live_on_node(run.node),
                             fmt::format("node '{}'", run.node))) {
            return no;
        }
    }
    return capped(WaitsFor::org_cap, CapKind::org, "", state.live_runs().size(), "the org");
}

// The one place where it is decided whether a run may start. In the order of AdmitStatus.
std::optional<AdmissionObstacle> find_obstacle(OrgState& state, Stamp stamp, const Run& run,
                                               const PlaceIndex* kept = nullptr) {
    if (run.not_before > stamp.at) {
        return AdmissionObstacle{.what = WaitsFor::its_time,
                                 .detail = "the delay before the next attempt has not passed"};
    }
    const Agent* agent = working_agent(state, run.who.agent);
    if (agent == nullptr || !agent->pauses.empty()) {
        return AdmissionObstacle{.what = WaitsFor::agent,
                                 .detail = agent == nullptr ? "the agent is archived" : agent->pauses.front().reason};
    }
    // Asked at admission too, but what was possible then may not be any more.
    if (auto refused = run.hold_bound != Amounts{} ? refuse_hold(state, run.who, run.hold_bound) : std::nullopt) {
        return AdmissionObstacle{.what = WaitsFor::budget, .detail = refused->detail};
    }
    if (auto refusal = past_parents_ceiling(state, run, needed_amounts(run).usd)) {
        std::string detail = describe(*refusal);
        return AdmissionObstacle{WaitsFor::budget, {}, std::move(refusal), {}, std::move(detail)};
    }
    auto impacts = budget_impacts(state, run.who, needed_amounts(run), stamp.at);
    relieve_by_parent(state, run, impacts);
    if (auto denial = deny(state, impacts))
        return AdmissionObstacle{.what = WaitsFor::budget, .denial = std::move(denial)};
    if (auto obstacle = place_obstacle(state, stamp, run, kept)) return obstacle;
    return cap_obstacle(state, run);
}

BlockingRun holder_of(OrgState& state, const Run& run, RunId in_the_way) {
    const Run& other = *state.run(in_the_way);
    BlockingRun holder{
        .run = other.id, .agent = other.who.agent, .state = other.state, .place = {}, .since = other.admitted_at};
    if (other.state == RunState::queued) holder.since = other.created_at;
    for (const Place& taken : other.wanted) {
        for (const Place& wanted : run.wanted) {
            if (collide(taken, wanted)) return holder.place = taken, holder;
        }
    }
    return holder;
}

// ---- granting -----------------------------------------------------------------------------------------------------

// Nothing is in the way. `run` becomes live with everything it asked for.
void grant(OrgState& state, Stamp stamp, Run& run) {
    state.org->last_fence.value += 1;
    state.org_changed = true;
    run.fence = state.org->last_fence;
    move_to(state, stamp, run, RunState::starting);
    run.lease_until = stamp.at + std::chrono::seconds(run.lease_s);
    auto impacts = budget_impacts(state, run.who, asked_amounts(run), stamp.at);
    relieve_by_parent(state, run, impacts);
    const bool counts = uncounted_runs(run) > 0;
    if (counts) run.admitted_at = stamp.at;
    if (run.hold_bound != Amounts{}) open_run_hold(state, stamp, run, impacts);
    state.put_run(run);
    state.add_claims(run);
    for (BudgetImpact& impact : impacts) {
        if (!counts || impact.budget->row.metric != Metric::runs) continue;
        spend_in_window(state, stamp, impact, 1);
        after_spending(state, stamp, impact, run.who);
    }
    state.feed.add(RunChanged{run.id, run.who.agent, run.state, run.fence});
}

// ---- ending -------------------------------------------------------------------------------------------------------

// A run in line for another try of one that has failed, timed out or been lost, if its launch allows one more.
void try_again(OrgState& state, Stamp stamp, const Run& ended) {
    if (!ended.supervised || ended.state == RunState::succeeded || ended.state == RunState::cancelled) return;
    if (!ended.stop_requested.empty() || ended.fence.value == 0) return;
    auto launch = state.launches.find(ended.id);
    ensure(launch.has_value(), "a supervised run has a launch");
    if (ended.attempt >= launch->retry.tries) return;
    const Id hash = id_from_hash(to_text("try_after", ended.id.value));
    const RunId id(time_ordered_id(stamp.at, hash.high, hash.low));
    if (state.run(id) != nullptr) return;

    Run next = ended;
    next.id = next.who.run = id;
    next.ticket = ++state.org->last_ticket;
    state.org_changed = true;
    next.fence = {};
    next.hold = {};
    next.created_at = stamp.at;
    next.queued_until = far_future;
    next.admitted_at = next.lease_until = next.started_at = next.ended_at = far_past;
    next.reason.clear();
    next.settled = next.tokens = next.events = next.unknown = next.settled_below = 0;
    next.attempt += 1;
    next.retry_of = ended.id;
    next.exit_code = -1;
    next.never_waits = false;  // A further try waits for its time, and then for what the run asks for.
    // Twice as long each time; half of it is drawn, so that those who failed together do not come back together.
    const Retry& retry = launch->retry;
    std::int64_t wait_ms = std::int64_t{1000} * retry.backoff_s;
    for (std::int32_t n = 1; n < ended.attempt && wait_ms < retry.backoff_max_s * std::int64_t{1000}; ++n) wait_ms *= 2;
    wait_ms = std::min(wait_ms, retry.backoff_max_s * std::int64_t{1000});
    wait_ms = wait_ms / 2 + static_cast<std::int64_t>(hash.low % static_cast<std::uint64_t>(wait_ms / 2 + 1));
    next.not_before = stamp.at + std::chrono::milliseconds(wait_ms);
    launch->run = id;
    state.launches.add() = std::move(*launch);
    next.steps = 0;
    move_to(state, stamp, next, RunState::queued, fmt::format("attempt {} of {}", next.attempt, retry.tries),
            WaitsFor::its_time);
    state.feed.add(RunChanged{id, next.who.agent, next.state, {}});
    state.put_run(std::move(next));
}

void end_run(OrgState& state, Stamp stamp, Run run, RunState outcome, std::string reason, RestOfRun rest);

// Invariant (3) of run_tree.h.
void end_below(OrgState& state, Stamp stamp, const Run& ended) {
    const std::string reason = fmt::format("its parent {} has ended", to_text("run", ended.id.value));
    for (const RunId id : unfinished_below(state, ended)) {
        const Run& below = *state.run(id);
        if (below.state == RunState::queued) {
            end_run(state, stamp, below, RunState::cancelled, reason, RestOfRun::known_unspent);
        } else {
            request_stop(state, stamp, id, reason);
        }
    }
}

void end_run(OrgState& state, Stamp stamp, Run run, RunState outcome, std::string reason, RestOfRun rest) {
    ensure(has_ended(outcome) && !has_ended(run.state), "a run ends once");
    if (is_live(run.state)) {
        close_run_holds(state, stamp, run, rest);
        state.erase_claims(run);
    }
    // What was just charged may have exhausted a budget, which asks its runs to stop: also this one, in its stored row.
    run.steps = state.run(run.id)->steps;
    move_to(state, stamp, run, outcome, reason);
    run.reason = std::move(reason);
    run.ended_at = stamp.at;
    state.feed.add(RunEnded{run.id, run.who.agent, run.state, run.reason, run.settled, run.unknown});
    const bool was_queued = state.run(run.id)->state == RunState::queued;
    state.put_run(run);
    end_below(state, stamp, run);
    try_again(state, stamp, run);
    // A queued run has nothing to give back but its turn at a place.
    if (!was_queued || !run.wanted.empty()) state.line_may_move = true;
}

void lose(OrgState& state, Stamp stamp, Run run, std::string reason) {
    // The claims of its old fence go with it; the new fence is nobody's.
    state.org->last_fence.value += 1;
    state.org_changed = true;
    run.fence = state.org->last_fence;
    end_run(state, stamp, std::move(run), RunState::lost, std::move(reason), RestOfRun::may_be_spent);
}

// ---- commands on a run --------------------------------------------------------------------------------------------

RunReply refused(RunStatus why, std::string detail, RunState run_state = RunState::queued) {
    return {.status = why,
            .state = run_state,
            .lease_until = {},
            .stop_requested = {},
            .seq = {},
            .detail = std::move(detail)};
}

RunReply done(const Run& run) {
    return {.status = RunStatus::done,
            .state = run.state,
            .lease_until = run.lease_until,
            .stop_requested = run.stop_requested,
            .seq = {},
            .detail = {}};
}

// Finds the live run whose owner is speaking; otherwise says why not.
Result<Run, RunReply> owned_run(OrgState& state, RunId id, Fence fence) {
    const Run* run = state.run(id);
    if (run == nullptr) return fail(refused(RunStatus::run_not_found, "the run does not exist"));
    if (fence != run->fence || fence.value == 0) {
        return fail(refused(RunStatus::stale_fence,
                            fmt::format("fence {} is stale: the run has another owner, or none", fence.value),
                            run->state));
    }
    if (has_ended(run->state)) {
        return fail(refused(RunStatus::run_ended, ended_because(*run), run->state));
    }
    return *run;
}

// The same for a person who has no fence, where a supervisor hears of what was decided.
Result<Run, RunReply> supervised_run(OrgState& state, RunId id, Fence fence) {
    const Run* run = state.run(id);
    if (fence.value != 0 || run == nullptr || !run->supervised) return owned_run(state, id, fence);
    if (has_ended(run->state)) return fail(refused(RunStatus::run_ended, ended_because(*run), run->state));
    return *run;
}

// The process has the fence, and must not free its place while it is there.
constexpr const char* ends_by_supervisor = "the server reports the end of this run itself; to stop it, cancel it";

// The owner ends its run: what it reports is charged, the rest of its hold is known to be unspent.
RunReply end_by_owner(OrgState& state, Stamp stamp, Run run, RunState outcome, const std::string& reason,
                      const std::optional<FinalCharge>& charge, std::int32_t exit_code) {
    Seq seq;
    if (charge) {
        const auto charged = charge_final(state, stamp, run, *charge);
        if (!charged) return refused(RunStatus::amount_too_large, "a counter would overflow", run.state);
        seq = *charged;
    }
    RunReply reply = done(run);
    reply.state = outcome;
    reply.seq = seq;
    run.exit_code = exit_code;
    end_run(state, stamp, std::move(run), outcome, reason, RestOfRun::known_unspent);
    return reply;
}

Complaint check(const AdmitRun& command) {
    Complaint complaint =
        first_of(check_attribution(command.who), check_label("node", command.node), check_amounts("hold", command.hold),
                 check_range("lease_s", command.lease_s, 1, limits::lease_s_max),
                 check_range("queue_s", command.queue_s, 0, limits::queue_s_max),
                 check_range("priority", command.priority, -1'000'000, 1'000'000));
    if (command.run.value.empty()) complaint = "a run needs an id";
    complaint = first_of(complaint, check_places(command.places));
    if (command.isolate_into) complaint = first_of(complaint, check_place(*command.isolate_into));
    if (command.worktrees) complaint = first_of(complaint, check_place(*command.worktrees));
    const auto is_workspace = [](const std::optional<Place>& place) {
        return place && place->kind == ClaimKind::workspace;
    };
    const bool has_room = is_workspace(command.isolate_into) || is_workspace(command.worktrees);
    if ((command.on_conflict == OnConflict::isolate || command.isolate) && !has_room) {
        complaint = first_of(complaint, Complaint("isolate needs isolate_into"));
    }
    complaint = first_of(complaint, check_label("name", command.name));
    if (command.ceiling.negative()) complaint = first_of(complaint, Complaint("ceiling must not be negative"));
    if (!command.process) return complaint;
    complaint = first_of(complaint, check_process(*command.process), check_retry(command.retry));
    if (command.process->command.empty()) complaint = first_of(complaint, Complaint("process has no command"));
    if (command.node.empty()) complaint = first_of(complaint, Complaint("a process needs the node that starts it"));
    return complaint;
}

Run new_run(OrgState& state, const AdmitRun& command, Stamp stamp, const std::string& schedule) {
    Run run{.id = command.run,
            .who = command.who,
            .node = command.node,
            .priority = command.priority,
            .fence = {},
            .wanted = command.places,
            .hold_bound = command.hold,
            .hold = {},
            .metered = command.metered,
            .stop_requested = {},
            .lease_s = command.lease_s,
            .created_at = stamp.at,
            .queued_until = command.queue_s > 0 ? stamp.at + std::chrono::seconds(command.queue_s) : far_future,
            .admitted_at = far_past,
            .lease_until = far_past,
            .started_at = far_past,
            .ended_at = far_past,
            .reason = {},
            .schedule = schedule,
            .name = command.name,
            .supervised = command.process.has_value(),
            .ceiling = command.ceiling.nanos(),
            .retry_of = {},
            .not_before = far_past,
            .never_waits = command.on_conflict != OnConflict::queue && command.on_conflict != OnConflict::replace};
    run.who.run = run.id;
    if (!command.parent.value.empty()) add_parent(state, run, command.parent);
    return run;
}

// Swaps the workspaces for the one the caller brought, or for one that nobody has heard of yet; named resources stay.
void isolate(Run& run, const AdmitRun& command) {
    Place into;
    if (command.isolate_into) {
        into = *command.isolate_into;
    } else {
        const std::string name = to_text("run", run.id.value);
        into = *command.worktrees;
        into.mode = ClaimMode::write;
        into.path += '/' + name;
        into.chain.insert(into.chain.begin(), name);  // It has no identity before it is made, and then no other name.
    }
    std::erase_if(run.wanted, [](const Place& place) { return place.kind == ClaimKind::workspace; });
    run.wanted.insert(run.wanted.begin(), into);
    run.isolated = true;
}

AdmitReply admitted(const Run& run) {
    AdmitReply reply;
    reply.status = AdmitStatus::admitted;
    reply.run = run.id;
    reply.fence = run.fence;
    reply.lease_until = run.lease_until;
    reply.isolated = run.isolated;
    return reply;
}

AdmitReply refused_admission(AdmitStatus why, std::string detail) {
    AdmitReply reply;
    reply.status = why;
    reply.detail = std::move(detail);
    return reply;
}

AdmitReply refused_by(OrgState& state, Stamp stamp, const Run& run, AdmissionObstacle obstacle) {
    AdmitReply reply;
    reply.detail = obstacle.detail;
    if (obstacle.denial) {
        const Denial& denial = *obstacle.denial;
        reply.status = denial.frozen ? AdmitStatus::budget_frozen : AdmitStatus::budget_exceeded;
        reply.budget = denial.refusal;
        reply.detail = denial.frozen
                           ? fmt::format("budget '{}' is frozen: {}", denial.refusal.budget, denial.refusal.frozen)
                           : fmt::format("budget '{}' has no room for this run", denial.refusal.budget);
        after_denial(state, stamp, denial, run.who);
        return reply;
    }
    if (obstacle.ceiling) {
        reply.status = AdmitStatus::budget_exceeded;
        reply.budget = std::move(obstacle.ceiling);
        return reply;
    }
    if (obstacle.what == WaitsFor::workspace) {
        reply.status = AdmitStatus::workspace_busy;
        reply.holder = holder_of(state, run, obstacle.in_the_way.front());
        reply.detail =
            fmt::format("{} '{}' is in use by {} (agent '{}')",
                        reply.holder->place.kind == ClaimKind::resource ? "resource" : "workspace",
                        reply.holder->place.path, to_text("run", reply.holder->run.value), reply.holder->agent);
    } else {
        reply.status = AdmitStatus::concurrency_limit;
    }
    reply.waits_for = obstacle.what;
    return reply;
}

// Counted from the nearer end: most runs are put last, and a line may be long.
std::int64_t place_in_line(const std::set<LineKey>& line, const LineKey& key) {
    auto ahead = line.find(key);
    auto behind = ahead;
    const auto size = static_cast<std::int64_t>(line.size());
    for (std::int64_t steps = 0;; ++steps, --ahead) {
        if (ahead == line.begin()) return steps + 1;
        if (++behind == line.end()) return size - steps;
    }
}

AdmitReply put_in_line(OrgState& state, Stamp stamp, Run run, const AdmissionObstacle& obstacle) {
    AdmitReply reply;
    reply.status = AdmitStatus::queued;
    reply.run = run.id;
    reply.waits_for = obstacle.what;
    reply.detail = obstacle.detail;
    reply.isolated = run.isolated;
    if (!obstacle.in_the_way.empty()) reply.holder = holder_of(state, run, obstacle.in_the_way.front());
    state.org_changed = true;
    const LineKey key = line_key(run);
    move_to(state, stamp, run, RunState::queued, obstacle.detail, obstacle.what);
    state.feed.add(RunChanged{run.id, run.who.agent, run.state, {}});
    state.put_run(std::move(run));
    reply.place_in_line = place_in_line(state.line(), key);
    return reply;
}

// What an org, an agent, and an API key that is no operator's may have of unfinished runs.
Complaint too_many_runs(OrgState& state, const AdmitRun& command) {
    const Attribution& who = command.who;
    if (!command.parent.value.empty()) {
        if (auto no = too_many_in_tree(state, command.parent)) return no;
    }
    const auto past = [](std::size_t runs, std::size_t runs_max, std::string_view whose) -> Complaint {
        if (runs < runs_max) return std::nullopt;
        return fmt::format("{} may have at most {} unfinished runs", whose, runs_max);
    };
    using namespace limits;
    if (auto no = past(state.line().size() + state.live_runs().size(), unfinished_runs_per_org_max, "an org"))
        return no;
    const std::size_t of_agent = state.live_of_agent(who.agent) + state.queued_of_agent(who.agent);
    if (auto no = past(of_agent, unfinished_runs_per_agent_max, "an agent")) return no;
    auto no = past(state.unfinished_of_key(who.api_key), unfinished_runs_per_agent_max, "an API key below operator");
    return no && !who.api_key.empty() && !is_operators_key(state, who.api_key) ? no : std::nullopt;
}

// A run in the way that `replace` by an API key below operator must not end.
const Run* run_of_another(OrgState& state, const AdmitRun& command, const AdmissionObstacle& obstacle) {
    for (const RunId id : obstacle.in_the_way) {
        const Run* other = state.run(id);
        const bool is_own = command.parent.value.empty() ? other->who.agent == command.who.agent
                                                         : is_below(state, *other, command.parent);
        if (!is_own) return other;
    }
    return nullptr;
}

}  // namespace

AdmitReply admit_run(OrgState& state, Stamp stamp, const AdmitRun& command) {
    if (auto complaint = check(command)) return refused_admission(AdmitStatus::invalid_request, *complaint);
    if (auto complaint = command.by.kind == ActorKind::key ? beyond_key(command) : std::nullopt) {
        return refused_admission(AdmitStatus::beyond_key, *complaint);
    }
    if (command.parent.value.empty()) return admit_for_schedule(state, stamp, command, "");
    if (auto refusal = refuse_child(state, command)) {
        return refused_admission(refusal->status, std::move(refusal->detail));
    }
    AdmitRun child = command;
    inherit(child.who, *state.run(command.parent));
    return admit_for_schedule(state, stamp, child, "");
}

AdmitReply admit_for_schedule(OrgState& state, Stamp stamp, const AdmitRun& command, const std::string& schedule) {
    if (state.run(command.run) != nullptr) {
        return refused_admission(AdmitStatus::run_exists, "a run with this id exists");
    }
    const Agent* agent = working_agent(state, command.who.agent);
    if (agent == nullptr) {
        return refused_admission(AdmitStatus::agent_not_found,
                                 fmt::format("there is no agent '{}'", command.who.agent));
    }
    const bool by_key = command.by.kind == ActorKind::key;
    if (auto complaint = by_key ? outside_roots(state, *agent, command) : std::nullopt) {
        return refused_admission(AdmitStatus::outside_roots, *complaint);
    }
    if (!agent->pauses.empty()) {
        return refused_admission(AdmitStatus::agent_paused, paused_because(*agent));
    }
    if (!command.who.session.value.empty() && state.sessions.find(command.who.session) == nullptr) {
        return refused_admission(AdmitStatus::session_not_found, "the session does not exist");
    }
    if (auto complaint = too_many_runs(state, command)) {
        return refused_admission(AdmitStatus::too_many, *complaint);
    }
    if (auto refused = command.hold != Amounts{} ? refuse_hold(state, command.who, command.hold) : std::nullopt) {
        const bool too_many = refused->status == ReserveStatus::too_many;
        return refused_admission(too_many ? AdmitStatus::too_many : AdmitStatus::amount_too_large, refused->detail);
    }
    Run run = new_run(state, command, stamp, schedule);
    if (command.isolate) isolate(run, command);
    const bool replaces = command.on_conflict == OnConflict::replace;
    // A run that replaces goes first within its priority, but not if a key below operator asks: runs of other agents
    // may be in line.
    run.ticket = replaces && !by_key ? -(state.org->last_ticket + 1) : state.org->last_ticket + 1;
    auto obstacle = find_obstacle(state, stamp, run);
    if (obstacle && obstacle->what == WaitsFor::workspace && command.on_conflict == OnConflict::isolate &&
        !run.isolated) {
        isolate(run, command);
        obstacle = find_obstacle(state, stamp, run);
    }
    const Run* others = replaces && by_key && obstacle ? run_of_another(state, command, *obstacle) : nullptr;
    if (others != nullptr) {
        AdmitReply reply = refused_admission(
            AdmitStatus::not_your_run,
            fmt::format("{} of agent '{}' uses the workspace, and {}; use on_conflict queue, or an operator key",
                        to_text("run", others->id.value), others->who.agent,
                        command.parent.value.empty() ? "an API key below operator replaces runs of its own agent only"
                                                     : "a run replaces only runs that it has started"));
        reply.holder = holder_of(state, run, others->id);
        return reply;
    }
    if (obstacle && obstacle->what > WaitsFor::budget && !run.never_waits &&
        waits_in_vain(state, run, obstacle->what, obstacle->in_the_way)) {
        AdmitReply reply = refused_by(state, stamp, run, std::move(*obstacle));
        reply.detail +=
            "; it cannot be queued, because the runs that it would wait for are waiting for their own child runs";
        return reply;
    }
    if (obstacle && (obstacle->what <= WaitsFor::budget || run.never_waits)) {
        return refused_by(state, stamp, run, std::move(*obstacle));
    }

    // From here on the run must be admitted or put in line.
    state.org->last_ticket += 1;
    if (command.process) state.launches.add() = Launch{command.run, *command.process, command.retry};
    if (!obstacle) {
        grant(state, stamp, run);
        return admitted(run);
    }
    if (replaces) {
        for (const RunId other : obstacle->in_the_way) {
            if (is_live(state.run(other)->state)) request_stop(state, stamp, other, "replaced by another run");
        }
    }
    return put_in_line(state, stamp, std::move(run), *obstacle);
}

RunReply start_run(OrgState& state, Stamp stamp, const StartRun& command) {
    auto run = owned_run(state, command.run, command.fence);
    if (!run) return run.error();
    if (run->state == RunState::paused) return refused(RunStatus::wrong_state, "the run is paused", run->state);
    if (run->state == RunState::running) return done(*run);

    // From here on it must start.
    move_to(state, stamp, *run, RunState::running, command.sandbox);
    run->started_at = stamp.at;
    if (!is_left_to_lease(state, *run)) run->lease_until = stamp.at + std::chrono::seconds(run->lease_s);
    state.feed.add(RunChanged{run->id, run->who.agent, run->state, run->fence});
    state.put_run(*run);
    return done(*run);
}

RunReply heartbeat_run(OrgState& state, Stamp stamp, const HeartbeatRun& command) {
    auto run = owned_run(state, command.run, command.fence);
    if (!run) return run.error();
    // A supervisor says itself when there is a process; until then it only keeps the lease.
    if (run->state == RunState::starting && !run->supervised) {
        return start_run(state, stamp, {command.run, command.fence, {}});
    }

    if (is_left_to_lease(state, *run)) return done(*run);

    // From here on the lease must be renewed.
    run->lease_until = std::max(run->lease_until, stamp.at + std::chrono::seconds(run->lease_s));
    state.put_run(*run);
    return done(*run);
}

RunReply pause_run(OrgState& state, Stamp stamp, const PauseRun& command) {
    auto run = supervised_run(state, command.run, command.fence);
    if (!run) return run.error();
    if (run->state == RunState::paused) return done(*run);
    if (run->state != RunState::running)
        return refused(RunStatus::wrong_state, "only a running run can pause", run->state);

    // From here on it must pause. It keeps its places, its money and its lease: somebody means to come back.
    move_to(state, stamp, *run, RunState::paused);
    state.feed.add(RunChanged{run->id, run->who.agent, run->state, run->fence});
    state.put_run(*run);
    return done(*run);
}

RunReply resume_run(OrgState& state, Stamp stamp, const ResumeRun& command) {
    auto run = supervised_run(state, command.run, command.fence);
    if (!run) return run.error();
    if (run->state == RunState::running) return done(*run);
    if (run->state != RunState::paused)
        return refused(RunStatus::wrong_state, "only a paused run can resume", run->state);

    // From here on it must resume.
    move_to(state, stamp, *run, RunState::running, "resumed");
    state.feed.add(RunChanged{run->id, run->who.agent, run->state, run->fence});
    state.put_run(*run);
    return done(*run);
}

RunReply finish_run(OrgState& state, Stamp stamp, const FinishRun& command) {
    Complaint complaint = first_of(check_final_charge(command.charge), check_line("reason", command.reason));
    const bool outcome_ok = command.outcome == RunState::succeeded || command.outcome == RunState::failed ||
                            command.outcome == RunState::timed_out;
    if (!outcome_ok) complaint = "outcome must be succeeded, failed or timed_out";
    if (complaint) return refused(RunStatus::invalid_request, *complaint);
    auto run = owned_run(state, command.run, command.fence);
    if (!run) return run.error();
    if (run->supervised && command.by_client) return refused(RunStatus::wrong_state, ends_by_supervisor, run->state);
    return end_by_owner(state, stamp, std::move(*run), command.outcome, command.reason, command.charge,
                        command.exit_code);
}

RunReply cancel_run(OrgState& state, Stamp stamp, const CancelRun& command) {
    if (auto complaint = first_of(check_final_charge(command.charge), check_line("reason", command.reason))) {
        return refused(RunStatus::invalid_request, *complaint);
    }
    if (command.fence.value == 0 && command.charge) {
        return refused(RunStatus::invalid_request,
                       "a charge needs the fence, because only the owner of the run knows its cost");
    }
    if (command.fence.value != 0) {
        auto run = owned_run(state, command.run, command.fence);
        if (!run) return run.error();
        const bool asks = run->supervised && command.by_client;
        if (asks && command.charge) return refused(RunStatus::wrong_state, ends_by_supervisor, run->state);
        if (!asks) {
            return end_by_owner(state, stamp, std::move(*run), RunState::cancelled, command.reason, command.charge,
                                command.exit_code);
        }
    }
    const Run* run = state.run(command.run);
    if (run == nullptr) return refused(RunStatus::run_not_found, "the run does not exist");
    if (has_ended(run->state)) return refused(RunStatus::run_ended, ended_because(*run), run->state);

    // From here on it must be cancelled, or its owner asked to.
    RunReply reply = done(*run);
    if (run->state == RunState::queued) {
        end_run(state, stamp, *run, RunState::cancelled, command.reason, RestOfRun::known_unspent);
        reply.state = RunState::cancelled;
        return reply;
    }
    request_stop(state, stamp, command.run, command.reason.empty() ? "cancelled" : command.reason);
    reply.status = RunStatus::stop_requested;
    reply.stop_requested = state.run(command.run)->stop_requested;
    return reply;
}

RunReply lose_run(OrgState& state, Stamp stamp, const LoseRun& command) {
    if (auto complaint = check_line("reason", command.reason)) {
        return refused(RunStatus::invalid_request, *complaint);
    }
    auto run = owned_run(state, command.run, command.fence);
    if (!run) return run.error();
    RunReply reply = done(*run);
    reply.state = RunState::lost;
    lose(state, stamp, std::move(*run), command.reason.empty() ? "its owner has disappeared" : command.reason);
    return reply;
}

namespace {

// Its supervisor looks at its places before it starts anything. A client may be at work as soon as it is admitted, and
// a run that has children is.
bool has_not_begun(OrgState& state, const Run& run) {
    return run.supervised && run.state == RunState::starting && unfinished_below(state, run).empty();
}

// A run that was granted its places and has not begun. It gives back everything but its turn in line. A run that asked
// not to wait, and a child that would wait for ever, leave the line at once and have no further try.
void put_back(OrgState& state, Stamp stamp, Run run, const std::string& reason, const std::vector<RunId>& holders) {
    const bool in_vain = waits_in_vain(state, run, WaitsFor::workspace, holders);
    close_run_holds(state, stamp, run, RestOfRun::known_unspent);
    const Run& stored = *state.run(run.id);
    state.erase_claims(stored);
    run.steps = stored.steps;
    run.stop_requested = stored.stop_requested;
    run.hold = {};
    run.fence = {};
    run.lease_until = far_past;
    move_to(state, stamp, run, RunState::queued, reason, WaitsFor::workspace);
    state.feed.add(RunChanged{run.id, run.who.agent, run.state, {}});
    state.put_run(run);
    state.org_changed = true;
    state.line_may_move = true;
    if (!run.never_waits && !in_vain) return;
    const Run& other = *state.run(holders.front());
    const std::string refusal =
        fmt::format("{}; {} of agent '{}' is in the way, and the run {}", reason, to_text("run", other.id.value),
                    other.who.agent, run.never_waits ? "asked not to wait" : "would wait for ever");
    end_run(state, stamp, std::move(run), RunState::failed, cut_text(refusal, limits::text_bytes_max),
            RestOfRun::known_unspent);
}

void take_places(OrgState& state, Stamp stamp, Run run, const std::string& reason) {
    state.erase_claims(*state.run(run.id));
    state.add_claims(run);
    state.feed.add(PlacesRestated{run.id, run.who.agent, reason});
    add_step(state, stamp, run, reason);
    state.put_run(std::move(run));
    state.line_may_move = true;
}

// The run is at work: it keeps its places, and no other run begins where they are by now. Where two are at work, the
// one that was moved is asked to stop.
void follow_moved(OrgState& state, Stamp stamp, Run run, const std::string& reason) {
    std::vector<RunId> others = colliding(state, state.claimed(), Standing::claimed, run);
    std::erase_if(others, [&](RunId id) { return is_below(state, *state.run(id), run.id); });
    const auto at_work = std::ranges::find_if(others, [&](RunId id) { return !has_not_begun(state, *state.run(id)); });
    if (at_work != others.end()) {
        return request_stop(state, stamp, run.id,
                            cut_text(fmt::format("{}, where {} works", reason, to_text("run", at_work->value)),
                                     limits::text_bytes_max));
    }
    for (const RunId id : others) {
        put_back(state, stamp, *state.run(id),
                 cut_text(fmt::format("{} is in its place: {}", to_text("run", run.id.value), reason),
                          limits::text_bytes_max),
                 {run.id});
    }
    take_places(state, stamp, std::move(run), reason);
}

}  // namespace

RunReply restate_places(OrgState& state, Stamp stamp, const RestatePlaces& command) {
    if (auto complaint = first_of(check_places(command.workspaces), check_line("reason", command.reason))) {
        return refused(RunStatus::invalid_request, *complaint);
    }
    auto run = owned_run(state, command.run, command.fence);
    if (!run) return run.error();
    const bool begun = !has_not_begun(state, *run);
    auto wanted = with_workspaces(run->wanted, command.workspaces, begun ? Restated::beside : Restated::instead);
    if (!wanted)
        return refused(RunStatus::invalid_request, "the number of workspaces differs from the request", run->state);
    if (*wanted == run->wanted) return done(*run);
    if (!begun && !run->stop_requested.empty()) {
        return refused(RunStatus::wrong_state, "cancel was requested before the run started", run->state);
    }
    run->wanted = std::move(*wanted);
    const Complaint beyond = begun ? std::nullopt : beyond_bounds(state, *run);

    // From here on it must be restated, put back, ended, or asked to stop.
    if (begun) {
        follow_moved(state, stamp, std::move(*run), command.reason);
    } else if (beyond) {
        run->wanted = state.run(run->id)->wanted;
        end_run(state, stamp, std::move(*run), RunState::failed,
                cut_text(fmt::format("{}: {}", command.reason, *beyond), limits::text_bytes_max),
                RestOfRun::known_unspent);
    } else if (const auto obstacle = place_obstacle(state, stamp, *run, nullptr)) {
        put_back(state, stamp, std::move(*run), command.reason, obstacle->in_the_way);
    } else {
        take_places(state, stamp, std::move(*run), command.reason);
    }
    const Run& now = *state.run(command.run);
    RunReply reply = done(now);
    if (has_ended(now.state)) reply.detail = now.reason;
    return reply;
}

void promote(OrgState& state, Stamp stamp) {
    state.line_waits_for = {};
    LineWalk line(state, stamp, LineWalk::Of::all);
    while (const auto key = line.next()) {
        Run run = *state.run(key->run);
        const auto obstacle = find_obstacle(state, stamp, run, &line.kept());
        if (!obstacle) {
            grant(state, stamp, run);
            // Whoever was passed, waiting for something else, may wait for this place from now on.
            if (collides_any(state.wanted(), run)) line.started(run, kept_ahead_of(state, stamp, *key));
            continue;
        }
        const bool own_budget = obstacle->denial && !obstacle->denial->impact.budget->row.scope.run.value.empty();
        line.stays(run, obstacle->what != WaitsFor::its_time && !own_budget);
        if (obstacle->what == WaitsFor::budget) {
            if (obstacle->denial) {
                state.line_waits_for.budgets.insert(obstacle->denial->refusal.budget);
                state.watch_line(obstacle->denial->refusal.window_end);
            } else {
                state.line_waits_for.any_hold = true;
            }
        }
        if (obstacle->what == WaitsFor::org_cap) return;  // Nor can anybody behind.
    }
}

void end_lease(OrgState& state, Stamp stamp, RunId id) {
    Run run = *state.run(id);
    ensure(is_live(run.state) && run.lease_until <= stamp.at, "only a lease that has run out ends");
    const Run* parent = parent_of(state, run);
    const std::string reason = parent != nullptr && parent->state == RunState::lost
                                   ? fmt::format("its parent {} was lost", to_text("run", parent->id.value))
                                   : "its lease expired without a heartbeat";
    end_leases_below(state, stamp, run);
    lose(state, stamp, std::move(run), reason);
}

void end_queueing(OrgState& state, Stamp stamp, RunId id) {
    const Run& run = *state.run(id);
    ensure(run.state == RunState::queued && run.queued_until <= stamp.at, "only patience that has run out ends");
    end_run(state, stamp, run, RunState::timed_out, "queue timeout", RestOfRun::known_unspent);
}

void request_stop_where(OrgState& state, Stamp stamp, const Scope& scope, const std::string& reason) {
    const std::vector<RunId> live(state.live_runs().begin(), state.live_runs().end());
    for (const RunId id : live) {
        if (covers(scope, state.run(id)->who)) request_stop(state, stamp, id, reason);
    }
}

void request_stop(OrgState& state, Stamp stamp, RunId id, const std::string& reason) {
    Run run = *state.run(id);
    if (!run.stop_requested.empty()) return;  // The first reason stands.
    run.stop_requested = reason;
    add_step(state, stamp, run, fmt::format("asked to stop: {}", reason));
    state.put_run(std::move(run));
    state.feed.add(RunStopRequested{id, reason});
}

void restart_leases(OrgState& state, Stamp stamp) {
    const std::vector<RunId> live(state.live_runs().begin(), state.live_runs().end());
    for (const RunId id : live) {
        Run run = *state.run(id);
        const Instant lease_until = stamp.at + std::chrono::seconds(run.lease_s);
        if (run.lease_until >= lease_until) continue;
        run.lease_until = lease_until;
        state.put_run(std::move(run));
    }
}

}  // namespace interlock::core
