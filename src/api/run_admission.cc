// How a run comes to be: asked for by a client that owns it, or started by a supervisor as its agent or the request
// says; and once more, after it has ended.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "api/attribution.h"
#include "api/child_runs.h"
#include "api/route.h"
#include "api/run_view.h"
#include "base/text.h"
#include "core/limits.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct RetryBody {
    static constexpr std::array new_names{NewName{.name = "max_attempts", .member = "tries"}};
    std::optional<std::int32_t> tries;
    std::optional<std::int32_t> backoff_s;
    std::optional<std::int32_t> backoff_max_s;
};
BOOST_DESCRIBE_STRUCT(RetryBody, (), (tries, backoff_s, backoff_max_s))

// How a process is started. Where nothing is stated, what the agent says holds.
struct ProcessBody {
    std::optional<std::vector<std::string>> command;
    std::optional<core::Tags> env;
    std::optional<std::vector<std::string>> pass_env;
    std::optional<std::int64_t> timeout_s;
    std::optional<std::int32_t> grace_s;
    std::optional<std::int32_t> nice;
    std::optional<std::map<std::string, std::int64_t>> limits;
    std::optional<bool> sandbox;
    std::optional<core::SandboxLevel> sandbox_level;
    std::optional<std::vector<std::string>> writable;
    std::optional<std::vector<std::string>> readable;
    std::optional<std::vector<std::string>> allowed_hosts;
    std::optional<std::string> adapter;
    std::optional<std::string> setup;
    std::optional<std::string> teardown;
    std::optional<RetryBody> retry;
    std::optional<bool> foreground;
};
BOOST_DESCRIBE_STRUCT(ProcessBody, (),
                      (command, env, pass_env, timeout_s, grace_s, nice, limits, sandbox, sandbox_level, writable,
                       readable, allowed_hosts, adapter, setup, teardown, retry, foreground))

struct RunBody : ProcessBody {
    static constexpr std::array required{"agent"};
    static constexpr std::array new_names{NewName{.name = "queue_timeout_s", .member = "queue_s"}};
    std::string agent;
    std::string name;
    bool launch = false;
    std::optional<std::string> workspace;
    std::optional<std::vector<std::string>> resources;
    std::optional<core::ClaimMode> mode;
    std::optional<core::OnConflict> on_conflict;
    std::optional<bool> isolate;
    std::string isolate_into;
    std::int32_t priority = 0;
    std::optional<Money> budget;
    std::optional<Money> hold;
    std::int64_t hold_tokens = 0;
    std::int64_t hold_calls = 0;
    std::int32_t lease_s = 60;
    std::int64_t queue_s = 0;
    bool metered = false;
    core::SessionId session;
    std::string workflow;
    std::optional<std::string> provider;
    std::string model;
    std::string node;
    core::Tags tags;
    std::optional<std::string> key;

    // A command says by itself that it is to be started.
    bool supervised() const { return launch || (command && !command->empty()); }
};
BOOST_DESCRIBE_STRUCT(RunBody, (ProcessBody),
                      (agent, name, launch, workspace, resources, mode, on_conflict, isolate, isolate_into, priority,
                       budget, hold, hold_tokens, hold_calls, lease_s, queue_s, metered, session, workflow, provider,
                       model, node, tags, key))

struct AdmittedView : RunDetail {
    static constexpr std::array new_names{NewName{.name = "cancel_requested", .member = "stop_requested"},
                                          NewName{.name = "queue_position", .member = "place_in_line"}};
    std::int64_t place_in_line = 0;
    core::WaitsFor waits_for = core::WaitsFor::nothing;
    bool repeated = false;
    std::optional<std::string> shim_secret;  // For the terminal that the run is in. It is in no other response.
};
BOOST_DESCRIBE_STRUCT(AdmittedView, (RunDetail), (place_in_line, waits_for, repeated, shim_secret))

// ---- who may ask for what -----------------------------------------------------------------------------------------

