#include "engine/lane.h"

namespace interlock::engine {

Lane::Lane(Engine& engine, Clock clock) : engine_(engine), clock_(std::move(clock)), thread_([this] { run(); }) {}

Lane::~Lane() {
    stopping_ = true;
    wake();
    thread_.join();
}

void Lane::submit(Submission submission) {
    engine_.submit(std::move(submission));
    if (asleep_) wake();
}

void Lane::submit(std::vector<Submission> submissions) {
    engine_.submit(std::move(submissions));
    if (asleep_) wake();
}

void Lane::run() {
    while (true) {
        // 1. Work, as long as there is some: the next batch is what queued up meanwhile.
        while (engine_.has_work(clock_.now())) engine_.step(clock_.now());
        if (stopping_) return;

        // 2. Sleep until somebody submits or a deadline comes.
        std::unique_lock lock(mutex_);
        asleep_ = true;
        const Instant now = clock_.now();
        if (!engine_.has_work(now) && !stopping_) {
            const auto deadline = engine_.next_deadline();
            deadline ? void(work_.wait_for(lock, *deadline - now)) : work_.wait(lock);
        }
        asleep_ = false;
    }
}

void Lane::wake() {
    // Under the lock, so that it cannot fall between the sleeper's last look and its sleep.
    const std::lock_guard lock(mutex_);
    work_.notify_one();
}

}  // namespace interlock::engine
