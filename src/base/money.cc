#include "base/money.h"

#include <fmt/format.h>

namespace interlock {

std::optional<Money> money_from_text(std::string_view text) {
    constexpr int decimals_max = 9;
    const bool negative = text.starts_with('-');
    if (negative) text.remove_prefix(1);

    // Digits are gathered as a negative number, whose range is the larger one: so the smallest amount parses too.
    std::int64_t value = 0;
    int digits_before_point = 0;
    int decimals = -1;  // -1: no point seen yet.
    const auto push_digit = [&value](int digit) {
        return !__builtin_mul_overflow(value, 10, &value) && !__builtin_sub_overflow(value, digit, &value);
    };
    for (const char c : text) {
        if (c == '.') {
            if (decimals >= 0 || digits_before_point == 0) return std::nullopt;
            decimals = 0;
            continue;
        }
        if (c < '0' || c > '9') return std::nullopt;
        if (decimals == decimals_max) return std::nullopt;
        if (!push_digit(c - '0')) return std::nullopt;
        decimals >= 0 ? ++decimals : ++digits_before_point;
    }
    if (digits_before_point == 0 || decimals == 0) return std::nullopt;

    for (int i = decimals < 0 ? 0 : decimals; i < decimals_max; ++i) {
        if (!push_digit(0)) return std::nullopt;
    }
    if (negative) return Money::nanos(value);
    if (value == INT64_MIN) return std::nullopt;
    return Money::nanos(-value);
}

std::string to_text(Money amount) {
    const std::int64_t nanos = amount.nanos();
    // The magnitude of the smallest amount does not fit a signed number.
    const auto magnitude = nanos < 0 ? ~static_cast<std::uint64_t>(nanos) + 1 : static_cast<std::uint64_t>(nanos);
    constexpr auto per_dollar = static_cast<std::uint64_t>(Money::nanos_per_dollar);
    std::string text = fmt::format("{}{}.{:09}", nanos < 0 ? "-" : "", magnitude / per_dollar, magnitude % per_dollar);
    const std::size_t decimals_min = text.size() - 7;
    while (text.size() > decimals_min && text.back() == '0') text.pop_back();
    return text;
}

}  // namespace interlock
