// Runs: one agent at work, in a place of its own, under a lease that its owner keeps alive.
#include <filesystem>

#include <fmt/format.h>

#include "api/attribution.h"
#include "api/places.h"
#include "api/route.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct RunBody {
    static constexpr std::array required{"agent"};
    std::string agent;
    std::string workspace;
    std::vector<std::string> resources;
    core::ClaimMode mode = core::ClaimMode::write;
    core::OnConflict on_conflict = core::OnConflict::refuse;
    std::string isolate_into;
    std::int32_t priority = 0;
    Money hold;
    std::int64_t hold_tokens = 0;
    std::int64_t hold_calls = 0;
    std::int32_t lease_s = 60;
    std::int64_t queue_s = 0;
    bool metered = false;
    core::SessionId session;
    std::string workflow;
    std::string provider;
    std::string model;
    std::string node;
    core::Tags tags;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(RunBody, (),
                      (agent, workspace, resources, mode, on_conflict, isolate_into, priority, hold, hold_tokens,
                       hold_calls, lease_s, queue_s, metered, session, workflow, provider, model, node, tags, key))

struct FenceBody {
    static constexpr std::array required{"fence"};
    core::Fence fence;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(FenceBody, (), (fence, key))

enum class Outcome { succeeded, failed, timed_out };
BOOST_DESCRIBE_ENUM(Outcome, succeeded, failed, timed_out)

struct FinishBody {
    static constexpr std::array required{"fence"};
    core::Fence fence;
    Outcome outcome = Outcome::succeeded;
    std::string reason;
    std::optional<core::FinalCharge> charge;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(FinishBody, (), (fence, outcome, reason, charge, key))

struct CancelBody {
    core::Fence fence;
    std::string reason;
    std::optional<core::FinalCharge> charge;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(CancelBody, (), (fence, reason, charge, key))

struct RunView {
    core::RunId id;
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
    std::string reason;
    std::optional<std::string> stop_requested;
    std::optional<std::string> schedule;
    core::HoldId hold;
    Money spent;
    std::int64_t tokens = 0;
    std::int64_t events = 0;
    Money estimated;
};
BOOST_DESCRIBE_STRUCT(RunView, (),
                      (id, status, agent, workflow, provider, model, session, tags, node, workspace, isolated, places,
                       fence, priority, lease_s, lease_until, created_at, admitted_at, started_at, ended_at,
                       queued_until, reason, stop_requested, schedule, hold, spent, tokens, events, estimated))

struct AdmittedView : RunView {
    std::int64_t place_in_line = 0;
    core::WaitsFor waits_for = core::WaitsFor::nothing;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(AdmittedView, (RunView), (place_in_line, waits_for, repeated))

struct RunAnswer {
    core::RunId id;
    core::RunState status = core::RunState::running;
    Instant lease_until;
    std::optional<std::string> stop_requested;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(RunAnswer, (), (id, status, lease_until, stop_requested, repeated))

struct ClaimView {
    core::ClaimKind kind = core::ClaimKind::workspace;
    std::string path;
    core::ClaimMode mode = core::ClaimMode::write;
    core::RunId run;
    std::string agent;
    core::RunState status = core::RunState::running;
    Instant since;
    core::Fence fence;
    std::string host;
};
BOOST_DESCRIBE_STRUCT(ClaimView, (), (kind, path, mode, run, agent, status, since, fence, host))

std::optional<std::string> stated(const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); }

RunView view_of(const core::Run& run) {
    RunView view{.id = run.id,
                 .status = run.state,
                 .agent = run.who.agent,
                 .workflow = run.who.workflow,
                 .provider = run.who.provider,
                 .model = run.who.model,
                 .session = run.who.session,
                 .tags = run.who.tags,
                 .node = run.node,
                 .workspace = {},
                 .isolated = run.isolated,
                 .places = views_of(run.wanted),
                 .fence = run.fence,
                 .priority = run.priority,
                 .lease_s = run.lease_s,
                 .lease_until = run.ended_at == far_past ? run.lease_until : far_past,
                 .created_at = run.created_at,
                 .admitted_at = run.admitted_at,
                 .started_at = run.started_at,
                 .ended_at = run.ended_at,
                 .queued_until = run.state == core::RunState::queued ? run.queued_until : far_past,
                 .reason = run.reason,
                 .stop_requested = stated(run.stop_requested),
                 .schedule = stated(run.schedule),
                 .hold = run.hold,
                 .spent = Money::nanos(run.settled),
                 .tokens = run.tokens,
                 .events = run.events,
                 .estimated = Money::nanos(run.unknown)};
    for (const PlaceView& place : view.places) {
        if (place.kind == core::ClaimKind::workspace && !view.workspace) view.workspace = place.path;
    }
    return view;
}

net::Task<Result<core::Run, Problem>> read_run(Call& call, core::RunId id) {
    const core::OrgId org = call.caller.org;
    auto run = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Run>(snapshot, org, id.value); });
    if (!run) co_return fail(run.error());
    const bool mine = *run && call.caller.may_see_agent((*run)->who.agent) &&
                      (call.caller.run.value.empty() || call.caller.run == id);
    if (!mine) co_return fail(not_found("run", id_text(id)));
    co_return std::move(**run);
}

// Bound keys look first whether the run is theirs; for all others the rules do.
net::Task<Result<core::RunId, Problem>> reachable(Call& call) {
    const auto id = read_id<core::RunId>("run", call.names[0]);
    if (!id || call.caller.bound() == Bound::nothing) co_return id;
    const auto run = co_await read_run(call, *id);
    if (!run) co_return fail(run.error());
    co_return id;
}

Answered get_run(Call& call) {
    const auto id = read_id<core::RunId>("run", call.names[0]);
    if (!id) co_return respond(call, id.error());
    const auto run = co_await read_run(call, *id);
    if (!run) co_return respond(call, run.error());
    co_return respond(200, view_of(*run), false);
}

// "'running', 'paused'" from "running,paused".
Result<std::string, Problem> read_states(const Call& call) {
    std::string list;
    for (const std::string& name : comma_separated(call.parameter("status"))) {
        core::RunState state;
        if (!boost::describe::enum_from_string(name.c_str(), state)) {
            return fail(invalid(fmt::format("status has '{}'; it is a list of: {}", name,
                                            wire_detail::enumerator_list<core::RunState>())));
        }
        list += fmt::format("{}'{}'", list.empty() ? "" : ", ", name);
    }
    return list;
}

Answered list_runs(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const auto states = read_states(call);
    if (!states) co_return respond(call, states.error());
    Id before{~0ull, ~0ull};
    if (const auto text = call.parameter("after"); !text.empty()) {
        const auto id = read_id<core::RunId>("run", text);
        if (!id) co_return respond(call, invalid("after is not a cursor of this list"));
        before = id->value;
    }
    const std::string agent(call.caller.agent.empty() ? call.parameter("agent") : std::string_view(call.caller.agent));
    std::string rest = "and id < $2 ";
    if (!agent.empty()) rest += "and agent = $4 ";
    if (!call.caller.run.value.empty()) rest += "and id = $5 ";
    if (!states->empty()) rest += "and state in (" + *states + ") ";
    rest += "order by id desc limit $3";
    const core::OrgId org = call.caller.org;
    const std::int64_t count = *limit;
    const Id only = call.caller.run.value;
    const auto runs = co_await read(call, [=](store::Snapshot& snapshot) {
        return store::read_rows<core::Run>(snapshot, org, rest, {before, count + 1, agent, only});
    });
    if (!runs) co_return respond(call, runs.error());
    std::vector<RunView> views;
    for (const core::Run& run : *runs) views.push_back(view_of(run));
    co_return respond(page_of(std::move(views), count, [](const RunView& view) { return id_text(view.id); }));
}

// Where the run goes when its place is taken: where the client says, or a directory made for it.
net::Task<Result<std::optional<core::Place>, Problem>> find_isolation(Call& call, const RunBody& body) {
    if (body.on_conflict != core::OnConflict::isolate) co_return std::optional<core::Place>();
    std::string path = body.isolate_into;
    if (path.empty()) {
        // Named by the request's key, so that a repeat means the same place.
        const auto key = read_key(call, body.key);
        if (!key) co_return fail(key.error());
        const auto& make = call.parts.isolated_directory;
        const auto made = co_await net::run_on(call.parts.workers,
                                               [&make, name = to_text("place", key->key.value)] { return make(name); });
        if (!made) co_return fail(unavailable("no directory could be made for the run: " + made.error()));
        path = *made;
    }
    auto places = co_await find_places(call, path, {}, body.mode);
    if (!places) {
        places.error().pointer = "/isolate_into";
        co_return fail(places.error());
    }
    co_return std::optional(std::move(places->front()));
}

// A client that lost the answer asks again, and its directory may be gone by then. Where the key is known already, the
// place is taken as it was written: the rules give the first answer, and admit nothing.
net::Task<std::optional<std::vector<core::Place>>> places_of_repeat(Call& call, const RunBody& body) {
    const auto key = read_key(call, body.key);
    if (!key) co_return std::nullopt;
    const core::OrgId org = call.caller.org;
    const Id id = key->key.value;
    const auto known = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Answer>(snapshot, org, id); });
    if (!known || !*known) co_return std::nullopt;
    std::string path = std::filesystem::path(body.workspace).lexically_normal().string();
    if (path.size() > 1 && path.ends_with('/')) path.pop_back();
    std::vector<core::Place> places = named_resources(body.resources, body.mode);
    places.insert(
        places.begin(),
        {.kind = core::ClaimKind::workspace, .host = call.parts.host, .path = path, .chain = {}, .mode = body.mode});
    co_return places;
}

