// A run as clients see it, and the way to one that a caller may see.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/places.h"

namespace interlock::api {

struct RunView {
    static constexpr std::array new_names{NewName{.name = "cancel_requested", .member = "stop_requested"}};
    core::RunId id;
    std::string name;
    core::RunState status = core::RunState::queued;
    std::string agent;
    std::string workflow;
    std::string provider;
    std::string model;
    core::SessionId session;
    core::Tags tags;
    std::string node;
    std::optional<std::string> workspace;
    bool isolated = false;
    std::vector<PlaceView> places;
    core::Fence fence;
    std::int32_t priority = 0;
    std::int32_t lease_s = 60;
    Instant lease_until;
    Instant created_at;
    Instant admitted_at;
    Instant started_at;
    Instant ended_at;
    Instant queued_until;
    Instant not_before;
    std::string reason;
    std::optional<std::string> stop_requested;
    std::optional<std::string> schedule;
    core::HoldId hold;
    std::optional<Money> budget;
    Money spent;
    std::int64_t tokens = 0;
    std::int64_t events = 0;
    Money estimated;
    bool supervised = false;
    std::int32_t attempt = 1;
    core::RunId retry_of;
    std::optional<std::int32_t> exit_code;
    core::RunId parent;                // The run whose program has started it.
    std::optional<Money> spent_total;  // With the runs below it; null where these have settled nothing.
};
BOOST_DESCRIBE_STRUCT(RunView, (),
                      (id, name, status, agent, workflow, provider, model, session, tags, node, workspace, isolated,
                       places, fence, priority, lease_s, lease_until, created_at, admitted_at, started_at, ended_at,
                       queued_until, not_before, reason, stop_requested, schedule, hold, budget, spent, tokens, events,
                       estimated, supervised, attempt, retry_of, exit_code, parent, spent_total))

// How its process is started. Of its environment only the names: values may be secrets, and whoever may read runs is
// not always who may have those.
struct ProcessView {
    std::string directory;
    std::vector<std::string> env;
    std::vector<std::string> pass_env;
    std::int64_t timeout_s = 0;
    std::int32_t grace_s = 10;
    std::int32_t nice = 0;
    std::map<std::string, std::int64_t> limits;
    bool sandbox = false;
    core::SandboxLevel sandbox_level = core::SandboxLevel::server_default;  // As it was asked for.
    std::vector<std::string> writable;
    std::vector<std::string> readable;
    std::vector<std::string> allowed_hosts;
    std::string adapter;
    std::string setup;
    std::string teardown;
    bool foreground = false;
    core::Retry retry;
};
BOOST_DESCRIBE_STRUCT(ProcessView, (),
                      (directory, env, pass_env, timeout_s, grace_s, nice, limits, sandbox, sandbox_level, writable,
                       readable, allowed_hosts, adapter, setup, teardown, foreground, retry))

// One run by itself.
struct RunDetail : RunView {
    std::optional<std::vector<std::string>> command;
    std::optional<ProcessView> process;  // None: its client starts what it likes.
    std::optional<std::string> sandbox;  // The level in force, and why it is none; null before it starts.
};
BOOST_DESCRIBE_STRUCT(RunDetail, (RunView), (command, process, sandbox))

// What is stored of a run.
struct StoredRun {
    core::Run run;
    std::optional<core::Launch> launch;  // Only of supervised ones.
    std::string sandbox;                 // As StartRun said.
};

RunView run_view_of(const core::Run& run);
RunDetail detail_of(const StoredRun& stored);

// The org's runs that have not ended, and those of them that work, as conditions. By the index of states, which SQLite
// does not take by itself when a question wants more of a run than its id.
inline constexpr std::string_view not_ended =
    "id in (select id from runs where org = $1 and state in ('queued', 'starting', 'running', 'paused'))";
inline constexpr std::string_view at_work =
    "id in (select id from runs where org = $1 and state in ('starting', 'running', 'paused'))";

// As null when there is none.
std::optional<std::string> stated(const std::string& text);

// Whether the caller may see the run. A run's key sees the runs below its own too.
Result<bool, store::ReadError> may_see(store::Snapshot& snapshot, const Principal& caller, const core::Run& run);

// What a caller's key may not see does not exist for it.
net::Task<Result<core::Run, Problem>> read_run(Call& call, core::RunId id);
net::Task<Result<StoredRun, Problem>> read_stored_run(Call& call, core::RunId id);
// The one that the path names. Bound keys look first whether it is theirs; for all others the rules do.
net::Task<Result<core::RunId, Problem>> reachable_run(Call& call);

// Where what is asked for is another node's business: which one's, and where that is.
net::Task<Problem> of_another_node(Call& call, std::string node, std::string_view what);

}  // namespace interlock::api
