#include "verify/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace interlock::verify {
namespace {

constexpr std::array<std::string_view, 3> live_states{"starting", "running", "paused"};
constexpr std::array<std::string_view, 5> ended_states{"succeeded", "failed", "cancelled", "timed_out", "lost"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

}  // namespace

// ---- what belongs to runs -----------------------------------------------------------------------------------------

void RunsCheck::read_agents() {
    reader_.each("agents", fmt::format("select name, max_concurrent_runs from agents where org = {}", org_),
                 [this](ColumnReader row) {
                     const std::string name(row.text());
                     agents_.emplace(name, row.integer());
                 });
}

void RunsCheck::read_claims() {
    const std::string sql = fmt::format(
        "select run, number, kind, host, path, chain, mode, fence from claims where org = {} order by run, number",
        org_);
    reader_.each("claims", sql, [this](ColumnReader row) {
        Claim claim;
        claim.run = row.id();
        claim.number = row.integer();
        claim.place.kind = row.text();
        claim.place.host = row.text();
        claim.place.path = row.text();
        const auto chain = texts_from(row.text());
        if (chain) claim.place.chain = *chain;
        claim.place.mode = row.text();
        claim.fence = row.integer();
        findings_.checked(Promise::one_worker_per_place);
        if (!chain) findings_.violated(Promise::one_worker_per_place, name_of(claim), "its chain cannot be read");
        claims_[claim.run].claims.push_back(std::move(claim));
    });
}

void RunsCheck::read_holds() {
    const std::string sql = fmt::format(
        "select id, {}, bound_usd, bound_tokens, bound_calls, bound_runs, parts, opened_by, state, created_at, "
        "expires_at, closed_at "
        "from holds where org = {}",
        Attribution::columns, org_);
    reader_.each("holds", sql, [this](ColumnReader row) {
        const Id id = row.id();
        const store::RowName name = row_of("holds", org_, {{"id", stored(id)}});
        const Attribution who = Attribution::read(row);
        std::array<std::int64_t, 4> bound;
        for (std::int64_t& amount : bound) amount = row.integer();
        const std::string_view parts_text = row.text();
        const bool for_run = row.text() == "run";
        const std::string_view state = row.text();
        const std::int64_t created_at = row.integer();
        const std::int64_t expires_at = row.integer();
        const std::int64_t closed_at = row.integer();

        findings_.checked(Promise::nobody_forgotten);
        const bool open = state == "open";
        if (open != (closed_at == 0)) {
            findings_.violated(Promise::nobody_forgotten, name,
                               fmt::format("is {}, and closed_at is {}", state, closed_at));
        }
        if (state == "settled") ledger_.add_settled_hold(id);
        if (!open) return;
        ledger_.add_open_hold(id);

        const auto violated = [&](std::string what) {
            findings_.violated(Promise::nobody_forgotten, name, std::move(what));
        };
        if (expires_at < created_at)
            violated(fmt::format("expires at {}, before it was made ({})", expires_at, created_at));
        if (!who.agent.empty() && !agents_.contains(who.agent))
            violated(fmt::format("there is no agent '{}'", who.agent));
        if (!who.run.empty()) holds_[who.run].push_back({id, false});
        if (std::ranges::any_of(bound, [](std::int64_t amount) { return amount < 0; })) {
            findings_.violated(Promise::hard_ceiling, name, "its bound is negative");
        }
        auto parts = parts_from(parts_text);
        if (!parts) {
            findings_.violated(Promise::hard_ceiling, name, "its parts cannot be read");
            return;
        }
        ledger_.add_hold({name, who, bound, std::move(*parts), for_run, created_at});
    });
}

void RunsCheck::read_steps() {
    const std::string sql =
        fmt::format("select run, number, state from run_steps where org = {} order by run, number", org_);
    reader_.each("steps of runs", sql, [this](ColumnReader row) {
        const Id run = row.id();
        const std::int64_t number = row.integer();
        Steps& steps = steps_[run];
        findings_.checked(Promise::nobody_forgotten);
        if (number != steps.count + 1) {
            findings_.violated(Promise::nobody_forgotten,
                               row_of("run_steps", org_, {{"run", stored(run)}, {"number", number}}),
                               fmt::format("comes after number {} of its run", steps.count));
        }
        steps.count = number;
        steps.state = row.text();
        steps.admitted |= steps.state == "starting";
        steps.put_back |= steps.admitted && steps.state == "queued";
    });
}

// ---- trees --------------------------------------------------------------------------------------------------------

// After the ledger: what the runs below a run have settled is summed up.
void RunsCheck::read_trees() {
    const std::string sql =
        fmt::format("select id, parent, state, stop_requested from runs where org = {} and parent is not null", org_);
    reader_.each("runs with a parent", sql, [this](ColumnReader row) {
        const Id id = row.id();
        Child child{.parent = row.id()};
        const bool ended = contains(ended_states, row.text());
        child.goes_on = row.text().empty() && !ended;
        by_parent_[child.parent].push_back(id);
        children_.emplace(id, child);
    });
    for (const auto& [id, child] : children_) {
        const auto cost = ledger_.of_run(id).cost;
        std::size_t steps = 0;
        for (auto at = children_.find(id); at != children_.end() && ++steps <= children_.size();) {
            settled_below_[at->second.parent] += cost;
            at = children_.find(at->second.parent);
        }
    }
}

bool RunsCheck::is_below(Id run, Id above) const {
    std::size_t steps = 0;
    for (auto at = children_.find(run); at != children_.end() && ++steps <= children_.size();) {
        if (at->second.parent == above) return true;
        at = children_.find(at->second.parent);
    }
    return false;
}

void RunsCheck::check_tree(const Run& run, bool ended) {
    const auto violated = [&](Id id, std::string what) {
        findings_.violated(Promise::nobody_forgotten, name_of(id), std::move(what));
    };
    Id root;
    std::size_t steps = 0;
    for (auto at = children_.find(run.id); at != children_.end() && ++steps <= children_.size();) {
        root = at->second.parent;
        at = children_.find(root);
    }
    if (steps > children_.size()) violated(run.id, "is below itself");
    if (steps <= children_.size() && run.root != root) {
        violated(run.id, fmt::format("its root is {}, and the first run above it is {}", to_text(stored(run.root)),
                                     to_text(stored(root))));
    }
    const auto found = by_parent_.find(run.id);
    if (found == by_parent_.end()) return;
    for (const Id child : found->second) {
        if (ended && children_.at(child).goes_on) violated(child, "goes on, and its parent has ended");
    }
    by_parent_.erase(found);
}

// ---- runs ---------------------------------------------------------------------------------------------------------

void RunsCheck::read_runs() {
    const std::string sql = fmt::format(
        "select id, {}, node, state, wanted, fence, hold, created_at, admitted_at, lease_until, started_at, ended_at, "
        "schedule, settled, tokens, events, unknown, steps, supervised, retry_of, root, "
        "settled_below, "
        "(select count(*) from launches where launches.org = runs.org and launches.run = runs.id) "
        "from runs where org = {}",
        Attribution::columns, org_);
    reader_.each("runs", sql, [this](ColumnReader row) {
        Run run;
        run.id = row.id();
        run.who = Attribution::read(row);
        run.node = row.text();
        run.state = row.text();
        run.wanted = row.text();
        run.fence = row.integer();
        run.hold = row.id();
        run.created_at = row.integer();
        run.admitted_at = row.integer();
        run.lease_until = row.integer();
        run.started_at = row.integer();
        run.ended_at = row.integer();
        run.schedule = row.text();
        run.settled = row.integer();
        run.tokens = row.integer();
        run.events = row.integer();
        run.unknown = row.integer();
        run.steps = row.integer();
        run.supervised = row.integer() == 1;
        run.retry_of = row.id();
        run.root = row.id();
        run.settled_below = row.integer();
        run.launched = row.integer() == 1;
        check_run(run);
    });
}

void RunsCheck::check_run(const Run& run) {
    const bool live = contains(live_states, run.state);
    const bool ended = contains(ended_states, run.state);
    check_state(run, live, ended);
    check_belongings(run, live);
    check_schedule(run);
    check_steps(run);
    check_tree(run, ended);
    if (run.fence > 0) fences_.emplace_back(run.fence, run.id);
    if (run.admitted_at > 0) ledger_.add_admission(run.who, run.admitted_at);
    if (live) count_live(run);

    const RunSums sums = ledger_.of_run(run.id);
    findings_.counters(Promise::exact_ledger, name_of(run.id),
                       {{"settled", run.settled, sums.cost},
                        {"tokens", run.tokens, sums.tokens},
                        {"events", run.events, sums.events},
                        {"unknown", run.unknown, sums.unknown}},
                       "its cost events");
    const auto below = settled_below_.find(run.id);
    findings_.counters(Promise::exact_ledger, name_of(run.id),
                       {{"settled_below", run.settled_below, below == settled_below_.end() ? 0 : below->second}},
                       "the runs below it");
}

void RunsCheck::check_state(const Run& run, bool live, bool ended) {
    findings_.checked(Promise::nobody_forgotten);
    const auto violated = [&](std::string what) {
        findings_.violated(Promise::nobody_forgotten, name_of(run.id), std::move(what));
    };
    const bool queued = run.state == "queued";
    if (!live && !ended && !queued) return violated(fmt::format("its state is '{}', which is none", run.state));
    if (run.who.run != run.id) violated("its attribution names another run");
    if (run.supervised != run.launched) {
        violated(run.supervised ? "nothing says what its supervisor starts" : "it has a launch, and no supervisor");
    }
    if (!agents_.contains(run.who.agent)) violated(fmt::format("there is no agent '{}'", run.who.agent));
    if (ended != (run.ended_at > 0)) violated(fmt::format("is {}, and ended_at is {}", run.state, run.ended_at));
    if (ended && run.ended_at < run.created_at)
        violated(fmt::format("ended at {}, before it was made ({})", run.ended_at, run.created_at));
    if (queued && run.fence != 0) violated(fmt::format("is queued and has the fence {}", run.fence));
    const auto steps = steps_.find(run.id);
    const bool put_back = run.fence == 0 && steps != steps_.end() && steps->second.put_back;
    if (queued && run.admitted_at != 0 && !put_back) {
        violated(fmt::format("is queued and was admitted at {}", run.admitted_at));
    }
    if ((run.fence > 0 || put_back) != (run.admitted_at > 0)) {
        violated(fmt::format("its fence is {}, and it was admitted at {}", run.fence, run.admitted_at));
    }
    const bool started = run.state == "running" || run.state == "paused";
    if ((started && run.started_at == 0) || (run.state == "starting" && run.started_at != 0)) {
        violated(fmt::format("is {}, and started_at is {}", run.state, run.started_at));
    }
    if (live && run.lease_until < run.admitted_at) {
        violated(fmt::format("is {}, and its lease ended at {}, before it was admitted ({})", run.state,
                             run.lease_until, run.admitted_at));
    }
}

void RunsCheck::check_belongings(const Run& run, bool live) {
    if (const auto holds = holds_.find(run.id); holds != holds_.end() && live) {
        for (OpenHold& hold : holds->second) hold.run_is_live = true;
    }

    static const std::vector<Claim> none;
    const auto found = claims_.find(run.id);
    if (found != claims_.end()) found->second.run_exists = true;
    const std::vector<Claim>& claims = found == claims_.end() ? none : found->second.claims;
    if (live) return check_wanted(run, claims);
    for (const Claim& claim : claims) {
        findings_.violated(Promise::nobody_forgotten, name_of(claim),
                           fmt::format("its run is {}, and still has '{}'", run.state, claim.place.path));
    }
}

void RunsCheck::check_wanted(const Run& run, const std::vector<Claim>& claims) {
    const auto violated = [&](const store::RowName& row, std::string what) {
        findings_.violated(Promise::one_worker_per_place, row, std::move(what));
    };
    const auto wanted = places_from(run.wanted);
    if (!wanted) return violated(name_of(run.id), "what it wanted cannot be read");
    if (claims.size() != wanted->size()) {
        violated(name_of(run.id), fmt::format("is {} and wanted {} places, but has {} claims", run.state,
                                              wanted->size(), claims.size()));
    }
    for (const Claim& claim : claims) {
        const bool known = claim.number >= 0 && static_cast<std::size_t>(claim.number) < wanted->size();
        if (known && (*wanted)[static_cast<std::size_t>(claim.number)] == claim.place) continue;
        violated(name_of(claim), "is not what its run wanted");
    }
    for (const Claim& claim : claims) {
        if (claim.fence == run.fence) continue;
        findings_.violated(Promise::fenced, name_of(claim),
                           fmt::format("its fence is {}, its run's is {}", claim.fence, run.fence));
    }
}

void RunsCheck::check_schedule(const Run& run) {
    if (run.retry_of != Id{}) return;  // Its first try was fired.
    const std::string* schedule = feed_.fired_by(run.id);
    if (schedule == nullptr ? run.schedule.empty() : run.schedule == *schedule) return;
    findings_.violated(Promise::one_tick, name_of(run.id),
                       fmt::format("its schedule is '{}', the feed says '{}'", run.schedule,
                                   schedule == nullptr ? std::string_view() : std::string_view(*schedule)));
}

// A run from before there were steps has none until something becomes of it.
void RunsCheck::check_steps(const Run& run) {
    const auto found = steps_.find(run.id);
    const Steps steps = found == steps_.end() ? Steps() : found->second;
    if (found != steps_.end()) steps_.erase(found);
    findings_.counters(Promise::nobody_forgotten, name_of(run.id), {{"steps", run.steps, steps.count}}, "its steps");
    if (steps.count == 0 || steps.state == run.state) return;
    findings_.violated(Promise::nobody_forgotten, name_of(run.id),
                       fmt::format("is {}, and its last step says {}", run.state, steps.state));
}

// ---- when all runs are known --------------------------------------------------------------------------------------

void RunsCheck::check_left_over() {
    for (const auto& [parent, children] : by_parent_) {
        for (const Id child : children) {
            findings_.violated(Promise::nobody_forgotten, name_of(child), "there is no such parent");
        }
    }
    for (const auto& [run, steps] : steps_) {
        findings_.violated(Promise::nobody_forgotten,
                           row_of("run_steps", org_, {{"run", stored(run)}, {"number", steps.count}}),
                           "there is no such run");
    }
    for (const auto& [run, claimed] : claims_) {
        if (claimed.run_exists) continue;
        for (const Claim& claim : claimed.claims) {
            findings_.violated(Promise::one_worker_per_place, name_of(claim), "there is no such run");
        }
    }
    for (const auto& [run, holds] : holds_) {
        for (const OpenHold& hold : holds) {
            if (hold.run_is_live) continue;
            findings_.violated(Promise::nobody_forgotten, row_of("holds", org_, {{"id", stored(hold.id)}}),
                               fmt::format("is open, and its run {} is not live", to_text(stored(run))));
        }
    }
}

// What became of each tick is numbered by what the schedule has counted. Ticks that were missed together are one row,
// and a schedule's first ones may be from before there were rows.
void RunsCheck::check_ticks() {
    const std::string sql = fmt::format(
        "select s.name, s.fired, s.skipped, s.coalesced, t.number, t.fired, t.coalesced from schedules s join "
        "(select schedule, max(number) as number, sum(case when outcome = 'fired' then 1 else 0 end) as fired, "
        "sum(case when outcome = 'coalesced' then 1 else 0 end) as coalesced from ticks where org = {0} "
        "group by schedule) t on t.schedule = s.name where s.org = {0}",
        org_);
    reader_.each("ticks", sql, [this](ColumnReader row) {
        const std::string name(row.text());
        const std::int64_t fired = row.integer();
        const std::int64_t skipped = row.integer();
        const std::int64_t coalesced = row.integer();
        const std::int64_t last = row.integer();
        const std::int64_t ticks_fired = row.integer();
        const std::int64_t ticks_coalesced = row.integer();
        findings_.checked(Promise::one_tick);
        const auto violated = [&](std::string what) {
            findings_.violated(Promise::one_tick, row_of("schedules", org_, {{"name", name}}), std::move(what));
        };
        if (last != fired + skipped + coalesced) {
            violated(fmt::format("has counted {} ticks and wakes, and the last one written down is number {}",
                                 fired + skipped + coalesced, last));
        }
        if (ticks_fired > fired || ticks_coalesced > coalesced) {
            violated(fmt::format("has fired {} times and coalesced {}; {} and {} are written down", fired, coalesced,
                                 ticks_fired, ticks_coalesced));
        }
    });
}

void RunsCheck::check_claims() {
    std::vector<Claim> all;
    for (const auto& [run, claimed] : claims_) all.insert(all.end(), claimed.claims.begin(), claimed.claims.end());
    for (const auto& [a, b] : collisions(all)) {
        // A run's claim covers the runs below it.
        if (is_below(all[a].run, all[b].run) || is_below(all[b].run, all[a].run)) continue;
        findings_.violated(
            Promise::one_worker_per_place, name_of(all[a]),
            fmt::format("{} '{}' ({}) collides with '{}' ({}) of {}", all[a].place.kind, all[a].place.path,
                        all[a].place.mode, all[b].place.path, all[b].place.mode, to_text(name_of(all[b]))));
    }
}

void RunsCheck::count_live(const Run& run) {
    // A run whose admission the feed does not know counts as the newest of all: nothing excuses it.
    const std::int64_t admitted = feed_.admitted(run.id, run.fence);
    const std::int64_t newest = admitted == 0 ? INT64_MAX : admitted;
    const auto count = [newest](LiveRuns& runs) {
        ++runs.count;
        runs.newest = std::max(runs.newest, newest);
    };
    count(live_);
    count(live_by_agent_[std::string(run.who.agent)]);
    count(live_by_provider_[std::string(run.who.provider)]);
    count(live_by_node_[std::string(run.node)]);
}

void RunsCheck::check_caps() {
    const auto runs_of = [](const ByText<LiveRuns>& groups, const std::string& name) {
        const auto found = groups.find(name);
        return found == groups.end() ? LiveRuns() : found->second;
    };
    for (const auto& [agent, max] : agents_) {
        check_cap(row_of("agents", org_, {{"name", agent}}), "max_concurrent_runs", max, feed_.agent_changed(agent),
                  runs_of(live_by_agent_, agent));
    }
    reader_.each("caps", fmt::format("select kind, name, max_live from caps where org = {}", org_),
                 [&](ColumnReader row) {
                     const std::string kind(row.text());
                     const std::string name(row.text());
                     const std::int64_t max = row.integer();
                     const LiveRuns runs =
                         kind == "org" ? live_ : runs_of(kind == "provider" ? live_by_provider_ : live_by_node_, name);
                     check_cap(row_of("caps", org_, {{"kind", kind}, {"name", name}}), "max_live", max,
                               feed_.cap_changed(kind, name), runs);
                 });
}

void RunsCheck::check_cap(const store::RowName& row, std::string_view column, std::int64_t max, std::int64_t changed,
                          const LiveRuns& runs) {
    findings_.checked(Promise::caps);
    if (runs.count <= max) return;
    // A lowered cap ends nobody. It was lowered after the last of them came, or somebody came in spite of it.
    if (changed > runs.newest) {
        findings_.note(Promise::caps,
                       fmt::format("{}: {} is {}, and {} runs that were there before it was lowered are still live",
                                   to_text(row), column, max, runs.count));
        return;
    }
    findings_.violated(Promise::caps, row, fmt::format("{} is {}, and {} runs are live", column, max, runs.count));
}

void RunsCheck::check_fences() {
    std::int64_t last_fence = 0;
    reader_.each("orgs", fmt::format("select last_fence from orgs where org = {}", org_),
                 [&](ColumnReader row) { last_fence = row.integer(); });
    std::ranges::sort(fences_);
    for (std::size_t i = 0; i < fences_.size(); ++i) {
        const auto& [fence, run] = fences_[i];
        findings_.checked(Promise::fenced);
        if (fence > last_fence) {
            findings_.violated(Promise::fenced, name_of(run),
                               fmt::format("its fence is {}, the org's last one is {}", fence, last_fence));
        }
        if (i > 0 && fences_[i - 1].first == fence) {
            findings_.violated(
                Promise::fenced, name_of(run),
                fmt::format("its fence {} is also that of {}", fence, to_text(name_of(fences_[i - 1].second))));
        }
    }
}

}  // namespace interlock::verify
