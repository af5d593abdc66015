#include "shim/shim.h"

#include <malloc.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string_view>

#include "shim/connection.h"
#include "shim/controlling_tty.h"
#include "shim/protocol.h"
#include "shim/remove_tree.h"
#include "shim/run_mark.h"
#include "shim/run_processes.h"
#include "shim/state.h"
#include "shim/task.h"
#include "shim/undumpable.h"

namespace interlock::shim {
namespace {

constexpr std::int64_t launch_wait_ms = 30'000;           // Background: for the launch.
constexpr std::int64_t done_wait_background_ms = 60'000;  // For the server to take note of the end.
constexpr std::int64_t done_wait_foreground_ms = 10'000;
constexpr std::int64_t silence_shown_ms = 2'000;  // Foreground: when the user hears that nobody answers.
constexpr int report_wait_ms = 1'000;             // For the report when the main process has stopped already.
constexpr std::int64_t look_again_ms = 20;        // For the last processes of a run to be gone.
constexpr std::size_t secret_bytes_max = 256;
constexpr int code_failed = 1, code_usage = 2, code_refused = 1;

// Signals that we hear of by reading. Blocked, they neither end nor stop us.
constexpr int heard_signals[] = {SIGCHLD, SIGHUP,   SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                 SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU};

struct ShimOptions {
    std::string data_directory;
    std::string run;
    bool foreground = false;
    bool quiet = false;
    std::string secret;  // Proves to the server that this process is the run's shim.
};

std::int64_t now_in_ms() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000 + now.tv_nsec / 1'000'000;
}

std::int64_t in_ms(const timeval& time) { return std::int64_t{time.tv_sec} * 1'000 + time.tv_usec / 1'000; }

std::string text_of(std::int64_t number) { return std::to_string(number); }

sigset_t set_of_heard_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : heard_signals) sigaddset(&set, signal);
    return set;
}

class Shim {
 public:
    Shim(ShimOptions options, int data_directory, std::string directory)
        : options_(std::move(options)),
          directory_(std::move(directory)),
          connection_(data_directory),
          holder_(options_.foreground) {}

    int run();

 private:
    enum class Ending { by_itself, stopped, timed_out, fenced };

    void tell_again(const ShimState& before);

    bool is(ShimPhase phase) const { return state_.phase == phase; }
    void set_up_signals();
    void wait_for_something();
    void keep_connected();

    void on(const Wait& message);
    void on(const LaunchOrder& message);
    void on(const Refused& message);
    void on(const Stop& message) { end(Ending::stopped, message.reason); }
    void on(const Pause&) { hold_still(true); }
    void on(const Resume&) { hold_still(false); }
    void on(const Fenced& message) { fence(message.why); }
    void on(const Done& message);
    void hold_still(bool still);
    void end(Ending why, const std::string& reason);
    void fence(const std::string& why);

    void on_signals();
    void on_signal(int signal);
    void on_signal_in_foreground(int signal);
    void on_main_stopped(int signal);
    void go_on();

    void hear_report();
    void on_report(const ChildReport& report);
    void on_time();
    void on_over();
    void not_started(int code, const std::string& text);
    void finish();
    std::string detail_of_end(int status) const;
    void send_hello();
    void hand_over_entrance();
    void send_ended();
    void read_log_sizes();
    void suspended(bool is);
    void save();
    void leave(int code) { exit_code_ = code; }

    const ShimOptions options_;
    const std::string directory_;  // Of the run.
    Connection connection_;
    RunProcesses holder_;
    Fd place_;  // Where the run works, held so that no other directory gets its identity.
    ControllingTty terminal_;
    StatusLine status_line_;
    ShimState state_;
    Fd signals_;
    sigset_t ignored_{};  // What our caller wanted ignored.
    std::int64_t now_ = now_in_ms();
    std::int64_t began_at_ = now_;
    std::int64_t beat_at_ = 0;
    std::int64_t timeout_at_ = never;
    std::int64_t ended_at_ = never;
    std::int64_t first_asked_at_ = never;  // Foreground: when we were first asked from outside to end.
    Ending ending_ = Ending::by_itself;
    std::string reason_;
    bool start_failed_ = false;
    bool runs_in_terminal_ = false;
    bool main_stopped_ = false;
    bool saved_ = true;
    int child_code_ = 0;
    std::optional<int> exit_code_;
};

