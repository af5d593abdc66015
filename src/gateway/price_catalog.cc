#include "gateway/price_catalog.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/embedded.h"
#include "base/ensure.h"
#include "gateway/price_kinds.h"

namespace interlock::embedded {
EmbeddedFiles price_catalog();  // prices/catalog.txt.
}  // namespace interlock::embedded

namespace interlock::gateway {
namespace {

using Words = std::vector<std::string_view>;

Words split(std::string_view text, char at) {
    Words words;
    while (true) {
        const std::size_t end = text.find(at);
        words.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return words;
        text.remove_prefix(end + 1);
    }
}

template <class Number>
std::optional<Number> number(std::string_view text) {
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
}

std::optional<Instant> day_from_text(std::string_view text) {
    if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
    const auto year = number<int>(text.substr(0, 4));
    const auto month = number<unsigned>(text.substr(5, 2));
    const auto day = number<unsigned>(text.substr(8, 2));
    if (!year || !month || !day) return std::nullopt;
    const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                           std::chrono::day(*day)};
    if (!date.ok()) return std::nullopt;
    return std::chrono::sys_days(date);
}

std::optional<std::chrono::minutes> time_from_text(std::string_view text) {
    if (text.size() != 5 || text[2] != ':') return std::nullopt;
    const auto hour = number<int>(text.substr(0, 2));
    const auto minute = number<int>(text.substr(3, 2));
    if (!hour || !minute || *hour > 23 || *minute > 59) return std::nullopt;
    return std::chrono::hours(*hour) + std::chrono::minutes(*minute);
}

// A '#' of the pattern stands for a digit.
bool is_like(std::string_view name, std::string_view pattern) {
    return std::ranges::equal(name, pattern, [](char have, char want) {
        return have == want || (want == '#' && have >= '0' && have <= '9');
    });
}

bool term_fits(const NameRule::Term& term, std::string_view name) {
    switch (term.kind) {
        case '=':
            return name == term.text;
        case '<':
            return name.starts_with(term.text);
        case '>':
            return name.ends_with(term.text);
        case '*':
            return name.find(term.text) != std::string_view::npos;
        case '#':
            return is_like(name, term.text);
        case '%':
            return is_like(name.substr(0, term.text.size()), term.text);
        default:
            ensure(false, "rules are made of terms that the reader knows");
            return false;
    }
}

std::optional<NameRule> rule_from_text(std::string_view text) {
    NameRule rule;
    for (const std::string_view alternative : split(text, ' ')) {
        auto& terms = rule.alternatives.emplace_back();
        for (std::string_view word : split(alternative, '&')) {
            NameRule::Term term;
            if ((term.negated = word.starts_with('!'))) word.remove_prefix(1);
            if (word.size() < 2 || std::string_view("=<>*#%").find(word[0]) == std::string_view::npos)
                return std::nullopt;
            term.kind = word[0];
            term.text = lower_case(word.substr(1));
            terms.push_back(std::move(term));
        }
    }
    return rule;
}

bool is_whole_name(const std::vector<NameRule::Term>& terms) {
    return terms.size() == 1 && terms[0].kind == '=' && !terms[0].negated;
}

// "-20250929" as "-2025-09-29": providers write the dates of their models in both ways.
std::string with_dashes_in_date(std::string_view name) {
    constexpr std::string_view pattern = "-20######";
    std::string dashed(name);
    for (std::size_t at = 0; at + pattern.size() <= dashed.size(); ++at) {
        const std::size_t behind = at + pattern.size();
        const bool ends = behind == dashed.size() || dashed[behind] == '-' || dashed[behind] == ':';
        if (!ends || !is_like(std::string_view(dashed).substr(at, pattern.size()), pattern)) continue;
        dashed.insert(at + 7, 1, '-').insert(at + 5, 1, '-');
        at += pattern.size() + 1;
    }
    return dashed;
}

}  // namespace

// ---- reading --------------------------------------------------------------------------------------------------------

struct PriceCatalog::Reader {
    PriceCatalog catalog = {};
    std::string problem = {};

    bool refuse(std::string why) {
        problem = std::move(why);
        return false;
    }

    bool take_line(std::string_view line) {
        const Words fields = split(line, '\t');
        if (fields[0] == "catalog") return take_version(fields);
        if (catalog.version_.empty()) return refuse("a line that begins with 'catalog' and its version comes first");
        if (fields[0] == "provider") return take_provider(fields);
        return take_model(fields);
    }

    bool take_version(const Words& fields) {
        if (!catalog.version_.empty()) return refuse("a second version");
        constexpr std::size_t version_bytes_max = 32;
        if (fields.size() != 3 || fields[1].empty() || fields[1].size() > version_bytes_max ||
            !day_from_text(fields[2])) {
            return refuse("'catalog' is followed by a version and a day such as 2026-11-01");
        }
        catalog.version_ = fields[1];
        catalog.date_ = fields[2];
        return true;
    }

