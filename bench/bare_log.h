// The physical limit: commands written down and synced, and nothing else.
//
// The same clients, the same queue and the same group commit as the engine: what has queued up while the last sync was
// on its way is encoded, written with one pwrite, made durable with one fdatasync, and answered. The file has its full
// length from the start and is written round and round, so a sync writes data only and never the file system's own
// tables. There is no rule, no row and nothing that could be read back by key.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/driver.h"

namespace interlock::bench {

class BareLog : public Target {
 public:
    // Empty when the file cannot be made; `problem` says why.
    static std::unique_ptr<BareLog> open(const std::string& file, std::string& problem);
    ~BareLog() override;

    void submit(std::vector<engine::Submission> submissions) override;
    bool decides() const override { return false; }
    std::uint64_t batches() const override;

 private:
    static constexpr std::size_t bytes_max = 64u << 20;

    explicit BareLog(int file) : file_(file), thread_([this] { run(); }) {}
    void run();
    bool write(const std::string& bytes);

    const int file_;
    std::size_t offset_ = 0;  // The writer's own.
    mutable std::mutex mutex_;
    std::condition_variable work_;
    std::vector<engine::Submission> queue_;
    std::uint64_t batches_ = 0;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace interlock::bench
