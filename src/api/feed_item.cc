#include "api/feed_item.h"

#include <optional>
#include <typeinfo>

#include <boost/core/demangle.hpp>

#include "api/problem.h"
#include "api/wire.h"
#include "core/feed.h"
#include "net/sse.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

// "interlock::core::HoldReleased" → "hold_released"
std::string snake_case(std::string name) {
    name.erase(0, name.rfind(':') + 1);
    std::string snake;
    for (const char c : name) {
        if (c >= 'A' && c <= 'Z') {
            if (!snake.empty()) snake += '_';
            snake += static_cast<char>(c - 'A' + 'a');
        } else {
            snake += c;
        }
    }
    return snake;
}

// Amounts are written as everywhere else: dollars, or a count in the budget's own metric.
template <class Event>
std::optional<core::Metric> metric_of(const Event& event, std::string_view member) {
    if constexpr (requires { event.metric; }) {
        if (member == "settled" || member == "limit_units") return event.metric;
    } else if constexpr (std::is_same_v<Event, core::Charged>) {
        if (member == "cost" || member == "overage") return core::Metric::usd;
    } else if constexpr (std::is_same_v<Event, core::ChargeCorrected>) {
        if (member == "cost") return core::Metric::usd;
    } else if constexpr (std::is_same_v<Event, core::RunEnded>) {
        if (member == "settled" || member == "unknown") return core::Metric::usd;
    }
    return std::nullopt;
}

template <class Event>
void put_data(std::string& out, const Event& event) {
    char before = '{';
    boost::mp11::mp_for_each<wire_detail::DescribedMembers<Event>>([&](auto member) {
        using Member = std::remove_cvref_t<decltype(event.*member.pointer)>;
        const std::string_view name(member.name);
        out += before;
        put_text(out, name == "limit_units" ? "limit" : name);
        out += ':';
        before = ',';
        if constexpr (std::is_same_v<Member, std::int64_t>) {
            if (const auto metric = metric_of(event, member.name)) {
                return put_text(out, amount_text(*metric, event.*member.pointer));
            }
        }
        if constexpr (std::is_same_v<Member, core::Amounts>) {
            const core::Amounts& amounts = event.*member.pointer;
            out += "{\"usd\":" + to_json(Money::nanos(amounts.usd)) + ",\"tokens\":" + to_json(amounts.tokens) +
                   ",\"calls\":" + to_json(amounts.calls) + "}";
        } else if constexpr (std::is_same_v<Member, core::CommandKey>) {
            put_text(out, to_text("key", (event.*member.pointer).value));
        } else {
            put_json(out, event.*member.pointer);
        }
    });
    out += before == '{' ? "{}" : "}";
}

}  // namespace

const std::vector<std::string>& event_types() {
    static const std::vector<std::string> types = [] {
        std::vector<std::string> all;
        boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, core::Event::Kinds>>(
            [&](auto kind) {
                all.push_back(snake_case(boost::core::demangle(typeid(typename decltype(kind)::type).name())));
            });
        return all;
    }();
    return types;
}

FeedItem feed_item(core::Seq seq, Instant at, const core::Event& event) {
    FeedItem item{.seq = seq, .type = event_types()[event.index()], .json = {}, .sse = {}, .session = {}};
    item.json =
        "{\"seq\":" + to_json(seq) + ",\"at\":" + to_json(at) + ",\"type\":" + to_json(item.type) + ",\"data\":";
    std::visit([&](const auto& kind) { put_data(item.json, kind); }, event);
    item.json += '}';
    item.sse = net::to_text(net::SseEvent{.id = to_json(seq), .event = item.type, .data = item.json});
    if (const auto* appended = std::get_if<core::Appended>(&event)) item.session = appended->session;
    return item;
}

Result<std::vector<FeedItem>, store::ReadError> read_feed(store::Snapshot& snapshot, core::OrgId org, core::Seq after,
                                                          std::size_t limit) {
    constexpr std::int64_t pages_at_a_time = 16;
    std::vector<FeedItem> items;
    core::Seq from = after;
    while (items.size() < limit) {
        const auto pages = store::read_rows<core::FeedPage>(
            snapshot, org, "and last_seq > $2 order by last_seq limit $3", {from.value, pages_at_a_time});
        if (!pages) return fail(pages.error());
        for (const core::FeedPage& page : *pages) {
            const auto events = core::events_of(page);
            if (!events) return fail(store::ReadError{"a page of the feed makes no sense"});
            core::Seq seq = page.first_seq;
            for (const core::Event& event : *events) {
                if (seq > after) items.push_back(feed_item(seq, page.at, event));
                seq = core::Seq(seq.value + 1);
            }
            from = page.last_seq;
        }
        if (pages->size() < static_cast<std::size_t>(pages_at_a_time)) break;
    }
    return items;
}

Result<core::Seq, store::ReadError> feed_head(store::Snapshot& snapshot, core::OrgId org) {
    const auto head = store::read_number(
        snapshot, org, "select last_seq from feed_pages where org = $1 order by last_seq desc limit 1");
    if (!head) return fail(head.error());
    return core::Seq(*head);
}

}  // namespace interlock::api
