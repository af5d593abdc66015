#include "gateway/last_hour.h"

#include <algorithm>
#include <chrono>

namespace interlock::gateway {
namespace {

// Seconds, from a millisecond to nearly nine minutes, each a quarter above the one before: a quantile that is read from
// these is off by less than that.
constexpr std::array latency_bounds = [] {
    std::array<double, 60> made{};
    double bound = 0.001;
    for (double& each : made) {
        each = bound;
        bound *= 1.25;
    }
    return made;
}();

double seconds(Duration length) { return std::chrono::duration<double>(length).count(); }

Instant minute_of(Instant at) { return std::chrono::floor<std::chrono::minutes>(at); }

}  // namespace

LastHour::Sums::Sums() : first_byte(latency_bounds), duration(latency_bounds) {}
LastHour::Slot::Slot() : first_byte(latency_bounds), duration(latency_bounds) {}
LastHour::LastHour() = default;

void LastHour::succeeded(Instant at, CallLatency took) {
    Slot& slot = slot_at(at);
    ++slot.minute.calls;
    if (took.first_byte > Duration()) slot.first_byte.add(seconds(took.first_byte));
    if (took.all > Duration()) slot.duration.add(seconds(took.all));
}

void LastHour::failed(Instant at) {
    Slot& slot = slot_at(at);
    ++slot.minute.calls;
    ++slot.minute.errors;
}

// Whatever is in its place is of another hour.
LastHour::Slot& LastHour::slot_at(Instant at) {
    last_at_ = at;
    const Instant minute = minute_of(at);
    const auto number = std::chrono::duration_cast<std::chrono::minutes>(minute.time_since_epoch()).count();
    Slot& slot = slots_[static_cast<std::size_t>(number) % minutes_max];
    if (slot.minute.at != minute) {
        slot = Slot();
        slot.minute.at = minute;
    }
    return slot;
}

Instant LastHour::begins_at(Instant now) { return minute_of(now) - std::chrono::minutes(minutes_max - 1); }

LastHour::Sums LastHour::sums(Instant now) const {
    Sums sums;
    for (const Slot& slot : slots_) {
        if (slot.minute.calls == 0 || slot.minute.at < begins_at(now) || slot.minute.at > now) continue;
        sums.calls += slot.minute.calls;
        sums.errors += slot.minute.errors;
        sums.minutes.push_back(slot.minute);
        sums.first_byte.add(slot.first_byte);
        sums.duration.add(slot.duration);
    }
    std::ranges::sort(sums.minutes, {}, &Minute::at);
    return sums;
}

}  // namespace interlock::gateway
