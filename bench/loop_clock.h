// The clock the benchmarks measure with, and the processor time used so far.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>

namespace interlock::bench {

using Clock = std::chrono::steady_clock;

inline Clock::duration as_duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}
inline std::uint64_t nanos_between(Clock::time_point from, Clock::time_point to) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
}
inline double seconds_since(Clock::time_point from) {
    return static_cast<double>(nanos_between(from, Clock::now())) * 1e-9;
}

// User and system time together.
struct CpuTime {
    double process_us = 0;
    double thread_us = 0;

    static CpuTime now() { return {.process_us = used(RUSAGE_SELF), .thread_us = used(RUSAGE_THREAD)}; }

 private:
    static double used(int who) {
        rusage usage{};
        getrusage(who, &usage);
        const auto micros = [](const timeval& time) {
            return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
        };
        return micros(usage.ru_utime) + micros(usage.ru_stime);
    }
};

}  // namespace interlock::bench
