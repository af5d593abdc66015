// The rows: everything Interlock remembers, as plain data.
//
// Each row belongs to one org and is stored under (org, key). The first `key_columns` described members of a row are
// its key; member names are column names, in every store. A row says nothing about rules: those are in the nouns' files
// beside this one. What is stored where, and for how long, is said by `Life`.
//
// `counters` names the members that interlock verify recomputes from other rows. A row of which nothing else is left is
// marked `derived`. A seal (store/seals.h) covers everything but counters and derived rows.
//
// A member of a struct type marked `flat` is stored as that struct's own columns. Of one marked `sparse`, only what is
// not at its default is written.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "base/calendar.h"
#include "base/id.h"
#include "base/instant.h"
#include "base/money.h"
#include "base/price.h"
#include "base/sha256.h"
#include "base/strong.h"

namespace interlock {
BOOST_DESCRIBE_ENUM(WindowKind, day, week, month, total)
}

namespace interlock::core {

using OrgId = Strong<struct OrgIdTag, std::uint32_t>;
using RunId = Strong<struct RunIdTag, Id>;
using SessionId = Strong<struct SessionIdTag, Id>;
using HoldId = Strong<struct HoldIdTag, Id>;
using MessageId = Strong<struct MessageIdTag, Id>;
using CallId = Strong<struct CallIdTag, Id>;
// Chosen by the client and kept across its retries; it is what makes a retry safe. The empty key asks for no dedupe.
using CommandKey = Strong<struct CommandKeyTag, Id>;
// The position of an event in its org's feed. Starts at 1, never skips.
using Seq = Strong<struct SeqTag, std::int64_t>;
// Grows with every admission in an org. Whoever shows an older one has been replaced.
using Fence = Strong<struct FenceTag, std::int64_t>;

using Tags = std::map<std::string, std::string>;

// How long a row lives in memory, and how it may change in the store.
enum class Life {
    resident,  // In memory from open to close: few, and needed to decide.
    cached,    // Loaded by key when asked for; may be dropped between batches.
    appended,  // Written once, never changed; looked up by key only.
};

enum class Metric { usd, tokens, calls, runs };
BOOST_DESCRIBE_ENUM(Metric, usd, tokens, calls, runs)

// How much of each metric: nano-dollars, tokens, calls, runs.
struct Amounts {
    using flat = void;
    std::int64_t usd = 0;
    std::int64_t tokens = 0;
    std::int64_t calls = 0;
    std::int64_t runs = 0;

    std::int64_t of(Metric metric) const {
        return std::array{usd, tokens, calls, runs}[static_cast<std::size_t>(metric)];
    }
    friend bool operator==(const Amounts&, const Amounts&) = default;
};
BOOST_DESCRIBE_STRUCT(Amounts, (), (usd, tokens, calls, runs))

// On whose account something happens. Empty means "not stated".
struct Attribution {
    using flat = void;
    std::string agent;
    std::string workflow;
    std::string provider;
    std::string model;
    std::string api_key;
    RunId run;
    SessionId session;
    Tags tags;

