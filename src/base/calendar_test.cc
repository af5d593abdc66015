// The expected dates come from the date library asked directly, and fixed instants from published zone rules. Neither
// passes through furthest_local or first_instant.
#include "base/calendar.h"
#include "base/base_test_support.h"

#include <date/tz.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace interlock {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;

WindowSpan span(std::string_view start, std::string_view end) { return {.start = at(start), .end = at(end)}; }

// The wall clock according to the date library, which is asked again only where its answer ends.
class WallClock {
 public:
    explicit WallClock(std::string_view name) : zone_(date::locate_zone(name)) {}

    std::chrono::seconds offset(Instant instant) {
        if (instant < info_.begin || instant >= info_.end) info_ = zone_->get_info(instant);
        return info_.offset;
    }

    // Days since 1970-01-01.
    std::int64_t day(Instant instant) {
        return std::chrono::floor<days>(instant.time_since_epoch() + offset(instant)).count();
    }

 private:
    const date::time_zone* zone_;
    date::sys_info info_{};
};

// Clocks that skip midnight, repeat it, fall back over it, skip a date, or stand at odd offsets.
const std::vector<std::string> nasty_zones = {
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",    // skips midnight in spring
    "Asia/Beirut",          // skips midnight in spring
    "Africa/Cairo",         // skips midnight, falls back at midnight
    "America/Havana",       // skips midnight, and repeats it in autumn
    "America/St_Johns",     // fell back at 00:01, over midnight, for 24 years
    "Australia/Lord_Howe",  // turns by half an hour
    "Pacific/Apia",         // skipped 2011-12-30
    "Pacific/Kwajalein",    // skipped 1993-08-21
    "Africa/Monrovia",      // 44 minutes and 30 seconds behind until 1972
    "Antarctica/Troll",     // turns by two hours
    "Africa/Casablanca",    // turns around Ramadan
    "Asia/Kathmandu",       // moved by a quarter of an hour
    "Asia/Tehran",          // skipped midnight
    "America/Asuncion",     // skipped midnight, and gave up its turns in 2024
    "Pacific/Chatham",      // 12:45 and 13:45 ahead
};

std::string print(const testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    for (char& c : name) c = c == '/' ? '_' : c;
    return name;
}

class NastyZone : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Calendar, NastyZone, testing::ValuesIn(nasty_zones), print);

TEST_P(NastyZone, windows_tile_time_and_contain_their_instants) {
    const Zone here = zone(GetParam());
    const Instant until = at("2037-12-31T00:00:00Z");

    for (const auto kind : {WindowKind::day, WindowKind::week, WindowKind::month}) {
        WindowSpan window = window_at(kind, here, far_past);
        while (window.start < until) {
            ASSERT_LT(window.start, window.end) << to_iso8601(window.start);
            const Duration length = window.end - window.start;
            for (const Instant inside :
                 {window.start + minutes(40), window.start + length / 2, window.end - Duration(1)}) {
                ASSERT_EQ(window_at(kind, here, inside), window) << to_iso8601(inside);
            }

            const WindowSpan next = window_at(kind, here, window.end);
            ASSERT_EQ(next.start, window.end) << to_iso8601(window.start);
            window = next;
        }
    }
}

TEST_P(NastyZone, a_day_starts_when_the_wall_clock_first_shows_its_date) {
    const Zone here = zone(GetParam());
    const Instant until = at("2037-12-31T00:00:00Z");

    WallClock wall(GetParam());

    WindowSpan window = window_at(WindowKind::day, here, far_past);
    std::int64_t furthest = wall.day(window.start) - 1;
    while (window.start < until) {
        const std::int64_t today = wall.day(window.start);
        ASSERT_GT(today, furthest) << to_iso8601(window.start);
        for (Instant inside = window.start; inside < window.end; inside += minutes(115)) {
            ASSERT_LE(wall.day(inside), today) << to_iso8601(inside);
        }
        ASSERT_LE(wall.day(window.end - Duration(1)), today) << to_iso8601(window.end);
        furthest = today;
        window = window_at(WindowKind::day, here, window.end);
    }
}

