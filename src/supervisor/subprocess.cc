#include "supervisor/subprocess.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/open_file.h"

namespace interlock::supervisor {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t error_text_max = std::size_t{64} * 1024;
constexpr std::size_t pipe_bytes_max = std::size_t{1024} * 1024;  // What a user may have, by default.

struct OutputPipe {
    OpenFile read_end;
    OpenFile write_end;
};

struct ChildProcess {
    pid_t pid = -1;
    OpenFile ended;  // Its pidfd, readable once it has ended.
    OpenFile out;
    OpenFile err;
};

Result<ChildProcess, std::string> start(const std::vector<std::string>& argv, const ProgramOptions& options);
// Reads until the program has ended. The error says why it was not waited for any longer.
Result<void, std::string> follow(ChildProcess& child, const ProgramOptions& options, SubprocessResult& finished);
int reap(const ChildProcess& child);

std::string system_error(std::string_view what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

}  // namespace

std::string find_program(const std::string& name) {
    constexpr std::string_view path_is = "PATH=";
    if (name.find('/') != std::string::npos) return name;
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        std::string_view rest = *variable;
        if (!rest.starts_with(path_is)) continue;
        for (rest.remove_prefix(path_is.size()); !rest.empty();) {
            const std::string_view dir = rest.substr(0, rest.find(':'));
            rest.remove_prefix(std::min(dir.size() + 1, rest.size()));
            std::string program = fmt::format("{}/{}", dir, name);
            if (dir.starts_with('/') && access(program.c_str(), X_OK) == 0) return program;
        }
    }
    return "";
}

Result<SubprocessResult, std::string> run_program(const std::vector<std::string>& argv, const ProgramOptions& options) {
    if (argv.empty()) return fail(std::string("there is no program to start"));
    auto child = start(argv, options);
    if (!child) return fail(std::move(child.error()));

    SubprocessResult finished;
    const auto followed = follow(*child, options, finished);
    // Until it is reaped its number belongs to it, and so does the group: this cannot hit a stranger.
    kill(-child->pid, SIGKILL);
    finished.exit_code = reap(*child);
    if (!followed) return fail(fmt::format("{} {}", argv.front(), followed.error()));
    if (finished.exit_code < 0) {
        return fail(fmt::format("nobody knows how {} ended: somebody else has reaped it", argv.front()));
    }
    return finished;
}

namespace {

// Where things are, and nothing that is secret or that changes which repository git looks at.
bool passed_on(std::string_view name) {
    static constexpr std::array<std::string_view, 14> names = {"PATH",
                                                               "HOME",
                                                               "USER",
                                                               "LOGNAME",
                                                               "SHELL",
                                                               "LANG",
                                                               "TZ",
                                                               "TMPDIR",
                                                               "XDG_CONFIG_HOME",
                                                               "XDG_CONFIG_DIRS",
                                                               "GIT_CONFIG_GLOBAL",
                                                               "GIT_CONFIG_SYSTEM",
                                                               "GIT_CONFIG_NOSYSTEM",
                                                               "GIT_EXEC_PATH"};
    return std::ranges::find(names, name) != names.end() || name.starts_with("LC_");
}

std::string_view name_of(std::string_view variable) { return variable.substr(0, variable.find('=')); }

std::vector<std::string> environment_with(const std::vector<std::string>& additions) {
    std::vector<std::string> variables = additions;
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        const std::string_view name = name_of(*variable);
        const bool replaced = std::ranges::any_of(additions, [&](const auto& added) { return name_of(added) == name; });
        if (passed_on(name) && !replaced) variables.emplace_back(*variable);
    }
    return variables;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    // exec does not change what its char* point to; its signature is older than const.
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

Result<OutputPipe, std::string> make_pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail(system_error("cannot make a pipe"));
    OutputPipe made{.read_end = OpenFile(ends[0]), .write_end = OpenFile(ends[1])};
    if (fcntl(made.read_end.fd(), F_SETFL, O_NONBLOCK) != 0) return fail(system_error("cannot set up a pipe"));
    return made;
}

// A file in memory instead of a pipe: the program may read it or not, and nobody has to feed it or meets SIGPIPE.
Result<OpenFile, std::string> input_file(std::string_view input) {
    if (input.empty()) return OpenFile(open("/dev/null", O_RDONLY | O_CLOEXEC));
    OpenFile file(memfd_create("input", MFD_CLOEXEC));
    while (file && !input.empty()) {
        const auto written = write(file.fd(), input.data(), input.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return fail(system_error("cannot hold the input of a program"));
        input.remove_prefix(static_cast<std::size_t>(written));
    }
    if (!file || lseek(file.fd(), 0, SEEK_SET) != 0) return fail(system_error("cannot hold the input of a program"));
    return file;
}

// What the child needs between vfork and exec. It shares this process's memory, so it makes system calls and nothing
// else.
struct Setup {
    int in;
    int out;
    int err;
    int confinement;
    const char* program;
    const char* dir;
    pid_t parent;
    char** argv;
    char** environment;
};

bool becomes(int from, int to) { return from == to ? fcntl(to, F_SETFD, 0) == 0 : dup2(from, to) >= 0; }

// Marks all descriptors but 0, 1 and 2, so that exec closes them.
void close_the_others_at_exec() {
    constexpr unsigned at_exec = 1 << 2;  // CLOSE_RANGE_CLOEXEC
    if (syscall(SYS_close_range, 3U, ~0U, at_exec) == 0) return;
    const long fd_max = sysconf(_SC_OPEN_MAX);  // Kernels before 5.11.
    for (int fd = 3; fd < fd_max; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

bool enter(int confinement) {
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, confinement, 0) == 0;
}

// Returns only if the program cannot be started; errno says why.
void become(const Setup& setup) {
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0) return;
    if (getppid() != setup.parent) _exit(127);
    if (!becomes(setup.in, STDIN_FILENO) || !becomes(setup.out, STDOUT_FILENO) || !becomes(setup.err, STDERR_FILENO)) {
        return;
    }
    close_the_others_at_exec();
    if (setup.dir != nullptr && chdir(setup.dir) != 0) return;
    struct sigaction as_after_boot{};
    as_after_boot.sa_handler = SIG_DFL;
    for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &as_after_boot, nullptr);
    if (setup.confinement >= 0 && !enter(setup.confinement)) return;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(setup.program, setup.argv, setup.environment);
}

