// The events of the feed: what a person or a follower would want to hear of. Facts, in the past tense.
#pragma once

#include <string>
#include <variant>

#include "base/variant.h"
#include "core/rows.h"

namespace interlock::core {

struct Charged {
    CommandKey key;
    std::string agent;
    std::string provider;
    std::string model;
    RunId run;
    SessionId session;
    HoldId hold;
    std::int64_t cost = 0;  // Nano-dollars.
    std::int64_t tokens = 0;
    std::int64_t overage = 0;
    bool estimated = false;
};
BOOST_DESCRIBE_STRUCT(Charged, (), (key, agent, provider, model, run, session, hold, cost, tokens, overage, estimated))

struct Held {
    HoldId hold;
    std::string agent;
    RunId run;
    Amounts bound;
    Instant expires_at;
};
BOOST_DESCRIBE_STRUCT(Held, (), (hold, agent, run, bound, expires_at))

struct HoldReleased {
    HoldId hold;
    bool expired = false;
};
BOOST_DESCRIBE_STRUCT(HoldReleased, (), (hold, expired))

struct OrgCreated {
    std::string name;
};
BOOST_DESCRIBE_STRUCT(OrgCreated, (), (name))

struct AgentChanged {
    std::string agent;
    std::int32_t max_concurrent_runs = 0;
};
BOOST_DESCRIBE_STRUCT(AgentChanged, (), (agent, max_concurrent_runs))

struct AgentPaused {
    std::string agent;
    std::string by;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(AgentPaused, (), (agent, by, reason))

struct AgentResumed {
    std::string agent;
    std::string by;
};
BOOST_DESCRIBE_STRUCT(AgentResumed, (), (agent, by))

struct AgentArchived {
    std::string agent;
};
BOOST_DESCRIBE_STRUCT(AgentArchived, (), (agent))

struct KeyCreated {
    std::string id;
};
BOOST_DESCRIBE_STRUCT(KeyCreated, (), (id))

struct KeyRevoked {
    std::string id;
};
BOOST_DESCRIBE_STRUCT(KeyRevoked, (), (id))

struct CapChanged {
    CapKind kind = CapKind::org;
    std::string name;
    std::int32_t max_live = 0;  // -1: lifted.
};
BOOST_DESCRIBE_STRUCT(CapChanged, (), (kind, name, max_live))

struct BudgetChanged {
    std::string budget;
    Metric metric = Metric::usd;
    std::int64_t limit_units = 0;
};
BOOST_DESCRIBE_STRUCT(BudgetChanged, (), (budget, metric, limit_units))

struct BudgetDeleted {
    std::string budget;
};
BOOST_DESCRIBE_STRUCT(BudgetDeleted, (), (budget))

struct BudgetWarned {  // Once per threshold and window.
    std::string budget;
    Instant window;
    std::int32_t percent = 0;
    Metric metric = Metric::usd;
    std::int64_t settled = 0;
    std::int64_t limit_units = 0;
};
BOOST_DESCRIBE_STRUCT(BudgetWarned, (), (budget, window, percent, metric, settled, limit_units))

struct BudgetExhausted {  // Once per window.
    std::string budget;
    Instant window;
};
BOOST_DESCRIBE_STRUCT(BudgetExhausted, (), (budget, window))

struct BudgetFroze {
    std::string budget;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(BudgetFroze, (), (budget, reason))

struct BudgetThawed {
    std::string budget;
};
BOOST_DESCRIBE_STRUCT(BudgetThawed, (), (budget))

struct SessionCreated {
    SessionId session;
    std::string agent;
    SessionId parent;
};
BOOST_DESCRIBE_STRUCT(SessionCreated, (), (session, agent, parent))

struct Appended {
    SessionId session;
    std::int64_t first_seq = 0;
    std::int64_t last_seq = 0;
    RunId run;
};
BOOST_DESCRIBE_STRUCT(Appended, (), (session, first_seq, last_seq, run))

struct SessionClosed {
    SessionId session;
};
BOOST_DESCRIBE_STRUCT(SessionClosed, (), (session))

struct RunChanged {  // Every transition but the last.
    RunId run;
    std::string agent;
    RunState state = RunState::queued;
    Fence fence;
};
BOOST_DESCRIBE_STRUCT(RunChanged, (), (run, agent, state, fence))

struct RunStopRequested {
    RunId run;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(RunStopRequested, (), (run, reason))

struct RunEnded {
    RunId run;
    std::string agent;
    RunState state = RunState::succeeded;
    std::string reason;
    std::int64_t settled = 0;
    std::int64_t unknown = 0;
};
BOOST_DESCRIBE_STRUCT(RunEnded, (), (run, agent, state, reason, settled, unknown))

struct ScheduleChanged {
    std::string schedule;
    Instant next_at;
};
BOOST_DESCRIBE_STRUCT(ScheduleChanged, (), (schedule, next_at))

struct ScheduleDeleted {
    std::string schedule;
};
BOOST_DESCRIBE_STRUCT(ScheduleDeleted, (), (schedule))

struct ScheduleFired {
    std::string schedule;
    Instant tick;
    RunId run;
};
BOOST_DESCRIBE_STRUCT(ScheduleFired, (), (schedule, tick, run))

struct ScheduleSkipped {
    std::string schedule;
    Instant tick;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(ScheduleSkipped, (), (schedule, tick, reason))

struct WakeCoalesced {
    std::string schedule;
    RunId run;
};
BOOST_DESCRIBE_STRUCT(WakeCoalesced, (), (schedule, run))

struct WorktreeMade {
    RunId run;
    std::string path;
    std::string branch;
};
BOOST_DESCRIBE_STRUCT(WorktreeMade, (), (run, path, branch))

struct WorktreeRemoved {
    RunId run;
    std::string path;
    std::string saved_as;
};
BOOST_DESCRIBE_STRUCT(WorktreeRemoved, (), (run, path, saved_as))

struct SettingChanged {
    std::string kind;
    std::string name;
    std::int64_t version = 0;
    std::string document;  // Empty for a secret, and for one that was dropped.
    bool dropped = false;
};
BOOST_DESCRIBE_STRUCT(SettingChanged, (), (kind, name, version, document, dropped))

// Beside the Charged of the same number less one, whose cost it explains.
struct ChargeCorrected {
    CommandKey key;
    CommandKey corrects;
    std::int64_t cost = 0;  // What the corrected event comes to now.
    std::string why;
};
BOOST_DESCRIBE_STRUCT(ChargeCorrected, (), (key, corrects, cost, why))

struct PlacesRestated {  // The run keeps its state. One that goes back in line is a RunChanged.
    RunId run;
    std::string agent;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(PlacesRestated, (), (run, agent, reason))

// A sealed run's connection to another host has ended, or was refused.
struct ConnectionEnded {
    RunId run;
    std::string agent;
    std::string host;
    std::int32_t port = 0;
    ConnectionOutcome outcome = ConnectionOutcome::closed;
    std::int64_t bytes_out = 0;  // From the run.
    std::int64_t bytes_in = 0;
};
BOOST_DESCRIBE_STRUCT(ConnectionEnded, (), (run, agent, host, port, outcome, bytes_out, bytes_in))

// The order is part of the stored form: new kinds go at the end.
#define INTERLOCK_EVENT_KINDS                                                                                    \
    Charged, Held, HoldReleased, OrgCreated, AgentChanged, AgentPaused, AgentResumed, AgentArchived, KeyCreated, \
        KeyRevoked, CapChanged, BudgetChanged, BudgetDeleted, BudgetWarned, BudgetExhausted, BudgetFroze,        \
        BudgetThawed, SessionCreated, Appended, SessionClosed, RunChanged, RunStopRequested, RunEnded,           \
        ScheduleChanged, ScheduleDeleted, ScheduleFired, ScheduleSkipped, WakeCoalesced, WorktreeMade,           \
        WorktreeRemoved, SettingChanged, ChargeCorrected, PlacesRestated, ConnectionEnded
struct Event : std::variant<INTERLOCK_EVENT_KINDS> {
    INTERLOCK_VARIANT(Event)
};

}  // namespace interlock::core
