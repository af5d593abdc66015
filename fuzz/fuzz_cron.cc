// A schedule as a person writes it: next_after() is later than the time it is given, the expression is due then, and it
// is not due in between. The fields are those of the expression when they are written out as lists.
//
// An input has three lines: a time zone, a time and the expression. UTC and a fixed time stand for the first two where
// they cannot be read.
#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "base/calendar.h"
#include "base/cron.h"
#include "base/ensure.h"

namespace {

using namespace interlock;
using std::chrono::minutes;

constexpr int minutes_scanned_max = 3'000;

bool has(std::uint64_t bits, unsigned value) { return (bits >> value & 1) != 0; }

// By the letter of the expression, without regard to clocks that jump.
bool matches(const CronFields& fields, LocalTime local) {
    const auto day = std::chrono::floor<std::chrono::days>(local);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(local - day));
    const bool day_fits = has(fields.days, static_cast<unsigned>(date.day()));
    const bool weekday_fits = has(fields.weekdays, std::chrono::weekday(day).c_encoding());
    return local == std::chrono::floor<minutes>(local) &&
           has(fields.minutes, static_cast<unsigned>(time.minutes().count())) &&
           has(fields.hours, static_cast<unsigned>(time.hours().count())) &&
           has(fields.months, static_cast<unsigned>(date.month())) &&
           (fields.either_day_fits ? day_fits || weekday_fits : day_fits && weekday_fits);
}

LocalTime local_at(const Zone& zone, Instant at) {
    return LocalTime((at + offset_at(zone, at).offset).time_since_epoch());
}

// Whether the clock jumps at `at` over a time that the expression names.
bool makes_up_for_gap(const CronFields& fields, const Zone& zone, Instant at) {
    const OffsetSpan span = offset_at(zone, at);
    if (span.start != at || at <= far_past) return false;
    const auto before = offset_at(zone, at - instant_step).offset;
    const auto skipped = std::chrono::ceil<minutes>(LocalTime((at + before).time_since_epoch()));
    const LocalTime end = local_at(zone, at);
    for (LocalTime local = skipped; local < end && local < skipped + std::chrono::days(2); local += minutes(1)) {
        if (matches(fields, local)) return true;
    }
    return false;
}

// No minute between the two is due, unless the clock has shown it before.
void check_nothing_between(const CronFields& fields, const Zone& zone, Instant after, Instant next) {
    const OffsetSpan span = offset_at(zone, after);
    auto local = std::chrono::ceil<minutes>(local_at(zone, after) + instant_step);
    for (int i = 0; i < minutes_scanned_max; ++i, local += minutes(1)) {
        const Instant at = Instant(LocalTime(local).time_since_epoch()) - span.offset;
        if (at >= next || at >= span.end) return;
        const bool shown_before = furthest_local(zone, at - instant_step) >= LocalTime(local);
        ensure(!matches(fields, local) || shown_before, "nothing that is due is left out");
    }
}

void check_times(const Cron& cron, const Zone& zone, Instant after) {
    for (int i = 0; i < 4; ++i) {
        const auto next = next_after(cron, zone, after);
        if (!next) return;
        ensure(*next > after, "the next time is later");
        ensure(matches(cron.fields(), local_at(zone, *next)) || makes_up_for_gap(cron.fields(), zone, *next),
               "the expression is due");
        ensure(next_after(cron, zone, *next - instant_step) == next, "seen from just before, it is the same");
        ensure(next_after(cron, zone, after + (*next - after) / 2) == next, "seen from half way, it is the same");
        check_nothing_between(cron.fields(), zone, after, *next);
        after = *next;
    }
}

std::string list_of(std::uint64_t bits) {
    std::string list;
    for (unsigned value = 0; value < 64; ++value) {
        if (has(bits, value)) list += (list.empty() ? "" : ",") + std::to_string(value);
    }
    return list;
}

void check_fields(const CronFields& fields) {
    const auto all = [](std::uint64_t bits, unsigned from, unsigned to) {
        return bits != 0 && bits >> to >> 1 == 0 && (bits & ((std::uint64_t{1} << from) - 1)) == 0;
    };
    ensure(all(fields.minutes, 0, 59) && all(fields.hours, 0, 23) && all(fields.days, 1, 31) &&
               all(fields.months, 1, 12) && all(fields.weekdays, 0, 6),
           "each field has values, and they are in its range");
    const std::string lists = list_of(fields.minutes) + ' ' + list_of(fields.hours) + ' ' + list_of(fields.days) + ' ' +
                              list_of(fields.months) + ' ' + list_of(fields.weekdays);
    if (lists.size() > cron_text_max) return;
    const auto again = parse_cron(lists);
    ensure(again.has_value(), "lists are an expression");
    CronFields written = again->fields();
    written.either_day_fits = fields.either_day_fits;
    written.minutes_repeat = fields.minutes_repeat;
    ensure(written == fields, "written out, the fields are the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::size_t first = std::min(text.find('\n'), size);
    const std::size_t second = std::min(text.find('\n', first + 1), size);
    if (second == size) return 0;
    const Zone zone = find_zone(text.substr(0, first)).value_or(utc());
    const Instant after = from_iso8601(text.substr(first + 1, second - first - 1))
                              .value_or(std::chrono::sys_days(std::chrono::year(2026) / 3 / 28));

    const auto cron = parse_cron(text.substr(second + 1));
    if (!cron) {
        ensure(!cron.error().field.empty() && !cron.error().what.empty(), "a refusal has a reason");
        return 0;
    }
    check_fields(cron->fields());
    check_times(*cron, zone, std::max(after, far_past - instant_step));  // Earlier times are treated as this one.
    return 0;
}
