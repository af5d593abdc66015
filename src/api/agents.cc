// Agents: who works here, as what, how much at once, and whether they may.
#include <filesystem>

#include <fmt/format.h>

#include "api/route.h"
#include "api/run_view.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

// What a client says of an agent and is shown again, all in one place: that the rules keep some of it with the process
// and some with the workplace is no business of clients.
struct AgentSettings {
    std::int32_t max_concurrent_runs = 1;
    std::vector<std::string> command;
    core::Tags tags;
    std::string provider;
    core::Capture capture = core::Capture::usage;
    std::string workspace;
    std::vector<std::string> roots;
    std::vector<std::string> child_agents;
    core::ClaimMode mode = core::ClaimMode::write;
    core::OnConflict on_conflict = core::OnConflict::queue;
    bool isolate = false;
    std::vector<std::string> resources;
    std::vector<std::string> pass_env;
    std::int64_t timeout_s = 0;
    std::int32_t grace_s = 10;
    std::int32_t nice = 0;
    std::map<std::string, std::int64_t> limits;
    bool sandbox = false;
    core::SandboxLevel sandbox_level = core::SandboxLevel::server_default;
    std::vector<std::string> writable;
    std::vector<std::string> readable;
    std::vector<std::string> allowed_hosts;
    std::string adapter;
    std::string setup;
    std::string teardown;
    core::Retry retry;
};
BOOST_DESCRIBE_STRUCT(AgentSettings, (),
                      (max_concurrent_runs, command, tags, provider, capture, workspace, roots, child_agents, mode,
                       on_conflict, isolate, resources, pass_env, timeout_s, grace_s, nice, limits, sandbox,
                       sandbox_level, writable, readable, allowed_hosts, adapter, setup, teardown, retry))

