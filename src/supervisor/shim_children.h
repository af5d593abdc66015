// The shims that this process has started, and has to wait for.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/rows.h"

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

    const std::map<pid_t, core::RunId>& all() const { return children_; }

 private:
    const std::string data_dir_;
    std::map<pid_t, core::RunId> children_;
};

}  // namespace interlock::supervisor
