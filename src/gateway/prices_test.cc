#include "gateway/prices.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "gateway/price_catalog.h"

namespace interlock::gateway {
namespace {

using std::chrono::sys_days;
using namespace std::chrono_literals;

constexpr Instant today = sys_days(std::chrono::year(2026) / 11 / 15);

Metered metered_of(Usage usage) {
    Metered metered;
    metered.usage = usage;
    metered.prompt_tokens =
        usage.input_tokens + usage.cache_read_tokens + usage.cache_write_5m_tokens + usage.cache_write_1h_tokens;
    return metered;
}

ModelPrice plain_price(Rates rates) {
    return {.provider = "p", .model = "m", .version = "1", .tiers = {{.rates = rates}}};
}

// ---- what a call costs ----------------------------------------------------------------------------------------------

TEST(Prices, a_published_price_gives_the_published_cost) {
    const PriceBook book({});
    const ModelPrice* price = book.find("anthropic", "claude-haiku-4-5-20251001", today);
    ASSERT_NE(price, nullptr);

    const Metered metered = metered_of({.input_tokens = 1'000,
                                        .output_tokens = 500,
                                        .cache_read_tokens = 10'000,
                                        .cache_write_5m_tokens = 100,
                                        .cache_write_1h_tokens = 10});

    // 1.00, 5.00, 0.10, 1.25 and 2.00 dollars a million.
    EXPECT_EQ(cost_of(*price, metered), Money::nanos(1'000'000 + 2'500'000 + 1'000'000 + 125'000 + 20'000));
}

TEST(Prices, each_kind_is_paid_at_its_own_rate_and_rounded_up_once) {
    const ModelPrice price = plain_price({.input = 1,
                                          .output = 10,
                                          .cache_read = 100,
                                          .cache_write_5m = 1'000,
                                          .cache_write_1h = 10'000,
                                          .reasoning = 100'000,
                                          .audio_input = 1'000'000,
                                          .audio_output = 10'000'000,
                                          .per_call = 100'000'000,
                                          .per_paid_tool = 1'000'000'000});
    Metered metered = metered_of({.input_tokens = 3,
                                  .output_tokens = 5,
                                  .cache_read_tokens = 3,
                                  .cache_write_5m_tokens = 4,
                                  .cache_write_1h_tokens = 5,
                                  .reasoning_tokens = 6});
    metered.audio_input_tokens = 2;
    metered.audio_output_tokens = 3;
    metered.paid_tools = 7;

    // 7'132'654'321 picos: 1 plain input, 2 plain output, 3, 4, 5, 6, 2 audio, 3 audio, 1 call, 7 tools.
    EXPECT_EQ(cost_of(price, metered), Money::nanos(7'132'655));
}

TEST(Prices, a_kind_without_a_price_of_its_own_costs_what_it_is_a_kind_of) {
    const ModelPrice price = plain_price({.input = 1'000, .output = 1'000'000});
    Metered metered = metered_of({.input_tokens = 2,
                                  .output_tokens = 1,
                                  .cache_read_tokens = 1,
                                  .cache_write_5m_tokens = 1,
                                  .cache_write_1h_tokens = 1,
                                  .reasoning_tokens = 1});
    metered.audio_input_tokens = 1;
    metered.audio_output_tokens = 1;
    EXPECT_EQ(cost_of(price, metered), Money::nanos(2'005));

    // A write for an hour is a write.
    const ModelPrice with_writes = plain_price({.input = 1'000, .output = 0, .cache_write_5m = 2'000});
    EXPECT_EQ(cost_of(with_writes, metered_of({.cache_write_1h_tokens = 10})), Money::nanos(20));
}

TEST(Prices, the_whole_prompt_decides_the_tier_and_the_tier_reprices_everything) {
    const PriceBook book({});
    const ModelPrice* price = book.find("sim", "sim/large", today);
    ASSERT_NE(price, nullptr);

    const Metered below = metered_of({.input_tokens = 1, .output_tokens = 1'000, .cache_read_tokens = 199'998});
    const Metered above = metered_of({.input_tokens = 2, .output_tokens = 1'000, .cache_read_tokens = 199'998});

    EXPECT_EQ(cost_of(*price, below), Money::nanos(3'000 + 15'000'000 + 199'998 * 300));
    EXPECT_EQ(cost_of(*price, above), Money::nanos(12'000 + 22'500'000 + 199'998 * 600));

    // Rounds that the provider adds up: no single one has reached the tier.
    Metered rounds = above;
    rounds.prompt_tokens = 100'000;
    EXPECT_EQ(cost_of(*price, rounds), Money::nanos(6'000 + 15'000'000 + 199'998 * 300));
}

TEST(Prices, a_service_tier_costs_its_own_price_and_an_unknown_one_has_none) {
    const PriceBook book({});
    const ModelPrice* known = book.find("openai", "gpt-5", today);
    const ModelPrice* unknown = book.find("openai", "gpt-5-pro", today);
    ASSERT_TRUE(known != nullptr && unknown != nullptr);
    Metered metered = metered_of({.input_tokens = 1'000'000});
    const auto cost_as = [&](const ModelPrice& price, std::string tier) {
        metered.service_tier = std::move(tier);
        return cost_of(price, metered);
    };

    EXPECT_EQ(cost_as(*known, ""), Money::nanos(1'250'000'000));
    EXPECT_EQ(cost_as(*known, "default"), Money::nanos(1'250'000'000));
    EXPECT_EQ(cost_as(*known, "standard_only"), Money::nanos(1'250'000'000));
    EXPECT_EQ(cost_as(*known, "priority"), Money::nanos(2'500'000'000));
    EXPECT_EQ(cost_as(*known, "Priority"), Money::nanos(2'500'000'000));
    EXPECT_EQ(cost_as(*known, "flex"), Money::nanos(625'000'000));
    EXPECT_EQ(cost_as(*known, "of-tomorrow"), std::nullopt);
    // Flex is never dearer than the standard; priority always is.
    EXPECT_EQ(cost_as(*unknown, "flex"), Money::dollars(15));
    EXPECT_EQ(cost_as(*unknown, "priority"), std::nullopt);
    EXPECT_EQ(cost_at_most(*unknown, {.input = 1, .service_tier = "priority"}), std::nullopt);
    EXPECT_EQ(output_within(*unknown, {.input = 1, .service_tier = "priority"}, Money::dollars(1)), std::nullopt);
}

TEST(Prices, nonsense_has_no_cost) {
    const ModelPrice price = plain_price({.input = 1, .output = 1});
    EXPECT_EQ(cost_of(price, metered_of({.input_tokens = -1})), std::nullopt);
    EXPECT_EQ(cost_of(price, metered_of({.output_tokens = counted_tokens_max + 1})), std::nullopt);
    Metered more_audio_than_input = metered_of({.input_tokens = 1});
    more_audio_than_input.audio_input_tokens = 2;
    EXPECT_EQ(cost_of(price, more_audio_than_input), std::nullopt);
    EXPECT_EQ(cost_of(ModelPrice(), Metered()), std::nullopt);
    EXPECT_EQ(cost_of(plain_price({.input = -1}), Metered()), std::nullopt);
    // The largest amount is 2^63 - 1 nano-dollars.
    EXPECT_EQ(cost_of(plain_price({.input = INT64_MAX}), metered_of({.input_tokens = 1'000})), Money::max());
    EXPECT_EQ(cost_of(plain_price({.input = INT64_MAX}), metered_of({.input_tokens = 1'001})), std::nullopt);
    EXPECT_EQ(cost_at_most(plain_price({.input = INT64_MAX}), {.input = 1'001}), std::nullopt);
}

// ---- what it may cost -----------------------------------------------------------------------------------------------

TEST(Prices, the_bound_takes_the_dearest_tier_in_reach_and_no_other) {
    const PriceBook book({});
    const ModelPrice* price = book.find("sim", "large", today);
    ASSERT_NE(price, nullptr);

    // Input at the price of a short write, 3.75 and 7.50 dollars a million.
    EXPECT_EQ(cost_at_most(*price, {.input = 100'000, .output = 1'000, .prompt = 100'000}),
              Money::nanos(375'000'000 + 15'000'000));
    EXPECT_EQ(cost_at_most(*price, {.input = 200'000, .output = 1'000, .prompt = 199'999}),
              Money::nanos(750'000'000 + 15'000'000));
    EXPECT_EQ(cost_at_most(*price, {.input = 200'000, .output = 1'000, .prompt = 200'000}),
              Money::nanos(1'500'000'000 + 22'500'000));
    EXPECT_EQ(cost_at_most(*price, {.input = 1'000, .cache_write = CacheWrite::one_hour}), Money::nanos(6'000'000));
}

TEST(Prices, what_was_not_asked_for_may_come_and_is_in_the_bound) {
    const PriceBook book({});
    const ModelPrice* price = book.find("openai", "gpt-5", today);
    ASSERT_NE(price, nullptr);
    const auto bound = [&](std::string tier) {
        return cost_at_most(*price, {.output = 1'000'000, .service_tier = std::move(tier)});
    };

    EXPECT_EQ(bound(""), Money::dollars(20));
    EXPECT_EQ(bound("auto"), Money::dollars(20));
    EXPECT_EQ(bound("default"), Money::dollars(10));
    EXPECT_EQ(bound("flex"), Money::dollars(10));
    EXPECT_EQ(bound("priority"), Money::dollars(20));
}

struct Random {
    std::mt19937_64 engine{20261115};

    std::int64_t below(std::int64_t end) {
        return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(end));
    }
    bool one_in(int n) { return below(n) == 0; }
    std::int64_t rate() { return one_in(6) ? 0 : below(one_in(3) ? 2'000 : 90'000'000); }
    std::optional<std::int64_t> rate_or_none() { return one_in(2) ? std::nullopt : std::optional(rate()); }

    Rates rates() {
        return {.input = rate(),
                .output = rate(),
                .cache_read = rate_or_none(),
                .cache_write_5m = rate_or_none(),
                .cache_write_1h = rate_or_none(),
                .reasoning = rate_or_none(),
                .audio_input = rate_or_none(),
                .audio_output = rate_or_none(),
                .image_output = rate_or_none(),
                .per_call = one_in(2) ? 0 : rate(),
                .per_paid_tool = one_in(2) ? 0 : rate() * 1'000,
                .per_image = one_in(2) ? 0 : rate() * 9'000};
    }
    std::vector<Tier> tiers() {
        std::vector<Tier> tiers{{.rates = rates()}};
        while (one_in(2)) tiers.push_back({tiers.back().from_prompt_tokens + 1 + below(400'000), rates()});
        return tiers;
    }
    ModelPrice price() {
        ModelPrice price{.provider = "p", .model = "m", .version = "1", .tiers = tiers()};
        for (const char* name : {"batch", "flex", "priority", "fast"}) {
            if (one_in(3)) price.variants[name] = tiers();
        }
        return price;
    }
    UsageBound at_most() {
        constexpr std::array<const char*, 7> service_tiers{"", "auto", "default", "flex", "priority", "batch", "fast"};
        UsageBound at_most{.input = below(one_in(3) ? 10 : 900'000), .output = below(one_in(3) ? 10 : 200'000)};
        at_most.prompt = one_in(2) ? at_most.input : below(at_most.input + 1);
        at_most.cache_write = static_cast<CacheWrite>(below(3));
        at_most.audio = one_in(3);
        at_most.image_output = one_in(4);
        at_most.paid_tools = one_in(2) ? 0 : below(5);
        at_most.images_made = one_in(3) ? at_most.paid_tools : 0;
        at_most.service_tier = service_tiers[static_cast<std::size_t>(below(7))];
        return at_most;
    }
    // Some of what a call within those bounds can come to; its ends more often than chance would have them.
    std::int64_t up_to(std::int64_t most) { return one_in(3) ? most : one_in(4) ? 0 : below(most + 1); }
    Metered within(const UsageBound& at_most) {
        Metered metered;
        std::int64_t left = up_to(at_most.input);
        const auto take = [&](std::int64_t& into) { left -= into = up_to(left); };
        if (at_most.cache_write == CacheWrite::one_hour) take(metered.usage.cache_write_1h_tokens);
        if (one_in(2)) take(metered.usage.cache_write_5m_tokens);
        if (one_in(2)) take(metered.usage.cache_read_tokens);
        take(metered.usage.input_tokens);
        left = up_to(at_most.output);
        if (one_in(2)) take(metered.usage.reasoning_tokens);
        take(metered.usage.output_tokens);
        if (at_most.audio) {
            metered.audio_input_tokens = up_to(metered.usage.input_tokens);
            metered.audio_output_tokens = up_to(metered.usage.output_tokens);
        }
        if (at_most.image_output) {
            metered.image_output_tokens = up_to(metered.usage.output_tokens - metered.audio_output_tokens);
        }
        metered.paid_tools = up_to(at_most.paid_tools);
        metered.images_made = up_to(at_most.images_made);
        const std::int64_t prompt_max = at_most.prompt > 0 ? at_most.prompt : at_most.input;
        metered.prompt_tokens = std::max<std::int64_t>(1, up_to(prompt_max));
        metered.service_tier = service_tier_within(at_most.service_tier);
        return metered;
    }
    std::string service_tier_within(const std::string& stated) {
        if (one_in(2)) return one_in(2) ? "" : "default";
        if (!stated.empty() && stated != "auto") return stated;
        constexpr std::array<const char*, 4> unasked{"priority", "flex", "batch", "standard"};
        return unasked[static_cast<std::size_t>(below(4))];
    }
};

TEST(Prices, no_usage_within_the_bounds_costs_more_than_the_bound) {
    Random random;
    int compared = 0;
    int reached = 0;
    for (int i = 0; i < 40'000; ++i) {
        const ModelPrice price = random.price();
        const UsageBound at_most = random.at_most();
        const auto most = cost_at_most(price, at_most);
        for (int k = 0; k < 8; ++k) {
            const Metered metered = random.within(at_most);
            if (metered.prompt_tokens > std::max(at_most.prompt, at_most.input)) continue;
            const auto cost = cost_of(price, metered);
            if (!cost) continue;
            if (!most) {
                // What has no bound was asked for, and has no price; it may have come as something that has one.
                ASSERT_FALSE(price.variants.contains(at_most.service_tier));
                continue;
            }
            ASSERT_LE(*cost, *most) << to_json(price) << "\n" << receipt_of(price, metered);
            ++compared;
            reached += *cost == *most ? 1 : 0;
        }
    }
    // The bound is not merely high.
    EXPECT_GT(compared, 200'000);
    EXPECT_GT(reached, 2'000);
}

TEST(Prices, the_output_that_fits_is_the_largest_that_fits) {
    Random random;
    int some = 0;
    int none = 0;
    for (int i = 0; i < 100'000; ++i) {
        const ModelPrice price = random.price();
        UsageBound at_most = random.at_most();
        const Money limit = Money::nanos(random.below(random.one_in(3) ? 1'000 : 30'000'000'000));
        const auto output = output_within(price, at_most, limit);
        const auto bound = [&](std::int64_t tokens) {
            at_most.output = tokens;
            return cost_at_most(price, at_most);
        };

        if (!output) {
            const auto least = bound(0);
            ASSERT_TRUE(!least || *least > limit);
            ++none;
            continue;
        }
        ASSERT_LE(*bound(*output), limit);
        if (*output < counted_tokens_max) {
            ASSERT_GT(*bound(*output + 1), limit);
        }
        ++some;
    }
    EXPECT_GT(some, 10'000);
    EXPECT_GT(none, 10'000);
}

// ---- receipts -------------------------------------------------------------------------------------------------------

TEST(Prices, a_receipt_says_what_the_event_does_not) {
    const PriceBook book({});
    const std::string version(PriceBook::catalog_version());
    const ModelPrice* sonnet = book.find("anthropic", "claude-sonnet-4-5", today);
    const ModelPrice* gpt = book.find("openai", "gpt-5", today);
    ASSERT_TRUE(sonnet != nullptr && gpt != nullptr);
    Metered metered = metered_of({.input_tokens = 20, .output_tokens = 10});

    EXPECT_EQ(receipt_of(*sonnet, metered), "anthropic/claude-sonnet-4-5@" + version);

    metered.service_tier = "priority";
    metered.audio_input_tokens = 12;
    metered.audio_output_tokens = 3;
    metered.paid_tools = 2;
    metered.prompt_tokens = 7;
    EXPECT_EQ(receipt_of(*gpt, metered),
              "openai/gpt-5@" + version + ";tier=priority;audio_in=12;audio_out=3;tools=2;prompt=7");
}

TEST(Prices, a_cost_can_be_computed_again_from_usage_and_receipt) {
    Random random;
    std::vector<ModelPrice> set;
    for (int i = 0; i < 50; ++i) {
        ModelPrice& price = set.emplace_back(random.price());
        price.model = "m" + std::to_string(i) + std::string(static_cast<std::size_t>(random.below(150)), 'x');
        price.version = "set-" + std::to_string(i);
    }
    const PriceBook book(set);

    int costs = 0;
    for (int i = 0; i < 50'000; ++i) {
        const ModelPrice* price = book.find("p", set[static_cast<std::size_t>(random.below(50))].model, today);
        ASSERT_NE(price, nullptr);
        Metered metered = random.within(random.at_most());
        if (random.one_in(4)) metered.prompt_tokens = 0;
        const auto cost = cost_of(*price, metered);
        if (!cost) continue;

        const std::string receipt = receipt_of(*price, metered);
        ASSERT_LE(receipt.size(), receipt_bytes_max);
        ASSERT_EQ(cost_again(book, metered.usage, receipt), cost) << receipt;
        ++costs;
    }
    EXPECT_GT(costs, 30'000);
}

TEST(Prices, the_longest_receipt_fits_and_still_finds_its_price) {
    ModelPrice price = plain_price({.input = 1, .output = 1});
    price.model = std::string(250, 'm');
    price.version = std::string(200, 'v');
    price.variants["sixteen-letters-"] = price.tiers;
    const PriceBook book({price});
    Metered metered = metered_of({.input_tokens = counted_tokens_max, .output_tokens = counted_tokens_max});
    metered.audio_input_tokens = metered.audio_output_tokens = metered.paid_tools = counted_tokens_max;
    metered.prompt_tokens = counted_tokens_max - 1;
    metered.service_tier = "sixteen-letters-";

    const std::string receipt = receipt_of(price, metered);

    EXPECT_LE(receipt.size(), receipt_bytes_max);
    ASSERT_NE(book.find_receipt(receipt), nullptr);
    EXPECT_EQ(cost_again(book, metered.usage, receipt), cost_of(price, metered));
}

TEST(Prices, a_cut_name_is_cut_between_letters) {
    ModelPrice price = plain_price({.input = 1, .output = 1});
    for (int i = 0; i < 40; ++i) price.model += "m\u00f6\u20ac";
    for (int i = 0; i < 8; ++i) {
        price.provider += "p";
        const std::string receipt = receipt_of(price, {});

        EXPECT_LE(receipt.size(), receipt_bytes_max);
        EXPECT_GT(receipt.size(), receipt_bytes_max - 4);
        const std::string_view letters = std::string_view(receipt).substr(0, receipt.rfind('~'));
        EXPECT_TRUE(letters.ends_with("m") || letters.ends_with("\u00f6") || letters.ends_with("\u20ac")) << receipt;
        EXPECT_EQ(PriceBook({price}).find_receipt(receipt)->id(), price.id());
    }
}

TEST(Prices, a_receipt_gives_what_it_says_and_what_is_none_of_ours_nothing) {
    const PriceBook book({});
    EXPECT_EQ(book.find_receipt("anthropic/claude-sonnet-4-5@0.0.1"), nullptr);
    EXPECT_EQ(book.find_receipt(""), nullptr);
    EXPECT_EQ(metered_from({}, ""), std::nullopt);
    EXPECT_EQ(metered_from({}, "a/b@1;tools=many"), std::nullopt);
    EXPECT_EQ(cost_again(book, {}, "stated by the client"), std::nullopt);
    EXPECT_EQ(metered_from({.input_tokens = -1}, "a/b@1"), std::nullopt);
    const Usage usage{.input_tokens = 1, .output_tokens = 9, .cache_read_tokens = 20, .cache_write_1h_tokens = 300};
    EXPECT_EQ(metered_from(usage, "a/b@1").value().prompt_tokens, 321);
    EXPECT_EQ(metered_from(usage, "a/b@1;prompt=7").value().prompt_tokens, 7);
}

TEST(Prices, every_price_of_the_catalog_has_an_id_of_its_own) {
    const PriceBook book({});
    std::size_t prices = 0;
    for (const PriceCatalog::Row& row : PriceCatalog::carried().rows()) {
        for (const auto& entry : row.prices) {
            EXPECT_EQ(book.find_receipt(receipt_of(entry.price, {})), &entry.price) << entry.price.id();
            ++prices;
        }
    }
    EXPECT_GT(prices, 1'600u);
}

// ---- the book -------------------------------------------------------------------------------------------------------

TEST(PriceBook, names_are_found_as_providers_write_them) {
    const PriceBook book({});
    const auto found = [&](std::string_view provider, std::string_view model) {
        const ModelPrice* price = book.find(provider, model, today);
        return price == nullptr ? std::string("nothing") : price->provider + " " + price->model;
    };

    EXPECT_EQ(found("anthropic", "claude-sonnet-4-5-20250929"), "anthropic claude-sonnet-4-5");
    EXPECT_EQ(found("anthropic", "Claude-Fable-5-20260901"), "anthropic claude-fable-5");
    EXPECT_EQ(found("anthropic", "claude-fable-5-2026090"), "nothing");
    EXPECT_EQ(found("anthropic", "gpt-5"), "nothing");
    EXPECT_EQ(found("openai", "gpt-5.4-2026-03-05"), "openai gpt-5.4");
    EXPECT_EQ(found("openai", "gpt-5.4-20260305"), "openai gpt-5.4");
    EXPECT_EQ(found("azure", "gpt-5.4-2026-03-05"), "openai gpt-5.4");
    EXPECT_EQ(found("OpenRouter", "anthropic/claude-sonnet-4.5"), "openrouter anthropic/claude-sonnet-4.5");
    EXPECT_EQ(found("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
              "aws regional.anthropic.claude-sonnet-4-5-20250929-v1:0");
    EXPECT_EQ(found("gemini", "gemini-2.5-pro"), "google gemini-2.5-pro");
    EXPECT_EQ(found("google", "claude-opus-4-5@20251101"), "anthropic claude-opus-4-5");
    EXPECT_EQ(found("sim", "small"), "sim small");
    EXPECT_EQ(found("sim", "sim/small"), "sim small");
    EXPECT_EQ(found("openai", "sim/small"), "nothing");
    EXPECT_EQ(found("my-own-provider", "gpt-5"), "nothing");
    EXPECT_EQ(found("openai", "whisper-1"), "nothing");
    EXPECT_EQ(found("openai", ""), "nothing");
    EXPECT_EQ(found("openai", std::string(1'000, 'g')), "nothing");
}

TEST(PriceBook, a_price_has_its_time) {
    const PriceBook book({});
    const auto input_at = [&](std::string_view provider, std::string_view model, Instant at) {
        const ModelPrice* price = book.find(provider, model, at);
        return price == nullptr ? -1 : price->tiers.front().rates.input;
    };
    const Instant change = sys_days(std::chrono::year(2025) / 6 / 10);

    EXPECT_EQ(input_at("openai", "o3", change - 1us), 10'000'000);
    EXPECT_EQ(input_at("openai", "o3", change), 2'000'000);
    EXPECT_EQ(book.find("openai", "o3", change)->version, std::string(PriceBook::catalog_version()) + "#2");

    EXPECT_EQ(input_at("deepseek", "deepseek-v4-pro", today), 660'000);
    EXPECT_EQ(input_at("deepseek", "deepseek-v4-pro", today + 1h), 1'320'000);
    EXPECT_EQ(input_at("deepseek", "deepseek-v4-pro", today + 4h - 1us), 1'320'000);
    EXPECT_EQ(input_at("deepseek", "deepseek-v4-pro", today + 4h), 660'000);
}

TEST(PriceBook, what_was_set_wins_exact_names_first_then_the_pattern_that_says_most) {
    const auto set = [](std::string provider, std::string model, std::string version) {
        ModelPrice price = plain_price({.input = 1, .output = 1});
        price.provider = std::move(provider);
        price.model = std::move(model);
        price.version = std::move(version);
        return price;
    };
    const PriceBook book({set("openai", "gpt-*", "1"), set("openai", "gpt-5*", "2"), set("openai", "gpt-5", "3"),
                          set("openai", "gpt-5", "4"), set("*", "*-local", "5"), set("Bedrock", "*", "6"),
                          set("openai", "a*b*c", "7")});
    const auto version = [&](std::string_view provider, std::string_view model) {
        const ModelPrice* price = book.find(provider, model, today);
        return price == nullptr ? std::string("nothing") : price->version;
    };

    EXPECT_EQ(version("openai", "gpt-5"), "4");
    EXPECT_EQ(version("openai", "GPT-5-mini"), "2");
    EXPECT_EQ(version("openai", "gpt-4.1"), "1");
    EXPECT_EQ(version("openai", "o4-mini"), std::string(PriceBook::catalog_version()));
    EXPECT_EQ(version("ollama", "qwen-local"), "5");
    EXPECT_EQ(version("bedrock", "amazon.nova-pro-v1:0"), "6");
    EXPECT_EQ(version("openai", "axbxc"), "7");
    EXPECT_EQ(version("openai", "abc"), "7");
    EXPECT_EQ(version("openai", "abxbxc"), "7");
    EXPECT_EQ(version("openai", "acb"), "nothing");
    // Limits that were not set are the catalog's.
    EXPECT_EQ(book.find("openai", "gpt-5", today)->output_max, 128'000);
}

TEST(PriceBook, the_list_has_each_model_once_in_order) {
    ModelPrice own = plain_price({.input = 1, .output = 1});
    own.provider = "openai";
    own.model = "gpt-5";
    const PriceBook book({own});

    const auto all = book.list("", today);
    EXPECT_GT(all.size(), 1'600u);
    for (std::size_t i = 1; i < all.size(); ++i) {
        EXPECT_LT(std::pair(all[i - 1]->provider, all[i - 1]->model), std::pair(all[i]->provider, all[i]->model));
    }
    const auto some = book.list("openai/GPT-5", today);
    ASSERT_FALSE(some.empty());
    EXPECT_EQ(some.front()->version, "1");
    for (const ModelPrice* price : some)
        EXPECT_NE((price->provider + "/" + price->model).find("openai/gpt-5"), std::string::npos);
    EXPECT_TRUE(book.list("no such model", today).empty());
}

TEST(PriceBook, threads_may_ask_at_once_for_more_names_than_are_remembered) {
    const PriceBook book({});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&book, t] {
            for (int i = 0; i < 6'000; ++i) {
                const std::string model = "gpt-5.4-" + std::to_string(t) + "-" + std::to_string(i);
                EXPECT_EQ(book.find("openai", model, today), nullptr);
                EXPECT_NE(book.find("anthropic", "claude-haiku-4-5-20251001", today), nullptr);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST(PriceBook, another_catalog_can_take_the_place_of_the_one_carried) {
    const auto book =
        PriceBook::with_catalog({}, "catalog\t9.9\t2027-02-03\nprovider\tp\tq\t\np\tm\t.\t10/5\tin=1 out=2\n");
    ASSERT_TRUE(book.has_value()) << book.error();

    const ModelPrice* price = book->find("q", "M", today);
    ASSERT_NE(price, nullptr);
    EXPECT_EQ(price->id(), "p/m@9.9");
    EXPECT_EQ(price->input_max, 10);
    EXPECT_EQ(price->output_max, 5);
    EXPECT_EQ(book->version(), "9.9");
    EXPECT_EQ(book->date(), "2027-02-03");
    EXPECT_EQ(book->find("openai", "gpt-5", today), nullptr);
    EXPECT_EQ(PriceBook::catalog_date().size(), 10u);

    EXPECT_EQ(PriceBook::with_catalog({}, "").error(), "no model in it");
}

}  // namespace
}  // namespace interlock::gateway
