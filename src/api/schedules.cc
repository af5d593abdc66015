// Schedules: when an agent wakes up by itself.
#include <charconv>

#include <fmt/format.h>

#include "api/places.h"
#include "api/route.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct ScheduleBody {
    static constexpr std::array required{"agent"};
    std::string agent;
    std::string every;  // "15m"
    std::int64_t every_s = 0;
    std::string cron;
    std::string timezone = "UTC";
    std::int64_t jitter_s = 0;
    core::Overlap overlap = core::Overlap::skip;
    core::Missed missed = core::Missed::one;
    std::int32_t missed_max = 10;
    // Where it works. What is not said is as its agent has it.
    std::optional<std::string> workspace;
    std::optional<std::vector<std::string>> resources;
    std::optional<core::ClaimMode> mode;
    std::optional<bool> isolate;
    std::string node;
    std::int32_t lease_s = 60;
    std::int32_t priority = 0;
    Money hold;
    bool enabled = true;
    std::optional<std::string> key;
};
BOOST_DESCRIBE_STRUCT(ScheduleBody, (),
                      (agent, every, every_s, cron, timezone, jitter_s, overlap, missed, missed_max, workspace,
                       resources, mode, isolate, node, lease_s, priority, hold, enabled, key))

struct ScheduleView {
    std::string name;
    std::string agent;
    std::optional<std::int64_t> every_s;
    std::optional<std::string> cron;
    std::string timezone;
    std::int64_t jitter_s = 0;
    core::Overlap overlap = core::Overlap::skip;
    core::Missed missed = core::Missed::one;
    std::int32_t missed_max = 10;
    std::optional<std::string> workspace;
    std::vector<std::string> resources;
    core::ClaimMode mode = core::ClaimMode::write;
    std::vector<PlaceView> places;
    bool isolate = false;
    std::string node;
    std::int32_t lease_s = 60;
    std::int32_t priority = 0;
    Money hold;
    bool enabled = true;
    Instant created_at;
    Instant next_at;
    Instant last_fired_at;
    std::int64_t fired = 0;
    std::int64_t skipped = 0;
    std::int64_t coalesced = 0;
};
BOOST_DESCRIBE_STRUCT(ScheduleView, (),
                      (name, agent, every_s, cron, timezone, jitter_s, overlap, missed, missed_max, workspace,
                       resources, mode, places, isolate, node, lease_s, priority, hold, enabled, created_at, next_at,
                       last_fired_at, fired, skipped, coalesced))

struct WakeAnswer {
    core::WakeStatus status = core::WakeStatus::woken;
    core::RunId run;
    std::optional<core::RunState> run_status;
    core::Fence fence;
    bool repeated = false;
};
BOOST_DESCRIBE_STRUCT(WakeAnswer, (), (status, run, run_status, fence, repeated))

ScheduleView view_of(const core::Schedule& schedule) {
    ScheduleView view{.name = schedule.name,
                      .agent = schedule.agent,
                      .every_s = schedule.every_s > 0 ? std::optional(schedule.every_s) : std::nullopt,
                      .cron = schedule.cron.empty() ? std::nullopt : std::optional(schedule.cron),
                      .timezone = schedule.zone,
                      .jitter_s = schedule.jitter_s,
                      .overlap = schedule.overlap,
                      .missed = schedule.missed,
                      .missed_max = schedule.missed_max,
                      .workspace = {},
                      .resources = {},
                      .mode = schedule.places.empty() ? core::ClaimMode::write : schedule.places.front().mode,
                      .places = views_of(schedule.places),
                      .isolate = !schedule.worktrees.empty(),
                      .node = schedule.node,
                      .lease_s = schedule.lease_s,
                      .priority = schedule.priority,
                      .hold = Money::nanos(schedule.hold_bound.usd),
                      .enabled = schedule.enabled,
                      .created_at = schedule.created_at,
                      .next_at = schedule.enabled ? schedule.next_at : far_past,
                      .last_fired_at = schedule.fired > 0 ? schedule.last_fired_at : far_past,
                      .fired = schedule.fired,
                      .skipped = schedule.skipped,
                      .coalesced = schedule.coalesced};
    for (const core::Place& place : schedule.places) {
        if (place.kind == core::ClaimKind::resource) {
            view.resources.push_back(place.path);
        } else {
            view.workspace = place.path;
        }
    }
    return view;
}

