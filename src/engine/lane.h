// A lane: the thread and the clock that drive an engine.
//
// It sleeps until somebody submits or the next deadline comes, and never polls otherwise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/clock.h"
#include "engine/engine.h"

namespace interlock::engine {

class Lane {
 public:
    // The engine has been opened and is used by nobody else from here on.
    explicit Lane(Engine& engine, Clock clock = Clock());
    ~Lane();  // Carries out what is queued, then ends.

    void submit(Submission submission);
    void submit(std::vector<Submission> submissions);
    Instant now() { return clock_.now(); }

 private:
    void run();
    void wake();

    Engine& engine_;
    Clock clock_;
    std::mutex mutex_;
    std::condition_variable work_;
    std::atomic<bool> asleep_ = false;  // Set before the last look at the queue: whoever queues after it sees it.
    std::atomic<bool> stopping_ = false;
    std::thread thread_;
};

}  // namespace interlock::engine