TEST_P(NastyZone, a_week_starts_with_the_first_day_on_or_after_its_monday_and_a_month_with_its_first) {
    const Zone here = zone(GetParam());
    WallClock wall(GetParam());
    const auto date_of = [&](Instant instant) {
        return std::chrono::sys_days(days(wall.day(window_at(WindowKind::day, here, instant).start)));
    };

    for (Instant instant = at("1970-02-01T00:00:00Z"); instant < at("2037-12-01T00:00:00Z"); instant += hours(101)) {
        const WindowSpan week = window_at(WindowKind::week, here, instant);
        const WindowSpan month = window_at(WindowKind::month, here, instant);

        const auto monday_of = [](std::chrono::sys_days date) {
            while (std::chrono::weekday(date) != std::chrono::Monday) date -= days(1);
            return date;
        };
        ASSERT_EQ(monday_of(date_of(instant)), monday_of(date_of(week.start))) << to_iso8601(instant);
        ASSERT_NE(monday_of(date_of(week.start)), monday_of(date_of(week.start - hours(1)))) << to_iso8601(instant);
        const auto month_of = [](std::chrono::sys_days date) {
            const std::chrono::year_month_day ymd(date);
            return ymd.year() / ymd.month();
        };
        ASSERT_EQ(month_of(date_of(instant)), month_of(date_of(month.start))) << to_iso8601(instant);
        ASSERT_NE(month_of(date_of(month.start)), month_of(date_of(month.start - hours(1)))) << to_iso8601(instant);
    }
}

TEST_P(NastyZone, the_wall_clock_comes_to_a_time_when_its_furthest_time_passes_it) {
    const Zone here = zone(GetParam());

    for (Instant instant = at("1970-02-01T00:00:00Z"); instant < at("2037-12-01T00:00:00Z"); instant += hours(17)) {
        const LocalTime furthest = furthest_local(here, instant);
        ASSERT_LE(first_instant(here, furthest), instant) << to_iso8601(instant);
        ASSERT_GT(first_instant(here, furthest + Duration(1)), instant) << to_iso8601(instant);
    }
}

TEST_P(NastyZone, offsets_are_those_of_the_date_library) {
    const Zone here = zone(GetParam());
    WallClock wall(GetParam());

    for (Instant instant = far_past; instant < at("2037-12-31T00:00:00Z"); instant += minutes(907)) {
        const OffsetSpan offset = offset_at(here, instant);
        ASSERT_LE(offset.start, instant);
        ASSERT_LT(instant, offset.end);
        ASSERT_EQ(offset.offset, wall.offset(instant)) << to_iso8601(instant);
    }
}

TEST(Calendar, a_day_of_a_turn_has_as_many_hours_as_the_wall_clock_showed) {
    EXPECT_EQ(window_at(WindowKind::day, zone("Europe/Berlin"), at("2026-03-29T12:00:00Z")),
              span("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"));
    EXPECT_EQ(window_at(WindowKind::day, zone("Europe/Berlin"), at("2026-10-25T12:00:00Z")),
              span("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"));
    EXPECT_EQ(window_at(WindowKind::day, zone("Australia/Lord_Howe"), at("2026-10-03T20:00:00Z")),
              span("2026-10-03T13:30:00Z", "2026-10-04T13:00:00Z"));
}

TEST(Calendar, a_day_without_a_midnight_starts_at_its_first_instant) {
    EXPECT_EQ(window_at(WindowKind::day, zone("America/Sao_Paulo"), at("2018-11-04T12:00:00Z")),
              span("2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"));
    EXPECT_EQ(window_at(WindowKind::day, zone("Asia/Beirut"), at("2025-03-30T12:00:00Z")),
              span("2025-03-29T22:00:00Z", "2025-03-30T21:00:00Z"));
    EXPECT_EQ(window_at(WindowKind::day, zone("Africa/Cairo"), at("2024-04-26T12:00:00Z")),
              span("2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z"));
}

