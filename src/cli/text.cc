#include "cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/calendar.h"

namespace interlock::cli {
namespace {

struct Range {
    char32_t first;
    char32_t last;
};

// The blocks that terminals draw two columns wide: East Asian Wide and Fullwidth, and emoji. Coarser than Unicode's
// table by some unassigned code points.
constexpr std::array wide{Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0x33FF},
                          Range{0x3400, 0x4DBF},   Range{0x4E00, 0x9FFF},   Range{0xA000, 0xA4CF},
                          Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},
                          Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},   Range{0x1F300, 0x1F64F},
                          Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};
constexpr std::array combining{Range{0x0300, 0x036F}, Range{0x1AB0, 0x1AFF}, Range{0x1DC0, 0x1DFF},
                               Range{0x200B, 0x200F}, Range{0x20D0, 0x20FF}, Range{0xFE00, 0xFE0F},
                               Range{0xFE20, 0xFE2F}};

struct Point {
    char32_t value;
    std::size_t bytes;
};

constexpr char32_t not_utf8 = 0xFFFD;

Point next_point(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return {first, 1};
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
    if (length == 0 || length > text.size()) return {not_utf8, 1};
    char32_t value = first & (0x7Fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0) != 0x80) return {not_utf8, 1};
        value = (value << 6) | (byte(i) & 0x3Fu);
    }
    return {value, length};
}

template <std::size_t N>
bool within(const std::array<Range, N>& ranges, char32_t value) {
    return std::ranges::any_of(ranges, [&](const Range& range) { return range.first <= value && value <= range.last; });
}

std::size_t width_of(char32_t value) { return within(combining, value) ? 0 : within(wide, value) ? 2 : 1; }

// C0, DEL and C1: a lone 0x9B starts an escape sequence on some terminals just as ESC [ does. The others make
// characters change places, so that a line reads otherwise than it is.
bool is_control(char32_t value) {
    return value < 0x20 || (value >= 0x7F && value < 0xA0) || (value >= 0x202A && value <= 0x202E) ||
           (value >= 0x2066 && value <= 0x2069);
}

template <class Replace>
std::string without_controls(std::string_view text, Replace replace) {
    std::string clean;
    while (!text.empty()) {
        const Point point = next_point(text);
        if (point.value == not_utf8) {
            clean += "\uFFFD";
        } else if (is_control(point.value)) {
            clean += replace(point.value);
        } else {
            clean += text.substr(0, point.bytes);
        }
        text.remove_prefix(point.bytes);
    }
    return clean;
}

}  // namespace

std::size_t display_width(std::string_view text) {
    std::size_t columns = 0;
    while (!text.empty()) {
        const Point point = next_point(text);
        columns += width_of(point.value);
        text.remove_prefix(point.bytes);
    }
    return columns;
}

std::string shortened(std::string_view text, std::size_t columns_max) {
    if (display_width(text) <= columns_max) return std::string(text);
    if (columns_max == 0) return "";
    std::string kept;
    std::size_t columns = 0;
    while (!text.empty()) {
        const Point point = next_point(text);
        columns += width_of(point.value);
        if (columns + 1 > columns_max) break;
        kept += text.substr(0, point.bytes);
        text.remove_prefix(point.bytes);
    }
    return kept + "…";
}

std::string padded(std::string_view text, std::size_t columns) {
    const std::size_t taken = display_width(text);
    return std::string(text) + std::string(columns > taken ? columns - taken : 0, ' ');
}

std::string one_line(std::string_view text) {
    return without_controls(text, [](char32_t control) {
        return control == '\n' || control == '\t' ? " " : control == '\r' ? "" : "\uFFFD";
    });
}

std::string printable(std::string_view text) {
    return without_controls(text, [](char32_t control) {
        return control == '\n' ? "\n" : control == '\t' ? "\t" : control == '\r' ? "" : "\uFFFD";
    });
}

