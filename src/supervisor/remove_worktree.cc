// Removing a worktree, whole or from where an interrupted removal got to.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>

#include <fmt/format.h>

#include "supervisor/file_tree.h"
#include "supervisor/reasons_to_keep.h"
#include "supervisor/registration.h"
#include "supervisor/saved_work.h"
#include "supervisor/worktree_commits.h"
#include "supervisor/worktrees.h"

namespace interlock::supervisor {
namespace {

using State = Registration::State;

// Why it may not be removed, as one sentence.
std::string refusal(const RemoveWorktree& wanted, const std::vector<Reason>& reasons);
enum class Save { no, yes };
// Tears down what can go, and says what went wrong.
Result<std::string, std::string> tear_down(const RemoveWorktree& wanted);
// Moves the directory aside, looks at it there, and saves what has to be. Afterwards nothing in it is the only one of
// its kind, and a removal that is interrupted can only go on. On an error everything is as before.
Result<void, std::string> set_aside(const RemoveWorktree& wanted, const Registration& registration, Save save);
// What an interrupted removal moved and had not looked at yet comes back.
Result<void, std::string> bring_back(const GitWorktree& worktree, const Registration& registration);
// Everything after the last check. It begins again wherever it stopped.
Result<void, std::string> take_away(const GitWorktree& worktree, const std::string& common_dir);
Result<Removed, std::string> tidy_up(const GitWorktree& worktree, const std::string& common_dir);

std::string aside(const GitWorktree& worktree) { return worktree.path + ".removing"; }

}  // namespace

Result<Removed, std::string> remove_worktree(const RemoveWorktree& wanted) {
    const GitWorktree& worktree = wanted.worktree;
    if (auto good = check_run_name(worktree.run); !good) return fail(good.error());
    if (wanted.lease == Lease::held) {
        return fail(fmt::format("not removed: leased: run {} still has its lease", worktree.run));
    }
    const auto common_dir = common_dir_of(worktree.repository);
    if (!common_dir) return fail(common_dir.error());

    // 1. Tear down, without the lock: it is somebody's program, and others need not wait for it. Whether the worktree
    // can go is seen before, so that nothing is torn down that stays.
    std::string teardown_failed;
    const auto found = find_registration(*common_dir, worktree.run);
    const bool tears_down = found && found->state == State::made && wanted.tear_down && !worktree.teardown.empty();
    if (tears_down) {
        auto done = tear_down(wanted);
        if (!done) return fail(std::move(done.error()));
        teardown_failed = std::move(*done);
    }

    // 2. With the lock: look, also at what the teardown has done.
    const auto lock = lock_repository(wanted.lock_dir, *common_dir);
    if (!lock) return fail(lock.error());
    const auto registration = find_registration(*common_dir, worktree.run);
    if (!registration && status_of(worktree.path)) {
        return fail(fmt::format("not removed: {} is not the worktree of run {}", worktree.path, worktree.run));
    }
    if (registration && registration->state == State::made) {
        if (auto back = bring_back(worktree, *registration); !back) return fail(back.error());
    }
    Examination found_now;
    if (registration) found_now = examine(worktree, Lease::none);
    if (std::string why = refusal(wanted, found_now.reasons); !why.empty()) return fail(why);
    if (registration && registration->state == State::half_made) {
        if (auto gone = forget_worktree(*common_dir, worktree.run, worktree.branch); !gone) return fail(gone.error());
    }
    if (registration && registration->state == State::made) {
        // What a teardown leaves is not what the run left, which was saved before it. Without force nothing is left to
        // save, but commits which others have only in other words.
        const bool save = wanted.force == Force::yes ? !tears_down : found_now.unreachable_commits;
        if (auto moved = set_aside(wanted, *registration, save ? Save::yes : Save::no); !moved) {
            return fail(moved.error());
        }
    }

    // 3. Take it away, and see that it is gone.
    if (auto gone = take_away(worktree, *common_dir); !gone) return fail(gone.error());
    auto removed = tidy_up(worktree, *common_dir);
    if (removed) removed->teardown_failed = std::move(teardown_failed);
    return removed;
}

namespace {

std::string refusal(const RemoveWorktree& wanted, const std::vector<Reason>& reasons) {
    std::string why;
    for (const Reason& reason : reasons) {
        const bool gone = reason.keeps == KeepReason::not_ours && !status_of(wanted.worktree.path);
        // What was not committed and what nobody else has is saved; a lock is what force is meant against.
        const bool overridden = reason.keeps == KeepReason::modified || reason.keeps == KeepReason::untracked ||
                                reason.keeps == KeepReason::unreachable_commits ||
                                reason.keeps == KeepReason::operation_in_progress ||
                                reason.keeps == KeepReason::locked_by_other || gone;
        if (wanted.force == Force::yes && overridden) continue;
        why += fmt::format("{}{}: {}", why.empty() ? "not removed: " : "; ",
                           boost::describe::enum_to_string(reason.keeps, "?"), reason.detail);
    }
    return why;
}

Result<std::string, std::string> tear_down(const RemoveWorktree& wanted) {
    const GitWorktree& worktree = wanted.worktree;
    if (std::string why = refusal(wanted, reasons_to_keep(worktree, Lease::none)); !why.empty()) return fail(why);
    if (wanted.force == Force::yes) {
        if (auto saved = save_work(worktree); !saved) return fail(fmt::format("not removed: {}", saved.error()));
    }
    if (!is_directory(worktree.path)) return std::string();
    auto done = wanted.tear_down(is_directory(worktree.directory) ? worktree.directory : worktree.path);
    if (!done) return fail(fmt::format("not removed: the teardown cannot run: {}", done.error()));
    return std::move(*done);
}

bool move(const std::string& from, const std::string& to) {
    // What came to stand under the new name stays what it is.
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
    // Not every file system can do that. rename() replaces empty directories only.
    return errno == EINVAL && rename(from.c_str(), to.c_str()) == 0;
}

Result<void, std::string> bring_back(const GitWorktree& worktree, const Registration& registration) {
    Registration moved = registration;
    moved.path = aside(worktree);
    if (status_of(worktree.path) || !leads_back(moved)) return {};
    if (!move(aside(worktree), worktree.path)) {
        return fail(fmt::format("cannot move {} back: {}", aside(worktree), std::strerror(errno)));
    }
    return {};
}

Result<void, std::string> set_aside(const RemoveWorktree& wanted, const Registration& registration, Save save) {
    const GitWorktree& worktree = wanted.worktree;
    Registration moved = registration;
    if (leads_back(registration) && registration.path == worktree.path) {
        if (!move(worktree.path, aside(worktree))) {
            return fail(fmt::format("cannot move {} aside: {}", worktree.path, std::strerror(errno)));
        }
        moved.path = aside(worktree);
    }
    const auto kept = [&](const std::string& why) {
        if (const auto back = bring_back(worktree, registration); !back) return fail(why + "; " + back.error());
        return fail(why);
    };
    // Its path leads nowhere now. Who could still change it has something of it open, and is seen.
    if (moved.path == aside(worktree)) {
        const std::string why = refusal(wanted, examine_moved(worktree, moved).reasons);
        if (!why.empty()) return kept(why);
    }
    if (save == Save::yes) {
        if (auto saved = save_work_at(worktree, moved); !saved) {
            return kept(fmt::format("not removed: {}", saved.error()));
        }
    }
    if (auto marked = mark(registration, worktree.run, State::removing); !marked) return kept(marked.error());
    return {};
}

Result<void, std::string> take_away(const GitWorktree& worktree, const std::string& common_dir) {
    const auto registration = find_registration(common_dir, worktree.run);
    if (!registration) return {};
    // An older version marked before it moved.
    if (leads_back(*registration) && registration->path == worktree.path && !move(worktree.path, aside(worktree))) {
        return fail(fmt::format("cannot move {} aside: {}", worktree.path, std::strerror(errno)));
    }
    if (auto gone = remove_tree(aside(worktree)); !gone) return gone;
    if (status_of(worktree.path)) {
        return fail(fmt::format("not removed: {} is not the worktree of run {}", worktree.path, worktree.run));
    }
    return unregister(*registration);
}

// Whether the branch is gone. It stays if somebody uses it, or if it is all that keeps its commits.
Result<bool, std::string> delete_branch(const GitWorktree& worktree, const std::string& common_dir,
                                        const std::string& kept, const std::vector<ListedWorktree>& listed,
                                        const Git& git) {
    const auto tip = git.object(branch_ref(worktree.branch));
    if (!tip) return fail(tip.error());
    if (tip->empty()) return true;
    const auto uses = [&](const ListedWorktree& other) { return other.branch == worktree.branch; };
    if (std::ranges::any_of(listed, uses)) return false;
    const auto lost = unreachable_but_for(common_dir, worktree.branch, {*tip}, kept);
    if (!lost) return fail(lost.error());
    if (!lost->empty()) return false;
    // Only if it is still there where it was looked at.
    auto deleted = git.ask({"update-ref", "-d", branch_ref(worktree.branch), *tip});
    if (!deleted) return fail(deleted.error());
    return true;
}

Result<Removed, std::string> tidy_up(const GitWorktree& worktree, const std::string& common_dir) {
    const Git git = Git::of_repository(common_dir);
    const auto listed = list_worktrees(worktree.repository);
    if (!listed) return fail(listed.error());
    const bool still_listed =
        std::ranges::any_of(*listed, [&](const ListedWorktree& other) { return other.path == worktree.path; });
    if (still_listed || status_of(worktree.path) || status_of(aside(worktree))) {
        return fail(fmt::format("{} was removed and is still there", worktree.path));
    }

    const auto kept = git.object(kept_ref(worktree.run));
    if (!kept) return fail(kept.error());
    Removed removed{
        .kept_ref = kept->empty() ? "" : kept_ref(worktree.run), .branch_deleted = false, .teardown_failed = {}};
    const auto base = git.object(base_ref(worktree.run));
    if (!base) return fail(base.error());
    // The note of the base goes last. Where there is none, the branch of that name need not be this run's any more.
    if (base->empty()) {
        const auto tip = git.object(branch_ref(worktree.branch));
        if (!tip) return fail(tip.error());
        removed.branch_deleted = tip->empty();
        return removed;
    }
    const auto deleted = delete_branch(worktree, common_dir, *kept, *listed, git);
    if (!deleted) return fail(deleted.error());
    removed.branch_deleted = *deleted;
    if (auto gone = git.ask({"update-ref", "-d", base_ref(worktree.run)}); !gone) return fail(gone.error());
    return removed;
}

}  // namespace
}  // namespace interlock::supervisor
