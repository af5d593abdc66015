#include "core/run_tree.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ensure.h"
#include "core/limits.h"
#include "core/places.h"

namespace interlock::core {
namespace {

std::string name_of(const Run& run) { return to_text("run", run.id.value); }

RunId root_of(const Run& run) { return run.root.value.empty() ? run.id : run.root; }

bool is_enclosed(const Run& parent, const Place& place) {
    return std::ranges::any_of(parent.wanted, [&](const Place& outer) { return encloses(outer, place); });
}

std::string workspaces_of(const Run& run) {
    std::string list;
    for (const Place& place : run.wanted) {
        if (place.kind != ClaimKind::workspace) continue;
        list += fmt::format("{}'{}'{}", list.empty() ? "" : ", ", place.path,
                            place.mode == ClaimMode::read ? " for reading" : "");
    }
    return list.empty() ? "none" : list;
}

Complaint refuse_place(const Run& parent, std::string_view what, const std::string& path) {
    return fmt::format(
        "{}'{}' is outside the claims of the parent {}: {}; choose a directory inside them, or start the run "
        "outside of this run",
        what, path, name_of(parent), workspaces_of(parent));
}

Complaint outside_parent(const Run& parent, const Place& place) {
    if (place.kind != ClaimKind::workspace || is_enclosed(parent, place)) return std::nullopt;
    return refuse_place(parent, "", place.path);
}

Complaint outside_parent(OrgState& state, const Run& parent, const AdmitRun& command) {
    Complaint complaint;
    const auto check = [&](const Place& place) { complaint = first_of(complaint, outside_parent(parent, place)); };
    for (const Place& place : command.places) check(place);
    if (command.isolate_into) check(*command.isolate_into);
    if (complaint || !command.worktrees) return complaint;
    // The parent's own worktree has its git directory in the repository it was taken from.
    const Worktree* worktree = state.worktree(parent.id);
    for (const std::string& path : command.repository) {
        Place part{.kind = ClaimKind::workspace, .host = {}, .path = path, .chain = {}, .mode = ClaimMode::read};
        const bool inside = std::ranges::any_of(parent.wanted, [&](const Place& outer) {
            part.host = outer.host;
            return encloses(outer, part);
        });
        const bool is_its_repository = worktree != nullptr && is_at_or_below(path, worktree->repository);
        if (!inside && !is_its_repository)
            return refuse_place(parent, "the worktree would have a repository whose part ", path);
    }
    return std::nullopt;
}

bool is_on_run_alone(const LiveBudget& budget, RunId run) { return budget.row.scope.run == run; }

// Whether the run waits, or will, for a run below it.
bool waits_for_child(OrgState& state, RunId run) {
    return std::ranges::any_of(state.children_in_line(),
                               [&](RunId child) { return is_below(state, *state.run(child), run); });
}

}  // namespace

const Run* parent_of(OrgState& state, const Run& run) {
    return run.parent.value.empty() ? nullptr : state.run(run.parent);
}

bool is_below(OrgState& state, const Run& run, RunId above) {
    if (run.root == above && !above.value.empty()) return true;
    for (const Run* at = &run; at != nullptr; at = parent_of(state, *at)) {
        if (!at->parent.value.empty() && at->parent == above) return true;
    }
    return false;
}

std::vector<RunId> unfinished_below(OrgState& state, const Run& run) {
    std::vector<RunId> found = state.unfinished_in_tree(root_of(run));
    std::erase_if(found, [&](RunId id) { return !is_below(state, *state.run(id), run.id); });
    return found;
}

std::optional<RefusedChild> refuse_child(OrgState& state, const AdmitRun& command) {
    const Run* parent = state.run(command.parent);
    if (parent == nullptr || !is_live(parent->state)) {
        return RefusedChild{AdmitStatus::parent_not_live, "the parent run is not live"};
    }
    if (!parent->stop_requested.empty()) {
        return RefusedChild{AdmitStatus::parent_not_live,
                            fmt::format("cancel was requested for {}, so it cannot start runs", name_of(*parent))};
    }
    if (command.who.agent != parent->who.agent) {
        const Agent* agent = state.agent(parent->who.agent);
        if (agent == nullptr ||
            std::ranges::find(agent->child_agents, command.who.agent) == agent->child_agents.end()) {
            return RefusedChild{
                AdmitStatus::beyond_parent,
                fmt::format("runs of agent '{}' may not start runs of agent '{}'; an operator can allow it",
                            parent->who.agent, command.who.agent)};
        }
    }
    if (auto complaint = outside_parent(state, *parent, command)) {
        return RefusedChild{AdmitStatus::beyond_parent, std::move(*complaint)};
    }
    std::size_t depth = 1;
    for (const Run* at = parent; at != nullptr; at = parent_of(state, *at), ++depth) {
        for (const LiveBudget* budget : state.budgets_covering(at->who)) {
            if (!is_on_run_alone(*budget, at->id)) continue;
            return RefusedChild{AdmitStatus::beyond_parent,
                                fmt::format("budget '{}' covers only {} and would not count the cost of a child run",
                                            budget->row.name, name_of(*at))};
        }
        if (depth <= limits::run_depth_max) continue;
        return RefusedChild{AdmitStatus::beyond_parent,
                            fmt::format("a child run may have at most {} levels above it", limits::run_depth_max)};
    }
    return std::nullopt;
}

Complaint outside_parent(OrgState& state, const Run& run) {
    const Run* parent = parent_of(state, run);
    Complaint complaint;
    if (parent == nullptr || run.isolated) return complaint;
    for (const Place& place : run.wanted) complaint = first_of(complaint, outside_parent(*parent, place));
    return complaint;
}

Complaint too_many_in_tree(OrgState& state, RunId parent) {
    const RunId root = root_of(*state.run(parent));
    if (state.unfinished_in_tree(root).size() < limits::unfinished_runs_per_tree_max) return std::nullopt;
    return fmt::format("{} has at most {} unfinished runs below it; wait until some have ended",
                       to_text("run", root.value), limits::unfinished_runs_per_tree_max);
}

void add_parent(OrgState& state, Run& run, RunId parent) {
    run.parent = parent;
    run.root = root_of(*state.run(parent));
}

std::vector<RunId> in_the_way(OrgState& state, const PlaceIndex& places, Standing standing, const Run& run,
                              const Place& place) {
    std::vector<RunId> found = places.colliding(place, run.id);
    const Run* parent = parent_of(state, run);
    if (parent == nullptr || found.empty()) return found;
    // What the parent claims, no run from outside of it can be given before the parent ends: its turn there keeps
    // no child back, or both would wait for ever.
    const bool only_siblings = standing == Standing::kept && is_enclosed(*parent, place);
    std::erase_if(found, [&](RunId id) {
        const Run& other = *state.run(id);
        return only_siblings ? !is_below(state, other, parent->id) : is_below(state, run, id);
    });
    return found;
}

bool is_in_the_way(OrgState& state, const PlaceIndex& places, Standing standing, const Run& run, const Place& place) {
    if (run.parent.value.empty()) return places.collides(place, run.id);
    return !in_the_way(state, places, standing, run, place).empty();
}

std::optional<CeilingRoom> room_below_ceilings(OrgState& state, const Run* run, const Hold* own) {
    std::optional<CeilingRoom> least;
    std::int64_t drawn = 0;
    for (; run != nullptr; run = parent_of(state, *run)) {
        if (run->ceiling > 0) {
            CeilingRoom room{.run = run,
                             .settled = run->settled + run->settled_below,
                             .held = static_cast<std::int64_t>(state.held_in_run(run->id).usd)};
            for (const RunId id : unfinished_below(state, *run)) {
                const Run& below = *state.run(id);
                room.held += static_cast<std::int64_t>(state.held_in_run(id).usd);
                const Hold* hold = below.hold.value.empty() ? nullptr : state.hold(below.hold);
                if (hold != nullptr && hold->state == HoldState::open) room.held += hold->bound.usd;
            }
            room.free = std::max<std::int64_t>(0, run->ceiling - room.settled - room.held) + drawn;
            if (!least || room.free < least->free) least = room;
        }
        if (own != nullptr && own->who.run == run->id) drawn = own->bound.usd;
    }
    return least;
}

void inherit(Attribution& who, const Run& run) {
    if (who.agent.empty()) who.agent = run.who.agent;
    if (who.provider.empty()) who.provider = run.who.provider;
    if (who.model.empty()) who.model = run.who.model;
    if (who.api_key.empty()) who.api_key = run.who.api_key;
    if (!run.who.workflow.empty()) who.workflow = run.who.workflow;
    if (!run.who.session.value.empty()) who.session = run.who.session;
    for (const auto& [name, value] : run.who.tags) who.tags[name] = value;
}

std::optional<BudgetRefusal> past_ceiling(const std::optional<CeilingRoom>& room, std::int64_t more) {
    if (!room || more == 0 || more <= room->free) return std::nullopt;
    return BudgetRefusal{.budget = to_text("run", room->run->id.value),
                         .metric = Metric::usd,
                         .limit_units = room->run->ceiling,
                         .settled = room->settled,
                         .held = room->held,
                         .requested = more,
                         .free = room->free,
                         .open_holds = 0,
                         .window_end = far_future,
                         .frozen = {}};
}

std::string describe(const BudgetRefusal& no) {
    const auto amount = [&](std::int64_t units) {
        return no.metric == Metric::usd ? "$" + to_text(Money::nanos(units)) : fmt::format("{}", units);
    };
    return fmt::format("budget '{}' has {} left of {} ({} spent, {} held); {} needed", no.budget, amount(no.free),
                       amount(no.limit_units), amount(no.settled), amount(no.held), amount(no.requested));
}

bool waits_in_vain(OrgState& state, const Run& run, WaitsFor what, const std::vector<RunId>& holders) {
    if (run.parent.value.empty()) return false;
    if (what == WaitsFor::workspace) {
        return std::ranges::any_of(holders, [&](RunId id) {
            return is_live(state.run(id)->state) && waits_for_child(state, id) &&
                   !is_below(state, *state.run(id), run.parent);
        });
    }
    const auto has_slot = [&](const Run& other) {
        switch (what) {
            case WaitsFor::agent_cap:
                return other.who.agent == run.who.agent;
            case WaitsFor::provider_cap:
                return other.who.provider == run.who.provider;
            case WaitsFor::node_cap:
                return other.node == run.node;
            default:
                return what == WaitsFor::org_cap;
        }
    };
    return std::ranges::none_of(state.live_runs(), [&](RunId id) {
        return has_slot(*state.run(id)) && !is_below(state, run, id) && !waits_for_child(state, id);
    });
}

void end_leases_below(OrgState& state, Stamp stamp, const Run& run) {
    for (const RunId id : unfinished_below(state, run)) {
        Run below = *state.run(id);
        if (!is_live(below.state)) continue;
        below.lease_until = std::min(below.lease_until, stamp.at);
        state.put_run(std::move(below));
    }
}

bool is_left_to_lease(OrgState& state, const Run& run) {
    const Run* parent = parent_of(state, run);
    return !run.supervised && parent != nullptr && has_ended(parent->state);
}

void count_above(OrgState& state, const Run& run, std::int64_t usd) {
    for (RunId id = run.parent; !id.value.empty() && state.run(id) != nullptr;) {
        Run& above = state.edit_run_totals(id);
        if (above.settled_below < limits::counter_max) {
            above.settled_below = std::min(above.settled_below + usd, limits::counter_max);
        }
        id = above.parent;
    }
}

}  // namespace interlock::core
