#include "server/engine_watch.h"

#include <fmt/format.h>

#include "base/prometheus.h"

namespace interlock::server {

void EngineWatch::on_step(const engine::BatchStats& step) {
    const std::lock_guard lock(mutex_);
    stats_ = step.stats;
    step_seconds_.add(std::chrono::duration<double>(step.took).count());
    if (step.commands == 0) return;
    std::size_t bucket = 0;
    while (bucket + 1 < batch_buckets.size() && step.commands > batch_buckets[bucket]) ++bucket;
    ++batches_[bucket];
    commands_ += step.commands;
}

engine::EngineStats EngineWatch::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

void EngineWatch::write(std::string& out) const {
    const std::lock_guard lock(mutex_);
    write_family(out, "interlock_engine_batch_seconds", "histogram", "Time to apply, commit and answer a batch.");
    step_seconds_.write(out, "interlock_engine_batch_seconds", "");
    write_family(out, "interlock_engine_batch_commands", "histogram", "Commands per batch.");
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < batch_buckets.size(); ++i) {
        total += batches_[i];
        const bool last = i + 1 == batch_buckets.size();
        out += fmt::format("interlock_engine_batch_commands_bucket{{le=\"{}\"}} {}\n",
                           last ? "+Inf" : std::to_string(batch_buckets[i]), total);
    }
    out += fmt::format("interlock_engine_batch_commands_sum {}\ninterlock_engine_batch_commands_count {}\n", commands_,
                       total);
}

}  // namespace interlock::server
