// What the rules know of one org: its rows, and the indexes that are derived from them.
//
//   (1) Every index is a function of the rows. Rows with an index change only through put_…(), which moves the index
//   too. (2) Nothing here is walked in an order that depends on memory addresses or hashes.
//
// It holds no rule. The nouns' files decide; this one remembers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/by_text.h"
#include "base/calendar.h"
#include "base/ensure.h"
#include "core/feed.h"
#include "core/places.h"
#include "core/row_table.h"
#include "core/source.h"

namespace interlock::core {

// Something that happens by itself when its time comes.
enum class DeadlineKind { hold_expires, lease_ends, queue_ends, pause_ends, schedule_due, line_may_move };
struct Deadline {
    Instant at;
    DeadlineKind kind;
    Id id;             // Of the hold or run.
    std::string name;  // Of the agent or schedule.
    friend auto operator<=>(const Deadline&, const Deadline&) = default;
    friend bool operator==(const Deadline&, const Deadline&) = default;
};

// A budget with what is worked out from it once instead of at every charge.
struct LiveBudget {
    Budget row;
    Zone zone;
    WindowSpan span;  // The last window asked for.

    WindowSpan window_at(Instant at) {
        if (at < span.start || at >= span.end) span = interlock::window_at(row.window, zone, at);
        return span;
    }
};

// Whether each member that the scope states agrees.
bool covers(const Scope& scope, const Attribution& who);

// When a tick of the schedule fires: the tick and its jitter, which is a function of the tick.
Instant due_at(const Schedule& schedule, Instant tick);

// A run in line: higher priority first, then first come.
struct LineKey {
    std::int32_t minus_priority;
    std::int64_t ticket;
    RunId run;
    friend auto operator<=>(const LineKey&, const LineKey&) = default;
    friend bool operator==(const LineKey&, const LineKey&) = default;
};
inline LineKey line_key(const Run& run) { return {-run.priority, run.ticket, run.id}; }

// Sessions that are not closed.
struct SessionCounts {
    std::size_t in_org = 0;
    ByText<std::size_t> by_agent, by_key;
};

class OrgState {
    __extension__ typedef __int128 Wide;

 public:
    OrgState(OrgId org, RowSource& source);
    OrgState(const OrgState&) = delete;
    OrgState& operator=(const OrgState&) = delete;

    const OrgId id;
    RowSource& source;

    // Rows without an index: edited directly.
    std::optional<Org> org;
    bool org_changed = false;
    RowTable<AgentTotals> agent_totals;
    RowTable<ApiKey> api_keys;
    RowTable<Cap> caps;
    RowTable<Setting> settings;
    RowTable<Window> windows;
    RowTable<Session> sessions;  // Made and closed through open_session() and close_session().
    RowTable<Rollup> rollups;    // Changed through edit_rollup().
    RowTable<CorrectedCost> corrected_costs;
    Journal<Message> messages;
    Journal<CostEvent> cost_events;
    Journal<StoredReply> answers;
    Journal<Launch> launches;
    Journal<ModelCall> model_calls;
    Journal<SpendMark> spend_marks;
    Journal<RunStep> run_steps;
    Journal<ScheduleTick> ticks;
    Feed feed;
    Seal last_seal;  // Of the last commit. The engine makes the next one (store/seals.h). Its digests are not kept.

    // The day's row of this agent, provider and model, made if it is not there yet.
    Rollup& edit_rollup(std::int32_t day, const Attribution& who);

    // Rows with an index.
    const Agent* agent(const std::string& name) { return agents_.find(name); }
    void put_agent(Agent agent);
    // The agents with a pause by this ("operator", "budget:…"), by name.
    std::vector<std::string> agents_paused_by(const std::string& by) const;
    std::size_t agent_count() const { return agents_.size(); }

    const Schedule* schedule(const std::string& name) { return schedules_.find(name); }
    void put_schedule(Schedule schedule);
    std::size_t schedule_count() const { return schedules_.size(); }

    // Deleted ones too.
    const Budget* budget(const std::string& name) { return budgets_.find(name); }
    void put_budget(Budget budget);
    std::size_t budget_count() const { return budgets_.size(); }
    // The budgets in force that cover this, by name. The pointers stay good until the next put_budget().
    std::vector<LiveBudget*> budgets_covering(const Attribution& who);
    LiveBudget* live_budget(const std::string& name);

    bool knows_hold(HoldId hold_id) const { return holds_.knows(hold_id); }  // Without asking the source.
    const Hold* hold(HoldId hold_id) { return holds_.find(hold_id); }
    void open_hold(Hold hold);
    // Where it is, without a copy; the indexes follow.
    template <class Change>
    void change_hold(HoldId hold_id, Change change);
    std::vector<HoldId> open_holds() const;
    std::vector<HoldId> open_holds_of(RunId run) const;
    std::size_t open_hold_count() const { return open_holds_.size(); }
    // What is held in open holds: in the whole org, by an agent, by an API key.
    struct Held {
        std::size_t holds = 0;
        Wide usd = 0;
        Wide tokens = 0;
    };
    const Held& held_in_org() const { return held_; }
    const Held& held_by_agent(const std::string& agent) const { return held_of(held_by_agent_, agent); }
    const Held& held_by_key(const std::string& key) const { return held_of(held_by_key_, key); }
    const Held& held_in_run(RunId run) const { return held_of(held_in_run_, run); }  // Without the run's own hold.
    std::size_t calls_under_way(const std::string& provider) const { return count(calls_by_provider_, provider); }
    std::size_t open_holds_on(const std::string& budget) const { return count(parts_by_budget_, budget); }

