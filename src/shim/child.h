// Starts the run's main process.
//
// Between fork and exec the new process sets itself up and reports over a pipe that exec closes: so it is known what
// went wrong, and that nothing did. Whoever started it does not wait there; a dead network directory would hold it up.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <string_view>
#include <variant>

#include "shim/cgroup.h"
#include "shim/fd.h"
#include "shim/launch.h"

namespace interlock::shim {

struct ChildOptions {
    bool foreground = false;
    bool takes_terminal = false;  // The terminal on stdin becomes its own before it runs.
    // What it ignores from the start, because whoever called us wanted it so (nohup). The rest is as after a boot.
    sigset_t ignored = {};
    bool needs_group = false;  // It is not started if it cannot join its control group.
};

struct Child {
    pid_t pid = 0;
    pid_t first = 0;  // Of its pid namespace; 0: it has none of its own. A child too, and it ends when it is killed.
    Fd report;        // See ChildReport.
    Fd output;        // What it prints. Not there in the foreground.
    Fd entrance;      // Of a sealed run; see entrance.h.
};

// What the new process says about itself before it becomes the command.
struct ChildReport {
    bool failed = false;  // It is not going to be the command; it exits with `code`.
    int code = 0;         // As a shell would: 127 when there is no such command, else 126.
    std::string text;     // A sentence.
};

// The text says why nothing was started.
std::variant<Child, std::string> start_child(const LaunchRequest& launch, const Cgroup& cgroup,
                                             const ChildOptions& options);
// `bytes` is everything that came through Child::report.
ChildReport read_report(std::string_view bytes, const LaunchRequest& launch);

}  // namespace interlock::shim
