// Which commits of a worktree would be nowhere else.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "supervisor/registration.h"

namespace interlock::supervisor {

struct WorktreeCommits {
    std::string head;        // Empty when HEAD has no commit.
    std::string head_ref;    // The branch that HEAD is on, in full; empty when it is detached.
    std::string branch_tip;  // Of the run's branch; empty when that is gone.
    // Of all commits that HEAD, the branch, their reflogs, and unfinished operations know: those that no other ref has.
    // Other refs are branches, tags, remote branches and the like; not our own, nor the stash, which is emptied
    // lightly.
    std::vector<std::string> unreachable;
    // Those of them that are parents of no other: whoever has these has all.
    std::vector<std::string> tips;
};

Result<WorktreeCommits, std::string> commits_of(const Registration& registration, const std::string& common_dir,
                                                const std::string& branch);

// Those of commits.unreachable for which no branch has a commit that makes the same change (git cherry).
Result<std::vector<std::string>, std::string> without_equivalent(const WorktreeCommits& commits,
                                                                 const std::string& common_dir,
                                                                 const std::string& branch);

// Those of `commits` that neither `keeper` (a commit, or empty) nor another ref has.
Result<std::vector<std::string>, std::string> unreachable_but_for(const std::string& common_dir,
                                                                  const std::string& branch,
                                                                  const std::vector<std::string>& commits,
                                                                  const std::string& keeper);

}  // namespace interlock::supervisor
