// A lane: the thread and the clock that drive an engine.
//
// It sleeps until somebody submits or the next deadline comes, and never polls otherwise. What can wait is given a
// moment, in which something else may come that is to be written anyway.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/clock.h"
#include "engine/engine.h"

namespace interlock::engine {

// What a lane has just done.
struct BatchStats {
    std::size_t commands = 0;  // Answered; time alone may have done something too.
    Duration took{};
    EngineStats stats;
};
using OnStep = std::function<void(const BatchStats&)>;

class Lane {
 public:
    // The engine has been opened and is used by nobody else from here on. `on_step` is called on the lane's thread
    // after everybody was answered.
    explicit Lane(Engine& engine, Clock clock = Clock(), OnStep on_step = {});
    ~Lane();  // Carries out what is queued, then ends.

    void submit(Submission submission);
    void submit(std::vector<Submission> submissions);
    Instant now() { return clock_.now(); }

 private:
    enum class Rest { none, waiting, asleep };
    void run();
    void wait_for_batch();
    void step();
    void wake();
    template <class Submitted>
    void submit_and_wake(Submitted submitted, bool can_wait);

    Engine& engine_;
    Clock clock_;
    OnStep on_step_;
    std::mutex mutex_;
    std::condition_variable work_;
    std::atomic<Rest> rest_ = Rest::none;  // Set before the last look at the queue: whoever queues after it sees it.
    std::atomic<bool> stopping_ = false;
    std::thread thread_;
};

}  // namespace interlock::engine
