// A few threads for work that blocks, such as reading a database, so that no connection waits for another's query.
//
//   (1) At most threads × 1 + queue_max pieces of work are taken on; more is refused with Busy, which the server
//   answers
//       with 503.
//   (2) The destructor finishes what is queued and then ends the threads.
//
// There is no order between pieces of work.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "net/answer.h"
#include "net/http.h"

namespace interlock::net {

class WorkerPool {
 public:
    struct Options {
        std::size_t threads = 2;
        std::size_t queue_max = 1'024;
    };
    explicit WorkerPool(Options options);
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    // False, and nothing happens, when the queue is full. The work does not throw.
    [[nodiscard]] bool submit(std::function<void()> work);

 private:
    void run();

    const Options options_;
    std::mutex mutex_;
    std::condition_variable work_;
    std::deque<std::function<void()>> queue_;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

// Runs `work` on the pool and returns what it returned, or throws what it threw, on the coroutine's own thread. The
// work is copyable; what it refers to outlives it.
template <class Work, class T = std::invoke_result_t<Work&>>
Task<T> run_on(WorkerPool& pool, Work work) {
    using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;
    using Outcome = std::variant<std::exception_ptr, Value>;

    bool taken = true;
    Outcome outcome = co_await await_answer<Outcome>([&](Deliver<Outcome> deliver) {
        taken = pool.submit([work = std::move(work), deliver]() mutable {
            Outcome done;
            try {
                if constexpr (std::is_void_v<T>) {
                    work();
                    done.template emplace<Value>();
                } else {
                    done.template emplace<Value>(work());
                }
            } catch (...) {
                done.template emplace<std::exception_ptr>(std::current_exception());
            }
            deliver(std::move(done));
        });
        if (!taken) deliver(Outcome());
    });
    if (!taken) throw Busy("the worker pool's queue is full");
    if (const auto* thrown = std::get_if<std::exception_ptr>(&outcome)) std::rethrow_exception(*thrown);
    if constexpr (!std::is_void_v<T>) co_return std::get<Value>(std::move(outcome));
}

}  // namespace interlock::net
