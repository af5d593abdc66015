// What the supervisor's thread is to do at a time. For one thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>

namespace interlock::supervisor {

class Timers {
 public:
    using Clock = std::chrono::steady_clock;

    void after(Clock::duration delay, std::function<void()> what) {
        jobs_.emplace(Clock::now() + delay, std::move(what));
    }
    Clock::time_point next() const { return jobs_.empty() ? Clock::time_point::max() : jobs_.begin()->first; }
    void run_due() {
        while (next() <= Clock::now()) {
            const auto due = jobs_.extract(jobs_.begin());
            due.mapped()();
        }
    }

 private:
    std::multimap<Clock::time_point, std::function<void()>> jobs_;
};

}  // namespace interlock::supervisor
