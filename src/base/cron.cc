#include "base/cron.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <utility>
#include <vector>

#include "base/ensure.h"

namespace interlock {

namespace {

using std::chrono::days;
using std::chrono::local_days;
using std::chrono::minutes;

constexpr std::uint64_t all_hours = (std::uint64_t{1} << 24) - 1;
// The same date falls on the same weekday again after at most 40 years (a February 29 around 2100), so a search this
// long that found nothing would never find anything.
constexpr int search_years_max = 41;

std::optional<Instant> next_first_time(const Cron& cron, const Zone& zone, Instant after);
std::optional<Instant> next_time(const Cron& cron, const Zone& zone, Instant after);
bool due_in_gap_before(const Cron& cron, const Zone& zone, const OffsetSpan& span);
std::optional<LocalTime> next_local(const CronFields& fields, LocalTime from);
std::uint64_t due_days(const CronFields& fields, std::chrono::year_month month);
std::optional<minutes> next_time_of_day(const CronFields& fields, minutes from);

}  // namespace

std::optional<Instant> next_after(const Cron& cron, const Zone& zone, Instant after) {
    after = std::max(after, far_past - instant_step);
    if (after >= far_future) return std::nullopt;

    const bool repeats = cron.fields().minutes_repeat || cron.every_hour();
    const auto next = repeats ? next_time(cron, zone, after) : next_first_time(cron, zone, after);
    if (!next || *next >= far_future) return std::nullopt;

    ensure(*next > after, "invariant (2)");
    return next;
}

bool Cron::every_hour() const { return fields_.hours == all_hours; }

namespace {

// "When the wall clock first comes to a due time" is both rules in one: a skipped time is come to at the end of its
// gap, a repeated one only once.
std::optional<Instant> next_first_time(const Cron& cron, const Zone& zone, Instant after) {
    const auto local = next_local(cron.fields(), furthest_local(zone, after) + instant_step);
    if (!local) return std::nullopt;
    return first_instant(zone, *local);
}

// Every due time that the wall clock shows, however often, one stretch of equal offset after the other.
std::optional<Instant> next_time(const Cron& cron, const Zone& zone, Instant after) {
    for (Instant from = after + instant_step; from < far_future;) {
        const OffsetSpan span = offset_at(zone, from);
        if (from == span.start && !cron.every_hour() && due_in_gap_before(cron, zone, span)) return from;

        const auto local = next_local(cron.fields(), LocalTime((from + span.offset).time_since_epoch()));
        if (!local) return std::nullopt;
        const Instant next = Instant(local->time_since_epoch()) - span.offset;
        if (next < span.end) return next;
        from = span.end;
    }
    return std::nullopt;
}

// Whether the clock skipped a due time when `span` began.
bool due_in_gap_before(const Cron& cron, const Zone& zone, const OffsetSpan& span) {
    const OffsetSpan before = offset_at(zone, span.start - instant_step);
    const LocalTime gap_start((span.start + before.offset).time_since_epoch());
    const LocalTime gap_end((span.start + span.offset).time_since_epoch());
    if (gap_start >= gap_end) return false;
    const auto local = next_local(cron.fields(), gap_start);
    return local && *local < gap_end;
}

// Goes by months, then by the days due in the month, then by the hours and minutes: each step is a look at a few bits.
std::optional<LocalTime> next_local(const CronFields& fields, LocalTime from) {
    const auto from_minute = std::chrono::ceil<minutes>(from);
    const auto from_day = std::chrono::floor<days>(from_minute);
    const std::chrono::year_month_day start(from_day);

    auto month = start.year() / start.month();
    const auto month_end = month + std::chrono::years(search_years_max);
    for (; month < month_end; month += std::chrono::months(1)) {
        if ((fields.months >> static_cast<unsigned>(month.month()) & 1) == 0) continue;
        std::uint64_t due = due_days(fields, month);
        for (; due != 0; due &= due - 1) {
            const local_days day(month / std::chrono::day(static_cast<unsigned>(std::countr_zero(due))));
            if (day < from_day) continue;
            const auto time = next_time_of_day(fields, day == from_day ? from_minute - from_day : minutes(0));
            if (time) return day + *time;
        }
    }
    return std::nullopt;
}

std::uint64_t due_days(const CronFields& fields, std::chrono::year_month month) {
    const auto last = static_cast<unsigned>((month / std::chrono::last).day());
    const std::uint64_t in_month = ((std::uint64_t{1} << last) - 1) << 1;

    // The week, turned so that bit 0 is the weekday of the 1st, and laid out five times over the month.
    constexpr std::uint64_t every_seventh = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
    const unsigned first = std::chrono::weekday(local_days(month / 1)).c_encoding();
    const std::uint64_t week = (fields.weekdays >> first | fields.weekdays << (7 - first)) & 0x7f;
    const std::uint64_t by_weekday = (week * every_seventh) << 1;

    const std::uint64_t due = fields.either_day_fits ? fields.days | by_weekday : fields.days & by_weekday;
    return due & in_month;
}

std::optional<minutes> next_time_of_day(const CronFields& fields, minutes from) {
    const auto hour = static_cast<int>(from.count() / 60);
    const auto minute = static_cast<int>(from.count() % 60);
    const auto at = [](int h, int m) { return std::chrono::hours(h) + minutes(m); };

    if (fields.hours >> hour & 1) {
        const std::uint64_t left = fields.minutes >> minute << minute;
        if (left != 0) return at(hour, std::countr_zero(left));
    }
    const std::uint64_t later_hours = fields.hours >> (hour + 1) << (hour + 1);
    if (later_hours == 0) return std::nullopt;
    return at(std::countr_zero(later_hours), std::countr_zero(fields.minutes));
}

// ---- Reading
// ---------------------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 12> month_names = {"jan", "feb", "mar", "apr", "may", "jun",
                                                          "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> weekday_names = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct FieldKind {
    std::string_view name;
    std::string_view plural;
    int first;
    int last;
    const std::string_view* names = nullptr;  // From `first` to `last`, or none.
    // Weekdays go round: after `last` comes `first` again, which may also be written as last + 1.
    bool goes_round = false;

