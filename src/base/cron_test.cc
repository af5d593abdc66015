#include "base/cron.h"
#include "base/base_test_support.h"

#include <date/tz.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace interlock {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;

Cron cron(std::string_view text) {
    auto parsed = parse_cron(text);
    EXPECT_TRUE(parsed) << text << ": " << (parsed ? "" : parsed.error().what);
    return parsed ? *parsed : parse_cron("* * * * *").value();
}

std::vector<std::string> follow(const Cron& expression, const Zone& here, Instant after, std::size_t count) {
    std::vector<std::string> due;
    while (due.size() < count) {
        const auto next = next_after(expression, here, after);
        due.push_back(next ? to_iso8601(*next) : "never");
        if (!next) break;
        after = *next;
    }
    return due;
}

// ---- When it is due
// --------------------------------------------------------------------------------------------------

struct DueCase {
    std::string_view text;
    std::string_view zone;
    std::string_view after;
    std::vector<std::string_view> due;
};

void expect_due(const std::vector<DueCase>& cases) {
    for (const DueCase& row : cases) {
        std::vector<std::string> expected;
        for (const auto due : row.due) expected.push_back(due == "never" ? "never" : to_iso8601(at(due)));

        EXPECT_EQ(follow(cron(row.text), zone(row.zone), at(row.after), expected.size()), expected)
            << row.text << " in " << row.zone << " after " << row.after;
    }
}

TEST(Cron, is_due_when_every_field_fits) {
    expect_due({
        {"* * * * *", "UTC", "2026-11-15T09:00:30Z", {"2026-11-15T09:01:00Z", "2026-11-15T09:02:00Z"}},
        {"*/5 * * * *", "UTC", "2026-11-15T09:57:00Z", {"2026-11-15T10:00:00Z", "2026-11-15T10:05:00Z"}},
        {"10-50/20 * * * *",
         "UTC",
         "2026-11-15T09:00:00Z",
         {"2026-11-15T09:10:00Z", "2026-11-15T09:30:00Z", "2026-11-15T09:50:00Z", "2026-11-15T10:10:00Z"}},
        {"5/25 8 * * *",
         "UTC",
         "2026-11-15T09:00:00Z",
         {"2026-11-16T08:05:00Z", "2026-11-16T08:30:00Z", "2026-11-16T08:55:00Z", "2026-11-17T08:05:00Z"}},
        {"30 9,17 * * mon-fri",
         "UTC",
         "2026-11-13T09:30:00Z",  // a Friday
         {"2026-11-13T17:30:00Z", "2026-11-16T09:30:00Z", "2026-11-16T17:30:00Z"}},
        {"0 12 * * fri-mon",
         "UTC",
         "2026-11-12T00:00:00Z",  // a Thursday
         {"2026-11-13T12:00:00Z", "2026-11-14T12:00:00Z", "2026-11-15T12:00:00Z", "2026-11-16T12:00:00Z",
          "2026-11-20T12:00:00Z"}},
        {"59 23 31 12 *", "UTC", "2026-12-31T23:59:00Z", {"2027-12-31T23:59:00Z"}},
        {"0 0 1 jan,jul *", "UTC", "2026-11-15T00:00:00Z", {"2027-01-01T00:00:00Z", "2027-07-01T00:00:00Z"}},
        {"0 0 31 * *",
         "UTC",
         "2026-01-31T00:00:00Z",
         {"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z", "2026-08-31T00:00:00Z"}},
        {"0 9 * * *", "Asia/Kathmandu", "2026-11-15T00:00:00Z", {"2026-11-15T09:00:00+05:45"}},
        {"0 0 * * *", "Africa/Monrovia", "1971-06-01T12:00:00Z", {"1971-06-02T00:44:30Z"}},
    });
}

