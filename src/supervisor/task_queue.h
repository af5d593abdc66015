// What other threads leave for the supervisor's to do. It outlives both, so that a late answer finds a closed box
// instead of nothing.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace interlock::supervisor {

class TaskQueue {
 public:
    using Job = std::function<void()>;

    // Rung after each post, until close().
    void open(std::function<void()> wake) {
        const std::lock_guard lock(mutex_);
        wake_ = std::move(wake);
    }
    void close() {
        const std::lock_guard lock(mutex_);
        wake_ = {};
        jobs_.clear();
    }
    // Nothing happens when it is closed.
    void post(Job job) {
        const std::lock_guard lock(mutex_);
        if (!wake_) return;
        jobs_.push_back(std::move(job));
        wake_();
    }
    std::vector<Job> take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(jobs_, {});
    }

 private:
    std::mutex mutex_;
    std::function<void()> wake_;
    std::vector<Job> jobs_;
};

}  // namespace interlock::supervisor
