// The store's time, as this node can tell it: the store's own clock when it last said so, and what has passed here
// since.
#pragma once

#include <atomic>
#include <chrono>

#include "base/instant.h"
#include "engine/clock.h"

namespace interlock::nodes {

class StoreTime {
 public:
    static Duration monotonic() {
        return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
    }

    // The store said `at` to a question that was asked and answered between these two moments.
    void heard(Instant at, Duration asked, Duration answered) {
        offset_ = micros(at) - (asked + (answered - asked) / 2).count();
    }

    Instant now() const { return from_micros(monotonic().count() + offset_); }

    // Follows the store's time without leaping, so that leases can stand on it.
    engine::Clock clock() const {
        return engine::Clock([this] { return now(); }, monotonic);
    }

 private:
    std::atomic<std::int64_t> offset_ = 0;
};

}  // namespace interlock::nodes
