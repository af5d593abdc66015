#include "gateway/prices.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/sha256.h"
#include "gateway/price_catalog.h"
#include "gateway/price_kinds.h"

namespace interlock::gateway {
namespace {

constexpr std::int64_t picos_per_nano = 1000;

using Tiers = std::vector<Tier>;

bool is_standard(std::string_view service_tier) {
    constexpr std::array<std::string_view, 6> names{"", "auto", "default", "standard", "standard_only", "on_demand"};
    return std::ranges::find(names, service_tier) != names.end();
}
// Providers sell these for their lower price, so that the standard price bounds them.
bool is_cheaper(std::string_view service_tier) { return service_tier == "flex" || service_tier == "batch"; }

// Null: it has no price.
const Tiers* tiers_of(const ModelPrice& price, std::string_view service_tier) {
    const std::string name = lower_case(service_tier);
    const auto variant = is_variant_name(name) ? price.variants.find(name) : price.variants.end();
    if (variant != price.variants.end()) return &variant->second;
    return is_standard(name) || is_cheaper(name) ? &price.tiers : nullptr;
}

// All that the provider might bill by. Empty: what was asked for has no price.
std::vector<const Tiers*> possible_tiers(const ModelPrice& price, std::string_view service_tier) {
    const std::string stated = lower_case(service_tier);
    // Whoever asks for a tier may get the standard one, when the tier is full.
    std::vector<const Tiers*> possible{&price.tiers};
    if (stated.empty() || stated == "auto") {
        // The provider's own settings decide, and may say any of these.
        for (const auto& [name, tiers] : price.variants) {
            if (is_standard(name) || is_cheaper(name) || name == "priority" || name == "us") possible.push_back(&tiers);
        }
        return possible;
    }
    const Tiers* asked = tiers_of(price, stated);
    if (asked == nullptr) return {};
    if (asked != &price.tiers) possible.push_back(asked);
    return possible;
}

const Rates* rates_at(const Tiers& tiers, std::int64_t prompt_tokens) {
    const Rates* found = nullptr;
    for (const Tier& tier : tiers) {
        if (tier.from_prompt_tokens <= prompt_tokens) found = &tier.rates;
    }
    return found;
}

std::int64_t write_5m(const Rates& rates) { return rates.cache_write_5m.value_or(rates.input); }
std::int64_t write_1h(const Rates& rates) { return rates.cache_write_1h.value_or(write_5m(rates)); }

bool is_count(std::int64_t tokens) { return tokens >= 0 && tokens <= counted_tokens_max; }

// Products of a count (40 bits) and a rate (63 bits): a sum of some of them is far from the end of 128 bits.
struct Bill {
    __int128 picos = 0;
    bool sound = true;

    Bill& add(std::int64_t count, std::int64_t rate) {
        sound = sound && is_count(count) && rate >= 0;
        if (sound) picos += static_cast<__int128>(count) * rate;
        return *this;
    }
    std::optional<Money> total() const {
        if (!sound || picos > static_cast<__int128>(INT64_MAX) * picos_per_nano) return std::nullopt;
        return Money::nanos(static_cast<std::int64_t>((picos + picos_per_nano - 1) / picos_per_nano));
    }
};

// Nothing when they are no counts.
std::optional<std::int64_t> input_of(const Usage& usage) {
    std::int64_t sum = 0;
    for (const std::int64_t count :
         {usage.input_tokens, usage.cache_read_tokens, usage.cache_write_5m_tokens, usage.cache_write_1h_tokens}) {
        if (!is_count(count)) return std::nullopt;
        sum += count;
    }
    return sum;
}

std::optional<std::int64_t> prompt_of(const Metered& metered) {
    if (!is_count(metered.prompt_tokens)) return std::nullopt;
    return metered.prompt_tokens > 0 ? metered.prompt_tokens : input_of(metered.usage);
}

// One way in which a call can be billed: by these rates, everything at the dearest of them that can apply.
struct Way {
    std::int64_t input = 0;
    std::int64_t output = 0;
    const Rates* rates = nullptr;

