// Prices: what models cost, as the catalog has it and as people have set it.
#include <chrono>

#include <fmt/format.h>

#include "api/settings.h"
#include "core/settings.h"

namespace interlock::api {
namespace {

constexpr std::chrono::days unpriced_since{30};

struct UnpricedView {
    std::string provider;
    std::string model;
    std::int64_t calls = 0;
    std::int64_t refused = 0;  // Of them, because there is no price.
    std::int64_t tokens = 0;
    Instant last_at;
};
BOOST_DESCRIBE_STRUCT(UnpricedView, (), (provider, model, calls, refused, tokens, last_at))

json::value price_schema() {
    json::object properties;
    for (const char* name :
         {"provider", "model", "version", "input_per_mtok", "output_per_mtok", "cache_read_per_mtok",
          "cache_write_5m_per_mtok", "cache_write_1h_per_mtok", "reasoning_per_mtok", "audio_input_per_mtok",
          "audio_output_per_mtok", "image_output_per_mtok", "per_call", "per_paid_tool", "per_image"}) {
        properties[name] = {{"type", "string"}};
    }
    properties["tiers"] = {{"type", "array"}, {"items", {{"type", "object"}}}};
    properties["variants"] = {{"type", "object"}};
    properties["input_max"] = {{"type", "integer"}};
    properties["output_max"] = {{"type", "integer"}};
    properties["image_max"] = {{"type", "integer"}};
    return {{"type", "object"}, {"properties", std::move(properties)}};
}

json::value price_list_schema() {
    return {{"type", "object"},
            {"properties",
             {{"items", {{"type", "array"}, {"items", price_schema()}}}, {"next", {{"type", {"string", "null"}}}}}}};
}

json::value catalog_schema() { return {{"type", "object"}}; }

// Work that blocks and answers with a sentence when it cannot be done.
template <class Work>
auto blocking(Call& call, Work work) -> net::Task<std::invoke_result_t<Work&>> {
    co_return co_await net::run_on(call.parts.workers, std::move(work));
}

ResponseTask list_prices(Call& call) {
    const auto limit = read_limit(call);
    if (!limit) co_return respond(call, limit.error());
    const core::OrgId org = call.caller.org;
    const std::string filter(call.parameter("filter"));
    auto prices =
        co_await blocking(call, [&models = call.parts.models, org, filter] { return models.prices(org, filter); });
    if (!prices) co_return respond(call, unavailable(prices.error()));
    const std::string after(call.parameter("after"));
    std::erase_if(*prices, [&](const PriceText& price) { return price.name <= after; });
    const auto page = page_of(std::move(*prices), *limit, [](const PriceText& price) { return price.name; });
    std::string out = "{\"items\":[";
    for (const PriceText& price : page.items) out += (out.back() == '[' ? "" : ",") + price.document;
    co_return respond(200, out + "],\"next\":" + to_json(page.next) + "}");
}

Result<std::string, Problem> name_in_query(const Call& call) {
    for (const std::string_view name : {"provider", "model"}) {
        if (call.parameter(name).empty()) return fail(invalid(fmt::format("{} is missing", name)));
    }
    return fmt::format("{}/{}", call.parameter("provider"), call.parameter("model"));
}

ResponseTask show_price(Call& call, std::string provider, std::string model, bool repeated) {
    const core::OrgId org = call.caller.org;
    const auto price = co_await blocking(
        call, [&models = call.parts.models, org, provider, model] { return models.price(org, provider, model); });
    if (!price) co_return respond(call, unavailable(price.error()));
    if (!*price) co_return respond(call, not_found("price", provider + "/" + model));
    co_return respond_object((*price)->document, repeated);
}

ResponseTask get_price(Call& call) {
    const auto name = name_in_query(call);
    if (!name) co_return respond(call, name.error());
    co_return co_await show_price(call, std::string(call.parameter("provider")), std::string(call.parameter("model")),
                                  false);
}

ResponseTask put_price(Call& call) {
    const auto parsed = parse_body(call);
    if (!parsed) co_return respond(call, parsed.error());
    if (auto problem = too_large_for_setting(call)) co_return respond(call, *problem);
    const auto text = [&](const char* name) -> std::string {
        const json::value* found = parsed->is_object() ? parsed->get_object().if_contains(name) : nullptr;
        return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string();
    };
    const std::string provider = text("provider");
    const std::string model = text("model");
    if (provider.empty() || provider.find('/') != std::string::npos) {
        co_return respond(call, invalid("provider must be a name without a '/'", "/provider"));
    }
    if (model.empty()) co_return respond(call, invalid("model must be a name, or a pattern with '*'", "/model"));
    const auto done = co_await put_setting(call, core::price_setting, provider + "/" + model, json::serialize(*parsed));
    if (!done) co_return respond(call, done.error());
    co_return co_await show_price(call, provider, model, done->repeated);
}

ResponseTask drop_price(Call& call) {
    const auto name = name_in_query(call);
    if (!name) co_return respond(call, name.error());
    const auto done = co_await change_setting(call, core::DropSetting{std::string(core::price_setting), *name}, {});
    co_return done ? no_content(done->repeated) : respond(call, done.error());
}

ResponseTask put_catalog(Call& call) {
    const std::string& text = call.request.body;
    const auto facts =
        co_await blocking(call, [&models = call.parts.models, &text] { return models.update_catalog(text); });
    if (!facts) co_return respond(call, invalid(facts.error()));
    call.parts.log.info("price_list_updated", {{"by", call.caller.key_id}});
    co_return respond(200, *facts);
}

// By an index that has only such calls.
ResponseTask list_unpriced(Call& call) {
    const std::int64_t from = micros(call.parts.commands.now() - unpriced_since);
    const core::OrgId org = call.caller.org;
    auto views =
        co_await read(call, [=](store::Snapshot& snapshot) -> Result<std::vector<UnpricedView>, store::ReadError> {
            std::vector<UnpricedView> views;
            const auto done = snapshot.query(
                "select provider, model, count(*), sum(case when refusal = 'unknown_model' then 1 else 0 end), "
                "sum(input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens "
                "+ reasoning_tokens), max(at) from model_calls where org = $1 and at >= $2 and "
                "(unpriced = 1 or refusal = 'unknown_model') group by provider, model "
                "order by count(*) desc, provider, model limit 1000",
                {std::int64_t{org.value}, from}, [&](const std::vector<store::Value>& row) {
                    const auto number = [&](std::size_t i) {
                        const auto* found = std::get_if<std::int64_t>(&row[i]);
                        return found == nullptr ? 0 : *found;
                    };
                    views.push_back({std::get<std::string>(row[0]), std::get<std::string>(row[1]), number(2), number(3),
                                     number(4), from_micros(number(5))});
                });
            if (!done) return fail(done.error());
            return views;
        });
    if (!views) co_return respond(call, views.error());
    // One that got a price since is no longer without.
    co_await net::run_on(call.parts.workers, [&models = call.parts.models, &views, org] {
        std::erase_if(*views, [&](const UnpricedView& view) {
            const auto found = models.price(org, view.provider, view.model);
            return found && found->has_value();
        });
        return true;
    });
    co_return respond(Page<UnpricedView>{std::move(*views), {}});
}

}  // namespace

std::vector<ApiRoute> price_routes() {
    using enum Access;
    using net::Method;
    return {
        {.method = Method::get,
         .path = "/v1/prices",
         .needs = read,
         .summary = "List the current prices of models",
         .handler = list_prices,
         .query = {"filter", "after", "limit"},
         .answer = price_list_schema},
        {.method = Method::get,
         .path = "/v1/prices/show",
         .needs = read,
         .summary = "Show the current price of a model",
         .handler = get_price,
         .query = {"provider", "model"},
         .answer = price_schema},
        {.method = Method::get,
         .path = "/v1/prices/unpriced",
         .needs = read,
         .summary = "List the models of the last 30 days without a price",
         .handler = list_unpriced,
         .answer = page_schema<UnpricedView>},
        {.method = Method::put,
         .path = "/v1/prices",
         .needs = operate,
         .summary = "Set a price that overrides the price list",
         .handler = put_price,
         .body = price_schema,
         .example = R"({"provider": "openai", "model": "ft:gpt-*", "input_per_mtok": "3", "output_per_mtok": "12"})",
         .answer = price_schema},
        {.method = Method::delete_,
         .path = "/v1/prices",
         .needs = operate,
         .summary = "Remove a price that was set, so that the price list applies",
         .handler = drop_price,
         .query = {"provider", "model"},
         .status = 204},
        {.method = Method::put,
         .path = "/v1/prices/catalog",
         .needs = operate,
         .summary = "Replace the price list with a text",
         .handler = put_catalog,
         .reach = Reach::server,
         .answer = catalog_schema},
    };
}

}  // namespace interlock::api
