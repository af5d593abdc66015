// The money side: sums the cost events once and compares every counter with its sum (P1), and every hard budget with
// its limit (P2). Hands each cost event to the feed on the way (P3).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/by_text.h"
#include "base/calendar.h"
#include "base/id.h"
#include "verify/feed_walk.h"
#include "verify/findings.h"
#include "verify/reader.h"

namespace interlock::verify {

using Sum = __int128;  // Of 64-bit numbers, without a thought for overflow.

// On whose account; the views are good as long as the row they were read from.
struct Attribution {
    std::string_view agent, workflow, provider, model, api_key;
    Id run, session;
    std::string_view tags;  // As stored.

    static constexpr std::string_view columns = "agent, workflow, provider, model, api_key, run, session, tags";
    static Attribution read(ColumnReader& row);
};

struct RunSums {
    Sum cost = 0, tokens = 0, events = 0, unknown = 0;
};
struct SessionSums {
    Sum cost = 0, events = 0;
};

class LedgerCheck {
 public:
    LedgerCheck(std::int64_t org, SnapshotReader& reader, Findings& findings, FeedWalk& feed)
        : org_(org), reader_(reader), findings_(findings), feed_(feed) {}

    void read_budgets();
    struct OpenHold {
        store::RowName name;
        Attribution who;
        std::array<std::int64_t, 4> bound;  // usd, tokens, calls, runs.
        std::vector<HoldPart> parts;
        bool for_run;
        std::int64_t created_at;
    };
    void add_hold(const OpenHold& hold);
    void add_settled_hold(Id hold);
    void add_open_hold(Id hold) { open_holds_.insert(hold); }
    void read_calls();  // Before the cost events, which pay for them.
    void read_cost_events();
    void add_admission(const Attribution& who, std::int64_t admitted_at);  // Of each run that was admitted.

    // When all of the above have been read:
    void check_holds();
    void check_corrections();
    void check_calls();
    void check_marks();  // Before the windows, which say what their last one was.
    void check_windows();
    void check_agent_totals();
    void check_rollups();

    RunSums of_run(Id run) const;
    SessionSums of_session(Id session) const;
    std::int64_t event_count() const { return event_count_; }

 private:
    enum class Metric { usd, tokens, calls, runs };
    struct Window {
        WindowSpan span;
        bool stored = false;
        bool needed = false;  // Something counts in it that happened after the budget was made.
        std::int64_t end_at = 0, limit_units = 0, settled = 0, held = 0, grace = 0, marked_at = 0;  // As stored.
        bool hard = false;
        Sum settled_sum = 0, held_sum = 0, overage_sum = 0, over_limit_sum = 0;  // As derived.
        Sum corrected_sum = 0;                                                   // By how much corrections lowered it.
        std::int64_t last_mark = 0;                                              // When, of all its marks.
    };
    struct Budget {
        std::string name;
        Scope scope;
        Metric metric;
        WindowKind kind;
        Zone zone;
        std::int64_t limit_units;
        bool hard;
        std::int64_t created_at;
        bool deleted;
        std::map<std::int64_t, Window> windows;  // By start.
        Window* last = nullptr;                  // The one asked for last: events come almost in the order of time.
    };
    struct Event {
        Attribution who;
        std::int64_t at, counted_at, cost, calls, overage;
        Sum tokens;
        bool over_limit, estimated;
        std::array<std::int64_t, 6> usage;
    };
    struct AgentSums {
        Sum cost = 0, tokens = 0, events = 0;
        std::int64_t last_at = 0;
    };
    struct RollupSums {
        Sum cost = 0, events = 0, calls = 0;
        std::array<Sum, 6> usage{};
        bool stored = false;
    };
    // Of a counter, by its budget and window; the org's own has neither.
    struct Mark {
        std::string budget;
        std::int64_t start_at = 0, at = 0, settled = 0;
    };
    // A budget stands under the rarest member its scope states, so that an event meets few that are not its own.
    enum Member : std::size_t { run, session, api_key, agent, workflow, model, provider, tag, everything, members };

    void read_windows();
    void index(Budget& budget);
    template <class OnBudget>
    void each_covering(const Attribution& who, OnBudget on_budget);
    bool covers(const Scope& scope, const Attribution& who);
    const Tags& tags_of(std::string_view json);
    Window& window_at(Budget& budget, std::int64_t at);
    void add(const Event& event);
    static std::string account_of(const Event& event);
    void check_parts(const OpenHold& hold);
    void check_org_marks(const std::vector<Mark>& marks);
    void check_mark(const Mark& mark, const Mark* before);
    store::RowName name_of(const Mark& mark) const;
    void check_window(const Budget& budget, const Window& window);
    void missing_window(const Budget& budget, const Window& window);
    store::RowName window_name(const Budget& budget, const Window& window) const;

    std::int64_t org_;
    SnapshotReader& reader_;
    Findings& findings_;
    FeedWalk& feed_;

    std::deque<Budget> budgets_;
    ByText<Budget*> by_name_;
    std::array<ByText<std::vector<Budget*>>, members> by_member_;
    ByText<Tags> tags_;

    ByText<AgentSums> agents_;
    std::unordered_map<Id, RunSums> runs_;
    std::unordered_map<Id, SessionSums> sessions_;
    ByText<RollupSums> rollups_;
    std::string rollup_key_;
    std::unordered_map<std::int64_t, Sum> minutes_;  // What was spent in each, by its first moment.
    // Sums over ids: of the holds that are settled, and of those that cost events have settled.
    struct IdsSeen {
        std::int64_t count = 0;
        std::uint64_t sum = 0;
        void add(Id id) { ++count, sum += std::hash<Id>{}(id); }
        friend bool operator==(const IdsSeen&, const IdsSeen&) = default;
    };
    IdsSeen settled_holds_;
    IdsSeen holds_of_events_;
    // By the event that is corrected.
    struct Correction {
        Id key;  // Of the last one that was read.
        Sum cost = 0;
        bool known = false;  // The gateway has said later what an estimate was.
        std::string account;
    };
    std::unordered_map<Id, Correction> corrections_;
    // By the hold of a call that was sent once: what the call has cost, and what was booked for it.
    struct PaidCall {
        Id call;
        std::int64_t cost = 0;
        Sum booked = 0;
    };
    std::unordered_map<Id, PaidCall> calls_;
    std::unordered_set<Id> open_holds_;
    std::int64_t event_count_ = 0;
};

}  // namespace interlock::verify
