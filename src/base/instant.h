// Points in time, to the microsecond. Time is data here: only the server's clock makes an Instant, everything else is
// handed one.
#pragma once

#include <chrono>
#include <cstdint>

namespace interlock {

using Duration = std::chrono::microseconds;
using Instant = std::chrono::sys_time<Duration>;

// The smallest step of time.
constexpr Duration instant_step{1};

constexpr Instant from_micros(std::int64_t micros) { return Instant(Duration(micros)); }
constexpr std::int64_t micros(Instant at) { return at.time_since_epoch().count(); }

// The end of a window that never turns, and the deadline of what never expires.
constexpr Instant far_future = from_micros(std::int64_t{253'402'300'800} * 1'000'000);  // the year 10000
constexpr Instant far_past = from_micros(0);

}  // namespace interlock
