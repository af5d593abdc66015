#include "net/worker_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>

#include "net/answer.h"

namespace interlock::net {

WorkerPool::WorkerPool(Options options) : options_(options) {
    for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkerPool::~WorkerPool() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::submit(std::function<void()> work) {
    {
        const std::lock_guard lock(mutex_);
        if (queue_.size() >= options_.queue_max) return false;
        queue_.push_back(std::move(work));
    }
    work_.notify_one();
    return true;
}

void WorkerPool::run() {
    ::pthread_setname_np(::pthread_self(), "worker");
    if (options_.nice > 0) {
        const auto thread = static_cast<id_t>(::gettid());
        // A failure only makes the work as urgent as all other work.
        ::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + options_.nice);
    }
    while (true) {
        std::function<void()> work;
        {
            std::unique_lock lock(mutex_);
            work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (queue_.empty()) return;
            work = std::move(queue_.front());
            queue_.pop_front();
        }
        work();
    }
}

Task<void> run_on(WorkerPool& pool, std::function<void()> work) {
    using Outcome = std::exception_ptr;  // Null: it is done.
    bool taken = true;
    const Outcome thrown = co_await await_answer<Outcome>([&](Deliver<Outcome> deliver) {
        taken = pool.submit([work = std::move(work), deliver]() mutable {
            Outcome outcome;
            try {
                work();
            } catch (...) {
                outcome = std::current_exception();
            }
            work = nullptr;  // Before whoever waits goes on: what it holds may be theirs.
            deliver(std::move(outcome));
        });
        if (!taken) deliver(Outcome());
    });
    if (!taken) throw Busy("the worker pool's queue is full");
    if (thrown) std::rethrow_exception(thrown);
}

}  // namespace interlock::net