    bool take_provider(const Words& fields) {
        if (fields.size() != 4 || fields[1].empty()) return refuse("'provider' has an id, aliases and fallbacks");
        Provider provider;
        for (const std::string_view id : split(fields[3], ' ')) {
            if (!id.empty()) provider.fallbacks.emplace_back(id);
        }
        if (!catalog.providers_.emplace(fields[1], std::move(provider)).second)
            return refuse(fmt::format("the provider {} for the second time", fields[1]));
        for (const std::string_view alias : split(fields[2], ' ')) {
            if (!alias.empty()) catalog.aliases_.emplace(alias, fields[1]);
        }
        return true;
    }

    bool take_model(const Words& fields) {
        if (fields.size() < 5) return refuse("a model has a provider, a name, a rule, limits and prices");
        const auto provider = catalog.providers_.find(fields[0]);
        if (provider == catalog.providers_.end()) return refuse(fmt::format("no provider {} before this", fields[0]));
        if (fields[1].empty()) return refuse("a model without a name");

        const Words limits = split(fields[3], '/');
        const auto input_max = number<std::int64_t>(limits[0]);
        const auto output_max = limits.size() > 1 ? number<std::int64_t>(limits[1]) : std::nullopt;
        const auto image_max = limits.size() > 2 ? number<std::int64_t>(limits[2]) : 0;
        if (limits.size() > 3 || !input_max || !output_max || !image_max)
            return refuse("limits are written 200000/64000, or 200000/64000/1600 with the tokens of an image");

        Row row{.provider = std::string(fields[0]), .model = std::string(fields[1])};
        const bool priced = fields[4] != "none";
        if (!priced && fields.size() > 5) return refuse("'none' stands alone");
        for (std::size_t i = 4; priced && i < fields.size(); ++i) {
            auto& entry = row.prices.emplace_back();
            entry.price = {.provider = row.provider,
                           .model = row.model,
                           .version = catalog.version_ + (i == 4 ? "" : fmt::format("#{}", i - 3)),
                           .input_max = *input_max,
                           .output_max = *output_max,
                           .image_max = *image_max};
            if (!take_price(fields[i], entry)) return false;
        }

        const auto rule = rule_from_text(fields[2] == "." ? "=" + lower_case(row.model) : std::string(fields[2]));
        if (!rule) return refuse(fmt::format("not a rule for names: {}", fields[2]));
        add_rule(provider->second, *rule);
        catalog.rows_.push_back(std::move(row));
        return true;
    }

    void add_rule(Provider& provider, const NameRule& rule) const {
        const std::size_t row = catalog.rows_.size();
        NameRule rest;
        for (const auto& terms : rule.alternatives) {
            if (is_whole_name(terms)) {
                provider.whole_names.try_emplace(terms[0].text, row);
            } else {
                rest.alternatives.push_back(terms);
            }
        }
        if (!rest.alternatives.empty()) provider.rules.emplace_back(std::move(rest), row);
    }

    bool take_price(std::string_view text, Row::Price& entry) {
        std::vector<Tier>* tiers = &entry.price.tiers;
        tiers->emplace_back();
        // Which of the two kinds that each tier must have were seen in the one at hand.
        bool in = false;
        bool out = false;
        for (const std::string_view word : split(text, ' ')) {
            const std::size_t at = word.find('=');
            if (at == std::string_view::npos) return refuse(fmt::format("not a price: {}", word));
            const std::string_view name = word.substr(0, at);
            const std::string_view value = word.substr(at + 1);
            if (name == "from" || name == "daily") {
                if (!take_condition(name, value, entry)) return false;
            } else if (name == "variant") {
                if (!is_variant_name(value) || !in || !out) return refuse(fmt::format("a variant here: {}", value));
                const auto [variant, is_new] = entry.price.variants.try_emplace(std::string(value));
                if (!is_new) return refuse(fmt::format("the variant {} for the second time", value));
                tiers = &variant->second;
                tiers->emplace_back();
                in = out = false;
            } else if (name == "tier") {
                const auto from = number<std::int64_t>(value);
                if (!from || *from <= tiers->back().from_prompt_tokens || !in || !out)
                    return refuse(fmt::format("a tier here: {}", value));
                tiers->push_back({.from_prompt_tokens = *from});
                in = out = false;
            } else {
                if (!take_rate(name, value, tiers->back().rates)) return false;
                in = in || name == "in";
                out = out || name == "out";
            }
        }
        // What images cost is written once.
        const Rates base = entry.price.tiers.front().rates;
        const auto complete = [&](std::vector<Tier>& some) {
            for (Tier& tier : some) {
                if (tier.rates.per_image == 0) tier.rates.per_image = base.per_image;
                if (!tier.rates.image_output) tier.rates.image_output = base.image_output;
            }
        };
        complete(entry.price.tiers);
        for (auto& variant : entry.price.variants) complete(variant.second);
        return (in && out) || refuse("a price has 'in' and 'out'");
    }

