// The feed: everything that happened, in order, as pages or as a stream.
#include <algorithm>

#include <fmt/format.h>

#include "api/follow.h"
#include "api/route.h"

namespace interlock::api {
namespace {

struct EventView {
    core::Seq seq;
    Instant at;
    std::string type;
    JsonText data;
};
BOOST_DESCRIBE_STRUCT(EventView, (), (seq, at, type, data))

using Types = std::vector<std::string>;

bool wanted(const Types& types, std::string_view type) {
    return types.empty() || std::ranges::find(types, type) != types.end();
}

Result<Types, Problem> read_types(const Call& call) {
    Types types = comma_separated(call.parameter("type"));
    for (const std::string& type : types) {
        if (std::ranges::find(event_types(), type) != event_types().end()) continue;
        return fail(invalid(fmt::format("type has '{}'; possible types: {}", type, fmt::join(event_types(), ", "))));
    }
    return types;
}

net::Task<void> follow(ApiDependencies& parts, Principal caller, Types types, std::optional<std::int64_t> after,
                       net::StreamWriter& writer) {
    constexpr std::size_t items_at_a_time = 512;
    FeedTail& tail = parts.feeds.of(caller.org);
    store::ReadPool& reads = parts.reads;
    net::WorkerPool& workers = parts.workers;
    const core::OrgId org = caller.org;
    const FeedTail::Follower follower(tail);
    core::Seq seen(after.value_or(0));
    if (!after) {
        const auto head = co_await current_head(parts, org);
        if (!head) co_return;
        seen = *head;
    }
    if (!co_await writer.write(": following\n\n")) co_return;
    while (!writer.closed()) {
        const std::uint64_t generation = tail.notifier().generation();
        std::string text;
        core::Seq last = seen;
        if (const auto items = tail.after(seen, items_at_a_time)) {
            for (const auto& item : *items) {
                if (wanted(types, item->type)) text += item->sse;
                last = item->seq;
            }
        } else {
            const auto read = co_await net::run_on(workers, [&reads, org, seen] {
                return reads.with(
                    [&](store::Snapshot& snapshot) { return read_feed(snapshot, org, seen, items_at_a_time); });
            });
            if (!read) co_return;
            for (const FeedItem& item : *read) {
                if (wanted(types, item.type)) text += item.sse;
                last = item.seq;
            }
        }
        if (!text.empty() && !co_await writer.write(text)) co_return;
        if (last == seen && !co_await wait_for_news(writer, parts, caller, generation)) co_return;
        seen = last;
    }
}

// A number past the head is of a feed that the store no longer has. A follower that waited there would miss everything
// up to it.
Problem past_the_head(std::int64_t after, core::Seq head) {
    Problem problem{
        .status = 409,
        .code = "past_the_head",
        .detail = fmt::format("after is {}, and the feed ends at event {}; the number is from another store, "
                              "or the store was replaced by an older one; read again from 0",
                              after, head.value)};
    problem.facts = ",\"head\":" + to_json(head);
    return problem;
}

ResponseTask get_events(Call& call) {
    const auto types = read_types(call);
    if (!types) co_return respond(call, types.error());
    const auto cursor = read_cursor(call);
    if (!cursor) co_return respond(call, cursor.error());
    const core::OrgId org = call.caller.org;
    if (call.request.header("accept").find("text/event-stream") != std::string_view::npos) {
        ApiDependencies& parts = call.parts;
        if (cursor->value_or(0) > 0) {
            const auto head = co_await current_head(parts, org);
            if (!head) co_return respond(call, unavailable("the feed cannot be read: " + head.error().detail));
            if (**cursor > head->value) co_return respond(call, past_the_head(**cursor, *head));
        }
        co_return event_stream([&parts, caller = call.caller, types = *types, after = *cursor](
                                   net::StreamWriter& writer) { return follow(parts, caller, types, after, writer); });
    }

    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    struct Found {
        std::vector<FeedItem> items;
        core::Seq head;
    };
    const core::Seq after(cursor->value_or(0));
    const auto count = static_cast<std::size_t>(*limit);
    const auto found = co_await read(call, [=](store::Snapshot& snapshot) -> Result<Found, store::ReadError> {
        auto items = read_feed(snapshot, org, after, count);
        if (!items) return fail(items.error());
        const auto head = feed_head(snapshot, org);
        if (!head) return fail(head.error());
        return Found{std::move(*items), *head};
    });
    if (!found) co_return respond(call, found.error());
    if (after > found->head) co_return respond(call, past_the_head(after.value, found->head));

    std::string out = "{\"items\":[";
    core::Seq last = after;
    for (std::size_t i = 0; i < std::min(count, found->items.size()); ++i) {
        const FeedItem& item = found->items[i];
        last = item.seq;
        if (!wanted(*types, item.type)) continue;
        if (out.back() != '[') out += ',';
        out += item.json;
    }
    co_return respond(200, out + "],\"next\":" + to_json(last) + ",\"head\":" + to_json(found->head) + "}");
}

json::value events_schema() {
    json::value schema = page_schema<EventView>();
    schema.at("properties").as_object()["next"] = schema_of<std::int64_t>();
    schema.at("properties").as_object()["head"] = schema_of<std::int64_t>();
    return schema;
}

}  // namespace

std::vector<ApiRoute> event_routes() {
    return {{.method = net::Method::get,
             .path = "/v1/events",
             .needs = Access::read,
             .summary = "Read the feed, or follow it (Accept: text/event-stream)",
             .handler = get_events,
             .query = {"after", "limit", "type"},
             .answer = events_schema}};
}

}  // namespace interlock::api
