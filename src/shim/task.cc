#include "shim/task.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "shim/launch.h"
#include "shim/message.h"
#include "shim/remove_tree.h"
#include "shim/run_processes.h"

namespace interlock::shim {
namespace {

constexpr std::int64_t look_for_rest_ms = 20;  // For the last processes to be gone.

std::int64_t clock_ms() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000 + now.tv_nsec / 1'000'000;
}

int not_possible(const std::string& why) {
    static_cast<void>(write_all(STDOUT_FILENO, why));
    return 1;
}

std::variant<LaunchRequest, std::string> read_launch_from_input() {
    MessageReader reader;
    char bytes[4096];
    for (ssize_t got = 0; (got = read(STDIN_FILENO, bytes, sizeof bytes)) > 0;) {
        reader.add({bytes, static_cast<std::size_t>(got)});
    }
    const auto message = reader.next();
    if (!message) return std::string("its launch cannot be read");
    return read_launch(*message);
}

Fd open_signals() {
    sigset_t heard;
    sigemptyset(&heard);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&heard, signal);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigprocmask(SIG_SETMASK, &heard, nullptr);
    return Fd(signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Whether a signal asked it to end.
bool asked_to_end(const Fd& signals) {
    bool asked = false;
    signalfd_siginfo info{};
    while (read(signals.get(), &info, sizeof info) == sizeof info) asked |= info.ssi_signo != SIGCHLD;
    return asked;
}

}  // namespace

int run_task() {
    auto read = read_launch_from_input();
    if (const auto* problem = std::get_if<std::string>(&read)) return not_possible(*problem);
    LaunchRequest launch = std::move(std::get<LaunchRequest>(read));
    const std::string home = launch.home;
    const std::int64_t timeout_ms = launch.timeout_ms;
    const Fd signals = open_signals();
    RunProcesses holder(false);
    if (const auto problem = holder.start(std::move(launch), {})) return not_possible(*problem);

    const std::int64_t timeout_at = timeout_ms > 0 ? clock_ms() + timeout_ms : never;
    std::string wrong;
    bool failed_to_start = false;
    while (!holder.is_over()) {
        pollfd waits[] = {{.fd = signals.get(), .events = POLLIN, .revents = 0},
                          {.fd = holder.report_fd(), .events = POLLIN, .revents = 0},
                          {.fd = holder.output_fd(), .events = POLLIN, .revents = 0}};
        std::int64_t next = std::min(timeout_at, holder.next_at());
        if (holder.main_status()) next = std::min(next, clock_ms() + look_for_rest_ms);
        poll(waits, std::size(waits), static_cast<int>(std::clamp<std::int64_t>(next - clock_ms(), 0, 1'000)));
        const std::int64_t now = clock_ms();
        const bool late = now >= timeout_at;
        if ((late || asked_to_end(signals)) && wrong.empty()) {
            wrong = late ? "took longer than " + std::to_string(timeout_ms) + " ms" : "was stopped";
            holder.stop(now);
        }
        if (holder.report_fd() >= 0) {
            if (const auto report = holder.take_report(); report && report->failed) {
                failed_to_start = true;
                wrong = report->text;
            }
        }
        if (holder.output_fd() >= 0) holder.take_output();
        holder.reap(now);
        holder.on_time(now);
    }
    remove_tree(home + "/tmp");
    if (failed_to_start) return not_possible(wrong);
    const int status = *holder.main_status();
    if (wrong.empty() && WIFSIGNALED(status)) wrong = std::string("was ended by signal ") + strsignal(WTERMSIG(status));
    if (wrong.empty() && WEXITSTATUS(status) != 0) {
        wrong = "ended with exit code " + std::to_string(WEXITSTATUS(status));
    }
    static_cast<void>(write_all(STDOUT_FILENO, wrong));
    return 0;
}

}  // namespace interlock::shim
