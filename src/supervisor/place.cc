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
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/id.h"
#include "core/limits.h"
#include "supervisor/mount_table.h"

namespace interlock::supervisor {
namespace {

using PlaceErrorKind = PlaceError::Kind;
using Chain = std::vector<std::string>;

constexpr int attempts_max = 8;

using OpenDirectory = shim::Fd;

struct Seen {
    std::string path;
    Chain chain;
    bool through_overlay = false;
};

// Empty when the directory was moved while it was looked at. `name` is for people.
Result<std::optional<Seen>, PlaceError> look(const OpenDirectory& directory, const std::string& name);
// The identities along a canonical path, the last directory's first. Empty when it leads to no directory. Of what is
// behind `certain` in the path, as much as is there is enough.
Result<std::optional<Chain>, PlaceError> chain_along(std::string_view path, const std::string& name,
                                                     std::size_t certain = std::string_view::npos);

PlaceError failure(PlaceErrorKind kind, const std::string& name, std::string_view why) {
    return {.kind = kind, .detail = fmt::format("workspace \"{}\": {}", name, why)};
}

PlaceError system_failure(int error, const std::string& name) {
    switch (error) {
        case ENOENT:
            return failure(PlaceErrorKind::not_found, name,
                           "there is no such directory; create it or correct the path");
        case ELOOP:
            return failure(PlaceErrorKind::not_found, name,
                           "its symbolic links lead in a circle; correct them or name the directory");
        case ENOTDIR:
            return failure(PlaceErrorKind::not_a_directory, name,
                           "it is not a directory, or a part of the path is not; name a directory");
        case EACCES:
        case EPERM:
            return failure(
                PlaceErrorKind::not_permitted, name,
                "this process may not look into it; give its user the search permission (x) on the directory "
                "and on those above it");
        case ENAMETOOLONG:
            return failure(PlaceErrorKind::too_deep, name,
                           "the path is longer than the system takes; use a place nearer to the root");
        default:
            return failure(PlaceErrorKind::unavailable, name,
                           fmt::format("the system could not look it up ({}); try again", std::strerror(error)));
    }
}

PlaceError too_deep(const std::string& name) {
    return failure(PlaceErrorKind::too_deep, name,
                   fmt::format("more than {} directories stand between it and the root; use a place nearer to the root",
                               core::limits::place_depth_max));
}

// O_PATH asks for no permission on the directory itself, and nothing can be read or changed through what it opens.
OpenDirectory open_directory(int base, const char* path, int more_flags = 0) {
    return OpenDirectory(openat(base, path, O_PATH | O_DIRECTORY | O_CLOEXEC | more_flags));
}

core::Place place_of(Seen seen, core::ClaimMode mode, const std::string& host) {
    return {.kind = core::ClaimKind::workspace,
            .host = host,
            .path = std::move(seen.path),
            .chain = std::move(seen.chain),
            .mode = mode};
}

PlaceError no_path_to(const std::string& name) {
    return failure(PlaceErrorKind::not_found, name,
                   "no path leads to it: it was deleted, covered by a mount, or is being moved; name one that stays");
}

}  // namespace

Result<core::Place, PlaceError> resolve_workspace(const std::string& path, core::ClaimMode mode,
                                                  const std::string& host) {
    auto open = open_workspace(path, mode, host);
    if (!open) return fail(std::move(open.error()));
    return std::move(open->place);
}

Result<OpenPlace, PlaceError> open_workspace(const std::string& path, core::ClaimMode mode, const std::string& host) {
    if (path.empty()) return fail(failure(PlaceErrorKind::not_found, path, "the path is empty; name a directory"));
    // The system would stop reading at the NUL and resolve another path than the one that was asked for.
    if (path.find('\0') != std::string::npos) {
        return fail(failure(PlaceErrorKind::not_found, path.substr(0, path.find('\0')),
                            "the path goes on behind a NUL; remove it"));
    }

    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        // From here on it is about this directory, wherever it may be moved.
        OpenDirectory directory = open_directory(AT_FDCWD, path.c_str());
        if (!directory) return fail(system_failure(errno, path));
        auto seen = look(directory, path);
        if (!seen) return fail(std::move(seen.error()));
        if (!*seen) continue;
        const bool through_overlay = (*seen)->through_overlay;
        return OpenPlace{place_of(std::move(**seen), mode, host), std::move(directory), through_overlay};
    }
    return fail(no_path_to(path));
}

