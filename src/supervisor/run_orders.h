// Follows what is committed about this node's runs: every run that has not ended when the server starts, then the feed.
//
//   (1) An order whose rows cannot be read is read again later. It is never dropped.
//   (2) A run is found once under each fence.
//   (3) Of runs that their clients own, only the directories are followed.
//
// For the supervisor's thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/event.h"
#include "shim/state.h"
#include "supervisor/options.h"
#include "supervisor/run_directories.h"
#include "supervisor/run_rows.h"
#include "supervisor/watch.h"

namespace interlock::supervisor {

class RunOrders {
 public:
    struct Hooks {
        std::function<std::optional<core::Fence>(core::RunId)> watched;  // The fence of a run that is watched.
        std::function<void(event::Found)> found;
        std::function<void(core::RunId, WatchEvent)> happens;
        std::function<void(const core::Run&)> clients_run;  // Is live.
        std::function<void()> settle;
        // Processes of a run that is not this node's any more may still be there.
        std::function<void(core::RunId, const shim::ShimState&, std::vector<core::Place>)> left_over;
        std::function<void(std::chrono::nanoseconds, std::function<void()>)> later;
    };
    RunOrders(const SupervisorOptions& options, const RunRows& rows, Hooks hooks)
        : options_(options), rows_(rows), hooks_(std::move(hooks)) {}

    // At the start. False: the rows cannot be read now.
    bool read_everything(const RunDirectories& directories);
    // What was committed since. False: the rest cannot be read now.
    bool follow();
    void take_on(const core::Run& row);
    // Where groups can be made; empty: nowhere.
    void use_cgroups(const std::string& parent) { cgroups_ = parent; }

 private:
    void on_event(const core::Event& event);
    void look_up(core::RunId id);
    void look_whether_back_in_line(core::RunId id);

    const SupervisorOptions& options_;
    const RunRows& rows_;
    const Hooks hooks_;
    std::string cgroups_;
    core::Seq cursor_{0};  // Of the feed.
    std::unordered_set<Id> unfinished_at_start_;
};

}  // namespace interlock::supervisor
