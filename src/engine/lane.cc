#include "engine/lane.h"

#include <chrono>

namespace interlock::engine {
namespace {

constexpr Duration late_max = std::chrono::seconds(1);

}  // namespace

Lane::Lane(Engine& engine, Clock clock, OnStep on_step)
    : engine_(engine), clock_(std::move(clock)), on_step_(std::move(on_step)), thread_([this] { run(); }) {}

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
        while (engine_.has_work(clock_.now())) step();
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

void Lane::step() {
    const auto begun = std::chrono::steady_clock::now();
    // A lease may be over only because the machine, this process or its disk did not move.
    const Instant now = clock_.now();
    const auto deadline = engine_.next_deadline();
    if (deadline && now - *deadline > late_max) engine_.stood_still();
    const std::size_t commands = engine_.step(now);
    if (!on_step_) return;
    const auto took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
    on_step_({commands, took, engine_.stats()});
}

void Lane::wake() {
    // Under the lock, so that it cannot fall between the sleeper's last look and its sleep.
    const std::lock_guard lock(mutex_);
    work_.notify_one();
}

}  // namespace interlock::engine
