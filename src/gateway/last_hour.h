// What became of the requests to one upstream in the last hour, minute by minute.
//
//   (1) Sixty minutes are kept, the one under way among them. An older one is never shown.
//   (2) It takes the same room however many requests there are.
//
// Times are of requests that were answered: one that fails at once says nothing about how long an answer takes. Whoever
// shares one between threads locks it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "base/instant.h"

namespace interlock::gateway {

// How long an answer took, from the moment its request was sent. Zero: it was not measured.
struct CallLatency {
    Duration first_byte = {};
    Duration all = {};
};

class LastHour {
 public:
    static constexpr std::size_t minutes_max = 60;

    LastHour();

    void succeeded(Instant at, CallLatency took);
    void failed(Instant at);

    struct Minute {
        Instant at = {};  // Its beginning.
        std::int64_t calls = 0;
        std::int64_t errors = 0;
        friend bool operator==(const Minute&, const Minute&) = default;
    };
    struct Sums {
        Sums();
        std::int64_t calls = 0;
        std::int64_t errors = 0;
        std::vector<Minute> minutes = {};  // Those in which there was something, the oldest first.
        Histogram first_byte;              // Seconds, as below.
        Histogram duration;
    };
    Sums sums(Instant now) const;
    Instant last_at() const { return last_at_; }
    // The beginning of the oldest minute that is kept at this time.
    static Instant begins_at(Instant now);

 private:
    struct Slot {
        Slot();
        Minute minute = {};
        Histogram first_byte;
        Histogram duration;
    };
    Slot& slot_at(Instant at);

    std::array<Slot, minutes_max> slots_;
    Instant last_at_ = far_past;
};

}  // namespace interlock::gateway
