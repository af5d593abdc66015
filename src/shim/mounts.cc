#include "shim/mounts.h"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "shim/fd.h"
#include "shim/given_place.h"
#include "shim/sandbox.h"

namespace interlock::shim {
namespace {

// From linux/mount.h, which not every libc lets in beside its own.
constexpr std::uint64_t read_only = 0x1;
constexpr unsigned open_tree_clone = 1, recursive = 0x8000, move_mount_empty_path = 0x4;

struct MountAttributes {
    std::uint64_t set = 0, clear = 0, propagation = 0, user_namespace = 0;
};

bool change(const std::string& path, const MountAttributes& attributes, unsigned flags = 0) {
    return syscall(SYS_mount_setattr, AT_FDCWD, path.c_str(), flags, &attributes, sizeof attributes) == 0;
}

// What is at `path`, with all that is mounted below it: it stays reachable when something covers the path.
Fd clone_of(const std::string& path) {
    return Fd(
        static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, path.c_str(), open_tree_clone | O_CLOEXEC | recursive)));
}

// Of what a run is to have. Its directory must be the one that it was given.
Fd clone_for(const LaunchRequest& launch, const std::string& path) {
    Fd tree = clone_of(path);
    if (tree && path == launch.dir && !is_given(launch, tree)) tree.reset();
    return tree;
}

bool attach(const Fd& tree, const std::string& path) {
    return syscall(SYS_move_mount, tree.get(), "", AT_FDCWD, path.c_str(), move_mount_empty_path) == 0;
}

struct Mount {
    std::string device, root, path, type;
};

// In mountinfo, blanks and backslashes are octal numbers.
std::string unescape_octal(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size()) {
            out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(at), text.size());
        parts.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

// In the order in which they were mounted.
std::vector<Mount> read_mounts() {
    std::vector<Mount> mounts;
    const std::string text = read_file("/proc/self/mountinfo").value_or("");
    for (const std::string_view line : split(text, '\n')) {
        const auto words = split(line, ' ');
        const auto dash = std::ranges::find(words, "-");
        if (words.size() < 6 || words.end() - dash < 2) continue;
        mounts.push_back({.device = std::string(words[2]),
                          .root = unescape_octal(words[3]),
                          .path = unescape_octal(words[4]),
                          .type = std::string(dash[1])});
    }
    return mounts;
}

// Whether `path` is `directory` or in it.
bool is_in(std::string_view path, std::string_view directory) {
    if (directory == "/") return true;
    return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

// What is behind `directory` in a path that is in it.
std::string rest_of(std::string_view path, std::string_view directory) {
    return std::string(path.substr(directory == "/" ? 0 : directory.size()));
}

std::string real_path(const std::string& path) {
    char buffer[PATH_MAX];
    return ::realpath(path.c_str(), buffer) ? buffer : "";
}

bool make_directories(const std::string& path) {
    for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
        if (mkdir(path.substr(0, at).c_str(), 0755) != 0 && errno != EEXIST && errno != EROFS) return false;
    }
    return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST || errno == EROFS;
}

