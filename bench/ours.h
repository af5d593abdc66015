// Interlock as a target: a SQLite store in a directory, an engine and its lane.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/driver.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "store/store.h"

namespace interlock::bench {

class Ours : public Target {
 public:
    // Opens the store and makes the org that the workloads use. Empty when that fails; `problem` says why.
    static std::unique_ptr<Ours> open(const std::string& directory, Ids& ids, std::string& problem);
    ~Ours() override;

    void submit(std::vector<engine::Submission> submissions) override { lane_->submit(std::move(submissions)); }
    bool decides() const override { return true; }
    std::uint64_t batches() const override { return engine_->stats().batches; }

    store::Store& store() { return *store_; }

 private:
    Ours() = default;

    std::unique_ptr<store::Store> store_;
    std::unique_ptr<engine::Engine> engine_;
    std::unique_ptr<engine::Lane> lane_;
};

// Compares the rows with what the workload was answered; what differs is added to `problems`.
void check_rows(Ours& ours, Workload& workload, std::vector<std::string>& problems);

}  // namespace interlock::bench
