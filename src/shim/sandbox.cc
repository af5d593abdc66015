#include "shim/sandbox.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstdint>

#include "shim/fd.h"

namespace interlock::shim {
namespace {

// From linux/landlock.h, whose age differs from system to system. What the running kernel knows is asked at run time.
constexpr std::uint64_t write_file_access = 1 << 1;
constexpr std::uint64_t every_change_of_names = 0x1ff0;  // Removing and making of all kinds: bits 4 to 12.
constexpr std::uint64_t move_between_directories = 1 << 13;
constexpr std::uint64_t truncate_file = 1 << 14;
constexpr std::uint64_t scope_abstract_sockets = 1 << 0, scope_signals = 1 << 1;
constexpr unsigned ask_version = 1;
constexpr int rule_path_beneath = 1;

struct RulesetAttributes {
    std::uint64_t handled_access = 0;
    std::uint64_t handled_network = 0;  // From version 4 on.
    std::uint64_t scoped = 0;           // From version 6 on.
};

struct [[gnu::packed]] PathBeneath {
    std::uint64_t allowed_access;
    std::int32_t parent;
};

// False with errno when it cannot be allowed.
bool allow(const Fd& sandbox, const char* path, std::uint64_t access) {
    const Fd place(open(path, O_PATH | O_CLOEXEC));
    struct stat status{};
    if (!place || fstat(place.get(), &status) != 0) return false;
    // The kernel refuses rules about names in something that has none.
    if (!S_ISDIR(status.st_mode)) access &= write_file_access | truncate_file;
    const PathBeneath rule{.allowed_access = access, .parent = place.get()};
    return syscall(SYS_landlock_add_rule, sandbox.get(), rule_path_beneath, &rule, 0) == 0;
}

}  // namespace

bool enter_sandbox(const std::vector<std::string>& writable) {
    const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, ask_version);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    if (version < 1) return true;
    RulesetAttributes attributes{.handled_access = write_file_access | every_change_of_names};
    if (version >= 2) attributes.handled_access |= move_between_directories;
    if (version >= 3) attributes.handled_access |= truncate_file;
    if (version >= 6) attributes.scoped = scope_abstract_sockets | scope_signals;
    const std::size_t known = version >= 6 ? sizeof attributes : version >= 4 ? 16 : 8;
    const Fd sandbox(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, known, 0)));
    if (!sandbox) return false;
    for (std::string path : writable) {
        const bool optional = path.ends_with('?');
        if (optional) path.pop_back();
        if (!allow(sandbox, path.c_str(), attributes.handled_access) && !optional) return false;
    }
    return syscall(SYS_landlock_restrict_self, sandbox.get(), 0) == 0;
}

}  // namespace interlock::shim