TEST(Cron, a_day_that_fits_either_day_field_is_due_when_both_are_restricted) {
    expect_due({
        {"0 0 13 * fri",
         "UTC",
         "2026-11-01T00:00:00Z",
         {"2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z",
          "2026-12-04T00:00:00Z", "2026-12-11T00:00:00Z", "2026-12-13T00:00:00Z"}},
        // A range over all days is still a restriction; only a star is none.
        {"0 0 1-31 * mon", "UTC", "2026-11-01T00:00:00Z", {"2026-11-02T00:00:00Z", "2026-11-03T00:00:00Z"}},
        {"0 0 30 2 mon", "UTC", "2026-02-01T00:00:00Z", {"2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"}},
    });
}

TEST(Cron, a_day_must_fit_both_day_fields_when_one_starts_with_a_star) {
    expect_due({
        {"0 0 * * mon", "UTC", "2026-11-01T00:00:00Z", {"2026-11-02T00:00:00Z", "2026-11-09T00:00:00Z"}},
        {"0 0 13 * *", "UTC", "2026-11-01T00:00:00Z", {"2026-11-13T00:00:00Z", "2026-12-13T00:00:00Z"}},
        {"0 0 */2 * mon", "UTC", "2026-11-01T00:00:00Z", {"2026-11-09T00:00:00Z", "2026-11-23T00:00:00Z"}},
    });
}

