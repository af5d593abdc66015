// What a repository knows of the worktree of a run: its own git directory there, our mark in it, and two refs.
//
// A worktree of ours is locked with the reason "interlock <run>" from the first moment on, because git writes the
// reason before anything else. The mark comes last. So what has the reason and no mark was interrupted while it was
// made.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "supervisor/git.h"
#include "supervisor/open_file.h"
#include "supervisor/worktrees.h"

namespace interlock::supervisor {

struct Registration {
    enum class State {
        half_made,  // Never handed to anybody.
        made,
        removing,  // All that is worth keeping has been kept; only the removal is unfinished.
    };
    State state;
    std::string common_dir;
    std::string git_dir;              // <common_dir>/worktrees/<name>
    std::string path;                 // Where the worktree is; empty when git had not written it yet.
    std::optional<std::string> lock;  // The reason for which it is locked.
};

std::string lock_reason(const std::string& run);
std::string base_ref(const std::string& run);
std::string kept_ref(const std::string& run);
std::string branch_ref(const std::string& branch);

// A run's name is part of the names above.
Result<void, std::string> check_run_name(const std::string& run);

// The repository that `dir` is in or is, by what its worktrees share.
Result<std::string, std::string> common_dir_of(const std::string& dir);

// Its main worktree; the common directory itself when there is none to work in.
std::string main_worktree_of(const std::string& common_dir);

std::optional<Registration> find_registration(const std::string& common_dir, const std::string& run);

// Enters a worktree into the repository, as `git worktree add` does, without files. `path` is an empty directory or not
// there; `head` is the text of its HEAD.
Result<Registration, std::string> register_worktree(const std::string& common_dir, const std::string& run,
                                                    const std::string& path, const std::string& head);
// The reverse. The worktree itself stays.
Result<void, std::string> unregister(const Registration& registration);

Result<void, std::string> mark(const Registration& registration, const std::string& run, Registration::State state);

// Whether the directory at registration.path is this very worktree.
bool leads_back(const Registration& registration);

// Undoes what was never handed out: its files and its own git directory. The branch stays.
Result<void, std::string> discard_half_made(const Registration& registration);

// That, the branch if it is still where it began, and the note of where that was.
Result<void, std::string> forget_worktree(const std::string& common_dir, const std::string& run,
                                          const std::string& branch);

// One at a time for each repository, also across processes. It waits, up to a limit. No program inherits the lock.
Result<OpenFile, std::string> lock_repository(const std::string& lock_dir, const std::string& common_dir);

// A path as git will write it: links in the directories above are resolved.
Result<std::string, std::string> canonical_path(const std::string& path);

}  // namespace interlock::supervisor
