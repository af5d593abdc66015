// Spend: what was spent, added up by day, agent, provider and model.
#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "api/route.h"
#include "base/calendar.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

struct SpendView {
    std::optional<std::string> agent;
    std::optional<std::string> provider;
    std::optional<std::string> model;
    std::optional<std::string> day;
    Money cost;
    std::int64_t events = 0;
    std::int64_t calls = 0;
    Usage usage;
};
BOOST_DESCRIBE_STRUCT(SpendView, (), (agent, provider, model, day, cost, events, calls, usage))

constexpr std::array dimensions{"agent", "provider", "model", "day"};

Result<std::vector<std::string>, Problem> read_dimensions(const Call& call) {
    std::vector<std::string> by;
    for (const std::string& name : comma_separated(call.parameter("by"))) {
        if (std::ranges::find(dimensions, name) == dimensions.end()) {
            return fail(invalid(fmt::format("by has '{}'; possible groups: {}", name, fmt::join(dimensions, ", "))));
        }
        if (std::ranges::find(by, name) == by.end()) by.push_back(name);
    }
    return by;
}

// "2026-11-15" as days since 1970.
Result<std::int64_t, Problem> read_day(const Call& call, std::string_view name, std::int64_t otherwise) {
    const std::string_view text = call.parameter(name);
    if (text.empty()) return otherwise;
    const auto at = from_iso8601(std::string(text) + "T00:00:00Z");
    if (!at) return fail(invalid(fmt::format("{} is '{}'; it must be a date such as 2026-11-15", name, text)));
    return utc_day(*at);
}

struct Spent {
    std::vector<SpendView> items;
    std::int64_t total = 0;
};

Result<Spent, store::ReadError> read_spend(store::Snapshot& snapshot, core::OrgId org,
                                           const std::vector<std::string>& by, std::int64_t from, std::int64_t to,
                                           const std::string& agent) {
    const std::string group = fmt::format("{}", fmt::join(by, ", "));
    const std::string sql = fmt::format(
        "select {}sum(cost), sum(events), sum(calls), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), "
        "sum(cache_write_5m_tokens), sum(cache_write_1h_tokens), sum(reasoning_tokens) from rollups "
        "where org = $1 and day >= $2 and day < $3 {} {}",
        by.empty() ? "" : group + ", ", agent.empty() ? "" : "and agent = $4",
        by.empty() ? "having count(*) > 0" : "group by " + group + " order by " + group);
    Spent spent;
    const auto read =
        snapshot.query(sql, {std::int64_t{org.value}, from, to, agent}, [&](const std::vector<store::Value>& row) {
            SpendView view;
            std::size_t i = 0;
            const auto text = [&] { return std::get<std::string>(row[i++]); };
            const auto number = [&] { return std::get<std::int64_t>(row[i++]); };
            for (const std::string& name : by) {
                if (name == "agent") view.agent = text();
                if (name == "provider") view.provider = text();
                if (name == "model") view.model = text();
                if (name == "day") view.day = day_text(number());
            }
            view.cost = Money::nanos(number());
            view.events = number();
            view.calls = number();
            boost::mp11::mp_for_each<wire_detail::DescribedMembers<Usage>>(
                [&](auto member) { view.usage.*member.pointer = number(); });
            spent.total += view.cost.nanos();  // The rules keep all that is spent in an org within 62 bits.
            spent.items.push_back(std::move(view));
        });
    if (!read) return fail(read.error());
    return spent;
}

struct MinuteView {
    Instant at;
    Money cost;
};
BOOST_DESCRIBE_STRUCT(MinuteView, (), (at, cost))

struct MinutesView {
    std::vector<MinuteView> items;
    Money total;
    Instant from;
    Instant to;
};
BOOST_DESCRIBE_STRUCT(MinutesView, (), (items, total, from, to))