// The first member that says how a process is started; empty when none is stated.
std::string first_of_process(const ProcessBody& body) {
    std::string first;
    boost::mp11::mp_for_each<wire_detail::DescribedMembers<ProcessBody>>([&](auto member) {
        if (first.empty() && (body.*member.pointer).has_value()) first = member.name;
    });
    return first;
}

enum class IsChild { no, of_other_agent };

// A program of a supervised run runs on this machine already, so it may say what a child of its own agent runs. The
// rest is bounded by the parent (child_runs.h).
std::optional<Problem> check_child(const RunBody& body) {
    std::string beyond = body.pass_env ? "pass_env" : body.foreground.value_or(false) ? "foreground" : "";
    if (beyond.empty() && body.provider) beyond = "provider";
    if (beyond.empty()) return std::nullopt;
    return Problem{.status = 403,
                   .code = "forbidden",
                   .detail = fmt::format("{} cannot be set for a child run without an operator key, because the server "
                                         "starts its process",
                                         beyond),
                   .pointer = "/" + beyond};
}

// A supervised run is a process of the server's user. Agents have keys, and read what strangers wrote: by its key an
// agent may have its own command started, as its operator set it up and where, and nothing else. So it states none of
// what a process is made of, nor its place: a build in a directory of the agent's choice is a command of its choice.
// Nor what weakens a bound that its operator set: the resources that it locks, the mode, the isolation. What is left
// are those members which a client-owned run of the same key may state as well: its account, name, turn and money.
std::optional<Problem> check_permitted(const Principal& caller, const RunBody& body, IsChild is_child) {
    if (caller.may(Access::operate)) return std::nullopt;
    std::string beyond = first_of_process(body);
    if (beyond.empty() && body.workspace && is_child == IsChild::no) beyond = "workspace";
    if (beyond.empty() && body.resources) beyond = "resources";
    if (beyond.empty() && body.mode) beyond = "mode";
    if (beyond.empty() && body.isolate && !*body.isolate) beyond = "isolate";
    if (beyond.empty() && !body.isolate_into.empty()) beyond = "isolate_into";
    if (beyond.empty() && body.provider) beyond = "provider";
    if (beyond.empty()) return std::nullopt;
    return Problem{.status = 403,
                   .code = "forbidden",
                   .detail = fmt::format("{} needs an operator key; this key can only start the agent's own command "
                                         "with the agent's settings",
                                         beyond),
                   .pointer = "/" + beyond};
}

// ---- what is started ----------------------------------------------------------------------------------------------

template <class T>
void state(T& member, const std::optional<T>& body) {
    if (body) member = *body;
}

// What is a list of names adds to the agent's.
template <class Map>
void state_each(Map& members, const std::optional<Map>& body) {
    if (!body) return;
    for (const auto& [name, value] : *body) members[name] = value;
}
void state_each(std::vector<std::string>& members, const std::optional<std::vector<std::string>>& body) {
    if (body) members.insert(members.end(), body->begin(), body->end());
}

core::ProcessSpec process_of(const core::Agent& agent, const RunBody& body) {
    core::ProcessSpec process = agent.process;
    process.command = body.command && !body.command->empty() ? *body.command : agent.command;
    state_each(process.env, body.env);
    state_each(process.pass_env, body.pass_env);
    state(process.timeout_s, body.timeout_s);
    state(process.grace_s, body.grace_s);
    state(process.nice, body.nice);
    state_each(process.limits, body.limits);
    if (body.sandbox) {
        process.sandbox = *body.sandbox;
        process.level = core::SandboxLevel::server_default;
    }
    if (body.sandbox_level) {
        process.sandbox = *body.sandbox_level == core::SandboxLevel::files;
        process.level = *body.sandbox_level;
    }
    state_each(process.writable, body.writable);
    state_each(process.readable, body.readable);
    state_each(process.allowed_hosts, body.allowed_hosts);
    state(process.adapter, body.adapter);
    state(process.setup, body.setup);
    state(process.teardown, body.teardown);
    process.foreground = body.foreground.value_or(false);
    return process;
}

