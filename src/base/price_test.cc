#include "base/price.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace interlock {
namespace {

using Counts = std::array<std::int64_t, 6>;
using PricesOfKinds = std::array<std::int64_t, 7>;

Usage usage_of(const Counts& count) {
    return {.input_tokens = count[0],
            .output_tokens = count[1],
            .cache_read_tokens = count[2],
            .cache_write_5m_tokens = count[3],
            .cache_write_1h_tokens = count[4],
            .reasoning_tokens = count[5]};
}

Prices prices_of(const PricesOfKinds& price) {
    return {.input = price[0],
            .output = price[1],
            .cache_read = price[2],
            .cache_write_5m = price[3],
            .cache_write_1h = price[4],
            .reasoning = price[5],
            .per_call = price[6]};
}

// What the cost is by definition. Each product is split into whole nano-dollars and the picos left over, so that the
// sums stay far from the ends of 128 bits and no check on the way is needed.
std::optional<Money> cost_by_definition(const Counts& count, const PricesOfKinds& price) {
    __int128 nanos = 0;
    __int128 picos = 0;
    for (std::size_t i = 0; i < price.size(); ++i) {
        const std::int64_t units = i < count.size() ? count[i] : 1;
        if (units < 0 || price[i] < 0) return std::nullopt;
        const __int128 product = static_cast<__int128>(units) * price[i];
        nanos += product / 1000;
        picos += product % 1000;
    }
    nanos += picos / 1000 + (picos % 1000 != 0 ? 1 : 0);
    if (nanos > INT64_MAX) return std::nullopt;
    return Money::nanos(static_cast<std::int64_t>(nanos));
}

TEST(Price, a_published_price_gives_the_published_cost) {
    // 3 dollars a million input tokens, 15 output, 0.30 cached: 3,000,000, 15,000,000 and 300,000 picos a token.
    const Prices prices{.input = 3'000'000, .output = 15'000'000, .cache_read = 300'000};
    const Usage usage{.input_tokens = 1'000, .output_tokens = 500, .cache_read_tokens = 10'000};

    EXPECT_EQ(cost_of(usage, prices), Money::nanos(3'000'000 + 7'500'000 + 3'000'000));
}

TEST(Price, the_cost_is_rounded_up_once_per_event_and_not_once_per_kind) {
    // Seven kinds with a tenth of a nano-dollar each are 0.7, so 1; rounded one by one they would be 7.
    EXPECT_EQ(cost_of(usage_of({1, 1, 1, 1, 1, 1}), prices_of({100, 100, 100, 100, 100, 100, 100})), Money::nanos(1));
    // 0.5 + 0.5 is a whole nano-dollar and is not rounded at all.
    EXPECT_EQ(cost_of(usage_of({1, 1, 0, 0, 0, 0}), prices_of({500, 500, 0, 0, 0, 0, 0})), Money::nanos(1));
    EXPECT_EQ(cost_of(usage_of({1, 1, 0, 0, 0, 0}), prices_of({500, 501, 0, 0, 0, 0, 0})), Money::nanos(2));
    EXPECT_EQ(cost_of(usage_of({3, 0, 0, 0, 0, 0}), prices_of({333, 0, 0, 0, 0, 0, 0})), Money::nanos(1));
}

TEST(Price, nothing_used_costs_nothing_and_a_pico_costs_a_nano) {
    EXPECT_EQ(cost_of({}, {}), Money());
    EXPECT_EQ(cost_of(usage_of({7, 7, 7, 7, 7, 7}), {}), Money());
    EXPECT_EQ(cost_of({}, prices_of({9, 9, 9, 9, 9, 9, 0})), Money());
    EXPECT_EQ(cost_of({}, {.per_call = 1}), Money::nanos(1));
}

TEST(Price, each_kind_is_paid_at_its_own_price) {
    // Powers of ten keep the parts apart in the sum: a kind paid at another's price shows.
    EXPECT_EQ(cost_of(usage_of({1, 2, 3, 4, 5, 6}),
                      prices_of({1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000, 7'000'000'000})),
              Money::nanos(7'654'321));
}

TEST(Price, a_negative_count_or_price_of_any_kind_has_no_cost) {
    for (std::size_t i = 0; i < 6; ++i) {
        Counts count = {1, 1, 1, 1, 1, 1};
        count[i] = -1;
        EXPECT_EQ(cost_of(usage_of(count), prices_of({1, 1, 1, 1, 1, 1, 1})), std::nullopt) << i;
        // Also where the price is 0, and the count could not have made a difference.
        EXPECT_EQ(cost_of(usage_of(count), {}), std::nullopt) << i;
        EXPECT_EQ(tokens_of(usage_of(count)), std::nullopt) << i;
    }
    for (std::size_t i = 0; i < 7; ++i) {
        PricesOfKinds price = {1, 1, 1, 1, 1, 1, 1};
        price[i] = INT64_MIN;
        EXPECT_EQ(cost_of(usage_of({1, 1, 1, 1, 1, 1}), prices_of(price)), std::nullopt) << i;
        EXPECT_EQ(cost_of({}, prices_of(price)), std::nullopt) << i;
    }
}

TEST(Price, a_cost_that_does_not_fit_is_empty_and_the_largest_that_fits_is_not) {
    constexpr std::int64_t max = INT64_MAX;
    EXPECT_EQ(cost_of(usage_of({max, 0, 0, 0, 0, 0}), {.input = 1000}), Money::max());
    EXPECT_EQ(cost_of(usage_of({max, 0, 0, 0, 0, 0}), {.input = 1000, .per_call = 1}), std::nullopt);
    EXPECT_EQ(cost_of(usage_of({max, 0, 0, 0, 0, 0}), {.input = 1001}), std::nullopt);
    // max - 1 nano-dollars and 999 picos round up to max; with one pico more they are max.
    EXPECT_EQ(cost_of(usage_of({max - 1, 0, 0, 0, 0, 0}), {.input = 1000, .per_call = 999}), Money::max());
    EXPECT_EQ(cost_of(usage_of({max - 1, 0, 0, 0, 0, 0}), {.input = 1000, .per_call = 1000}), Money::max());
    EXPECT_EQ(cost_of(usage_of({max - 1, 0, 0, 0, 0, 0}), {.input = 1000, .per_call = 1001}), std::nullopt);
    // All seven products at their largest pass 2^127 in the sum.
    EXPECT_EQ(cost_of(usage_of({max, max, max, max, max, max}), prices_of({max, max, max, max, max, max, max})),
              std::nullopt);
}

TEST(Price, the_cost_is_what_128_bit_arithmetic_says) {
    std::mt19937_64 random(20261115);
    const auto up_to_bits = [&](unsigned bits_max) {
        const auto value = static_cast<std::int64_t>(random() >> (64 - 1 - random() % bits_max));
        return random() % 200 == 0 ? -value : value;
    };
    int fitting = 0;
    int empty = 0;
    for (int i = 0; i < 200'000; ++i) {
        Counts count{};
        PricesOfKinds price{};
        const unsigned count_bits = 1 + static_cast<unsigned>(random() % 63);
        const unsigned price_bits = 1 + static_cast<unsigned>(random() % 63);
        for (std::int64_t& c : count) c = up_to_bits(count_bits);
        for (std::int64_t& p : price) p = up_to_bits(price_bits);

        const auto cost = cost_of(usage_of(count), prices_of(price));

        ASSERT_EQ(cost, cost_by_definition(count, price)) << "round " << i;
        ++(cost ? fitting : empty);
    }
    EXPECT_GT(fitting, 10'000);
    EXPECT_GT(empty, 10'000);
}

TEST(Price, the_tokens_of_an_event_are_those_of_every_kind) {
    EXPECT_EQ(tokens_of({}), 0);
    EXPECT_EQ(tokens_of(usage_of({1, 20, 300, 4'000, 50'000, 600'000})), 654'321);
    EXPECT_EQ(tokens_of(usage_of({INT64_MAX, 0, 0, 0, 0, 0})), INT64_MAX);
    EXPECT_EQ(tokens_of(usage_of({INT64_MAX, 0, 0, 0, 0, 1})), std::nullopt);
    EXPECT_EQ(tokens_of(usage_of({INT64_MAX, INT64_MAX, INT64_MAX, 0, 0, 0})), std::nullopt);
}

}  // namespace
}  // namespace interlock
