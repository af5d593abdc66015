// Runs: one agent at work, in a place of its own, under a lease that its owner keeps alive.
#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "api/route.h"
#include "api/run_view.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct FenceBody {
    static constexpr std::array required{"fence"};
    core::Fence fence;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(FenceBody, (), (fence, key))

// Without a fence it is a person who asks, of a run that has a supervisor to hear of it.
struct AnyFenceBody {
    core::Fence fence;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(AnyFenceBody, (), (fence, key))

enum class FinishOutcome { succeeded, failed, timed_out };
BOOST_DESCRIBE_ENUM(FinishOutcome, succeeded, failed, timed_out)

struct FinishBody {
    static constexpr std::array required{"fence"};
    core::Fence fence;
    FinishOutcome outcome = FinishOutcome::succeeded;
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

struct RunAnswer {
    static constexpr std::array new_names{NewName{.name = "cancel_requested", .member = "stop_requested"}};
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

struct StepView {
    Instant at;
    core::RunState status = core::RunState::queued;
    std::optional<core::WaitsFor> waits_for;
    std::optional<std::string> reason;
};
BOOST_DESCRIBE_STRUCT(StepView, (), (at, status, waits_for, reason))

ResponseTask list_steps(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const auto after = read_count(call, "after", 0, 0, INT64_MAX);
    if (!after) co_return respond(call, after.error());
    const auto id = read_id<core::RunId>("run", call.names[0]);
    if (!id) co_return respond(call, id.error());
    const auto run = co_await read_run(call, *id);
    if (!run) co_return respond(call, run.error());
    const core::OrgId org = call.caller.org;
    auto steps =
        co_await read(call, [org, run = id->value, from = *after, most = *limit + 1](store::Snapshot& snapshot) {
            return store::read_rows<core::RunStep>(
                snapshot, org, "and run = $2 and number > $3 order by number limit $4", {run, from, most});
        });
    if (!steps) co_return respond(call, steps.error());
    auto page =
        page_of(std::move(*steps), *limit, [](const core::RunStep& step) { return std::to_string(step.number); });
    Page<StepView> views{{}, page.next};
    for (const core::RunStep& step : page.items) {
        const bool waits = step.waits_for != core::WaitsFor::nothing;
        views.items.push_back(
            {step.at, step.state, waits ? std::optional(step.waits_for) : std::nullopt, stated(step.reason)});
    }
    co_return respond(views);
}

ResponseTask get_run(Call& call) {
    const auto id = read_id<core::RunId>("run", call.names[0]);
    if (!id) co_return respond(call, id.error());
    const auto stored = co_await read_stored_run(call, *id);
    if (!stored) co_return respond(call, stored.error());
    co_return respond(200, detail_of(*stored), false);
}

Result<std::vector<core::RunState>, Problem> read_states(const Call& call) {
    std::vector<core::RunState> states;
    for (const std::string& name : comma_separated(call.parameter("status"))) {
        core::RunState state;
        if (!boost::describe::enum_from_string(name.c_str(), state)) {
            return fail(invalid(fmt::format("status has '{}'; possible statuses: {}", name,
                                            enumerator_list(wire_type<core::RunState>))));
        }
        states.push_back(state);
    }
    return states;
}

// Only such as have not ended: these are few, and found by their state.
bool are_live(const std::vector<core::RunState>& states) {
    return !states.empty() && std::ranges::none_of(states, core::has_ended);
}

// Which questions find runs in these states, each in the order of the list and by an index. One state at a time has
// one; for what has ended, and is of one agent, name or schedule, theirs is the shorter.
std::vector<std::string> conditions_of(const std::vector<core::RunState>& states, bool of_one) {
    if (states.empty()) return {""};
    std::vector<std::string> each;
    std::string list;
    for (const core::RunState state : std::set(states.begin(), states.end())) {
        const std::string name = fmt::format("'{}'", boost::describe::enum_to_string(state, ""));
        each.push_back(fmt::format("and state = {} ", name));
        list += (list.empty() ? "" : ", ") + name;
    }
    if (!of_one || are_live(states)) return each;
    return {fmt::format("and state || '' in ({}) ", list)};
}

// The first `most` of all that the questions find.
Result<std::vector<core::Run>, store::ReadError> read_list(store::Snapshot& snapshot, core::OrgId org,
                                                           const std::string& rest,
                                                           const std::vector<std::string>& conditions,
                                                           const std::vector<store::Parameter>& parameters,
                                                           std::size_t most) {
    std::vector<core::Run> all;
    for (const std::string& condition : conditions) {
        auto found =
            store::read_rows<core::Run>(snapshot, org, rest + condition + "order by id desc limit $3", parameters);
        if (!found) return fail(found.error());
        std::ranges::move(*found, std::back_inserter(all));
    }
    std::ranges::sort(all, std::greater(), &core::Run::id);
    if (all.size() > most) all.erase(all.begin() + static_cast<std::ptrdiff_t>(most), all.end());
    return all;
}

ResponseTask list_runs(Call& call) {
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
    const bool by_run = !call.caller.run.value.empty();  // It sees the runs below its own, of all agents.
    const bool by_agent = !call.caller.agent.empty() && !by_run;
    const std::string agent(by_agent ? std::string_view(call.caller.agent) : call.parameter("agent"));
    core::RunId parent;
    if (const auto text = call.parameter("parent"); !text.empty()) {
        const auto id = read_id<core::RunId>("run", text);
        if (!id) co_return respond(call, invalid(fmt::format("parent is '{}', which is not a run id", text)));
        parent = *id;
    }
    std::string rest = "and id < $2 ";
    if (!agent.empty()) rest += "and agent = $4 ";
    if (by_run) {
        rest +=
            "and id in (with recursive below(id) as (select runs.id from runs where org = $1 and runs.id = $5 "
            "union all select runs.id from below join runs on runs.org = $1 and runs.parent = below.id) "
            "select id from below) ";
    }
    if (!parent.value.empty()) rest += "and parent is not null and parent = $8 ";
    const std::string name(call.parameter("name"));
    const std::string schedule(call.parameter("schedule"));
    // The indexes leave out runs without a name or a schedule, and are used where it is said that those are not meant.
    const bool by_state = are_live(*states);
    if (!name.empty()) rest += by_state ? "and name = $6 " : "and name <> '' and name = $6 ";
    if (!schedule.empty()) rest += by_state ? "and schedule = $7 " : "and schedule <> '' and schedule = $7 ";
    const core::OrgId org = call.caller.org;
    const std::int64_t count = *limit;
    const Id only = call.caller.run.value;
    const std::vector<std::string> conditions =
        conditions_of(*states, !(agent.empty() && name.empty() && schedule.empty() && parent.value.empty()));
    const auto runs = co_await read(call, [=](store::Snapshot& snapshot) {
        return read_list(snapshot, org, rest, conditions,
                         {before, count + 1, agent, only, name, schedule, parent.value},
                         static_cast<std::size_t>(count + 1));
    });
    if (!runs) co_return respond(call, runs.error());
    std::vector<RunView> views;
    for (const core::Run& run : *runs) views.push_back(run_view_of(run));
    co_return respond(page_of(std::move(views), count, [](const RunView& view) { return id_text(view.id); }));
}

net::Response answered(core::RunId id, const DoneCommand& done) {
    const auto& reply = done.as<core::RunReply>();
    return respond(200,
                   RunAnswer{.id = id,
                             .status = reply.state,
                             .lease_until = core::has_ended(reply.state) ? far_past : reply.lease_until,
                             .stop_requested = stated(reply.stop_requested),
                             .repeated = done.repeated},
                   done.repeated);
}

template <class Command>
ResponseTask with_fence(Call& call) {
    const auto id = co_await reachable_run(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<FenceBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(call, Command{*id, body->fence}, body->key);
    co_return done ? answered(*id, *done) : respond(call, done.error());
}

// Its owner shows the fence. Whoever has none decides about somebody else's work, which takes an operator.
template <class Command>
ResponseTask with_any_fence(Call& call) {
    const auto id = co_await reachable_run(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<AnyFenceBody>(call);
    if (!body) co_return respond(call, body.error());
    if (body->fence.value == 0 && !call.caller.may(Access::operate)) {
        co_return respond(call, Problem{.status = 403,
                                        .code = "forbidden",
                                        .detail = "this needs the fence of the run, or an operator key",
                                        .pointer = "/fence"});
    }
    const auto done = co_await ask(call, Command{*id, body->fence}, body->key);
    co_return done ? answered(*id, *done) : respond(call, done.error());
}

ResponseTask finish(Call& call) {
    const auto id = co_await reachable_run(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<FinishBody>(call);
    if (!body) co_return respond(call, body.error());
    const core::RunState outcome = body->outcome == FinishOutcome::succeeded ? core::RunState::succeeded
                                   : body->outcome == FinishOutcome::failed  ? core::RunState::failed
                                                                             : core::RunState::timed_out;
    const auto done = co_await ask(call,
                                   core::FinishRun{.run = *id,
                                                   .fence = body->fence,
                                                   .outcome = outcome,
                                                   .reason = body->reason,
                                                   .charge = body->charge,
                                                   .by_client = true},
                                   body->key);
    co_return done ? answered(*id, *done) : respond(call, done.error());
}

ResponseTask cancel(Call& call) {
    const auto id = co_await reachable_run(call);
    if (!id) co_return respond(call, id.error());
    const auto body = read_body<CancelBody>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(
        call,
        core::CancelRun{
            .run = *id, .fence = body->fence, .reason = body->reason, .charge = body->charge, .by_client = true},
        body->key);
    co_return done ? answered(*id, *done) : respond(call, done.error());
}

ResponseTask list_places(Call& call) {
    const core::OrgId org = call.caller.org;
    struct Found {
        std::vector<core::Claim> claims;
        std::map<core::RunId, core::Run> runs;
    };
    const auto found = co_await read(call, [=](store::Snapshot& snapshot) -> Result<Found, store::ReadError> {
        auto claims = store::read_rows<core::Claim>(snapshot, org, "order by path");
        if (!claims) return fail(claims.error());
        auto runs = store::read_rows<core::Run>(snapshot, org, fmt::format("and {}", not_ended));
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

template <class Body>
ApiRoute transition(std::string_view path, std::string_view summary, ResponseTask (*handler)(Call&)) {
    return {.method = net::Method::post,
            .path = path,
            .needs = Access::act,
            .summary = summary,
            .handler = handler,
            .narrowest = Bound::run,
            .body = schema_of<Body>,
            .example = R"({"fence": 1})",
            .answer = schema_of<RunAnswer>};
}

}  // namespace

std::vector<ApiRoute> run_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/v1/runs",
         .needs = read,
         .summary = "List runs, newest first",
         .handler = list_runs,
         .narrowest = Bound::run,
         .query = {"status", "agent", "name", "schedule", "parent", "after", "limit"},
         .answer = page_schema<RunView>},
        {.method = Method::get,
         .path = "/v1/runs/{id}",
         .needs = read,
         .summary = "Show a run",
         .handler = get_run,
         .narrowest = Bound::run,
         .answer = schema_of<RunDetail>},
        transition<FenceBody>("/v1/runs/{id}/heartbeat", "Renew the lease; the first heartbeat starts the run",
                              with_fence<core::HeartbeatRun>),
        transition<FenceBody>("/v1/runs/{id}/start", "Report that the process has started", with_fence<core::StartRun>),
        transition<AnyFenceBody>("/v1/runs/{id}/pause", "Pause a run; it keeps its claims",
                                 with_any_fence<core::PauseRun>),
        transition<AnyFenceBody>("/v1/runs/{id}/resume", "Resume a paused run", with_any_fence<core::ResumeRun>),
        {.method = Method::get,
         .path = "/v1/runs/{id}/steps",
         .needs = read,
         .summary = "List the status changes of a run, oldest first",
         .handler = list_steps,
         .narrowest = Bound::run,
         .query = {"after", "limit"},
         .answer = page_schema<StepView>},
        {.method = Method::post,
         .path = "/v1/runs/{id}/finish",
         .needs = act,
         .summary = "Report the end of a run; frees its claims",
         .handler = finish,
         .narrowest = Bound::run,
         .body = schema_of<FinishBody>,
         .example = R"({"fence": 1, "outcome": "succeeded", "reason": "all tests pass"})",
         .answer = schema_of<RunAnswer>},
        {.method = Method::post,
         .path = "/v1/runs/{id}/cancel",
         .needs = act,
         .summary = "Cancel a run: with its fence it ends, without it its owner is asked to stop",
         .handler = cancel,
         .narrowest = Bound::run,
         .body = schema_of<CancelBody>,
         .example = R"({"reason": "not needed any more"})",
         .answer = schema_of<RunAnswer>},
        {.method = Method::get,
         .path = "/v1/claims",
         .needs = read,
         .summary = "List the claims of live runs",
         .handler = list_places,
         .narrowest = Bound::agent,
         .answer = page_schema<ClaimView>},
        {.method = Method::get,
         .path = "/v1/places",
         .needs = read,
         .summary = "The former name of /v1/claims",
         .handler = list_places,
         .narrowest = Bound::agent,
         .answer = page_schema<ClaimView>},
    };
}

}  // namespace interlock::api