core::Retry retry_of(const core::Agent& agent, const RunBody& body) {
    core::Retry retry = agent.retry;
    if (body.retry) {
        state(retry.tries, body.retry->tries);
        state(retry.backoff_s, body.retry->backoff_s);
        state(retry.backoff_max_s, body.retry->backoff_max_s);
    }
    // Whoever looks at the terminal decides whether it is tried again.
    if (body.foreground.value_or(false)) retry.tries = 1;
    return retry;
}

Problem cannot_start(std::string_view code, std::string detail) {
    return {.status = 422, .code = std::string(code), .detail = std::move(detail)};
}

// ---- where it works -----------------------------------------------------------------------------------------------

// A client that lost the answer asks again, and its directory may be gone by then. Where the key is known already, the
// place is taken as it was written: the rules give the first answer, and admit nothing.
net::Task<bool> is_repeat(Call& call, const std::optional<std::string>& key_in_body) {
    const auto key = read_key(call, key_in_body);
    if (!key) co_return false;
    const core::OrgId org = call.caller.org;
    for (const Id id : {key->key.value, key->former.value}) {
        const auto known = co_await read(
            call, [=](store::Snapshot& snapshot) { return store::read_row<core::StoredReply>(snapshot, org, id); });
        if (known && *known) co_return true;
    }
    co_return false;
}

std::vector<core::Place> places_as_written(const Call& call, const std::string& workspace,
                                           const std::vector<std::string>& resources, core::ClaimMode mode) {
    std::string path = std::filesystem::path(workspace).lexically_normal().string();
    if (path.size() > 1 && path.ends_with('/')) path.pop_back();
    std::vector<core::Place> places = named_resources(resources, mode);
    places.insert(
        places.begin(),
        {.kind = core::ClaimKind::workspace, .host = call.parts.host, .path = path, .chain = {}, .mode = mode});
    return places;
}

// Empty where there is none.
std::string workspace_of(const core::AdmitRun& command) {
    for (const core::Place& place : command.places) {
        if (place.kind == core::ClaimKind::workspace) return place.path;
    }
    return {};
}

net::Task<Result<std::vector<std::string>, std::string>> find_repository(Call& call, std::string path) {
    co_return co_await net::run_on(call.parts.workers,
                                   [&places = call.parts.workplaces, path] { return places.repository(path); });
}

// Fills in where a run that is to stay out of another's way goes: where the client says, or where worktrees are made.
net::Task<std::optional<Problem>> find_isolation(Call& call, std::string into, core::AdmitRun& command) {
    if (command.on_conflict != core::OnConflict::isolate && !command.isolate) co_return std::nullopt;
    if (into.empty()) {
        if (!call.is_home()) co_return not_in_this_org("only runs of the org 'default' get worktrees");
        command.worktrees = call.parts.worktrees;
        const std::string workspace = workspace_of(command);
        const bool by_operator = command.by.kind != core::ActorKind::key;
        const bool as_set_up = command.process && command.parent.value.empty();
        if (as_set_up || by_operator || workspace.empty()) co_return std::nullopt;
        const auto found = co_await find_repository(call, workspace);
        if (found) command.repository = *found;  // Otherwise the run gets an empty directory.
        co_return std::nullopt;
    }
    const core::ClaimMode mode = command.places.empty() ? core::ClaimMode::write : command.places.front().mode;
    auto places = co_await find_places(call, std::move(into), {}, mode);
    if (!places) {
        places.error().pointer = "/isolate_into";
        co_return places.error();
    }
    command.isolate_into = std::move(places->front());
    co_return std::nullopt;
}

