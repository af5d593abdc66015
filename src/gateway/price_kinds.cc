#include "gateway/price_kinds.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace interlock::gateway {
namespace {

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<std::int64_t> picos_from_text(std::string_view dollars, int decimals) {
    const std::size_t point = dollars.find('.');
    const std::string_view whole = dollars.substr(0, point);
    const std::string_view part = point == std::string_view::npos ? "" : dollars.substr(point + 1);
    if (whole.empty() || (point != std::string_view::npos && part.empty())) return std::nullopt;
    if (part.size() > static_cast<std::size_t>(decimals)) return std::nullopt;
    if (!std::ranges::all_of(whole, is_decimal_digit) || !std::ranges::all_of(part, is_decimal_digit))
        return std::nullopt;

    std::string digits(whole);
    digits += part;
    digits.append(static_cast<std::size_t>(decimals) - part.size(), '0');
    std::int64_t picos = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), picos);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return picos;
}

std::string text_of_picos(std::int64_t picos, int decimals) {
    std::string text = fmt::format("{:0{}}", picos, decimals + 1);
    text.insert(text.size() - static_cast<std::size_t>(decimals), 1, '.');
    const std::size_t size_min = text.size() - static_cast<std::size_t>(decimals) + 2;
    while (text.size() > size_min && text.back() == '0') text.pop_back();
    return text;
}

bool is_variant_name(std::string_view name) {
    return !name.empty() && name.size() <= variant_name_bytes_max && std::ranges::all_of(name, [](char c) {
        return is_decimal_digit(c) || (c >= 'a' && c <= 'z') || c == '_' || c == '-';
    });
}

}  // namespace interlock::gateway