TEST(Calendar, a_day_with_two_midnights_starts_at_the_first) {
    EXPECT_EQ(window_at(WindowKind::day, zone("America/Havana"), at("2024-11-03T12:00:00Z")),
              span("2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z"));
}

TEST(Calendar, a_clock_that_falls_back_over_midnight_does_not_reopen_the_day_before) {
    // At 00:01 on October 29 the clock in St. John's went back to 23:01 on the 28th.
    const Zone here = zone("America/St_Johns");
    const WindowSpan day = span("2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z");

    EXPECT_EQ(window_at(WindowKind::day, here, at("2006-10-29T02:30:59Z")), day);
    EXPECT_EQ(window_at(WindowKind::day, here, at("2006-10-29T02:31:00Z")), day);
    EXPECT_EQ(window_at(WindowKind::day, here, at("2006-10-29T03:29:59Z")), day);
    EXPECT_EQ(window_at(WindowKind::day, here, at("2006-10-29T02:29:59Z")).end, day.start);
}

TEST(Calendar, a_date_that_was_skipped_has_no_window) {
    const Zone apia = zone("Pacific/Apia");

    const WindowSpan before = window_at(WindowKind::day, apia, at("2011-12-30T09:59:59Z"));
    const WindowSpan after = window_at(WindowKind::day, apia, at("2011-12-30T10:00:00Z"));

    EXPECT_EQ(before, span("2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"));  // December 29
    EXPECT_EQ(after, span("2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"));   // December 31
    EXPECT_EQ(window_at(WindowKind::day, zone("Pacific/Kwajalein"), at("1993-08-21T12:00:00Z")),
              span("1993-08-21T12:00:00Z", "1993-08-22T12:00:00Z"));
}

TEST(Calendar, weeks_start_on_monday_and_months_on_the_first) {
    EXPECT_EQ(window_at(WindowKind::week, utc(), at("2026-11-15T23:59:59.999999Z")),  // a Sunday
              span("2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z"));
    EXPECT_EQ(window_at(WindowKind::week, utc(), at("2026-11-16T00:00:00Z")),
              span("2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"));
    EXPECT_EQ(window_at(WindowKind::month, utc(), at("2024-02-29T12:00:00Z")),
              span("2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"));
    EXPECT_EQ(window_at(WindowKind::month, zone("America/New_York"), at("2027-01-01T04:59:59Z")),
              span("2026-12-01T05:00:00Z", "2027-01-01T05:00:00Z"));
}

TEST(Calendar, the_total_is_one_window) {
    const WindowSpan all{.start = far_past, .end = far_future};

    EXPECT_EQ(window_at(WindowKind::total, utc(), at("2026-11-15T00:00:00Z")), all);
    EXPECT_EQ(window_at(WindowKind::total, zone("Pacific/Apia"), far_past), all);
}

TEST(Calendar, an_instant_out_of_range_gets_the_window_of_the_nearest_one_inside) {
    for (const auto kind : {WindowKind::day, WindowKind::week, WindowKind::month, WindowKind::total}) {
        for (const auto& name : nasty_zones) {
            const Zone here = zone(name);
            EXPECT_EQ(window_at(kind, here, Instant::min()), window_at(kind, here, far_past));
            EXPECT_EQ(window_at(kind, here, Instant::max()), window_at(kind, here, far_future - Duration(1)));
            EXPECT_LE(furthest_local(here, Instant::min()), furthest_local(here, Instant::max()));
            EXPECT_LE(first_instant(here, LocalTime::min()), first_instant(here, LocalTime::max()));
        }
    }
}