int Shim::run() {
    const auto before = read_state(directory_);
    if (before && before->phase == ShimPhase::running) {
        // Another shim died over it. What is left of the run is the server's to end, and starting it twice nobody's.
        say("interlock: run " + options_.run + " was started before and lost its shim");
        return code_failed;
    }
    state_.pid = getpid();
    state_.start = start_time(getpid());
    state_.boot = boot_id();
    state_.run = options_.run;
    state_.phase = ShimPhase::waiting;
    state_.suspended = 0;
    set_up_signals();
    if (options_.foreground) terminal_ = ControllingTty::of_this_process();
    // It ended and the server was not there to hear it: this shim only says so.
    if (before && before->phase == ShimPhase::ended) tell_again(*before);
    save();
    while (!exit_code_) {
        keep_connected();
        wait_for_something();
        now_ = now_in_ms();
        on_signals();
        connection_.exchange(now_);
        while (auto message = connection_.next()) std::visit([this](const auto& each) { on(each); }, *message);
        hear_report();
        if (holder_.output_fd() >= 0) holder_.take_output();
        if (const auto stopped_by = holder_.reap(now_)) on_main_stopped(*stopped_by);
        if (holder_.main_status()) terminal_.take_back(holder_.pid());
        if (is(ShimPhase::running) && holder_.is_over()) on_over();
        on_time();
    }
    finish();
    return *exit_code_;
}

void Shim::tell_again(const ShimState& before) {
    const ShimState self = state_;
    state_ = before;
    state_.pid = self.pid;
    state_.start = self.start;
    state_.boot = self.boot;
    const bool by_signal = before.how == How::signaled || before.code_is == CodeIs::signal;
    child_code_ = by_signal ? 128 + before.code : before.code;
    ended_at_ = now_;
}

