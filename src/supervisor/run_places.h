// The directories of this node's runs, as the supervisor deals with them: looked at before a run begins, held open from
// then on, and the one in which the run works kept until its shim gets it.
//
//   (1) A look at a file system is made on a thread of its own, because it may take for ever.
//   (2) A directory goes to one shim, once, and only with the launch of the fence that it was opened for.
//
// For the supervisor's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/rows.h"
#include "shim/fd.h"
#include "supervisor/options.h"
#include "supervisor/task_queue.h"
#include "supervisor/watch.h"

namespace interlock::supervisor {

class RunPlaces {
 public:
    using Then = std::function<void(WatchEvent)>;

    RunPlaces(const SupervisorOptions& options, std::shared_ptr<TaskQueue> task_queue)
        : options_(options), task_queue_(std::move(task_queue)) {}

    // Before a run begins. `then` gets PlaceSeen or PlaceLater, on the supervisor's thread, now or later.
    void look(const Order& order, const Then& then);
    // Of a run that an earlier server had launched, with its main process.
    void hold_again(const Order& order, pid_t process) const;
    // Of a run that its client owns. All that is done here is to know where its directories are.
    void take_up(const core::Run& row) const;
    // Looks now and then whether held directories are where they were, besides when something is admitted or begins.
    void follow(Moment now);

    // The directory in which the run works, instead of the one that was seen.
    void keep(core::RunId run, core::Fence fence, shim::Fd directory);
    bool has(core::RunId run, core::Fence fence) const;
    shim::Fd take(core::RunId run, core::Fence fence);
    void give_up(core::RunId run);

 private:
    struct Kept {
        core::Fence fence;
        shim::Fd directory = {};
    };

    const SupervisorOptions& options_;
    const std::shared_ptr<TaskQueue> task_queue_;
    std::unordered_map<Id, Kept> kept_;
    Moment followed_ = {};
};

}  // namespace interlock::supervisor
