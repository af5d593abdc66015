#include "core/org_state.h"

#include <algorithm>

#include "base/codec.h"
#include "base/ensure.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

// How many clean rows of a cached kind stay in memory between batches.
constexpr std::size_t cached_rows_max = 20'000;

std::string tag_key(const std::string& name, const std::string& value) { return name + '=' + value; }

// All that decides whether a queued run may start, but for its own id and the time of its retry.
std::string line_group(const Run& run) {
    std::string bytes;
    Encoder encoder(bytes);
    Attribution who = run.who;
    who.run = {};
    encoder.put(who);
    encoder.put(run.hold_bound);
    encoder.put(run.node);
    encoder.put(run.wanted);
    encoder.put(run.parent);
    return bytes;
}

}  // namespace

bool covers(const Scope& scope, const Attribution& who) {
    const auto agrees = [](const auto& stated, const auto& actual) {
        return stated == std::remove_cvref_t<decltype(stated)>{} || stated == actual;
    };
    if (!agrees(scope.agent, who.agent) || !agrees(scope.workflow, who.workflow)) return false;
    if (!agrees(scope.provider, who.provider) || !agrees(scope.model, who.model)) return false;
    if (!agrees(scope.api_key, who.api_key) || !agrees(scope.run, who.run)) return false;
    if (!agrees(scope.session, who.session)) return false;
    return std::ranges::all_of(scope.tags, [&](const auto& tag) {
        const auto found = who.tags.find(tag.first);
        return found != who.tags.end() && found->second == tag.second;
    });
}

namespace {

const std::string& name_of(const LiveBudget* budget) { return budget->row.name; }

template <class Map, class Key>
void count_one(Map& map, const Key& key, bool add) {
    if (add) {
        ++map[key];
        return;
    }
    const auto found = map.find(key);
    ensure(found != map.end() && found->second > 0, "what is taken out of an index was put in");
    if (--found->second == 0) map.erase(found);
}

}  // namespace

OrgState::OrgState(OrgId org_id, RowSource& row_source)
    : id(org_id),
      source(row_source),
      agent_totals(org_id, row_source),
      api_keys(org_id, row_source),
      caps(org_id, row_source),
      settings(org_id, row_source),
      windows(org_id, row_source),
      sessions(org_id, row_source),
      rollups(org_id, row_source),
      corrected_costs(org_id, row_source),
      messages(org_id, row_source),
      cost_events(org_id, row_source),
      answers(org_id, row_source),
      launches(org_id, row_source),
      model_calls(org_id, row_source),
      spend_marks(org_id, row_source),
      run_steps(org_id, row_source),
      ticks(org_id, row_source),
      agents_(org_id, row_source),
      budgets_(org_id, row_source),
      schedules_(org_id, row_source),
      holds_(org_id, row_source),
      runs_(org_id, row_source),
      claims_(org_id, row_source),
      worktrees_(org_id, row_source) {}

// ---- agents and schedules -----------------------------------------------------------------------------------------

namespace {
template <class Row>
void put_row(RowTable<Row>& table, Row row) {
    const auto key = key_of(row);
    if (table.find(key) != nullptr) {
        table.edit(key) = std::move(row);
    } else {
        table.insert(std::move(row));
    }
}
}  // namespace

void OrgState::put_agent(Agent agent) {
    if (const Agent* before = agents_.find(agent.name)) index(*before, false);
    index(agent, true);
    put_row(agents_, std::move(agent));
}

void OrgState::index(const Agent& agent, bool add) {
    for (const AgentPause& pause : agent.pauses) {
        const std::pair paused{pause.by, agent.name};
        add ? void(paused_.insert(paused)) : void(paused_.erase(paused));
        const Deadline ends{pause.until, DeadlineKind::pause_ends, {}, agent.name};
        if (pause.until < far_future) add ? void(deadlines_.insert(ends)) : void(deadlines_.erase(ends));
    }
}

std::vector<std::string> OrgState::agents_paused_by(const std::string& by) const {
    std::vector<std::string> found;
    for (auto it = paused_.lower_bound({by, ""}); it != paused_.end() && it->first == by; ++it) {
        found.push_back(it->second);
    }
    return found;
}

