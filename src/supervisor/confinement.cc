#include "supervisor/confinement.h"

#include <array>
#include <cstdint>
#include <cstring>

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "supervisor/subprocess.h"

namespace interlock::supervisor {
namespace {

// From linux/landlock.h, whose age differs from system to system.
constexpr std::uint64_t execute = 1 << 0;
constexpr std::uint64_t write_file = 1 << 1;
constexpr std::uint64_t file_reading = 1 << 2;
constexpr std::uint64_t directory_reading = 1 << 3;
constexpr std::uint64_t every_reading = file_reading | directory_reading;
constexpr std::uint64_t every_change_of_names = 0x1ff0;  // Removing and making of all kinds: bits 4 to 12.
constexpr std::uint64_t move_between_directories = 1 << 13;
constexpr std::uint64_t truncate_file = 1 << 14;
constexpr unsigned ask_version = 1;
constexpr int rule_path_beneath = 1;

struct [[gnu::packed]] PathBeneath {
    std::uint64_t allowed_access;
    std::int32_t parent;
};

// All that writes, in as far as this kernel can tell. 0 when it has no Landlock.
std::uint64_t writing() {
    const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, ask_version);
    if (version < 1) return 0;
    std::uint64_t access = write_file | every_change_of_names;
    if (version >= 2) access |= move_between_directories;
    if (version >= 3) access |= truncate_file;
    return access;
}

enum class Allowed { anything, no_directory };

void allow(const OpenFile& ruleset, const std::string& path, std::uint64_t access, Allowed what = Allowed::anything) {
    const OpenFile place(open(path.c_str(), O_PATH | O_CLOEXEC));
    struct stat status{};
    if (!place || fstat(place.fd(), &status) != 0) return;
    if (what == Allowed::no_directory && S_ISDIR(status.st_mode)) return;
    // The kernel refuses rules about names in a file.
    if (!S_ISDIR(status.st_mode)) access &= execute | file_reading | write_file | truncate_file;
    const PathBeneath rule{.allowed_access = access, .parent = place.fd()};
    syscall(SYS_landlock_add_rule, ruleset.fd(), rule_path_beneath, &rule, 0);
}

// The dynamic loader that the program names; empty when it has none.
std::string loader_of(const std::string& program) {
    const OpenFile file(open(program.c_str(), O_RDONLY | O_CLOEXEC));
    Elf64_Ehdr header{};
    if (!file || pread(file.fd(), &header, sizeof header, 0) != sizeof header) return "";
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return "";
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr part{};
        const auto at = static_cast<off_t>(header.e_phoff + std::uint64_t{i} * header.e_phentsize);
        if (pread(file.fd(), &part, sizeof part, at) != sizeof part) return "";
        if (part.p_type != PT_INTERP || part.p_filesz == 0 || part.p_filesz > 4096) continue;
        std::string path(part.p_filesz, '\0');
        const auto count = pread(file.fd(), path.data(), path.size(), static_cast<off_t>(part.p_offset));
        return count == static_cast<ssize_t>(path.size()) ? std::string(path.c_str()) : "";
    }
    return "";
}

std::vector<std::string> programs_of_git() {
    const std::string git = find_program("git");
    return git.empty() ? std::vector<std::string>() : std::vector{git, loader_of(git)};
}

// Libraries, the dynamic loader's cache, locales and the names of users.
constexpr std::array system_directories = {"/usr", "/lib", "/lib64", "/etc", "/nix/store", "/dev/null", "/dev/urandom"};

struct GitBounds {
    std::vector<std::string> programs = {};  // Empty: any can be executed.
    std::vector<std::string> writable = {};
    GitReads readable = {};
};

OpenFile make_ruleset(const GitBounds& paths) {
    if (writing() == 0) return {};
    const bool bounds_reading = !paths.readable.directories.empty();
    const std::uint64_t access =
        writing() | (paths.programs.empty() ? 0 : execute) | (bounds_reading ? every_reading : std::uint64_t{0});
    OpenFile ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &access, sizeof access, 0)));
    if (!ruleset) return ruleset;
    const std::uint64_t read = bounds_reading ? every_reading : 0;
    for (const std::string& program : paths.programs) allow(ruleset, program, execute | read);
    for (const std::string& path : paths.writable) allow(ruleset, path, writing() | read);
    for (const std::string& path : paths.readable.directories) allow(ruleset, path, read);
    for (const std::string& path : paths.readable.files) allow(ruleset, path, read, Allowed::no_directory);
    for (const char* path : system_directories) {
        if (bounds_reading) allow(ruleset, path, read);
    }
    allow(ruleset, "/dev/null", write_file);
    return ruleset;
}

bool starts_under(const GitBounds& paths) {
    const OpenFile ruleset = make_ruleset(paths);
    const auto tried = run_program({"git", "--version"}, {.confinement = ruleset.fd()});
    return tried && tried->exit_code == 0;
}

// Empty where git does not start under that ruleset, as when it is a script of the distribution: then only writing is
// confined.
std::vector<std::string> programs_that_suffice() {
    std::vector<std::string> programs = programs_of_git();
    return starts_under({.programs = programs}) ? programs : std::vector<std::string>();
}

}  // namespace

OpenFile confine_git(const std::vector<std::string>& writable, const GitReads& readable) {
    static const std::vector<std::string> programs = programs_that_suffice();
    // Where git is installed elsewhere, its libraries are not known.
    static const bool can_bound_reading = starts_under({.programs = programs, .readable = {.directories = {"/usr"}}});
    return make_ruleset(
        {.programs = programs, .writable = writable, .readable = can_bound_reading ? readable : GitReads()});
}

}  // namespace interlock::supervisor
