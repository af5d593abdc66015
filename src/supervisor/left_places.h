// The places of runs that have ended or were given up, until it is seen that nothing of these runs is left there. The
// core may have given such a place to another run, which must not begin before.
//
//   (1) see_gone() is for runs that were given up. It kills what is found of them and looks again until nothing is.
//   (2) depart() is for runs whose shims said that they had ended. Shims cannot see what other programs have started
//   for
//       a run. One look at the machine's processes serves all runs that ended since the last look.
//
// For the supervisor's thread. What blocks is done elsewhere.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "core/rows.h"
#include "shim/state.h"
#include "supervisor/departures.h"
#include "supervisor/leftovers.h"
#include "supervisor/task_queue.h"

namespace interlock::supervisor {

class LeftPlaces {
 public:
    struct Hooks {
        std::function<bool(std::function<void()>)> elsewhere;  // False when there is no room now.
        std::function<void(std::chrono::nanoseconds, std::function<void()>)> later;
        std::function<std::set<pid_t>()> shims;  // Processes that are shims of live runs.
        std::function<void()> on_free;           // Places can be worked in again.
        std::shared_ptr<TaskQueue> task_queue;
        std::string data_dir;
        Log& log;
    };

    explicit LeftPlaces(Hooks hooks) : hooks_(std::move(hooks)) {}

    // From now on, until one of the two below has come to its end for this run.
    void keep(core::RunId run, std::vector<core::Place> places) { places_[run.value] = std::move(places); }
    // Whether one of these places collides with one that is being left.
    bool include(const std::vector<core::Place>& places) const;

    void see_gone(core::RunId run, const shim::ShimState& state, ItsShim its_shim);
    void depart(core::RunId run, const shim::ShimState& state, Departure departure);

 private:
    struct Departed {
        core::RunId id;
        shim::ShimState shim;
        Departure departure;
    };

    void look();
    void was_looked_at(const Departed& departed, const Remains& remains);
    void free(core::RunId run);

    const Hooks hooks_;
    std::unordered_map<Id, std::vector<core::Place>> places_;
    std::vector<Departed> departed_;  // Not looked at yet.
    bool looking_ = false;
};

}  // namespace interlock::supervisor
