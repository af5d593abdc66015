// The shims that this process has started, and has to wait for.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/rows.h"
#include "shim/state.h"

namespace interlock::supervisor {

class ShimChildren {
 public:
    explicit ShimChildren(std::string data_dir) : data_dir_(std::move(data_dir)) {}

    // The error is a sentence.
    Result<void, std::string> spawn(core::RunId run, const std::string& secret);

    struct Ended {
        core::RunId run;
        bool another_has_the_run = false;  // A shim that finds another at work ends without a word.
    };
    // Those that have ended since the last call.
    std::vector<Ended> bury();

    // Kills those of the run, and a shim of it that another server may have started. How they end is no news of the run
    // any more.
    void drop(core::RunId run, const shim::ShimState& other);

    const std::map<pid_t, core::RunId>& all() const { return children_; }

 private:
    const std::string data_dir_;
    std::map<pid_t, core::RunId> children_;
};

}  // namespace interlock::supervisor