TEST(Zone, names_that_are_no_zone_are_not_found) {
    const std::string nul("UTC\0", 4);
    const std::string line("UTC\n");
    for (const std::string_view name : {std::string_view(""),
                                        std::string_view(" "),
                                        std::string_view("/"),
                                        std::string_view("."),
                                        std::string_view(".."),
                                        std::string_view("../etc/passwd"),
                                        std::string_view("/etc/passwd"),
                                        std::string_view("Europe/../Europe/Berlin"),
                                        std::string_view("Mars/Base"),
                                        std::string_view("Europe"),
                                        std::string_view("Europe/"),
                                        std::string_view("europe/berlin"),
                                        std::string_view("Europe/Berlin "),
                                        std::string_view("localtime"),
                                        std::string_view("posixrules"),
                                        std::string_view("right/Europe/Berlin"),
                                        std::string_view("tzdata.zi"),
                                        std::string_view("leapseconds"),
                                        std::string_view("zone.tab"),
                                        std::string_view("utc"),
                                        std::string_view(nul),
                                        std::string_view(line),
                                        std::string_view("\xff\xfe")}) {
        EXPECT_FALSE(find_zone(name)) << name;
    }
    EXPECT_FALSE(find_zone(std::string(1'000'000, 'a')));
}

TEST(Zone, utc_is_always_there_and_one_zone_under_both_names) {
    EXPECT_EQ(find_zone("UTC"), utc());
    EXPECT_EQ(find_zone("Etc/UTC"), utc());
    EXPECT_EQ(utc().name(), "UTC");
}

TEST(Zone, a_zone_keeps_the_name_it_was_asked_for_and_is_the_same_every_time) {
    EXPECT_EQ(zone("Europe/Berlin").name(), "Europe/Berlin");
    EXPECT_EQ(zone("Europe/Berlin"), zone("Europe/Berlin"));
    EXPECT_NE(zone("Europe/Berlin"), zone("Europe/Paris"));
}

TEST(Zone, many_threads_asking_at_once_get_the_same_zone) {
    const std::vector<std::string> names = {"Asia/Tokyo", "Asia/Seoul", "No/Such", "Indian/Maldives", "America/Lima"};
    std::vector<std::vector<std::optional<Zone>>> answers(8);

    std::vector<std::thread> threads;
    for (auto& answer : answers) {
        threads.emplace_back([&] {
            for (int round = 0; round < 200; ++round) {
                answer.clear();
                for (const auto& name : names) answer.push_back(find_zone(name));
            }
        });
    }
    for (auto& thread : threads) thread.join();

    for (const auto& answer : answers) EXPECT_EQ(answer, answers.front());
    EXPECT_TRUE(answers.front().at(0));
    EXPECT_FALSE(answers.front().at(2));
}

