#include "server/api_workplaces.h"

#include <boost/describe/enum_to_string.hpp>

#include "supervisor/place.h"
#include "supervisor/worktrees.h"

namespace interlock::server {
namespace {

std::vector<api::WorktreeReason> reasons_of(const std::vector<supervisor::Reason>& reasons) {
    std::vector<api::WorktreeReason> views;
    for (const supervisor::Reason& reason : reasons) {
        views.push_back({boost::describe::enum_to_string(reason.keeps, ""), reason.detail});
    }
    return views;
}

}  // namespace

Result<core::Place, std::string> ApiWorkplaces::resolve(const std::string& path, core::ClaimMode mode) {
    held_.settle();
    auto place = supervisor::resolve_workspace(path, mode, supervisor::this_host());
    if (!place) return fail(place.error().detail);
    return std::move(*place);
}

void ApiWorkplaces::hold(const core::Run& run) { held_.take_up(run); }

Result<std::vector<std::string>, std::string> ApiWorkplaces::repository(const std::string& path) {
    const auto found = supervisor::find_repository(path);
    if (!found) return fail(found.error());
    std::vector<std::string> parts{found->top, found->common_dir};
    for (std::string& part : parts) {
        const auto place = supervisor::resolve_workspace(part, core::ClaimMode::read, supervisor::this_host());
        if (place) part = place->path;
    }
    return parts;
}

Result<std::string, std::string> ApiWorkplaces::make_worktree(core::RunId run, const std::string& workspace) {
    auto made = worktrees_.make(run, workspace);
    if (!made) return fail(made.error());
    return made->directory;
}

Result<api::WorktreeLook, std::string> ApiWorkplaces::look_at_worktree(core::RunId run) {
    const auto kept = worktrees_.why(run);
    if (!kept) return fail(kept.error());
    return api::WorktreeLook{static_cast<std::int64_t>(kept->bytes), reasons_of(kept->reasons)};
}

Result<api::WorktreeRemoval, std::string> ApiWorkplaces::remove_worktree(core::RunId run, bool force) {
    using enum supervisor::Force;
    const auto kept = worktrees_.why(run);
    if (!kept) return fail(kept.error());
    if (!force && !kept->reasons.empty()) return api::WorktreeRemoval{.reasons = reasons_of(kept->reasons)};
    auto removed = worktrees_.remove(run, force ? yes : no);
    if (!removed) return fail(removed.error());
    return api::WorktreeRemoval{.removed = true, .saved_as = std::move(*removed)};
}

Result<void, std::string> ApiWorkplaces::restore_worktree(core::RunId run) { return worktrees_.restore(run); }

}  // namespace interlock::server