    Bill without_output(const UsageBound& at_most) const {
        return Bill()
            .add(at_most.input, input)
            .add(1, rates->per_call)
            .add(at_most.paid_tools, rates->per_paid_tool)
            .add(at_most.images_made, std::max(rates->per_image, rates->per_paid_tool));
    }
};

Way way_by(const Rates& rates, const UsageBound& at_most) {
    Way way{.input = std::max({rates.input, rates.cache_read.value_or(0), write_5m(rates)}),
            .output = std::max(rates.output, rates.reasoning.value_or(0)),
            .rates = &rates};
    if (at_most.cache_write == CacheWrite::one_hour) way.input = std::max(way.input, write_1h(rates));
    if (at_most.audio) {
        way.input = std::max(way.input, rates.audio_input.value_or(0));
        way.output = std::max(way.output, rates.audio_output.value_or(0));
    }
    if (at_most.image_output) way.output = std::max(way.output, rates.image_output.value_or(0));
    return way;
}

// A tier reprices the whole call, so what is dearest is a way as a whole. Empty: no price.
std::vector<Way> possible_ways(const ModelPrice& price, const UsageBound& at_most) {
    const std::int64_t prompt = at_most.prompt > 0 ? at_most.prompt : at_most.input;
    std::vector<Way> ways;
    for (const Tiers* tiers : possible_tiers(price, at_most.service_tier)) {
        for (const Tier& tier : *tiers) {
            if (tier.from_prompt_tokens <= prompt) ways.push_back(way_by(tier.rates, at_most));
        }
    }
    return ways;
}

}  // namespace

std::optional<Money> cost_of(const ModelPrice& price, const Metered& metered) {
    const Tiers* tiers = tiers_of(price, metered.service_tier);
    const auto prompt = prompt_of(metered);
    if (tiers == nullptr || !prompt) return std::nullopt;
    const Rates* rates = rates_at(*tiers, *prompt);
    if (rates == nullptr) return std::nullopt;

    const Usage& usage = metered.usage;
    const auto ours =
        Bill()
            .add(usage.input_tokens - metered.audio_input_tokens, rates->input)
            .add(metered.audio_input_tokens, rates->audio_input.value_or(rates->input))
            .add(usage.output_tokens - metered.audio_output_tokens - metered.image_output_tokens, rates->output)
            .add(metered.image_output_tokens, rates->image_output.value_or(rates->output))
            .add(metered.audio_output_tokens, rates->audio_output.value_or(rates->output))
            .add(usage.cache_read_tokens, rates->cache_read.value_or(rates->input))
            .add(usage.cache_write_5m_tokens, write_5m(*rates))
            .add(usage.cache_write_1h_tokens, write_1h(*rates))
            .add(usage.reasoning_tokens, rates->reasoning.value_or(rates->output))
            .add(1, rates->per_call)
            .add(metered.paid_tools, rates->per_paid_tool)
            .add(metered.images_made, std::max(rates->per_image, rates->per_paid_tool))
            .total();
    return ours && metered.stated_cost ? std::max(*ours, *metered.stated_cost) : ours;
}

std::optional<Money> cost_at_most(const ModelPrice& price, const UsageBound& at_most) {
    std::optional<Money> most;
    for (const Way& way : possible_ways(price, at_most)) {
        const auto cost = way.without_output(at_most).add(at_most.output, way.output).total();
        if (!cost) return std::nullopt;
        if (!most || *cost > *most) most = cost;
    }
    return most;
}

std::optional<std::int64_t> output_within(const ModelPrice& price, const UsageBound& at_most, Money limit) {
    std::optional<std::int64_t> least;
    for (const Way& way : possible_ways(price, at_most)) {
        const Bill rest = way.without_output(at_most);
        const __int128 room = static_cast<__int128>(limit.nanos()) * picos_per_nano - rest.picos;
        if (!rest.sound || way.output < 0 || room < 0) return std::nullopt;
        const __int128 fits = way.output == 0 ? counted_tokens_max : room / way.output;
        const auto capped = static_cast<std::int64_t>(std::min<__int128>(fits, counted_tokens_max));
        least = std::min(least.value_or(capped), capped);
    }
    return least;
}

// ---- receipts -------------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t id_hash_digits = 16;
std::string id_hash(std::string_view id) { return to_hex(sha256(id)).substr(0, id_hash_digits); }

// The counts of a receipt, in the order in which they stand there.
struct ReceiptCount {
    std::string_view name;
    std::int64_t Metered::* member;
};
constexpr std::array receipt_counts{
    ReceiptCount{"audio_in", &Metered::audio_input_tokens},
    ReceiptCount{"audio_out", &Metered::audio_output_tokens},
    ReceiptCount{"image_out", &Metered::image_output_tokens},
    ReceiptCount{"tools", &Metered::paid_tools},
    ReceiptCount{"images", &Metered::images_made},
    ReceiptCount{"prompt", &Metered::prompt_tokens},
};

// "provider/model…~0123456789abcdef@version", or the hash alone where even that is too long.
std::string cut_id(const ModelPrice& price, std::size_t bytes_max) {
    const std::string id = price.id();
    if (id.size() <= bytes_max) return id;
    const std::string hash = "~" + id_hash(id);
    const std::string behind = hash + "@" + price.version;
    if (behind.size() >= bytes_max) return hash;
    std::size_t kept = std::min(bytes_max - behind.size(), price.provider.size() + 1 + price.model.size());
    while (kept > 0 && (static_cast<unsigned char>(id[kept]) & 0xC0) == 0x80) --kept;  // Not within a letter.
    return id.substr(0, kept) + behind;
}

// Takes the last ";name=value" off a receipt. Empty: there is none, what is left is the id.
std::optional<std::pair<std::string_view, std::string_view>> take_last(std::string_view& receipt) {
    const std::size_t begin = receipt.rfind(';');
    if (begin == std::string_view::npos) return std::nullopt;
    const std::string_view part = receipt.substr(begin + 1);
    const std::size_t at = part.find('=');
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view name = part.substr(0, at);
    if (name != "tier" && name != "stated" &&
        std::ranges::find(receipt_counts, name, &ReceiptCount::name) == receipt_counts.end())
        return std::nullopt;
    receipt = receipt.substr(0, begin);
    return std::pair(name, part.substr(at + 1));
}

}  // namespace

