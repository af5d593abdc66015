#include "supervisor/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/id.h"
#include "core/limits.h"

namespace interlock::supervisor {
namespace {

using Kind = PlaceError::Kind;
using Chain = std::vector<std::string>;

constexpr int attempts_max = 8;

class OpenDirectory {
 public:
    OpenDirectory() = default;
    explicit OpenDirectory(int fd) : fd_(fd) {}
    OpenDirectory(OpenDirectory&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    OpenDirectory& operator=(OpenDirectory&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~OpenDirectory() {
        // Closing the last directory must not hide why the next could not be opened.
        const int error = errno;
        if (fd_ >= 0) close(fd_);
        errno = error;
    }
    explicit operator bool() const { return fd_ >= 0; }
    int fd() const { return fd_; }

 private:
    int fd_ = -1;
};

struct Seen {
    std::string path;
    Chain chain;
};

// One line of /proc/self/mountinfo.
struct Mount {
    std::string device;  // The file system.
    std::string root;    // The directory of that file system that is mounted.
    std::string point;   // Where.
};

// Empty when the directory was moved while it was looked at.
Result<std::optional<Seen>, PlaceError> look(const std::string& name);
// The identities along a canonical path, the last directory's first. Empty when it leads to no directory.
Result<std::optional<Chain>, PlaceError> chain_along(std::string_view path, const std::string& name);
Result<std::vector<std::string>, PlaceError> other_ways_to(const std::string& path, const std::string& name);

PlaceError failure(Kind kind, const std::string& name, std::string_view why) {
    return {.kind = kind, .detail = fmt::format("workspace \"{}\": {}", name, why)};
}

PlaceError system_failure(int error, const std::string& name) {
    switch (error) {
        case ENOENT:
            return failure(Kind::not_found, name, "there is no such directory; create it or correct the path");
        case ELOOP:
            return failure(Kind::not_found, name,
                           "its symbolic links lead in a circle; correct them or name the directory");
        case ENOTDIR:
            return failure(Kind::not_a_directory, name,
                           "it is not a directory, or a part of the path is not; name a directory");
        case EACCES:
        case EPERM:
            return failure(
                Kind::not_permitted, name,
                "this process may not look into it; give its user the search permission (x) on the directory "
                "and on those above it");
        case ENAMETOOLONG:
            return failure(Kind::too_deep, name,
                           "the path is longer than the system takes; use a place nearer to the root");
        default:
            return failure(Kind::unavailable, name,
                           fmt::format("the system could not look it up ({}); try again", std::strerror(error)));
    }
}

PlaceError too_deep(const std::string& name) {
    return failure(Kind::too_deep, name,
                   fmt::format("more than {} directories stand between it and the root; use a place nearer to the root",
                               core::limits::place_depth_max));
}

// O_PATH asks for no permission on the directory itself, and nothing can be read or changed through what it opens.
OpenDirectory open_directory(int base, const char* path, int more_flags = 0) {
    return OpenDirectory(openat(base, path, O_PATH | O_DIRECTORY | O_CLOEXEC | more_flags));
}

std::optional<std::string> identity_of(const OpenDirectory& directory) {
    struct stat status{};
    if (fstat(directory.fd(), &status) != 0) return std::nullopt;
    return fmt::format("{}:{}", status.st_dev, status.st_ino);
}

// The kernel's own answer to where the directory is at this moment.
std::optional<std::string> path_of(const OpenDirectory& directory) {
    std::array<char, core::limits::text_bytes_max + 1> buffer;
    const auto length = readlink(fmt::format("/proc/self/fd/{}", directory.fd()).c_str(), buffer.data(), buffer.size());
    if (length < 0) return std::nullopt;
    if (static_cast<std::size_t>(length) == buffer.size()) return errno = ENAMETOOLONG, std::nullopt;
    return std::string(buffer.data(), static_cast<std::size_t>(length));
}

// What is left of `path` below `top`: empty text for `top` itself, else it begins with a slash.
std::optional<std::string_view> below(std::string_view path, std::string_view top) {
    if (top == "/") return path == "/" ? path.substr(1) : path;
    if (!path.starts_with(top)) return std::nullopt;
    path.remove_prefix(top.size());
    if (!path.empty() && path.front() != '/') return std::nullopt;
    return path;
}

std::string joined(std::string_view top, std::string_view rest) {
    if (rest.empty()) return std::string(top);
    return top == "/" ? std::string(rest) : fmt::format("{}{}", top, rest);
}

}  // namespace

Result<core::Place, PlaceError> resolve_workspace(const std::string& path, core::ClaimMode mode,
                                                  const std::string& host) {
    if (path.empty()) return fail(failure(Kind::not_found, path, "the path is empty; name a directory"));
    // The system would stop reading at the NUL and resolve another path than the one that was asked for.
    if (path.find('\0') != std::string::npos) {
        return fail(
            failure(Kind::not_found, path.substr(0, path.find('\0')), "the path goes on behind a NUL; remove it"));
    }

    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        auto seen = look(path);
        if (!seen) return fail(std::move(seen.error()));
        if (!*seen) continue;
        return core::Place{.kind = core::ClaimKind::workspace,
                           .host = host,
                           .path = std::move((*seen)->path),
                           .chain = std::move((*seen)->chain),
                           .mode = mode};
    }
    return fail(
        failure(Kind::not_found, path,
                "no path leads to it: it was deleted, covered by a mount, or is being moved; name one that stays"));
}

core::Place named_resource(const std::string& name, core::ClaimMode mode) {
    return {.kind = core::ClaimKind::resource, .host = {}, .path = name, .chain = {}, .mode = mode};
}

std::string this_host() {
    std::string machine;
    std::ifstream("/etc/machine-id") >> machine;
    // An image that has not been booted yet has no id, or this word in its place: many machines share it.
    if (!machine.empty() && machine != "uninitialized")
        return to_text("host", id_from_hash("interlock host " + machine));

    std::array<char, 256> name{};
    if (gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0') return name.data();
    return "localhost";
}

namespace {

Result<std::optional<Seen>, PlaceError> look(const std::string& name) {
    // 1. Open. From here on it is about this directory, wherever it may be moved.
    const OpenDirectory directory = open_directory(AT_FDCWD, name.c_str());
    if (!directory) return fail(system_failure(errno, name));
    const auto path = path_of(directory);
    if (!path) return fail(system_failure(errno, name));
    if (!path->starts_with('/')) {
        return fail(failure(Kind::unavailable, name, "it lies outside of the root directory of this process"));
    }

    // 2. Walk its path, and see that the walk ends at the directory that was opened. If it does not, the directory was
    // moved, deleted (its path then ends in " (deleted)", which is a name like any other), or covered by a mount.
    auto chain = chain_along(*path, name);
    if (!chain) return fail(std::move(chain.error()));
    if (!*chain || (*chain)->front() != identity_of(directory)) return std::nullopt;

    // 3. Walk every other way to it. One that leads elsewhere is covered by another mount, and one that may not be
    // walked is no way for a run either.
    const auto ways = other_ways_to(*path, name);
    if (!ways) return fail(ways.error());
    for (const std::string& way : *ways) {
        const auto other = chain_along(way, name);
        if (!other && other.error().kind == Kind::not_permitted) continue;
        if (!other) return fail(other.error());
        if (!*other || (*other)->front() != (*chain)->front()) continue;
        for (const std::string& id : **other) {
            if (std::ranges::find(**chain, id) == (*chain)->end()) (*chain)->push_back(id);
        }
    }
    if ((*chain)->size() > core::limits::place_depth_max) return fail(too_deep(name));
    return Seen{.path = *path, .chain = std::move(**chain)};
}

// From the top down, each directory opened inside the one before. Going up by ".." instead would give a chain that need
// not belong to the path, if the directory is moved away and back while one walks.
Result<std::optional<Chain>, PlaceError> chain_along(std::string_view path, const std::string& name) {
    Chain chain;
    OpenDirectory here = open_directory(AT_FDCWD, "/");
    for (;;) {
        if (!here && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) return std::nullopt;
        auto id = here ? identity_of(here) : std::nullopt;
        if (!id) return fail(system_failure(errno, name));
        chain.push_back(std::move(*id));
        path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
        if (path.empty()) break;
        const std::string next(path.substr(0, path.find('/')));
        path.remove_prefix(next.size());
        here = open_directory(here.fd(), next.c_str(), O_NOFOLLOW);
    }
    std::ranges::reverse(chain);
    return chain;
}

// Spaces and line ends in names are written as a backslash and three octal digits.
std::string unescaped(std::string_view text) {
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

// A directory lies in one file system, at one path there. Each mount of that file system that includes this path is one
// way to the directory. Which of the mounts above `path` it lies in is not asked: a wrong guess leads to a way that
// leads elsewhere, and whoever walks it finds out.
Result<std::vector<std::string>, PlaceError> other_ways_to(const std::string& path, const std::string& name) {
    std::ifstream lines("/proc/self/mountinfo");
    std::vector<Mount> mounts;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string skipped;
        Mount mount;
        if (words >> skipped >> skipped >> mount.device >> mount.root >> mount.point) {
            mounts.push_back({.device = mount.device, .root = unescaped(mount.root), .point = unescaped(mount.point)});
        }
    }
    // The root is always mounted, so no mounts at all means that they could not be read.
    if (mounts.empty())
        return fail(failure(Kind::unavailable, name, "/proc/self/mountinfo cannot be read; mount /proc"));

    std::vector<std::string> ways;
    for (const Mount& above : mounts) {
        const auto rest = below(path, above.point);
        if (!rest) continue;
        const std::string inside = joined(above.root, *rest);
        for (const Mount& mount : mounts) {
            const auto way_down = mount.device == above.device ? below(inside, mount.root) : std::nullopt;
            if (!way_down) continue;
            std::string way = joined(mount.point, *way_down);
            if (way != path && std::ranges::find(ways, way) == ways.end()) ways.push_back(std::move(way));
        }
    }
    return ways;
}

}  // namespace
}  // namespace interlock::supervisor
