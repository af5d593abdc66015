// The ten reasons of worktrees.h, in six looks.
#include "supervisor/reasons_to_keep.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "supervisor/file_tree.h"
#include "supervisor/processes_inside.h"
#include "supervisor/registration.h"
#include "supervisor/worktree_changes.h"
#include "supervisor/worktree_commits.h"
#include "supervisor/worktrees.h"

namespace interlock::supervisor {
namespace {

using State = Registration::State;
using Reasons = std::vector<Reason>;

constexpr std::size_t named_max = 3;

void check_processes(const std::string& path, Reasons& reasons);
// What the worktree holds.
void check_work(const Registration& registration, const GitWorktree& worktree, Examination& found);
void check_files(const Registration& registration, Reasons& reasons);
void check_commits(const Registration& registration, const std::string& common_dir, const GitWorktree& worktree,
                   Examination& found);
void check_operations(const Registration& registration, Reasons& reasons);
void check_lock(const Registration& registration, const GitWorktree& worktree, Reasons& reasons);
void check_nested(const Registration& registration, Reasons& reasons);
// Why the directory is not this worktree; empty when it is.
std::string whose_it_is(const Registration& registration, const GitWorktree& worktree);

// "a, b, c and 4 more"
std::string some_of(const std::vector<std::string>& names) {
    const std::vector<std::string> first(
        names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), named_max)));
    const std::size_t more = names.size() - first.size();
    return fmt::format("{}{}", fmt::join(first, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace

std::vector<Reason> reasons_to_keep(const GitWorktree& worktree, Lease lease) {
    return examine(worktree, lease).reasons;
}

Examination examine(const GitWorktree& worktree, Lease lease) {
    Examination found;
    Reasons& reasons = found.reasons;
    if (lease == Lease::held)
        reasons.push_back({KeepReason::leased, fmt::format("run {} still has its lease", worktree.run)});
    check_processes(worktree.path, reasons);

    const auto common_dir = common_dir_of(worktree.repository);
    if (!common_dir) {
        reasons.push_back({KeepReason::unreadable, common_dir.error()});
        return found;
    }
    const auto registration = find_registration(*common_dir, worktree.run);
    if (!registration) {
        reasons.push_back(
            {KeepReason::not_ours, fmt::format("{} has no worktree of run {}", worktree.repository, worktree.run)});
        return found;
    }
    // What was never handed out holds nobody's work, and what is being removed was looked at before that began.
    if (registration->state != State::made) return found;

    if (std::string why = whose_it_is(*registration, worktree); !why.empty()) {
        check_lock(*registration, worktree, reasons);
        reasons.push_back({KeepReason::not_ours, std::move(why)});
        return found;
    }
    check_work(*registration, worktree, found);
    std::ranges::sort(reasons, {}, &Reason::keeps);
    return found;
}

Examination examine_moved(const GitWorktree& worktree, const Registration& moved) {
    Examination found;
    check_processes(moved.path, found.reasons);
    check_work(moved, worktree, found);
    // Again: a process may have got a file of it from another process, which is gone by now.
    if (found.reasons.empty()) check_processes(moved.path, found.reasons);
    return found;
}

namespace {

void check_processes(const std::string& path, Reasons& reasons) {
    const auto found = processes_inside(path);
    if (!found) return reasons.push_back({KeepReason::unreadable, found.error()});
    if (found->inside.empty()) return;
    std::vector<std::string> names;
    for (const ProcessInside& process : found->inside) {
        names.push_back(fmt::format("process {} ({}): {}", process.pid, process.program, process.use));
    }
    std::string detail = some_of(names);
    if (found->unseen > 0) detail += fmt::format("; {} processes of other users could not be looked at", found->unseen);
    reasons.push_back({KeepReason::process_inside, std::move(detail)});
}

void check_work(const Registration& registration, const GitWorktree& worktree, Examination& found) {
    check_files(registration, found.reasons);
    check_commits(registration, registration.common_dir, worktree, found);
    check_operations(registration, found.reasons);
    check_lock(registration, worktree, found.reasons);
    check_nested(registration, found.reasons);
}

std::string whose_it_is(const Registration& registration, const GitWorktree& worktree) {
    if (registration.path != worktree.path) {
        return fmt::format("the worktree of run {} is at {} now", worktree.run, registration.path);
    }
    if (!status_of(worktree.path)) return fmt::format("{} is gone", worktree.path);
    if (!leads_back(registration)) {
        return fmt::format("{} is not the worktree that was made for run {}", worktree.path, worktree.run);
    }
    return "";
}

void check_files(const Registration& registration, Reasons& reasons) {
    const auto index = IndexCopy::make(registration);
    if (!index) return reasons.push_back({KeepReason::unreadable, index.error()});
    const auto files = changed_files(*index);
    if (!files) return reasons.push_back({KeepReason::unreadable, files.error()});
    std::vector<std::string> modified;
    std::vector<std::string> untracked;
    for (const ChangedFile& file : *files) (file.untracked ? untracked : modified).push_back(file.name);
    if (!modified.empty()) {
        reasons.push_back({KeepReason::modified, fmt::format("not committed: {}", some_of(modified))});
    }
    if (!untracked.empty()) {
        reasons.push_back({KeepReason::untracked, fmt::format("untracked and not ignored: {}", some_of(untracked))});
    }
}

void check_commits(const Registration& registration, const std::string& common_dir, const GitWorktree& worktree,
                   Examination& found) {
    const auto commits = commits_of(registration, common_dir, worktree.branch);
    if (!commits) return found.reasons.push_back({KeepReason::unreadable, commits.error()});
    found.unreachable_commits = !commits->unreachable.empty();
    const auto left = without_equivalent(*commits, common_dir, worktree.branch);
    if (!left) return found.reasons.push_back({KeepReason::unreadable, left.error()});
    if (!left->empty()) {
        found.reasons.push_back(
            {KeepReason::unreachable_commits,
             fmt::format("no other branch, tag or remote branch has the commits {}", some_of(*left))});
    }
}

void check_operations(const Registration& registration, Reasons& reasons) {
    static constexpr std::array operations = {
        std::pair("rebase-merge", "rebase"), std::pair("rebase-apply", "rebase or am"),
        std::pair("MERGE_HEAD", "merge"),    std::pair("CHERRY_PICK_HEAD", "cherry-pick"),
        std::pair("REVERT_HEAD", "revert"),  std::pair("sequencer", "cherry-pick or revert"),
        std::pair("BISECT_LOG", "bisect"),
    };
    for (const auto& [file, operation] : operations) {
        if (!status_of(registration.git_dir + "/" + file)) continue;
        reasons.push_back({KeepReason::operation_in_progress, fmt::format("a {} is not finished", operation)});
        return;
    }
}

void check_lock(const Registration& registration, const GitWorktree& worktree, Reasons& reasons) {
    if (!registration.lock || *registration.lock == lock_reason(worktree.run)) return;
    reasons.push_back({KeepReason::locked_by_other,
                       registration.lock->empty() ? std::string("git worktree lock was used")
                                                  : fmt::format("git worktree lock was used: {}", *registration.lock)});
}

void check_nested(const Registration& registration, Reasons& reasons) {
    const auto found = repositories_inside(registration.path);
    if (!found) return reasons.push_back({KeepReason::unreadable, found.error()});
    if (found->empty()) return;
    reasons.push_back({KeepReason::nested_repository, fmt::format("there is a repository in {}", some_of(*found))});
}

}  // namespace
}  // namespace interlock::supervisor