    friend bool operator==(const Attribution&, const Attribution&) = default;
};
BOOST_DESCRIBE_STRUCT(Attribution, (), (agent, workflow, provider, model, api_key, run, session, tags))

// ---- what a run is made of ----------------------------------------------------------------------------------------

enum class ClaimKind { workspace, resource };
BOOST_DESCRIBE_ENUM(ClaimKind, workspace, resource)
enum class ClaimMode { read, write };
BOOST_DESCRIBE_ENUM(ClaimMode, read, write)
enum class OnConflict { refuse, queue, replace, isolate };
BOOST_DESCRIBE_ENUM(OnConflict, refuse, queue, replace, isolate)

// What the processes of a run can reach beside their workspace; docs/sandbox.md has the table. Each level bounds more
// than the one before it.
enum class SandboxLevel { server_default, off, guarded, files, sealed };
BOOST_DESCRIBE_ENUM(SandboxLevel, server_default, off, guarded, files, sealed)

// How a connection of a sealed run to another host came out.
enum class ConnectionOutcome {
    closed,       // It was made, and has ended.
    not_allowed,  // The host is not among those that the run may reach.
    not_public,   // The host's address is of this machine or a private network.
    not_found,    // The name has no address.
    unreachable,
};
BOOST_DESCRIBE_ENUM(ConnectionOutcome, closed, not_allowed, not_public, not_found, unreachable)

// The process of a run: what a supervisor starts, and within which bounds.
struct ProcessSpec {
    using sparse = void;
    std::vector<std::string> command;   // The program and its arguments, as they are: no shell looks at them.
    std::string directory;              // Where it works, unless it is isolated; empty: in a directory of its own.
    Tags env;                           // Beside the few variables that every run has.
    std::vector<std::string> pass_env;  // Handed through from the environment of whoever starts it.
    std::int64_t timeout_s = 0;         // 0: none.
    std::int32_t grace_s = 10;          // Between the polite signal and the sure one.
    std::int32_t nice = 0;
    std::map<std::string, std::int64_t> limits;  // By the names of ulimit: nofile, as, cpu, …
    bool sandbox = false;                        // What rows without a level say instead of SandboxLevel::files.
    std::vector<std::string> writable;           // At level files: where it writes beside its workspace.
    std::string adapter;                         // Which known program it is; empty: told by its name.
    std::string setup;                           // A shell's text, before the command, in its worktree.
    std::string teardown;                        // The same before the worktree is removed.
    bool foreground = false;                     // Somebody's terminal starts it, not the server.
    SandboxLevel level = SandboxLevel::server_default;
    std::vector<std::string> readable;       // At level files: what it reads beside its workspace.
    std::vector<std::string> allowed_hosts;  // At level sealed: where it connects to, see hosts.h.

