// Which thread reads a body. A hostile body of 32 MiB takes seconds to read, and a connection's thread serves many.
//
//   (1) A body above read_on_io_bytes_max is read by a worker. So no body keeps a connection's thread for more than a
//       few milliseconds.
//   (2) Each byte of a body that is read is counted once per reading, by the kind of thread that read it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "net/task.h"
#include "net/worker_pool.h"

namespace interlock::net {

constexpr std::size_t read_on_io_bytes_max = 256u << 10;

class BodyReads {
 public:
    void count_on_io(std::size_t bytes) { on_io_.fetch_add(bytes, std::memory_order_relaxed); }
    void count_on_worker(std::size_t bytes) { on_workers_.fetch_add(bytes, std::memory_order_relaxed); }
    std::uint64_t on_io() const { return on_io_; }
    std::uint64_t on_workers() const { return on_workers_; }

 private:
    std::atomic<std::uint64_t> on_io_ = 0;
    std::atomic<std::uint64_t> on_workers_ = 0;
};

// Returns what `work` returns. `bytes` is the size of what it reads: that decides whether it runs on this thread or on
// a worker. What it refers to outlives it.
template <class Work>
Task<std::invoke_result_t<Work&>> read_off_io(WorkerPool& workers, BodyReads& reads, std::size_t bytes, Work work) {
    if (bytes <= read_on_io_bytes_max) {
        reads.count_on_io(bytes);
        co_return work();
    }
    reads.count_on_worker(bytes);
    co_return co_await run_on(workers, std::move(work));
}

}  // namespace interlock::net
