#include "supervisor/place_check.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/id.h"
#include "base/text.h"
#include "core/limits.h"
#include "supervisor/mount_table.h"

namespace interlock::supervisor {
namespace {

// Empty when both are the same. The order in which the ways to them were found does not count.
std::string difference(const core::Place& claimed, const core::Place& now) {
    if (claimed.path != now.path) {
        return fmt::format("'{}' leads to '{}' by now", claimed.path, now.path);
    }
    if (claimed.chain.empty() || claimed.chain.front() != now.chain.front()) {
        return fmt::format("'{}' is another directory than the one that was claimed", claimed.path);
    }
    auto before = claimed.chain, after = now.chain;
    std::ranges::sort(before);
    std::ranges::sort(after);
    if (before == after) return {};
    return fmt::format("'{}' lies in other directories than when it was claimed", claimed.path);
}

bool is_the_one(const OpenPlace& open, const core::Place& claimed) {
    return !claimed.chain.empty() && open.place.chain.front() == claimed.chain.front();
}

}  // namespace

bool is_worktree_of(core::RunId run, const core::Place& place) {
    return !place.chain.empty() && place.chain.front() == to_text("run", run.value);
}

Result<PlaceCheck, PlaceError> check_places(core::RunId run, const std::vector<core::Place>& claimed) {
    PlaceCheck check;
    if (const auto mounts = MountTable::read()) check.mounts = mounts->text();
    for (const core::Place& place : claimed) {
        if (place.kind != core::ClaimKind::workspace || is_worktree_of(run, place)) continue;
        auto open = open_workspace(place.path, place.mode, place.host);
        if (!open) return fail(std::move(open.error()));
        if (check.change.empty()) {
            check.change = cut_text(as_line(difference(place, open->place)), core::limits::text_bytes_max);
        }
        check.places.push_back(std::move(*open));
    }
    return check;
}

std::string moved_repository(const std::string& directory) {
    if (directory.empty()) return {};
    const auto open = open_workspace(directory, core::ClaimMode::read, {});
    if (!open) return open.error().detail;
    if (open->place.path == directory) return {};
    return fmt::format("'{}' leads to '{}' by now", directory, open->place.path);
}

std::vector<OpenPlace> reopen_places(core::RunId run, const std::vector<core::Place>& claimed, pid_t process) {
    std::vector<OpenPlace> found;
    for (const core::Place& place : claimed) {
        if (place.kind != core::ClaimKind::workspace) continue;
        // It is followed from what is claimed, so that a move while no server ran is noticed.
        found.push_back({.place = place, .directory = {}, .through_overlay = false});
        auto open = open_workspace(place.path, place.mode, place.host);
        if (open && is_worktree_of(run, place)) {
            found.back() = std::move(*open);
            continue;
        }
        if (!open || !is_the_one(*open, place)) {
            open = open_workspace(fmt::format("/proc/{}/cwd", process), place.mode, place.host);
        }
        if (open && is_the_one(*open, place)) found.back().directory = std::move(open->directory);
    }
    return found;
}

std::vector<core::Place> places_of(const std::vector<OpenPlace>& open) {
    std::vector<core::Place> places;
    for (const OpenPlace& each : open) places.push_back(each.place);
    return places;
}

}  // namespace interlock::supervisor
