// What the process of a run writes, by positions: a piece at a time, waiting for more where there is none yet.
#include <chrono>

#include <fmt/format.h>

#include "api/route.h"
#include "api/run_view.h"
#include "net/notifier.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

constexpr std::int64_t piece_bytes = 64 << 10;
constexpr std::int64_t piece_bytes_max = 1 << 20;
constexpr std::int64_t wait_s_max = 30;
constexpr std::chrono::milliseconds look_again{100};  // A log is written by another process, which tells nobody.

// How a log looked at one moment. Whether the run has ended is asked first: then what is read is all there will be.
struct LogSnapshot {
    bool ended = false;
    LogPiece piece;
};

Result<LogSnapshot, std::string> look(ApiDependencies& parts, core::OrgId org, core::RunId id, std::int64_t offset,
                                      std::int64_t limit) {
    const auto run = parts.reads.with(
        [&](store::Snapshot& snapshot) { return store::read_row<core::Run>(snapshot, org, id.value); });
    if (!run) return fail(run.error().detail);
    auto piece = parts.processes.read_log(id, offset, limit);
    if (!piece) return fail(piece.error());
    return LogSnapshot{!*run || core::has_ended((*run)->state), std::move(*piece)};
}

Problem not_kept(std::string detail) { return {.status = 404, .code = "log_not_kept", .detail = std::move(detail)}; }

net::Response to_response(LogSnapshot seen) {
    net::Response response;
    // Whatever an agent prints must not become a page of ours.
    response.content_type = "text/plain; charset=utf-8";
    const auto add = [&](std::string name, std::string value) {
        response.headers.push_back({std::move(name), std::move(value)});
    };
    add("x-content-type-options", "nosniff");
    add("cache-control", "no-store");
    add("x-interlock-log-offset", std::to_string(seen.piece.offset));
    add("x-interlock-log-next", std::to_string(seen.piece.next));
    add("x-interlock-log-end", std::to_string(seen.piece.end));
    if (seen.piece.hole_begin < seen.piece.hole_end) {
        add("x-interlock-log-hole", fmt::format("{}-{}", seen.piece.hole_begin, seen.piece.hole_end));
    }
    add("x-interlock-run-ended", seen.ended ? "true" : "false");
    response.body = std::move(seen.piece.bytes);
    return response;
}

ResponseTask get_log(Call& call) {
    const auto offset = read_count(call, "offset", 0, INT64_MIN, INT64_MAX);
    if (!offset) co_return respond(call, offset.error());
    const auto limit = read_count(call, "limit", piece_bytes, 1, piece_bytes_max);
    if (!limit) co_return respond(call, limit.error());
    const auto wait_s = read_count(call, "wait", 0, 0, wait_s_max);
    if (!wait_s) co_return respond(call, wait_s.error());
    const auto id = read_id<core::RunId>("run", call.names[0]);
    if (!id) co_return respond(call, id.error());
    const auto stored = co_await read_stored_run(call, *id);
    if (!stored) co_return respond(call, stored.error());
    if (!stored->launch) co_return respond(call, not_kept("a client owns the run, so the server has no log of it"));
    if (stored->launch->process.foreground) {
        co_return respond(call, not_kept("the run was started from a terminal, and what it wrote went there"));
    }
    if (stored->run.node != call.parts.node) {
        co_return respond(call, co_await of_another_node(call, stored->run.node, "the run's log"));
    }

    ApiDependencies& parts = call.parts;
    const core::OrgId org = call.caller.org;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(*wait_s);
    net::Notifier nobody_rings;
    std::int64_t from = *offset;
    while (true) {
        auto seen = co_await net::run_on(parts.workers, [&parts, org, run = *id, from, count = *limit] {
            return look(parts, org, run, from, count);
        });
        if (!seen) co_return respond(call, unavailable("the log cannot be read: " + seen.error()));
        if (!seen->piece.kept && seen->ended) co_return respond(call, not_kept("the log of this run does not exist"));
        const auto now = std::chrono::steady_clock::now();
        if (!seen->piece.bytes.empty() || seen->ended || now >= deadline) co_return to_response(std::move(*seen));
        // From the end is from the end as it was at first, else nothing new would ever lie behind it.
        if (from < 0) from = seen->piece.offset;
        const auto next_look = std::min(deadline, now + look_again);
        (void)co_await nobody_rings.wait(nobody_rings.generation(), next_look);
        // A server that drains ends all waits.
        if (std::chrono::steady_clock::now() < next_look) co_return to_response(std::move(*seen));
    }
}

}  // namespace

std::vector<ApiRoute> log_routes() {
    return {{.method = net::Method::get,
             .path = "/v1/runs/{id}/log",
             .needs = Access::read,
             .summary = "Read the output of a run as text; wait returns new output",
             .handler = get_log,
             .narrowest = Bound::run,
             .query = {"offset", "limit", "wait"}}};
}

}  // namespace interlock::api