void OrgState::put_schedule(Schedule schedule) {
    if (const Schedule* before = schedules_.find(schedule.name)) index(*before, false);
    index(schedule, true);
    put_row(schedules_, std::move(schedule));
}

Instant due_at(const Schedule& schedule, Instant tick) {
    if (schedule.jitter_s == 0) return tick;
    const Id spread = id_from_hash(schedule.name + '@' + std::to_string(micros(tick)));
    const auto delay_s = static_cast<std::int64_t>(spread.low % static_cast<std::uint64_t>(schedule.jitter_s + 1));
    return tick + std::chrono::seconds(delay_s);
}

void OrgState::index(const Schedule& schedule, bool add) {
    if (schedule.deleted || !schedule.enabled) return;
    const Deadline due{due_at(schedule, schedule.next_at), DeadlineKind::schedule_due, {}, schedule.name};
    add ? void(deadlines_.insert(due)) : void(deadlines_.erase(due));
}

// ---- budgets ------------------------------------------------------------------------------------------------------

void OrgState::put_budget(Budget budget) {
    const std::string name = budget.name;
    const Budget* before = budgets_.find(name);
    const bool stays_in_force =
        before != nullptr && !before->deleted && !budget.deleted && before->scope == budget.scope;
    if (stays_in_force) {
        live_budgets_.find(name)->second.row = budget;
        put_row(budgets_, std::move(budget));
        return;
    }
    if (before != nullptr && !before->deleted) {
        std::erase(budget_bucket(before->scope), live_budget(name));
        live_budgets_.erase(name);
    }
    put_row(budgets_, std::move(budget));
    index_budget(name);
}

void OrgState::index_budget(const std::string& name) {
    const Budget& budget = *budgets_.find(name);
    if (budget.deleted) return;
    // The zone was checked when the budget was made. If the zone database has lost it since, UTC is the least surprise.
    const Zone zone = find_zone(budget.zone).value_or(utc());
    LiveBudget& live = live_budgets_.emplace(name, LiveBudget{budget, zone, {far_past, far_past}}).first->second;
    Bucket& bucket = budget_bucket(budget.scope);
    bucket.insert(std::ranges::lower_bound(bucket, name, {}, name_of), &live);
}

std::vector<LiveBudget*>& OrgState::budget_bucket(const Scope& scope) {
    if (!scope.run.value.empty()) return by_run_[scope.run.value];
    if (!scope.session.value.empty()) return by_session_[scope.session.value];
    if (!scope.api_key.empty()) return by_api_key_[scope.api_key];
    if (!scope.agent.empty()) return by_agent_[scope.agent];
    if (!scope.workflow.empty()) return by_workflow_[scope.workflow];
    if (!scope.model.empty()) return by_model_[scope.model];
    if (!scope.provider.empty()) return by_provider_[scope.provider];
    if (!scope.tags.empty()) return by_tag_[tag_key(scope.tags.begin()->first, scope.tags.begin()->second)];
    return of_org_;
}

std::vector<LiveBudget*> OrgState::budgets_covering(const Attribution& who) {
    std::vector<LiveBudget*> found;
    const auto add_bucket = [&](const Bucket& bucket) {
        for (LiveBudget* budget : bucket) {
            if (covers(budget->row.scope, who)) found.push_back(budget);
        }
    };
    const auto add = [&](const auto& buckets, const auto& key) {
        if (buckets.empty()) return;
        if (const auto bucket = buckets.find(key); bucket != buckets.end()) add_bucket(bucket->second);
    };
    add_bucket(of_org_);
    add(by_agent_, who.agent);
    add(by_workflow_, who.workflow);
    add(by_provider_, who.provider);
    add(by_model_, who.model);
    add(by_api_key_, who.api_key);
    add(by_run_, who.run.value);
    add(by_session_, who.session.value);
    if (!by_tag_.empty()) {
        for (const auto& [name, value] : who.tags) add(by_tag_, tag_key(name, value));
    }
    std::ranges::sort(found, {}, name_of);
    return found;
}

