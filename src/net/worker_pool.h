// A few threads for work that blocks, such as reading a database, so that no connection waits for another's query.
//
//   (1) At most threads × 1 + queue_max pieces of work are taken on; more is refused with Busy, which the server
//       answers with 503.
//   (2) The destructor finishes what is queued and then ends the threads.
//   (3) The system shows the threads as "worker".
//   (4) Reading large bodies takes seconds of CPU time. A pool for such work has a nice value above 0, so that the
//       threads of connections answer small requests meanwhile, also when all cores are busy.
//
// There is no order between pieces of work.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "net/http.h"

namespace interlock::net {

class WorkerPool {
 public:
    struct Options {
        std::size_t threads = 2;
        std::size_t queue_max = 1'024;
        // Added to the threads' nice value. When all cores are busy, threads with a lower value run first.
        int nice = 0;
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
Task<void> run_on(WorkerPool& pool, std::function<void()> work);

template <class Work, class T = std::invoke_result_t<Work&>>
    requires(!std::is_void_v<T>)
Task<T> run_on(WorkerPool& pool, Work work) {
    // Not in this frame: whoever waits may be gone before the work.
    const auto result = std::make_shared<std::optional<T>>();
    std::function<void()> keep_result = [result, work = std::move(work)]() mutable { result->emplace(work()); };
    co_await run_on(pool, std::move(keep_result));
    co_return std::move(**result);
}

}  // namespace interlock::net