    constexpr int count() const { return last - first + 1; }
    constexpr int last_written() const { return goes_round ? last + 1 : last; }
};

constexpr FieldKind minute_kind{.name = "minute", .plural = "minutes", .first = 0, .last = 59};
constexpr FieldKind hour_kind{.name = "hour", .plural = "hours", .first = 0, .last = 23};
constexpr FieldKind day_kind{.name = "day of month", .plural = "days of the month", .first = 1, .last = 31};
constexpr FieldKind month_kind{
    .name = "month", .plural = "months", .first = 1, .last = 12, .names = month_names.data()};
constexpr FieldKind weekday_kind{.name = "day of week",
                                 .plural = "days of the week",
                                 .first = 0,
                                 .last = 6,
                                 .names = weekday_names.data(),
                                 .goes_round = true};

Result<std::string_view, CronError> expand_macro(std::string_view text);
std::vector<std::string_view> split_words(std::string_view text);
Result<std::uint64_t, CronError> parse_field(const FieldKind& kind, std::string_view text);
Result<std::uint64_t, CronError> parse_item(const FieldKind& kind, std::string_view text);
Result<std::pair<int, int>, CronError> parse_range(const FieldKind& kind, std::string_view text);
Result<int, CronError> parse_value(const FieldKind& kind, std::string_view text);
Result<int, CronError> parse_step(const FieldKind& kind, std::string_view text);
std::optional<int> read_number(std::string_view text);
std::string lower(std::string_view text);
std::string shown(std::string_view text);
auto refuse(std::string_view field, std::string what) {
    return fail(CronError{.field = std::string(field), .what = std::move(what)});
}

}  // namespace

