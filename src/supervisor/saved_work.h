// What save_work() wrote: how it is read, and how it is brought back.
//
// The commit's tree is what was on disk. Its parents are HEAD, the branch, what was staged (as a commit of its own),
// every commit that only the worktree knew, and what was saved earlier, so that one ref keeps all of them. Which is
// which stands in the message.
#pragma once

#include <string>

#include "base/result.h"
#include "supervisor/registration.h"

namespace interlock::supervisor {

struct SavedWork {
    std::string commit = {};
    std::string run = {};
    std::string branch = {};
    std::string branch_tip = {};    // Empty when the branch was gone.
    std::string head = {};          // Empty when HEAD had no commit.
    std::string head_ref = {};      // Empty when HEAD was detached.
    std::string base = {};          // What the worktree began with.
    std::string staged = {};        // A commit with the index as its tree; empty when nothing was staged.
    std::string subdirectory = {};  // Of the worktree, where the run works.
};

// save_work() of a worktree whose directory is at `registration.path` now.
Result<std::string, std::string> save_work_at(const GitWorktree& worktree, const Registration& registration);

Result<SavedWork, std::string> read_saved_work(const std::string& common_dir, const std::string& run);

// Into a worktree that was just checked out at `saved.head` (or at `saved.base` when that is empty).
Result<void, std::string> put_back(const SavedWork& saved, const Registration& registration);

}  // namespace interlock::supervisor