    void open_session(Session session);
    void close_session(SessionId session_id);
    // Sessions that are not closed. They are counted in the store once, because none of them needs to be in memory.
    std::size_t open_sessions() { return counted_sessions().in_org; }
    std::size_t open_sessions_of_agent(const std::string& agent) { return count(counted_sessions().by_agent, agent); }
    std::size_t open_sessions_of_key(const std::string& key) { return count(counted_sessions().by_key, key); }

    const Worktree* worktree(RunId run_id) { return worktrees_.find(run_id); }
    // The open worktree at this path, or null.
    const Worktree* worktree_at(const std::string& path);
    void put_worktree(Worktree worktree);
    void erase_worktree(RunId run_id);
    std::size_t worktree_count() const { return worktrees_.size(); }
    const std::set<std::int32_t>& ports_on(const std::string& node) { return ports_by_node_[node]; }

    // All that was ever charged, in nano-dollars: what the totals of agents add up to, or the most that a counter says.
    std::int64_t settled_usd() const;
    void count_spent(std::int64_t usd) { settled_usd_ += usd; }

    bool knows_run(RunId run_id) const { return runs_.knows(run_id); }
    const Run* run(RunId run_id) { return runs_.find(run_id); }
    void put_run(Run run);
    // For what no index looks at: settled, tokens, events, unknown.
    Run& edit_run_totals(RunId run_id) { return runs_.edit(run_id); }
    const std::set<LineKey>& line() const { return line_; }  // Queued runs, the next one first.
    // The same runs by what they ask for. Runs of one group have the same account, hold, node and places, so what keeps
    // one of them from starting keeps all of them; only a budget of a run's own and the time of a retry differ.
    struct LineGroup {
        std::string agent;
        bool wants_places = false;
        std::set<LineKey> keys;
    };
    const std::map<std::string, LineGroup>& line_groups() const { return line_groups_; }
    const std::set<RunId>& live_runs() const { return live_runs_; }
    std::size_t live_of_agent(const std::string& agent) const { return count(live_by_agent_, agent); }
    std::size_t live_of_provider(const std::string& provider) const { return count(live_by_provider_, provider); }
    std::size_t live_on_node(const std::string& node) const { return count(live_by_node_, node); }
    std::size_t queued_of_agent(const std::string& agent) const { return count(queued_by_agent_, agent); }
    std::size_t unfinished_of_key(const std::string& key) const { return count(unfinished_by_key_, key); }
    // Unfinished runs below this one, which has no parent, the oldest first.
    std::vector<RunId> unfinished_in_tree(RunId root) const;
    // Runs in line that have a parent.
    const std::set<RunId>& children_in_line() const { return children_in_line_; }
    // Unfinished runs that a schedule has started, the oldest first.
    std::vector<RunId> unfinished_of_schedule(const std::string& schedule) const;

    // A live run claims what it wanted; a run that ends gives it back. The claims' rows follow.
    void add_claims(const Run& run);
    void erase_claims(const Run& run);
    const PlaceIndex& claimed() const { return claimed_; }  // By live runs.
    const PlaceIndex& wanted() const { return wanted_; }    // By queued ones. They hold nothing.

    // A queued run waits for a window to turn.
    void watch_line(Instant at) {
        if (at < far_future) deadlines_.insert({at, DeadlineKind::line_may_move, {}, {}});
    }
    std::optional<Deadline> first_deadline() const;
    void forget(const Deadline& deadline) { deadlines_.erase(deadline); }

    // Set when something was given back that a queued run may be waiting for; runs.h looks through the line then.
    bool line_may_move = false;
    // What queued runs were last seen waiting for: these budgets, or the end of any hold. Until the line was looked
    // through, anything.
    struct LineWaits {
        std::set<std::string> budgets;
        bool any_hold = false;
    };
    LineWaits line_waits_for{.budgets = {}, .any_hold = true};

    // Everything that has changed since the last commit, for one transaction.
    template <class OnPut, class OnErased>
    void collect(OnPut put, OnErased erased);
    bool has_changes() const;
    void committed();

