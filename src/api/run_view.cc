#include "api/run_view.h"

#include <fmt/format.h>

#include "store/read_rows.h"

namespace interlock::api {
namespace {

ProcessView view_of(const core::Launch& launch) {
    const core::ProcessSpec& process = launch.process;
    ProcessView view{.directory = process.directory,
                     .env = {},
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
                     .foreground = process.foreground,
                     .retry = launch.retry};
    for (const auto& [name, value] : process.env) view.env.push_back(name);
    return view;
}

}  // namespace

Result<bool, store::ReadError> may_see(store::Snapshot& snapshot, const Principal& caller, const core::Run& run) {
    if (caller.run.value.empty()) return caller.may_see_agent(run.who.agent);
    if (run.id == caller.run) return true;
    for (core::RunId above = run.parent; !above.value.empty();) {
        if (above == caller.run) return true;
        const auto row = store::read_row<core::Run>(snapshot, caller.org, above.value);
        if (!row) return fail(row.error());
        if (!*row) return false;
        above = (*row)->parent;
    }
    return false;
}

std::optional<std::string> stated(const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); }

RunView run_view_of(const core::Run& run) {
    RunView view{.id = run.id,
                 .name = run.name,
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
                 .not_before = run.state == core::RunState::queued ? run.not_before : far_past,
                 .reason = run.reason,
                 .stop_requested = stated(run.stop_requested),
                 .schedule = stated(run.schedule),
                 .hold = run.hold,
                 .budget = run.ceiling > 0 ? std::optional(Money::nanos(run.ceiling)) : std::nullopt,
                 .spent = Money::nanos(run.settled),
                 .tokens = run.tokens,
                 .events = run.events,
                 .estimated = Money::nanos(run.unknown),
                 .supervised = run.supervised,
                 .attempt = run.attempt,
                 .retry_of = run.retry_of,
                 .exit_code = run.exit_code >= 0 ? std::optional(run.exit_code) : std::nullopt,
                 .parent = run.parent,
                 .spent_total = run.settled_below != 0 ? std::optional(Money::nanos(run.settled + run.settled_below))
                                                       : std::nullopt};
    for (const PlaceView& place : view.places) {
        if (place.kind == core::ClaimKind::workspace && !view.workspace) view.workspace = place.path;
    }
    return view;
}

RunDetail detail_of(const StoredRun& stored) {
    RunDetail detail;
    static_cast<RunView&>(detail) = run_view_of(stored.run);
    if (!stored.launch) return detail;
    detail.command = stored.launch->process.command;
    detail.process = view_of(*stored.launch);
    detail.sandbox = stated(stored.sandbox);
    return detail;
}

net::Task<Result<core::Run, Problem>> read_run(Call& call, core::RunId id) {
    const core::OrgId org = call.caller.org;
    const Principal caller = call.caller;
    auto run =
        co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::optional<core::Run>, store::ReadError> {
            auto row = store::read_row<core::Run>(snapshot, org, id.value);
            if (!row || !*row) return row;
            const auto seen = may_see(snapshot, caller, **row);
            if (!seen) return fail(seen.error());
            return *seen ? std::move(*row) : std::nullopt;
        });
    if (!run) co_return fail(run.error());
    if (!*run) co_return fail(not_found("run", id_text(id)));
    co_return std::move(**run);
}

net::Task<Result<StoredRun, Problem>> read_stored_run(Call& call, core::RunId id) {
    const core::OrgId org = call.caller.org;
    const Principal caller = call.caller;
    auto found =
        co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::optional<StoredRun>, store::ReadError> {
            auto run = store::read_row<core::Run>(snapshot, org, id.value);
            if (!run) return fail(run.error());
            if (!*run) return std::optional<StoredRun>();
            const auto seen = may_see(snapshot, caller, **run);
            if (!seen) return fail(seen.error());
            if (!*seen) return std::optional<StoredRun>();
            StoredRun stored{std::move(**run), {}, {}};
            if (stored.run.supervised) {
                auto launch = store::read_row<core::Launch>(snapshot, org, id.value);
                if (!launch) return fail(launch.error());
                stored.launch = std::move(*launch);
                const auto started = store::read_rows<core::RunStep>(
                    snapshot, org, "and run = $2 and state = 'running' and reason <> '' order by number limit 1",
                    {id.value});
                if (!started) return fail(started.error());
                if (!started->empty()) stored.sandbox = started->front().reason;
            }
            return std::optional(std::move(stored));
        });
    if (!found) co_return fail(found.error());
    if (!*found) co_return fail(not_found("run", id_text(id)));
    co_return std::move(**found);
}

net::Task<Result<core::RunId, Problem>> reachable_run(Call& call) {
    const auto id = read_id<core::RunId>("run", call.names[0]);
    if (!id || call.caller.bound() == Bound::nothing) co_return id;
    const auto run = co_await read_run(call, *id);
    if (!run) co_return fail(run.error());
    co_return id;
}

net::Task<Problem> of_another_node(Call& call, std::string node, std::string_view what) {
    const auto nodes =
        co_await net::run_on(call.parts.workers, [&commands = call.parts.commands] { return commands.nodes(); });
    std::string url;
    if (nodes) {
        for (const store::Node& each : *nodes) {
            if (each.name == node && each.alive) url = each.url;
        }
    }
    Problem problem{.status = 409,
                    .code = "other_node",
                    .detail = fmt::format("{} is on node '{}'{}", what, node,
                                          url.empty() ? ", which is down" : "; send the request to " + url)};
    problem.facts = ",\"node\":" + to_json(node) + ",\"url\":" + to_json(stated(url));
    co_return problem;
}

}  // namespace interlock::api