// From the marks: what a minute came to is what was settled before the next one, less what was settled before it.
Result<MinutesView, store::ReadError> read_minutes(store::Snapshot& snapshot, core::OrgId org, Instant from,
                                                   Instant to) {
    const auto settled =
        store::read_number(snapshot, org, "select coalesce(sum(settled), 0) from agent_totals where org = $1");
    if (!settled) return fail(settled.error());
    const auto marks = store::read_rows<core::SpendMark>(
        snapshot, org, "and budget = '' and start_at = 0 and at >= $2 order by at", {micros(from)});
    if (!marks) return fail(marks.error());
    MinutesView view{.items = {}, .total = {}, .from = from, .to = to};
    for (std::size_t i = 0; i < marks->size(); ++i) {
        const std::int64_t after = i + 1 < marks->size() ? (*marks)[i + 1].settled : *settled;
        view.items.push_back({(*marks)[i].at, Money::nanos(after - (*marks)[i].settled)});
    }
    if (!marks->empty()) view.total = Money::nanos(*settled - marks->front().settled);
    return view;
}

ResponseTask get_minutes(Call& call) {
    const auto minutes = read_count(call, "minutes", 60, 1, 1440);
    if (!minutes) co_return respond(call, minutes.error());
    const core::OrgId org = call.caller.org;
    const Instant now = call.parts.commands.now();
    // The minute that is going on is one of them.
    const Instant from = std::chrono::floor<std::chrono::minutes>(now) - std::chrono::minutes(*minutes - 1);
    const auto view =
        co_await read(call, [=](store::Snapshot& snapshot) { return read_minutes(snapshot, org, from, now); });
    if (!view) co_return respond(call, view.error());
    co_return respond(200, *view, false);
}

ResponseTask get_spend(Call& call) {
    const auto by = read_dimensions(call);
    if (!by) co_return respond(call, by.error());
    const auto from = read_day(call, "from", 0);
    if (!from) co_return respond(call, from.error());
    const auto to = read_day(call, "to", utc_day(call.parts.commands.now()) + 1);
    if (!to) co_return respond(call, to.error());
    const std::string agent(call.caller.agent.empty() ? call.parameter("agent") : std::string_view(call.caller.agent));
    const core::OrgId org = call.caller.org;
    const auto spent = co_await read(call, [org, by = *by, from = *from, to = *to, agent](store::Snapshot& snapshot) {
        return read_spend(snapshot, org, by, from, to, agent);
    });
    if (!spent) co_return respond(call, spent.error());

    // Only the dimensions that were asked for are there.
    std::string out = "{\"items\":[";
    for (const SpendView& view : spent->items) {
        if (out.back() != '[') out += ',';
        out += '{';
        const auto put = [&](std::string_view name, const std::optional<std::string>& value) {
            if (value) out += fmt::format("\"{}\":{},", name, to_json(*value));
        };
        put("agent", view.agent);
        put("provider", view.provider);
        put("model", view.model);
        put("day", view.day);
        out += fmt::format(R"("cost":{},"events":{},"calls":{},"usage":{}}})", to_json(view.cost), view.events,
                           view.calls, to_json(view.usage));
    }
    out += fmt::format(R"(],"total":{},"from":{},"to":{}}})", to_json(Money::nanos(spent->total)),
                       to_json(day_text(*from)), to_json(day_text(*to)));
    co_return respond(200, std::move(out));
}

json::value spend_schema() {
    return {{"type", "object"},
            {"properties",
             {{"items", {{"type", "array"}, {"items", schema_of<SpendView>()}}},
              {"total", schema_of<Money>()},
              {"from", {{"type", "string"}, {"format", "date"}}},
              {"to", {{"type", "string"}, {"format", "date"}}}}}};
}

}  // namespace

std::vector<ApiRoute> spend_routes() {
    return {{.method = net::Method::get,
             .path = "/v1/spend",
             .needs = Access::read,
             .summary = "Sum costs by agent, provider, model and UTC day",
             .handler = get_spend,
             .narrowest = Bound::agent,
             .query = {"by", "from", "to", "agent"},
             .answer = spend_schema},
            {.method = net::Method::get,
             .path = "/v1/spend/minutes",
             .needs = Access::read,
             .summary = "List costs per minute, oldest first, without empty minutes",
             .handler = get_minutes,
             .query = {"minutes"},
             .answer = schema_of<MinutesView>}};
}

}  // namespace interlock::api