    // Rows read from the store at open.
    void adopt(Org row) { org = std::move(row); }
    void adopt(Agent row);
    void adopt(AgentTotals row);
    void adopt(ApiKey row) { api_keys.adopt(std::move(row)); }
    void adopt(Cap row) { caps.adopt(std::move(row)); }
    void adopt(Budget row);
    void adopt(Run row);
    void adopt(Claim row);
    void adopt(Hold row);
    void adopt(Schedule row);
    void adopt(Worktree row);
    void adopt(Setting row) { settings.adopt(std::move(row)); }
    void adopt(const FeedPage& row) {
        feed.adopt(row);
        adopt(Seal{row.seal_number, row.at, row.seal_key, {}, row.seal_hash});
    }
    void adopt(Seal row) {
        if (row.number <= last_seal.number) return;
        last_seal = std::move(row);
        last_seal.digests.clear();
    }

 private:
    template <class Map>
    static std::size_t count(const Map& map, const std::string& key) {
        const auto found = map.find(key);
        return found == map.end() ? 0 : found->second;
    }
    using HeldBy = ByText<Held>;
    template <class Map, class Key>
    static const Held& held_of(const Map& map, const Key& key) {
        static const Held nothing;
        const auto found = map.find(key);
        return found == map.end() ? nothing : found->second;
    }
    SessionCounts& counted_sessions();
    void count_session(const Session& session, bool add);
    void count_held(const Hold& hold, bool add);
    void index(const Agent& agent, bool add);
    void index(const Run& run, bool add);
    void index(const Hold& hold, bool add);
    void index(const Schedule& schedule, bool add);
    void index(const Worktree& worktree, bool add);
    void index_budget(const std::string& name);
    std::vector<LiveBudget*>& budget_bucket(const Scope& scope);

    RowTable<Agent> agents_;
    RowTable<Budget> budgets_;
    RowTable<Schedule> schedules_;
    RowTable<Hold> holds_;
    RowTable<Run> runs_;
    RowTable<Claim> claims_;
    RowTable<Worktree> worktrees_;

    ByText<LiveBudget> live_budgets_;
    // A budget stands in one bucket: under the first member that its scope states.
    using Bucket = std::vector<LiveBudget*>;  // By name.
    Bucket of_org_;
    ByText<Bucket> by_agent_, by_workflow_, by_provider_, by_model_, by_api_key_, by_tag_;
    std::unordered_map<Id, Bucket> by_run_, by_session_;

    std::set<std::pair<std::string, std::string>> paused_;  // By whom, and which agent.
    Wide settled_usd_ = 0;
    RowTable<Rollup>::Ref last_rollup_;           // Events of a batch are often alike. Empty between batches.
    std::optional<SessionCounts> open_sessions_;  // None: not asked for yet.
    Held held_;
    HeldBy held_by_agent_, held_by_key_;
    std::map<RunId, Held> held_in_run_;
    std::set<std::pair<RunId, HoldId>> open_holds_;
    ByText<std::size_t> parts_by_budget_;
    ByText<std::size_t> calls_by_provider_;  // Holds that were sent on.
    std::set<LineKey> line_;
    std::map<std::string, LineGroup> line_groups_;
    std::set<RunId> live_runs_;
    std::set<std::pair<RunId, RunId>> unfinished_by_root_;
    std::set<RunId> children_in_line_;
    std::set<std::pair<std::string, RunId>> unfinished_by_schedule_;
    ByText<std::size_t> live_by_agent_, live_by_provider_, live_by_node_, queued_by_agent_, unfinished_by_key_;
    PlaceIndex claimed_;
    PlaceIndex wanted_;
    std::set<Deadline> deadlines_;
    std::map<std::string, std::set<std::int32_t>> ports_by_node_;  // The first of each block.
    ByText<RunId> worktree_by_path_;
};

template <class Change>
void OrgState::change_hold(HoldId hold_id, Change change) {
    const auto ref = holds_.look_up(hold_id);
    ensure(bool(ref), "only holds that are there change");
    Hold& hold = holds_.edit(ref);
    index(hold, false);
    change(hold);
    index(hold, true);
}

template <class OnPut, class OnErased>
void OrgState::collect(OnPut put, OnErased erased) {
    if (org_changed) put(*org);
    const auto collect_table = [&](auto& table) {
        using Row = typename std::remove_cvref_t<decltype(table)>::RowType;
        table.collect(put, [&](const KeyOf<Row>& key) { erased.template operator()<Row>(key); });
    };
    collect_table(agents_);
    collect_table(agent_totals);
    collect_table(api_keys);
    collect_table(caps);
    collect_table(budgets_);
    collect_table(windows);
    collect_table(sessions);
    collect_table(runs_);
    collect_table(claims_);
    collect_table(holds_);
    collect_table(rollups);
    collect_table(schedules_);
    for (const Message& row : messages.rows()) put(row);
    for (const CostEvent& row : cost_events.rows()) put(row);
    for (const StoredReply& row : answers.rows()) put(row);
    for (const Launch& row : launches.rows()) put(row);
    collect_table(worktrees_);
    collect_table(settings);
    for (const ModelCall& row : model_calls.rows()) put(row);
    for (const SpendMark& row : spend_marks.rows()) put(row);
    for (const RunStep& row : run_steps.rows()) put(row);
    for (const ScheduleTick& row : ticks.rows()) put(row);
    collect_table(corrected_costs);
}

}  // namespace interlock::core
