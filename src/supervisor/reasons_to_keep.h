// reasons_to_keep(), and what else was found out on the way.
#pragma once

#include <vector>

#include "supervisor/registration.h"
#include "supervisor/worktrees.h"

namespace interlock::supervisor {

struct Examination {
    std::vector<Reason> reasons;
    // There are commits that no other ref has; perhaps others have their changes, which is no reason to keep the
    // worktree but one to save it.
    bool unreachable_commits = false;
};

Examination examine(const GitWorktree& worktree, Lease lease);

// The same for a worktree whose directory was moved to `moved.path`, where only those find it who were in it before.
Examination examine_moved(const GitWorktree& worktree, const Registration& moved);

}  // namespace interlock::supervisor