std::string receipt_of(const ModelPrice& price, const Metered& metered) {
    std::string details;
    if (const Tiers* tiers = tiers_of(price, metered.service_tier); tiers != nullptr && tiers != &price.tiers) {
        details += ";tier=" + lower_case(metered.service_tier);
    }
    for (const auto& [name, member] : receipt_counts) {
        const std::int64_t count = metered.*member;
        const bool as_expected = member == &Metered::prompt_tokens ? count == input_of(metered.usage) : false;
        // A count that is nonsense has no cost that could be computed again.
        if (count <= 0 || count > counted_tokens_max || as_expected) continue;
        details += fmt::format(";{}={}", name, count);
    }
    if (metered.stated_cost && metered.stated_cost->nanos() >= 0) {
        details += fmt::format(";stated={}", metered.stated_cost->nanos());
    }
    return cut_id(price, receipt_bytes_max - details.size()) + details;
}

std::optional<Metered> metered_from(const Usage& usage, std::string_view receipt) {
    Metered metered{.usage = usage, .input_reported = true, .reported = true};
    while (const auto detail = take_last(receipt)) {
        const auto& [name, value] = *detail;
        if (name == "tier") {
            metered.service_tier = value;
            continue;
        }
        std::int64_t count = 0;
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
        if (name == "stated")
            metered.stated_cost = Money::nanos(count);
        else
            metered.*std::ranges::find(receipt_counts, name, &ReceiptCount::name)->member = count;
        if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
    }
    const auto input = input_of(usage);
    if (!input || receipt.empty()) return std::nullopt;
    if (metered.prompt_tokens == 0) metered.prompt_tokens = *input;
    return metered;
}