void Shim::set_up_signals() {
    // Whoever started us may have left these so that children vanish without a word, or that writing kills us.
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigemptyset(&ignored_);
    for (const int number : {SIGHUP, SIGINT, SIGQUIT}) {
        struct sigaction action{};
        sigaction(number, nullptr, &action);
        if (options_.foreground && action.sa_handler == SIG_IGN) sigaddset(&ignored_, number);
        // A signal that is blocked and ignored may be read or not, depending on who was first.
        signal(number, SIG_DFL);
    }
    const sigset_t heard = set_of_heard_signals();
    sigprocmask(SIG_SETMASK, &heard, nullptr);
    signals_ = Fd(signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
}

void Shim::keep_connected() {
    if (!connection_.connect(now_)) return;
    send_hello();
    if (is(ShimPhase::ended)) send_ended();
    hand_over_entrance();
}

void Shim::wait_for_something() {
    // Whatever is not there is -1, which poll() passes over.
    const short connection_events = connection_.has_to_write() ? POLLIN | POLLOUT : POLLIN;
    pollfd waits[] = {{.fd = connection_.fd(), .events = connection_events, .revents = 0},
                      {.fd = signals_.get(), .events = POLLIN, .revents = 0},
                      {.fd = holder_.report_fd(), .events = POLLIN, .revents = 0},
                      {.fd = holder_.output_fd(), .events = POLLIN, .revents = 0}};
    std::int64_t next = std::min({beat_at_, timeout_at_, holder_.next_at()});
    if (!connection_.connected()) next = std::min(next, connection_.retry_at());
    // The control group tells nobody here when it becomes empty.
    if (is(ShimPhase::running) && holder_.main_status()) next = std::min(next, now_ + look_again_ms);
    poll(waits, std::size(waits), static_cast<int>(std::clamp<std::int64_t>(next - now_in_ms(), 0, 1'000)));
}

void Shim::on(const Wait& message) {
    if (options_.foreground && is(ShimPhase::waiting)) status_line_.show(message.text);
}

void Shim::on(const Done& message) {
    if (!is(ShimPhase::ended)) return;
    if (options_.foreground && !options_.quiet && !message.receipt.empty()) say(message.receipt);
    leave(child_code_);
}

void Shim::hold_still(bool still) {
    if (!is(ShimPhase::running)) return;
    still ? holder_.pause() : holder_.resume();
    holder_.paused() ? connection_.send(Paused{}) : connection_.send(Resumed{});
}

void Shim::on(const LaunchOrder& order) {
    if (!is(ShimPhase::waiting)) return;
    status_line_.clear();
    auto read = read_launch(order.message);
    if (const auto* problem = std::get_if<std::string>(&read)) return not_started(126, *problem);
    LaunchRequest launch = std::move(std::get<LaunchRequest>(read));
    if (launch.home.empty()) launch.home = directory_;
    if (launch.dir_is_held) place_ = connection_.take_descriptor();
    if (launch.dir_is_held && !place_) return not_started(126, "its directory was not handed over by the server");
    launch.place = place_.get();
    if (options_.foreground && !options_.quiet && !launch.note.empty()) say("interlock: " + launch.note);
    if (launch.timeout_ms > 0) timeout_at_ = now_ + launch.timeout_ms;
    runs_in_terminal_ = options_.foreground && terminal_.wanted_at_once();
    const ChildOptions options{
        .foreground = options_.foreground, .takes_terminal = runs_in_terminal_, .ignored = ignored_};
    if (const auto problem = holder_.start(std::move(launch), options)) return not_started(126, *problem);
    // Both of us do it, so that it is done before the run needs it and before we could be asked to undo it.
    if (runs_in_terminal_) terminal_.give(holder_.pid());
    state_.phase = ShimPhase::running;
    state_.child_pid = holder_.pid();
    state_.child_start = start_time(holder_.pid());
    state_.cgroup = holder_.cgroup();
    beat_at_ = now_;
    save();
}

void Shim::on(const Refused& message) {
    if (!is(ShimPhase::waiting)) return;
    status_line_.clear();
    if (options_.foreground && !message.why.empty()) say(message.why);
    state_.phase = ShimPhase::ended;
    state_.how = How::not_started;
    state_.code = message.code;
    state_.code_is = CodeIs::exit_code;
    state_.detail = message.why;
    save();
    leave(message.code);
}

void Shim::end(Ending why, const std::string& reason) {
    if (is(ShimPhase::waiting)) {
        // It was taken back before it began.
        return not_started(128 + SIGTERM, "stopped before it started" + (reason.empty() ? "" : ": " + reason));
    }
    if (!is(ShimPhase::running) || ending_ != Ending::by_itself || holder_.main_status()) return;
    ending_ = why;
    reason_ = reason;
    holder_.stop(now_);
    if (options_.foreground && !options_.quiet) say("interlock: the run is being stopped: " + reason);
}

void Shim::fence(const std::string& why) {
    status_line_.clear();
    if (options_.foreground && ending_ != Ending::fenced) say("interlock: " + why);
    ending_ = Ending::fenced;
    reason_ = why;
    if (is(ShimPhase::running)) return holder_.kill_at(now_);
    leave(code_failed);
}

void Shim::on_signals() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
        const int signal = static_cast<int>(info.ssi_signo);
        if (sigismember(&ignored_, signal) == 1 || signal == SIGCHLD) continue;
        options_.foreground ? on_signal_in_foreground(signal) : on_signal(signal);
    }
}

// In the background nobody but the server and whoever ends the machine has something to say.
void Shim::on_signal(int signal) {
    if (signal != SIGTERM) return;
    if (is(ShimPhase::waiting)) return leave(128 + SIGTERM);
    end(Ending::stopped, "the shim was asked to end");
}

void Shim::on_signal_in_foreground(int signal) {
    const bool asks_to_end = signal == SIGINT || signal == SIGTERM || signal == SIGQUIT || signal == SIGHUP;
    if (signal == SIGCONT) return main_stopped_ ? go_on() : void();
    if (is(ShimPhase::waiting)) {
        if (asks_to_end) status_line_.clear(), leave(128 + signal);
        if (signal == SIGTSTP) terminal_.stop_ourselves(signal);
        return;
    }
    // The server will find the end in the state file.
    if (is(ShimPhase::ended)) return asks_to_end ? leave(child_code_) : void();
    if (signal == SIGTTIN || signal == SIGTTOU) return;
    holder_.signal_group(signal);
    if (signal != SIGINT && signal != SIGTERM) return;
    // What the run does with it is its own affair. Who asks again after the grace, or when only leftovers are there,
    // means it.
    if (first_asked_at_ == never) first_asked_at_ = now_;
    if (holder_.main_status() || (now_ > first_asked_at_ && now_ - first_asked_at_ >= holder_.launch().grace_ms)) {
        holder_.kill_at(now_);
    }
}

void Shim::on_main_stopped(int signal) {
    // Not when it is to end: whoever stands still himself ends nobody.
    if (holder_.paused() || ending_ != Ending::by_itself) return;
    main_stopped_ = true;
    // The server hears of the start before it hears of the pause. The first process of a pid namespace may hold the
    // report open for a moment after the command has begun.
    pollfd report{.fd = holder_.report_fd(), .events = POLLIN, .revents = 0};
    while (holder_.report_fd() >= 0 && poll(&report, 1, report_wait_ms) > 0) hear_report();
    // Without a terminal there is no shell that waits to see us stop.
    if (!terminal_) return;
    if ((signal == SIGTTIN || signal == SIGTTOU) && terminal_.ours()) {
        // It asks for the terminal, and it is ours to give.
        if (!terminal_.give(holder_.pid())) return;
        runs_in_terminal_ = true;
        return go_on();
    }
    // The server is told while we can speak: a moment later we stand still too.
    connection_.send(Paused{});
    terminal_.take_back(holder_.pid());
    suspended(true);
    terminal_.stop_ourselves(signal);
    suspended(false);
    now_ = now_in_ms();
    if (runs_in_terminal_ && terminal_.ours()) terminal_.give(holder_.pid());
    go_on();
    connection_.send(Resumed{});
}

void Shim::go_on() {
    main_stopped_ = false;
    holder_.signal_group(SIGCONT);
}

void Shim::hear_report() {
    if (holder_.report_fd() < 0) return;
    if (const auto report = holder_.take_report()) on_report(*report);
}

void Shim::on_report(const ChildReport& report) {
    // The launch may have been large, and we stay as long as the run does.
    malloc_trim(0);
    state_.cgroup = holder_.cgroup();
    if (report.failed) {
        start_failed_ = true;
        child_code_ = report.code;
        reason_ = report.text;
        return;
    }
    save();
    connection_.send(Started{.child_pid = state_.child_pid,
                             .child_start = state_.child_start,
                             .note = report.text,
                             .level = name_of(holder_.launch().level)});
    hand_over_entrance();
}

// The server that takes it accepts on it; one that starts again gets it again.
void Shim::hand_over_entrance() {
    if (is(ShimPhase::running) && holder_.entrance_fd() >= 0) connection_.send(Entrance{}, holder_.entrance_fd());
}

void Shim::on_time() {
    if (now_ >= beat_at_) {
        const std::int64_t every = holder_.started() ? holder_.launch().beat_ms : LaunchRequest{}.beat_ms;
        beat_at_ = now_ + every;
        read_log_sizes();
        connection_.send(Beat{.log_end = state_.log_end, .hole_begin = state_.hole_begin, .hole_end = state_.hole_end});
        if (!saved_) save();
    }
    if (now_ >= timeout_at_) {
        timeout_at_ = never;
        end(Ending::timed_out, "it took longer than " + text_of(holder_.launch().timeout_ms) + " ms");
    }
    holder_.on_time(now_);

    const std::int64_t silent_for = now_ - std::max(connection_.heard_at(), began_at_);
    if (is(ShimPhase::waiting) && options_.foreground && !connection_.connected() && silent_for > silence_shown_ms) {
        status_line_.show("interlock: waiting for the server, which does not answer");
    }
    if (is(ShimPhase::waiting) && !options_.foreground && now_ - began_at_ > launch_wait_ms) {
        // The state stays at waiting: nothing was started, and the server may send another shim.
        leave(code_failed);
    }
    const std::int64_t timeout = options_.foreground ? done_wait_foreground_ms : done_wait_background_ms;
    if (is(ShimPhase::ended) && !exit_code_ && now_ - std::max(connection_.heard_at(), ended_at_) > timeout) {
        if (options_.foreground)
            say("interlock: the run has ended, but the server could not be told; it will find out");
        leave(child_code_);
    }
}

// Invariant (3) holds.
void Shim::on_over() {
    const int status = *holder_.main_status();
    rusage usage{};
    getrusage(RUSAGE_CHILDREN, &usage);
    state_.user_ms = in_ms(usage.ru_utime);
    state_.system_ms = in_ms(usage.ru_stime);
    state_.max_rss_kb = usage.ru_maxrss;
    if (start_failed_) return not_started(child_code_, reason_);

    const bool exited = WIFEXITED(status);
    state_.code = exited ? WEXITSTATUS(status) : WTERMSIG(status);
    state_.code_is = exited ? CodeIs::exit_code : CodeIs::signal;
    child_code_ = exited ? state_.code : 128 + state_.code;
    state_.how = ending_ == Ending::timed_out   ? How::timed_out
                 : ending_ != Ending::by_itself ? How::stopped
                 : exited                       ? How::exited
                                                : How::signaled;
    state_.detail = detail_of_end(status);
    state_.phase = ShimPhase::ended;
    state_.cgroup = "";
    ended_at_ = now_;
    save();
    // Who was fenced has nothing to say about the run any more.
    if (ending_ == Ending::fenced) return leave(code_failed);
    send_ended();
}

std::string Shim::detail_of_end(int status) const {
    std::string detail = reason_;
    const auto add = [&](const std::string& text) { detail += (detail.empty() || text.empty() ? "" : "; ") + text; };
    if (WIFSIGNALED(status)) {
        add("ended by signal " + text_of(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")" +
            (WCOREDUMP(status) ? ", core dumped" : ""));
    } else if (ending_ != Ending::by_itself) {
        add("ended with exit code " + text_of(WEXITSTATUS(status)));
    }
    add(holder_.log().lost());
    return detail;
}

void Shim::not_started(int code, const std::string& text) {
    state_.phase = ShimPhase::ended;
    state_.how = How::not_started;
    state_.code = child_code_ = code;
    state_.code_is = CodeIs::exit_code;
    state_.detail = text;
    state_.cgroup = "";
    ended_at_ = now_;
    if (options_.foreground) say("interlock: " + text);
    save();
    if (ending_ == Ending::fenced) return leave(code_failed);
    send_ended();
}

void Shim::finish() {
    if (holder_.started()) remove_tree(holder_.launch().home + "/tmp");
}

void Shim::send_hello() {
    connection_.send(Hello{.run = state_.run,
                           .pid = state_.pid,
                           .start = state_.start,
                           .boot = state_.boot,
                           .phase = state_.phase,
                           .child_pid = state_.child_pid,
                           .child_start = state_.child_start,
                           .foreground = options_.foreground,
                           .secret = options_.secret});
}

void Shim::send_ended() {
    connection_.send(Ended{.how = state_.how,
                           .code = state_.code,
                           .detail = state_.detail,
                           .user_ms = state_.user_ms,
                           .system_ms = state_.system_ms,
                           .max_rss_kb = state_.max_rss_kb,
                           .secret = options_.secret,
                           .code_is = state_.code_is});
}

void Shim::read_log_sizes() {
    if (!holder_.started()) return;
    state_.log_end = holder_.log().end();
    state_.hole_begin = holder_.log().hole_begin();
    state_.hole_end = holder_.log().hole_end();
}

// So that a server that starts meanwhile can tell this from a shim that its run has stopped.
void Shim::suspended(bool is) {
    state_.suspended = is ? 1 : 0;
    save();
}

// On a full disk it is tried again with every beat.
void Shim::save() {
    read_log_sizes();
    saved_ = write_state(directory_, state_);
}

void leave_the_caller() {
    setsid();
    static_cast<void>(chdir("/"));
    const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null.get(), stream);
}

// The other end of the pipe has been written and closed. A descriptor keeps the secret out of arguments, environment
// and files, which other processes can read.
std::string read_secret(std::string_view descriptor) {
    int number = -1;
    std::from_chars(descriptor.data(), descriptor.data() + descriptor.size(), number);
    const Fd pipe(number);
    std::array<char, secret_bytes_max> bytes;
    const ssize_t got = pipe ? ::read(pipe.get(), bytes.data(), bytes.size()) : -1;
    return got > 0 ? std::string(bytes.data(), static_cast<std::size_t>(got)) : "";
}

std::optional<ShimOptions> read_options(int argc, char** argv) {
    ShimOptions options;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--secret-fd" && i + 1 < argc) {
            options.secret = read_secret(argv[++i]);
        } else if (word == "--foreground") {
            options.foreground = true;
        } else if (word == "--quiet") {
            options.quiet = true;
        } else if (options.data_directory.empty()) {
            options.data_directory = word;
        } else if (options.run.empty()) {
            options.run = word;
        } else {
            return std::nullopt;
        }
    }
    // The run's name becomes a directory's.
    const bool is_name =
        !options.run.empty() && options.run.front() != '.' && options.run.find('/') == std::string::npos;
    return is_name ? std::optional(options) : std::nullopt;
}