// The child's number, or the error. All signals wait meanwhile: a handler of this process must not run in the child.
Result<pid_t, int> spawn(const Setup& setup) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    volatile int error = 0;
    const pid_t pid = vfork();
    if (pid == 0) {
        become(setup);
        error = errno;
        _exit(127);
    }
    if (pid < 0) error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid >= 0 && error != 0) waitpid(pid, nullptr, 0);
    if (error != 0) return fail(static_cast<int>(error));
    return pid;
}

Result<ChildProcess, std::string> start(const std::vector<std::string>& argv, const ProgramOptions& options) {
    auto in = input_file(options.input);
    if (!in) return fail(std::move(in.error()));
    auto out = make_pipe();
    if (!out) return fail(std::move(out.error()));
    auto err = make_pipe();
    if (!err) return fail(std::move(err.error()));

    const std::string program = find_program(argv.front());
    if (program.empty()) return fail(fmt::format("cannot start {}: there is no such program", argv.front()));
    const auto variables = environment_with(options.env);
    const auto words = pointers_to(argv);
    const auto environment = pointers_to(variables);
    const auto pid = spawn({.in = in->fd(),
                            .out = out->write_end.fd(),
                            .err = err->write_end.fd(),
                            .confinement = options.confinement,
                            .program = program.c_str(),
                            .dir = options.dir.empty() ? nullptr : options.dir.c_str(),
                            .parent = getpid(),
                            .argv = const_cast<char**>(words.data()),
                            .environment = const_cast<char**>(environment.data())});
    if (!pid) {
        return fail(fmt::format("cannot start {}{}: {}", argv.front(),
                                options.dir.empty() ? "" : fmt::format(" in {}", options.dir),
                                std::strerror(pid.error())));
    }
    ChildProcess child;
    child.pid = *pid;
    // By its number, because the header of glibc 2.36 that declares it does so for C only.
    child.ended = OpenFile(static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)));
    child.out = std::move(out->read_end);
    child.err = std::move(err->read_end);
    if (!child.ended) {
        const std::string why = system_error(fmt::format("cannot follow {}", argv.front()));
        kill(-child.pid, SIGKILL);
        reap(child);
        return fail(why);
    }
    return child;
}

// What can be read now. False once there is nothing more to come. It takes no more than the largest pipe holds: less
// could leave something behind at the end, more might never come back from a program that does not stop writing.
bool read_some(const OpenFile& from, std::string& text, std::size_t text_max) {
    std::array<char, 65536> buffer;
    for (std::size_t taken = 0; taken < pipe_bytes_max;) {
        const auto count = read(from.fd(), buffer.data(), buffer.size());
        if (count == 0) return false;
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno == EAGAIN;
        taken += static_cast<std::size_t>(count);
        text.append(buffer.data(), std::min(static_cast<std::size_t>(count), text_max - text.size()));
    }
    return true;
}

Result<void, std::string> follow(ChildProcess& child, const ProgramOptions& options, SubprocessResult& finished) {
    const auto deadline = steady_clock::now() + options.timeout;
    for (bool ended = false; !ended;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
        if (left.count() <= 0) return fail(fmt::format("took longer than {} ms", options.timeout.count()));
        std::array<pollfd, 3> waiting = {pollfd{child.ended.fd(), POLLIN, 0}, pollfd{child.out.fd(), POLLIN, 0},
                                         pollfd{child.err.fd(), POLLIN, 0}};
        const int wait_ms = static_cast<int>(std::min<std::int64_t>(left.count(), 60'000));
        if (poll(waiting.data(), waiting.size(), wait_ms) < 0 && errno != EINTR) {
            return fail(system_error("cannot be waited for"));
        }
        // First whether it has ended, then the pipes: what it wrote before its end is then already in them. What its
        // own children write after that belongs to nobody.
        ended = waiting[0].revents != 0;
        if (child.out && !read_some(child.out, finished.out, options.output_max + 1)) child.out = OpenFile();
        if (child.err && !read_some(child.err, finished.err, error_text_max)) child.err = OpenFile();
        if (finished.out.size() > options.output_max) {
            return fail(fmt::format("wrote more than {} bytes", options.output_max));
        }
    }
    return {};
}

int reap(const ChildProcess& child) {
    int status = 0;
    pid_t reaped = -1;
    do reaped = waitpid(child.pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
    if (reaped != child.pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace
}  // namespace interlock::supervisor