// ---- the book -------------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t priced_name_bytes_max = 256;  // Of a provider or a model; a longer one has no price.
constexpr std::size_t remembered_names_max = 4096;

bool is_pattern(std::string_view text) { return text.find('*') != std::string_view::npos; }

// Whether the text is the pattern, where each '*' stands for anything.
bool fits_pattern(std::string_view text, std::string_view pattern) {
    std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return text == pattern;
    if (!text.starts_with(pattern.substr(0, star))) return false;
    text.remove_prefix(star);
    pattern.remove_prefix(star + 1);
    // Every piece between two stars is taken where it comes first: a later place would only leave less.
    while ((star = pattern.find('*')) != std::string_view::npos) {
        const std::size_t at = text.find(pattern.substr(0, star));
        if (at == std::string_view::npos) return false;
        text.remove_prefix(at + star);
        pattern.remove_prefix(star + 1);
    }
    return text.ends_with(pattern);
}

// The key that a price is known by: a hash, because a receipt may have no more of its id.
std::string receipt_key(std::string_view receipt) {
    while (take_last(receipt)) {
    }
    const std::size_t mark = receipt.rfind('~');
    const std::string_view hash = mark == std::string_view::npos ? "" : receipt.substr(mark + 1, id_hash_digits);
    const bool cut = hash.size() == id_hash_digits && hash.find_first_not_of("0123456789abcdef") == std::string::npos &&
                     (receipt.size() == mark + 1 + id_hash_digits || receipt[mark + 1 + id_hash_digits] == '@');
    return cut ? std::string(hash) : id_hash(receipt);
}

}  // namespace

struct PriceBook::Parts {
    struct Found {
        const ModelPrice* set = nullptr;
        const PriceCatalog::Row* row = nullptr;
    };
    // What was set, by provider and model in lower case.
    struct Set {
        std::string provider;
        std::string model;
        const ModelPrice* price;
        std::size_t order;
    };

    Parts(std::vector<ModelPrice> given, std::shared_ptr<const PriceCatalog> below)
        : catalog(std::move(below)), set(std::move(given)) {
        for (ModelPrice& price : set) {
            Set& entry =
                by_name.emplace_back(lower_case(price.provider), lower_case(price.model), &price, by_name.size());
            by_receipt.emplace(receipt_key(price.id()), &price);
            const PriceCatalog::Row* row = catalog->find(entry.provider, entry.model);
            if (row == nullptr || row->prices.empty()) continue;
            const ModelPrice& known = row->prices.back().price;
            if (price.input_max == 0) price.input_max = known.input_max;
            if (price.output_max == 0) price.output_max = known.output_max;
            if (price.image_max == 0) price.image_max = known.image_max;
        }
        // Exact names first, then the patterns that say most; of equals the one that was given last.
        std::ranges::sort(by_name, std::greater(), rank);
        for (const PriceCatalog::Row& row : catalog->rows()) {
            for (const auto& entry : row.prices) by_receipt.emplace(receipt_key(entry.price.id()), &entry.price);
        }
    }

    static std::tuple<bool, std::size_t, std::size_t> rank(const Set& entry) {
        const auto letters = [](std::string_view text) {
            return text.size() - static_cast<std::size_t>(std::ranges::count(text, '*'));
        };
        return {!is_pattern(entry.provider) && !is_pattern(entry.model), letters(entry.provider) + letters(entry.model),
                entry.order};
    }

    // Both in lower case.
    Found look_up(std::string_view provider, std::string_view model) const {
        const std::string_view id = catalog->provider_id(provider);
        const auto fits = [&](const Set& entry) {
            return (fits_pattern(provider, entry.provider) || (!id.empty() && fits_pattern(id, entry.provider))) &&
                   fits_pattern(model, entry.model);
        };
        const auto found = std::ranges::find_if(by_name, fits);
        if (found != by_name.end()) return {.set = found->price};
        return {.row = catalog->find(provider, model)};
    }

