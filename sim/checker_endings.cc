// P9, nobody is forgotten: a run has exactly what its state gives it, every end frees everything, and nobody waits in
// line for something that is free.
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/calendar.h"
#include "sim/checker.h"
#include "sim/places.h"
#include "sim/scopes.h"

namespace interlock::sim {
namespace {

using namespace core;

class EndingsChecker : public Checker {
 public:
    void check(World& world, const Rows& rows) override;

 private:
    void check_runs(World& world, const Rows& rows);
    void check_holds(World& world, const Rows& rows);
    void check_line(World& world, const Rows& rows);
    void check_overdue(World& world, const Rows& rows);
};

void EndingsChecker::check(World& world, const Rows& rows) {
    check_runs(world, rows);
    check_holds(world, rows);
    check_line(world, rows);
    if (world.is_calm()) check_overdue(world, rows);
}

void EndingsChecker::check_runs(World& world, const Rows& rows) {
    using RunKey = std::pair<OrgId, RunId>;
    std::map<RunKey, std::vector<const Claim*>> claims;
    for (const auto& [key, claim] : rows.rows<Claim>()) claims[{key.first, claim.run}].push_back(&claim);
    std::map<RunKey, std::int64_t> open_holds;
    for (const auto& [key, hold] : rows.rows<Hold>()) {
        if (hold.state == HoldState::open && !hold.who.run.value.empty()) ++open_holds[{key.first, hold.who.run}];
    }
    std::map<RunKey, std::int64_t> endings;
    std::set<RunKey> put_back;  // Runs in line that were admitted before.
    for (const auto& [org_key, org] : rows.rows<Org>()) {
        for (const Event& event : world.history.of(org_key.first)) {
            if (const auto* ended = std::get_if<RunEnded>(&event)) ++endings[{org_key.first, ended->run}];
            const auto* changed = std::get_if<RunChanged>(&event);
            if (changed != nullptr && changed->state == RunState::starting)
                put_back.insert({org_key.first, changed->run});
        }
    }

    for (const auto& [key, run] : rows.rows<Run>()) {
        const auto wrong = [&](const std::string& what) {
            world.violated(Promise::nobody_forgotten,
                           fmt::format("run {:x} ({}) {}", run.id.value.low,
                                       boost::describe::enum_to_string(run.state, "?"), what));
        };
        const auto found = claims.find(key);
        const std::size_t claimed = found == claims.end() ? 0 : found->second.size();
        const std::int64_t held = open_holds.contains(key) ? open_holds[key] : 0;
        const auto own = rows.rows<Hold>().find({key.first, run.hold});
        const bool has_own_hold = !run.hold.value.empty();
        if (has_own_hold && own == rows.rows<Hold>().end()) {
            wrong("has a hold that is not there");
            continue;
        }
        if (!run.parent.value.empty() && !has_ended(run.state)) {
            const auto parent = rows.rows<Run>().find({key.first, run.parent});
            if (parent == rows.rows<Run>().end()) {
                wrong("has a parent that is not there");
            } else if (has_ended(parent->second.state) &&
                       (run.stop_requested.empty() || run.state == RunState::queued)) {
                wrong("goes on after its parent");
            }
        }
        if (endings[key] != (has_ended(run.state) ? 1 : 0))
            wrong(fmt::format("has {} endings in the feed", endings[key]));

        if (is_live(run.state)) {
            if (claimed != run.wanted.size())
                wrong(fmt::format("wants {} places and claims {}", run.wanted.size(), claimed));
            for (std::size_t i = 0; i < std::min(claimed, run.wanted.size()); ++i) {
                const Claim& claim = *found->second[i];
                if (claim.place != run.wanted[i] || claim.fence != run.fence)
                    wrong("has a claim that is not its own: " + to_text(claim.place));
            }
            if ((run.hold_bound != Amounts{}) != has_own_hold) wrong("does not have the hold it was admitted with");
            if (has_own_hold && own->second.state != HoldState::open) wrong("has lost its hold before its end");
            continue;
        }
        if (claimed > 0) wrong(fmt::format("still claims {} places", claimed));
        if (held > 0) wrong(fmt::format("still holds money, {} times", held));
        const bool in_line = run.state == RunState::queued;
        if (in_line && (has_own_hold || run.fence.value != 0 || run.lease_until != far_past)) {
            wrong("is in line and has something already");
        }
        if (in_line && (run.admitted_at != far_past) != put_back.contains(key)) {
            wrong("is in line, and its row and the feed do not agree on whether it was admitted before");
        }
        // Nobody knows what it spent, so it is charged what it was given.
        if (run.state == RunState::lost && has_own_hold && !run.metered) {
            if (own->second.state != HoldState::settled && own->second.bound != Amounts{})
                wrong("was lost and not charged");
        }
    }
    for (const auto& [key, _] : claims) {
        if (!rows.rows<Run>().contains(key)) {
            world.violated(Promise::nobody_forgotten,
                           fmt::format("run {:x} claims places and is not there", key.second.value.low));
        }
    }
}

// Money that may have been spent is given back only by somebody who says that it was not.
void EndingsChecker::check_holds(World& world, const Rows& rows) {
    std::set<std::pair<OrgId, HoldId>> given_back;
    for (const Call& call : world.calls()) {
        const auto* release = std::get_if<ReleaseHold>(&call.command.body);
        if (release != nullptr && (call.done || call.may_have_happened()))
            given_back.insert({call.command.org, release->hold});
    }
    for (const auto& [key, hold] : rows.rows<Hold>()) {
        if (hold.state != HoldState::released || !hold.dispatched || hold.for_run() || given_back.contains(key))
            continue;
        world.violated(Promise::nobody_forgotten,
                       fmt::format("hold {:x} was dispatched, and released by nobody", hold.id.value.low));
    }
    for (const auto& [key, agent] : rows.rows<Agent>()) {
        for (const AgentPause& pause : agent.pauses) {
            if (!pause.by.starts_with("budget:")) continue;
            const auto budget = rows.rows<Budget>().find({key.first, pause.by.substr(7)});
            if (budget != rows.rows<Budget>().end() && !budget->second.deleted) continue;
            world.violated(Promise::nobody_forgotten,
                           fmt::format("{} is paused by {}, which is not in force", agent.name, pause.by));
        }
    }
}

std::set<RunId> runs_above(const auto& runs, const std::pair<OrgId, RunId>& key) {
    std::set<RunId> above;
    for (auto at = runs.find(key); at != runs.end(); at = runs.find({key.first, at->second.parent})) {
        if (!at->second.parent.value.empty()) above.insert(at->second.parent);
    }
    return above;
}

// Whoever could start beyond doubt is not in line: its agent works, no hard budget covers it, nobody has or wants its
// places, and every cap has room.
void EndingsChecker::check_line(World& world, const Rows& rows) {
    const auto& runs = rows.rows<Run>();
    const auto count = [&](OrgId org, const auto& matches) {
        std::int64_t live = 0;
        for (auto run = runs.lower_bound({org, RunId()}); run != runs.end() && run->first.first == org; ++run) {
            live += is_live(run->second.state) && matches(run->second);
        }
        return live;
    };
    for (const auto& [key, run] : runs) {
        if (run.state != RunState::queued) continue;
        const OrgId org = key.first;
        const auto agent = rows.rows<Agent>().find({org, run.who.agent});
        if (agent == rows.rows<Agent>().end() || agent->second.archived || !agent->second.pauses.empty()) continue;
        // Before its time it waits for that; the moment after, the engine may not have been told yet.
        bool certain = run.not_before <= far_past;
        const std::set<RunId> above = runs_above(runs, key);
        for (const RunId id : above) certain = certain && runs.at({org, id}).ceiling == 0;
        for (const auto& [budget_key, budget] : rows.rows<Budget>()) {
            if (budget_key.first == org && !budget.deleted && is_covered(run.who, budget.scope)) certain = false;
        }
        for (const auto& [claim_key, claim] : rows.rows<Claim>()) {
            if (claim_key.first != org || above.contains(claim.run)) continue;
            for (const Place& place : run.wanted) certain = certain && !overlap(place, claim.place);
        }
        for (const auto& [other_key, other] : runs) {
            if (other_key.first != org || other.state != RunState::queued || other.id == run.id) continue;
            for (const Place& place : run.wanted) {
                for (const Place& theirs : other.wanted) certain = certain && !overlap(place, theirs);
            }
        }
        const auto full = [&](CapKind kind, const std::string& name, const auto& matches) {
            const auto cap = rows.rows<Cap>().find({org, {kind, name}});
            return cap != rows.rows<Cap>().end() && count(org, matches) >= cap->second.max_live;
        };
        if (!certain || full(CapKind::org, "", [](const Run&) { return true; })) continue;
        if (!run.who.provider.empty() &&
            full(CapKind::provider, run.who.provider, [&](const Run& r) { return r.who.provider == run.who.provider; }))
            continue;
        if (!run.node.empty() && full(CapKind::node, run.node, [&](const Run& r) { return r.node == run.node; }))
            continue;
        if (count(org, [&](const Run& r) { return r.who.agent == run.who.agent; }) >= agent->second.max_concurrent_runs)
            continue;
        world.violated(Promise::nobody_forgotten,
                       fmt::format("run {:x} of {} waits in line for nothing", run.id.value.low, run.who.agent));
    }
}

// Once time has been told and everybody answered, nothing is left that should have ended by itself.
void EndingsChecker::check_overdue(World& world, const Rows& rows) {
    const auto overdue = [&](Instant due, const std::string& what) {
        if (due > world.now()) return;
        world.violated(Promise::nobody_forgotten,
                       fmt::format("{} ended at {} and it is {}", what, to_iso8601(due), to_iso8601(world.now())));
    };
    for (const auto& [key, run] : rows.rows<Run>()) {
        if (is_live(run.state)) overdue(run.lease_until, fmt::format("the lease of run {:x}", run.id.value.low));
        if (run.state == RunState::queued)
            overdue(run.queued_until, fmt::format("the patience of run {:x}", run.id.value.low));
    }
    for (const auto& [key, hold] : rows.rows<Hold>()) {
        if (hold.state == HoldState::open && !hold.for_run())
            overdue(hold.expires_at, fmt::format("hold {:x}", hold.id.value.low));
    }
    for (const auto& [key, agent] : rows.rows<Agent>()) {
        for (const AgentPause& pause : agent.pauses)
            overdue(pause.until, fmt::format("the pause of {} by {}", agent.name, pause.by));
    }
}

}  // namespace

std::unique_ptr<Checker> make_endings_checker() { return std::make_unique<EndingsChecker>(); }

}  // namespace interlock::sim
