#include "base/calendar.h"

#include <date/tz.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "base/ensure.h"

namespace interlock {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::hours;
using std::chrono::local_days;
using std::chrono::minutes;
using std::chrono::seconds;

// A zone as the turns of its clock: `turns` is sorted, has at least one entry, and neighbours differ in their offset.
struct ZoneRules {
    struct Turn {
        Instant at;
        seconds offset;
    };
    std::string name;
    std::vector<Turn> turns;
};

namespace {

// No wall clock is further from UTC than this; RFC 9636 allows no more in a zone file.
constexpr hours offset_max{26};
constexpr std::size_t zone_name_max = 64;
// What the turns of a zone cover. Wider than [far_past, far_future), so that the month around either end is whole.
constexpr Instant rules_start = far_past - days(3653);
constexpr Instant rules_end = far_future + days(366);

local_days first_date(WindowKind kind, local_days date);
local_days next_first_date(WindowKind kind, local_days first);
std::size_t turn_index(const ZoneRules& rules, Instant at);
std::optional<ZoneRules> load_rules(std::string_view name);

}  // namespace

WindowSpan window_at(WindowKind kind, const Zone& zone, Instant at) {
    if (kind == WindowKind::total) return {.start = far_past, .end = far_future};

    at = std::clamp(at, far_past, far_future - instant_step);
    // The furthest date, not today's: a clock that falls back over midnight must not reopen the day that has ended.
    const local_days first = first_date(kind, floor<days>(furthest_local(zone, at)));
    const WindowSpan span{.start = first_instant(zone, first),
                          .end = first_instant(zone, next_first_date(kind, first))};

    ensure(span.start <= at && at < span.end, "invariant (1)");
    return span;
}

LocalTime furthest_local(const Zone& zone, Instant at) {
    at = std::clamp(at, rules_start, rules_end);
    const auto& turns = zone.rules().turns;
    std::size_t i = turn_index(zone.rules(), at);
    LocalTime furthest((at + turns[i].offset).time_since_epoch());

    // A turn too long ago for the clock to have been ahead of now cannot matter any more.
    for (; i > 0 && turns[i].at > at - 2 * offset_max; --i) {
        const Instant last_shown = turns[i].at + turns[i - 1].offset - instant_step;
        furthest = std::max(furthest, LocalTime(last_shown.time_since_epoch()));
    }
    return furthest;
}

Instant first_instant(const Zone& zone, LocalTime local) {
    const Instant as_utc = std::clamp(Instant(local.time_since_epoch()), rules_start, rules_end);
    const auto& turns = zone.rules().turns;

    // However far ahead of UTC the zone is, its clock has not come to `local` at the instant this search starts from.
    std::size_t i = turn_index(zone.rules(), as_utc - offset_max);
    while (i + 1 < turns.size() && turns[i + 1].at + turns[i].offset <= as_utc) ++i;
    return std::max(as_utc - turns[i].offset, turns[i].at);
}

OffsetSpan offset_at(const Zone& zone, Instant at) {
    const auto& turns = zone.rules().turns;
    const std::size_t i = turn_index(zone.rules(), at);
    return {.start = turns[i].at, .end = i + 1 < turns.size() ? turns[i + 1].at : rules_end, .offset = turns[i].offset};
}

namespace {

local_days first_date(WindowKind kind, local_days date) {
    if (kind == WindowKind::day) return date;
    if (kind == WindowKind::week) {
        return date - (std::chrono::weekday(date) - std::chrono::Monday);
    }
    const std::chrono::year_month_day ymd(date);
    return local_days(ymd.year() / ymd.month() / 1);
}

local_days next_first_date(WindowKind kind, local_days first) {
    if (kind == WindowKind::day) return first + days(1);
    if (kind == WindowKind::week) return first + days(7);
    return local_days(std::chrono::year_month_day(first) + std::chrono::months(1));
}

// The turn in force at `at`; the first one for everything earlier.
std::size_t turn_index(const ZoneRules& rules, Instant at) {
    const auto later = std::ranges::upper_bound(rules.turns, at, {}, &ZoneRules::Turn::at);
    if (later == rules.turns.begin()) return 0;
    return static_cast<std::size_t>(std::distance(rules.turns.begin(), later)) - 1;
}

}  // namespace

const std::string& Zone::name() const { return rules_->name; }

const Zone& utc() {
    static const ZoneRules rules{.name = "UTC", .turns = {{.at = rules_start, .offset = seconds(0)}}};
    static const Zone zone(rules);
    return zone;
}

std::optional<Zone> find_zone(std::string_view name) {
    if (name == "UTC" || name == "Etc/UTC") return utc();
    if (name.empty() || name.size() > zone_name_max || name == "localtime") return std::nullopt;

    // Kept for the life of the process: a Zone points into it. It holds only zones that exist, so no caller can make it
    // grow past the database.
    static std::shared_mutex mutex;
    static std::map<std::string, ZoneRules, std::less<>> known;
    {
        const std::shared_lock lock(mutex);
        if (const auto found = known.find(name); found != known.end()) return Zone(found->second);
    }

    auto rules = load_rules(name);
    if (!rules) return std::nullopt;
    const std::unique_lock lock(mutex);
    // Two threads may have loaded it at once; whoever comes second takes what is there.
    return Zone(known.try_emplace(std::string(name), std::move(*rules)).first->second);
}

namespace {

std::optional<ZoneRules> load_rules(std::string_view name) {
    // The date library throws for a name it does not list, for a file it cannot read and for a missing database. To a
    // caller these are the same: there is no such zone here.
    try {
        const date::time_zone* zone = date::locate_zone(name);
        ZoneRules rules{.name = std::string(name), .turns = {}};
        for (Instant at = rules_start; at < rules_end;) {
            const date::sys_info info = zone->get_info(at);
            if (info.offset > offset_max || info.offset < -offset_max) return std::nullopt;
            // Turns that change nothing but the name of the time are left out.
            if (rules.turns.empty() || rules.turns.back().offset != info.offset) {
                rules.turns.push_back({.at = at, .offset = info.offset});
            }
            // Compared in seconds: the end of the last turn lies past what microseconds can count.
            if (info.end >= floor<seconds>(rules_end)) break;
            // A file whose turns do not move on would hold this loop forever.
            if (info.end <= floor<seconds>(at)) return std::nullopt;
            at = info.end;
        }
        return rules;
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

}  // namespace

// By hand: std::chrono::floor multiplies the days back, which overflows for the earliest instants there are.
std::int32_t utc_day(Instant at) {
    constexpr std::int64_t day_micros = Duration(days(1)).count();
    const std::int64_t since = micros(at);
    return static_cast<std::int32_t>(since / day_micros - (since % day_micros < 0 ? 1 : 0));
}

std::string to_iso8601(Instant at) {
    // The calendar of the standard library ends in the year 32767. It repeats every 400 years, so whole eras are taken
    // off first and added to the year again.
    constexpr int era_days = 146'097;
    const int day = utc_day(at);
    const int era = day >= 0 ? day / era_days : (day + 1) / era_days - 1;
    const std::chrono::year_month_day ymd(std::chrono::sys_days(days(day - era * era_days)));
    const int year = static_cast<int>(ymd.year()) + era * 400;
    const Duration past_midnight = at.time_since_epoch() % days(1);
    const std::chrono::hh_mm_ss time(past_midnight < Duration(0) ? past_midnight + days(1) : past_midnight);
    const auto fraction = time.subseconds().count();

    std::string text = year >= 0 && year <= 9999 ? fmt::format("{:04}", year) : fmt::format("{:+07}", year);
    text += fmt::format("-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<unsigned>(ymd.month()),
                        static_cast<unsigned>(ymd.day()), time.hours().count(), time.minutes().count(),
                        time.seconds().count());
    if (fraction != 0) text += fmt::format(".{:06}", fraction);
    return text + "Z";
}

namespace {

// Reads a text from the left. After the first thing that is not there, everything else is not there either, so that
// only the end needs a look.
struct TextCursor {
    std::string_view rest;
    bool ok = true;

    int digits(std::size_t count) {
        int value = 0;
        for (std::size_t i = 0; i < count; ++i) {
            ok = ok && !rest.empty() && rest.front() >= '0' && rest.front() <= '9';
            if (!ok) return 0;
            value = value * 10 + (rest.front() - '0');
            rest.remove_prefix(1);
        }
        return value;
    }

    bool take(char expected) {
        if (!ok || rest.empty() || rest.front() != expected) return false;
        rest.remove_prefix(1);
        return true;
    }

    void need(char expected) { ok = take(expected); }

    int number_up_to(int max) {
        const int value = digits(2);
        ok = ok && value <= max;
        return value;
    }

    Duration fraction() {
        constexpr int digits_max = 9;
        Duration::rep value = 0;
        Duration::rep unit = 100'000;
        int count = 0;
        for (; !rest.empty() && rest.front() >= '0' && rest.front() <= '9'; ++count, unit /= 10) {
            value += unit * (rest.front() - '0');
            rest.remove_prefix(1);
        }
        ok = ok && count >= 1 && count <= digits_max;
        return Duration(value);
    }
};

}  // namespace

std::optional<Instant> from_iso8601(std::string_view text) {
    TextCursor reader{.rest = text};
    const int year = reader.digits(4);
    reader.need('-');
    const int month = reader.digits(2);
    reader.need('-');
    const int day = reader.digits(2);
    reader.need('T');
    const hours hour(reader.number_up_to(23));
    reader.need(':');
    const minutes minute(reader.number_up_to(59));
    reader.need(':');
    const seconds second(reader.number_up_to(59));
    const Duration fraction = reader.take('.') ? reader.fraction() : Duration(0);

    minutes offset(0);
    if (!reader.take('Z')) {
        const bool east = reader.take('+');
        if (!east) reader.need('-');
        offset = hours(reader.number_up_to(23));
        reader.need(':');
        offset += minutes(reader.number_up_to(59));
        if (!east) offset = -offset;
    }
    if (!reader.ok || !reader.rest.empty()) return std::nullopt;

    const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                           std::chrono::day(static_cast<unsigned>(day))};
    if (!date.ok()) return std::nullopt;
    return Instant(std::chrono::sys_days(date)) + hour + minute + second + fraction - offset;
}

}  // namespace interlock
