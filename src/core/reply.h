// What a command comes to.
//
// The names are the names on the wire, in the tables, in the SDKs and in the tests, so that one search finds them all.
// In every enum the first enumerators are the ways to succeed; after them come the refusals, in the order in which they
// are checked: when two reasons apply, the earlier one is reported.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "base/variant.h"
#include "core/rows.h"

namespace interlock::core {

// Why a budget said no, in the budget's own metric.
struct BudgetRefusal {
    std::string budget;
    Metric metric = Metric::usd;
    std::int64_t limit_units = 0;
    std::int64_t settled = 0;
    std::int64_t held = 0;
    std::int64_t requested = 0;
    std::int64_t free = 0;
    std::int64_t open_holds = 0;  // How many hold the rest.
    Instant window_end;
    std::string frozen;
};
BOOST_DESCRIBE_STRUCT(BudgetRefusal, (),
                      (budget, metric, limit_units, settled, held, requested, free, open_holds, window_end, frozen))

// Who is in the way.
struct BlockingRun {
    RunId run;
    std::string agent;
    RunState state = RunState::running;
    Place place;  // The claim that conflicts; its path is empty when the obstacle is a cap.
    Instant since;
};
BOOST_DESCRIBE_STRUCT(BlockingRun, (), (run, agent, state, place, since))

// ---- orgs, agents, keys, caps -------------------------------------------------------------------------------------

enum class OrgStatus { created, already_there, invalid_request, name_taken, too_many };
BOOST_DESCRIBE_ENUM(OrgStatus, created, already_there, invalid_request, name_taken, too_many)
struct OrgReply {
    OrgStatus status = OrgStatus::created;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(OrgReply, (), (status, detail))

enum class AgentStatus { done, unchanged, invalid_request, agent_not_found, has_unfinished_runs, too_many };
BOOST_DESCRIBE_ENUM(AgentStatus, done, unchanged, invalid_request, agent_not_found, has_unfinished_runs, too_many)
struct AgentReply {
    AgentStatus status = AgentStatus::done;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(AgentReply, (), (status, detail))

enum class KeyStatus {
    done,
    unchanged,
    invalid_request,
    key_not_found,
    key_exists,
    agent_not_found,
    budget_not_found,
    too_many
};
BOOST_DESCRIBE_ENUM(KeyStatus, done, unchanged, invalid_request, key_not_found, key_exists, agent_not_found,
                    budget_not_found, too_many)
struct KeyReply {
    KeyStatus status = KeyStatus::done;
    std::string id;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(KeyReply, (), (status, id, detail))

enum class CapStatus { done, unchanged, invalid_request, too_many };
BOOST_DESCRIBE_ENUM(CapStatus, done, unchanged, invalid_request, too_many)
struct CapReply {
    CapStatus status = CapStatus::done;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(CapReply, (), (status, detail))

// ---- the ledger ---------------------------------------------------------------------------------------------------

enum class BudgetStatus { done, unchanged, invalid_request, budget_not_found, shape_is_fixed, too_many };
BOOST_DESCRIBE_ENUM(BudgetStatus, done, unchanged, invalid_request, budget_not_found, shape_is_fixed, too_many)
struct BudgetReply {
    BudgetStatus status = BudgetStatus::done;
    std::string detail;
    std::int64_t settled = 0;  // In the current window.
    std::int64_t held = 0;
};
BOOST_DESCRIBE_STRUCT(BudgetReply, (), (status, detail, settled, held))

enum class ChargeStatus {
    charged,
    invalid_request,
    agent_not_found,
    session_not_found,
    run_not_found,
    stale_fence,
    run_ended,
    amount_too_large,  // A counter would leave its range.
    budget_frozen,
    budget_exceeded,
};
BOOST_DESCRIBE_ENUM(ChargeStatus, charged, invalid_request, agent_not_found, session_not_found, run_not_found,
                    stale_fence, run_ended, amount_too_large, budget_frozen, budget_exceeded)
struct ChargeReply {
    ChargeStatus status = ChargeStatus::charged;
    Seq seq;
    Money cost;
    Money overage;
    std::optional<BudgetRefusal> budget;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(ChargeReply, (), (status, seq, cost, overage, budget, detail))

enum class ReserveStatus {
    held,
    invalid_request,
    hold_exists,
    agent_not_found,
    agent_paused,
    session_not_found,
    run_not_found,
    stale_fence,
    run_ended,
    too_many,
    amount_too_large,
    budget_frozen,
    budget_exceeded,
    concurrency_limit,  // Of its provider.
};
BOOST_DESCRIBE_ENUM(ReserveStatus, held, invalid_request, hold_exists, agent_not_found, agent_paused, session_not_found,
                    run_not_found, stale_fence, run_ended, too_many, amount_too_large, budget_frozen, budget_exceeded,
                    concurrency_limit)
struct ReserveReply {
    ReserveStatus status = ReserveStatus::held;
    HoldId hold;
    Instant expires_at;
    std::optional<BudgetRefusal> budget;
    std::string detail;
    Amounts bound = {};      // What is held.
    std::int64_t left = -1;  // Nano-dollars that the tightest budget has besides; -1: no budget limits dollars.
    std::string agent = {};  // On whose account: as stated, or the run's.
    SessionId session = {};  // The same.
    Capture capture = Capture::usage;  // Of the agent.
};
BOOST_DESCRIBE_STRUCT(ReserveReply, (),
                      (status, hold, expires_at, budget, detail, bound, left, agent, session, capture))

enum class HoldStatus {
    done,
    invalid_request,
    hold_not_found,
    not_your_hold,  // Another API key or the gateway opened it.
    hold_closed,
    amount_too_large,
};
BOOST_DESCRIBE_ENUM(HoldStatus, done, invalid_request, hold_not_found, not_your_hold, hold_closed, amount_too_large)
struct HoldReply {  // Extend and release.
    HoldStatus status = HoldStatus::done;
    Instant expires_at;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(HoldReply, (), (status, expires_at, detail))
struct SettleReply {
    HoldStatus status = HoldStatus::done;
    Seq seq;
    Money cost;
    Money overage;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(SettleReply, (), (status, seq, cost, overage, detail))

// ---- sessions -----------------------------------------------------------------------------------------------------

enum class SessionStatus {
    done,
    unchanged,
    invalid_request,
    session_not_found,
    session_exists,
    agent_not_found,
    message_not_found,
    too_many,
};
BOOST_DESCRIBE_ENUM(SessionStatus, done, unchanged, invalid_request, session_not_found, session_exists, agent_not_found,
                    message_not_found, too_many)
struct SessionReply {
    SessionStatus status = SessionStatus::done;
    SessionId session;  // The one that was made, forked or closed.
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(SessionReply, (), (status, session, detail))

enum class AppendStatus {
    appended,
    invalid_request,
    session_not_found,
    session_closed,
    run_not_found,
    stale_fence,
    run_ended,
    unexpected_seq,
};
BOOST_DESCRIBE_ENUM(AppendStatus, appended, invalid_request, session_not_found, session_closed, run_not_found,
                    stale_fence, run_ended, unexpected_seq)
struct AppendReply {
    AppendStatus status = AppendStatus::appended;
    std::int64_t first_seq = 0;
    std::int64_t last_seq = 0;
    std::int64_t next_seq = 0;  // With unexpected_seq: what would have been right.
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(AppendReply, (), (status, first_seq, last_seq, next_seq, detail))

// ---- runs ---------------------------------------------------------------------------------------------------------

enum class AdmitStatus {
    admitted,
    queued,
    invalid_request,
    beyond_key,  // More than an API key below operator may state.
    parent_not_live,
    beyond_parent,  // More than the run has that starts it.
    run_exists,
    agent_not_found,
    outside_roots,  // Likewise: a directory that is not the agent's.
    agent_paused,
    session_not_found,
    too_many,
    amount_too_large,
    budget_frozen,
    budget_exceeded,
    not_your_run,  // Likewise: to replace another agent's run.
    workspace_busy,
    concurrency_limit,
};
BOOST_DESCRIBE_ENUM(AdmitStatus, admitted, queued, invalid_request, beyond_key, parent_not_live, beyond_parent,
                    run_exists, agent_not_found, outside_roots, agent_paused, session_not_found, too_many,
                    amount_too_large, budget_frozen, budget_exceeded, not_your_run, workspace_busy, concurrency_limit)

struct AdmitReply {
    AdmitStatus status = AdmitStatus::admitted;
    RunId run;
    Fence fence;
    Instant lease_until;
    bool isolated = false;
    std::int64_t place_in_line = 0;  // 1 is next.
    WaitsFor waits_for = WaitsFor::nothing;
    std::optional<BlockingRun> holder;
    std::optional<BudgetRefusal> budget;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(AdmitReply, (),
                      (status, run, fence, lease_until, isolated, place_in_line, waits_for, holder, budget, detail))

enum class RunStatus {
    done,
    stop_requested,  // To cancel: the owner of the live run has been asked.
    invalid_request,
    run_not_found,
    stale_fence,
    run_ended,
    wrong_state,
    amount_too_large,
};
BOOST_DESCRIBE_ENUM(RunStatus, done, stop_requested, invalid_request, run_not_found, stale_fence, run_ended,
                    wrong_state, amount_too_large)
struct RunReply {
    RunStatus status = RunStatus::done;
    RunState state = RunState::queued;
    Instant lease_until;
    std::string stop_requested;  // What a heartbeat brings home: why the owner should end the run.
    Seq seq;                     // Of the cost event, where there was a final charge.
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(RunReply, (), (status, state, lease_until, stop_requested, seq, detail))

// ---- schedules and time -------------------------------------------------------------------------------------------

enum class ScheduleStatus { done, unchanged, invalid_request, schedule_not_found, agent_not_found, too_many };
BOOST_DESCRIBE_ENUM(ScheduleStatus, done, unchanged, invalid_request, schedule_not_found, agent_not_found, too_many)
struct ScheduleReply {
    ScheduleStatus status = ScheduleStatus::done;
    Instant next_at;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(ScheduleReply, (), (status, next_at, detail))

enum class WakeStatus { woken, coalesced, invalid_request, schedule_not_found, run_exists, refused };
BOOST_DESCRIBE_ENUM(WakeStatus, woken, coalesced, invalid_request, schedule_not_found, run_exists, refused)
struct WakeReply {
    WakeStatus status = WakeStatus::woken;
    RunId run;         // The run that serves this wake.
    AdmitReply admit;  // What admission said, unless coalesced.
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(WakeReply, (), (status, run, admit, detail))

struct TickReply {
    std::int64_t expired_holds = 0;
    std::int64_t lost_runs = 0;
    std::int64_t fired = 0;
    std::int64_t resumed_agents = 0;
};
BOOST_DESCRIBE_STRUCT(TickReply, (), (expired_holds, lost_runs, fired, resumed_agents))

// The command's org does not exist: no rule was even asked.
struct NoSuchOrg {};
BOOST_DESCRIBE_STRUCT(NoSuchOrg, (), ())

enum class WorktreeStatus { done, unchanged, invalid_request, run_not_found, worktree_not_found, too_many };
BOOST_DESCRIBE_ENUM(WorktreeStatus, done, unchanged, invalid_request, run_not_found, worktree_not_found, too_many)
struct WorktreeReply {
    WorktreeStatus status = WorktreeStatus::done;
    std::int32_t port_base = 0;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(WorktreeReply, (), (status, port_base, detail))

// ---- the gateway ---------------------------------------------------------------------------------------------------

enum class SettingStatus { done, unchanged, invalid_request, setting_not_found, too_many };
BOOST_DESCRIBE_ENUM(SettingStatus, done, unchanged, invalid_request, setting_not_found, too_many)
struct SettingReply {
    SettingStatus status = SettingStatus::done;
    std::int64_t version = 0;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(SettingReply, (), (status, version, detail))

enum class CallsStatus { recorded, invalid_request };
BOOST_DESCRIBE_ENUM(CallsStatus, recorded, invalid_request)
struct CallsReply {
    CallsStatus status = CallsStatus::recorded;
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(CallsReply, (), (status, detail))

enum class CorrectStatus { corrected, invalid_request, charge_not_found, not_lower };
BOOST_DESCRIBE_ENUM(CorrectStatus, corrected, invalid_request, charge_not_found, not_lower)
struct CorrectReply {
    CorrectStatus status = CorrectStatus::corrected;
    Seq seq;
    Money cost;  // Of the correction: below 0.
    std::string detail;
};
BOOST_DESCRIBE_STRUCT(CorrectReply, (), (status, seq, cost, detail))

// The order is part of the stored answers: new ones go at the end.
#define INTERLOCK_REPLY_KINDS                                                                                 \
    OrgReply, AgentReply, KeyReply, CapReply, BudgetReply, ChargeReply, ReserveReply, HoldReply, SettleReply, \
        SessionReply, AppendReply, AdmitReply, RunReply, ScheduleReply, WakeReply, TickReply, NoSuchOrg,      \
        WorktreeReply, SettingReply, CallsReply, CorrectReply
struct Reply : std::variant<INTERLOCK_REPLY_KINDS> {
    INTERLOCK_VARIANT(Reply)
};

}  // namespace interlock::core