// Whether runs can have `level` here: one is started, with everything that belongs to it. What keeps them from it is
// printed.
int probe(const char* level, const std::string& data_directory) {
    const std::string home = data_directory + "/probe";
    mkdir(home.c_str(), 0700);
    const auto launch = read_launch({"launch", "arg", "/bin/sh", "arg", "-c", "arg", ":", "dir", home, "home", home,
                                     "hide", data_directory, "level", level, "port", "1"});
    if (std::holds_alternative<std::string>(launch)) return code_usage;
    RunProcesses holder(false);
    std::string problem = holder.start(std::get<LaunchRequest>(launch), {}).value_or("");
    while (problem.empty() && !holder.is_over()) {
        holder.reap(now_in_ms());
        if (const auto report = holder.report_fd() >= 0 ? holder.take_report() : std::nullopt;
            report && report->failed) {
            problem = report->text;
        }
        holder.on_time(now_in_ms());
        constexpr timespec moment{.tv_sec = 0, .tv_nsec = 500'000};
        nanosleep(&moment, nullptr);
    }
    remove_tree(home);
    if (problem.empty()) return 0;
    static_cast<void>(write_all(STDOUT_FILENO, problem));
    return code_failed;
}

}  // namespace

int run_shim(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == task_option) return run_task();
    if (argc == 4 && std::string_view(argv[1]) == "--probe") return probe(argv[2], argv[3]);
    const auto options = read_options(argc, argv);
    if (!options) {
        say("usage: shim DATA_DIR RUN [--foreground] [--quiet] [--secret-fd N]");
        return code_usage;
    }
    const auto failed_with = [](const std::string& path) {
        say("interlock: cannot use " + path + ": " + std::strerror(errno));
        return code_failed;
    };

    // 0. What the run inherits and cannot take off, and what keeps it out of here.
    mark_as_run();
    become_undumpable();

    // 1. What else was left open belongs to nobody here; a background shim would keep it open for as long as it lives.
    if (!options->foreground) syscall(SYS_close_range, 3U, ~0U, 0);

    // 2. The places, held open: they stay ours when somebody renames them.
    const Fd data(open(options->data_directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!data) return failed_with(options->data_directory);
    const std::string runs = options->data_directory + "/runs", directory = runs + "/" + options->run;
    mkdir(runs.c_str(), 0700);
    mkdir(directory.c_str(), 0700);
    const Fd run_directory(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!run_directory) return failed_with(directory);

    // 3. The lock. Whoever has it is this run's shim, and there is nothing left to do for a second one.
    const Fd lock(openat(run_directory.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock) return failed_with(directory + "/lock");
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? 0 : failed_with(directory + "/lock");

    // 4. The run. In the background nothing of whoever started us is kept in use.
    if (!options->foreground) leave_the_caller();
    return Shim(*options, data.get(), "/proc/self/fd/" + std::to_string(run_directory.get())).run();
}

}  // namespace interlock::shim