// "90", "90s", "15m", "2h", "1d".
std::optional<std::int64_t> seconds_from_text(std::string_view text) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    const std::int64_t seconds = unit.empty() || unit == "s" ? 1
                                 : unit == "m"               ? 60
                                 : unit == "h"               ? 3600
                                 : unit == "d"               ? 86400
                                                             : 0;
    std::int64_t all = 0;
    if (error != std::errc() || count <= 0 || seconds == 0 || __builtin_mul_overflow(count, seconds, &all)) return {};
    return all;
}

ResponseTask show_schedule(Call& call, std::string name, bool repeated) {
    const core::OrgId org = call.caller.org;
    const auto schedule = co_await read(
        call, [=](store::Snapshot& snapshot) { return store::read_row<core::Schedule>(snapshot, org, name); });
    if (!schedule) co_return respond(call, schedule.error());
    if (!*schedule || (*schedule)->deleted || !call.caller.may_see_agent((*schedule)->agent)) {
        co_return respond(call, not_found("schedule", name));
    }
    co_return respond(200, view_of(**schedule), repeated);
}

ResponseTask get_schedule(Call& call) { return show_schedule(call, call.names[0], false); }

ResponseTask list_schedules(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const std::string after(call.parameter("after"));
    const std::string agent(call.caller.agent.empty() ? call.parameter("agent") : std::string_view(call.caller.agent));
    const core::OrgId org = call.caller.org;
    const std::int64_t count = *limit;
    const auto schedules = co_await read(call, [=](store::Snapshot& snapshot) {
        return store::read_rows<core::Schedule>(snapshot, org,
                                                std::string("and deleted = 0 and name > $2 ") +
                                                    (agent.empty() ? "" : "and agent = $4 ") + "order by name limit $3",
                                                {after, count + 1, agent});
    });
    if (!schedules) co_return respond(call, schedules.error());
    std::vector<ScheduleView> views;
    for (const core::Schedule& schedule : *schedules) views.push_back(view_of(schedule));
    co_return respond(page_of(std::move(views), count, [](const ScheduleView& view) { return view.name; }));
}

// The places of a schedule's runs. They are looked up now, so that a directory that is not there is noticed by whoever
// puts the schedule and not at night.
net::Task<Result<std::vector<core::Place>, Problem>> places_of(Call& call, ScheduleBody body, core::Agent agent) {
    const std::string workspace = body.workspace.value_or(agent.process.directory);
    if (auto problem = co_await check_view(call, body.workspace.value_or(""), "/workspace")) co_return fail(*problem);
    auto places = co_await find_places(call, workspace, body.resources.value_or(agent.workplace.resources),
                                       body.mode.value_or(agent.workplace.mode));
    if (places || body.workspace) co_return places;
    co_return fail(invalid(fmt::format("agent '{}': {}", body.agent, places.error().detail)));
}

