// The expected texts are made by an own printer that works on 128-bit integers, so that it shares neither the signs nor
// the overflow checks with what it checks.
#include "base/money.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>

namespace interlock {
namespace {

// An amount is made by name only, and adding two of them is not an expression.
static_assert(!std::is_convertible_v<std::int64_t, Money> && !std::is_constructible_v<Money, std::int64_t>);
static_assert(!std::is_convertible_v<double, Money> && !std::is_constructible_v<Money, double>);
static_assert(!std::is_convertible_v<Money, std::int64_t> && !std::is_convertible_v<Money, bool>);
template <class T>
concept CanBeAdded = requires(T a) { a + a; };
static_assert(!CanBeAdded<Money> && CanBeAdded<int>);
static_assert(Money::dollars(INT32_MAX).nanos() == 2'147'483'647'000'000'000 && Money() == Money::nanos(0));
static_assert(checked_sum(Money::max(), Money::nanos(1)) == std::nullopt, "checked arithmetic works at compile time");

constexpr Money smallest = Money::nanos(INT64_MIN);

// All nine decimals, always.
std::string in_full(std::int64_t nanos) {
    const auto wide = static_cast<__int128>(nanos);
    auto rest = wide < 0 ? -wide : wide;
    std::string digits;
    for (int i = 0; i < 9 || rest > 0 || i < 10; ++i, rest /= 10) {
        if (i == 9) digits.insert(digits.begin(), '.');
        digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
    }
    return (wide < 0 ? "-" : "") + digits;
}

// Numbers of every size, and above all those near the edges.
class AnyNumber {
 public:
    std::int64_t operator()() {
        const auto bits = random_();
        switch (random_() % 4) {
            case 0:
                return static_cast<std::int64_t>(bits);
            case 1:
                return static_cast<std::int64_t>(bits >> (random_() % 64)) * (random_() % 2 ? 1 : -1);
            case 2:
                return random_() % 2 ? INT64_MAX - static_cast<std::int64_t>(bits % 1000)
                                     : INT64_MIN + static_cast<std::int64_t>(bits % 1000);
            default:
                return static_cast<std::int64_t>(bits % 2001) - 1000;
        }
    }

