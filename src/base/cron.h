// Cron expressions: five fields, and when they are next due in a time zone.
//
//     minute  hour  day-of-month  month  day-of-week
//      0-59   0-23      1-31      1-12      0-7        0 and 7 are Sunday; jan-dec and sun-sat in any case
//
// A field is a list (1,15) of numbers, ranges (9-17), `*`, and steps over either (*/5, 10-50/10; 5/15 counts from 5 to
// the end). A range of weekdays may pass the end of the week (fri-mon); in other fields a range that runs backwards is
// refused. The macros are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually.
//
// Invariants:
//
//   (1) When day-of-month and day-of-week are both restricted, a day that fits either is due. A field that starts with
//       `*` is not restricted, not even with a step, and then the day must fit both. This is Vixie cron's rule.
//   (2) next_after is strictly later than `after`, so following it from any point visits every due instant once.
//   (3) Times that the clock skips in spring are made up for once, at the first instant after the gap, unless the
//       expression is due every hour: then the hours before and after the gap already are one hour apart.
//   (4) Times that the clock shows twice in autumn are due the first time only, unless the expression repeats by
//       itself: its minutes start with `*`, or it is due every hour. Then it goes on at its pace.
//
// There are no seconds, years, or marks such as L, W, # and ?, and no @reboot, which is not a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/calendar.h"
#include "base/instant.h"
#include "base/result.h"

namespace interlock {

constexpr std::size_t cron_text_max = 256;

struct CronError {
    std::string field;  // "minute", "hour", "day of month", "month", "day of week"; "expression" for the whole
    std::string what;   // A sentence for whoever wrote the expression.
};

// What an expression allows, as bits: minute 0 is bit 0, but day 1 is bit 1 and January is bit 1. None is ever empty.
struct CronFields {
    std::uint64_t minutes = 0;
    std::uint64_t hours = 0;
    std::uint64_t days = 0;
    std::uint64_t months = 0;
    std::uint64_t weekdays = 0;  // Sunday is bit 0.
    bool either_day_fits = false;
    bool minutes_repeat = false;  // The minutes were written as `*` or `*/n`.
    friend bool operator==(const CronFields&, const CronFields&) = default;
};

class Cron {
 public:
    const CronFields& fields() const { return fields_; }
    bool every_hour() const;
    friend bool operator==(const Cron&, const Cron&) = default;

 private:
    friend Result<Cron, CronError> parse_cron(std::string_view text);
    explicit Cron(const CronFields& fields) : fields_(fields) {}

    CronFields fields_;
};

Result<Cron, CronError> parse_cron(std::string_view text);

// The first instant strictly after `after` at which the expression is due in the zone. Empty if it never is, such as on
// February 30, and from the year 10000 on.
std::optional<Instant> next_after(const Cron& cron, const Zone& zone, Instant after);

}  // namespace interlock