    bool take_condition(std::string_view name, std::string_view value, Row::Price& entry) {
        if (name == "from") {
            const auto day = day_from_text(value);
            if (!day) return refuse(fmt::format("not a day: {}", value));
            entry.from = *day;
            return true;
        }
        const Words ends = split(value, '-');
        const auto begin = time_from_text(ends[0]);
        const auto end = time_from_text(ends.back());
        if (ends.size() != 2 || !begin || !end || *begin == *end) return refuse(fmt::format("not times: {}", value));
        entry.daily_begin = *begin;
        entry.daily_end = *end;
        return true;
    }

    bool take_rate(std::string_view name, std::string_view value, Rates& rates) {
        const auto kind = std::ranges::find(price_kinds, name, &PriceKind::word);
        if (kind == price_kinds.end()) return refuse(fmt::format("not a kind of price: {}", name));
        const auto picos = picos_from_text(value, kind->decimals);
        if (!picos) return refuse(fmt::format("not an amount of dollars: {}", value));
        kind->always != nullptr ? void(rates.*kind->always = *picos) : void(rates.*kind->sometimes = *picos);
        return true;
    }
};

Result<PriceCatalog, std::string> PriceCatalog::parse(std::string_view text) {
    if (text.size() > catalog_bytes_max) return fail(fmt::format("longer than {} bytes", catalog_bytes_max));
    Reader reader;
    std::size_t line_number = 0;
    for (std::string_view line : split(text, '\n')) {
        ++line_number;
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.empty() || line.starts_with('#')) continue;
        if (!reader.take_line(line)) return fail(fmt::format("line {}: {}", line_number, reader.problem));
    }
    if (reader.catalog.rows_.empty()) return fail(std::string("no model in it"));
    for (const auto& [id, provider] : reader.catalog.providers_) {
        for (const std::string& fallback : provider.fallbacks) {
            if (!reader.catalog.providers_.contains(fallback))
                return fail(fmt::format("{} falls back to {}, which is no provider", id, fallback));
        }
    }
    return std::move(reader.catalog);
}

const PriceCatalog& PriceCatalog::carried() {
    static const PriceCatalog catalog = [] {
        auto parsed = parse(embedded::price_catalog().front().bytes);
        ensure(parsed.has_value(), "our own catalog can be read");
        return std::move(*parsed);
    }();
    return catalog;
}

// ---- finding --------------------------------------------------------------------------------------------------------

std::string_view PriceCatalog::provider_id(std::string_view name) const {
    if (const auto found = providers_.find(name); found != providers_.end()) return found->first;
    if (const auto found = aliases_.find(name); found != aliases_.end()) return found->second;
    return {};
}

const PriceCatalog::Row* PriceCatalog::find(std::string_view provider, std::string_view model) const {
    const auto found = providers_.find(provider_id(provider));
    if (found == providers_.end()) return nullptr;
    if (const Row* row = find_in(found->second, model)) return row;
    const std::string dashed = with_dashes_in_date(model);
    return dashed == model ? nullptr : find_in(found->second, dashed);
}

const PriceCatalog::Row* PriceCatalog::find_in(const Provider& provider, std::string_view model) const {
    const auto find_own = [&](const Provider& own) -> const Row* {
        if (const auto found = own.whole_names.find(model); found != own.whole_names.end())
            return &rows_[found->second];
        const auto fits = [&](const auto& rule) { return rule.first.fits(model); };
        const auto rule = std::ranges::find_if(own.rules, fits);
        return rule == own.rules.end() ? nullptr : &rows_[rule->second];
    };
    if (const Row* row = find_own(provider)) return row;
    for (const std::string& fallback : provider.fallbacks) {
        if (const Row* row = find_own(providers_.find(fallback)->second)) return row;
    }
    return nullptr;
}

const ModelPrice* PriceCatalog::Row::at(Instant when) const {
    const auto time = when - std::chrono::floor<std::chrono::days>(when);
    for (auto entry = prices.rbegin(); entry != prices.rend(); ++entry) {
        const auto& [from, begin, end, price] = *entry;
        if (when < from) continue;
        const bool over_midnight = end < begin;
        const bool today = begin == end || (over_midnight ? time >= begin || time < end : time >= begin && time < end);
        if (today) return &price;
    }
    return prices.empty() ? nullptr : &prices.front().price;
}

bool NameRule::fits(std::string_view name) const {
    return std::ranges::any_of(alternatives, [&](const auto& terms) {
        return std::ranges::all_of(terms, [&](const Term& term) { return term_fits(term, name) != term.negated; });
    });
}

std::string lower_case(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return lower;
}

}  // namespace interlock::gateway
