#include "supervisor/leftovers.h"

#include <unistd.h>

#include <csignal>
#include <thread>

#include "shim/cgroup.h"
#include "shim/process.h"

namespace interlock::supervisor {

bool shim_is_alive(const shim::State& state) {
    return state.boot == shim::boot_id() && shim::alive(state.pid, state.start);
}

bool end_leftovers(const shim::State& state, const std::string& run, ItsShim its_shim,
                   std::chrono::milliseconds patience) {
    const bool this_boot = state.boot == shim::boot_id();
    shim::Tree tree;
    tree.only_below = true;
    if (this_boot && state.pid != 0) {
        if (const auto root = shim::look_at(state.pid); root && root->start == state.start) tree.roots.push_back(*root);
    }
    // Numbers come back: a group or a session is the run's only while the very process that began it is there.
    const auto now = this_boot && state.child_pid != 0 ? shim::look_at(state.child_pid) : std::nullopt;
    const pid_t began = now && now->start == state.child_start ? state.child_pid : 0;
    if (began != 0) tree.groups.push_back(began);
    const std::string mark = "INTERLOCK_RUN=" + run;
    tree.also = [&](const shim::Process& process) {
        const bool of_main = began != 0 && (process.pid == began || process.group == began || process.session == began);
        return of_main || shim::has_in_environment(process.pid, mark);
    };

    std::string problem;
    const bool has_group = this_boot && !state.cgroup.empty() && ::access(state.cgroup.c_str(), F_OK) == 0;
    shim::Cgroup group = has_group ? shim::Cgroup(state.cgroup, problem) : shim::Cgroup();
    const auto give_up = std::chrono::steady_clock::now() + patience;
    int times_empty = 0;
    // A shim that is to die stands still first: what it has begun is then found below it.
    const shim::Process its_process{.pid = state.pid, .start = state.start};
    const bool kills_shim = its_shim == ItsShim::killed && shim_is_alive(state);
    while (times_empty < 2) {
        if (kills_shim) shim::send_signal(its_process, SIGSTOP);
        if (group) group.kill();
        bool found = !shim::freeze_and_kill(tree).empty() || (group && group.populated());
        if (kills_shim) shim::send_signal(its_process, SIGKILL);
        found = found || (kills_shim && shim_is_alive(state));
        times_empty = found ? 0 : times_empty + 1;
        if (found && std::chrono::steady_clock::now() > give_up) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(found ? 5 : 1));
    }
    if (!shim_is_alive(state)) group.remove();  // A shim that lives removes it, after a last look.
    return true;
}

}  // namespace interlock::supervisor
