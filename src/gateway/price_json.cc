#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "gateway/price_kinds.h"
#include "gateway/prices.h"

namespace interlock::gateway {
namespace {

namespace json = boost::json;

constexpr std::size_t tiers_max = 16;
constexpr std::size_t variants_max = 16;
constexpr std::size_t text_bytes_max = 256;

// Reads one object; every function says false once something is wrong, and `problem` why.
struct PriceReader {
    BadPrice problem = {};

    bool refuse(std::string_view where, std::string_view why) {
        problem = {.member = std::string(where), .detail = std::string(why)};
        return false;
    }

    bool read(const json::object& object, ModelPrice& price) {
        for (const auto& member : object) {
            const std::string_view name = member.key();
            const json::value& value = member.value();
            bool good = true;
            if (name == "provider") {
                good = read_text(name, value, price.provider);
            } else if (name == "model") {
                good = read_text(name, value, price.model);
            } else if (name == "version") {
                good = read_text(name, value, price.version);
            } else if (name == "input_max") {
                good = read_count(name, value, price.input_max);
            } else if (name == "output_max") {
                good = read_count(name, value, price.output_max);
            } else if (name == "image_max") {
                good = read_count(name, value, price.image_max);
            } else if (name != "variants" && name != "tiers" && !is_kind(name)) {
                good = refuse(name, "is not a member of a price");
            }
            if (!good) return false;
        }
        if (!read_tiers("", object, nullptr, price.tiers)) return false;
        const json::value* variants = object.if_contains("variants");
        return variants == nullptr || read_variants(*variants, price);
    }

    bool read_variants(const json::value& value, ModelPrice& price) {
        if (!value.is_object()) return refuse("variants", "must be an object: {\"batch\": {…}}");
        if (value.get_object().size() > variants_max) return refuse("variants", "are too many");
        for (const auto& variant : value.get_object()) {
            const std::string where = fmt::format("variants.{}", std::string_view(variant.key()));
            if (!is_variant_name(variant.key())) {
                return refuse(where, "is not a name of up to 16 small letters, digits, '-' and '_'");
            }
            if (!variant.value().is_object()) return refuse(where, "must be an object with prices");
            const json::object& object = variant.value().get_object();
            for (const auto& member : object) {
                if (member.key() != "tiers" && !is_kind(member.key()))
                    return refuse(fmt::format("{}.{}", where, std::string_view(member.key())), "is not a price");
            }
            auto& tiers = price.variants[std::string(variant.key())];
            if (!read_tiers(where + ".", object, &price.tiers.front().rates, tiers)) return false;
        }
        return true;
    }

    // The rates of the object itself, and of what it has in "tiers".
    bool read_tiers(const std::string& where, const json::object& object, const Rates* base, std::vector<Tier>& tiers) {
        tiers.assign(1, {});
        if (!read_rates(where, object, base, tiers.front().rates)) return false;
        const json::value* more = object.if_contains("tiers");
        if (more == nullptr) return true;
        if (!more->is_array()) return refuse(where + "tiers", "must be an array");
        if (more->get_array().size() >= tiers_max) return refuse(where + "tiers", "are too many");
        for (const json::value& each : more->get_array()) {
            const std::string here = fmt::format("{}tiers[{}]", where, tiers.size() - 1);
            if (!each.is_object()) return refuse(here, "must be an object with prices");
            Tier tier;
            for (const auto& member : each.get_object()) {
                if (member.key() != "from_prompt_tokens" && !is_kind(member.key()))
                    return refuse(fmt::format("{}.{}", here, std::string_view(member.key())), "is not a price");
            }
            const json::value* from = each.get_object().if_contains("from_prompt_tokens");
            if (from == nullptr) return refuse(here + ".from_prompt_tokens", "is missing");
            if (!read_count(here + ".from_prompt_tokens", *from, tier.from_prompt_tokens)) return false;
            if (tier.from_prompt_tokens <= tiers.back().from_prompt_tokens)
                return refuse(here + ".from_prompt_tokens", "must be more than that of the tier before");
            if (!read_rates(here + ".", each.get_object(), &tiers.front().rates, tier.rates)) return false;
            tiers.push_back(std::move(tier));
        }
        return true;
    }