TEST(UtcDay, rounds_down_on_both_sides_of_1970) {
    EXPECT_EQ(utc_day(from_micros(0)), 0);
    EXPECT_EQ(utc_day(from_micros(-1)), -1);
    EXPECT_EQ(utc_day(at("1970-01-01T23:59:59.999999Z")), 0);
    EXPECT_EQ(utc_day(at("2026-11-15T00:00:00Z")), 20'772);
    EXPECT_EQ(utc_day(far_future), 2'932'897);
    EXPECT_EQ(utc_day(Instant::max()), 106'751'991);
    EXPECT_EQ(utc_day(Instant::min()), -106'751'992);
}

TEST(Iso8601, an_instant_is_written_with_a_fraction_only_when_it_has_one) {
    EXPECT_EQ(to_iso8601(from_micros(0)), "1970-01-01T00:00:00Z");
    EXPECT_EQ(to_iso8601(from_micros(1'794'733'200'123'456)), "2026-11-15T09:00:00.123456Z");
    EXPECT_EQ(to_iso8601(from_micros(1'794'733'200'000'000)), "2026-11-15T09:00:00Z");
    EXPECT_EQ(to_iso8601(from_micros(1'794'733'200'000'001)), "2026-11-15T09:00:00.000001Z");
    EXPECT_EQ(to_iso8601(from_micros(1'794'733'200'500'000)), "2026-11-15T09:00:00.500000Z");
    EXPECT_EQ(to_iso8601(from_micros(-1)), "1969-12-31T23:59:59.999999Z");
}

TEST(Iso8601, years_that_four_digits_cannot_hold_are_still_written) {
    EXPECT_EQ(to_iso8601(far_future), "+010000-01-01T00:00:00Z");
    EXPECT_EQ(to_iso8601(Instant::max()), "+294247-01-10T04:00:54.775807Z");
    EXPECT_EQ(to_iso8601(Instant::min()), "-290308-12-21T19:59:05.224192Z");
}

TEST(Iso8601, what_is_written_is_read_back) {
    std::uint64_t state = 42;
    for (int i = 0; i < 20'000; ++i) {
        state = state * 6'364'136'223'846'793'005u + 1'442'695'040'888'963'407u;
        const auto range = static_cast<std::uint64_t>(micros(far_future));
        const Instant instant = from_micros(static_cast<std::int64_t>((state >> 2) % range));
        ASSERT_EQ(from_iso8601(to_iso8601(instant)), instant) << to_iso8601(instant);
    }
    EXPECT_EQ(from_iso8601("9999-12-31T23:59:59.999999Z"), far_future - Duration(1));
}

TEST(Iso8601, offsets_and_fractions_are_read) {
    const Instant nine = at("2026-11-15T09:00:00Z");

    EXPECT_EQ(from_iso8601("2026-11-15T10:00:00+01:00"), nine);
    EXPECT_EQ(from_iso8601("2026-11-15T04:00:00-05:00"), nine);
    EXPECT_EQ(from_iso8601("2026-11-15T14:45:00+05:45"), nine);
    EXPECT_EQ(from_iso8601("2026-11-15T09:00:00+00:00"), nine);
    EXPECT_EQ(from_iso8601("2026-11-15T09:00:00.5Z"), nine + Duration(500'000));
    EXPECT_EQ(from_iso8601("2026-11-15T09:00:00.000001Z"), nine + Duration(1));
    EXPECT_EQ(from_iso8601("2026-11-15T09:00:00.123456789Z"), nine + Duration(123'456));
    EXPECT_EQ(from_iso8601("2026-11-15T10:00:00.25+01:00"), nine + Duration(250'000));
    EXPECT_EQ(from_iso8601("2024-02-29T00:00:00Z"), Instant(days(19'782)));
    EXPECT_EQ(from_iso8601("1969-12-31T23:59:59Z"), from_micros(-1'000'000));
}

TEST(Iso8601, everything_else_is_refused) {
    for (const std::string_view text : {
             "",
             "Z",
             "2026",
             "2026-11-15",
             "2026-11-15T09:00Z",
             "2026-11-15T09:00:00",
             "2026-11-15 09:00:00Z",
             "2026-11-15t09:00:00Z",
             "2026-11-15T09:00:00z",
             " 2026-11-15T09:00:00Z",
             "2026-11-15T09:00:00Z ",
             "2026-11-15T09:00:00ZZ",
             "2026-11-15T09:00:00.Z",
             "2026-11-15T09:00:00,5Z",
             "2026-11-15T09:00:00.1234567890Z",
             "2026-11-15T09:00:00+01",
             "2026-11-15T09:00:00+0100",
             "2026-11-15T09:00:00+01:60",
             "2026-11-15T09:00:00+24:00",
             "2026-11-15T09:00:00+-1:00",
             "2026-11-15T09:00:00*01:00",
             "2026-11-15T24:00:00Z",
             "2026-11-15T09:60:00Z",
             "2016-12-31T23:59:60Z",
             "2026-02-29T00:00:00Z",
             "2026-04-31T00:00:00Z",
             "2026-13-01T00:00:00Z",
             "2026-00-01T00:00:00Z",
             "2026-01-00T00:00:00Z",
             "26-11-15T09:00:00Z",
             "-026-11-15T09:00:00Z",
             "+010000-01-01T00:00:00Z",
             "2026-1-15T09:00:00Z",
             "2026-11-15T9:00:00Z",
             "2026-11-15T+9:00:00Z",
         }) {
        EXPECT_FALSE(from_iso8601(text)) << text;
    }
}

}  // namespace
}  // namespace interlock