// What starts in a worktree needs something that worktrees are made of. A client that owns its run gets along with an
// empty directory.
net::Task<std::optional<Problem>> check_repository(Call& call, const core::AdmitRun& command) {
    if (!command.process || !command.worktrees) co_return std::nullopt;
    const std::string path = command.process->directory;
    if (path.empty()) {
        co_return cannot_start("not_a_repository",
                               "isolate needs a workspace, because an isolated run works in a copy of it");
    }
    const auto found = co_await find_repository(call, path);
    if (found) co_return std::nullopt;
    co_return cannot_start("not_a_repository", "cannot create a worktree for the run: " + found.error());
}

// ---- the answer ---------------------------------------------------------------------------------------------------

net::Response admitted(StoredRun stored, const DoneCommand& done, const std::optional<std::string>& worktree,
                       std::optional<std::string> shim_secret) {
    AdmittedView view;
    static_cast<RunDetail&>(view) = detail_of(stored);
    if (worktree) view.workspace = worktree;
    view.place_in_line = done.as<core::AdmitReply>().place_in_line;
    view.waits_for = done.as<core::AdmitReply>().waits_for;
    view.repeated = done.repeated;
    view.shim_secret = std::move(shim_secret);
    return respond(201, view, done.repeated);
}

// The client's own run has been given a place that is not there yet. Without it the run cannot be, so it goes again.
net::Task<Result<std::string, Problem>> make_worktree(Call& call, const core::Run& run, const std::string& workspace) {
    const auto made = co_await net::run_on(
        call.parts.workers,
        [&places = call.parts.workplaces, id = run.id, workspace] { return places.make_worktree(id, workspace); });
    if (made) co_return *made;
    std::string why = "cannot create a directory for the run: " + made.error();
    const core::CancelRun cancel{.run = run.id,
                                 .fence = run.fence,
                                 .reason = cut_text(as_line(why), core::limits::text_bytes_max),
                                 .charge = {}};
    (void)co_await submit(call, Key{core::CommandKey(call.parts.commands.fresh_id()), ""}, cancel);
    // Not "try again": under the same key the answer would be the run that was cancelled just now.
    co_return fail(cannot_start("no_worktree", std::move(why)));
}

ResponseTask admit_and_show(Call& call, core::AdmitRun command, std::optional<std::string> key) {
    if (auto problem = co_await check_repository(call, command)) co_return respond(call, *problem);
    const bool makes_place = !command.process && command.worktrees;
    const std::string workspace = workspace_of(command);
    const auto done = co_await ask(call, std::move(command), std::move(key));
    if (!done) co_return respond(call, done.error());
    auto stored = co_await read_stored_run(call, done->as<core::AdmitReply>().run);
    if (!stored) co_return respond(call, stored.error());
    const core::Run& run = stored->run;
    const bool has_begun = !run.supervised && core::is_live(run.state);
    if (has_begun && !workspace.empty() && !run.isolated) {
        // Before its client hears of it, which may move them.
        co_await net::run_on(call.parts.workers, [&places = call.parts.workplaces, run] { places.hold(run); });
    }
    std::optional<std::string> worktree;
    if (makes_place && run.isolated && !core::has_ended(run.state)) {
        const auto made = co_await make_worktree(call, run, workspace);
        if (!made) co_return respond(call, made.error());
        worktree = *made;
    }
    std::optional<std::string> shim_secret;
    if (stored->launch && stored->launch->process.foreground && !core::has_ended(run.state)) {
        shim_secret = co_await net::run_on(call.parts.workers, [&processes = call.parts.processes, id = run.id] {
            return processes.issue_shim_secret(id);
        });
    }
    co_return admitted(std::move(*stored), *done, worktree, std::move(shim_secret));
}

// ---- POST /v1/runs ------------------------------------------------------------------------------------------------

net::Task<Result<core::Agent, Problem>> read_agent(Call& call, std::string name) {
    const core::OrgId org = call.caller.org;
    auto agent = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Agent>(snapshot, org, name); });
    if (!agent) co_return fail(agent.error());
    if (!*agent) co_return fail(not_found("agent", name));
    co_return std::move(**agent);
}

