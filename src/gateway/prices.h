// What models cost: the catalog that the binary carries, and what people have set over it.
//
//   (1) A price that was used can be found again: its id and version name one row of one catalog, or one version of a
//       setting.
//   (2) cost_of() is exact: the tier by the whole prompt, every kind at its own rate, rounded up once; or what the
//       provider states, where that is more.
//   (3) cost_at_most() is never below cost_of() of any usage within the given bounds: every kind at the dearest rate
//       that could apply.
//   (4) What might cost more than we know has no cost here, rather than too low a one: a service tier without a price,
//       unless it is one that is never dearer than the standard.
//   (5) A cost can be computed again from its event: usage and receipt say all that decided it.
//
// Nothing here is derived from a rule of thumb: a kind without a published price is priced as plain input or output.
// How the catalog is read and searched is in price_catalog.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"
#include "base/price.h"
#include "base/result.h"
#include "gateway/call_request.h"
#include "gateway/usage.h"

namespace interlock::gateway {

// Pico-dollars per token of each kind, and per use. A member that is nothing has no price of its own: cache reads,
// writes and audio then cost what plain input or output does, reasoning what output does; a write that lasts an hour
// costs what a write costs, where that is known.
struct Rates {
    std::int64_t input = 0;
    std::int64_t output = 0;
    std::optional<std::int64_t> cache_read = {};
    std::optional<std::int64_t> cache_write_5m = {};
    std::optional<std::int64_t> cache_write_1h = {};
    std::optional<std::int64_t> reasoning = {};
    std::optional<std::int64_t> audio_input = {};
    std::optional<std::int64_t> audio_output = {};
    std::optional<std::int64_t> image_output = {};  // Without it, images as output have no price that is known.
    std::int64_t per_call = 0;
    std::int64_t per_paid_tool = 0;
    std::int64_t per_image = 0;  // Made by a tool; 0: that has no price.
    friend bool operator==(const Rates&, const Rates&) = default;
};
BOOST_DESCRIBE_STRUCT(Rates, (),
                      (input, output, cache_read, cache_write_5m, cache_write_1h, reasoning, audio_input, audio_output,
                       image_output, per_call, per_paid_tool, per_image))

// Rates that hold from so many tokens of prompt on.
struct Tier {
    std::int64_t from_prompt_tokens = 0;
    Rates rates = {};
    friend bool operator==(const Tier&, const Tier&) = default;
};
BOOST_DESCRIBE_STRUCT(Tier, (), (from_prompt_tokens, rates))

// Who says what a model costs.
enum class PriceSource { catalog, setting };

struct ModelPrice {
    std::string provider = {};
    std::string model = {};        // The catalog's name for it, or the pattern that was set: '*' stands for anything.
    std::string version = {};      // Of the catalog, or "set-3" for the third setting of this name.
    std::vector<Tier> tiers = {};  // Rising; the first is from 0.
    std::map<std::string, std::vector<Tier>> variants = {};  // By service tier: "batch", "flex", "priority".
    std::int64_t input_max = 0;                              // Tokens the model takes; 0: not known.
    std::int64_t output_max = 0;                             // Tokens it makes at most; 0: not known.
    std::int64_t image_max = 0;                              // Tokens that one image comes to at most; 0: not known.
    PriceSource source = PriceSource::catalog;               // Not a part of the price's document.
    friend bool operator==(const ModelPrice&, const ModelPrice&) = default;

