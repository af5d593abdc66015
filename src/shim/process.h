// Processes as /proc shows them, and how to end a whole tree of them for certain.
//
//   (1) A process is named by its id and its start time: ids come back, pairs do not within one boot.
//   (2) Nothing is signalled whose start time was not seen to match, through a descriptor that cannot come to mean
//       another process.
//   (3) freeze_and_kill() stops every process before it kills the first. A process that is stopped cannot start
//       another, and while its parent lives it cannot slip out of the tree.
//
// That a signal was sent does not mean that the process is gone: whoever needs proof looks again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace interlock::shim {

struct ProcessInfo {
    pid_t pid = 0;
    std::string start;  // Clock ticks since the boot: field 22 of /proc/PID/stat.
    pid_t parent = 0;
    pid_t group = 0;
    pid_t session = 0;
    char state = '?';
    bool has_terminal = false;
    bool exiting = false;

    // A zombie has ended: it runs nothing, holds nothing, and only waits for its parent to ask. The first process of a
    // pid namespace has ended too when it waits for zombies in there: their parent may be a shim that was stopped.
    bool ended() const { return state == 'Z' || state == 'X' || (exiting && state == 'S'); }
};

// Empty when there is no such process.
std::optional<ProcessInfo> look_at(pid_t pid);
// "" when there is no such process. A zombie still has a start time.
std::string start_time(pid_t pid);
// A start time as a number; 0 for an empty one.
std::int64_t ticks_of(const std::string& start);
// Whether that very process is there and has not ended.
bool alive(pid_t pid, std::string_view start);
// Changes with every boot. "" when /proc does not say.
std::string boot_id();

// Kernels may be built without such lists. To find children then takes a look at every process.
bool kernel_lists_children();
std::vector<pid_t> children(pid_t pid);
// Zombies included, `pid` itself not. While the tree changes, some may be missed.
std::vector<pid_t> descendants(pid_t pid);
std::vector<ProcessInfo> all_processes();

// Whether the process was started with this "NAME=value" in its environment. No when it may not be read.
bool has_in_environment(pid_t pid, std::string_view assignment);

// False when the process is gone, or is not ours to signal.
bool send_signal(const ProcessInfo& process, int signal);

// Which processes are meant. Children of what is meant are meant too.
struct ProcessTree {
    std::vector<ProcessInfo> roots = {};
    // The roots themselves are not meant: a shim is the root of its own tree.
    bool only_below = false;
    // Asked about every process there is. Empty: nobody else is meant.
    std::function<bool(const ProcessInfo&)> also = {};
    // Neither these nor what is below them.
    std::vector<ProcessInfo> spared = {};
    // Process groups that are known to have begun in this tree, though their first process may be gone.
    std::vector<pid_t> groups = {};
};

// Those that have not ended. While the tree changes, some may be missed.
std::vector<ProcessInfo> members(const ProcessTree& tree);
// Both return those they signalled. Neither waits for the signal to have its effect.
std::vector<ProcessInfo> freeze(const ProcessTree& tree);
std::vector<ProcessInfo> freeze_and_kill(const ProcessTree& tree);

}  // namespace interlock::shim
