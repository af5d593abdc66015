// The directories and worktrees of this machine, for the API.
#pragma once

#include "api/ports.h"
#include "supervisor/held_places.h"
#include "supervisor/worktree_keeper.h"

namespace interlock::server {

class ApiWorkplaces final : public api::Workplaces {
 public:
    ApiWorkplaces(supervisor::HeldPlaces& held, supervisor::WorktreeKeeper& worktrees)
        : held_(held), worktrees_(worktrees) {}

    Result<core::Place, std::string> resolve(const std::string& path, core::ClaimMode mode) override;
    void hold(const core::Run& run) override;
    Result<std::vector<std::string>, std::string> repository(const std::string& path) override;
    Result<std::string, std::string> make_worktree(core::RunId run, const std::string& workspace) override;
    Result<api::WorktreeLook, std::string> look_at_worktree(core::RunId run) override;
    Result<api::WorktreeRemoval, std::string> remove_worktree(core::RunId run, bool force) override;
    Result<void, std::string> restore_worktree(core::RunId run) override;

 private:
    supervisor::HeldPlaces& held_;
    supervisor::WorktreeKeeper& worktrees_;
};

}  // namespace interlock::server