struct AgentBody : AgentSettings {
    core::Tags env;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(AgentBody, (AgentSettings), (env, key))

struct PauseBody {
    std::string reason;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(PauseBody, (), (reason, key))

enum class AgentState { active, paused, archived };
BOOST_DESCRIBE_ENUM(AgentState, active, paused, archived)

struct AgentHead {
    std::string name;
    AgentState state = AgentState::active;
};
BOOST_DESCRIBE_STRUCT(AgentHead, (), (name, state))

struct AgentView : AgentHead, AgentSettings {
    std::map<std::string, std::optional<std::string>> env;  // Without the values, for those who may not change them.
    std::vector<core::AgentPause> pauses;
    Instant created_at;
    Money spent;
    std::int64_t tokens = 0;
    std::int64_t events = 0;
    Instant last_event_at;
    std::int64_t live_runs = 0;
    std::int64_t queued_runs = 0;
};
BOOST_DESCRIBE_STRUCT(AgentView, (AgentHead, AgentSettings),
                      (env, pauses, created_at, spent, tokens, events, last_event_at, live_runs, queued_runs))

AgentSettings settings_of(const core::Agent& agent) {
    const core::ProcessSpec& process = agent.process;
    return {.max_concurrent_runs = agent.max_concurrent_runs,
            .command = agent.command,
            .tags = agent.tags,
            .provider = agent.provider,
            .capture = agent.capture,
            .workspace = process.directory,
            .roots = agent.roots,
            .child_agents = agent.child_agents,
            .mode = agent.workplace.mode,
            .on_conflict = agent.workplace.on_conflict,
            .isolate = agent.workplace.isolate,
            .resources = agent.workplace.resources,
            .pass_env = process.pass_env,
            .timeout_s = process.timeout_s,
            .grace_s = process.grace_s,
            .nice = process.nice,
            .limits = process.limits,
            .sandbox = process.asked_level() == core::SandboxLevel::files,
            .sandbox_level = process.asked_level(),
            .writable = process.writable,
            .readable = process.readable,
            .allowed_hosts = process.allowed_hosts,
            .adapter = process.adapter,
            .setup = process.setup,
            .teardown = process.teardown,
            .retry = agent.retry};
}

core::PutAgent command_of(const std::string& name, const AgentBody& body) {
    return {.name = name,
            .command = body.command,
            .max_concurrent_runs = body.max_concurrent_runs,
            .tags = body.tags,
            .process = {.command = {},
                        .directory = body.workspace,
                        .env = body.env,
                        .pass_env = body.pass_env,
                        .timeout_s = body.timeout_s,
                        .grace_s = body.grace_s,
                        .nice = body.nice,
                        .limits = body.limits,
                        .sandbox = body.sandbox_level == core::SandboxLevel::files ||
                                   (body.sandbox_level == core::SandboxLevel::server_default && body.sandbox),
                        .writable = body.writable,
                        .adapter = body.adapter,
                        .setup = body.setup,
                        .teardown = body.teardown,
                        .foreground = false,
                        .level = body.sandbox_level,
                        .readable = body.readable,
                        .allowed_hosts = body.allowed_hosts},
            .retry = body.retry,
            .workplace = {.mode = body.mode,
                          .on_conflict = body.on_conflict,
                          .isolate = body.isolate,
                          .resources = body.resources},
            .provider = body.provider,
            .capture = body.capture,
            .roots = body.roots,
            .child_agents = body.child_agents};
}

// Where the roots and the workspace lead now. One that is not there yet is taken as it is written: if it becomes a
// link, no key below operator gets in by it.
net::Task<std::vector<std::string>> resolved_roots(Call& call, const AgentBody& body) {
    std::vector<std::string> roots = body.roots;
    if (!body.workspace.empty()) roots.push_back(body.workspace);
    co_return co_await net::run_on(call.parts.workers, [&places = call.parts.workplaces, roots]() mutable {
        for (std::string& root : roots) {
            const auto place = places.resolve(root, core::ClaimMode::read);
            root = place ? place->path : std::filesystem::path(root).lexically_normal().string();
            if (root.size() > 1 && root.ends_with('/')) root.pop_back();
        }
        return roots;
    });
}

// An agent's environment may hold secrets: whoever only reads learns which variables there are, and no more.
AgentView view_of(const core::Agent& agent, const Principal& caller) {
    AgentView view;
    view.name = agent.name;
    view.state = agent.archived ? AgentState::archived : agent.pauses.empty() ? AgentState::active : AgentState::paused;
    static_cast<AgentSettings&>(view) = settings_of(agent);
    for (const auto& [name, value] : agent.process.env) {
        view.env[name] = caller.may(Access::operate) ? std::optional(value) : std::nullopt;
    }
    view.pauses = agent.pauses;
    view.created_at = agent.created_at;
    view.last_event_at = far_past;
    return view;
}

// The server's own directory means nothing to a client.
Result<void, Problem> check_paths(const AgentBody& body) {
    const auto check = [](const std::string& path, std::string_view what,
                          std::string pointer) -> Result<void, Problem> {
        if (path.starts_with('/')) return {};
        return fail(invalid(fmt::format("{} is '{}'; it must be an absolute path", what, path), std::move(pointer)));
    };
    if (!body.workspace.empty()) {
        if (auto good = check(body.workspace, "workspace", "/workspace"); !good) return good;
    }
    for (std::size_t i = 0; i < body.writable.size(); ++i) {
        if (auto good = check(body.writable[i], "a path of writable", fmt::format("/writable/{}", i)); !good) {
            return good;
        }
    }
    for (std::size_t i = 0; i < body.readable.size(); ++i) {
        if (auto good = check(body.readable[i], "a path of readable", fmt::format("/readable/{}", i)); !good) {
            return good;
        }
    }
    return {};
}

Result<void, store::ReadError> add_totals(store::Snapshot& snapshot, core::OrgId org, std::vector<AgentView>& views) {
    std::map<std::string, AgentView*> by_name;
    for (AgentView& view : views) by_name[view.name] = &view;
    const auto totals = store::read_rows<core::AgentTotals>(snapshot, org);
    if (!totals) return fail(totals.error());
    for (const core::AgentTotals& total : *totals) {
        const auto found = by_name.find(total.agent);
        if (found == by_name.end()) continue;
        found->second->spent = Money::nanos(total.settled);
        found->second->tokens = total.tokens;
        found->second->events = total.events;
        found->second->last_event_at = total.events > 0 ? total.last_event_at : far_past;
    }
    // Counted here: asked to group them, SQLite would rather walk along all runs of all agents.
    return snapshot.query(fmt::format("select agent, state = 'queued' from runs where org = $1 and {}", not_ended),
                          {std::int64_t{org.value}}, [&](const std::vector<store::Value>& row) {
                              const auto found = by_name.find(std::get<std::string>(row[0]));
                              if (found == by_name.end()) return;
                              const bool queued = std::get<std::int64_t>(row[1]) != 0;
                              ++(queued ? found->second->queued_runs : found->second->live_runs);
                          });
}

ResponseTask show_agent(Call& call, std::string name, int status, bool repeated) {
    if (!call.caller.may_see_agent(name)) co_return respond(call, not_found("agent", name));
    const Principal caller = call.caller;
    const auto views = co_await read(
        call, [caller, name](store::Snapshot& snapshot) -> Result<std::vector<AgentView>, store::ReadError> {
            const auto agent = store::read_row<core::Agent>(snapshot, caller.org, name);
            if (!agent) return fail(agent.error());
            std::vector<AgentView> views;
            if (*agent) views.push_back(view_of(**agent, caller));
            if (const auto added = add_totals(snapshot, caller.org, views); !added) return fail(added.error());
            return views;
        });
    if (!views) co_return respond(call, views.error());
    if (views->empty()) co_return respond(call, not_found("agent", name));
    co_return respond(status, views->front(), repeated);
}

ResponseTask get_agent(Call& call) { return show_agent(call, call.names[0], 200, false); }

ResponseTask list_agents(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const std::string_view which = call.parameter("archived");
    if (!which.empty() && which != "true" && which != "false") {
        co_return respond(call, invalid("archived must be true or false"));
    }
    const bool archived = which == "true";
    const std::string after(call.parameter("after"));
    const Principal caller = call.caller;
    const std::int64_t count = *limit;
    auto views =
        co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::vector<AgentView>, store::ReadError> {
            const auto agents = store::read_rows<core::Agent>(snapshot, caller.org,
                                                              std::string(archived ? "" : "and archived = 0 ") +
                                                                  (caller.agent.empty() ? "" : "and name = $4 ") +
                                                                  "and name > $2 order by name limit $3",
                                                              {after, count + 1, caller.agent});
            if (!agents) return fail(agents.error());
            std::vector<AgentView> views;
            for (const core::Agent& agent : *agents) views.push_back(view_of(agent, caller));
            if (const auto added = add_totals(snapshot, caller.org, views); !added) return fail(added.error());
            return views;
        });
    if (!views) co_return respond(call, views.error());
    co_return respond(page_of(std::move(*views), count, [](const AgentView& view) { return view.name; }));
}

ResponseTask put_agent(Call& call) {
    const auto body = read_body<AgentBody>(call);
    if (!body) co_return respond(call, body.error());
    if (const auto good = check_paths(*body); !good) co_return respond(call, good.error());
    core::PutAgent command = command_of(call.names[0], *body);
    // Another org has no directories, and may not learn from here which the server has.
    if (call.is_home()) command.resolved_roots = co_await resolved_roots(call, *body);
    const auto done = co_await ask(call, std::move(command), body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_agent(call, call.names[0], 200, done->repeated);
}

ResponseTask pause_agent(Call& call) {
    const auto body = read_body<PauseBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(call, core::PauseAgent{call.names[0], body->reason}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_agent(call, call.names[0], 200, done->repeated);
}

ResponseTask resume_agent(Call& call) {
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(call, core::ResumeAgent{call.names[0]}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_agent(call, call.names[0], 200, done->repeated);
}

ResponseTask delete_agent(Call& call) {
    const auto done = co_await ask(call, core::ArchiveAgent{call.names[0]});
    co_return done ? no_content(done->repeated) : respond(call, done.error());
}

}  // namespace

std::vector<ApiRoute> agent_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/v1/agents",
         .needs = read,
         .summary = "List agents",
         .handler = list_agents,
         .narrowest = Bound::agent,
         .query = {"archived", "after", "limit"},
         .answer = page_schema<AgentView>},
        {.method = Method::get,
         .path = "/v1/agents/{name}",
         .needs = read,
         .summary = "Show an agent",
         .handler = get_agent,
         .narrowest = Bound::run,
         .answer = schema_of<AgentView>},
        {.method = Method::put,
         .path = "/v1/agents/{name}",
         .needs = operate,
         .summary = "Create or change an agent",
         .handler = put_agent,
         .body = schema_of<AgentBody>,
         .example =
             R"({"max_concurrent_runs": 2, "command": ["claude", "-p", "fix the tests"], "workspace": "/src/shop",)"
             R"( "isolate": true, "timeout_s": 1800, "retry": {"max_attempts": 3}, "tags": {"team": "core"}})",
         .answer = schema_of<AgentView>},
        {.method = Method::delete_,
         .path = "/v1/agents/{name}",
         .needs = operate,
         .summary = "Archive an agent; its history is kept",
         .handler = delete_agent,
         .status = 204},
        {.method = Method::post,
         .path = "/v1/agents/{name}/pause",
         .needs = operate,
         .summary = "Pause an agent: it starts no runs",
         .handler = pause_agent,
         .body = schema_of<PauseBody>,
         .example = R"({"reason": "waiting for a review"})",
         .answer = schema_of<AgentView>},
        {.method = Method::post,
         .path = "/v1/agents/{name}/resume",
         .needs = operate,
         .summary = "Resume an agent",
         .handler = resume_agent,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<AgentView>},
    };
}

}  // namespace interlock::api
