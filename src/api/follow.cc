#include "api/follow.h"

#include <charconv>

#include "net/sse.h"
#include "store/read_rows.h"

namespace interlock::api {

Result<std::optional<std::int64_t>, Problem> read_cursor(const Call& call) {
    std::string_view text = call.request.header("last-event-id");
    if (text.empty()) text = call.parameter("after");
    if (text.empty()) return std::optional<std::int64_t>();
    std::int64_t seq = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seq);
    if (error != std::errc() || end != text.data() + text.size() || seq < -1) {
        return fail(
            invalid("after or Last-Event-ID is '" + std::string(text) + "'; it must be the number of an event"));
    }
    return std::optional(seq);
}

net::Task<Result<core::Seq, store::ReadError>> current_head(Parts& parts, core::OrgId org) {
    co_return co_await net::run_on(parts.workers, [&parts, org] {
        return parts.reads.with([org](store::Snapshot& snapshot) { return feed_head(snapshot, org); });
    });
}

namespace {

// A run's key is good until the run has ended, which the feed tells of like of anything else.
net::Task<bool> may_stay(const net::StreamWriter& writer, Parts& parts, const Principal& caller) {
    if (writer.closed() || !parts.keys.in_force(caller.key_id) || parts.now() >= caller.until) co_return false;
    if (caller.run.value.empty()) co_return true;
    const core::OrgId org = caller.org;
    const Id id = caller.run.value;
    const auto run = co_await net::run_on(parts.workers, [&parts, org, id] {
        return parts.reads.with(
            [org, id](store::Snapshot& snapshot) { return store::read_row<core::Run>(snapshot, org, id); });
    });
    co_return run && *run && !core::has_ended((*run)->state);
}

}  // namespace

net::Response event_stream(std::function<net::Task<void>(net::StreamWriter&)> follow) {
    net::Response response;
    response.content_type = "text/event-stream";
    response.headers.push_back({"cache-control", "no-store"});
    response.headers.push_back({"x-accel-buffering", "no"});  // A proxy in between must not wait for more.
    response.stream = std::move(follow);
    return response;
}

net::Task<bool> wait_for_news(net::StreamWriter& writer, Parts& parts, const Principal& caller, std::uint64_t seen) {
    constexpr std::chrono::seconds quiet_max{15};
    net::Notifier& notifier = parts.feeds.of(caller.org).notifier();
    while (co_await may_stay(writer, parts, caller)) {
        const bool news = co_await writer.wait(notifier, seen, std::chrono::steady_clock::now() + quiet_max);
        if (!co_await may_stay(writer, parts, caller)) break;
        if (news) co_return true;
        if (!co_await writer.write(net::sse_heartbeat)) break;
    }
    co_return false;
}

}  // namespace interlock::api
