#include "api/places.h"

#include "api/route.h"
#include "store/read_rows.h"

namespace interlock::api {

net::Task<Result<std::vector<core::Place>, Problem>> find_places(Call& call, std::string workspace,
                                                                 std::vector<std::string> resources,
                                                                 core::ClaimMode mode) {
    std::vector<core::Place> places;
    if (!workspace.empty()) {
        // Nobody sees the claims of another org: with directories for all of them, two could work in one.
        if (!call.is_home()) {
            co_return fail(
                not_in_this_org("only runs of the org 'default' can claim directories of the server's machine; "
                                "claim resources instead",
                                "/workspace"));
        }
        if (!workspace.starts_with('/')) {
            co_return fail(invalid("workspace is '" + workspace + "'; it must be an absolute path", "/workspace"));
        }
        auto place = co_await net::run_on(call.parts.workers, [&there = call.parts.workplaces, workspace, mode] {
            return there.resolve(workspace, mode);
        });
        if (!place) co_return fail(invalid("workspace: " + place.error(), "/workspace"));
        places.push_back(std::move(*place));
    }
    for (core::Place& resource : named_resources(resources, mode)) places.push_back(std::move(resource));
    co_return places;
}

net::Task<std::optional<Problem>> check_view(Call& call, std::string path, std::string pointer) {
    if (path.empty() || co_await call.parts.callers.shares_files(call.request.sender)) co_return std::nullopt;
    co_return invalid("'" + path +
                          "' is named by a program in another mount namespace or root directory than the server's (a "
                          "container, unshare or chroot), where it can be another directory; send the request from "
                          "outside of it, or run a server inside",
                      std::move(pointer));
}

std::vector<core::Place> named_resources(const std::vector<std::string>& names, core::ClaimMode mode) {
    std::vector<core::Place> places;
    for (const std::string& name : names) {
        places.push_back({.kind = core::ClaimKind::resource, .host = {}, .path = name, .chain = {}, .mode = mode});
    }
    return places;
}

std::vector<PlaceView> views_of(const std::vector<core::Place>& places) {
    std::vector<PlaceView> views;
    for (const core::Place& place : places) views.push_back({place.kind, place.path, place.mode});
    return views;
}

}  // namespace interlock::api
