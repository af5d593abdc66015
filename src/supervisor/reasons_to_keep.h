// reasons_to_keep(), and what else was found out on the way.
#pragma once

#include <vector>

#include "supervisor/worktrees.h"

namespace interlock::supervisor {

struct Examination {
    std::vector<Reason> reasons;
    // There are commits that no other ref has; perhaps others have their changes, which is no reason to keep the
    // worktree but one to save it.
    bool unreachable_commits = false;
};

Examination examine(const Worktree& worktree, Lease lease);

}  // namespace interlock::supervisor