Answered admit(Call& call) {
    const auto body = read_body<RunBody>(call);
    if (!body) co_return respond(call, body.error());
    const core::Attribution who{.agent = body->agent,
                                .workflow = body->workflow,
                                .provider = body->provider,
                                .model = body->model,
                                .api_key = call.caller.key_id,
                                .run = {},
                                .session = body->session,
                                .tags = body->tags};
    if (auto problem = co_await check_account(call, who)) co_return respond(call, *problem);
    auto places = co_await find_places(call, body->workspace, body->resources, body->mode);
    if (!places) {
        auto as_written = co_await places_of_repeat(call, *body);
        if (!as_written) co_return respond(call, places.error());
        places = std::move(*as_written);
    }
    const auto isolation = co_await find_isolation(call, *body);
    if (!isolation) co_return respond(call, isolation.error());

    const auto done = co_await ask<core::AdmitReply>(
        call,
        core::AdmitRun{
            .run = core::RunId(call.parts.fresh_id()),
            .who = who,
            .node = body->node,
            .places = *places,
            .on_conflict = body->on_conflict,
            .isolate_into = *isolation,
            .priority = body->priority,
            .hold = {.usd = body->hold.nanos(), .tokens = body->hold_tokens, .calls = body->hold_calls, .runs = 0},
            .metered = body->metered,
            .lease_s = body->lease_s,
            .queue_s = body->queue_s},
        body->key);
    if (!done) co_return respond(call, done.error());
    const auto run = co_await read_run(call, done->reply.run);
    if (!run) co_return respond(call, run.error());
    AdmittedView view;
    static_cast<RunView&>(view) = view_of(*run);
    view.place_in_line = done->reply.place_in_line;
    view.waits_for = done->reply.waits_for;
    view.repeated = done->repeated;
    co_return respond(201, view, done->repeated);
}

