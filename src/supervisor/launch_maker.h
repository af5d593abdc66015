// Makes a run ready for its launch: its worktree, its directory among the server's data, and the message that its shim
// gets. For the supervisor's thread. What blocks is done elsewhere.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/rows.h"
#include "supervisor/options.h"
#include "supervisor/run_places.h"
#include "supervisor/run_rows.h"
#include "supervisor/task_queue.h"
#include "supervisor/watch.h"

namespace interlock::supervisor {

class LaunchMaker {
 public:
    using Then = std::function<void(WatchEvent)>;  // Gets Prepared, NotPrepared or PrepareLater.

    LaunchMaker(const SupervisorOptions& options, const RunRows& rows, RunPlaces& places,
                std::shared_ptr<TaskQueue> task_queue)
        : options_(options), rows_(rows), places_(places), task_queue_(std::move(task_queue)) {}

    // Where groups can be made; empty: nowhere.
    void use_cgroups(const std::string& parent) { cgroups_ = parent; }
    // On the supervisor's thread, now or later.
    void make(const Order& order, const Then& then) const;

 private:
    WatchEvent made(const core::Run& row, const core::ProcessSpec& process,
                    const Result<WorktreeKeeper::Made, std::string>& place) const;

    const SupervisorOptions& options_;
    const RunRows& rows_;
    RunPlaces& places_;
    const std::shared_ptr<TaskQueue> task_queue_;
    std::string cgroups_;
};

}  // namespace interlock::supervisor
