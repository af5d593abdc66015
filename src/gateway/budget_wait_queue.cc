#include "gateway/budget_wait_queue.h"

#include <vector>

namespace interlock::gateway {

net::Task<bool> BudgetWaitQueue::wait(core::OrgId org, std::string budget, Ticket ticket, net::SteadyTime deadline) {
    co_return co_await net::await_answer<bool>([&](net::Deliver<bool> wake) {
        const std::lock_guard lock(mutex_);
        lines_[{org, budget}].emplace(ticket, Waiter{std::move(wake), deadline});
    });
}

bool BudgetWaitQueue::anybody_waits() {
    const std::lock_guard lock(mutex_);
    return !lines_.empty();
}

void BudgetWaitQueue::released(core::OrgId org) {
    std::vector<Waiter> woken;
    {
        const std::lock_guard lock(mutex_);
        for (auto line = lines_.lower_bound({org, ""}); line != lines_.end() && line->first.first == org;) {
            woken.push_back(std::move(line->second.begin()->second));
            line->second.erase(line->second.begin());
            line = line->second.empty() ? lines_.erase(line) : std::next(line);
        }
    }
    for (const Waiter& waiter : woken) waiter.wake(true);
}

void BudgetWaitQueue::tick(net::SteadyTime now) {
    std::vector<std::pair<Waiter, bool>> woken;
    {
        const std::lock_guard lock(mutex_);
        for (auto line = lines_.begin(); line != lines_.end();) {
            Line& waiters = line->second;
            bool first = true;
            for (auto waiter = waiters.begin(); waiter != waiters.end();) {
                const bool in_time = waiter->second.deadline > now;
                const bool wake = !in_time || std::exchange(first, false);
                if (wake) woken.emplace_back(std::move(waiter->second), in_time);
                waiter = wake ? waiters.erase(waiter) : std::next(waiter);
            }
            line = waiters.empty() ? lines_.erase(line) : std::next(line);
        }
    }
    for (const auto& [waiter, in_time] : woken) waiter.wake(in_time);
}

}  // namespace interlock::gateway
