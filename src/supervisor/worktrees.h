// Worktrees: a directory of its own for a run, made from a git repository and taken away when nothing in it can be
// lost.
//
//   (1) A worktree that make_worktree() returned is whole: checked out, with what .worktreeinclude names, locked
//       against `git worktree prune`, and marked. What a crash left halfway has no mark, was never handed out,
//       and is made anew by the next call for the same run.
//   (2) Nothing is removed that is in one place only. Without force a worktree goes only if not one of the reasons in
//       KeepReason applies. With force it goes only after everything in it that git can hold was written under
//       refs/interlock/kept/<run> and read back.
//   (3) While a run is leased or a process is inside, nothing is removed, by no force.
//   (4) Changes to a repository's worktrees happen one after the other: there is a lock per repository, which no
//       program inherits. A git whose server is killed gets SIGTERM from the kernel.
//   (5) Every function can be called again after it was interrupted anywhere, with the same arguments.
//
// In the repository they leave refs/interlock/base/<run> (what the worktree began with, while there is one) and
// refs/interlock/kept/<run> (what was saved of it), the branch, and the file `interlock` in the worktree's own git
// directory. These functions run no program that a repository names; see git.h. So filters of .gitattributes do not
// run, and files that git-lfs stores are checked out as its pointers.
//
// What they do not do: submodules are left uninitialised. Ignored files are not saved. Of a process of another user
// only root can see where it is; without that it is not seen. A process in another mount namespace is recognised by its
// working and root directory, not by its open files.
//
// All of it blocks (git, disk), so it is called on worker threads. Paths are bytes, not text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "base/result.h"

namespace interlock::supervisor {

struct Repository {
    std::string top;           // The worktree that the directory lies in.
    std::string common_dir;    // What all worktrees of the repository share.
    std::string git_dir;       // Of `top` alone; in a main worktree the same.
    std::string subdirectory;  // Of the directory within `top`; empty when it is `top`.
};

struct GitWorktree {
    std::string run = {};
    std::string repository = {};  // Its main worktree, or the bare repository.
    std::string path = {};
    std::string directory = {};  // `path`, or the directory in it that corresponds to the workspace asked for.
    std::string branch = {};     // Without refs/heads/.
    std::string base = {};       // The commit it began with.
    std::string teardown = {};   // For /bin/sh, before it is removed; the caller's, as is the next.
    int port_base = 0;
};

// `dir` is absolute. The sentence says why there is none: no repository there, no commit yet, or a bare repository.
Result<Repository, std::string> find_repository(const std::string& dir);

struct MakeWorktree {
    std::string dir;       // The workspace that was asked for, anywhere in a repository.
    std::string path;      // Absolute. It does not exist, or is an empty directory.
    std::string branch;    // To be made.
    std::string run;       // Used in the names of refs.
    std::string lock_dir;  // A directory for the locks of invariant (4), the same for all callers.
};
Result<GitWorktree, std::string> make_worktree(const MakeWorktree& wanted);

// The reasons to keep a worktree, in the order in which they are checked and reported.
enum class KeepReason {
    leased,                 // The run still has its lease.
    process_inside,         // A process's working directory, root, program, mapped or open file is in it.
    modified,               // Tracked files differ from HEAD, staged or not.
    untracked,              // Files that are neither tracked nor ignored.
    unreachable_commits,    // Commits that no other branch, tag or remote branch has, not even with another id.
    operation_in_progress,  // A merge, rebase, cherry-pick, revert or bisect.
    locked_by_other,        // `git worktree lock` with a reason that is not ours.
    nested_repository,      // A repository or initialised submodule inside, whose commits are not ours to judge.
    not_ours,               // The directory is gone, or is not the worktree that was made for this run.
    unreadable,             // It could not be looked at, so nothing is known.
};
BOOST_DESCRIBE_ENUM(KeepReason, leased, process_inside, modified, untracked, unreachable_commits, operation_in_progress,
                    locked_by_other, nested_repository, not_ours, unreadable)

struct Reason {
    KeepReason keeps;
    std::string detail;  // A sentence.
};

enum class Lease { none, held };

// Empty: it can go. What it says is true at some moment during the call.
std::vector<Reason> reasons_to_keep(const GitWorktree& worktree, Lease lease);

// Everything git can hold, as one commit under refs/interlock/kept/<run>: the files that are not ignored, as they are
// on disk and without filters; what is staged; HEAD, the branch, and the commits that only this worktree's reflog and
// unfinished operations know. The state of such an operation itself is not kept. Refused when there is a repository
// inside, whose files git would leave out. The answer is the commit's id, after all of it was read back.
Result<std::string, std::string> save_work(const GitWorktree& worktree);

enum class Force { no, yes };

struct RemoveWorktree {
    GitWorktree worktree = {};
    Force force = Force::no;
    Lease lease = Lease::none;
    std::string lock_dir = {};
    // Runs worktree.teardown in the directory, and returns what went wrong with it. An error says why it cannot run as
    // the run did; then nothing is removed. Empty: no teardown runs.
    std::function<Result<std::string, std::string>(const std::string& directory)> tear_down = {};
};

struct Removed {
    std::string kept_ref;         // Where the work is; empty when there was nothing to keep.
    bool branch_deleted = false;  // Never while its commits would be nowhere else.
    std::string teardown_failed;  // What went wrong with the teardown, which stops nothing; else empty.
};

// The teardown runs first, in the worktree; with force the work is saved before it. Force also goes against a lock of
// other programs, but not against a repository inside, nor where git cannot read. The directory is moved aside before
// the last look, and moved back if that look finds a reason to keep it.
Result<Removed, std::string> remove_worktree(const RemoveWorktree& wanted);

// From refs/interlock/kept/<run>: the branch as it was, and what was not committed is not committed again. The ref
// stays. Empty directories, times, and permissions other than "executable" are not brought back.
Result<GitWorktree, std::string> restore_worktree(const std::string& repository, const std::string& run,
                                                  const std::string& path, const std::string& lock_dir);

struct ListedWorktree {
    std::string path;
    std::string head;    // Empty in a bare repository.
    std::string branch;  // Without refs/heads/; empty when HEAD is detached.
    bool bare = false;
    std::optional<std::string> locked;  // With its reason.
};

// Those of the repository, its main worktree first.
Result<std::vector<ListedWorktree>, std::string> list_worktrees(const std::string& repository);

// What a directory takes on disk. A file with several names counts once; what cannot be read does not count.
std::uint64_t disk_bytes(const std::string& path);

}  // namespace interlock::supervisor