// Adds what is started, as the agent's row and the body say.
net::Task<std::optional<Problem>> add_process(Call& call, const RunBody& body, const core::Agent& agent,
                                              const std::optional<StoredRun>& parent, core::AdmitRun& command) {
    const bool of_other_agent = parent && parent->run.who.agent != body.agent;
    const bool by_child = parent && parent->launch && !of_other_agent;
    const IsChild is_child = of_other_agent ? IsChild::of_other_agent : IsChild::no;
    if (auto problem = by_child ? check_child(body) : check_permitted(call.caller, body, is_child)) co_return problem;
    if (!body.node.empty() && body.node != call.parts.node) {
        co_return co_await of_another_node(call, body.node, "the process of this run");
    }
    command.node = call.parts.node;
    command.process = process_of(agent, body);
    command.retry = retry_of(agent, body);
    if (command.process->command.empty()) {
        co_return cannot_start("no_command",
                               fmt::format("agent '{}' has no command, and the request has none; pass a command, or "
                                           "set that of the agent",
                                           agent.name));
    }
    if (parent && parent->launch) {
        const auto in_force = level_in(parent->sandbox);
        const StatedOfChild stated{.level = body.sandbox || body.sandbox_level,
                                   .nice = body.nice.has_value(),
                                   .limits = body.limits.has_value(),
                                   .hosts = body.allowed_hosts.has_value(),
                                   .other_agent = of_other_agent};
        auto problem =
            bound_child(*command.process, *parent,
                        in_force ? *in_force : call.parts.processes.sandbox_level(parent->launch->process), stated);
        if (problem) co_return problem;
    }
    for (const std::string& path : command.process->writable) {
        if (path.starts_with('/')) continue;
        co_return invalid(fmt::format("writable has '{}'; it must be an absolute path", path), "/writable");
    }
    for (const std::string& path : command.process->readable) {
        if (path.starts_with('/')) continue;
        co_return invalid(fmt::format("readable has '{}'; it must be an absolute path", path), "/readable");
    }
    if (auto why = call.parts.processes.sandbox_refusal(*command.process)) {
        co_return cannot_start("sandbox_refused", std::move(*why));
    }
    co_return std::nullopt;
}

// The run whose program asks. Nothing where no run does.
net::Task<Result<std::optional<StoredRun>, Problem>> read_parent(Call& call, std::string agent_name) {
    if (call.caller.run.value.empty()) co_return std::optional<StoredRun>();
    auto parent = co_await read_stored_run(call, call.caller.run);
    if (!parent) co_return fail(parent.error());
    if (parent->run.who.agent != agent_name) {
        const auto agent = co_await read_agent(call, parent->run.who.agent);
        if (!agent) co_return fail(agent.error());
        if (std::ranges::find(agent->child_agents, agent_name) == agent->child_agents.end()) {
            co_return fail(Problem{.status = 403,
                                   .code = "beyond_parent",
                                   .detail = fmt::format("runs of agent '{}' may not start runs of agent '{}'; an "
                                                         "operator can allow it",
                                                         agent->name, agent_name),
                                   .pointer = "/agent"});
        }
    }
    co_return std::optional(std::move(*parent));
}

net::Task<Result<bool, Problem>> is_server(Call& call, std::string name) {
    if (name == call.parts.node) co_return true;
    const auto nodes =
        co_await net::run_on(call.parts.workers, [&commands = call.parts.commands] { return commands.nodes(); });
    if (!nodes) co_return fail(unavailable("the servers cannot be listed: " + nodes.error()));
    co_return std::ranges::any_of(*nodes, [&](const store::Node& node) { return node.name == name; });
}

