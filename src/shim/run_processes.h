// Holds the processes of one run: starts them, signals them, ends them for certain, and knows when none is left.
// Everything about processes and nothing about the server; see shim.h for the promises.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "shim/cgroup.h"
#include "shim/child.h"
#include "shim/launch.h"
#include "shim/output_log.h"
#include "shim/process.h"

namespace interlock::shim {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

class RunProcesses {
 public:
    // Makes this process the one that orphans come to.
    explicit RunProcesses(bool foreground);

    // A sentence when nothing was started.
    std::optional<std::string> start(LaunchRequest launch, const ChildOptions& options);
    bool started() const { return child_.pid != 0; }
    pid_t pid() const { return child_.pid; }
    const std::string& cgroup() const { return cgroup_.path(); }
    const LaunchRequest& launch() const { return launch_; }
    const OutputLog& log() const { return log_; }

    // What to wait on; -1 when there is nothing to wait for.
    int report_fd() const { return child_.report.get(); }
    int output_fd() const { return child_.output.get(); }
    // What is to be handed to the server; -1 when there is nothing.
    int entrance_fd() const { return child_.entrance.get(); }
    // What became of the start, once, when it is known.
    std::optional<ChildReport> take_report();
    // Whether there was any.
    bool take_output();
    // Everything that the end of processes brings with it. The signal that stopped the main process, if one did.
    std::optional<int> reap(std::int64_t now_ms);

    void signal_group(int signal) const;
    // Polite to the main process's group, after the grace sure to everybody. A second time changes nothing.
    void stop(std::int64_t now_ms);
    void kill_at(std::int64_t at_ms) { kill_at_ = std::min(kill_at_, at_ms); }
    void pause();
    void resume();
    bool paused() const { return paused_ != Paused::no; }
    // What is due. next_at() is when something will be.
    void on_time(std::int64_t now_ms);
    std::int64_t next_at() const { return kill_at_; }

    // How the main process ended, as wait() says it.
    std::optional<int> main_status() const { return main_status_; }
    // Invariant (3). Afterwards nothing is waited on any more, and all output was taken.
    bool is_over();

 private:
    enum class Paused { no, by_cgroup, by_signals };

    std::optional<std::string> bound_group();
    ProcessTree tree() const;
    bool has_children() const;
    bool end_first_process() const;
    void end_the_rest(std::int64_t now_ms);

    const bool foreground_;
    ProcessInfo self_;
    // A shell that became us may have left children behind. They are none of the run's.
    std::vector<ProcessInfo> inherited_;
    LaunchRequest launch_;
    Cgroup cgroup_;
    std::string note_;
    bool bounds_group_ = false;  // The group has limits of the run.
    Child child_;
    std::string report_;
    OutputLog log_;
    std::optional<int> main_status_;
    bool children_left_ = false;
    bool stopping_ = false;
    bool ending_the_rest_ = false;
    Paused paused_ = Paused::no;
    std::int64_t kill_at_ = never;
    std::int64_t kill_again_ms_ = 0;
};

}  // namespace interlock::shim
