#include "shim/sandbox.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstdint>
#include <cstring>

namespace interlock::shim {
namespace {

// From linux/landlock.h, whose age differs from system to system. What the running kernel knows is asked at run time.
constexpr std::uint64_t write_file = 1 << 1;
constexpr std::uint64_t every_change_of_names = 0x1ff0;  // Removing and making of all kinds: bits 4 to 12.
constexpr std::uint64_t move_between_directories = 1 << 13;
constexpr std::uint64_t truncate_file = 1 << 14;
constexpr unsigned ask_version = 1;
constexpr int rule_path_beneath = 1;

struct RulesetAttributes {
    std::uint64_t handled_access;
};

struct [[gnu::packed]] PathBeneath {
    std::uint64_t allowed_access;
    std::int32_t parent;
};

// What programs write to without meaning to leave anything behind. Not every system has all of them.
constexpr const char* devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/tty",
                                   "/dev/ptmx", "/dev/pts",  "/dev/shm"};

// All that writes, in as far as the kernel can tell. 0 when it cannot confine at all; errno says why.
std::uint64_t writing() {
    const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, ask_version);
    if (version < 1) return 0;
    std::uint64_t access = write_file | every_change_of_names;
    if (version >= 2) access |= move_between_directories;
    if (version >= 3) access |= truncate_file;
    return access;
}

// False with errno when it cannot be allowed.
bool allow(const Fd& sandbox, const char* path, std::uint64_t access) {
    const Fd place(open(path, O_PATH | O_CLOEXEC));
    struct stat status{};
    if (!place || fstat(place.get(), &status) != 0) return false;
    // The kernel refuses rules about names in something that has none.
    if (!S_ISDIR(status.st_mode)) access &= write_file | truncate_file;
    const PathBeneath rule{.allowed_access = access, .parent = place.get()};
    return syscall(SYS_landlock_add_rule, sandbox.get(), rule_path_beneath, &rule, 0) == 0;
}

std::string cannot_confine() {
    return std::string("this kernel cannot confine the run: ") + std::strerror(errno) +
           "; leave --sandbox out to run without";
}

}  // namespace

std::variant<Fd, std::string> make_sandbox(const std::vector<std::string>& writable) {
    const RulesetAttributes attributes{.handled_access = writing()};
    if (attributes.handled_access == 0) return cannot_confine();
    Fd sandbox(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0)));
    if (!sandbox) return cannot_confine();
    for (const std::string& path : writable) {
        if (allow(sandbox, path.c_str(), attributes.handled_access)) continue;
        return "cannot allow the run to write in '" + path + "': " + std::strerror(errno);
    }
    for (const char* device : devices) allow(sandbox, device, attributes.handled_access);
    return sandbox;
}

bool enter_sandbox(const Fd& sandbox) {
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, sandbox.get(), 0) == 0;
}

}  // namespace interlock::shim
