#include "cli/text.h"

#include <gtest/gtest.h>

#include "base/calendar.h"

namespace interlock::cli {
namespace {

using namespace std::chrono_literals;

TEST(Text, width_counts_columns_and_not_bytes) {
    EXPECT_EQ(display_width("agent"), 5u);
    EXPECT_EQ(display_width("Müller"), 6u);
    EXPECT_EQ(display_width("日本"), 4u);
    EXPECT_EQ(display_width("🚀"), 2u);
    EXPECT_EQ(display_width("e\u0301"), 1u);
    EXPECT_EQ(display_width("\xff\xfe"), 2u);
}

TEST(Text, shortened_text_ends_in_an_ellipsis_and_splits_no_character) {
    EXPECT_EQ(shortened("refactor", 8), "refactor");
    EXPECT_EQ(shortened("refactoring", 8), "refacto…");
    EXPECT_EQ(shortened("日本語", 4), "日…");
    EXPECT_EQ(shortened("日本語", 1), "…");
    EXPECT_EQ(shortened("x", 0), "");
}

TEST(Text, foreign_text_cannot_steer_the_terminal) {
    EXPECT_EQ(one_line("a\nb\tc\x1b[31m"), "a b c\uFFFD[31m");
    EXPECT_EQ(printable("a\nb\x1b]0;title\x07"), "a\nb\uFFFD]0;title\uFFFD");
    EXPECT_EQ(one_line("\xc2\x9b"
                       "31m"),
              "\uFFFD31m");
    EXPECT_EQ(one_line("\x9b"
                       "31m"),
              "\uFFFD31m");
}

TEST(Text, money_is_exact_and_has_at_least_two_decimals) {
    EXPECT_EQ(money("1234.5"), "$1,234.50");
    EXPECT_EQ(money("0.000750000"), "$0.00075");
    EXPECT_EQ(money("10"), "$10.00");
    EXPECT_EQ(money("-3.00"), "-$3.00");
    EXPECT_EQ(money("0.000000001"), "$0.000000001");
    EXPECT_EQ(money("1000000.00"), "$1,000,000.00");
    EXPECT_EQ(money("unknown"), "unknown");
    EXPECT_EQ(money(""), "");
}

TEST(Text, counts_are_grouped) {
    EXPECT_EQ(count(0), "0");
    EXPECT_EQ(count(999), "999");
    EXPECT_EQ(count(-1234567), "-1,234,567");
    EXPECT_EQ(grouped("x1000"), "x1000");
    EXPECT_EQ(count_of(1, "run"), "1 run");
    EXPECT_EQ(count_of(1200, "run"), "1,200 runs");
}

TEST(Text, sizes_carry_their_unit) {
    EXPECT_EQ(size(0), "0 B");
    EXPECT_EQ(size(999), "999 B");
    EXPECT_EQ(size(1'234'567), "1.2 MB");
    EXPECT_EQ(size(999'999'999), "1.0 GB");
}

TEST(Text, times_are_relative_up_to_thirty_days) {
    const Instant now = *from_iso8601("2026-11-15T12:00:00Z");

    EXPECT_EQ(relative_time(now, now), "now");
    EXPECT_EQ(relative_time(now - 12s, now), "12 s ago");
    EXPECT_EQ(relative_time(now - 185s, now), "3 min ago");
    EXPECT_EQ(relative_time(now + 119min, now), "in 1 h 59 min");
    EXPECT_EQ(relative_time(now - 30h, now), "30 h ago");
    EXPECT_EQ(relative_time(now - 96h, now), "4 d ago");
    EXPECT_EQ(relative_time(now - 31 * 24h, now), "2026-10-15");
}

TEST(Text, a_bar_shows_every_part_that_is_not_zero) {
    const Bar half = bar({.settled = 5, .held = 1, .limit = 10}, 20);
    EXPECT_EQ(half.settled, 10u);
    EXPECT_EQ(half.held, 2u);
    EXPECT_EQ(half.free, 8u);

    const Bar traces = bar({.settled = 0.0001, .held = 0.0001, .limit = 10}, 20);
    EXPECT_EQ(traces.settled, 1u);
    EXPECT_EQ(traces.held, 1u);

    const Bar over = bar({.settled = 30, .held = 1, .limit = 10}, 20);
    EXPECT_EQ(over.settled, 20u);
    EXPECT_EQ(over.held + over.free, 0u);
    EXPECT_EQ(bar({.settled = 1, .held = 0, .limit = 0}, 20).free, 20u);
}

TEST(Text, alternatives_read_as_a_sentence) {
    EXPECT_EQ(either({"a"}), "a");
    EXPECT_EQ(either({"a", "b"}), "a or b");
    EXPECT_EQ(either({"a", "b", "c"}), "a, b or c");
}

TEST(TextTest, a_length_of_time_is_a_number_and_a_unit) {
    EXPECT_EQ(seconds_from_text("90"), 90);
    EXPECT_EQ(seconds_from_text("90s"), 90);
    EXPECT_EQ(seconds_from_text("15m"), 900);
    EXPECT_EQ(seconds_from_text("2h"), 7200);
    EXPECT_EQ(seconds_from_text("1d"), 86400);
    EXPECT_EQ(seconds_from_text("0"), 0);
    for (const char* wrong : {"", "s", "-5s", "1.5h", "5 m", "5min", "99999999999999999d", "1h30m"}) {
        EXPECT_FALSE(seconds_from_text(wrong).has_value()) << wrong;
    }
}

}  // namespace
}  // namespace interlock::cli
