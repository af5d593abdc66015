#include "supervisor/leftovers.h"

#include <thread>

#include "shim/cgroup.h"
#include "shim/process.h"

namespace interlock::supervisor {

bool shim_is_alive(const shim::State& state) {
    return state.boot == shim::boot_id() && shim::alive(state.pid, state.start);
}

bool end_leftovers(const shim::State& state, const std::string& run, std::chrono::milliseconds patience) {
    const bool this_boot = state.boot == shim::boot_id();
    shim::Tree tree;
    tree.only_below = true;
    if (this_boot && state.pid != 0) {
        if (const auto root = shim::look_at(state.pid); root && root->start == state.start) tree.roots.push_back(*root);
    }
    const std::string mark = "INTERLOCK_RUN=" + run;
    tree.also = [&](const shim::Process& process) {
        const bool is_main = this_boot && process.pid == state.child_pid && process.start == state.child_start;
        return is_main || shim::has_in_environment(process.pid, mark);
    };
    // Numbers come back: a group is the run's only while the very process that began it is there.
    const auto main = this_boot ? shim::look_at(state.child_pid) : std::nullopt;
    if (main && main->start == state.child_start) tree.groups.push_back(state.child_pid);

    std::string problem;
    const shim::Cgroup group =
        this_boot && !state.cgroup.empty() ? shim::Cgroup(state.cgroup, problem) : shim::Cgroup();
    const auto give_up = std::chrono::steady_clock::now() + patience;
    int times_empty = 0;
    while (times_empty < 2) {
        if (group) group.kill();
        const bool found = !shim::freeze_and_kill(tree).empty() || (group && group.populated());
        times_empty = found ? 0 : times_empty + 1;
        if (found && std::chrono::steady_clock::now() > give_up) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(found ? 5 : 1));
    }
    return true;
}

}  // namespace interlock::supervisor
