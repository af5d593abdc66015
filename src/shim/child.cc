#include "shim/child.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "shim/entrance.h"
#include "shim/given_place.h"
#include "shim/mounts.h"
#include "shim/namespaces.h"
#include "shim/socket_filter.h"

namespace interlock::shim {
namespace {

constexpr int pipe_bytes = 1 << 20;
constexpr int code_not_found = 127, code_cannot_run = 126;

// What can fail on the way to the command. The last one reported is the one that counts: only `cgroup` is not the end.
enum class StartStep : std::uint8_t { cgroup, session, limit, nice, dir, descriptors, sandbox, exec, bounds };

struct StartFailure {
    StartStep step;
    std::uint8_t index;  // Which limit, or which Part of a sandbox.
    std::int32_t error;
};

struct Pipe {
    Fd read, write;
};

std::optional<Pipe> make_pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
    return Pipe{.read = Fd(ends[0]), .write = Fd(ends[1])};
}

// As a pipe, and descriptors go through it.
std::optional<Pipe> make_socket_pair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
    return Pipe{.read = Fd(ends[0]), .write = Fd(ends[1])};
}

std::string failed_to(const char* what) { return std::string("cannot ") + what + ": " + std::strerror(errno); }

// Both lists end with a null pointer, and point into the texts.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

std::string_view name_of(std::string_view assignment) { return assignment.substr(0, assignment.find('=') + 1); }

// In the foreground the run has the caller's environment, with the launch's on top.
std::vector<std::string> environment_for(const LaunchRequest& launch, bool foreground) {
    std::vector<std::string> environment = launch.env;
    for (char** inherited = environ; foreground && *inherited; ++inherited) {
        bool replaced = false;
        for (const std::string& own : launch.env) replaced |= name_of(own) == name_of(*inherited);
        if (!replaced) environment.emplace_back(*inherited);
    }
    return environment;
}

// The user's home. Empty when it says none that could be covered.
std::string home_in(const std::vector<std::string>& environment) {
    constexpr std::string_view home_is = "HOME=/";
    for (const std::string& each : environment) {
        if (each.starts_with(home_is) && each.size() > home_is.size()) return each.substr(home_is.size() - 1);
    }
    return {};
}

// Whether a directory of the PATH in `environment` has such a file, whatever may be done with it.
bool is_somewhere(std::string_view command, char** environment) {
    constexpr std::string_view path_is = "PATH=";
    if (command.find('/') != std::string_view::npos) return true;
    for (; *environment; ++environment) {
        std::string_view path = *environment;
        if (!path.starts_with(path_is)) continue;
        path.remove_prefix(path_is.size());
        while (!path.empty()) {
            const std::size_t end = std::min(path.find(':'), path.size());
            const std::string file = std::string(path.substr(0, end)) + "/" + std::string(command);
            if (access(file.c_str(), F_OK) == 0) return true;
            path.remove_prefix(std::min(end + 1, path.size()));
        }
    }
    return false;
}

// Runs in the new process. Every function of it says no with errno set.
class ChildSetup {
 public:
    ChildSetup(const LaunchRequest& launch, const ChildOptions& options, pid_t parent, const Pipe& report,
               const std::string& home, const std::vector<std::string>& sockets)
        : launch_(launch),
          home_(home),
          sockets_(sockets),
          options_(options),
          parent_(parent),
          report_(report.write.get()),
          reader_(report.read.get()) {}