    SandboxLevel asked_level() const {
        return level == SandboxLevel::server_default && sandbox ? SandboxLevel::files : level;
    }
    friend bool operator==(const ProcessSpec&, const ProcessSpec&) = default;
};
BOOST_DESCRIBE_STRUCT(ProcessSpec, (),
                      (command, directory, env, pass_env, timeout_s, grace_s, nice, limits, sandbox, writable, adapter,
                       setup, teardown, foreground, level, readable, allowed_hosts))

// What follows when a run fails, times out or is lost. The waits double, from the first to the longest.
struct Retry {
    std::int32_t tries = 1;  // In all.
    std::int32_t backoff_s = 10;
    std::int32_t backoff_max_s = 600;
    friend bool operator==(const Retry&, const Retry&) = default;
};
BOOST_DESCRIBE_STRUCT(Retry, (), (tries, backoff_s, backoff_max_s))

// What is kept, in a run's session, of what its agent and its models say to each other.
enum class Capture {
    off,
    usage,  // That there was a call, and what it used.
    full,   // Also what was said.
};
BOOST_DESCRIBE_ENUM(Capture, off, usage, full)

// How an agent comes to its place.
struct Workplace {
    ClaimMode mode = ClaimMode::write;
    OnConflict on_conflict = OnConflict::queue;
    bool isolate = false;  // Always in a worktree of its own.
    std::vector<std::string> resources;
    friend bool operator==(const Workplace&, const Workplace&) = default;
};
BOOST_DESCRIBE_STRUCT(Workplace, (), (mode, on_conflict, isolate, resources))

// ---- orgs, agents, keys, caps -------------------------------------------------------------------------------------

struct Org {
    static constexpr std::string_view table = "orgs";
    static constexpr std::size_t key_columns = 0;  // One row per org: the org itself is the key.
    static constexpr Life life = Life::resident;
    static constexpr std::array<std::string_view, 1> counters{"marked_at"};
    std::string name;
    Instant created_at;
    Fence last_fence;                // Of the latest admission.
    std::int64_t last_ticket = 0;    // Of the latest run put in line: what FIFO goes by.
    Instant marked_at = {};          // Of the last SpendMark of the org as a whole.
    Instant former_keys_until = {};  // Until then a command is looked up under its former key too.
};
BOOST_DESCRIBE_STRUCT(Org, (), (name, created_at, last_fence, last_ticket, marked_at, former_keys_until))

// One reason why an agent stands still. An agent works while it has none.
struct AgentPause {
    std::string by;      // "operator", or "budget:" and the budget's name.
    std::string reason;  // For people.
    Instant since;
    Instant until;  // far_future: until somebody resumes it.
    friend bool operator==(const AgentPause&, const AgentPause&) = default;
};
BOOST_DESCRIBE_STRUCT(AgentPause, (), (by, reason, since, until))

struct Agent {
    static constexpr std::string_view table = "agents";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::resident;
    std::string name;
    std::vector<std::string> command;
    std::int32_t max_concurrent_runs = 1;
    Tags tags;
    std::vector<AgentPause> pauses;
    Instant created_at;
    bool archived = false;     // Names are never freed: the ledger refers to them forever.
    ProcessSpec process = {};  // Of its runs. Its `command` is empty here, and the agent's own is used.
    Retry retry = {};
    Workplace workplace = {};
    std::string provider = {};  // Whose models its runs use, for the provider's cap.
    Capture capture = Capture::usage;
    // Directories that API keys below operator may claim, with all below, besides the agent's workspace.
    std::vector<std::string> roots = {};
    // Where those and the workspace led when an operator set them: a link that changes later widens nothing.
    std::vector<std::string> resolved_roots = {};
    std::vector<std::string> child_agents = {};  // Whose runs its runs may start, besides its own.
};
BOOST_DESCRIBE_STRUCT(Agent, (),
                      (name, command, max_concurrent_runs, tags, pauses, created_at, archived, process, retry,
                       workplace, provider, capture, roots, resolved_roots, child_agents))

// What an agent has cost so far. Apart from Agent, because it changes with every charge.
struct AgentTotals {
    static constexpr std::string_view table = "agent_totals";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::resident;
    using derived = void;
    std::string agent;
    std::int64_t settled = 0;  // Nano-dollars.
    std::int64_t tokens = 0;
    std::int64_t events = 0;
    Instant last_event_at;
};
BOOST_DESCRIBE_STRUCT(AgentTotals, (), (agent, settled, tokens, events, last_event_at))

struct ApiKey {
    static constexpr std::string_view table = "api_keys";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::resident;
    std::string id;                   // The public part, by which it is looked up.
    std::string hash;                 // Of the secret part, hex. The secret itself is never here.
    std::vector<std::string> scopes;  // admin, operator, agent, read.
    std::string agent;                // Bound to this agent, run or budget; empty: not bound.
    RunId run;
    std::string budget;
    std::string note;
    Instant created_at;
    Instant revoked_at;  // far_past: in force.
};
BOOST_DESCRIBE_STRUCT(ApiKey, (), (id, hash, scopes, agent, run, budget, note, created_at, revoked_at))

enum class CapKind { org, provider, node };
BOOST_DESCRIBE_ENUM(CapKind, org, provider, node)

// At most `max_live` runs at once for a provider, a node or the org, and as many calls under way to a provider. An
// agent's cap is on the agent.
struct Cap {
    static constexpr std::string_view table = "caps";
    static constexpr std::size_t key_columns = 2;
    static constexpr Life life = Life::resident;
    CapKind kind = CapKind::org;
    std::string name;  // Empty for the org's own cap.
    std::int32_t max_live = 0;
};
BOOST_DESCRIBE_STRUCT(Cap, (), (kind, name, max_live))

// ---- the ledger ---------------------------------------------------------------------------------------------------

// What a budget covers: everything that agrees with each stated member.
struct Scope {
    using sparse = void;
    std::string agent;
    std::string workflow;
    std::string provider;
    std::string model;
    std::string api_key;
    RunId run;
    SessionId session;
    Tags tags;
    friend bool operator==(const Scope&, const Scope&) = default;
};
BOOST_DESCRIBE_STRUCT(Scope, (), (agent, workflow, provider, model, api_key, run, session, tags))

enum class OnExhausted { refuse, pause_agent, stop_runs };
BOOST_DESCRIBE_ENUM(OnExhausted, refuse, pause_agent, stop_runs)

struct Budget {
    static constexpr std::string_view table = "budgets";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::resident;
    std::string name;
    Scope scope;
    Metric metric = Metric::usd;
    WindowKind window = WindowKind::month;
    std::string zone = "UTC";
    std::int64_t limit_units = 0;  // Nano-dollars, tokens, calls or runs.
    bool hard = true;
    std::vector<std::int32_t> warn;  // Percent of the limit, rising.
    OnExhausted on_exhausted = OnExhausted::refuse;
    Instant created_at;
    bool deleted = false;
    std::string frozen;  // Why nothing more is admitted until a person looks; empty: not frozen.
};
BOOST_DESCRIBE_STRUCT(Budget, (),
                      (name, scope, metric, window, zone, limit_units, hard, warn, on_exhausted, created_at, deleted,
                       frozen))

// The counters of one budget in one window. Past windows are kept.
struct Window {
    static constexpr std::string_view table = "budget_windows";
    static constexpr std::size_t key_columns = 2;
    static constexpr Life life = Life::cached;
    static constexpr std::array<std::string_view, 4> counters{"end_at", "settled", "held", "marked_at"};
    std::string budget;
    Instant start_at;
    Instant end_at;
    std::int64_t limit_units = 0;  // The budget's limit while the window is current; kept as it was then.
    bool hard = true;              // Likewise.
    std::int64_t settled = 0;      // The sum of the window's events, in the budget's metric.
    std::int64_t held = 0;         // The sum of its open holds' parts.
    std::int64_t grace = 0;        // By how much a lowered or late limit found the window already past it.
    std::int32_t warned = 0;       // The highest threshold that has fired.
    bool exhausted = false;        // What exhaustion does has been done.
    Instant marked_at = {};        // Of its last SpendMark.
};
BOOST_DESCRIBE_STRUCT(Window, (),
                      (budget, start_at, end_at, limit_units, hard, settled, held, grace, warned, exhausted, marked_at))

// What a counter said before the first spending of a bucket of time. What a bucket came to is the difference of two
// marks, or of the counter and the last one: exact, for one row in a bucket instead of one in a charge.
struct SpendMark {
    static constexpr std::string_view table = "spend_marks";
    static constexpr std::size_t key_columns = 3;
    static constexpr Life life = Life::appended;
    using derived = void;
    std::string budget;        // Empty: the org as a whole, by the UTC minute.
    Instant start_at = {};     // Of the budget's window; far_past for the org.
    Instant at = {};           // The bucket's first moment, counted from the window's start.
    std::int64_t settled = 0;  // In the budget's metric; nano-dollars for the org.
};
BOOST_DESCRIBE_STRUCT(SpendMark, (), (budget, start_at, at, settled))

// One budget's share of a hold.
struct HoldPart {
    std::string budget;
    Instant window;           // The start of the window it was admitted in.
    std::int64_t amount = 0;  // What is held there now.
    std::int64_t drawn = 0;   // Of `amount`, what came out of the run's own hold and returns to it.
    friend bool operator==(const HoldPart&, const HoldPart&) = default;
};
BOOST_DESCRIBE_STRUCT(HoldPart, (), (budget, window, amount, drawn))

enum class HoldState { open, settled, released };
BOOST_DESCRIBE_ENUM(HoldState, open, settled, released)

// Who opened a hold, and so may end it. For `key` it is the API key in the hold's attribution.
enum class HoldOpener { key, gateway, run };
BOOST_DESCRIBE_ENUM(HoldOpener, key, gateway, run)

struct Hold {
    static constexpr std::string_view table = "holds";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::cached;  // Open ones are resident.
    HoldId id;
    Attribution who;
    Amounts bound;  // The most it may come to. A run's own hold shrinks as the run draws from it.
    Amounts drawn;  // Of `bound`, what came out of the run's own hold and returns to it.
    std::vector<HoldPart> parts;
    bool dispatched = false;  // The request may have reached a provider.
    HoldState state = HoldState::open;
    Instant created_at;
    Instant expires_at;
    Instant closed_at;
    HoldOpener opened_by = HoldOpener::key;
    CommandKey event = {};  // The cost event that settled it.

