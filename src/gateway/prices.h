// What models cost: the catalog that the binary carries, and what people have set over it.
//
//   (1) A price that was used can be found again: its id and version name one row of one catalog, or one version of a
//       setting.
//   (2) cost_of() is exact: the tier by the whole prompt, every kind at its own rate, rounded up once.
//   (3) cost_at_most() is never below cost_of() of any usage within the given bounds: every kind at the dearest rate
//   that
//       could apply.
//
// Nothing here is derived from a rule of thumb: a kind without a published price is priced as plain input or output.
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
#include "gateway/ask.h"
#include "gateway/usage.h"

namespace interlock::gateway {

// Pico-dollars per token of each kind, and per use. A member that is nothing has no price of its own: cache reads,
// writes and audio then cost what plain input or output does, reasoning what output does.
struct Rates {
    std::int64_t input = 0;
    std::int64_t output = 0;
    std::optional<std::int64_t> cache_read = {};
    std::optional<std::int64_t> cache_write_5m = {};
    std::optional<std::int64_t> cache_write_1h = {};
    std::optional<std::int64_t> reasoning = {};
    std::optional<std::int64_t> audio_input = {};
    std::optional<std::int64_t> audio_output = {};
    std::int64_t per_call = 0;
    std::int64_t per_paid_tool = 0;
    friend bool operator==(const Rates&, const Rates&) = default;
};
BOOST_DESCRIBE_STRUCT(Rates, (),
                      (input, output, cache_read, cache_write_5m, cache_write_1h, reasoning, audio_input, audio_output,
                       per_call, per_paid_tool))

// Rates that hold from so many tokens of prompt on.
struct Tier {
    std::int64_t from_prompt_tokens = 0;
    Rates rates = {};
    friend bool operator==(const Tier&, const Tier&) = default;
};
BOOST_DESCRIBE_STRUCT(Tier, (), (from_prompt_tokens, rates))

struct ModelPrice {
    std::string provider = {};
    std::string model = {};        // The catalog's name for it, or the pattern that was set: '*' stands for anything.
    std::string version = {};      // Of the catalog, or "set-3" for the third setting of this name.
    std::vector<Tier> tiers = {};  // Rising; the first is from 0.
    std::map<std::string, std::vector<Tier>> variants = {};  // By service tier: "batch", "flex", "priority".
    std::int64_t input_max = 0;                              // Tokens the model takes; 0: not known.
    std::int64_t output_max = 0;                             // Tokens it makes at most; 0: not known.
    friend bool operator==(const ModelPrice&, const ModelPrice&) = default;

    std::string id() const { return provider + "/" + model + "@" + version; }
};
BOOST_DESCRIBE_STRUCT(ModelPrice, (), (provider, model, version, tiers, variants, input_max, output_max))

// What a call may come to at most, in tokens.
struct Worst {
    std::int64_t input = 0;   // Of all rounds together.
    std::int64_t output = 0;  // Of all choices and rounds.
    std::int64_t prompt = 0;  // Of one round: decides the tiers that can be reached.
    CacheWrite cache_write = CacheWrite::none;
    bool audio = false;
    std::int64_t paid_tools = 0;
    std::string service_tier = {};  // As stated; empty or "auto": any that the model has.
};

// Nothing where it does not fit an amount.
std::optional<Money> cost_of(const ModelPrice& price, const Metered& metered);
std::optional<Money> cost_at_most(const ModelPrice& price, const Worst& worst);
// How much output fits beside the rest of `worst`; nothing when even none does.
std::optional<std::int64_t> output_within(const ModelPrice& price, const Worst& worst, Money limit);

// How the cost was computed, short enough for a cost event (at most 128 bytes): the price's id, and what the event's
// own columns do not say: the variant, and the counts that were priced on their own.
std::string receipt_of(const ModelPrice& price, const Metered& metered);

class PriceBook {
 public:
    explicit PriceBook(std::vector<ModelPrice> set);  // On top of what the binary carries; theirs win.

    // The price that holds at that time, by exact name first, then by pattern, then by what the catalog says matches
    // (dated and aliased names). Null: not known.
    const ModelPrice* find(std::string_view provider, std::string_view model, Instant at) const;

    // In order of provider and model, both of the catalog and set; `filter` is a part of either.
    std::vector<const ModelPrice*> list(std::string_view filter, Instant at) const;

    static std::string_view catalog_version();
    static std::string_view catalog_date();  // "2026-11-01"

 private:
    struct Parts;
    std::shared_ptr<const Parts> parts_;
};

}  // namespace interlock::gateway
