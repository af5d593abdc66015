// Whether a process belongs to a run, by what the kernel shows of it and of those that it descends from.
//
//   (1) A process is inside when it, or one of its ancestors, is a shim, has the mark of runs (shim/run_mark.h), is in
//   a
//       run's control group, was started with INTERLOCK_RUN in its environment, or was started by this server.
//   (2) It is outside only when all of that was looked at and found missing, of a process that was there all the time.
//   (3) Runs that this process is inside of itself do not count: a server that is tested in a run serves its tests.
//
// A process that another program starts for a run is not found: by cron, a service manager, or a terminal multiplexer
// that was there before. A sandbox is what keeps runs from asking these.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace interlock::shim {
struct ProcessInfo;
}

namespace interlock::supervisor {

enum class Membership { outside, inside, unknown };

class RunMembership {
 public:
    RunMembership();

    // A process that began later than this after the boot has the number of the one that is meant: unknown. Blocks.
    Membership of(pid_t process, std::chrono::nanoseconds begun_by) const;
    // This process, or a shim: they run no program of others. Blocks.
    static bool is_interlock(pid_t process);

 private:
    bool has_sign_of_a_run(const shim::ProcessInfo& process) const;

    std::vector<std::pair<pid_t, std::string>> own_shims_;  // Above this process when it began.
    std::string own_group_;
    std::vector<std::string> own_runs_;  // That its environment names, or that of a process above it.
    int own_depth_ = 0;
};

// Whether this process is below a shim, or in a control group, of this data directory. A server that a run starts on it
// would take the run's programs for its own. Blocks.
bool is_in_a_run_of(const std::string& data_dir);

}  // namespace interlock::supervisor
