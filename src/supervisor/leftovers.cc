#include "supervisor/leftovers.h"

#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/text.h"
#include "shim/cgroup.h"
#include "shim/fd.h"
#include "shim/process.h"

namespace interlock::supervisor {

namespace {

std::string mark_of(const std::string& run) { return "INTERLOCK_RUN=" + run; }

// Invariant (3).
bool came_with_shim(const shim::ProcessInfo& process, const shim::ShimState& state, const std::string& run) {
    if (process.pid == state.child_pid || shim::has_in_environment(process.pid, mark_of(run))) return false;
    return state.child_pid == 0 || shim::ticks_of(process.start) < shim::ticks_of(state.child_start);
}

std::vector<shim::ProcessInfo> inherited_by_shim(const shim::ShimState& state, const std::string& run) {
    std::vector<shim::ProcessInfo> inherited;
    for (const pid_t pid : shim::children(state.pid)) {
        auto process = shim::look_at(pid);
        if (process && came_with_shim(*process, state, run)) inherited.push_back(std::move(*process));
    }
    return inherited;
}

std::string program_name_of(pid_t pid) {
    std::string name = shim::read_file("/proc/" + std::to_string(pid) + "/comm").value_or("");
    if (name.ends_with('\n')) name.pop_back();
    return "process " + std::to_string(pid) + " (" + as_line(name) + ")";
}

}  // namespace

std::optional<std::string> still_held(const shim::ShimState& state, const std::string& run) {
    if (state.child_pid != 0 && shim::alive(state.child_pid, state.child_start))
        return program_name_of(state.child_pid);
    if (shim::kernel_lists_children()) {
        for (const pid_t pid : shim::children(state.pid)) {
            const auto process = shim::look_at(pid);
            if (process && !process->ended() && !came_with_shim(*process, state, run)) return program_name_of(pid);
        }
    }
    // Read without shim::Cgroup, which would make the group anew if the shim has just removed it.
    const auto events = state.cgroup.empty() ? std::nullopt : shim::read_file(state.cgroup + "/cgroup.events");
    if (events && ("\n" + *events).find("\npopulated 1") != std::string::npos) return "a process of its control group";
    return std::nullopt;
}

bool shim_is_alive(const shim::ShimState& state) {
    return state.boot == shim::boot_id() && shim::alive(state.pid, state.start);
}

bool end_leftovers(const shim::ShimState& state, const std::string& run, ItsShim its_shim,
                   std::chrono::milliseconds timeout) {
    const bool this_boot = state.boot == shim::boot_id();
    shim::ProcessTree tree;
    tree.only_below = true;
    if (this_boot && state.pid != 0) {
        if (const auto root = shim::look_at(state.pid); root && root->start == state.start) {
            tree.roots.push_back(*root);
            tree.spared = inherited_by_shim(state, run);
        }
    }
    // Numbers come back: a group or a session is the run's only while the very process that began it is there.
    const auto now = this_boot && state.child_pid != 0 ? shim::look_at(state.child_pid) : std::nullopt;
    const pid_t began = now && now->start == state.child_start ? state.child_pid : 0;
    if (began != 0) tree.groups.push_back(began);
    const std::string mark = mark_of(run);
    tree.also = [&](const shim::ProcessInfo& process) {
        const bool of_main = began != 0 && (process.pid == began || process.group == began || process.session == began);
        return of_main || shim::has_in_environment(process.pid, mark);
    };

    std::string problem;
    const bool has_group = this_boot && !state.cgroup.empty() && ::access(state.cgroup.c_str(), F_OK) == 0;
    shim::Cgroup group = has_group ? shim::Cgroup(state.cgroup, problem) : shim::Cgroup();
    const auto give_up = std::chrono::steady_clock::now() + timeout;
    int times_empty = 0;
    // A shim that is to die stands still first: what it has begun is then found below it.
    const shim::ProcessInfo its_process{.pid = state.pid, .start = state.start};
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