    std::string id() const { return provider + "/" + model + "@" + version; }
};
BOOST_DESCRIBE_STRUCT(ModelPrice, (), (provider, model, version, tiers, variants, input_max, output_max, image_max))

// What a call may come to at most, in tokens.
struct UsageBound {
    std::int64_t input = 0;   // Of all rounds together.
    std::int64_t output = 0;  // Of all choices and rounds.
    std::int64_t prompt = 0;  // Of one round: decides the tiers that can be reached. 0: all of the input.
    // Without one hour, writes are bounded at the price of short ones all the same: some providers write unasked.
    CacheWrite cache_write = CacheWrite::none;
    bool audio = false;
    bool image_output = false;
    std::int64_t paid_tools = 0;
    std::int64_t images_made = 0;   // By a tool.
    std::string service_tier = {};  // As stated; empty or "auto": any that the model has.
};

// More of one kind in one call is nonsense and has no cost.
constexpr std::int64_t counted_tokens_max = 1'000'000'000'000;

// Nothing where it does not fit an amount, or the service tier has no price (4).
std::optional<Money> cost_of(const ModelPrice& price, const Metered& metered);
std::optional<Money> cost_at_most(const ModelPrice& price, const UsageBound& at_most);
// How much output fits beside the rest of `at_most`, up to counted_tokens_max; nothing when even none does.
std::optional<std::int64_t> output_within(const ModelPrice& price, const UsageBound& at_most, Money limit);

// How the cost was computed, short enough for a cost event: the price's id, and what the event's own columns do not
// say: the variant, and the counts that were priced on their own or decided the tier. "openai/gpt-5@0.1.8;tier=flex".
// A long id is cut, and told from others by its hash.
constexpr std::size_t receipt_bytes_max = 128;
std::string receipt_of(const ModelPrice& price, const Metered& metered);
// What cost_of() needs of a call, from its event. Nothing when it is no receipt of ours.
std::optional<Metered> metered_from(const Usage& usage, std::string_view receipt);

// Why a price was refused.
struct BadPrice {
    std::string member = {};  // "variants.batch.tiers[0]"; empty: the document itself.
    std::string detail = {};  // "must be an object with prices"
};
std::string to_sentence(const BadPrice& bad);

// A price as people set it, in dollars per million tokens: {"input_per_mtok": "3.00", "output_per_mtok": "15.00",
// "cache_read_per_mtok": …, "per_call": "0.01", "tiers": [{"from_prompt_tokens": 200000, "input_per_mtok": …}],
// "variants": {"batch": {…}}, "input_max": 200000, …}. Tiers and variants say all kinds that the base price says, but
// for fees, which are then the same.
Result<ModelPrice, BadPrice> price_from_json(std::string_view text);
std::string to_json(const ModelPrice& price);

class PriceCatalog;

// All of it may be used by several threads at once.
class PriceBook {
 public:
    // On top of what the binary carries; theirs win. One that has no limits has the catalog's.
    explicit PriceBook(std::vector<ModelPrice> set);
    // On top of another catalog, in the format of prices/catalog.txt. The error says which line is wrong.
    static Result<PriceBook, std::string> with_catalog(std::vector<ModelPrice> set, std::string_view catalog);

    // The price that holds at that time: one that was set, by exact name, then by pattern (the one with most letters);
    // then what the catalog has by exact name; then what it says matches (dated and aliased names). Null: not known.
    // Provider and model are compared without regard to case.
    const ModelPrice* find(std::string_view provider, std::string_view model, Instant at) const;
    // The price that a receipt names. Null: it is of another catalog, or of another version of a setting.
    const ModelPrice* find_receipt(std::string_view receipt) const;

    // In order of provider and model, both of the catalog and set; `filter` is a part of either. The pointers live as
    // long as the book or a copy of it.
    std::vector<const ModelPrice*> list(std::string_view filter, Instant at) const;

    const std::string& version() const;  // Of the catalog below.
    const std::string& date() const;

    static std::string_view catalog_version();  // Of what the binary carries.
    static std::string_view catalog_date();     // "2026-11-01"

 private:
    struct Parts;
    PriceBook(std::vector<ModelPrice> set, std::shared_ptr<const PriceCatalog> catalog);

    std::shared_ptr<const Parts> parts_;
};

// The cost of an event again (5). Nothing where the book does not have the price any more.
std::optional<Money> cost_again(const PriceBook& book, const Usage& usage, std::string_view receipt);

}  // namespace interlock::gateway