TEST(Cron, leap_days_come_as_rarely_as_they_do) {
    expect_due({
        {"0 0 29 2 *", "UTC", "2024-02-29T00:00:00Z", {"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
        {"0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", {"2104-02-29T00:00:00Z"}},
        {"* * 29 2 *", "Europe/Berlin", "2024-02-29T23:59:00+01:00", {"2028-02-29T00:00:00+01:00"}},
        // A leap day on a Sunday: every 28 years, and once in 40.
        {"0 0 29 2 */7",
         "UTC",
         "2026-01-01T00:00:00Z",
         {"2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z", "2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z"}},
    });
}

TEST(Cron, a_date_that_does_not_exist_is_never_due) {
    expect_due({
        {"0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", {"never"}},
        {"* * 30 2 *", "Europe/Berlin", "2026-01-01T00:00:00Z", {"never"}},
        {"0 * 31 2,4,6,9,11 *", "America/New_York", "2026-01-01T00:00:00Z", {"never"}},
    });
}

TEST(Cron, a_time_skipped_in_spring_is_due_once_when_the_gap_ends) {
    expect_due({
        // In Berlin 02:00 is followed by 03:00 on March 29.
        {"30 2 * * *",
         "Europe/Berlin",
         "2026-03-28T12:00:00+01:00",
         {"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
        {"0 2 * * *",
         "Europe/Berlin",
         "2026-03-28T12:00:00+01:00",
         {"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
        {"0,15,30 2 * * *",
         "Europe/Berlin",
         "2026-03-28T12:00:00+01:00",
         {"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
        {"*/15 2 * * *",
         "Europe/Berlin",
         "2026-03-28T12:00:00+01:00",
         {"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
        {"30 2 29 3 *",
         "Europe/Berlin",
         "2026-03-28T12:00:00+01:00",
         {"2026-03-29T03:00:00+02:00", "2027-03-29T02:30:00+02:00"}},
        // In New York on March 8.
        {"59 2 * * *",
         "America/New_York",
         "2026-03-07T12:00:00-05:00",
         {"2026-03-08T03:00:00-04:00", "2026-03-09T02:59:00-04:00"}},
        // On Lord Howe the gap is the half hour from 02:00 to 02:30, on October 4.
        {"15 2 * * *",
         "Australia/Lord_Howe",
         "2026-10-03T12:00:00+10:30",
         {"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
        {"45 2 * * *",
         "Australia/Lord_Howe",
         "2026-10-03T12:00:00+10:30",
         {"2026-10-04T02:45:00+11:00", "2026-10-05T02:45:00+11:00"}},
        // Midnight itself.
        {"0 0 * * *",
         "America/Sao_Paulo",
         "2018-11-03T12:00:00-03:00",
         {"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
        // A whole day that never was: December 30.
        {"0 12 * * *",
         "Pacific/Apia",
         "2011-12-29T11:00:00-10:00",
         {"2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"}},
    });
}

TEST(Cron, a_skipped_time_adds_nothing_when_the_end_of_the_gap_is_due_anyway) {
    expect_due({
        {"0 3 * * *",
         "Europe/Berlin",
         "2026-03-28T12:00:00+01:00",
         {"2026-03-29T03:00:00+02:00", "2026-03-30T03:00:00+02:00"}},
        {"0,30 2,3 * * *",
         "Europe/Berlin",
         "2026-03-28T12:00:00+01:00",
         {"2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:00:00+02:00"}},
        {"*/30 1-3 * * *",
         "Europe/Berlin",
         "2026-03-29T01:00:00+01:00",
         {"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00",
          "2026-03-30T01:00:00+02:00"}},
    });
}

TEST(Cron, what_is_due_every_hour_keeps_its_pace_over_the_gap) {
    expect_due({
        {"0 * * * *",
         "Europe/Berlin",
         "2026-03-29T00:30:00+01:00",
         {"2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"}},
        {"30 * * * *",
         "Europe/Berlin",
         "2026-03-29T00:45:00+01:00",
         {"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-29T04:30:00+02:00"}},
        {"*/20 * * * *",
         "Europe/Berlin",
         "2026-03-29T01:20:00+01:00",
         {"2026-03-29T01:40:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:20:00+02:00"}},
        {"30 0-23 * * *",
         "America/New_York",
         "2026-03-08T01:00:00-05:00",
         {"2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"}},
    });
}

TEST(Cron, a_time_shown_twice_in_autumn_is_due_the_first_time_only) {
    expect_due({
        // In Berlin 02:00 to 03:00 comes twice on October 25.
        {"30 2 * * *",
         "Europe/Berlin",
         "2026-10-25T00:00:00+02:00",
         {"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
        {"0,30 2 * * *",
         "Europe/Berlin",
         "2026-10-25T00:00:00+02:00",
         {"2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:00:00+01:00"}},
        {"30 2 * * *", "Europe/Berlin", "2026-10-25T02:15:00+01:00", {"2026-10-26T02:30:00+01:00"}},
        {"0 3 * * *",
         "Europe/Berlin",
         "2026-10-25T02:59:59+02:00",
         {"2026-10-25T03:00:00+01:00", "2026-10-26T03:00:00+01:00"}},
        {"0 */2 * * *",
         "Europe/Berlin",
         "2026-10-25T00:00:00+02:00",
         {"2026-10-25T02:00:00+02:00", "2026-10-25T04:00:00+01:00"}},
        // In New York 01:00 to 02:00, on November 1.
        {"30 1 * * *",
         "America/New_York",
         "2026-11-01T00:00:00-04:00",
         {"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
        // On Lord Howe 01:30 to 02:00, on April 5.
        {"45 1 * * *",
         "Australia/Lord_Howe",
         "2026-04-05T00:00:00+11:00",
         {"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
        // In St. John's the clock fell back at 00:01, so that midnight came twice.
        {"0 0 * * *",
         "America/St_Johns",
         "2006-10-28T12:00:00-02:30",
         {"2006-10-29T00:00:00-02:30", "2006-10-30T00:00:00-03:30"}},
    });
}

TEST(Cron, what_repeats_by_itself_keeps_its_pace_through_the_hour_that_comes_twice) {
    expect_due({
        {"0 * * * *",
         "Europe/Berlin",
         "2026-10-25T01:30:00+02:00",
         {"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
        {"*/30 * * * *",
         "Europe/Berlin",
         "2026-10-25T01:30:00+02:00",
         {"2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00",
          "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"}},
        {"*/30 2 * * *",
         "Europe/Berlin",
         "2026-10-25T01:30:00+02:00",
         {"2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00",
          "2026-10-25T02:30:00+01:00", "2026-10-26T02:00:00+01:00"}},
        {"15 * * * *",
         "America/New_York",
         "2026-11-01T01:00:00-04:00",
         {"2026-11-01T01:15:00-04:00", "2026-11-01T01:15:00-05:00", "2026-11-01T02:15:00-05:00"}},
        // Half an hour back: the wall clock shows the quarter to two, twice.
        {"45 * * * *",
         "Australia/Lord_Howe",
         "2026-04-05T01:00:00+11:00",
         {"2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30", "2026-04-05T02:45:00+10:30"}},
    });
}

TEST(Cron, next_is_strictly_after_to_the_microsecond) {
    const Cron noon = cron("0 12 * * *");
    const Instant due = at("2026-11-15T12:00:00Z");

    EXPECT_EQ(next_after(noon, utc(), due - Duration(1)), due);
    EXPECT_EQ(next_after(noon, utc(), due), due + days(1));
    EXPECT_EQ(next_after(noon, utc(), due + Duration(1)), due + days(1));
}

TEST(Cron, the_ends_of_time_have_an_answer) {
    for (const auto text : {"* * * * *", "0 0 * * *"}) {
        EXPECT_EQ(next_after(cron(text), utc(), Instant::min()), far_past);
        EXPECT_EQ(next_after(cron(text), utc(), far_future - hours(24) - Duration(1)), far_future - hours(24));
        EXPECT_EQ(next_after(cron(text), utc(), far_future - Duration(1)), std::nullopt);
        EXPECT_EQ(next_after(cron(text), utc(), Instant::max()), std::nullopt);
    }
}

// ---- Reading
// ---------------------------------------------------------------------------------------------------------

TEST(ParseCron, two_spellings_of_the_same_thing_are_equal) {
    const std::vector<std::pair<std::string_view, std::string_view>> cases = {
        {"@hourly", "0 * * * *"},
        {"@daily", "0 0 * * *"},
        {"@midnight", "0 0 * * *"},
        {"@weekly", "0 0 * * 0"},
        {"@monthly", "0 0 1 * *"},
        {"@yearly", "0 0 1 1 *"},
        {"@annually", "0 0 1 1 *"},
        {" @Daily ", "0 0 * * *"},
        {"  1\t2  3 4 5 ", "1 2 3 4 5"},
        {"01 002 3 4 5", "1 2 3 4 5"},
        {"0 0 1 jan-MAR,Dec *", "0 0 1 1-3,12 *"},
        {"0 0 * * SUN", "0 0 * * 7"},
        {"0 0 * * 0", "0 0 * * 7"},
        {"0 0 * * sat-sun", "0 0 * * 0,6"},
        {"0 0 * * 6-7", "0 0 * * 0,6"},
        {"0 0 * * fri-mon", "0 0 * * 0,1,5,6"},
        {"0 0 * * 5-1", "0 0 * * 0,1,5,6"},
        {"0 0 * * 7-2", "0 0 * * 0,1,2"},
        {"0 0 * * 0-7", "0 0 * * 0-6"},
        {"0 0 * * 7-7", "0 0 * * 0"},
        {"0 0 * * fri-tue/2", "0 0 * * 5,0,2"},
        {"0 0 * * 1/2", "0 0 * * 1,3,5"},
        {"0 0 * * 7/2", "0 0 * * 0,2,4,6"},
        {"5/15 * * * *", "5,20,35,50 * * * *"},
        {"10-50/10 * * * *", "10,20,30,40,50 * * * *"},
        {"0 */24 * * *", "0 0 * * *"},
        {"7-7,8,8 * * * *", "7,8 * * * *"},
        {"0 0 1/10 * 1", "0 0 1,11,21,31 * 1"},
    };
    for (const auto& [text, same] : cases) EXPECT_EQ(cron(text), cron(same)) << text;
}

TEST(ParseCron, nonsense_is_refused_with_the_field_and_the_reason) {
    struct Case {
        std::string text;
        std::string field;
        std::string what;
    };
    const std::string macros =
        " is not known; there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually";
    const std::string five = " where five are needed: minute, hour, day of month, month, day of week";
    const std::string nines(200, '9');
    const std::vector<Case> cases = {
        {"", "expression", "it is empty; five fields are needed"},
        {" \t ", "expression", "it is empty; five fields are needed"},
        {"*", "expression", "1 field" + five},
        {"* * * *", "expression", "4 fields" + five},
        {"* * * * * *", "expression", "6 fields" + five},
        {std::string(257, '*'), "expression", "257 characters are too many; 256 is the most"},
        {std::string(1'000'000, ' '), "expression", "1000000 characters are too many; 256 is the most"},
        {"@reboot", "expression", "@reboot" + macros},
        {"@", "expression", "@" + macros},
        {"@daily 5", "expression", "nothing may follow @daily"},
        {"60 * * * *", "minute", "60 is past 59; minutes are 0 to 59"},
        {"61 * * * *", "minute", "61 is past 59; minutes are 0 to 59"},
        {"0 24 * * *", "hour", "24 is past 23; hours are 0 to 23"},
        {"0 0 0 * *", "day of month", "0 is before 1; days of the month are 1 to 31"},
        {"0 0 32 * *", "day of month", "32 is past 31; days of the month are 1 to 31"},
        {"0 0 * 0 *", "month", "0 is before 1; months are 1 to 12"},
        {"0 0 * 13 *", "month", "13 is past 12; months are 1 to 12"},
        {"0 0 * * 8", "day of week", "8 is past 7; days of the week are 0 to 7"},
        {"1-60 * * * *", "minute", "60 is past 59; minutes are 0 to 59"},
        {nines + " * * * *", "minute", "999999999999999999999999... is past 59; minutes are 0 to 59"},
        {"4294967296 * * * *", "minute", "4294967296 is past 59; minutes are 0 to 59"},
        {"18446744073709551616 * * * *", "minute", "18446744073709551616 is past 59; minutes are 0 to 59"},
        {"*/0 * * * *", "minute", "a step of 0 goes nowhere; steps are 1 to 60"},
        {"*/61 * * * *", "minute", "a step of 61 is longer than the field; steps are 1 to 60"},
        {"0 */25 * * *", "hour", "a step of 25 is longer than the field; steps are 1 to 24"},
        {"*/ * * * *", "minute", "a step needs a number behind its slash"},
        {"*/x * * * *", "minute", "x is not a step; steps are 1 to 60"},
        {"*/2/3 * * * *", "minute", "2/3 is not a step; steps are 1 to 60"},
        {"*/-5 * * * *", "minute", "-5 is not a step; steps are 1 to 60"},
        {"/5 * * * *", "minute", "a step needs something before its slash, such as */5"},
        {"a b c d e", "minute", "a is not a number; minutes are 0 to 59"},
        {"0 b c d e", "hour", "b is not a number; hours are 0 to 23"},
        {"0 0 c d e", "day of month", "c is not a number; days of the month are 1 to 31"},
        {"0 0 1 d e", "month", "d is neither a number from 1 to 12 nor a name from jan to dec"},
        {"0 0 1 1 e", "day of week", "e is neither a number from 0 to 7 nor a name from sun to sat"},
        {"0 0 * * monday", "day of week", "monday is neither a number from 0 to 7 nor a name from sun to sat"},
        {"0 0 * mon *", "month", "mon is neither a number from 1 to 12 nor a name from jan to dec"},
        {"jan * * * *", "minute", "jan is not a number; minutes are 0 to 59"},
        {"0 0 L * *", "day of month", "L is not a number; days of the month are 1 to 31"},
        {"0 0 ? * *", "day of month", "? is not a number; days of the month are 1 to 31"},
        {"0 0 * * 5#3", "day of week", "5#3 is neither a number from 0 to 7 nor a name from sun to sat"},
        {"5-1 * * * *", "minute", "5-1 runs backwards; write 5-59,0-1"},
        {"0 0 * nov-feb *", "month", "nov-feb runs backwards; write 11-12,1-2"},
        {"- * * * *", "minute", "a range needs a value on both sides of its dash"},
        {"-5 * * * *", "minute", "a range needs a value on both sides of its dash"},
        {"5- * * * *", "minute", "a range needs a value on both sides of its dash"},
        {"1-2-3 * * * *", "minute", "2-3 is not a number; minutes are 0 to 59"},
        {"*-5 * * * *", "minute", "* is not a number; minutes are 0 to 59"},
        {"** * * * *", "minute", "** is not a number; minutes are 0 to 59"},
        {"*5 * * * *", "minute", "*5 is not a number; minutes are 0 to 59"},
        {"+5 * * * *", "minute", "+5 is not a number; minutes are 0 to 59"},
        {"1.5 * * * *", "minute", "1.5 is not a number; minutes are 0 to 59"},
        {"0x5 * * * *", "minute", "0x5 is not a number; minutes are 0 to 59"},
        {", * * * *", "minute", ", has an empty place in its list"},
        {"1, * * * *", "minute", "1, has an empty place in its list"},
        {"1,,2 * * * *", "minute", "1,,2 has an empty place in its list"},
        {"1,60 * * * *", "minute", "60 is past 59; minutes are 0 to 59"},
        {"\x1b[31m * * * *", "minute", "?[31m is not a number; minutes are 0 to 59"},
        {"\xc3\xa9 * * * *", "minute", "?? is not a number; minutes are 0 to 59"},
        {std::string("0\0 * * * *", 10), "minute", "0? is not a number; minutes are 0 to 59"},
        {"0 0 * * *\n", "day of week", "*? is neither a number from 0 to 7 nor a name from sun to sat"},
    };
    for (const Case& row : cases) {
        const auto parsed = parse_cron(row.text);

        ASSERT_FALSE(parsed) << row.text;
        EXPECT_EQ(parsed.error().field, row.field) << row.text.substr(0, 80);
        EXPECT_EQ(parsed.error().what, row.what) << row.text.substr(0, 80);
    }
}

TEST(ParseCron, the_longest_text_is_read) {
    std::string minutes_list = "0";
    while (minutes_list.size() + 2 + 8 <= cron_text_max) minutes_list += ",1";
    std::string text = minutes_list + " * * * *";
    text.append(cron_text_max - text.size(), ' ');

    EXPECT_EQ(cron(text), cron("0,1 * * * *"));
}

// ---- Against a naive reading
// -----------------------------------------------------------------------------------------

// Numbers that are the same in every run, from one seed.
class Dice {
 public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}

    int below(int limit) {
        state_ += 0x9E3779B97F4A7C15u;
        std::uint64_t mixed = state_;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
        return static_cast<int>((mixed ^ (mixed >> 31)) % static_cast<std::uint64_t>(limit));
    }

 private:
    std::uint64_t state_;
};

// A field written at random, together with the values it means. Nothing is parsed: the text and its meaning are made
// side by side.
struct NaiveField {
    std::string text;
    std::array<bool, 60> values{};
    bool star = false;

    bool has(std::int64_t value) const { return values[static_cast<std::size_t>(value)]; }
};

NaiveField make_field(Dice& dice, int first, int last, int star_percent) {
    NaiveField field;
    const auto add = [&](int low, int high, int step) {
        for (int value = low; value <= high; value += step) field.values.at(static_cast<std::size_t>(value)) = true;
    };
    if (dice.below(100) < star_percent) {
        field.star = true;
        const int step = dice.below(3) == 0 ? 1 + dice.below(last - first + 1) : 1;
        field.text = step == 1 ? "*" : "*/" + std::to_string(step);
        add(first, last, step);
        return field;
    }
    for (int items = 1 + dice.below(3); items > 0; --items) {
        const int low = first + dice.below(last - first + 1);
        const int high = low + dice.below(last - low + 1);
        const int step = 1 + dice.below(last - first + 1);
        field.text += field.text.empty() ? "" : ",";
        switch (dice.below(4)) {
            case 0:
                field.text += std::to_string(low) + "-" + std::to_string(high);
                add(low, high, 1);
                break;
            case 1:
                field.text += std::to_string(low) + "-" + std::to_string(high) + "/" + std::to_string(step);
                add(low, high, step);
                break;
            case 2:
                field.text += std::to_string(low) + "/" + std::to_string(step);
                add(low, last, step);
                break;
            default:
                field.text += std::to_string(low);
                add(low, low, 1);
        }
    }
    return field;
}

// Shares no code with cron.cc: it walks minute by minute, and remembers what the wall clock has shown.
class NaiveCron {
 public:
    NaiveCron(Dice& dice, int star_percent)
        : minute_(make_field(dice, 0, 59, star_percent)),
          hour_(make_field(dice, 0, 23, star_percent)),
          day_(make_field(dice, 1, 31, star_percent)),
          month_(make_field(dice, 1, 12, star_percent)),
          weekday_(make_field(dice, 0, 6, star_percent)) {}

    std::string text() const {
        return minute_.text + " " + hour_.text + " " + day_.text + " " + month_.text + " " + weekday_.text;
    }

    bool fits(std::int64_t wall_minute) const {
        const auto day = std::chrono::floor<days>(minutes(wall_minute));
        const std::int64_t of_day = wall_minute - minutes(day).count();
        if (!hour_.has(of_day / 60) || !minute_.has(of_day % 60)) return false;

        const std::chrono::sys_days date(day);
        const std::chrono::year_month_day ymd(date);
        if (!month_.has(static_cast<unsigned>(ymd.month()))) return false;
        const bool by_day = day_.has(static_cast<unsigned>(ymd.day()));
        const bool by_weekday = weekday_.has(std::chrono::weekday(date).c_encoding());
        return day_.star || weekday_.star ? by_day && by_weekday : by_day || by_weekday;
    }

    // Every due instant in (after, until], for whole minutes and a zone whose offsets are whole minutes.
    std::vector<std::string> walk(std::string_view zone_name, Instant after, Instant until) const {
        const date::time_zone* here = date::locate_zone(zone_name);
        const bool every_hour = std::count(hour_.values.begin(), hour_.values.end(), true) == 24;
        std::unordered_set<std::int64_t> shown;
        std::vector<std::string> due;
        std::optional<std::int64_t> before;
        auto info = here->get_info(after - days(2));

        // The two days before tell what the clock has shown already.
        for (Instant now = after - days(2); now <= until; now += minutes(1)) {
            if (now >= info.end) info = here->get_info(now);
            const std::int64_t wall = std::chrono::floor<minutes>(now.time_since_epoch() + info.offset).count();
            bool is_due = fits(wall) && (minute_.star || every_hour || !shown.contains(wall));
            if (before && !every_hour) {
                for (std::int64_t skipped = *before + 1; skipped < wall; ++skipped) {
                    is_due = is_due || (fits(skipped) && !shown.contains(skipped));
                }
            }
            if (is_due && now > after) due.push_back(to_iso8601(now));
            shown.insert(wall);
            before = wall;
        }
        return due;
    }

 private:
    NaiveField minute_;
    NaiveField hour_;
    NaiveField day_;
    NaiveField month_;
    NaiveField weekday_;
};

std::vector<std::string> follow_until(const Cron& expression, const Zone& here, Instant after, Instant until) {
    std::vector<std::string> due;
    for (auto next = next_after(expression, here, after); next && *next <= until;) {
        due.push_back(to_iso8601(*next));
        next = next_after(expression, here, *next);
    }
    return due;
}

TEST(CronProperty, agrees_with_a_minute_by_minute_walk_over_every_kind_of_turn) {
    struct Turn {
        std::string_view zone;
        std::string_view around;
    };
    constexpr std::array turns = {
        Turn{"Europe/Berlin", "2026-03-29T01:00:00Z"},
        Turn{"Europe/Berlin", "2026-10-25T01:00:00Z"},
        Turn{"America/New_York", "2026-03-08T07:00:00Z"},
        Turn{"America/New_York", "2026-11-01T06:00:00Z"},
        Turn{"Australia/Lord_Howe", "2026-10-03T15:30:00Z"},
        Turn{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"},
        Turn{"America/Havana", "2024-03-10T05:00:00Z"},
        Turn{"America/Havana", "2024-11-03T05:00:00Z"},
        Turn{"America/Sao_Paulo", "2018-11-04T03:00:00Z"},
        Turn{"America/Sao_Paulo", "2019-02-17T02:00:00Z"},
        Turn{"America/St_Johns", "2006-10-29T02:31:00Z"},
        Turn{"America/St_Johns", "2006-04-02T03:31:00Z"},
        Turn{"Antarctica/Troll", "2026-03-29T01:00:00Z"},
        Turn{"Antarctica/Troll", "2026-10-25T01:00:00Z"},
        Turn{"Pacific/Apia", "2011-12-30T10:00:00Z"},
        Turn{"Pacific/Kwajalein", "1993-08-21T12:00:00Z"},
        Turn{"UTC", "2024-02-29T12:00:00Z"},
        Turn{"Asia/Kathmandu", "1985-12-31T18:30:00Z"},
    };
    std::size_t seen = 0;
    for (std::uint64_t seed = 1; seed <= 540; ++seed) {
        Dice dice(seed);
        const Turn& turn = turns[seed % turns.size()];
        const NaiveCron naive(dice, 60);
        const Instant after = at(turn.around) - hours(20) + minutes(dice.below(2000));
        const Instant until = at(turn.around) + hours(30);

        const auto expected = naive.walk(turn.zone, after, until);
        const auto actual = follow_until(cron(naive.text()), zone(turn.zone), after, until);

        ASSERT_EQ(actual, expected) << "seed " << seed << ": " << naive.text() << " in " << turn.zone << " after "
                                    << to_iso8601(after);
        seen += expected.size();
    }
    EXPECT_GT(seen, 10'000u);
}

TEST(CronProperty, agrees_with_a_minute_by_minute_walk_over_a_year_for_rare_expressions) {
    std::size_t seen = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        Dice dice(seed + 1'000'000);
        const NaiveCron naive(dice, 15);
        const Instant after = at("2023-06-01T00:00:00Z") + days(dice.below(300));
        const Instant until = after + days(366);

        const auto expected = naive.walk("Europe/Berlin", after, until);
        const auto actual = follow_until(cron(naive.text()), zone("Europe/Berlin"), after, until);

        ASSERT_EQ(actual, expected) << "seed " << seed << ": " << naive.text() << " after " << to_iso8601(after);
        seen += expected.size();
    }
    EXPECT_GT(seen, 1'000u);
}

TEST(CronProperty, next_does_not_depend_on_where_between_two_due_times_it_is_asked) {
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
        Dice dice(seed + 2'000'000);
        const NaiveCron naive(dice, 50);
        const Cron expression = cron(naive.text());
        const Zone here = zone("Australia/Lord_Howe");
        const Instant after = at("2026-04-01T00:00:00Z") + minutes(dice.below(400'000));
        const auto next = next_after(expression, here, after);
        if (!next) continue;

        const Instant between = after + (*next - after) / 100 * dice.below(100);

        ASSERT_EQ(next_after(expression, here, between), next) << "seed " << seed << ": " << naive.text();
        ASSERT_EQ(next_after(expression, here, *next - Duration(1)), next) << "seed " << seed << ": " << naive.text();
    }
}

}  // namespace
}  // namespace interlock
