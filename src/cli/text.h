// Text for people: how wide it is, and how money, counts, times and shares are written.
//
//   (1) Nothing here rounds money. What is printed is the amount, to the last digit.
//   (2) Text that came from elsewhere cannot steer the terminal: control characters are replaced before they are shown.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"

namespace interlock::cli {

// In columns of a terminal: wide characters and emoji take two, combining marks none. A byte that is not UTF-8 takes
// one.
std::size_t display_width(std::string_view text);
// At most this many columns; what was cut is marked with "…".
std::string shortened(std::string_view text, std::size_t columns_max);
// Fills up to so many columns with blanks; longer text stays as it is.
std::string padded(std::string_view text, std::size_t columns);

// On one line, without control characters.
std::string one_line(std::string_view text);
// Keeps line breaks and tabs, and nothing else that could steer a terminal.
std::string printable(std::string_view text);

// "1234.5" → "$1,234.50", "0.000750000" → "$0.00075". Text that is no number comes back as it is.
std::string money(std::string_view decimal);
// "1234567" → "1,234,567"; decimals stay.
std::string grouped(std::string_view number);
std::string count(std::int64_t number);
// "1 run", "2 runs"
std::string count_of(std::int64_t number, std::string_view what);
// "0 B", "12.3 MB"
std::string size(std::int64_t bytes);
// "0.85 ms", "12 s", "3 min", "2 h", "4 d"
std::string duration(std::chrono::microseconds length);
// "90", "90s", "15m", "2h", "1d" → seconds.
std::optional<std::int64_t> seconds_from_text(std::string_view text);
// "now", "3 min ago", "in 2 h"; what is more than thirty days away is a date.
std::string relative_time(Instant at, Instant now);

// Parts of a whole, drawn `columns` wide. A part that is not zero shows at least one mark while there is room.
struct Shares {
    double settled = 0;
    double held = 0;
    double limit = 0;
};
struct Bar {
    std::size_t settled = 0;
    std::size_t held = 0;
    std::size_t free = 0;
};
Bar bar(Shares shares, std::size_t columns);

// "a", "a or b", "a, b or c"
std::string either(const std::vector<std::string>& words);

std::string in_hex(std::string_view bytes);

}  // namespace interlock::cli