 private:
    std::mt19937_64 random_{20261115};
};

TEST(Money, prints_the_shortest_text_with_at_least_two_decimals) {
    EXPECT_EQ(to_text(Money()), "0.00");
    EXPECT_EQ(to_text(Money::dollars(3)), "3.00");
    EXPECT_EQ(to_text(Money::dollars(-3)), "-3.00");
    EXPECT_EQ(to_text(Money::nanos(12'500'000'000)), "12.50");
    EXPECT_EQ(to_text(Money::nanos(750'000)), "0.00075");
    EXPECT_EQ(to_text(Money::nanos(1)), "0.000000001");
    EXPECT_EQ(to_text(Money::nanos(-1)), "-0.000000001");
    EXPECT_EQ(to_text(Money::nanos(100'000'000)), "0.10");
    EXPECT_EQ(to_text(Money::nanos(999'999'999)), "0.999999999");
    EXPECT_EQ(to_text(Money::max()), "9223372036.854775807");
    EXPECT_EQ(to_text(smallest), "-9223372036.854775808");
}

TEST(Money, reads_every_amount_there_is_up_to_both_ends) {
    EXPECT_EQ(money_from_text("0"), Money());
    EXPECT_EQ(money_from_text("-0"), Money());
    EXPECT_EQ(money_from_text("-0.00"), Money());
    EXPECT_EQ(money_from_text("3"), Money::dollars(3));
    EXPECT_EQ(money_from_text("12.5"), Money::nanos(12'500'000'000));
    EXPECT_EQ(money_from_text("0.00075"), Money::nanos(750'000));
    EXPECT_EQ(money_from_text("-0.000000001"), Money::nanos(-1));
    EXPECT_EQ(money_from_text("007.10"), Money::nanos(7'100'000'000));
    EXPECT_EQ(money_from_text("00000000000000000000000000.01"), Money::nanos(10'000'000));
    EXPECT_EQ(money_from_text("9223372036.854775807"), Money::max());
    EXPECT_EQ(money_from_text("-9223372036.854775808"), smallest);
    EXPECT_EQ(money_from_text("-9223372036.854775807"), Money::nanos(INT64_MIN + 1));
}

TEST(Money, refuses_every_text_that_is_not_an_exact_amount) {
    using namespace std::string_view_literals;
    constexpr std::array refused = {
        ""sv,
        "-"sv,
        "."sv,
        "-."sv,
        "--1"sv,
        "+1"sv,
        "-+1"sv,
        " 1"sv,
        "1 "sv,
        "1\n"sv,
        "1."sv,
        ".5"sv,
        "-.5"sv,
        "1..2"sv,
        "1.2.3"sv,
        "1.-5"sv,
        "1-"sv,
        "1e3"sv,
        "1E3"sv,
        "0x1"sv,
        "1,5"sv,
        "1_000"sv,
        "1'000"sv,
        "$1"sv,
        "1USD"sv,
        "NaN"sv,
        "nan"sv,
        "inf"sv,
        "-inf"sv,
        "1\0"sv,
        "\0"sv,
        "1\0002"sv,
        "\xD9\xA1"sv /* an Arabic one */,
        "\xEF\xBC\x91"sv /* a wide one */,
        // Finer than a nano-dollar, even if only in zeros.
        "1.0000000001"sv,
        "0.0000000000"sv,
        // Too much, by one and by far.
        "9223372036.854775808"sv,
        "-9223372036.854775809"sv,
        "9223372036.9"sv,
        "9223372037"sv,
        "-9223372037"sv,
        "18446744073.709551616"sv,
        "18446744073.709551617"sv,
        "99999999999999999999"sv,
        "340282366920938463463374607431.768211456"sv,
    };

    for (const std::string_view text : refused) EXPECT_EQ(money_from_text(text), std::nullopt) << '"' << text << '"';
}

TEST(Money, text_is_exact_both_ways_for_any_amount) {
    AnyNumber any_number;
    for (int i = 0; i < 200'000; ++i) {
        const Money amount = Money::nanos(any_number());
        const std::string full = in_full(amount.nanos());
        const std::string text = to_text(amount);

        ASSERT_EQ(money_from_text(text), amount) << text;
        ASSERT_EQ(money_from_text(full), amount) << full;

        // The text is the full one without some of its last zeros, and nothing but zeros may be missing.
        const std::string missing(full.size() - std::min(text.size(), full.size()), '0');
        ASSERT_EQ(text + missing, full);
        const std::size_t decimals = text.size() - text.find('.') - 1;
        ASSERT_TRUE(decimals == 2 || (decimals > 2 && text.back() != '0')) << text;
    }
}

TEST(Money, whatever_parses_is_digits_with_at_most_one_point_and_one_leading_minus) {
    constexpr std::string_view letters = "00112345678999..--+ eEx,";
    std::mt19937_64 random(7);
    int parsed = 0;
    for (int i = 0; i < 300'000; ++i) {
        std::string text;
        for (auto length = random() % 8; length > 0; --length) text += letters[random() % letters.size()];

        const auto amount = money_from_text(text);
        if (!amount) continue;
        ++parsed;

        const std::string_view magnitude = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
        ASSERT_FALSE(magnitude.empty());
        ASSERT_EQ(magnitude.find_first_not_of("0123456789."), std::string_view::npos) << text;
        ASSERT_EQ(magnitude.find('.'), magnitude.rfind('.')) << text;
        ASSERT_FALSE(magnitude.starts_with('.') || magnitude.ends_with('.')) << text;
    }
    EXPECT_GT(parsed, 10'000) << "the loop is to meet texts of both kinds";
}

TEST(Money, sums_and_differences_are_exact_or_empty) {
    AnyNumber any_number;
    int empty = 0;
    const auto fits = [](__int128 wide) { return wide >= INT64_MIN && wide <= INT64_MAX; };
    const auto expected = [&](__int128 wide) {
        if (!fits(wide)) ++empty;
        return fits(wide) ? std::optional(Money::nanos(static_cast<std::int64_t>(wide))) : std::nullopt;
    };
    for (int i = 0; i < 200'000; ++i) {
        const std::int64_t a = any_number();
        const std::int64_t b = any_number();

        ASSERT_EQ(checked_sum(Money::nanos(a), Money::nanos(b)), expected(static_cast<__int128>(a) + b))
            << a << ' ' << b;
        ASSERT_EQ(checked_difference(Money::nanos(a), Money::nanos(b)), expected(static_cast<__int128>(a) - b))
            << a << ' ' << b;
    }
    EXPECT_GT(empty, 10'000) << "the loop is to meet sums of both kinds";
}

TEST(Money, is_ordered_as_its_nanos_are) {
    EXPECT_LT(smallest, Money::nanos(-1));
    EXPECT_LT(Money::nanos(-1), Money());
    EXPECT_LT(Money::nanos(1), Money::max());

    EXPECT_TRUE(Money::nanos(1).positive() && !Money::nanos(1).negative());
    EXPECT_TRUE(Money::nanos(-1).negative() && !Money::nanos(-1).positive());
    EXPECT_FALSE(Money().positive() || Money().negative());
}

}  // namespace
}  // namespace interlock
