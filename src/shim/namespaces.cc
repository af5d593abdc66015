#include "shim/namespaces.h"

#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "shim/entrance.h"
#include "shim/fd.h"

namespace interlock::shim {
namespace {

bool write_file(const char* path, const std::string& text) {
    const Fd file(open(path, O_WRONLY | O_CLOEXEC));
    return file && write_all(file.get(), text);
}

// The user stays who it is, so files keep their owners. Other users are not there: setuid programs do not work.
bool enter_user_namespace() {
    const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
    if (unshare(CLONE_NEWUSER) != 0) return false;
    // The shim is not dumpable, and a process like that has its maps owned by root.
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return false;
    // Kernels before 3.19 have no such file, and ask for nothing.
    if (!write_file("/proc/self/setgroups", "deny") && errno != ENOENT) return false;
    return write_file("/proc/self/uid_map", user + " " + user + " 1") &&
           write_file("/proc/self/gid_map", group + " " + group + " 1");
}

// "inside outside count" of each line becomes "inside inside count": each number stays what it is.
std::string same_numbers(const std::string& map) {
    std::string same;
    unsigned inside = 0, outside = 0, count = 0;
    int used = 0;
    for (const char* at = map.c_str(); sscanf(at, "%u %u %u%n", &inside, &outside, &count, &used) == 3; at += used) {
        const std::string first = std::to_string(inside);
        same += first + " " + first + " " + std::to_string(count) + "\n";
    }
    return same;
}

// Root keeps all users and groups. Only a process outside of a namespace may write such a map.
bool enter_user_namespace_with_all() {
    const std::string users = same_numbers(read_file("/proc/self/uid_map").value_or(""));
    const std::string groups = same_numbers(read_file("/proc/self/gid_map").value_or(""));
    const std::string self = "/proc/" + std::to_string(getpid());
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    const Fd wait(ends[0]);
    Fd done(ends[1]);
    const pid_t writer = fork();
    if (writer < 0) return false;
    if (writer == 0) {
        done.reset();
        char byte = 0;
        if (read(wait.get(), &byte, 1) != 1) _exit(EINTR);
        const bool written = write_file((self + "/uid_map").c_str(), users) &&  //
                             write_file((self + "/gid_map").c_str(), groups);
        _exit(written ? 0 : errno);
    }
    const bool entered = unshare(CLONE_NEWUSER) == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
    const int why_not = errno;
    if (entered) static_cast<void>(!write(done.get(), "1", 1));
    done.reset();
    int status = 0;
    while (waitpid(writer, &status, 0) < 0 && errno == EINTR) continue;
    if (!entered) return errno = why_not, false;
    return WIFEXITED(status) && (errno = WEXITSTATUS(status)) == 0;
}

// A sibling of the caller: a child of the shim.
pid_t fork_sibling() { return static_cast<pid_t>(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)); }

// Kept: what works on files, users and ports. The rest is for machines, not for work in a directory.
constexpr std::uint64_t bit(int capability) { return std::uint64_t{1} << capability; }
constexpr std::uint64_t kept_at_files = bit(CAP_CHOWN) | bit(CAP_DAC_OVERRIDE) | bit(CAP_FOWNER) | bit(CAP_FSETID) |
                                        bit(CAP_KILL) | bit(CAP_SETGID) | bit(CAP_SETUID) | bit(CAP_SETPCAP) |
                                        bit(CAP_NET_BIND_SERVICE) | bit(CAP_SETFCAP);
// From Linux 5.8 and 5.9, whose headers are not everywhere.
constexpr int cap_perfmon = 38, cap_bpf = 39, cap_checkpoint_restore = 40;
// Each of these leads to memory, mounts, devices or files that the run's own view does not have.
constexpr std::uint64_t dropped_at_guarded =
    bit(CAP_SYS_ADMIN) | bit(CAP_SYS_PTRACE) | bit(CAP_SYS_MODULE) | bit(CAP_SYS_RAWIO) | bit(CAP_SYS_BOOT) |
    bit(CAP_DAC_READ_SEARCH) | bit(CAP_MKNOD) | bit(cap_perfmon) | bit(cap_bpf) | bit(cap_checkpoint_restore);

bool set_capabilities(std::uint64_t kept) {
    for (int each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
        if ((kept & bit(each)) == 0 && prctl(PR_CAPBSET_DROP, each, 0, 0, 0) != 0) return false;
    }
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[2] = {};
    if (syscall(SYS_capget, &header, data) != 0) return false;
    for (int half = 0; half < 2; ++half) {
        const auto mask = static_cast<std::uint32_t>(kept >> (32 * half));
        data[half].effective &= mask;
        data[half].permitted &= mask;
        data[half].inheritable &= mask;
    }
    return syscall(SYS_capset, &header, data) == 0;
}

// So that it is not taken for a second shim of the run. The name has as many letters as "interlock-shim".
void take_a_name() {
    constexpr std::string_view name = "interlock-init";
    prctl(PR_SET_NAME, name.data(), 0, 0, 0);
    if (program_invocation_short_name && program_invocation_short_name == std::string_view("interlock-shim")) {
        name.copy(program_invocation_short_name, name.size());
    }
}

// Readable once the process has ended. Kernels before 5.3 have none.
Fd open_process(pid_t pid) { return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

bool has_ended(const Fd& process) {
    pollfd end{.fd = process.get(), .events = POLLIN, .revents = 0};
    return process && poll(&end, 1, 0) > 0;
}

// The run can neither read it nor end it. The kernel keeps signals of the run from it.
[[noreturn]] void be_first_process(const Fd& shim) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    // The shim may have ended before that was set, and it has no number here.
    if (has_ended(shim)) _exit(0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    take_a_name();
    setsid();
    static_cast<void>(chdir("/"));
    if (syscall(SYS_close_range, 0U, ~0U, 0) != 0) {
        const long fd_max = sysconf(_SC_OPEN_MAX);
        for (int fd = 0; fd < fd_max; ++fd) close(fd);
    }
    set_capabilities(0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    signal(SIGCHLD, SIG_DFL);
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    for (;;) {
        while (waitpid(-1, nullptr, WNOHANG | __WALL) > 0) continue;
        sigwaitinfo(&child_ended, nullptr);
    }
}

}  // namespace

const char* name_of(Part part) {
    switch (part) {
        case Part::user_namespace:
            return "a user namespace";
        case Part::namespaces:
            return "mount and pid namespaces";
        case Part::first_process:
        case Part::main_process:
            return "a process in them";
        case Part::system_files:
            return "its own /proc and /sys";
        case Part::data:
            return "a view without Interlock's data";
        case Part::files:
            return "a read-only view";
        case Part::capabilities:
            return "fewer capabilities";
        case Part::landlock:
            return "Landlock";
        case Part::network:
            return "ipc and network namespaces";
        case Part::entrance:
            return "loopback with the server's port";
        case Part::filter:
            return "a seccomp filter";
        case Part::sockets:
            return "a view without sockets of others";
    }
    return "";
}

bool separate(const LaunchRequest& launch, pid_t shim_pid, int tell, Part& part) {
    part = Part::first_process;
    const Fd shim = open_process(shim_pid);
    if (getppid() != shim_pid) return errno = ESRCH, false;
    part = Part::user_namespace;
    const bool is_sealed = launch.level == AppliedSandboxLevel::sealed, is_root = geteuid() == 0;
    if (!is_root && !enter_user_namespace()) return false;
    if (is_root && is_sealed && !enter_user_namespace_with_all()) return false;
    part = Part::namespaces;
    if (unshare(CLONE_NEWNS | CLONE_NEWPID) != 0) return false;
    Fd entrance;
    if (is_sealed) {
        part = Part::network;
        if (unshare(CLONE_NEWIPC | CLONE_NEWNET) != 0) return false;
        part = Part::entrance;
        if (!open_entrance(launch.port, entrance)) return false;
    }

    part = Part::first_process;
    Separated separated{.first = fork_sibling(), .main = 0};
    if (separated.first == 0) be_first_process(shim);
    if (separated.first < 0) return false;
    part = Part::main_process;
    separated.main = fork_sibling();
    if (separated.main == 0) return true;
    if (separated.main < 0) {
        const int error = errno;
        kill(separated.first, SIGKILL);
        errno = error;
        return false;
    }
    static_cast<void>(send_with(tell, &separated, sizeof separated, entrance.get()));
    _exit(0);
}

bool drop_capabilities(AppliedSandboxLevel level) {
    if (geteuid() != 0) return set_capabilities(0);
    return set_capabilities(level >= AppliedSandboxLevel::files ? kept_at_files : ~dropped_at_guarded);
}

}  // namespace interlock::shim