ResponseTask put_schedule(Call& call) {
    auto body = read_body<ScheduleBody>(call);
    if (!body) co_return respond(call, body.error());
    if (!call.is_home()) {
        // Nobody would start what it wakes.
        co_return respond(
            call,
            not_in_this_org("the server starts processes only for the org 'default', so other orgs have no schedules"));
    }
    if (!body->every.empty()) {
        const auto seconds = seconds_from_text(body->every);
        if (!seconds || body->every_s != 0) {
            co_return respond(
                call, invalid(fmt::format("every is '{}'; it must be a number with s, m, h or d, such as 15m, and "
                                          "stand alone",
                                          body->every),
                              "/every"));
        }
        body->every_s = *seconds;
    }
    const core::OrgId org = call.caller.org;
    const auto agent = co_await read(call, [org, name = body->agent](store::Snapshot& snapshot) {
        return store::read_row<core::Agent>(snapshot, org, name);
    });
    if (!agent) co_return respond(call, agent.error());
    // That there is no such agent is the rules' to say.
    const core::Agent its = agent->value_or(core::Agent{});
    const auto places = co_await places_of(call, *body, its);
    if (!places) co_return respond(call, places.error());
    std::vector<core::Place> worktrees;
    if (body->isolate.value_or(its.workplace.isolate)) worktrees.push_back(call.parts.worktrees);
    const auto done =
        co_await ask(call,
                     core::PutSchedule{.name = call.names[0],
                                       .agent = body->agent,
                                       .every_s = body->every_s,
                                       .cron = body->cron,
                                       .zone = body->timezone,
                                       .jitter_s = body->jitter_s,
                                       .overlap = body->overlap,
                                       .missed = body->missed,
                                       .missed_max = body->missed_max,
                                       .places = *places,
                                       .lease_s = body->lease_s,
                                       .priority = body->priority,
                                       .hold = {.usd = body->hold.nanos(), .tokens = 0, .calls = 0, .runs = 0},
                                       .enabled = body->enabled,
                                       .node = body->node.empty() ? call.parts.node : body->node,
                                       .worktrees = std::move(worktrees)},
                     body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_schedule(call, call.names[0], done->repeated);
}

ResponseTask delete_schedule(Call& call) {
    const auto done = co_await ask(call, core::DeleteSchedule{call.names[0]});
    co_return done ? no_content(done->repeated) : respond(call, done.error());
}

ResponseTask enable(Call& call, bool enabled) {
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    const auto done = co_await ask(call, core::EnableSchedule{call.names[0], enabled}, body->key);
    if (!done) co_return respond(call, done.error());
    co_return co_await show_schedule(call, call.names[0], done->repeated);
}

ResponseTask pause(Call& call) { return enable(call, false); }
ResponseTask resume(Call& call) { return enable(call, true); }

ResponseTask wake(Call& call) {
    const auto body = read_body<OnlyKey>(call);
    if (!body) co_return respond(call, body.error());
    if (!call.caller.agent.empty()) {  // The schedule must be the caller's agent's.
        net::Response shown = co_await show_schedule(call, call.names[0], false);
        if (shown.status != 200) co_return shown;
    }
    const auto done =
        co_await ask(call, core::Wake{call.names[0], core::RunId(call.parts.commands.fresh_id())}, body->key);
    if (!done) co_return respond(call, done.error());
    const auto& reply = done->as<core::WakeReply>();
    WakeAnswer answer{.status = reply.status,
                      .run = reply.run,
                      .run_status = {},
                      .fence = reply.admit.fence,
                      .repeated = done->repeated};
    if (reply.status == core::WakeStatus::woken) {
        answer.run_status =
            reply.admit.status == core::AdmitStatus::queued ? core::RunState::queued : core::RunState::starting;
    } else {
        answer.run_status = core::RunState::queued;
    }
    co_return respond(201, answer, done->repeated);
}

}  // namespace

std::vector<ApiRoute> schedule_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/v1/schedules",
         .needs = read,
         .summary = "List schedules",
         .handler = list_schedules,
         .narrowest = Bound::agent,
         .query = {"agent", "after", "limit"},
         .answer = page_schema<ScheduleView>},
        {.method = Method::get,
         .path = "/v1/schedules/{name}",
         .needs = read,
         .summary = "Show a schedule",
         .handler = get_schedule,
         .narrowest = Bound::agent,
         .answer = schema_of<ScheduleView>},
        {.method = Method::put,
         .path = "/v1/schedules/{name}",
         .needs = operate,
         .summary = "Create or change a schedule",
         .handler = put_schedule,
         .body = schema_of<ScheduleBody>,
         .example = R"({"agent": "writer", "cron": "0 9 * * mon-fri", "timezone": "Europe/Berlin", "overlap": "skip",)"
                    R"( "missed": "one"})",
         .answer = schema_of<ScheduleView>},
        {.method = Method::delete_,
         .path = "/v1/schedules/{name}",
         .needs = operate,
         .summary = "Delete a schedule; its live runs continue",
         .handler = delete_schedule,
         .status = 204},
        {.method = Method::post,
         .path = "/v1/schedules/{name}/pause",
         .needs = operate,
         .summary = "Pause a schedule; its live runs continue",
         .handler = pause,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<ScheduleView>},
        {.method = Method::post,
         .path = "/v1/schedules/{name}/resume",
         .needs = operate,
         .summary = "Resume a schedule; times that it missed are skipped",
         .handler = resume,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<ScheduleView>},
        {.method = Method::post,
         .path = "/v1/schedules/{name}/trigger",
         .needs = act,
         .summary = "Start a run of the schedule now, or return its queued run",
         .handler = wake,
         .narrowest = Bound::agent,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<WakeAnswer>,
         .status = 201},
        {.method = Method::post,
         .path = "/v1/schedules/{name}/wake",
         .needs = act,
         .summary = "The former name of /trigger",
         .handler = wake,
         .narrowest = Bound::agent,
         .body = schema_of<OnlyKey>,
         .answer = schema_of<WakeAnswer>,
         .status = 201},
    };
}

}  // namespace interlock::api