LiveBudget* OrgState::live_budget(const std::string& name) {
    const auto found = live_budgets_.find(name);
    return found == live_budgets_.end() ? nullptr : &found->second;
}

// ---- counters -----------------------------------------------------------------------------------------------------

Rollup& OrgState::edit_rollup(std::int32_t day, const Attribution& who) {
    if (last_rollup_ && last_rollup_->day == day && last_rollup_->agent == who.agent &&
        last_rollup_->provider == who.provider && last_rollup_->model == who.model) {
        return rollups.edit(last_rollup_);
    }
    const KeyOf<Rollup> key{day, who.agent, who.provider, who.model};
    last_rollup_ = rollups.look_up(key);
    if (last_rollup_) return rollups.edit(last_rollup_);
    return rollups.insert(with_key<Rollup>(key));
}

// ---- holds --------------------------------------------------------------------------------------------------------

void OrgState::open_hold(Hold hold) {
    index(hold, true);
    holds_.insert(std::move(hold));
}

void OrgState::index(const Hold& hold, bool add) {
    if (hold.state != HoldState::open) return;
    count_held(hold, add);
    for (const HoldPart& part : hold.parts) count_one(parts_by_budget_, part.budget, add);
    const bool under_way = hold.dispatched && !hold.for_run() && !hold.who.provider.empty();
    if (under_way) count_one(calls_by_provider_, hold.who.provider, add);
    const std::pair open{hold.who.run, hold.id};
    const Deadline expires{hold.expires_at, DeadlineKind::hold_expires, hold.id.value, {}};
    if (add) {
        open_holds_.insert(open);
        if (!hold.for_run()) deadlines_.insert(expires);  // A run's own hold lives as long as the run.
    } else {
        open_holds_.erase(open);
        deadlines_.erase(expires);
    }
}

std::int64_t OrgState::settled_usd() const {
    return static_cast<std::int64_t>(std::min<Wide>(settled_usd_, limits::counter_max));
}

void OrgState::count_held(const Hold& hold, bool add) {
    const auto change = [&](Held& held) {
        held.holds += add ? 1 : std::size_t(-1);
        held.usd += add ? hold.bound.usd : -hold.bound.usd;
        held.tokens += add ? hold.bound.tokens : -hold.bound.tokens;
        ensure(held.usd >= 0 && held.tokens >= 0, "what is taken out of a sum was put in");
        return held.holds == 0;
    };
    const auto change_in = [&](auto& map, const auto& key) {
        const auto found = map.try_emplace(key).first;
        if (change(found->second)) map.erase(found);
    };
    change(held_);
    change_in(held_by_agent_, hold.who.agent);
    change_in(held_by_key_, hold.who.api_key);
    if (!hold.who.run.value.empty() && !hold.for_run()) change_in(held_in_run_, hold.who.run);
}

std::vector<HoldId> OrgState::open_holds() const {
    std::vector<HoldId> found;
    for (const auto& [run, hold] : open_holds_) found.push_back(hold);
    return found;
}

std::vector<HoldId> OrgState::open_holds_of(RunId run) const {
    std::vector<HoldId> found;
    for (auto it = open_holds_.lower_bound({run, HoldId()}); it != open_holds_.end() && it->first == run; ++it) {
        found.push_back(it->second);
    }
    return found;
}

// ---- sessions -----------------------------------------------------------------------------------------------------

void OrgState::open_session(Session session) {
    ensure(!session.closed, "a session begins open");
    count_session(session, true);
    sessions.insert(std::move(session));
}

void OrgState::close_session(SessionId session_id) {
    const Session& session = *sessions.find(session_id);
    ensure(!session.closed, "a session is closed once");
    count_session(session, false);
    sessions.edit(session_id).closed = true;
}

// The store counts what is committed. That is all of them, because no session is made or closed before this was asked.
SessionCounts& OrgState::counted_sessions() {
    if (open_sessions_) return *open_sessions_;
    const std::vector<OpenSessions> stored = source.open_sessions(id);
    if (source.failed()) throw SourceFailed{};
    SessionCounts& counts = open_sessions_.emplace();
    for (const OpenSessions& open : stored) {
        const auto sessions_open = static_cast<std::size_t>(open.count);
        counts.in_org += sessions_open;
        counts.by_agent[open.agent] += sessions_open;
        counts.by_key[open.api_key] += sessions_open;
    }
    return counts;
}

