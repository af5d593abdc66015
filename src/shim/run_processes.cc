#include "shim/run_processes.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace interlock::shim {
namespace {

constexpr std::size_t read_bytes_max = 64 << 10;
// What is taken after the last process is gone. Only a descriptor that was handed to a stranger could bring more.
constexpr int last_reads_max = 256;
// How long what the main process left behind may take to end itself.
constexpr std::int64_t rest_grace_ms = 2'000;
constexpr std::int64_t kill_again_first_ms = 20, kill_again_max_ms = 1'000;

char read_buffer[read_bytes_max];

}  // namespace

RunProcesses::RunProcesses(bool foreground)
    : foreground_(foreground), self_(look_at(getpid()).value_or(ProcessInfo{})) {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (const pid_t pid : children(getpid())) {
        if (auto process = look_at(pid)) inherited_.push_back(std::move(*process));
    }
}

std::optional<std::string> RunProcesses::start(LaunchRequest launch, const ChildOptions& options) {
    launch_ = std::move(launch);
    mkdir((launch_.home + "/tmp").c_str(), 0700);
    if (!foreground_) log_ = OutputLog(launch_.home + "/output", launch_.log_max);
    if (!launch_.cgroup.empty()) cgroup_ = Cgroup(launch_.cgroup, note_);
    if (auto problem = bound_group()) {
        cgroup_.remove();
        return problem;
    }
    ChildOptions bounded = options;
    bounded.needs_group = bounds_group_;
    auto started = start_child(launch_, cgroup_, bounded);
    if (auto* problem = std::get_if<std::string>(&started)) {
        cgroup_.remove();
        return std::move(*problem);
    }
    child_ = std::move(std::get<Child>(started));
    children_left_ = true;
    // The secrets in it were given on, and are not needed here any more.
    launch_.env = {};
    return std::nullopt;
}

// What is a bound of all processes together is set in their group. Where that is not to be had, a limit of each process
// does for some: the number of processes is counted for the run's user in its user namespace, and not at all for root.
std::optional<std::string> RunProcesses::bound_group() {
    constexpr rlim_t cpu_period_us = 100'000, percent = 100;
    bool without_group = false;
    for (auto limit = launch_.limits.begin(); limit != launch_.limits.end();) {
        if (limit->group_file == nullptr || limit->value == RLIM_INFINITY) {
            limit = limit->resource < 0 || limit->group_file != nullptr ? launch_.limits.erase(limit) : limit + 1;
            continue;
        }
        const std::string value = limit->resource < 0 ? std::to_string(limit->value * cpu_period_us / percent) + " " +
                                                            std::to_string(cpu_period_us)
                                                      : std::to_string(limit->value);
        if (cgroup_.set(limit->group_file, value)) {
            // Otherwise the group would go on in swap.
            if (limit->resource == RLIMIT_DATA) cgroup_.set("memory.swap.max", "0");
            bounds_group_ = true;
            limit = launch_.limits.erase(limit);
            continue;
        }
        const bool is_not_counted = limit->resource == RLIMIT_NPROC && geteuid() == 0;
        if (limit->resource < 0 || is_not_counted) {
            return "cannot set the limit " + limit->text + ": there is no control group of version 2 with " +
                   std::string(limit->group_file) + " for the run";
        }
        without_group = true;
        ++limit;
    }
    if (without_group && note_.empty()) note_ = "no cgroup for limits: they hold for each process by itself";
    return std::nullopt;
}

std::optional<ChildReport> RunProcesses::take_report() {
    char bytes[256];
    const ssize_t got = read(child_.report.get(), bytes, sizeof bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
    if (got > 0) {
        report_.append(bytes, static_cast<std::size_t>(got));
        return std::nullopt;
    }
    child_.report.reset();
    ChildReport report = read_report(report_, launch_);
    // It did not join, so the group would say nothing about the run.
    if (!report.failed && !report.text.empty()) cgroup_.remove();
    if (report.text.empty()) report.text = note_;
    return report;
}

bool RunProcesses::take_output() {
    const ssize_t got = read(child_.output.get(), read_buffer, sizeof read_buffer);
    if (got > 0) log_.add({read_buffer, static_cast<std::size_t>(got)});
    // Nobody has the other end any more: the run closed what it prints to, and may well go on.
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) child_.output.reset();
    return got > 0;
}