    // `separated` is told who becomes the command, where that is not the calling process.
    [[noreturn]] void become(const Fd& door, int output, int separated, char** environment, char** args) {
        if (door && !write_all(door.get(), "0"))
            options_.needs_group ? fail(StartStep::bounds) : tell(StartStep::cgroup);
        // At level sealed no process has the right for it after this.
        if (launch_.nice != 0 && setpriority(PRIO_PROCESS, 0, launch_.nice) != 0) fail(StartStep::nice);
        Part part{};
        if (launch_.level != AppliedSandboxLevel::off && !separate(launch_, parent_, separated, part))
            fail(StartStep::sandbox, index_of(part));
        if (!be_alone()) fail(StartStep::session);
        const bool confined = launch_.level != AppliedSandboxLevel::off;
        if (confined && !make_view(launch_, home_, sockets_, part)) fail(StartStep::sandbox, index_of(part));
        // Behind the view, which takes descriptors and memory, and before the rights to raise them are gone.
        for (std::size_t i = 0; i < launch_.limits.size(); ++i) {
            const rlimit both{.rlim_cur = launch_.limits[i].value, .rlim_max = launch_.limits[i].value};
            // The kinds of limits are an enum in one libc and a number in another.
            if (syscall(SYS_prlimit64, 0, launch_.limits[i].resource, &both, nullptr) != 0) fail(StartStep::limit, i);
        }
        if (confined && !drop_capabilities(launch_.level)) fail(StartStep::sandbox, index_of(Part::capabilities));
        if (launch_.level == AppliedSandboxLevel::sealed && !enter_socket_filter()) {
            fail(StartStep::sandbox, index_of(Part::filter));
        }
        if (!launch_.dir.empty() && !enter_given(launch_)) fail(StartStep::dir);
        if (!set_descriptors(output)) fail(StartStep::descriptors);
        reset_signals();
        // The command is looked for in the PATH of the run, not in ours.
        environ = environment;
        execvp(args[0], args);
        // A directory of the PATH that may not be entered would turn "there is none" into "permission denied".
        const int error = errno;
        errno = error == EACCES && !is_somewhere(args[0], environment) ? ENOENT : error;
        fail(StartStep::exec);
    }

 private:
    static std::size_t index_of(Part part) { return static_cast<std::size_t>(part); }

    void tell(StartStep step, std::size_t index = 0) {
        const StartFailure failure{.step = step, .index = static_cast<std::uint8_t>(index), .error = errno};
        static_cast<void>(write(report_, &failure, sizeof failure));
    }

    [[noreturn]] void fail(StartStep step, std::size_t index = 0) {
        tell(step, index);
        _exit(code_cannot_run);
    }

    bool be_alone() {
        // A group of its own: what is sent to it reaches neither us nor the user's shell.
        if (options_.foreground ? setpgid(0, 0) != 0 : setsid() < 0) return false;
        if (options_.takes_terminal) tcsetpgrp(STDIN_FILENO, getpid());
        // Nobody is left to hold it if we are gone. The parent may have died before this was set.
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return false;
        return parent_lives() || (errno = ESRCH, false);
    }

    // In another pid namespace the parent has no number. It has the other end of the report alone.
    bool parent_lives() const {
        if (launch_.level == AppliedSandboxLevel::off) return getppid() == parent_;
        close(reader_);
        pollfd report{.fd = report_, .events = 0, .revents = 0};
        return poll(&report, 1, 0) == 0;
    }

    bool set_descriptors(int output) {
        if (!options_.foreground) {
            const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
            if (null < 0 || dup2(null, STDIN_FILENO) < 0) return false;
            if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) return false;
        }
        // Not closed yet, but by exec: the report is one of them.
        constexpr unsigned close_on_exec = 1 << 2;
        if (syscall(SYS_close_range, 3U, ~0U, close_on_exec) == 0) return true;
        // Kernels before 5.11.
        const long fd_max = sysconf(_SC_OPEN_MAX);
        for (int fd = 3; fd < fd_max; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
        return true;
    }

    void reset_signals() {
        for (int signal = 1; signal < NSIG; ++signal) {
            struct sigaction action{};
            action.sa_handler = sigismember(&options_.ignored, signal) == 1 ? SIG_IGN : SIG_DFL;
            sigaction(signal, &action, nullptr);
        }
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
    }

    const LaunchRequest& launch_;
    const std::string& home_;
    const std::vector<std::string>& sockets_;
    const ChildOptions& options_;
    const pid_t parent_;
    const int report_, reader_;
};

// What a run at level files is to have must be there. Said beforehand, as there a path can be named.
std::optional<std::string> missing_place(const LaunchRequest& launch) {
    if (launch.level < AppliedSandboxLevel::files) return std::nullopt;
    for (const auto* list : {&launch.writable, &launch.readable}) {
        for (const std::string& path : *list) {
            if (access(path.c_str(), F_OK) == 0) continue;
            return "cannot allow the run to " + std::string(list == &launch.writable ? "write in '" : "read '") + path +
                   "': " + std::strerror(errno);
        }
    }
    return std::nullopt;
}

