// Money: an exact count of nano-dollars in 64 bits, ± 9.2 billion dollars.
//
//   (1) No float ever touches an amount: not here, not in text, not on the wire.
//   (2) Nothing wraps around. There is no operator+: adding money is a decision, and the caller says what happens when
//       the sum does not fit.
//   (3) Text is exact both ways: what parses prints as the same amount, and digits finer than a nano-dollar are refused
//       rather than rounded.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace interlock {

class Money {
 public:
    static constexpr std::int64_t nanos_per_dollar = 1'000'000'000;

    constexpr Money() = default;
    static constexpr Money nanos(std::int64_t count) { return Money(count); }
    // For amounts written in the program; a number of dollars that does not fit does not compile into a constant.
    static constexpr Money dollars(std::int32_t count) { return Money(std::int64_t{count} * nanos_per_dollar); }
    static constexpr Money max() { return Money(INT64_MAX); }

    constexpr std::int64_t nanos() const { return nanos_; }
    constexpr bool positive() const { return nanos_ > 0; }
    constexpr bool negative() const { return nanos_ < 0; }

    friend constexpr auto operator<=>(Money, Money) = default;
    friend constexpr bool operator==(Money, Money) = default;

 private:
    constexpr explicit Money(std::int64_t count) : nanos_(count) {}
    std::int64_t nanos_ = 0;
};

// Empty when the result leaves the range.
constexpr std::optional<std::int64_t> checked_sum(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
    return sum;
}
constexpr std::optional<Money> checked_sum(Money a, Money b) {
    const auto sum = checked_sum(a.nanos(), b.nanos());
    return sum ? std::optional(Money::nanos(*sum)) : std::nullopt;
}
constexpr std::optional<Money> checked_difference(Money a, Money b) {
    std::int64_t difference = 0;
    if (__builtin_sub_overflow(a.nanos(), b.nanos(), &difference)) return std::nullopt;
    return Money::nanos(difference);
}

// "12.5", "-0.000000001", "3": dollars with at most nine decimals, no exponent, no blanks, no sign but a leading minus.
std::optional<Money> money_from_text(std::string_view text);
// The shortest text with at least two decimals: "12.50", "0.00075", "-3.00".
std::string to_text(Money amount);

}  // namespace interlock