    Found find(std::string_view provider, std::string_view model) const {
        std::string key = lower_case(provider);
        key += '\n';
        key += lower_case(model);
        {
            const std::shared_lock lock(mutex);
            if (const auto found = remembered.find(key); found != remembered.end()) return found->second;
        }
        const std::string_view both = key;
        const Found found = look_up(both.substr(0, provider.size()), both.substr(provider.size() + 1));
        const std::unique_lock lock(mutex);
        // Names come from clients, who may make them up: what was remembered costs little to find again.
        if (remembered.size() >= remembered_names_max) remembered.clear();
        remembered.emplace(std::move(key), found);
        return found;
    }

    const std::shared_ptr<const PriceCatalog> catalog;
    std::vector<ModelPrice> set;
    std::vector<Set> by_name;
    ByText<const ModelPrice*> by_receipt;
    mutable std::shared_mutex mutex;
    mutable ByText<Found> remembered;
};

// What the binary carries lives as long as the program: there is nothing to own.
PriceBook::PriceBook(std::vector<ModelPrice> set)
    : PriceBook(std::move(set), {std::shared_ptr<void>(), &PriceCatalog::carried()}) {}

PriceBook::PriceBook(std::vector<ModelPrice> set, std::shared_ptr<const PriceCatalog> catalog)
    : parts_(std::make_shared<const Parts>(std::move(set), std::move(catalog))) {}

Result<PriceBook, std::string> PriceBook::with_catalog(std::vector<ModelPrice> set, std::string_view catalog) {
    auto parsed = PriceCatalog::parse(catalog);
    if (!parsed) return fail(parsed.error());
    return PriceBook(std::move(set), std::make_shared<const PriceCatalog>(std::move(*parsed)));
}

const ModelPrice* PriceBook::find(std::string_view provider, std::string_view model, Instant at) const {
    if (provider.size() > priced_name_bytes_max || model.size() > priced_name_bytes_max) return nullptr;
    const auto [set, row] = parts_->find(provider, model);
    if (set != nullptr) return set;
    return row == nullptr ? nullptr : row->at(at);
}

const ModelPrice* PriceBook::find_receipt(std::string_view receipt) const {
    const auto found = parts_->by_receipt.find(receipt_key(receipt));
    return found == parts_->by_receipt.end() ? nullptr : found->second;
}

std::vector<const ModelPrice*> PriceBook::list(std::string_view filter, Instant at) const {
    const std::string part = lower_case(filter);
    std::vector<const ModelPrice*> prices;
    const auto add = [&](const ModelPrice& price) {
        const std::string name = lower_case(price.provider) + "/" + lower_case(price.model);
        if (name.find(part) != std::string::npos) prices.push_back(&price);
    };
    for (const ModelPrice& price : parts_->set) add(price);
    for (const PriceCatalog::Row& row : parts_->catalog->rows()) {
        const ModelPrice* price = row.at(at);
        const bool set_again = std::ranges::any_of(
            parts_->set, [&](const ModelPrice& set) { return set.provider == row.provider && set.model == row.model; });
        if (price != nullptr && !set_again) add(*price);
    }
    std::ranges::sort(prices, {},
                      [](const ModelPrice* price) { return std::tie(price->provider, price->model, price->version); });
    return prices;
}

const std::string& PriceBook::version() const { return parts_->catalog->version(); }
const std::string& PriceBook::date() const { return parts_->catalog->date(); }
std::string_view PriceBook::catalog_version() { return PriceCatalog::carried().version(); }
std::string_view PriceBook::catalog_date() { return PriceCatalog::carried().date(); }

std::optional<Money> cost_again(const PriceBook& book, const Usage& usage, std::string_view receipt) {
    const ModelPrice* price = book.find_receipt(receipt);
    const auto metered = metered_from(usage, receipt);
    return price != nullptr && metered ? cost_of(*price, *metered) : std::nullopt;
}

}  // namespace interlock::gateway