void OrgState::count_session(const Session& session, bool add) {
    SessionCounts& counts = counted_sessions();
    counts.in_org += add ? 1 : std::size_t(-1);
    count_one(counts.by_agent, session.agent, add);
    count_one(counts.by_key, session.api_key, add);
}

// ---- runs and claims ----------------------------------------------------------------------------------------------

void OrgState::put_run(Run run) {
    if (const Run* before = runs_.find(run.id)) index(*before, false);
    index(run, true);
    put_row(runs_, std::move(run));
}

void OrgState::index(const Run& run, bool add) {
    if (has_ended(run.state)) return;
    const auto set_in = [add](auto& set, auto value) { add ? void(set.insert(value)) : void(set.erase(value)); };
    if (!run.schedule.empty()) set_in(unfinished_by_schedule_, std::pair(run.schedule, run.id));
    count_one(unfinished_by_key_, run.who.api_key, add);
    if (!run.root.value.empty()) set_in(unfinished_by_root_, std::pair(run.root, run.id));
    if (run.state == RunState::queued) {
        set_in(line_, line_key(run));
        const auto group =
            line_groups_.try_emplace(line_group(run), LineGroup{run.who.agent, !run.wanted.empty(), {}}).first;
        set_in(group->second.keys, line_key(run));
        if (group->second.keys.empty()) line_groups_.erase(group);
        count_one(queued_by_agent_, run.who.agent, add);
        if (!run.parent.value.empty()) set_in(children_in_line_, run.id);
        for (const Place& place : run.wanted) add ? wanted_.add(run.id, place) : wanted_.remove(run.id, place);
        if (run.not_before > run.created_at) {
            set_in(deadlines_, Deadline{run.not_before, DeadlineKind::line_may_move, run.id.value, {}});
        }
        if (run.queued_until < far_future) {
            set_in(deadlines_, Deadline{run.queued_until, DeadlineKind::queue_ends, run.id.value, {}});
        }
        return;
    }
    set_in(live_runs_, run.id);
    set_in(deadlines_, Deadline{run.lease_until, DeadlineKind::lease_ends, run.id.value, {}});
    count_one(live_by_agent_, run.who.agent, add);
    if (!run.who.provider.empty()) count_one(live_by_provider_, run.who.provider, add);
    if (!run.node.empty()) count_one(live_by_node_, run.node, add);
}

std::vector<RunId> OrgState::unfinished_in_tree(RunId root) const {
    std::vector<RunId> found;
    for (auto it = unfinished_by_root_.lower_bound({root, RunId()});
         it != unfinished_by_root_.end() && it->first == root; ++it) {
        found.push_back(it->second);
    }
    return found;
}

std::vector<RunId> OrgState::unfinished_of_schedule(const std::string& schedule) const {
    std::vector<RunId> found;
    for (auto it = unfinished_by_schedule_.lower_bound({schedule, RunId()});
         it != unfinished_by_schedule_.end() && it->first == schedule; ++it) {
        found.push_back(it->second);
    }
    return found;
}

void OrgState::add_claims(const Run& run) {
    std::int32_t number = 0;
    for (const Place& place : run.wanted) {
        claimed_.add(run.id, place);
        claims_.insert({run.id, number++, place, run.fence, run.parent});
    }
}

void OrgState::erase_claims(const Run& run) {
    std::int32_t number = 0;
    for (const Place& place : run.wanted) {
        claimed_.remove(run.id, place);
        claims_.erase({run.id, number++});
    }
}

// ---- worktrees ----------------------------------------------------------------------------------------------------

void OrgState::put_worktree(Worktree worktree) {
    if (const Worktree* before = worktrees_.find(worktree.run)) index(*before, false);
    index(worktree, true);
    put_row(worktrees_, std::move(worktree));
}

