// Fresh ids: time-ordered, and unique across threads and processes.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/id.h"

namespace interlock::engine {

class IdSource {
 public:
    IdSource();  // Seeded by the machine.
    explicit IdSource(std::uint64_t seed) : seed_(seed) {}

    Id next(Instant now) {
        const std::uint64_t count = count_.fetch_add(1, std::memory_order_relaxed);
        const auto within_ms = static_cast<std::uint64_t>(micros(now) % 1000) * 4;
        return time_ordered_id(now, within_ms, scatter(seed_ + count));
    }

 private:
    // One to one on 64 bits, so that two counts never give the same id within a process; looks random, so that two
    // processes hardly ever do.
    static std::uint64_t scatter(std::uint64_t bits) {
        bits = (bits ^ (bits >> 30)) * 0xBF58'476D'1CE4'E5B9ull;
        bits = (bits ^ (bits >> 27)) * 0x94D0'49BB'1331'11EBull;
        return bits ^ (bits >> 31);
    }

    std::uint64_t seed_;
    std::atomic<std::uint64_t> count_ = 0;
};

}  // namespace interlock::engine