ResponseTask admit(Call& call) {
    const auto body = read_body<RunBody>(call);
    if (!body) co_return respond(call, body.error());
    if (body->budget && !body->budget->positive()) {
        co_return respond(call, invalid("budget must be more than 0; omit it for no limit", "/budget"));
    }
    const auto parent = co_await read_parent(call, body->agent);
    if (!parent) co_return respond(call, parent.error());
    core::Agent agent;
    if (body->supervised()) {
        if (!call.is_home()) {
            co_return respond(call, not_in_this_org("the server starts processes only for the org 'default'; start "
                                                    "the process yourself, in a run that you own"));
        }
        if (!*parent && !call.caller.may_see_agent(body->agent)) {
            co_return respond(call, not_found("agent", body->agent));
        }
        auto found = co_await read_agent(call, body->agent);
        if (!found) co_return respond(call, found.error());
        agent = std::move(*found);
    } else {
        agent.workplace.on_conflict = core::OnConflict::refuse;
        if (const std::string stray = first_of_process(*body); !stray.empty()) {
            co_return respond(call, invalid(fmt::format("{} is only for runs that the server starts; add a command, or "
                                                        "launch for the agent's command",
                                                        stray),
                                            "/" + stray));
        }
    }
    core::AdmitRun command{.run = core::RunId(call.parts.commands.fresh_id()),
                           .who = {.agent = body->agent,
                                   .workflow = body->workflow,
                                   .provider = body->provider.value_or(agent.provider),
                                   .model = body->model,
                                   .api_key = call.caller.key_id,
                                   .run = {},
                                   .session = body->session,
                                   .tags = body->tags},
                           .node = body->node,
                           .places = {},
                           .on_conflict = body->on_conflict.value_or(agent.workplace.on_conflict),
                           .isolate_into = {},
                           .priority = body->priority,
                           .hold = {.usd = body->hold.value_or(body->budget.value_or(Money())).nanos(),
                                    .tokens = body->hold_tokens,
                                    .calls = body->hold_calls,
                                    .runs = 0},
                           .metered = body->metered,
                           .lease_s = body->lease_s,
                           .queue_s = body->queue_s,
                           .name = body->name,
                           .ceiling = body->budget.value_or(Money()),
                           // A child is in its parent's worktree already.
                           .isolate = body->isolate.value_or(agent.workplace.isolate && !*parent),
                           .by = actor_of(call.caller),
                           .parent = call.caller.run};
    core::Attribution account = command.who;
    if (*parent) account.agent = (*parent)->run.who.agent;  // For which read_parent() has answered.
    if (auto problem = co_await check_account(call, account)) co_return respond(call, *problem);
    if (body->supervised()) {
        auto problem = co_await add_process(call, *body, agent, *parent, command);
        if (problem) co_return respond(call, *problem);
    } else if (!body->node.empty() && command.by.kind == core::ActorKind::key) {
        const auto names_server = co_await is_server(call, body->node);
        if (!names_server) co_return respond(call, names_server.error());
        command.names_server = *names_server;
    }

    if (*parent && body->supervised()) {
        agent.process.directory = run_view_of((*parent)->run).workspace.value_or("");
    }
    const std::string workspace = body->workspace.value_or(agent.process.directory);
    // What its parent has covers a child of the same agent.
    if (*parent && (*parent)->run.who.agent == body->agent) {
        agent.workplace.resources.clear();
        const auto& claimed = (*parent)->run.wanted;
        if (!claimed.empty()) agent.workplace.mode = claimed.front().mode;
    }
    const std::vector<std::string> resources = body->resources.value_or(agent.workplace.resources);
    const core::ClaimMode mode = body->mode.value_or(agent.workplace.mode);
    if (auto problem = co_await check_view(call, body->workspace.value_or(""), "/workspace")) {
        co_return respond(call, *problem);
    }
    if (auto problem = co_await check_view(call, body->isolate_into, "/isolate_into"))
        co_return respond(call, *problem);
    auto places = co_await find_places(call, workspace, resources, mode);
    if (!places) {
        if (!co_await is_repeat(call, body->key)) co_return respond(call, places.error());
        places = places_as_written(call, workspace, resources, mode);
    }
    command.places = std::move(*places);
    // By its one true name, so that a retry finds the same place.
    if (command.process) command.process->directory = workspace.empty() ? "" : command.places.front().path;
    if (auto problem = co_await find_isolation(call, body->isolate_into, command)) co_return respond(call, *problem);
    co_return co_await admit_and_show(call, std::move(command), body->key);
}

