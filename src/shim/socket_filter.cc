#include "shim/socket_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace interlock::shim {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_AARCH64;
#else
#error "the numbers of system calls are known for x86-64 and AArch64"
#endif
// From here on the numbers are of x32 on x86-64. Elsewhere there are none so high.
constexpr std::uint32_t x32_numbers_from = 0x40000000;

// From Linux 4.9 to 5.19, whose headers are not everywhere. The numbers are the same on all architectures.
constexpr std::uint32_t sys_io_uring_setup = 425, sys_clone3 = 435;
constexpr std::uint32_t new_namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                                         CLONE_NEWUTS | CLONE_NEWCGROUP | 0x80 /* CLONE_NEWTIME */;

constexpr std::uint32_t not_permitted[] = {SYS_setns,
                                           SYS_add_key,
                                           SYS_request_key,
                                           SYS_keyctl,
                                           SYS_bpf,
                                           SYS_perf_event_open,
                                           SYS_userfaultfd,
                                           SYS_open_by_handle_at,
                                           SYS_kexec_load,
                                           SYS_init_module,
                                           SYS_finit_module,
                                           SYS_delete_module,
                                           SYS_mount,
                                           SYS_umount2,
                                           SYS_pivot_root,
                                           SYS_swapon,
                                           SYS_swapoff,
                                           SYS_reboot,
                                           SYS_quotactl,
                                           SYS_acct,
                                           428 /* open_tree */,
                                           429 /* move_mount */,
                                           430 /* fsopen */,
                                           433 /* fspick */,
                                           442 /* mount_setattr */};
constexpr std::uint32_t socket_kinds[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

class Program {
 public:
    void load(std::size_t offset) {
        code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
    }
    void answer(std::uint32_t what) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, what)); }
    void refuse(int error) { answer(SECCOMP_RET_ERRNO | (static_cast<std::uint32_t>(error) & SECCOMP_RET_DATA)); }
    // Goes on behind the next `count` instructions unless what was loaded compares so.
    void unless_equal_skip(std::uint32_t value, std::uint8_t count) { jump(BPF_JEQ, value, 0, count); }
    void if_equal_skip(std::uint32_t value, std::uint8_t count) { jump(BPF_JEQ, value, count, 0); }
    void unless_at_least_skip(std::uint32_t value, std::uint8_t count) { jump(BPF_JGE, value, 0, count); }
    void unless_any_bit_skip(std::uint32_t bits, std::uint8_t count) { jump(BPF_JSET, bits, 0, count); }

    bool enter() {
        const sock_fprog program{.len = static_cast<unsigned short>(code_.size()), .filter = code_.data()};
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
    }

 private:
    void jump(int how, std::uint32_t value, std::uint8_t when, std::uint8_t otherwise) {
        code_.push_back(BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | how | BPF_K), value, when, otherwise));
    }
    std::vector<sock_filter> code_;
};

// The lower half of an argument: the kernel, too, looks at no more of those that are asked about here.
constexpr std::size_t argument(int index) {
    constexpr bool big_end_first = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    return offsetof(seccomp_data, args) + static_cast<std::size_t>(index) * 8 + (big_end_first ? 4 : 0);
}

// Each block but the first begins and ends with the number of the system call loaded.
void add_call_with_flags(Program& program, std::uint32_t call, std::uint32_t flags) {
    program.unless_equal_skip(call, 4);
    program.load(argument(0));
    program.unless_any_bit_skip(flags, 1);
    program.refuse(EPERM);
    program.answer(SECCOMP_RET_ALLOW);
}

}  // namespace

bool enter_socket_filter() {
    Program program;
    program.load(offsetof(seccomp_data, arch));
    program.if_equal_skip(own_architecture, 1);
    program.refuse(ENOSYS);
    program.load(offsetof(seccomp_data, nr));
    program.unless_at_least_skip(x32_numbers_from, 1);
    program.refuse(ENOSYS);

    for (const std::uint32_t call : {std::uint32_t{SYS_socket}, std::uint32_t{SYS_socketpair}}) {
        program.unless_equal_skip(call, std::size(socket_kinds) * 2 + 2);
        program.load(argument(0));
        for (const std::uint32_t kind : socket_kinds) {
            program.unless_equal_skip(kind, 1);
            program.answer(SECCOMP_RET_ALLOW);
        }
        program.refuse(EAFNOSUPPORT);
    }
    add_call_with_flags(program, SYS_clone, new_namespaces & ~std::uint32_t{0xFF});  // There the byte is a signal.
    add_call_with_flags(program, SYS_unshare, new_namespaces);
    // Its flags are in memory, which a filter cannot see. Every libc falls back to clone().
    for (const std::uint32_t call : {sys_clone3, sys_io_uring_setup}) {
        program.unless_equal_skip(call, 1);
        program.refuse(ENOSYS);
    }
    program.unless_equal_skip(SYS_ioctl, 5);
    program.load(argument(1));
    for (const std::uint32_t what : {std::uint32_t{TIOCSTI}, std::uint32_t{0x541C} /* TIOCLINUX */}) {
        program.unless_equal_skip(what, 1);
        program.refuse(EPERM);
    }
    program.load(offsetof(seccomp_data, nr));
    for (const std::uint32_t call : not_permitted) {
        program.unless_equal_skip(call, 1);
        program.refuse(EPERM);
    }
    program.answer(SECCOMP_RET_ALLOW);
    return program.enter();
}

}  // namespace interlock::shim
