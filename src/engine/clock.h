// The server's clock: wall time that does not jump.
//
// Leases stand on it, so it must neither run back nor leap: a wall clock set forward by an hour would take every live
// run from its owner. It advances with the monotonic clock and follows the wall clock slowly, by at most one part in
// `slew_divisor`. After a suspend both have moved, and it follows at once what the monotonic clock saw.
#pragma once

#include <functional>
#include <mutex>

#include "base/instant.h"

namespace interlock::engine {

class Clock {
 public:
    using Wall = std::function<Instant()>;
    using Monotonic = std::function<Duration()>;

    static constexpr std::int64_t slew_divisor = 20;  // 50 ms in a second: an hour's error is gone after a day.

    Clock();  // The machine's own.
    Clock(Wall wall, Monotonic monotonic);
    Clock(Clock&& other) noexcept;

    // Never less than before. Any thread.
    Instant now();
    // Goes on from there, if it is later, and comes back to the wall clock as slowly as ever.
    void go_on_from(Instant at);

 private:
    Wall wall_;
    Monotonic monotonic_;
    std::mutex mutex_;
    Duration last_monotonic_;
    Instant last_;
};

}  // namespace interlock::engine
