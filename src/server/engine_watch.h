// Counts what the engine does: the size of its batches and how long they take.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/histogram.h"
#include "engine/engine.h"
#include "engine/lane.h"

namespace interlock::server {

class EngineWatch {
 public:
    void on_step(const engine::BatchStats& step);
    engine::EngineStats stats() const;
    // Appends the counts in Prometheus' text.
    void write(std::string& out) const;

 private:
    static constexpr std::array<std::size_t, 9> batch_buckets{1, 4, 16, 64, 256, 1024, 4096, 16384, SIZE_MAX};
    mutable std::mutex mutex_;
    engine::EngineStats stats_;
    Histogram step_seconds_;
    std::array<std::uint64_t, batch_buckets.size()> batches_{};
    std::uint64_t commands_ = 0;
};

}  // namespace interlock::server
