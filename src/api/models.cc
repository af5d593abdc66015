// Models as they are used: what the last 30 days cost with each, and which price is gone by.
#include <chrono>
#include <map>

#include "api/route.h"
#include "base/calendar.h"
#include "core/settings.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

constexpr std::int64_t days_shown = 30;
constexpr std::int64_t models_max = 1000;

enum class PriceOrigin { catalog, set, none };
BOOST_DESCRIBE_ENUM(PriceOrigin, catalog, set, none)

struct ModelView {
    std::string provider;
    std::string model;
    std::int64_t calls = 0;
    Money cost;
    std::int64_t tokens = 0;
    std::string last_day;
    bool priced = false;
    std::optional<JsonText> price;
    PriceOrigin price_source = PriceOrigin::none;
    std::optional<std::string> price_version;
    std::optional<std::string> price_from;  // The day of the list, or the instant at which somebody set it.
};
BOOST_DESCRIBE_STRUCT(ModelView, (),
                      (provider, model, calls, cost, tokens, last_day, priced, price, price_source, price_version,
                       price_from))

struct Used {
    std::vector<ModelView> models;
    std::map<std::string, Instant> set_at;  // By the name of the price.
};

Result<Used, store::ReadError> read_used(store::Snapshot& snapshot, core::OrgId org, std::int64_t from_day) {
    Used used;
    const auto read = snapshot.query(
        "select provider, model, sum(calls), sum(cost), sum(input_tokens + output_tokens + cache_read_tokens + "
        "cache_write_5m_tokens + cache_write_1h_tokens + reasoning_tokens), max(day) from rollups where org = $1 and "
        "day >= $2 and model <> '' group by provider, model order by sum(cost) desc, provider, model limit $3",
        {std::int64_t{org.value}, from_day, models_max}, [&](const std::vector<store::Value>& row) {
            const auto number = [&](std::size_t i) { return std::get<std::int64_t>(row[i]); };
            used.models.push_back({.provider = std::get<std::string>(row[0]),
                                   .model = std::get<std::string>(row[1]),
                                   .calls = number(2),
                                   .cost = Money::nanos(number(3)),
                                   .tokens = number(4),
                                   .last_day = day_text(number(5)),
                                   .price = {},
                                   .price_version = {},
                                   .price_from = {}});
        });
    if (!read) return fail(read.error());
    const auto settings = store::read_rows<core::Setting>(snapshot, org, "and kind = $2 and dropped = 0",
                                                          {std::string(core::price_setting)});
    if (!settings) return fail(settings.error());
    for (const core::Setting& setting : *settings) used.set_at[setting.name] = setting.changed_at;
    return used;
}

void put_price(ModelView& view, const UsedPrice& price, const std::map<std::string, Instant>& set_at) {
    view.priced = true;
    view.price = JsonText{price.document};
    view.price_version = price.version;
    if (!price.list_date.empty()) {
        view.price_source = PriceOrigin::catalog;
        view.price_from = price.list_date;
        return;
    }
    view.price_source = PriceOrigin::set;
    if (const auto found = set_at.find(price.name); found != set_at.end()) view.price_from = to_iso8601(found->second);
}

ResponseTask list_models(Call& call) {
    const core::OrgId org = call.caller.org;
    const std::int64_t from_day = utc_day(call.parts.commands.now()) - days_shown + 1;
    auto used = co_await read(call, [=](store::Snapshot& snapshot) { return read_used(snapshot, org, from_day); });
    if (!used) co_return respond(call, used.error());
    std::vector<ModelName> names;
    for (const ModelView& view : used->models) names.push_back({view.provider, view.model});
    const auto prices = call.parts.models.used_prices(org, names);
    for (std::size_t i = 0; i < prices.size(); ++i) {
        if (prices[i]) put_price(used->models[i], *prices[i], used->set_at);
    }
    co_return respond(200, "{\"items\":" + to_json(used->models) + "}");
}

json::value models_schema() {
    return {{"type", "object"}, {"properties", {{"items", {{"type", "array"}, {"items", schema_of<ModelView>()}}}}}};
}

}  // namespace

std::vector<ApiRoute> model_routes() {
    return {{.method = net::Method::get,
             .path = "/v1/gateway/models",
             .needs = Access::read,
             .summary = "List the models of the last 30 days with their costs and prices, most expensive first",
             .handler = list_models,
             .answer = models_schema}};
}

}  // namespace interlock::api