void OrgState::erase_worktree(RunId run_id) {
    index(*worktrees_.find(run_id), false);
    worktrees_.erase(run_id);
}

const Worktree* OrgState::worktree_at(const std::string& path) {
    const auto found = worktree_by_path_.find(path);
    return found == worktree_by_path_.end() ? nullptr : worktrees_.find(found->second);
}

void OrgState::index(const Worktree& worktree, bool add) {
    if (worktree.state != WorktreeState::open) return;
    if (add) {
        worktree_by_path_[worktree.path] = worktree.run;
    } else if (const auto at = worktree_by_path_.find(worktree.path);
               at != worktree_by_path_.end() && at->second == worktree.run) {
        worktree_by_path_.erase(at);
    }
    if (worktree.port_base == 0) return;
    auto& ports = ports_by_node_[worktree.node];
    add ? void(ports.insert(worktree.port_base)) : void(ports.erase(worktree.port_base));
}

// ---- deadlines, commit, open --------------------------------------------------------------------------------------

std::optional<Deadline> OrgState::first_deadline() const {
    return deadlines_.empty() ? std::nullopt : std::optional(*deadlines_.begin());
}

bool OrgState::has_changes() const {
    return org_changed || agents_.has_changes() || agent_totals.has_changes() || api_keys.has_changes() ||
           caps.has_changes() || budgets_.has_changes() || windows.has_changes() || sessions.has_changes() ||
           runs_.has_changes() || claims_.has_changes() || holds_.has_changes() || rollups.has_changes() ||
           corrected_costs.has_changes() || schedules_.has_changes() || !messages.rows().empty() ||
           !cost_events.rows().empty() || !answers.rows().empty() || !launches.rows().empty() ||
           worktrees_.has_changes() || settings.has_changes() || !model_calls.rows().empty() ||
           !spend_marks.rows().empty() || !run_steps.rows().empty() || !ticks.rows().empty() || feed.has_page();
}

void OrgState::committed() {
    const auto none = [](const auto&) { return false; };
    org_changed = false;
    agents_.committed(cached_rows_max, none);
    agent_totals.committed(cached_rows_max, none);
    api_keys.committed(cached_rows_max, none);
    caps.committed(cached_rows_max, none);
    budgets_.committed(cached_rows_max, none);
    windows.committed(cached_rows_max, none);
    sessions.committed(cached_rows_max, none);
    runs_.committed(cached_rows_max + live_runs_.size() + line_.size(),
                    [](const Run& run) { return !has_ended(run.state); });
    claims_.committed(cached_rows_max, none);
    holds_.committed(cached_rows_max + open_holds_.size(),
                     [](const Hold& hold) { return hold.state == HoldState::open; });
    last_rollup_ = {};
    rollups.committed(cached_rows_max, none);
    corrected_costs.committed(cached_rows_max, none);
    schedules_.committed(cached_rows_max, none);
    messages.committed();
    cost_events.committed();
    answers.committed();
    launches.committed();
    worktrees_.committed(cached_rows_max, none);
    settings.committed(cached_rows_max, none);
    model_calls.committed();
    spend_marks.committed();
    run_steps.committed();
    ticks.committed();
}

void OrgState::adopt(Agent row) {
    index(row, true);
    agents_.adopt(std::move(row));
}

void OrgState::adopt(AgentTotals row) {
    count_spent(row.settled);
    agent_totals.adopt(std::move(row));
}

void OrgState::adopt(Budget row) {
    const std::string name = row.name;
    budgets_.adopt(std::move(row));
    index_budget(name);
}

void OrgState::adopt(Run row) {
    index(row, true);
    runs_.adopt(std::move(row));
}

void OrgState::adopt(Claim row) {
    claimed_.add(row.run, row.place);
    claims_.adopt(std::move(row));
}

void OrgState::adopt(Hold row) {
    index(row, true);
    holds_.adopt(std::move(row));
}

void OrgState::adopt(Schedule row) {
    index(row, true);
    schedules_.adopt(std::move(row));
}

void OrgState::adopt(Worktree row) {
    index(row, true);
    worktrees_.adopt(std::move(row));
}

}  // namespace interlock::core
