// Calendars: IANA time zones, the day, week or month an instant falls into, and instants as text.
//
// A wall clock jumps ahead in spring, falls back in autumn, and now and then a country drops a whole day. Two questions
// settle all of that, and everything here is built from them: how far has the wall clock come by now (furthest_local),
// and when did it first get as far as this (first_instant).
//
// Invariants:
//
//   (1) window_at(kind, zone, t) contains t, for every t in [far_past, far_future).
//   (2) Windows of one kind in one zone tile time: the end of one is the start of the next, and none is empty.
//   (3) A window starts at the first instant at which the wall clock shows its first date or a later one. So a midnight
//       that is skipped, one that comes twice and a date that never was need no rules of their own.
//   (4) furthest_local never falls and first_instant never falls; first_instant(zone, l) <= t exactly when
//       l <= furthest_local(zone, t).
//
// Rules come from the zone files of the system, which end in 2037; from then on the last offset they name is kept. An
// instant outside [far_past, far_future) is treated as the nearest one inside. No clock is read here.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/instant.h"

namespace interlock {

// What a wall clock shows; an Instant only together with a zone.
using LocalTime = std::chrono::local_time<Duration>;

struct ZoneRules;

// A time zone that exists. A pointer in size, and what it points to is never changed and never goes away.
class Zone {
 public:
    const std::string& name() const;
    const ZoneRules& rules() const { return *rules_; }
    friend bool operator==(const Zone&, const Zone&) = default;

 private:
    friend std::optional<Zone> find_zone(std::string_view name);
    friend const Zone& utc();
    explicit Zone(const ZoneRules& rules) : rules_(&rules) {}

    const ZoneRules* rules_;
};

// Empty for every name that is not in the system's zone database. "UTC" and "Etc/UTC" need no database. "localtime" is
// refused: it would mean another zone on every machine. May be called from any thread; a zone asked for before costs a
// look into a map.
std::optional<Zone> find_zone(std::string_view name);
const Zone& utc();

// A stretch of time, as long as possible, over which a zone keeps one offset from UTC.
struct OffsetSpan {
    Instant start;
    Instant end;
    std::chrono::seconds offset;
    friend bool operator==(const OffsetSpan&, const OffsetSpan&) = default;
};

OffsetSpan offset_at(const Zone& zone, Instant at);

// The latest time that the zone's wall clock has shown at `at` or before. In the hour that comes twice, it stands
// still.
LocalTime furthest_local(const Zone& zone, Instant at);
// The first instant at which the zone's wall clock shows `local` or later.
Instant first_instant(const Zone& zone, LocalTime local);

enum class WindowKind { day, week, month, total };

// Half open: `start` belongs to it, `end` does not.
struct WindowSpan {
    Instant start;
    Instant end;
    friend bool operator==(const WindowSpan&, const WindowSpan&) = default;
};

// Weeks start on Monday. The total is one window, [far_past, far_future).
WindowSpan window_at(WindowKind kind, const Zone& zone, Instant at);

// Days since 1970-01-01, rounded down.
std::int32_t utc_day(Instant at);

// "2026-11-15T09:00:00Z", and "2026-11-15T09:00:00.123456Z" when there is a fraction. A year that four digits cannot
// hold gets a sign and six, which from_iso8601 does not read back.
std::string to_iso8601(Instant at);
// Reads what to_iso8601 writes, and offsets (+hh:mm, -hh:mm) in place of the Z. A fraction has one to nine digits, of
// which those below a microsecond are cut off. Everything else is refused: no zone, a date that does not exist, second
// 60, lower case, spaces.
std::optional<Instant> from_iso8601(std::string_view text);

}  // namespace interlock
