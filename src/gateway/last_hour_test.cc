#include "gateway/last_hour.h"

#include <gtest/gtest.h>

namespace interlock::gateway {
namespace {

using namespace std::chrono_literals;

// The beginning of a minute.
constexpr Instant noon = from_micros(std::int64_t{1'763'208'000} * 1'000'000);

TEST(LastHourTest, requests_count_in_their_minute_and_failures_among_them) {
    LastHour hour;
    hour.succeeded(noon + 1s, {});
    hour.failed(noon + 59s);
    hour.succeeded(noon + 61s, {});

    const auto sums = hour.sums(noon + 2min);

    EXPECT_EQ(sums.minutes, (std::vector<LastHour::Minute>{{noon, 2, 1}, {noon + 1min, 1, 0}}));
    EXPECT_EQ(sums.calls, 3);
    EXPECT_EQ(sums.errors, 1);
}

TEST(LastHourTest, what_is_older_than_an_hour_is_gone) {
    LastHour hour;
    hour.failed(noon);
    hour.succeeded(noon + 59min, {});

    EXPECT_EQ(hour.sums(noon + 59min + 59s).calls, 2);
    EXPECT_EQ(hour.sums(noon + 60min).calls, 1) << "also while nobody has taken its place";
    EXPECT_EQ(hour.sums(noon + 24h).calls, 0);

    hour.succeeded(noon + 60min, {});
    const auto sums = hour.sums(noon + 60min);
    EXPECT_EQ(sums.minutes, (std::vector<LastHour::Minute>{{noon + 59min, 1, 0}, {noon + 60min, 1, 0}}));
    EXPECT_EQ(sums.errors, 0);
}

TEST(LastHourTest, quantiles_are_of_answers_of_the_last_hour_only) {
    LastHour hour;
    for (int i = 0; i < 50; ++i) hour.succeeded(noon - 61min, {.first_byte = 60s, .all = 90s});
    for (int i = 0; i < 90; ++i) hour.succeeded(noon, {.first_byte = 100ms, .all = 1s});
    for (int i = 0; i < 10; ++i) hour.succeeded(noon + 1min, {.first_byte = 2s, .all = 8s});
    for (int i = 0; i < 1000; ++i) hour.failed(noon + 1min);

    const auto sums = hour.sums(noon + 1min);

    EXPECT_NEAR(*sums.first_byte.quantile(0.5), 0.1, 0.025);
    EXPECT_NEAR(*sums.first_byte.quantile(0.95), 2, 0.5);
    EXPECT_NEAR(*sums.duration.quantile(0.5), 1, 0.25);
    EXPECT_NEAR(*sums.duration.quantile(0.95), 8, 2);
    EXPECT_FALSE(LastHour().sums(noon).first_byte.quantile(0.5)) << "nothing was measured";
}

TEST(LastHourTest, what_was_not_measured_has_no_time) {
    LastHour hour;
    hour.succeeded(noon, {});

    EXPECT_EQ(hour.sums(noon).calls, 1);
    EXPECT_EQ(hour.sums(noon).duration.count(), 0u);
}

TEST(LastHourTest, a_clock_that_is_set_back_shows_nothing_of_the_future) {
    LastHour hour;
    hour.succeeded(noon + 30min, {});

    EXPECT_EQ(hour.sums(noon).calls, 0);
}

}  // namespace
}  // namespace interlock::gateway
