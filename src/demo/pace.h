// How quickly a simulated fleet goes about its work, and whether it is to stop. For any number of threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace interlock::demo {

class DemoPace {
 public:
    explicit DemoPace(double factor) : factor_(factor) {}

    // Waits as long as people would find natural, over the factor; in the first moments much shorter, so that there
    // is something to see everywhere. False: the fleet is to stop.
    bool wait(double seconds) {
        std::unique_lock lock(mutex_);
        const bool opening = std::chrono::steady_clock::now() - began_ < opening_time;
        const std::chrono::duration<double> time(seconds / factor_ / (opening ? opening_hurry : 1));
        return !stop_.wait_for(lock, time, [this] { return stopping_; });
    }
    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        stop_.notify_all();
    }
    // What somebody promises to do within `seconds` of this pace, in seconds of the clock.
    int at_most(double seconds) const { return static_cast<int>(seconds / (factor_ < 1 ? factor_ : 1)); }

 private:
    static constexpr std::chrono::seconds opening_time{5};
    static constexpr double opening_hurry = 6;

    const double factor_;
    const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::mutex mutex_;
    std::condition_variable stop_;
    bool stopping_ = false;
};

}  // namespace interlock::demo
