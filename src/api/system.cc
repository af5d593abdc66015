// The server itself: is it well, what is it doing, does what it promised hold.
#include <fmt/format.h>

#include "api/feed_item.h"
#include "api/metrics.h"
#include "api/route.h"
#include "base/prometheus.h"
#include "base/sha256.h"
#include "store/read_rows.h"
#include "store/seals.h"

namespace interlock::api {
namespace {

struct BackupBody {
    static constexpr std::array required{"to"};
    std::string to;
};
BOOST_DESCRIBE_STRUCT(BackupBody, (), (to))

struct EngineView {
    std::uint64_t batches = 0;
    std::uint64_t commands = 0;
    std::uint64_t batch_max = 0;
    std::uint64_t failed_commits = 0;
    std::uint64_t reloads = 0;
    std::uint64_t queue_depth = 0;
};
BOOST_DESCRIBE_STRUCT(EngineView, (), (batches, commands, batch_max, failed_commits, reloads, queue_depth))

struct StatusView {
    std::string version;
    std::string store;
    std::optional<std::string> data_dir;  // This, the store's size and the engine only for the server's own org.
    std::string address;
    std::int64_t uptime_s = 0;
    Instant started_at;
    std::string org;
    core::Seq head_seq;
    std::string head;  // The number and the hash of the last commit: 12:9af3…
    std::int64_t agents = 0;
    std::int64_t budgets = 0;
    std::int64_t live_runs = 0;
    std::int64_t queued_runs = 0;
    std::int64_t open_holds = 0;
    Money held;  // By all of them, in dollars.
    std::optional<std::int64_t> store_bytes;
    std::optional<EngineView> engine;
};
BOOST_DESCRIBE_STRUCT(StatusView, (),
                      (version, store, data_dir, address, uptime_s, started_at, org, head_seq, head, agents, budgets,
                       live_runs, queued_runs, open_holds, held, store_bytes, engine))

struct Count {
    const char* sql;
    std::int64_t StatusView::* member;
};

// Each is answered from an index or a small table.
constexpr std::array counts{
    Count{"select count(*) from agents where org = $1 and archived = 0", &StatusView::agents},
    Count{"select count(*) from budgets where org = $1 and deleted = 0", &StatusView::budgets},
    Count{"select count(*) from runs where org = $1 and state in ('starting', 'running', 'paused')",
          &StatusView::live_runs},
    Count{"select count(*) from runs where org = $1 and state = 'queued'", &StatusView::queued_runs},
    Count{"select count(*) from holds where org = $1 and state = 'open'", &StatusView::open_holds},
};

// What a call draws from its run's own hold was taken off that one's bound, so the bounds add up. SQLite would rather
// walk the key than look up what an index leads to; it is told the ids.
constexpr std::string_view held_in_all =
    "select coalesce(sum(bound_usd), 0) from holds where org = $1 and id in "
    "(select id from holds where org = $1 and state = 'open')";

Result<StatusView, store::ReadError> read_status(store::Snapshot& snapshot, core::OrgId org) {
    StatusView view;
    for (const Count& count : counts) {
        const auto number = store::read_number(snapshot, org, count.sql);
        if (!number) return fail(number.error());
        view.*count.member = *number;
    }
    const auto held = store::read_number(snapshot, org, held_in_all);
    if (!held) return fail(held.error());
    view.held = Money::nanos(*held);
    const auto bytes = snapshot.store_bytes();
    if (!bytes) return fail(bytes.error());
    view.store_bytes = *bytes;
    const auto page =
        store::first_of(store::read_rows<core::FeedPage>(snapshot, org, "order by last_seq desc limit 1"));
    if (!page) return fail(page.error());
    if (*page) view.head_seq = (*page)->last_seq;
    const auto head = store::read_seal_head(snapshot, org);
    if (!head) return fail(head.error());
    if (*head) view.head = fmt::format("{}:{}", (*head)->number, (*head)->hash);
    const auto row = store::first_of(store::read_rows<core::Org>(snapshot, org));
    if (!row) return fail(row.error());
    if (*row) view.org = (*row)->name;
    return view;
}

EngineView engine_view(const ApiDependencies& parts) {
    const engine::EngineStats stats = parts.operations.engine_stats();
    return {stats.batches,        stats.commands, stats.batch_max,
            stats.failed_commits, stats.reloads,  parts.commands.queue_depth()};
}

ResponseTask get_status(Call& call) {
    const core::OrgId org = call.caller.org;
    auto view = co_await read(call, [=](store::Snapshot& snapshot) { return read_status(snapshot, org); });
    if (!view) co_return respond(call, view.error());
    const ServerFacts& facts = call.parts.facts;
    view->version = facts.version;
    view->store = facts.store;
    view->address = facts.address;
    view->started_at = facts.started_at;
    view->uptime_s =
        std::chrono::duration_cast<std::chrono::seconds>(call.parts.commands.now() - facts.started_at).count();
    if (call.is_home()) {
        view->data_dir = facts.data_dir;
        view->engine = engine_view(call.parts);
    } else {
        view->store_bytes.reset();
    }
    co_return respond(200, *view, false);
}

ResponseTask get_verify(Call& call) {
    const auto report =
        co_await net::run_on(call.parts.workers, [&server = call.parts.operations] { return server.verify(); });
    if (!report) co_return respond(call, unavailable("the store could not be verified: " + report.error()));
    co_return respond(200, *report);
}

ResponseTask get_last_verify(Call& call) {
    const LastVerify last = call.parts.operations.last_verify();
    co_return respond(200, "{\"at\":" + to_json(last.at) +
                               ",\"report\":" + (last.report.empty() ? std::string("null") : last.report) + "}");
}

ResponseTask post_backup(Call& call) {
    const auto body = read_body<BackupBody>(call);
    if (!body) co_return respond(call, body.error());
    if (!body->to.starts_with('/')) {
        co_return respond(call, invalid("to is '" + body->to + "'; it must be an absolute path on the server", "/to"));
    }
    const auto done = co_await net::run_on(
        call.parts.workers, [&server = call.parts.operations, to = body->to] { return server.back_up(to); });
    if (!done) co_return respond(call, invalid("to: " + done.error(), "/to"));
    co_return respond(201, *done);
}

struct NodeView {
    std::string id;
    std::string boot;
    std::string name;
    std::string url;
    std::string version;
    std::string state;
    Instant started_at;
    Instant seen_at;
    Instant lease_until;
};
BOOST_DESCRIBE_STRUCT(NodeView, (), (id, boot, name, url, version, state, started_at, seen_at, lease_until))

ResponseTask list_nodes(Call& call) {
    const auto nodes =
        co_await net::run_on(call.parts.workers, [&commands = call.parts.commands] { return commands.nodes(); });
    if (!nodes) co_return respond(call, unavailable("the nodes cannot be read: " + nodes.error()));
    Page<NodeView> page;
    for (const store::Node& node : *nodes) {
        page.items.push_back({.id = to_text("node", node.id),
                              .boot = to_text("boot", node.boot),
                              .name = node.name,
                              .url = node.url,
                              .version = node.version,
                              .state = node.alive ? "alive" : "gone",
                              .started_at = node.started_at,
                              .seen_at = node.seen_at,
                              .lease_until = node.lease_until});
    }
    co_return respond(page);
}

ResponseTask post_login(Call& call) {
    if (const auto body = read_body<OnlyKey>(call); !body) co_return respond(call, body.error());
    co_return respond(201, "{\"link\":" + to_json(call.parts.callers.login_link(call.caller.key_id)) + "}");
}

ResponseTask get_metrics(Call& call) {
    const core::OrgId org = call.caller.org;
    const auto status = co_await read(call, [=](store::Snapshot& snapshot) { return read_status(snapshot, org); });
    std::string out;
    call.parts.metrics.write(out);
    const EngineView engine = engine_view(call.parts);
    const auto add = [&](std::string_view name, std::string_view type, std::string_view help, std::uint64_t value) {
        write_metric(out, name, type, help, value);
    };
    add("interlock_engine_batches_total", "counter", "Batches committed.", engine.batches);
    add("interlock_engine_commands_total", "counter", "Commands executed.", engine.commands);
    add("interlock_engine_batch_size_max", "gauge", "The largest batch so far.", engine.batch_max);
    add("interlock_engine_failed_commits_total", "counter", "Commits that failed or whose outcome was lost.",
        engine.failed_commits);
    add("interlock_engine_reloads_total", "counter", "Times the state was read back from the store.", engine.reloads);
    add("interlock_engine_queue_depth", "gauge", "Commands waiting for the next batch.", engine.queue_depth);
    call.parts.operations.write_engine_histograms(out);
    call.parts.models.write_metrics(out, org);
    if (status) {
        add("interlock_live_runs", "gauge", "Runs that are starting, running or paused.",
            static_cast<std::uint64_t>(status->live_runs));
        add("interlock_queued_runs", "gauge", "Queued runs.", static_cast<std::uint64_t>(status->queued_runs));
        add("interlock_open_holds", "gauge", "Holds that are open.", static_cast<std::uint64_t>(status->open_holds));
        add("interlock_feed_head", "counter", "The number of the last event.",
            static_cast<std::uint64_t>(status->head_seq.value));
        add("interlock_store_bytes", "gauge", "Size of the store's file.",
            static_cast<std::uint64_t>(status->store_bytes.value_or(0)));
    }
    net::Response response = respond(200, std::move(out));
    response.content_type = "text/plain; version=0.0.4";
    co_return response;
}

ResponseTask get_openapi(Call& call) {
    static const Routes routes;
    co_return respond(200, json::serialize(openapi(routes, call.parts.facts.version)));
}

ResponseTask get_health(Call&) { co_return respond(200, std::string("{\"status\":\"ok\"}")); }

ResponseTask get_ready(Call& call) {
    const auto why =
        co_await net::run_on(call.parts.workers, [&server = call.parts.operations] { return server.why_not_ready(); });
    if (!why) co_return respond(200, std::string("{\"status\":\"ready\"}"));
    co_return respond(call, unavailable(*why));
}

json::value any_object() { return {{"type", "object"}}; }
json::value last_verify_schema() {
    return {{"type", "object"},
            {"properties", {{"at", schema_of<Instant>()}, {"report", {{"type", {"object", "null"}}}}}}};
}
json::value text() { return {{"type", "string"}}; }

}  // namespace

std::vector<ApiRoute> system_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/healthz",
         .needs = open,
         .summary = "Check that the process responds",
         .handler = get_health,
         .narrowest = Bound::budget,
         .answer = any_object},
        {.method = Method::get,
         .path = "/readyz",
         .needs = open,
         .summary = "Check that commands can be carried out",
         .handler = get_ready,
         .narrowest = Bound::budget,
         .answer = any_object},
        {.method = Method::get,
         .path = "/openapi.json",
         .needs = read,
         .summary = "This document",
         .handler = get_openapi,
         .narrowest = Bound::budget,
         .answer = any_object},
        {.method = Method::get,
         .path = "/metrics",
         .needs = read,
         .summary = "Metrics in Prometheus' text format",
         .handler = get_metrics,
         .reach = Reach::server,
         .answer = text},
        {.method = Method::get,
         .path = "/v1/status",
         .needs = read,
         .summary = "Show the state of the server",
         .handler = get_status,
         .answer = schema_of<StatusView>},
        {.method = Method::get,
         .path = "/v1/verify",
         .needs = read,
         .summary = "Verify every guarantee against the stored rows",
         .handler = get_verify,
         .reach = Reach::server,
         .answer = any_object},
        {.method = Method::get,
         .path = "/v1/verify/last",
         .needs = read,
         .summary = "Show the last verification since the server started",
         .handler = get_last_verify,
         .reach = Reach::server,
         .answer = last_verify_schema},
        {.method = Method::get,
         .path = "/v1/nodes",
         .needs = read,
         .summary = "List the servers that share the store",
         .handler = list_nodes,
         .reach = Reach::server,
         .answer = page_schema<NodeView>},
        {.method = Method::post,
         .path = "/v1/login",
         .needs = read,
         .summary = "Create a link that logs one browser in, once, with the caller's key",
         .handler = post_login,
         .narrowest = Bound::budget,
         .answer = any_object,
         .status = 201},
        {.method = Method::post,
         .path = "/v1/backup",
         .needs = administer,
         .summary = "Copy the store to a new file while it is in use",
         .handler = post_backup,
         .reach = Reach::server,
         .body = schema_of<BackupBody>,
         .answer = any_object,
         .status = 201},
    };
}

}  // namespace interlock::api