bool is_directory(const std::string& path) {
    struct stat status{};
    return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// An empty directory over one, and an empty file over anything else.
bool cover(const std::string& path, const char* options) {
    if (!is_directory(path)) return mount("/dev/null", path.c_str(), nullptr, MS_BIND, nullptr) == 0;
    return mount("tmpfs", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
}

struct KeptMount {
    Fd tree;
    std::string path;
    bool writable = true;
};

bool put_back(const KeptMount& kept) {
    struct stat status{};
    if (fstat(kept.tree.get(), &status) != 0) return false;
    if (S_ISDIR(status.st_mode)) {
        if (!make_directories(kept.path)) return false;
    } else {
        if (!make_directories(kept.path.substr(0, kept.path.rfind('/')))) return false;
        const Fd file(open(kept.path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!file && errno != EROFS && errno != EACCES && errno != EISDIR && errno != ENXIO) return false;
    }
    return attach(kept.tree, kept.path) && (kept.writable || change(kept.path, {.set = read_only}, recursive));
}

// ---- /proc, /sys and devices --------------------------------------------------------------------------------------

// The processes that /proc shows are those of the run. Of the kernel's settings root could make it run a program as
// root outside (core_pattern), so they cannot be written.
bool make_system_files(const std::vector<Mount>& mounts) {
    constexpr unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (mount("proc", "/proc", "proc", flags, nullptr) != 0) return false;
    for (const Mount& each : mounts) {
        if (each.type != "proc" || each.path == "/proc" || each.root != "/" || !is_directory(each.path)) continue;
        if (mount("proc", each.path.c_str(), "proc", flags, nullptr) != 0) return false;
    }
    if (geteuid() == 0) {
        const Fd settings = clone_of("/proc/sys");
        if (!settings || !attach(settings, "/proc/sys") || !change("/proc/sys", {.set = read_only})) return false;
        if (access("/proc/sysrq-trigger", F_OK) == 0 && !cover("/proc/sysrq-trigger", nullptr)) return false;
    }
    // Control groups among them: a run could end or freeze the server by its group.
    const bool has_sys = std::ranges::any_of(mounts, [](const Mount& each) { return each.path == "/sys"; });
    return !has_sys || change("/sys", {.set = read_only}, recursive);
}

// A disk that the user may read has all files.
bool cover_disks() {
    DIR* directory = opendir("/sys/class/block");
    if (!directory) return true;
    bool covered = true;
    while (const dirent* entry = readdir(directory)) {
        if (entry->d_name[0] == '.') continue;
        std::string path = std::string("/dev/") + entry->d_name;
        std::replace(path.begin() + 5, path.end(), '!', '/');
        if (access(path.c_str(), R_OK) == 0 || access(path.c_str(), W_OK) == 0) covered &= cover(path, nullptr);
    }
    closedir(directory);
    return covered;
}

// ---- the server's data --------------------------------------------------------------------------------------------

// Everywhere that `path` can be reached, itself first: a file system may be mounted at several places.
std::vector<std::string> all_paths_of(const std::string& path, const std::vector<Mount>& mounts) {
    std::vector<std::string> paths{path};
    const Mount* own = nullptr;
    for (const Mount& each : mounts) {
        if (is_in(path, each.path) && (!own || each.path.size() >= own->path.size())) own = &each;
    }
    struct stat wanted{};
    if (!own || stat(path.c_str(), &wanted) != 0) return paths;
    const std::string inside = (own->root == "/" ? "" : own->root) + rest_of(path, own->path);
    for (const Mount& each : mounts) {
        if (&each == own || each.device != own->device) continue;
        if (is_in(each.root, inside) && !is_in(each.path, path)) paths.push_back(each.path);
        if (!is_in(inside, each.root)) continue;
        const std::string other = (each.path == "/" ? "" : each.path) + rest_of(inside, each.root);
        struct stat status{};
        const bool same = stat(other.c_str(), &status) == 0 && status.st_ino == wanted.st_ino;
        if (same && other != path) paths.push_back(other);
    }
    return paths;
}

// The run's own directories in the server's data: its TMPDIR, what its program was set up with, where it works.
std::vector<std::string> own_directories(const LaunchRequest& launch) {
    std::vector<std::string> own;
    if (DIR* directory = opendir(launch.home.c_str())) {
        while (const dirent* entry = readdir(directory)) {
            const std::string path = launch.home + "/" + entry->d_name;
            struct stat status{};  // Not every file system says the type; a link is not followed.
            const bool is_own = lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
            if (is_own && entry->d_name[0] != '.') own.push_back(path);
        }
        closedir(directory);
    }
    for (const std::string& hidden : launch.hidden) {
        if (is_in(launch.dir, hidden + "/worktrees") && launch.dir != hidden + "/worktrees") own.push_back(launch.dir);
    }
    return own;
}

bool hide_data(const LaunchRequest& launch, const std::vector<Mount>& mounts) {
    std::vector<KeptMount> kept;
    for (const std::string& path : own_directories(launch)) {
        kept.push_back({.tree = clone_for(launch, path), .path = path});
        if (!kept.back().tree) return false;
    }
    std::vector<std::string> covered;
    for (const std::string& hidden : launch.hidden) {
        const std::string path = real_path(hidden);
        if (path.empty()) continue;  // A socket that is not there.
        for (const std::string& each : all_paths_of(path, mounts)) {
            if (!cover(each, "size=1m,mode=755")) return false;
            if (is_directory(each)) covered.push_back(each);
        }
    }
    for (const KeptMount& each : kept) {
        if (!put_back(each)) return false;
    }
    return std::ranges::all_of(covered, [](const std::string& path) { return change(path, {.set = read_only}); });
}

// ---- files --------------------------------------------------------------------------------------------------------

// What programs expect of a home, and has no login in it.
constexpr const char* home_entries[] = {".gitconfig", ".config/git", ".profile",   ".bashrc",    ".bash_profile",
                                        ".zshrc",     ".inputrc",    ".vimrc",     ".local/bin", ".tool-versions",
                                        ".nvm",       ".pyenv",      ".cargo/bin", ".rustup"};
// How names of hosts are found.
constexpr const char* run_entries[] = {"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"};
constexpr const char* devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};

bool make_devices() {
    std::vector<KeptMount> kept;
    for (const char* device : devices) {
        Fd tree = clone_of(device);
        if (tree) kept.push_back({.tree = std::move(tree), .path = device});
    }
    if (!cover("/dev", "size=1m,mode=755")) return false;
    for (const KeptMount& each : kept) {
        if (!put_back(each)) return false;
    }
    const bool linked = symlink("/proc/self/fd", "/dev/fd") == 0 && symlink("/proc/self/fd/0", "/dev/stdin") == 0 &&
                        symlink("/proc/self/fd/1", "/dev/stdout") == 0 &&
                        symlink("/proc/self/fd/2", "/dev/stderr") == 0 && symlink("pts/ptmx", "/dev/ptmx") == 0;
    return linked && mkdir("/dev/pts", 0755) == 0 && mkdir("/dev/shm", 01777) == 0 &&
           mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") == 0 &&
           mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0 &&
           change("/dev", {.set = read_only});
}

bool keep(std::vector<KeptMount>& kept, const std::string& path, bool writable) {
    Fd tree = clone_of(path);
    if (!tree) return false;
    kept.push_back({.tree = std::move(tree), .path = path, .writable = writable});
    return true;
}

// What git runs programs by. A run in a worktree commits without writing it.
constexpr const char* git_settings[] = {"/config", "/hooks", "/info", "/modules"};

bool is_git_directory(const std::string& path) {
    return access((path + "/objects").c_str(), F_OK) == 0 && access((path + "/HEAD").c_str(), F_OK) == 0;
}

bool bound_files(const LaunchRequest& launch, const std::string& home) {
    // 1. What stays, held before it is covered. The server's data is hidden in it already.
    std::vector<KeptMount> kept;
    for (const std::string& path : writable_places(launch)) {
        if (path == "/") return errno = EINVAL, false;
        Fd tree = clone_for(launch, path);
        if (!tree) return false;
        kept.push_back({.tree = std::move(tree), .path = path});
        for (const char* settings : git_settings) {
            const bool is_there = is_git_directory(path) && access((path + settings).c_str(), F_OK) == 0;
            if (is_there && !keep(kept, path + settings, false)) return false;
        }
    }
    for (const std::string& path : launch.readable) {
        if (!keep(kept, path, false)) return false;
    }
    for (const char* entry : home_entries) {
        if (!home.empty()) keep(kept, home + "/" + entry, false);
    }
    for (const char* entry : run_entries) keep(kept, entry, false);
    // A place in another comes after it.
    std::ranges::sort(kept, {}, [](const KeptMount& each) { return each.path.size(); });

    // 2. Nothing can be written, and what is private is empty.
    if (!change("/", {.set = read_only}, recursive) || !change("/proc", {.clear = read_only})) return false;
    for (const char* path : {"/home", "/root", "/run"}) {
        if (is_directory(path) && !cover(path, "mode=755")) return false;
    }
    for (const char* path : {"/tmp", "/var/tmp"}) {
        if (is_directory(path) && !cover(path, "mode=1777")) return false;
    }
    // After those, because a home can lie in each of them.
    if (!home.empty() && (!make_directories(home) || !cover(home, "mode=700"))) return false;
    if (!make_devices()) return false;

    // 3. What stays.
    return std::ranges::all_of(kept, [](const KeptMount& each) { return put_back(each); });
}

// A network namespace does not bound sockets that have a path, and neither does a read-only mount.
bool cover_sockets(const std::vector<std::string>& sockets, const std::vector<Mount>& mounts) {
    for (const std::string& socket : sockets) {
        const std::string path = real_path(socket);
        if (path.empty()) continue;  // It is not there any more, or in a part of the file system that is covered.
        for (const std::string& each : all_paths_of(path, mounts)) {
            struct stat status{};
            if (stat(each.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
            if (!cover(each, nullptr)) return false;
        }
    }
    return true;
}

}  // namespace

std::vector<std::string> sockets_of_others() {
    std::vector<std::string> sockets;
    constexpr int words_before_path = 7;
    const std::string text = read_file("/proc/net/unix").value_or("");
    for (std::string_view line : split(text, '\n')) {
        std::size_t at = 0;
        for (int word = 0; word < words_before_path && at < line.size(); ++word) {
            at = line.find_first_not_of(' ', std::min(line.find(' ', at), line.size()));
        }
        if (at >= line.size() || line[at] != '/') continue;
        sockets.emplace_back(line.substr(at));
    }
    std::ranges::sort(sockets);
    const auto [first, last] = std::ranges::unique(sockets);
    sockets.erase(first, last);
    return sockets;
}

std::vector<std::string> writable_places(const LaunchRequest& launch) {
    std::vector<std::string> places = launch.writable;
    if (!launch.dir.empty()) places.push_back(launch.dir);
    for (std::string& path : own_directories(launch)) places.push_back(std::move(path));
    return places;
}

bool make_view(const LaunchRequest& launch, const std::string& home, const std::vector<std::string>& sockets,
               Part& part) {
    // What is mounted outside later is seen here too, and nothing of here is seen outside.
    part = Part::system_files;
    if (mount("", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return false;
    const std::vector<Mount> mounts = read_mounts();
    if (!make_system_files(mounts) || !cover_disks()) return false;
    part = Part::data;
    if (!hide_data(launch, mounts)) return false;
    if (launch.level >= AppliedSandboxLevel::files) {
        part = Part::files;
        if (!bound_files(launch, home)) return false;
        part = Part::sockets;
        if (launch.level >= AppliedSandboxLevel::sealed && !cover_sockets(sockets, mounts)) return false;
        part = Part::landlock;
        std::vector<std::string> places = writable_places(launch);
        for (const char* path : {"/tmp?", "/var/tmp?", "/dev", "/proc"}) places.emplace_back(path);
        if (!home.empty()) places.push_back(home);
        if (!enter_sandbox(places)) return false;
    }
    return true;
}

}  // namespace interlock::shim
