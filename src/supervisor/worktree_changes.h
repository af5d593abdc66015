// What in a worktree is not committed, file by file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "supervisor/git.h"
#include "supervisor/registration.h"

namespace interlock::supervisor {

struct ChangedFile {
    std::string name;        // Below the worktree. A directory, with a slash at its end, is a repository inside.
    bool untracked = false;  // Neither tracked nor ignored. Else it is tracked and differs from HEAD.
    bool submodule = false;

    friend bool operator==(const ChangedFile&, const ChangedFile&) = default;
};

// A copy of the worktree's index, for looking without taking git's locks and for writing what is saved. Files that git
// was told not to look at (assume-unchanged, skip-worktree) are looked at in it, if they are on disk.
class IndexCopy {
 public:
    static Result<IndexCopy, std::string> make(const Registration& registration);
    IndexCopy(IndexCopy&& other) noexcept : git_(other.git_), path_(std::exchange(other.path_, {})) {}
    IndexCopy& operator=(IndexCopy&&) = delete;
    ~IndexCopy();

    // git for this worktree, with the copy as its index.
    const Git& git() const { return git_; }

 private:
    IndexCopy(Git git, std::string path) : git_(std::move(git)), path_(std::move(path)) {}

    Git git_;
    std::string path_;
};

Result<std::vector<ChangedFile>, std::string> changed_files(const IndexCopy& index);

}  // namespace interlock::supervisor