std::optional<int> RunProcesses::reap(std::int64_t now_ms) {
    std::optional<int> stopped_by;
    for (;;) {
        int status = 0;
        const pid_t pid = waitpid(-1, &status, WNOHANG | __WALL | (foreground_ ? WUNTRACED : 0));
        if (pid < 0 && errno == EINTR) continue;
        children_left_ = pid == 0;
        if (pid <= 0) break;
        if (pid == child_.first) child_.first = 0;
        if (pid != child_.pid) continue;
        if (WIFSTOPPED(status)) {
            stopped_by = WSTOPSIG(status);
        } else {
            main_status_ = status;
            stopped_by.reset();
        }
    }
    if (main_status_ && end_first_process()) return stopped_by;
    if (main_status_ && !ending_the_rest_ && has_children()) end_the_rest(now_ms);
    return stopped_by;
}

// Before the main process was reaped the group is its own; afterwards its number could be somebody else's.
void RunProcesses::signal_group(int signal) const {
    if (!started() || main_status_) return;
    // Right behind its start the child may not have made its group yet; then it is alone.
    if (kill(-child_.pid, signal) != 0 && errno == ESRCH) kill(child_.pid, signal);
}

void RunProcesses::stop(std::int64_t now_ms) {
    if (stopping_ || !started()) return;
    stopping_ = true;
    signal_group(SIGTERM);
    // What stands still cannot end itself: it is woken, with the signal already waiting for it.
    if (paused()) resume();
    signal_group(SIGCONT);
    kill_at(now_ms + launch_.grace_ms);
}

void RunProcesses::pause() {
    if (!started() || paused()) return;
    if (cgroup_ && cgroup_.freeze()) {
        paused_ = Paused::by_cgroup;
    } else {
        if (cgroup_) cgroup_.thaw();
        freeze(tree());
        paused_ = Paused::by_signals;
    }
}

void RunProcesses::resume() {
    if (paused_ == Paused::by_cgroup) cgroup_.thaw();
    if (paused_ == Paused::by_signals) {
        for (const ProcessInfo& process : members(tree())) send_signal(process, SIGCONT);
    }
    paused_ = Paused::no;
}

void RunProcesses::on_time(std::int64_t now_ms) {
    if (kill_at_ > now_ms) return;
    // The run may keep every processor busy, and whoever ends it must get his turn. Not everybody may ask for that.
    setpriority(PRIO_PROCESS, 0, -20);
    // Both: a privileged process can leave the control group, but not the tree.
    if (cgroup_) cgroup_.kill();
    freeze_and_kill(tree());
    // Not everything dies at once, and something may never: a process that waits for a disk, or that belongs to another
    // user. It is tried again for as long as it takes, and until then the run has not ended.
    kill_again_ms_ = std::clamp(kill_again_ms_ * 2, kill_again_first_ms, kill_again_max_ms);
    kill_at_ = now_ms + kill_again_ms_;
}

bool RunProcesses::is_over() {
    if (!started() || !main_status_ || child_.report || has_children() || (cgroup_ && cgroup_.populated()))
        return false;
    for (int i = 0; i < last_reads_max && child_.output && take_output(); ++i) continue;
    child_.output.reset();
    cgroup_.remove();
    kill_at_ = never;
    return true;
}

ProcessTree RunProcesses::tree() const {
    return {.roots = {self_}, .only_below = true, .spared = inherited_, .groups = {child_.pid}};
}

bool RunProcesses::has_children() const {
    if (inherited_.empty() || !children_left_) return children_left_;
    return std::ranges::any_of(children(getpid()), [&](pid_t pid) {
        const auto found = std::ranges::find(inherited_, pid, &ProcessInfo::pid);
        return found == inherited_.end() || found->start != start_time(pid);
    });
}

// The first process of the run's pid namespace waits for what the run leaves behind. It goes when that is gone, and the
// kernel would end all others with it. True when it was alone.
bool RunProcesses::end_first_process() const {
    if (child_.first == 0 || !children_left_) return false;
    if (!shim::children(child_.first).empty()) return false;
    kill(child_.first, SIGKILL);
    return true;
}

// What is still there when the main process is gone was not meant to stay.
void RunProcesses::end_the_rest(std::int64_t now_ms) {
    ending_the_rest_ = true;
    const std::vector<ProcessInfo> rest = members(tree());
    for (const ProcessInfo& process : rest) send_signal(process, SIGTERM);
    if (paused()) resume();
    for (const ProcessInfo& process : rest) send_signal(process, SIGCONT);
    kill_at(now_ms + std::min(launch_.grace_ms, rest_grace_ms));
}

}  // namespace interlock::shim