// ---- POST /v1/runs/{id}/retry -------------------------------------------------------------------------------------

// The workspace that was first asked for: of a run that was isolated, its claim is the copy.
std::string first_workspace(const StoredRun& stored) {
    if (!stored.run.isolated) {
        for (const core::Place& place : stored.run.wanted) {
            if (place.kind == core::ClaimKind::workspace) return place.path;
        }
    }
    return stored.launch->process.directory;
}

std::optional<Problem> why_not_again(const StoredRun& stored) {
    const auto refuse = [](std::string detail) {
        return Problem{.status = 409, .code = "wrong_state", .detail = std::move(detail)};
    };
    if (!stored.launch) return refuse("a client owned the run; the server can only retry runs that it started");
    if (stored.launch->process.foreground) {
        return refuse("the run was started from somebody's terminal, and can only be started again from one");
    }
    if (!core::has_ended(stored.run.state)) return refuse("the run has not ended");
    return std::nullopt;
}

ResponseTask retry(Call& call) {
    const auto id = read_id<core::RunId>("run", call.names[0]);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    const auto stored = co_await read_stored_run(call, *id);
    if (!stored) co_return respond(call, stored.error());
    if (auto problem = why_not_again(*stored)) co_return respond(call, *problem);
    const core::Run& run = stored->run;
    if (run.node != call.parts.node) co_return respond(call, co_await of_another_node(call, run.node, "the run"));

    std::vector<std::string> resources;
    core::ClaimMode mode = core::ClaimMode::write;
    for (const core::Place& place : run.wanted) {
        if (place.kind == core::ClaimKind::resource) resources.push_back(place.path);
        if (place.kind == core::ClaimKind::resource || !run.isolated) mode = place.mode;
    }
    core::AdmitRun command{.run = core::RunId(call.parts.commands.fresh_id()),
                           .who = run.who,
                           .node = run.node,
                           .places = {},
                           .on_conflict = core::OnConflict::queue,
                           .isolate_into = {},
                           .priority = run.priority,
                           .hold = run.hold_bound,
                           .metered = run.metered,
                           .lease_s = run.lease_s,
                           .name = run.name,
                           .process = stored->launch->process,
                           .retry = stored->launch->retry,
                           .ceiling = Money::nanos(run.ceiling),
                           .isolate = run.isolated};
    command.who.run = {};
    command.who.api_key = call.caller.key_id;
    command.process->directory = first_workspace(*stored);
    auto places = co_await find_places(call, command.process->directory, resources, mode);
    if (!places) {
        if (!co_await is_repeat(call, body->key)) co_return respond(call, places.error());
        places = places_as_written(call, command.process->directory, resources, mode);
    }
    command.places = std::move(*places);
    if (auto problem = co_await find_isolation(call, {}, command)) co_return respond(call, *problem);
    co_return co_await admit_and_show(call, std::move(command), body->key);
}

}  // namespace

std::vector<ApiRoute> admission_routes() {
    return {
        {.method = net::Method::post,
         .path = "/v1/runs",
         .needs = Access::act,
         .summary =
             "Admit a run: state, caps, budgets and claims in one step. With the key of a run: a child of that run",
         .handler = admit,
         .narrowest = Bound::run,
         .body = schema_of<RunBody>,
         .example = R"({"agent": "writer", "resources": ["deploy-prod"], "mode": "write", "on_conflict": "queue",)"
                    R"( "hold": "1.00", "lease_s": 60})",
         .answer = schema_of<AdmittedView>,
         .status = 201},
        {.method = net::Method::post,
         .path = "/v1/runs/{id}/retry",
         .needs = Access::operate,
         .summary = "Start an ended run again, as a new run",
         .handler = retry,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<AdmittedView>,
         .status = 201},
    };
}

}  // namespace interlock::api