net::Response answered(core::RunId id, const Done<core::RunReply>& done) {
    return respond(200,
                   RunAnswer{.id = id,
                             .status = done.reply.state,
                             .lease_until = core::has_ended(done.reply.state) ? far_past : done.reply.lease_until,
                             .stop_requested = stated(done.reply.stop_requested),
                             .repeated = done.repeated},
                   done.repeated);
}

template <class Command>
Answered with_fence(Call& call) {
    const auto id = co_await reachable(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<FenceBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask<core::RunReply>(call, Command{*id, body->fence}, body->key);
    co_return done ? answered(*id, *done) : respond(call, done.error());
}

Answered finish(Call& call) {
    const auto id = co_await reachable(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<FinishBody>(call);
    if (!body) co_return respond(call, body.error());
    const core::RunState outcome = body->outcome == Outcome::succeeded ? core::RunState::succeeded
                                   : body->outcome == Outcome::failed  ? core::RunState::failed
                                                                       : core::RunState::timed_out;
    const auto done = co_await ask<core::RunReply>(
        call, core::FinishRun{*id, body->fence, outcome, body->reason, body->charge}, body->key);
    co_return done ? answered(*id, *done) : respond(call, done.error());
}

Answered cancel(Call& call) {
    const auto id = co_await reachable(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<CancelBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done =
        co_await ask<core::RunReply>(call, core::CancelRun{*id, body->fence, body->reason, body->charge}, body->key);
    co_return done ? answered(*id, *done) : respond(call, done.error());
}

Answered list_places(Call& call) {
    const core::OrgId org = call.caller.org;
    struct Found {
        std::vector<core::Claim> claims;
        std::map<core::RunId, core::Run> runs;
    };
    const auto found = co_await read(call, [=](store::Snapshot& snapshot) -> Result<Found, store::ReadError> {
        auto claims = store::read_rows<core::Claim>(snapshot, org, "order by path");
        if (!claims) return fail(claims.error());
        auto runs =
            store::read_rows<core::Run>(snapshot, org, "and state in ('queued', 'starting', 'running', 'paused')");
        if (!runs) return fail(runs.error());
        Found both{std::move(*claims), {}};
        for (core::Run& run : *runs) both.runs.emplace(run.id, std::move(run));
        return both;
    });
    if (!found) co_return respond(call, found.error());
    Page<ClaimView> page;
    for (const core::Claim& claim : found->claims) {
        const auto run = found->runs.find(claim.run);
        if (run == found->runs.end() || !call.caller.may_see_agent(run->second.who.agent)) continue;
        page.items.push_back({.kind = claim.place.kind,
                              .path = claim.place.path,
                              .mode = claim.place.mode,
                              .run = claim.run,
                              .agent = run->second.who.agent,
                              .status = run->second.state,
                              .since = run->second.admitted_at,
                              .fence = claim.fence,
                              .host = claim.place.host});
    }
    co_return respond(page);
}

Route transition(std::string_view path, std::string_view summary, Answered (*handler)(Call&)) {
    return {.method = net::Method::post,
            .path = path,
            .needs = Access::act,
            .summary = summary,
            .handler = handler,
            .narrowest = Bound::run,
            .body = schema_of<FenceBody>,
            .example = R"({"fence": 1})",
            .answer = schema_of<RunAnswer>};
}

}  // namespace

std::vector<Route> run_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::post,
         .path = "/v1/runs",
         .needs = act,
         .summary = "Admit a run: state, caps, budgets and places in one step",
         .handler = admit,
         .narrowest = Bound::agent,
         .body = schema_of<RunBody>,
         .example = R"({"agent": "writer", "resources": ["deploy-prod"], "mode": "write", "on_conflict": "queue",)"
                    R"( "hold": "1.00", "lease_s": 60})",
         .answer = schema_of<AdmittedView>,
         .status = 201},
        {.method = Method::get,
         .path = "/v1/runs",
         .needs = read,
         .summary = "List runs, the newest first",
         .handler = list_runs,
         .narrowest = Bound::run,
         .query = {"status", "agent", "after", "limit"},
         .answer = page_schema<RunView>},
        {.method = Method::get,
         .path = "/v1/runs/{id}",
         .needs = read,
         .summary = "Show a run",
         .handler = get_run,
         .narrowest = Bound::run,
         .answer = schema_of<RunView>},
        transition("/v1/runs/{id}/heartbeat", "Keep the lease; the first one starts the run",
                   with_fence<core::HeartbeatRun>),
        transition("/v1/runs/{id}/start", "Say that the work has begun", with_fence<core::StartRun>),
        transition("/v1/runs/{id}/pause", "Stand still and keep the place", with_fence<core::PauseRun>),
        transition("/v1/runs/{id}/resume", "Go on after a pause", with_fence<core::ResumeRun>),
        {.method = Method::post,
         .path = "/v1/runs/{id}/finish",
         .needs = act,
         .summary = "End a run; frees everything it had",
         .handler = finish,
         .narrowest = Bound::run,
         .body = schema_of<FinishBody>,
         .example = R"({"fence": 1, "outcome": "succeeded", "reason": "all tests pass"})",
         .answer = schema_of<RunAnswer>},
        {.method = Method::post,
         .path = "/v1/runs/{id}/cancel",
         .needs = act,
         .summary = "End a run with its fence, or ask its owner to stop without",
         .handler = cancel,
         .narrowest = Bound::run,
         .body = schema_of<CancelBody>,
         .example = R"({"reason": "not needed any more"})",
         .answer = schema_of<RunAnswer>},
        {.method = Method::get,
         .path = "/v1/places",
         .needs = read,
         .summary = "Who holds what",
         .handler = list_places,
         .narrowest = Bound::agent,
         .answer = page_schema<ClaimView>},
    };
}

}  // namespace interlock::api
