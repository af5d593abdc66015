#include "supervisor/seen_place.h"

#include <algorithm>
#include <utility>

#include "supervisor/place_check.h"

namespace interlock::supervisor {

SeenPlace see_place(HeldPlaces& held, core::RunId run, core::Fence fence, const std::vector<core::Place>& claimed) {
    auto check = check_places(run, claimed);
    if (!check) return {.problem = "its place cannot be used: " + check.error().detail};
    SeenPlace seen{.change = std::move(check->change), .places = places_of(check->places)};
    if (!seen.change.empty() || check->places.empty()) return seen;
    seen.directory = check->places.front().directory.duplicate();
    held.hold(run, fence, std::move(check->places), std::move(check->mounts));
    return seen;
}

shim::Fd hold_worktree(HeldPlaces& held, core::RunId run, core::Fence fence, const std::vector<core::Place>& claimed,
                       const std::string& directory) {
    const auto place = std::ranges::find(claimed, directory, &core::Place::path);
    if (place == claimed.end()) return {};
    auto open = open_workspace(directory, place->mode, place->host);
    if (!open) return {};
    shim::Fd worktree = open->directory.duplicate();
    std::vector<OpenPlace> places;
    places.push_back(std::move(*open));
    held.hold(run, fence, std::move(places), {});
    return worktree;
}

}  // namespace interlock::supervisor