Result<Cron, CronError> parse_cron(std::string_view text) {
    if (text.size() > cron_text_max) {
        return refuse("expression",
                      fmt::format("{} characters are too many; {} is the most", text.size(), cron_text_max));
    }
    auto words = split_words(text);
    if (words.empty()) return refuse("expression", "it is empty; five fields are needed");
    if (words.front().starts_with('@')) {
        if (words.size() > 1) return refuse("expression", fmt::format("nothing may follow {}", shown(words.front())));
        const auto fields = expand_macro(words.front());
        if (!fields) return fail(fields.error());
        words = split_words(*fields);
    }
    if (words.size() != 5) {
        return refuse("expression",
                      fmt::format("{} field{} where five are needed: minute, hour, day of month, month, day of week",
                                  words.size(), words.size() == 1 ? "" : "s"));
    }

    const auto minute = parse_field(minute_kind, words[0]);
    if (!minute) return fail(minute.error());
    const auto hour = parse_field(hour_kind, words[1]);
    if (!hour) return fail(hour.error());
    const auto day = parse_field(day_kind, words[2]);
    if (!day) return fail(day.error());
    const auto month = parse_field(month_kind, words[3]);
    if (!month) return fail(month.error());
    const auto weekday = parse_field(weekday_kind, words[4]);
    if (!weekday) return fail(weekday.error());

    return Cron(CronFields{.minutes = *minute,
                           .hours = *hour,
                           .days = *day,
                           .months = *month,
                           .weekdays = *weekday,
                           .either_day_fits = !words[2].starts_with('*') && !words[4].starts_with('*'),
                           .minutes_repeat = words[0].starts_with('*')});
}

