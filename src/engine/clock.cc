#include "engine/clock.h"

#include <algorithm>
#include <chrono>

namespace interlock::engine {

Clock::Clock()
    : Clock([] { return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()); },
            [] { return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()); }) {}

Clock::Clock(Wall wall, Monotonic monotonic)
    : wall_(std::move(wall)), monotonic_(std::move(monotonic)), last_monotonic_(monotonic_()), last_(wall_()) {}

Clock::Clock(Clock&& other) noexcept
    : wall_(std::move(other.wall_)),
      monotonic_(std::move(other.monotonic_)),
      last_monotonic_(other.last_monotonic_),
      last_(other.last_) {}

Instant Clock::now() {
    const std::lock_guard lock(mutex_);
    const Duration monotonic = monotonic_();
    const Duration elapsed = std::max(Duration(0), monotonic - last_monotonic_);
    const Duration slew_max = elapsed / slew_divisor;
    const Instant expected = last_ + elapsed;
    const Duration error = wall_() - expected;
    last_ = expected + std::clamp(error, -slew_max, slew_max);
    last_monotonic_ = monotonic;
    return last_;
}

void Clock::go_on_from(Instant at) {
    const std::lock_guard lock(mutex_);
    last_ = std::max(last_, at);
}

}  // namespace interlock::engine
