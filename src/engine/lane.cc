#include "engine/lane.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace interlock::engine {
namespace {

constexpr Duration late_max = std::chrono::seconds(1);
// A commit takes about half as long. Much longer, and people would see that the books are behind.
constexpr Duration company_max = std::chrono::milliseconds(2);

}  // namespace

Lane::Lane(Engine& engine, Clock clock, OnStep on_step)
    : engine_(engine), clock_(std::move(clock)), on_step_(std::move(on_step)), thread_([this] { run(); }) {}

Lane::~Lane() {
    stopping_ = true;
    wake();
    thread_.join();
}

void Lane::submit(Submission submission) {
    const bool can_wait = submission.can_wait;
    submit_and_wake(std::move(submission), can_wait);
}

void Lane::submit(std::vector<Submission> submissions) {
    const bool can_wait = std::ranges::all_of(submissions, &Submission::can_wait);
    submit_and_wake(std::move(submissions), can_wait);
}

template <class Submitted>
void Lane::submit_and_wake(Submitted submitted, bool can_wait) {
    engine_.submit(std::move(submitted));
    const Rest rest = rest_;
    if (rest == Rest::asleep || (rest == Rest::waiting && !can_wait)) wake();
}

void Lane::run() {
    while (true) {
        // 1. Work, as long as there is some: the next batch is what queued up meanwhile.
        while (engine_.has_work(clock_.now())) {
            if (engine_.can_wait()) wait_for_batch();
            step();
        }
        if (stopping_) return;

        // 2. Sleep until somebody submits or a deadline comes.
        std::unique_lock lock(mutex_);
        rest_ = Rest::asleep;
        const Instant now = clock_.now();
        if (!engine_.has_work(now) && !stopping_) {
            const auto deadline = engine_.next_deadline();
            deadline ? void(work_.wait_for(lock, *deadline - now)) : work_.wait(lock);
        }
        rest_ = Rest::none;
    }
}

void Lane::wait_for_batch() {
    std::unique_lock lock(mutex_);
    rest_ = Rest::waiting;
    if (engine_.can_wait() && !stopping_) work_.wait_for(lock, company_max);
    rest_ = Rest::none;
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