namespace {

Result<std::string_view, CronError> expand_macro(std::string_view text) {
    const std::string macro = lower(text);
    if (macro == "@hourly") return "0 * * * *";
    if (macro == "@daily" || macro == "@midnight") return "0 0 * * *";
    if (macro == "@weekly") return "0 0 * * 0";
    if (macro == "@monthly") return "0 0 1 * *";
    if (macro == "@yearly" || macro == "@annually") return "0 0 1 1 *";
    return refuse("expression", fmt::format("{} is not known; there are @hourly, @daily, @midnight, @weekly, @monthly, "
                                            "@yearly and @annually",
                                            shown(text)));
}

std::vector<std::string_view> split_words(std::string_view text) {
    constexpr std::string_view blanks = " \t";
    std::vector<std::string_view> words;
    for (auto start = text.find_first_not_of(blanks); start != text.npos;) {
        const auto end = std::min(text.find_first_of(blanks, start), text.size());
        words.push_back(text.substr(start, end - start));
        start = text.find_first_not_of(blanks, end);
    }
    return words;
}

Result<std::uint64_t, CronError> parse_field(const FieldKind& kind, std::string_view text) {
    std::uint64_t bits = 0;
    for (std::size_t start = 0; start <= text.size();) {
        const std::size_t end = std::min(text.find(',', start), text.size());
        if (end == start) return refuse(kind.name, fmt::format("{} has an empty place in its list", shown(text)));
        const auto item = parse_item(kind, text.substr(start, end - start));
        if (!item) return item;
        bits |= *item;
        start = end + 1;
    }
    ensure(bits != 0, "every item allows at least its first value");
    return bits;
}

// "*", "3", "3-7", and each of them with "/2" behind it.
Result<std::uint64_t, CronError> parse_item(const FieldKind& kind, std::string_view text) {
    const auto slash = text.find('/');
    const std::string_view range_text = text.substr(0, slash);

    auto range = parse_range(kind, range_text);
    if (!range) return fail(range.error());
    auto [low, high] = *range;
    int step = 1;
    if (slash != text.npos) {
        const auto parsed = parse_step(kind, text.substr(slash + 1));
        if (!parsed) return fail(parsed.error());
        step = *parsed;
        // 5/15 is "from 5 on, every 15".
        if (range_text.find('-') == text.npos) high = kind.last;
    }

    // A range of weekdays may be counted past the end of the week: fri-mon is 5 to 8, and 7 and 8 are 0 and 1 again.
    std::uint64_t bits = 0;
    for (int value = low; value <= high; value += step) {
        bits |= std::uint64_t{1} << (kind.goes_round ? value % kind.count() : value);
    }
    return bits;
}

Result<std::pair<int, int>, CronError> parse_range(const FieldKind& kind, std::string_view text) {
    if (text == "*") return std::pair(kind.first, kind.last);
    if (text.empty()) return refuse(kind.name, "a step needs something before its slash, such as */5");
    const auto dash = text.find('-');
    const auto low = parse_value(kind, text.substr(0, dash));
    if (!low) return fail(low.error());
    if (dash == text.npos) {
        const int value = kind.goes_round ? *low % kind.count() : *low;
        return std::pair(value, value);
    }

    const auto high = parse_value(kind, text.substr(dash + 1));
    if (!high) return fail(high.error());
    if (*low <= *high) return std::pair(*low, *high);
    if (kind.goes_round) return std::pair(*low, *high + kind.count());
    return refuse(kind.name, fmt::format("{0} runs backwards; write {1}-{2},{3}-{4}", shown(text), *low, kind.last,
                                         kind.first, *high));
}

Result<int, CronError> parse_value(const FieldKind& kind, std::string_view text) {
    if (text.empty()) return refuse(kind.name, "a range needs a value on both sides of its dash");
    if (const auto number = read_number(text)) {
        const auto out_of_range = [&](std::string_view side, int limit) {
            return refuse(kind.name, fmt::format("{} is {} {}; {} are {} to {}", shown(text), side, limit, kind.plural,
                                                 kind.first, kind.last_written()));
        };
        if (*number < kind.first) return out_of_range("before", kind.first);
        if (*number > kind.last_written()) return out_of_range("past", kind.last_written());
        return *number;
    }
    if (kind.names == nullptr) {
        return refuse(kind.name, fmt::format("{} is not a number; {} are {} to {}", shown(text), kind.plural,
                                             kind.first, kind.last_written()));
    }
    const std::string_view* names_end = kind.names + kind.count();
    const std::string_view* found = std::find(kind.names, names_end, lower(text));
    if (found != names_end) return kind.first + static_cast<int>(found - kind.names);
    return refuse(kind.name, fmt::format("{} is neither a number from {} to {} nor a name from {} to {}", shown(text),
                                         kind.first, kind.last_written(), *kind.names, *(names_end - 1)));
}

Result<int, CronError> parse_step(const FieldKind& kind, std::string_view text) {
    if (text.empty()) return refuse(kind.name, "a step needs a number behind its slash");
    const auto step = read_number(text);
    if (!step) return refuse(kind.name, fmt::format("{} is not a step; steps are 1 to {}", shown(text), kind.count()));
    if (*step == 0) return refuse(kind.name, fmt::format("a step of 0 goes nowhere; steps are 1 to {}", kind.count()));
    // Other crons take */90 and run it every hour; whoever wrote it meant something else.
    if (*step > kind.count()) {
        return refuse(kind.name, fmt::format("a step of {} is longer than the field; steps are 1 to {}", shown(text),
                                             kind.count()));
    }
    return *step;
}

// Empty unless the text is digits only. A number too long to matter comes back as one that is past every limit.
std::optional<int> read_number(std::string_view text) {
    constexpr int past_every_limit = 1000;
    if (text.empty()) return std::nullopt;
    int value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return std::nullopt;
        value = std::min(value * 10 + (c - '0'), past_every_limit);
    }
    return value;
}

// ASCII only, whatever the locale.
std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return result;
}

// A piece of the expression as it may stand in a message: short, and without anything a terminal would obey.
std::string shown(std::string_view text) {
    constexpr std::size_t shown_max = 24;
    std::string result(text.substr(0, shown_max));
    for (char& c : result) {
        if (c < ' ' || c > '~') c = '?';
    }
    if (text.size() > shown_max) result += "...";
    return result;
}

}  // namespace

}  // namespace interlock