Result<OpenPlace, PlaceError> look_again(const OpenPlace& open) {
    const core::Place& known = open.place;
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        auto seen = look(open.directory, known.path);
        if (!seen) return fail(std::move(seen.error()));
        if (!*seen) continue;
        const bool through_overlay = (*seen)->through_overlay;
        return OpenPlace{place_of(std::move(**seen), known.mode, known.host), open.directory.duplicate(),
                         through_overlay};
    }
    return fail(no_path_to(known.path));
}

std::optional<std::string> identity_of(const shim::Fd& directory) {
    struct stat status{};
    if (fstat(directory.get(), &status) != 0) return std::nullopt;
    return fmt::format("{}:{}", status.st_dev, status.st_ino);
}

std::optional<std::string> path_of(const shim::Fd& directory) {
    std::array<char, core::limits::text_bytes_max + 1> buffer;
    const auto length =
        readlink(fmt::format("/proc/self/fd/{}", directory.get()).c_str(), buffer.data(), buffer.size());
    if (length < 0) return std::nullopt;
    if (static_cast<std::size_t>(length) == buffer.size()) return errno = ENAMETOOLONG, std::nullopt;
    return std::string(buffer.data(), static_cast<std::size_t>(length));
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

Result<std::optional<Seen>, PlaceError> look(const OpenDirectory& directory, const std::string& name) {
    // 1. The kernel's word.
    const auto path = path_of(directory);
    if (!path) return fail(system_failure(errno, name));
    if (!path->starts_with('/')) {
        return fail(
            failure(PlaceErrorKind::unavailable, name, "it lies outside of the root directory of this process"));
    }

    // 2. Walk its path, and see that the walk ends at the directory that was opened. If it does not, the directory was
    // moved, deleted (its path then ends in " (deleted)", which is a name like any other), or covered by a mount.
    auto chain = chain_along(*path, name);
    if (!chain) return fail(std::move(chain.error()));
    if (!*chain || (*chain)->front() != identity_of(directory)) return std::nullopt;

    // 3. Walk every other way to it. One that leads elsewhere is covered by another mount, and one that may not be
    // walked is no way for a run either.
    const auto mounts = MountTable::read();
    if (!mounts)
        return fail(failure(PlaceErrorKind::unavailable, name, "/proc/self/mountinfo cannot be read; mount /proc"));
    bool through_overlay = false;
    for (const MountTable::Way& way : mounts->ways_to(*path)) {
        const auto other = chain_along(way.path, name, way.leads_through_overlay() ? way.certain : std::string::npos);
        if (!other && other.error().kind == PlaceErrorKind::not_permitted) continue;
        if (!other) return fail(other.error());
        if (!*other || (!way.leads_through_overlay() && (*other)->front() != (*chain)->front())) continue;
        through_overlay |= way.leads_through_overlay();
        for (const std::string& id : **other) {
            if (std::ranges::find(**chain, id) == (*chain)->end()) (*chain)->push_back(id);
        }
    }
    if ((*chain)->size() > core::limits::place_depth_max) return fail(too_deep(name));
    return Seen{.path = *path, .chain = std::move(**chain), .through_overlay = through_overlay};
}

// From the top down, each directory opened inside the one before. Going up by ".." instead would give a chain that need
// not belong to the path, if the directory is moved away and back while one walks.
Result<std::optional<Chain>, PlaceError> chain_along(std::string_view path, const std::string& name,
                                                     std::size_t certain) {
    Chain chain;
    const std::size_t length = path.size();
    OpenDirectory here = open_directory(AT_FDCWD, "/");
    for (;;) {
        if (!here && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) {
            if (length - path.size() <= certain) return std::nullopt;
            break;
        }
        auto id = here ? identity_of(here) : std::nullopt;
        if (!id) return fail(system_failure(errno, name));
        chain.push_back(std::move(*id));
        path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
        if (path.empty()) break;
        const std::string next(path.substr(0, path.find('/')));
        path.remove_prefix(next.size());
        here = open_directory(here.get(), next.c_str(), O_NOFOLLOW);
    }
    std::ranges::reverse(chain);
    return chain;
}

}  // namespace
}  // namespace interlock::supervisor
