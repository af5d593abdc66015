// Everything a client can ask, as data. A command says what is wanted, never what the rows should become.
//
// Ids come in with the command, so that the same command gives the same rows; time comes in with the Stamp.
// A `fence` of 0 means "not stated": allowed only where the comment says so.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/variant.h"
#include "core/rows.h"

namespace interlock::core {

// ---- orgs, agents, keys, caps -------------------------------------------------------------------------------------

struct CreateOrg {
    std::string name;
};
BOOST_DESCRIBE_STRUCT(CreateOrg, (), (name))

struct PutAgent {  // Creates, changes, or brings back from the archive.
    std::string name;
    std::vector<std::string> command;
    std::int32_t max_concurrent_runs = 1;
    Tags tags;
    ProcessSpec process = {};  // Without a command: that is the agent's.
    Retry retry = {};
    Workplace workplace = {};
    std::string provider = {};
    Capture capture = Capture::usage;
    std::vector<std::string> roots = {};           // Absolute, without "." and "..".
    std::vector<std::string> resolved_roots = {};  // Where the roots and the workspace lead.
    std::vector<std::string> child_agents = {};
};
BOOST_DESCRIBE_STRUCT(PutAgent, (),
                      (name, command, max_concurrent_runs, tags, process, retry, workplace, provider, capture, roots,
                       resolved_roots, child_agents))

struct PauseAgent {  // No new runs, and no holds but those of its live runs: what is going goes on.
    std::string name;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(PauseAgent, (), (name, reason))

struct ResumeAgent {  // Lifts every pause, a budget's too: a person has decided.
    std::string name;
};
BOOST_DESCRIBE_STRUCT(ResumeAgent, (), (name))

struct ArchiveAgent {  // Its runs must have ended. Its history stays.
    std::string name;
};
BOOST_DESCRIBE_STRUCT(ArchiveAgent, (), (name))

struct CreateKey {
    std::string id;
    std::string hash;
    std::vector<std::string> scopes;
    std::string agent;
    RunId run;
    std::string budget;
    std::string note;
};
BOOST_DESCRIBE_STRUCT(CreateKey, (), (id, hash, scopes, agent, run, budget, note))

struct RevokeKey {
    std::string id;
};
BOOST_DESCRIBE_STRUCT(RevokeKey, (), (id))

struct SetCap {  // Empty max: no cap. A lowered cap ends nobody; it holds back the next.
    CapKind kind = CapKind::org;
    std::string name;
    std::optional<std::int32_t> max_live;
};
BOOST_DESCRIBE_STRUCT(SetCap, (), (kind, name, max_live))

// ---- the ledger ---------------------------------------------------------------------------------------------------

struct PutBudget {  // Scope, metric, window and zone of an existing budget are fixed; the rest can change.
    std::string name;
    Scope scope;
    Metric metric = Metric::usd;
    WindowKind window = WindowKind::month;
    std::string zone = "UTC";
    std::int64_t limit_units = 0;
    bool hard = true;
    std::vector<std::int32_t> warn;
    OnExhausted on_exhausted = OnExhausted::refuse;
};
BOOST_DESCRIBE_STRUCT(PutBudget, (), (name, scope, metric, window, zone, limit_units, hard, warn, on_exhausted))

struct DeleteBudget {
    std::string name;
};
BOOST_DESCRIBE_STRUCT(DeleteBudget, (), (name))

struct UnfreezeBudget {  // Somebody has looked at the overage.
    std::string name;
};
BOOST_DESCRIBE_STRUCT(UnfreezeBudget, (), (name))

// The asker of a change that only some callers may make.
enum class ActorKind {
    trusted,  // An operator's API key, or the program that Interlock is embedded in.
    gateway,
    key,  // Any other API key.
};
BOOST_DESCRIBE_ENUM(ActorKind, trusted, gateway, key)
struct Actor {
    ActorKind kind = ActorKind::trusted;
    std::string key = {};    // The id of the API key.
    std::string agent = {};  // What the API key is bound to; empty: to no agent.
};
BOOST_DESCRIBE_STRUCT(Actor, (), (kind, key, agent))

struct Charge {  // Check and spend in one step.
    Attribution who;
    Fence fence;  // Of who.run; may be left out, then the run must only be live.
    Money cost;
    Usage usage;
    std::int64_t calls = 1;
    std::string price;
    bool incurred = false;  // The money is gone already: recorded even past a limit, as overage.
    bool unpriced = false;
};
BOOST_DESCRIBE_STRUCT(Charge, (), (who, fence, cost, usage, calls, price, incurred, unpriced))

struct Reserve {
    HoldId hold;
    Attribution who;
    Fence fence;  // As in Charge.
    Amounts bound;
    std::int64_t ttl_s = 60;
    bool dispatched = false;
    // What will do if the budgets do not have all of `bound`: then as much is held as they have, and no less than this.
    // All 0: the bound or nothing.
    Amounts floor = {};
    // Of what a budget has left, in percent, beyond which only the floor is taken: so that others find something too.
    std::int32_t share = 100;
    bool by_gateway = false;  // Otherwise the API key in `who` opens it.
};
BOOST_DESCRIBE_STRUCT(Reserve, (), (hold, who, fence, bound, ttl_s, dispatched, floor, share, by_gateway))

struct ExtendHold {  // Moves the lease on; `dispatched` is set, never cleared.
    HoldId hold;
    std::int64_t ttl_s = 60;
    bool dispatched = false;
    Actor by = {};
};
BOOST_DESCRIBE_STRUCT(ExtendHold, (), (hold, ttl_s, dispatched, by))

// On the account it was reserved for: the budgets that were asked are the ones that pay. From the gateway it is never
// too late: what it knows replaces what was booked when the hold ended without it.
struct SettleHold {
    HoldId hold;
    Money cost;
    Usage usage;
    std::int64_t calls = 1;
    std::string price;
    bool estimated = false;
    bool unpriced = false;
    Actor by = {};
};
BOOST_DESCRIBE_STRUCT(SettleHold, (), (hold, cost, usage, calls, price, estimated, unpriced, by))

struct ReleaseHold {
    HoldId hold;
    Actor by = {};
};
BOOST_DESCRIBE_STRUCT(ReleaseHold, (), (hold, by))

struct CorrectCharge {  // Only downwards: to raise a cost, charge the difference.
    CommandKey event;
    Money to;  // What the event and its corrections come to afterwards.
    std::string why;
};
BOOST_DESCRIBE_STRUCT(CorrectCharge, (), (event, to, why))

// ---- sessions -----------------------------------------------------------------------------------------------------

struct CreateSession {
    SessionId session;
    std::string agent;
    std::string title;
    std::string metadata;
    std::string api_key = {};  // That asks.
};
BOOST_DESCRIBE_STRUCT(CreateSession, (), (session, agent, title, metadata, api_key))

struct NewMessage {
    MessageId id;
    std::string role;  // As the client wrote it: whether it is one of Role's is a rule.
    std::string content;
    std::string metadata;
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
};
BOOST_DESCRIBE_STRUCT(NewMessage, (), (id, role, content, metadata, input_tokens, output_tokens))

struct Append {  // One turn: all of its messages, next to each other, or none.
    SessionId session;
    std::vector<NewMessage> messages;
    std::optional<std::int64_t> expected_seq;  // Of the first message.
    RunId run;
    Fence fence;  // As in Charge.
};
BOOST_DESCRIBE_STRUCT(Append, (), (session, messages, expected_seq, run, fence))

struct ForkSession {  // A new session that shares the messages 0 … at_seq.
    SessionId from;
    std::int64_t at_seq = 0;
    SessionId session;
    std::string title;
    std::string api_key = {};  // That asks.
};
BOOST_DESCRIBE_STRUCT(ForkSession, (), (from, at_seq, session, title, api_key))

struct CloseSession {
    SessionId session;
};
BOOST_DESCRIBE_STRUCT(CloseSession, (), (session))

// ---- runs ---------------------------------------------------------------------------------------------------------

struct AdmitRun {
    RunId run;
    Attribution who;  // `agent` is required, `run` is ignored.
    std::string node;
    std::vector<Place> places;
    OnConflict on_conflict = OnConflict::refuse;
    std::optional<Place> isolate_into;  // The place for OnConflict::isolate.
    std::int32_t priority = 0;
    Amounts hold;
    bool metered = false;
    std::int32_t lease_s = 60;
    std::int64_t queue_s = 0;  // 0: waits forever.
    std::string name = {};
    std::optional<ProcessSpec> process = {};  // What its node's supervisor starts; none: the client is the owner.
    Retry retry = {};
    Money ceiling = {};                   // What it may spend in all; 0: what its budgets allow.
    bool isolate = false;                 // Whether or not its place is free.
    std::optional<Place> worktrees = {};  // Where a place can be made to isolate into, if none was brought.
    // What a worktree of the workspace would be made of: the working tree and git's common directory.
    std::vector<std::string> repository = {};
    bool names_server = false;  // `node` is a server's own.
    Actor by = {};
    RunId parent = {};  // The run whose program asks.
};
BOOST_DESCRIBE_STRUCT(AdmitRun, (),
                      (run, who, node, places, on_conflict, isolate_into, priority, hold, metered, lease_s, queue_s,
                       name, process, retry, ceiling, isolate, worktrees, repository, names_server, by, parent))

struct StartRun {
    RunId run;
    Fence fence;
    std::string sandbox = {};  // The level that is in force, and why it is none. Kept in the run's step.
};
BOOST_DESCRIBE_STRUCT(StartRun, (), (run, fence, sandbox))

struct HeartbeatRun {  // The first one also starts it, unless it is supervised.
    RunId run;
    Fence fence;
};
BOOST_DESCRIBE_STRUCT(HeartbeatRun, (), (run, fence))

struct PauseRun {  // Without its fence for a supervised run: its supervisor hears of it.
    RunId run;
    Fence fence;
};
BOOST_DESCRIBE_STRUCT(PauseRun, (), (run, fence))

struct ResumeRun {  // The same.
    RunId run;
    Fence fence;
};
BOOST_DESCRIBE_STRUCT(ResumeRun, (), (run, fence))

// What a run used and nobody has charged yet. The money is gone already, so it is never refused.
struct FinalCharge {
    std::string provider;
    std::string model;
    Money cost;
    Usage usage;
    std::int64_t calls = 1;
    std::string price;
};
BOOST_DESCRIBE_STRUCT(FinalCharge, (), (provider, model, cost, usage, calls, price))

struct FinishRun {
    RunId run;
    Fence fence;
    RunState outcome = RunState::succeeded;  // succeeded, failed or timed_out.
    std::string reason;
    std::optional<FinalCharge> charge;
    std::int32_t exit_code = -1;
    bool by_client = false;  // Of a supervised run only its supervisor knows that nothing is left of it.
};
BOOST_DESCRIBE_STRUCT(FinishRun, (), (run, fence, outcome, reason, charge, exit_code, by_client))

struct CancelRun {  // With its fence, from its owner: ended now. Without, or by a client of a supervised run: a queued
                    // run ends, a live one is asked to stop.
    RunId run;
    Fence fence;
    std::string reason;
    std::optional<FinalCharge> charge;
    std::int32_t exit_code = -1;
    bool by_client = false;
};
BOOST_DESCRIBE_STRUCT(CancelRun, (), (run, fence, reason, charge, exit_code, by_client))

struct LoseRun {  // Somebody has seen that its owner is gone.
    RunId run;
    Fence fence;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(LoseRun, (), (run, fence, reason))

struct RestatePlaces {  // The server has looked again at the directories of a live run.
    RunId run;
    Fence fence;
    std::vector<Place> workspaces;  // What they are now, in the order that the run has them in.
    std::string reason;             // What has changed.
};
BOOST_DESCRIBE_STRUCT(RestatePlaces, (), (run, fence, workspaces, reason))

struct RecordConnection {  // A connection of a sealed run to another host has ended, or was refused.
    RunId run;
    std::string host;
    std::int32_t port = 0;
    ConnectionOutcome outcome = ConnectionOutcome::closed;
    std::int64_t bytes_out = 0;  // From the run.
    std::int64_t bytes_in = 0;
};
BOOST_DESCRIBE_STRUCT(RecordConnection, (), (run, host, port, outcome, bytes_out, bytes_in))

// ---- worktrees ----------------------------------------------------------------------------------------------------

struct PutWorktree {  // Before anything is on the disk, so that nothing there is unknown, and again when
                      // it is known where it begins. Gives it its ports.
    RunId run;
    std::string node;
    std::string repository;
    std::string path;
    std::string branch;
    std::string base;
    std::string teardown;
};
BOOST_DESCRIBE_STRUCT(PutWorktree, (), (run, node, repository, path, branch, base, teardown))

struct DropWorktree {  // After nothing is on the disk any more.
    RunId run;
    std::string saved_as;  // The ref that keeps what was in it; empty: it is all elsewhere.
};
BOOST_DESCRIBE_STRUCT(DropWorktree, (), (run, saved_as))

// ---- the gateway ---------------------------------------------------------------------------------------------------

struct PutSetting {
    std::string kind;
    std::string name;
    std::string document;
};
BOOST_DESCRIBE_STRUCT(PutSetting, (), (kind, name, document))

struct DropSetting {
    std::string kind;
    std::string name;
};
BOOST_DESCRIBE_STRUCT(DropSetting, (), (kind, name))

struct RecordCalls {  // Many at once, after the fact.
    std::vector<ModelCall> calls;
};
BOOST_DESCRIBE_STRUCT(RecordCalls, (), (calls))

// ---- schedules and time -------------------------------------------------------------------------------------------

struct PutSchedule {
    std::string name;
    std::string agent;
    std::int64_t every_s = 0;  // This, or
    std::string cron;          // this.
    std::string zone = "UTC";
    std::int64_t jitter_s = 0;
    Overlap overlap = Overlap::skip;
    Missed missed = Missed::one;
    std::int32_t missed_max = 10;
    std::vector<Place> places;
    std::int32_t lease_s = 60;
    std::int32_t priority = 0;
    Amounts hold;
    bool enabled = true;
    std::string node = {};
    std::vector<Place> worktrees = {};
};
BOOST_DESCRIBE_STRUCT(PutSchedule, (),
                      (name, agent, every_s, cron, zone, jitter_s, overlap, missed, missed_max, places, lease_s,
                       priority, hold, enabled, node, worktrees))

struct DeleteSchedule {
    std::string name;
};
BOOST_DESCRIBE_STRUCT(DeleteSchedule, (), (name))

struct EnableSchedule {  // Or lets it rest, until it is enabled again: what is due meanwhile is not made up for.
    std::string name;
    bool enabled = true;
};
BOOST_DESCRIBE_STRUCT(EnableSchedule, (), (name, enabled))

struct Wake {  // One run now, unless one is already waiting to start: then that one serves this wake too.
    std::string schedule;
    RunId run;
};
BOOST_DESCRIBE_STRUCT(Wake, (), (schedule, run))

// Time has passed: leases and holds lapse, windows turn, schedules fire. Changes nothing before the next deadline.
struct Tick {};
BOOST_DESCRIBE_STRUCT(Tick, (), ())

// The server was away and could not hear anybody: every lease starts anew.
struct Reopened {};
BOOST_DESCRIBE_STRUCT(Reopened, (), ())

// The order is part of the stored fingerprints: new ones go at the end.
#define INTERLOCK_COMMAND_KINDS                                                                                        \
    CreateOrg, PutAgent, PauseAgent, ResumeAgent, ArchiveAgent, CreateKey, RevokeKey, SetCap, PutBudget, DeleteBudget, \
        UnfreezeBudget, Charge, Reserve, ExtendHold, SettleHold, ReleaseHold, CreateSession, Append, ForkSession,      \
        CloseSession, AdmitRun, StartRun, HeartbeatRun, PauseRun, ResumeRun, FinishRun, CancelRun, LoseRun,            \
        PutSchedule, DeleteSchedule, Wake, Tick, Reopened, PutWorktree, DropWorktree, EnableSchedule, PutSetting,      \
        DropSetting, RecordCalls, CorrectCharge, RestatePlaces, RecordConnection
struct CommandBody : std::variant<INTERLOCK_COMMAND_KINDS> {
    INTERLOCK_VARIANT(CommandBody)
};

struct Command {
    OrgId org;
    CommandKey key;
    CommandBody body;
    std::uint64_t fingerprint = 0;  // fingerprint_of(body); filled in before the command is queued.
    CommandKey former = {};         // What an older version stored this command under; looked at, never written.
};

// The same content gives the same number; it tells a repeat from a reuse of the key. The ids of what a command makes
// and what the system found at a path do not count as content. Not a defence against an attacker: whoever can choose
// both contents owns both.
std::uint64_t fingerprint_of(const CommandBody& body);

// Whether the command makes a cost event. The event is stored under the command's key, so the command needs one.
inline bool makes_cost_event(const CommandBody& body) {
    return std::holds_alternative<Charge>(body) || std::holds_alternative<SettleHold>(body) ||
           std::holds_alternative<CorrectCharge>(body);
}

// Whether the command sums the committed ledger, and so must be the first of its batch.
inline bool reads_ledger(const CommandBody& body) { return std::holds_alternative<PutBudget>(body); }

// When a command is applied.
struct Stamp {
    Instant at;
};

}  // namespace interlock::core