    // Without `base` these are the base. A kind that the base has a price for and these have not would fall to that of
    // plain input, which may be less than it costs.
    bool read_rates(const std::string& where, const json::object& object, const Rates* base, Rates& rates) {
        if (base != nullptr)
            rates = {.per_call = base->per_call, .per_paid_tool = base->per_paid_tool, .per_image = base->per_image};
        for (const PriceKind& kind : price_kinds) {
            const std::string here = where + std::string(kind.name);
            const json::value* value = object.if_contains(kind.name);
            if (value == nullptr) {
                const bool fee = kind.decimals == decimals_each;
                const bool needed = kind.always != nullptr ? !fee : base != nullptr && (base->*kind.sometimes);
                if (needed) return refuse(here, "is missing");
                continue;
            }
            if (!value->is_string()) return refuse(here, "must be a string, so that no digit is lost: \"3.75\"");
            const auto picos = picos_from_text(std::string_view(value->get_string()), kind.decimals);
            if (!picos) {
                return refuse(here,
                              fmt::format("is not an amount of dollars such as \"3.75\", with at most {} decimals",
                                          kind.decimals));
            }
            kind.always != nullptr ? void(rates.*kind.always = *picos) : void(rates.*kind.sometimes = *picos);
        }
        return true;
    }

    bool read_text(std::string_view where, const json::value& value, std::string& into) {
        if (!value.is_string() || value.get_string().size() > text_bytes_max)
            return refuse(where, fmt::format("must be a string of at most {} bytes", text_bytes_max));
        into = std::string_view(value.get_string());
        return true;
    }

    bool read_count(std::string_view where, const json::value& value, std::int64_t& into) {
        const auto* count = value.if_int64();
        if (count == nullptr || *count < 0 || *count > counted_tokens_max)
            return refuse(where, "must be a whole number of tokens");
        into = *count;
        return true;
    }

    static bool is_kind(std::string_view name) {
        return std::ranges::find(price_kinds, name, &PriceKind::name) != price_kinds.end();
    }
};

// What read_rates() makes the same rates of, beside the same base.
json::object rates_json(const Rates& rates, const Rates& base) {
    json::object object;
    for (const PriceKind& kind : price_kinds) {
        const auto picos = kind.always != nullptr ? std::optional(rates.*kind.always) : rates.*kind.sometimes;
        const bool fee = kind.decimals == decimals_each;
        if (!picos || (fee && *picos == 0 && base.*kind.always == 0)) continue;
        object[kind.name] = text_of_picos(*picos, kind.decimals);
    }
    return object;
}

json::object tiers_json(const std::vector<Tier>& tiers, const Rates& base) {
    if (tiers.empty()) return {};
    json::object object = rates_json(tiers.front().rates, base);
    if (tiers.size() == 1) return object;
    json::array more;
    for (std::size_t i = 1; i < tiers.size(); ++i) {
        json::object tier = {{"from_prompt_tokens", tiers[i].from_prompt_tokens}};
        for (auto& member : rates_json(tiers[i].rates, tiers.front().rates)) tier[member.key()] = member.value();
        more.push_back(std::move(tier));
    }
    object["tiers"] = std::move(more);
    return object;
}

}  // namespace

std::string to_sentence(const BadPrice& bad) {
    return fmt::format("{} {}", bad.member.empty() ? "a price" : bad.member, bad.detail);
}

Result<ModelPrice, BadPrice> price_from_json(std::string_view text) {
    boost::system::error_code error;
    const json::value value = json::parse(text, error);
    if (error || !value.is_object()) return fail(BadPrice{.detail = "must be a JSON object"});
    ModelPrice price;
    PriceReader reader;
    if (!reader.read(value.get_object(), price)) return fail(reader.problem);
    return price;
}

std::string to_json(const ModelPrice& price) {
    json::object object = {{"provider", price.provider}, {"model", price.model}, {"version", price.version}};
    const Rates base = price.tiers.empty() ? Rates() : price.tiers.front().rates;
    for (auto& member : tiers_json(price.tiers, base)) object[member.key()] = member.value();
    if (!price.variants.empty()) {
        json::object variants;
        for (const auto& [name, tiers] : price.variants) variants[name] = tiers_json(tiers, base);
        object["variants"] = std::move(variants);
    }
    object["input_max"] = price.input_max;
    object["output_max"] = price.output_max;
    object["image_max"] = price.image_max;
    return json::serialize(object);
}

}  // namespace interlock::gateway