std::string grouped(std::string_view number) {
    std::string text(number);
    const std::size_t first = text.starts_with('-') ? 1 : 0;
    const std::size_t point = std::min(text.find('.'), text.size());
    const bool digits = point > first && text.find_first_not_of("0123456789.", first) == std::string::npos;
    if (!digits) return text;
    for (std::size_t i = point; i > first + 3; i -= 3) text.insert(i - 3, ",");
    return text;
}

std::string money(std::string_view decimal) {
    std::string text(decimal);
    const std::string sign = text.starts_with('-') ? "-" : "";
    text.erase(0, sign.size());
    if (text.empty() || text.find_first_not_of("0123456789.") != std::string::npos) return std::string(decimal);

    if (text.find('.') == std::string::npos) text += '.';
    const std::size_t decimals_min = 2;
    while (text.size() - text.find('.') - 1 < decimals_min) text += '0';
    while (text.back() == '0' && text.size() - text.find('.') - 1 > decimals_min) text.pop_back();
    return sign + "$" + grouped(text);
}

std::string count(std::int64_t number) { return grouped(fmt::format("{}", number)); }

std::string count_of(std::int64_t number, std::string_view what) {
    return fmt::format("{} {}{}", count(number), what, number == 1 ? "" : "s");
}

std::string size(std::int64_t bytes) {
    constexpr std::array units{"B", "kB", "MB", "GB", "TB"};
    double amount = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (amount >= 999.5 && unit + 1 < units.size()) {
        amount /= 1000;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", amount, units[unit]);
}

std::string duration(std::chrono::microseconds length) {
    const double seconds = static_cast<double>(length.count()) / 1e6;
    if (seconds < 0.01) return fmt::format("{:.2f} ms", seconds * 1000);
    if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1000);
    const auto whole = static_cast<std::int64_t>(seconds);
    if (whole < 60) return fmt::format("{} s", whole);
    if (whole < 60 * 60) return fmt::format("{} min", whole / 60);
    const bool exact_to_the_minute = whole < 10 * 60 * 60 && whole % 3600 >= 60;
    if (exact_to_the_minute) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
    if (whole < 48 * 60 * 60) return fmt::format("{} h", whole / 3600);
    return fmt::format("{} d", whole / 86400);
}

std::optional<std::int64_t> seconds_from_text(std::string_view text) {
    std::int64_t number = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    const std::string_view unit(end, static_cast<std::size_t>(last - end));
    const std::int64_t seconds = unit.empty() || unit == "s" ? 1
                                 : unit == "m"               ? 60
                                 : unit == "h"               ? 3600
                                 : unit == "d"               ? 86400
                                                             : 0;
    std::int64_t all = 0;
    if (error != std::errc() || number < 0 || seconds == 0 || __builtin_mul_overflow(number, seconds, &all)) return {};
    return all;
}

std::string relative_time(Instant at, Instant now) {
    const Duration away = at > now ? at - now : now - at;
    if (away < std::chrono::seconds(1)) return "now";
    if (away >= std::chrono::days(30)) return to_iso8601(at).substr(0, 10);
    return at > now ? "in " + duration(away) : duration(away) + " ago";
}

Bar bar(Shares shares, std::size_t columns) {
    if (shares.limit <= 0) return {.free = columns};
    const auto marks = [&](double part, std::size_t room) {
        const double exact = part / shares.limit * static_cast<double>(columns);
        const auto rounded = static_cast<std::size_t>(std::clamp(std::round(exact), part > 0 ? 1.0 : 0.0, 1e6));
        return std::min(rounded, room);
    };
    Bar drawn;
    drawn.settled = marks(shares.settled, columns);
    drawn.held = marks(shares.held, columns - drawn.settled);
    drawn.free = columns - drawn.settled - drawn.held;
    return drawn;
}

std::string either(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
        text += words[i];
    }
    return text;
}

std::string in_hex(std::string_view bytes) {
    std::string text;
    for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
}

}  // namespace interlock::cli
