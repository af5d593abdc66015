// Agents: who works here, how much at once, and whether they may.
#include "api/route.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct AgentBody {
    std::int32_t max_concurrent_runs = 1;
    std::vector<std::string> command;
    core::Tags tags;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(AgentBody, (), (max_concurrent_runs, command, tags, key))

struct PauseBody {
    std::string reason;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(PauseBody, (), (reason, key))

enum class AgentState { active, paused, archived };
BOOST_DESCRIBE_ENUM(AgentState, active, paused, archived)

struct AgentView {
    std::string name;
    AgentState state = AgentState::active;
    std::int32_t max_concurrent_runs = 1;
    std::vector<std::string> command;
    core::Tags tags;
    std::vector<core::Pause> pauses;
    Instant created_at;
    Money spent;
    std::int64_t tokens = 0;
    std::int64_t events = 0;
    Instant last_event_at;
    std::int64_t live_runs = 0;
    std::int64_t queued_runs = 0;
};
BOOST_DESCRIBE_STRUCT(AgentView, (),
                      (name, state, max_concurrent_runs, command, tags, pauses, created_at, spent, tokens, events,
                       last_event_at, live_runs, queued_runs))

AgentView view_of(const core::Agent& agent) {
    return {.name = agent.name,
            .state = agent.archived         ? AgentState::archived
                     : agent.pauses.empty() ? AgentState::active
                                            : AgentState::paused,
            .max_concurrent_runs = agent.max_concurrent_runs,
            .command = agent.command,
            .tags = agent.tags,
            .pauses = agent.pauses,
            .created_at = agent.created_at,
            .spent = {},
            .last_event_at = far_past};
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
    return snapshot.query(
        "select agent, state = 'queued', count(*) from runs where org = $1 and "
        "state in ('queued', 'starting', 'running', 'paused') group by 1, 2",
        {std::int64_t{org.value}}, [&](const std::vector<store::Value>& row) {
            const auto found = by_name.find(std::get<std::string>(row[0]));
            if (found == by_name.end()) return;
            const auto count = std::get<std::int64_t>(row[2]);
            (std::get<std::int64_t>(row[1]) != 0 ? found->second->queued_runs : found->second->live_runs) = count;
        });
}

Answered show(Call& call, std::string name, int status, bool repeated) {
    if (!call.caller.may_see_agent(name)) co_return respond(call, not_found("agent", name));
    const core::OrgId org = call.caller.org;
    const auto views =
        co_await read(call, [org, name](store::Snapshot& snapshot) -> Result<std::vector<AgentView>, store::ReadError> {
            const auto agent = store::read_row<core::Agent>(snapshot, org, name);
            if (!agent) return fail(agent.error());
            std::vector<AgentView> views;
            if (*agent) views.push_back(view_of(**agent));
            if (const auto added = add_totals(snapshot, org, views); !added) return fail(added.error());
            return views;
        });
    if (!views) co_return respond(call, views.error());
    if (views->empty()) co_return respond(call, not_found("agent", name));
    co_return respond(status, views->front(), repeated);
}

Answered get_agent(Call& call) { return show(call, call.names[0], 200, false); }

Answered list_agents(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const std::string_view which = call.parameter("archived");
    if (!which.empty() && which != "true" && which != "false") {
        co_return respond(call, invalid("archived is neither true nor false"));
    }
    const bool archived = which == "true";
    const std::string after(call.parameter("after"));
    const std::string only = call.caller.agent;
    const core::OrgId org = call.caller.org;
    const std::int64_t count = *limit;
    auto views =
        co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::vector<AgentView>, store::ReadError> {
            const auto agents = store::read_rows<core::Agent>(snapshot, org,
                                                              std::string(archived ? "" : "and archived = 0 ") +
                                                                  (only.empty() ? "" : "and name = $4 ") +
                                                                  "and name > $2 order by name limit $3",
                                                              {after, count + 1, only});
            if (!agents) return fail(agents.error());
            std::vector<AgentView> views;
            for (const core::Agent& agent : *agents) views.push_back(view_of(agent));
            if (const auto added = add_totals(snapshot, org, views); !added) return fail(added.error());
            return views;
        });
    if (!views) co_return respond(call, views.error());
    co_return respond(page_of(std::move(*views), count, [](const AgentView& view) { return view.name; }));
}

Answered put_agent(Call& call) {
    const auto body = read_body<AgentBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask<core::AgentReply>(
        call, core::PutAgent{call.names[0], body->command, body->max_concurrent_runs, body->tags}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show(call, call.names[0], 200, done->repeated);
}

Answered pause_agent(Call& call) {
    const auto body = read_body<PauseBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask<core::AgentReply>(call, core::PauseAgent{call.names[0], body->reason}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show(call, call.names[0], 200, done->repeated);
}

Answered resume_agent(Call& call) {
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask<core::AgentReply>(call, core::ResumeAgent{call.names[0]}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show(call, call.names[0], 200, done->repeated);
}

Answered delete_agent(Call& call) {
    const auto done = co_await ask<core::AgentReply>(call, core::ArchiveAgent{call.names[0]});
    co_return done ? no_content(done->repeated) : respond(call, done.error());
}

}  // namespace

std::vector<Route> agent_routes() {
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
             R"({"max_concurrent_runs": 2, "command": ["claude", "-p", "fix the tests"], "tags": {"team": "core"}})",
         .answer = schema_of<AgentView>},
        {.method = Method::delete_,
         .path = "/v1/agents/{name}",
         .needs = operate,
         .summary = "Archive an agent; its history stays",
         .handler = delete_agent,
         .status = 204},
        {.method = Method::post,
         .path = "/v1/agents/{name}/pause",
         .needs = operate,
         .summary = "Let an agent begin nothing new",
         .handler = pause_agent,
         .body = schema_of<PauseBody>,
         .example = R"({"reason": "waiting for a review"})",
         .answer = schema_of<AgentView>},
        {.method = Method::post,
         .path = "/v1/agents/{name}/resume",
         .needs = operate,
         .summary = "Lift every pause of an agent",
         .handler = resume_agent,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<AgentView>},
    };
}

}  // namespace interlock::api