    // The hold that a run was admitted with. The run's own charges and holds draw from it.
    bool for_run() const { return opened_by == HoldOpener::run; }
};
BOOST_DESCRIBE_STRUCT(Hold, (),
                      (id, who, bound, drawn, parts, dispatched, state, created_at, expires_at, closed_at, opened_by,
                       event))

// Money spent: immutable, and the ground on which every counter stands.
struct CostEvent {
    static constexpr std::string_view table = "cost_events";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::appended;
    CommandKey key;
    std::uint64_t fingerprint = 0;  // Of the command that made it, so that a repeat is known from a reuse.
    Seq seq;
    Instant at;
    Instant counted_at;  // The admission of its hold, or `at`: decides the windows and the day it counts in.
    Attribution who;
    std::int64_t cost = 0;  // Nano-dollars. Only a correction may be below 0, in cost, usage and calls.
    Usage usage;
    std::int64_t calls = 1;
    std::string price;  // Id and version of the price it was computed by; empty: the client stated the cost.
    HoldId hold;
    std::int64_t overage = 0;  // By how much it went past what was reserved or left.
    bool over_limit = false;   // Recorded although it passed a bound or a limit.
    bool estimated = false;    // The true cost is not known; this is its bound, or a correction of that.
    bool unpriced = false;     // There was no price; the cost is not 0 but not known.
    CommandKey corrects = {};  // The event that this one corrects. Its account and windows are those of that event.
    std::string why = {};      // Of a correction.
};
BOOST_DESCRIBE_STRUCT(CostEvent, (),
                      (key, fingerprint, seq, at, counted_at, who, cost, usage, calls, price, hold, overage, over_limit,
                       estimated, unpriced, corrects, why))

// What a cost event comes to with its corrections. Only events that were corrected have one.
struct CorrectedCost {
    static constexpr std::string_view table = "corrected_costs";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::cached;
    using derived = void;
    CommandKey event;
    std::int64_t cost = 0;
};
BOOST_DESCRIBE_STRUCT(CorrectedCost, (), (event, cost))

// The sums of a UTC day by agent, provider and model.
struct Rollup {
    static constexpr std::string_view table = "rollups";
    static constexpr std::size_t key_columns = 4;
    static constexpr Life life = Life::cached;
    using derived = void;
    std::int32_t day = 0;  // Days since 1970-01-01.
    std::string agent;
    std::string provider;
    std::string model;
    std::int64_t cost = 0;
    std::int64_t events = 0;
    std::int64_t calls = 0;
    Usage usage;
};
BOOST_DESCRIBE_STRUCT(Rollup, (), (day, agent, provider, model, cost, events, calls, usage))

// ---- sessions -----------------------------------------------------------------------------------------------------

struct Session {
    static constexpr std::string_view table = "sessions";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::cached;
    static constexpr std::array<std::string_view, 4> counters{"input_tokens", "output_tokens", "settled", "events"};
    SessionId id;
    std::string agent;
    std::string title;
    std::string metadata;
    Instant created_at;
    SessionId parent;            // Messages before `first_seq` are the parent's.
    std::int64_t first_seq = 0;  // The first number that is this session's own.
    std::int64_t next_seq = 0;
    bool closed = false;
    std::int64_t input_tokens = 0;  // Of its own messages.
    std::int64_t output_tokens = 0;
    std::int64_t settled = 0;  // Nano-dollars charged to it.
    std::int64_t events = 0;
    std::string api_key = {};  // The API key that made it.
};
BOOST_DESCRIBE_STRUCT(Session, (),
                      (id, agent, title, metadata, created_at, parent, first_seq, next_seq, closed, input_tokens,
                       output_tokens, settled, events, api_key))

enum class Role { user, assistant, system, tool };
BOOST_DESCRIBE_ENUM(Role, user, assistant, system, tool)

struct Message {
    static constexpr std::string_view table = "messages";
    static constexpr std::size_t key_columns = 2;
    static constexpr Life life = Life::appended;
    SessionId session;
    std::int64_t seq = 0;
    MessageId id;
    Role role = Role::user;
    std::string content;
    std::string metadata;
    Instant at;
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
    RunId run;
};
BOOST_DESCRIBE_STRUCT(Message, (), (session, seq, id, role, content, metadata, at, input_tokens, output_tokens, run))

// ---- runs, claims, schedules --------------------------------------------------------------------------------------

// A place or a named thing that a run wants for itself. For a workspace, `chain` is the identity (device:inode) of the
// directory and of every ancestor, the directory first: a bind mount gives one directory two paths, but not two inodes.
struct Place {
    using flat = void;
    ClaimKind kind = ClaimKind::workspace;
    std::string host;
    std::string path;  // Canonical and absolute; for a resource, its name.
    std::vector<std::string> chain;
    ClaimMode mode = ClaimMode::write;
    friend bool operator==(const Place&, const Place&) = default;
};
BOOST_DESCRIBE_STRUCT(Place, (), (kind, host, path, chain, mode))

// A live run's hold on a place. Claims exist exactly as long as their run is live.
struct Claim {
    static constexpr std::string_view table = "claims";
    static constexpr std::size_t key_columns = 2;
    static constexpr Life life = Life::resident;
    RunId run;
    std::int32_t number = 0;  // 0, 1, … within the run.
    Place place;
    Fence fence;
    RunId parent = {};  // Of the run. Its claim covers this one.
};
BOOST_DESCRIBE_STRUCT(Claim, (), (run, number, place, fence, parent))

enum class RunState { queued, starting, running, paused, succeeded, failed, cancelled, timed_out, lost };
BOOST_DESCRIBE_ENUM(RunState, queued, starting, running, paused, succeeded, failed, cancelled, timed_out, lost)

constexpr bool is_live(RunState state) {
    return state == RunState::starting || state == RunState::running || state == RunState::paused;
}
constexpr bool has_ended(RunState state) { return state >= RunState::succeeded; }

struct Run {
    static constexpr std::string_view table = "runs";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::cached;  // Queued and live ones are resident.
    static constexpr std::array<std::string_view, 6> counters{"settled", "tokens", "events",
                                                              "unknown", "steps",  "settled_below"};
    RunId id;
    Attribution who;  // `who.run` is the run itself.
    std::string node;
    RunState state = RunState::queued;
    std::int32_t priority = 0;  // Higher goes first.
    std::int64_t ticket = 0;    // Its place in line within the priority.
    Fence fence;                // 0 until admitted, and again once it is put back in line.
    std::vector<Place> wanted;  // What it claims once admitted.
    Amounts hold_bound;         // What is held for it once admitted; all 0: nothing.
    HoldId hold;
    bool metered = false;   // All its model calls pass through holds, so its own hold's rest is known to be unspent.
    bool isolated = false;  // It works in the place it brought for that case.
    std::string stop_requested;  // Why its owner should end it; empty: nobody asked.
    std::int32_t lease_s = 60;
    Instant created_at;
    Instant queued_until;  // far_future: waits forever.
    Instant admitted_at;   // For the first time; far_past: not yet. This, `lease_until` and the next two move with its
                           // state.
    Instant lease_until;
    Instant started_at;
    Instant ended_at;
    std::string reason;        // Why it ended, for people.
    std::string schedule;      // The schedule that fired it.
    std::int64_t settled = 0;  // Nano-dollars charged to it.
    std::int64_t tokens = 0;
    std::int64_t events = 0;
    std::int64_t unknown = 0;        // Of `settled`, what is charged at its bound because the cost is not known.
    std::string name;                // What people call it; may be empty.
    bool supervised = false;         // There is a Launch for it, and its node's supervisor is its owner.
    std::int64_t ceiling = 0;        // Nano-dollars that it may spend in all; 0: what its budgets allow.
    std::int32_t attempt = 1;        // Of as many tries as its Launch allows.
    RunId retry_of = {};             // The try before it.
    Instant not_before = {};         // In line, but not yet.
    std::int32_t exit_code = -1;     // Of its process, 128 and the signal that killed it, or -1: not known.
    std::int64_t steps = 0;          // How many RunSteps it has.
    RunId parent = {};               // Whose program has started it; empty: no run's.
    RunId root = {};                 // The first run above it, which has no parent; empty: it has none itself.
    std::int64_t settled_below = 0;  // Nano-dollars charged to the runs below it.
};
BOOST_DESCRIBE_STRUCT(Run, (),
                      (id, who, node, state, priority, ticket, fence, wanted, hold_bound, hold, metered, isolated,
                       stop_requested, lease_s, created_at, queued_until, admitted_at, lease_until, started_at,
                       ended_at, reason, schedule, settled, tokens, events, unknown, name, supervised, ceiling, attempt,
                       retry_of, not_before, exit_code, steps, parent, root, settled_below))

// What a run in line waits for.
enum class WaitsFor { nothing, agent, budget, workspace, agent_cap, provider_cap, node_cap, org_cap, its_time };
BOOST_DESCRIBE_ENUM(WaitsFor, nothing, agent, budget, workspace, agent_cap, provider_cap, node_cap, org_cap, its_time)

// A moment at which something became of a run: its state changed, or it was asked to stop.
struct RunStep {
    static constexpr std::string_view table = "run_steps";
    static constexpr std::size_t key_columns = 2;
    static constexpr Life life = Life::appended;
    RunId run;
    std::int64_t number = 0;  // 1, 2, … within the run.
    Instant at = {};
    RunState state = RunState::queued;       // From then on.
    WaitsFor waits_for = WaitsFor::nothing;  // When it was put in line.
    std::string reason = {};                 // For people.
};
BOOST_DESCRIBE_STRUCT(RunStep, (), (run, number, at, state, waits_for, reason))

// What a supervised run starts. Written with its admission.
struct Launch {
    static constexpr std::string_view table = "launches";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::appended;
    RunId run;
    ProcessSpec process = {};
    Retry retry = {};
};
BOOST_DESCRIBE_STRUCT(Launch, (), (run, process, retry))

enum class WorktreeState { open, saved };
BOOST_DESCRIBE_ENUM(WorktreeState, open, saved)

// A copy of a repository that was made for one run. It outlives the run until its work is safe elsewhere.
struct Worktree {
    static constexpr std::string_view table = "worktrees";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::resident;
    RunId run;
    std::string node;        // On whose disk it is.
    std::string repository;  // Where it was taken from.
    std::string path;
    std::string branch;
    std::string base;  // The commit it began at.
    std::string teardown;
    std::int32_t port_base = 0;  // The first of a block of ports that is its own; 0: there was none left.
    WorktreeState state = WorktreeState::open;  // saved: removed, and what was in it is under `saved_as`.
    std::string saved_as;
    Instant created_at;
};
BOOST_DESCRIBE_STRUCT(Worktree, (),
                      (run, node, repository, path, branch, base, teardown, port_base, state, saved_as, created_at))

enum class Overlap { skip, queue, replace, allow };
BOOST_DESCRIBE_ENUM(Overlap, skip, queue, replace, allow)
enum class Missed { skip, one, all };
BOOST_DESCRIBE_ENUM(Missed, skip, one, all)

struct Schedule {
    static constexpr std::string_view table = "schedules";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::resident;
    std::string name;
    std::string agent;
    std::int64_t every_s = 0;  // An interval, or
    std::string cron;          // five fields, in
    std::string zone = "UTC";
    std::int64_t jitter_s = 0;
    Overlap overlap = Overlap::skip;
    Missed missed = Missed::one;
    std::int32_t missed_max = 10;  // How many missed ticks `all` makes up for.
    std::vector<Place> places;     // Of the runs it starts.
    std::int32_t lease_s = 60;
    std::int32_t priority = 0;
    Amounts hold_bound;
    bool enabled = true;
    bool deleted = false;
    Instant created_at;
    Instant next_at;  // The next tick, without jitter.
    Instant last_fired_at;
    std::int64_t fired = 0;             // Ticks and wakes that became a run.
    std::int64_t skipped = 0;           // Ticks that met a run still going, or came too late.
    std::int64_t coalesced = 0;         // Wakes that found a run already waiting for them.
    std::string node;                   // Where its runs are started.
    std::vector<Place> worktrees = {};  // Where theirs are made, if they work in worktrees; else empty.
    friend bool operator==(const Schedule&, const Schedule&) = default;
};
BOOST_DESCRIBE_STRUCT(Schedule, (),
                      (name, agent, every_s, cron, zone, jitter_s, overlap, missed, missed_max, places, lease_s,
                       priority, hold_bound, enabled, deleted, created_at, next_at, last_fired_at, fired, skipped,
                       coalesced, node, worktrees))

enum class TickOutcome { fired, skipped, coalesced };
BOOST_DESCRIBE_ENUM(TickOutcome, fired, skipped, coalesced)

// What became of a tick or a wake of a schedule.
struct ScheduleTick {
    static constexpr std::string_view table = "ticks";
    static constexpr std::size_t key_columns = 2;
    static constexpr Life life = Life::appended;
    std::string schedule;
    std::int64_t number = 0;  // The schedule's fired, skipped and coalesced in all, with this one. Rises, may skip.
    Instant at = {};
    Instant tick = {};  // When it was due; of a wake, the moment it came.
    TickOutcome outcome = TickOutcome::fired;
    RunId run = {};           // That it started or joined.
    std::string reason = {};  // Why it was skipped.
};
BOOST_DESCRIBE_STRUCT(ScheduleTick, (), (schedule, number, at, tick, outcome, run, reason))

// ---- the gateway ---------------------------------------------------------------------------------------------------

// Something that people have set for a part that the rules know nothing of: an upstream, a price, a secret. No rule
// reads the document; it is kept, numbered and told to everybody.
struct Setting {
    static constexpr std::string_view table = "settings";
    static constexpr std::size_t key_columns = 2;
    static constexpr Life life = Life::resident;
    std::string kind;
    std::string name;
    std::string document = {};  // JSON, or what a secret is encrypted to.
    std::int64_t version = 0;   // Counts how often this name was set.
    Instant changed_at = {};
    bool dropped = false;  // The number goes on when it is set again.
};
BOOST_DESCRIBE_STRUCT(Setting, (), (kind, name, document, version, changed_at, dropped))

// A request to a model, as the gateway saw it. A log: money is in the ledger, and what a crash cut off is only there.
struct ModelCall {
    static constexpr std::string_view table = "model_calls";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::appended;
    CallId id;
    Instant at;  // When it came.
    Attribution who;
    std::string operation;      // "anthropic.messages"
    std::string upstream;       // The last one that was tried.
    std::int32_t status = 0;    // What the client got.
    std::string refusal;        // Our own word, where we said no: budget_exceeded, unknown_model, …
    std::int32_t attempts = 0;  // Requests that were sent on.
    HoldId hold;                // The last attempt's, and the key of its cost event.
    std::int64_t bound = 0;     // Nano-dollars that it held.
    std::int64_t cost = 0;      // Nano-dollars of all attempts.
    Usage usage;
    std::string price;
    bool estimated = false;
    bool unpriced = false;
    bool streamed = false;
    bool cached = false;             // Answered from our own memory.
    std::int64_t first_byte_us = 0;  // Until the client got one; 0: it did not.
    std::int64_t duration_us = 0;
    std::string detail;  // What went wrong, or how the model stopped.
};
BOOST_DESCRIBE_STRUCT(ModelCall, (),
                      (id, at, who, operation, upstream, status, refusal, attempts, hold, bound, cost, usage, price,
                       estimated, unpriced, streamed, cached, first_byte_us, duration_us, detail))

// ---- what was answered, and the feed ------------------------------------------------------------------------------

// The first answer to a command, for those who ask again. Commands that make a cost event are answered from that.
struct StoredReply {
    static constexpr std::string_view table = "answers";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::appended;
    CommandKey key;
    std::uint64_t fingerprint = 0;
    Instant at;
    std::string reply;  // Encoded (base/codec.h).
};
BOOST_DESCRIBE_STRUCT(StoredReply, (), (key, fingerprint, at, reply))

// The events of one commit. hash = SHA-256(hash of the page before, first_seq, last_seq, at, body); see feed.h.
struct FeedPage {
    static constexpr std::string_view table = "feed_pages";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::appended;
    Seq last_seq;
    Seq first_seq;
    Instant at;
    std::string body;
    std::string hash;  // 32 bytes.
    // The seal of the commit, as in Seal. 0 and empty in pages of an older version.
    std::int64_t seal_number = 0;
    std::string seal_key = {};
    std::string digests = {};
    std::string seal_hash = {};
};
BOOST_DESCRIBE_STRUCT(FeedPage, (), (last_seq, first_seq, at, body, hash, seal_number, seal_key, digests, seal_hash))

// What one commit wrote in an org: a keyed digest of each row, chained; see store/seals.h. A commit with events has its
// seal in its feed page, because a row of its own would be two more pages of the database to write. All others have it
// here.
struct Seal {
    static constexpr std::string_view table = "seals";
    static constexpr std::size_t key_columns = 1;
    static constexpr Life life = Life::appended;
    std::int64_t number = 0;  // 1, 2, 3, … per org, without gap.
    Instant at;
    std::string key_id;  // 8 bytes that name the key.
    std::string digests;
    std::string hash;  // 32 bytes.
};
BOOST_DESCRIBE_STRUCT(Seal, (), (number, at, key_id, digests, hash))

// Every kind of row, in the order they are written: what others refer to comes first. Seals name a kind by its position
// in this list, so new kinds go last.
using AllRows = std::tuple<Org, Agent, AgentTotals, ApiKey, Cap, Budget, Window, Session, Message, Run, Claim, Hold,
                           CostEvent, Rollup, Schedule, StoredReply, FeedPage, Launch, Worktree, Setting, ModelCall,
                           SpendMark, RunStep, ScheduleTick, CorrectedCost, Seal>;

}  // namespace interlock::core