// The process that was forked makes the main process beside itself, and is gone. It looks at no file before that, so
// it cannot be held up. Zeros when it failed: then it is what ends with the report.
Separated wait_for_separation(Pipe& pipe, pid_t pid, Fd& entrance) {
    pipe.write.reset();
    Separated who;
    ssize_t got = 0;
    do got = receive_with(pipe.read.get(), &who, sizeof who, entrance);
    while (got < 0 && errno == EINTR);
    if (got != sizeof who) return {};
    waitpid(pid, nullptr, 0);
    return who;
}

}  // namespace

std::variant<Child, std::string> start_child(const LaunchRequest& launch, const Cgroup& cgroup,
                                             const ChildOptions& options) {
    // 1. Everything that can be made ready beforehand is: here there is somebody to tell what is wrong.
    if (auto problem = missing_place(launch)) return std::move(*problem);
    auto separated = make_socket_pair();
    if (!separated) return failed_to("make a pipe");
    auto report = make_pipe();
    if (!report) return failed_to("make a pipe");
    fcntl(report->read.get(), F_SETFL, O_NONBLOCK);
    std::optional<Pipe> output;
    if (!options.foreground) {
        output = make_pipe();
        if (!output) return failed_to("make a pipe");
        // A large pipe keeps a run that floods from waiting for us at every turn. Not every user may have one.
        fcntl(output->read.get(), F_SETPIPE_SZ, pipe_bytes);
        fcntl(output->read.get(), F_SETFL, O_NONBLOCK);
    }
    const Fd door = cgroup.open_door();
    const auto environment = environment_for(launch, options.foreground);
    const std::string home = home_in(environment);
    // Another network namespace does not show them any more.
    const auto sockets = launch.level == AppliedSandboxLevel::sealed ? sockets_of_others() : std::vector<std::string>();
    auto environment_pointers = pointers_to(environment);
    auto args = pointers_to(launch.args);

    // 2. Fork. There is one thread, so everything may be called in the child.
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return failed_to("start a process");
    if (pid == 0) {
        ChildSetup(launch, options, parent, *report, home, sockets)
            .become(door, output ? output->write.get() : -1, separated->write.get(), environment_pointers.data(),
                    args.data());
    }
    Fd entrance;
    const Separated who =
        launch.level == AppliedSandboxLevel::off ? Separated{} : wait_for_separation(*separated, pid, entrance);
    const pid_t main = who.main != 0 ? who.main : pid;

    // 3. Whoever comes first makes the group; a signal may be sent to it from now on.
    if (options.foreground) setpgid(main, main);
    Child child{.pid = main,
                .first = who.first,
                .report = std::move(report->read),
                .output = output ? std::move(output->read) : Fd(),
                .entrance = std::move(entrance)};
    return child;
}

ChildReport read_report(std::string_view bytes, const LaunchRequest& launch) {
    ChildReport report;
    for (; bytes.size() >= sizeof(StartFailure); bytes.remove_prefix(sizeof(StartFailure))) {
        StartFailure failure{};
        std::memcpy(&failure, bytes.data(), sizeof failure);
        const std::string why = std::string(": ") + std::strerror(failure.error);
        report.failed = failure.step != StartStep::cgroup;
        report.code = code_cannot_run;
        switch (failure.step) {
            case StartStep::cgroup:
                report.text = "no cgroup: the run could not join " + launch.cgroup + why;
                break;
            case StartStep::bounds:
                report.text = "cannot bound the run: it could not join its control group " + launch.cgroup + why;
                break;
            case StartStep::session:
                report.text = "cannot give the run a process group of its own" + why;
                break;
            case StartStep::limit:
                report.text = "cannot set the limit " + launch.limits[failure.index].text + why;
                break;
            case StartStep::nice:
                report.text = "cannot set the nice value " + std::to_string(launch.nice) + why;
                break;
            case StartStep::dir:
                report.text = "cannot start in '" + launch.dir + "'" +
                              (failure.error == ESTALE ? ": it is another directory by now" : why);
                break;
            case StartStep::descriptors:
                report.text = "cannot set up what the run reads and prints" + why;
                break;
            case StartStep::sandbox:
                report.text = std::string("cannot confine the run to its sandbox: ") +
                              name_of(static_cast<Part>(failure.index)) + why +
                              "; interlock doctor says what this machine allows";
                break;
            case StartStep::exec:
                report.text = "cannot start '" + launch.args.front() + "'" + why;
                if (failure.error == ENOENT) report.code = code_not_found;
                break;
        }
    }
    return report;
}

}  // namespace interlock::shim
