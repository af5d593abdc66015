// Removing a worktree, whole or from where an interrupted removal got to.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "supervisor/file_tree.h"
#include "supervisor/reasons_to_keep.h"
#include "supervisor/registration.h"
#include "supervisor/subprocess.h"
#include "supervisor/worktree_commits.h"
#include "supervisor/worktrees.h"

namespace interlock::supervisor {
namespace {

using State = Registration::State;

constexpr auto teardown_timeout = std::chrono::seconds(60);

// Why it may not be removed, as one sentence.
std::string refusal(const RemoveWorktree& wanted, const std::vector<Reason>& reasons);
std::string run_teardown(const Worktree& worktree);
// Everything after the last check. It begins again wherever it stopped.
Result<void, std::string> take_away(const Worktree& worktree, const std::string& common_dir, const OpenFile& lock);
Result<Removed, std::string> tidy_up(const Worktree& worktree, const std::string& common_dir, const OpenFile& lock);

std::string aside(const Worktree& worktree) { return worktree.path + ".removing"; }

}  // namespace

Result<Removed, std::string> remove_worktree(const RemoveWorktree& wanted) {
    const Worktree& worktree = wanted.worktree;
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
    const bool tears_down = found && found->state == State::made && !worktree.teardown.empty();
    if (tears_down) {
        if (std::string why = refusal(wanted, reasons_to_keep(worktree, Lease::none)); !why.empty()) return fail(why);
        if (wanted.force == Force::yes) {
            if (auto saved = save_work(worktree); !saved) return fail(fmt::format("not removed: {}", saved.error()));
        }
        teardown_failed = run_teardown(worktree);
    }

    // 2. With the lock: look, also at what the teardown has done.
    const auto lock = lock_repository(wanted.lock_dir, *common_dir);
    if (!lock) return fail(lock.error());
    const auto registration = find_registration(*common_dir, worktree.run);
    if (!registration && status_of(worktree.path)) {
        return fail(fmt::format("not removed: {} is not the worktree of run {}", worktree.path, worktree.run));
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
        if (save) {
            if (auto saved = save_work(worktree); !saved) return fail(fmt::format("not removed: {}", saved.error()));
        }
        // From here on nothing in it is the only one of its kind, and a removal that is interrupted can only go on.
        if (auto marked = mark(*registration, worktree.run, State::removing); !marked) return fail(marked.error());
    }

    // 3. Take it away, and see that it is gone.
    if (auto gone = take_away(worktree, *common_dir, *lock); !gone) return fail(gone.error());
    auto removed = tidy_up(worktree, *common_dir, *lock);
    if (removed) removed->teardown_failed = std::move(teardown_failed);
    return removed;
}

namespace {

std::string refusal(const RemoveWorktree& wanted, const std::vector<Reason>& reasons) {
    std::string why;
    for (const Reason& reason : reasons) {
        const bool gone = reason.keeps == Keeps::not_ours && !status_of(wanted.worktree.path);
        // What was not committed and what nobody else has is saved; a lock is what force is meant against.
        const bool overridden = reason.keeps == Keeps::modified || reason.keeps == Keeps::untracked ||
                                reason.keeps == Keeps::unreachable_commits ||
                                reason.keeps == Keeps::operation_in_progress ||
                                reason.keeps == Keeps::locked_by_other || gone;
        if (wanted.force == Force::yes && overridden) continue;
        why += fmt::format("{}{}: {}", why.empty() ? "not removed: " : "; ",
                           boost::describe::enum_to_string(reason.keeps, "?"), reason.detail);
    }
    return why;
}

std::string run_teardown(const Worktree& worktree) {
    if (!is_directory(worktree.path)) return "";
    const std::string& dir = is_directory(worktree.directory) ? worktree.directory : worktree.path;
    const auto finished = run_program({"/bin/sh", "-c", worktree.teardown},
                                      {.dir = dir, .timeout = teardown_timeout, .output_max = std::size_t{1} << 30});
    if (!finished) return fmt::format("the teardown: {}", finished.error());
    if (finished->exit_code == 0) return "";
    return fmt::format("the teardown ended with exit code {}: {}", finished->exit_code,
                       finished->err.substr(0, finished->err.find('\n')));
}

Result<void, std::string> take_away(const Worktree& worktree, const std::string& common_dir, const OpenFile& lock) {
    const auto registration = find_registration(common_dir, worktree.run);
    if (!registration) return {};
    const Git git = Git::of_repository(common_dir).with_lock(lock.fd());
    if (registration->lock) {
        // It may be that git cannot find it any more; what counts is that it is gone in the end.
        if (auto unlocked = git.run({"worktree", "unlock", worktree.path}); !unlocked) return fail(unlocked.error());
    }
    // Moved aside first. So the directory under this name is the whole worktree or is not there, and whatever is put in
    // its place after a crash is never taken for the rest of it.
    if (leads_back(*registration) && registration->path == worktree.path) {
        if (rename(worktree.path.c_str(), aside(worktree).c_str()) != 0) {
            return fail(fmt::format("cannot move {} aside: {}", worktree.path, std::strerror(errno)));
        }
    }
    if (auto gone = remove_tree(aside(worktree)); !gone) return gone;
    if (status_of(worktree.path)) {
        return fail(fmt::format("not removed: {} is not the worktree of run {}", worktree.path, worktree.run));
    }
    auto removed = git.ask({"worktree", "remove", "--force", "--force", worktree.path});
    if (!removed) return fail(removed.error());
    return {};
}

// Whether the branch is gone. It stays if somebody uses it, or if it is all that keeps its commits.
Result<bool, std::string> delete_branch(const Worktree& worktree, const std::string& common_dir,
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

Result<Removed, std::string> tidy_up(const Worktree& worktree, const std::string& common_dir, const OpenFile& lock) {
    const Git git = Git::of_repository(common_dir).with_lock(lock.fd());
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
