// Making a worktree, and making one again from what was saved.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "supervisor/file_tree.h"
#include "supervisor/registration.h"
#include "supervisor/saved_work.h"
#include "supervisor/worktrees.h"

namespace interlock::supervisor {
namespace {

using State = Registration::State;

constexpr std::string_view include_file = ".worktreeinclude";
constexpr std::size_t included_files_max = 200'000;
constexpr std::uint64_t included_bytes_max = std::uint64_t{4} * 1024 * 1024 * 1024;

// Where a worktree begins, for a run that is new and for one that comes back.
struct Beginning {
    std::string common_dir;
    std::string run;
    std::string path;
    std::string branch;
    std::string subdirectory;
};

// The worktree that an earlier call has finished. What an earlier call left unfinished is gone afterwards.
Result<std::optional<GitWorktree>, std::string> made_before(const Beginning& beginning);
Result<std::string, std::string> remember_base(const Git& git, const Beginning& beginning);
// An empty worktree at `head`, a commit, on `branch` unless that is empty.
Result<Registration, std::string> enter_worktree(const Beginning& beginning, const std::string& branch,
                                                 const std::string& head);
// The files of its HEAD.
Result<void, std::string> fill_worktree(const Registration& registration);
// A worktree made from a sparse one has the same files.
Result<void, std::string> copy_sparseness(const Git& git, const std::string& from, const Registration& to);
Result<void, std::string> copy_included(const Git& git, const std::string& top, const std::string& path);
// The branch that HEAD was on, if it is still at that commit and free; else empty.
Result<std::string, std::string> branch_to_use(const SavedWork& saved, const std::string& common_dir);
Result<GitWorktree, std::string> finish(const Beginning& beginning, const Registration& registration,
                                        const std::string& base);

GitWorktree worktree_of(const Beginning& beginning, const std::string& base) {
    const std::string below = beginning.subdirectory.empty() ? "" : "/" + beginning.subdirectory;
    return {.run = beginning.run,
            .repository = main_worktree_of(beginning.common_dir),
            .path = beginning.path,
            .directory = beginning.path + below,
            .branch = beginning.branch,
            .base = base};
}

}  // namespace

Result<GitWorktree, std::string> make_worktree(const MakeWorktree& wanted) {
    // 1. What is asked for.
    if (auto good = check_run_name(wanted.run); !good) return fail(good.error());
    auto path = canonical_path(wanted.path);
    if (!path) return fail(std::move(path.error()));
    const auto repository = find_repository(wanted.dir);
    if (!repository) return fail(repository.error());
    const Git git = Git::of_worktree(repository->common_dir, repository->git_dir, repository->top);
    if (auto named = git.ask({"check-ref-format", branch_ref(wanted.branch)}); !named) {
        return fail(fmt::format("\"{}\" is no name of a branch", wanted.branch));
    }

    // 2. One after the other, and only once.
    const auto lock = lock_repository(wanted.lock_dir, repository->common_dir);
    if (!lock) return fail(lock.error());
    const Beginning beginning{.common_dir = repository->common_dir,
                              .run = wanted.run,
                              .path = std::move(*path),
                              .branch = wanted.branch,
                              .subdirectory = repository->subdirectory};
    auto before = made_before(beginning);
    if (!before) return fail(std::move(before.error()));
    if (*before) return std::move(**before);

    // 3. The base is written down first: it says that the branch, if there is one at that commit, is this run's.
    const auto base = remember_base(git, beginning);
    if (!base) return fail(base.error());

    // 4. Make it. Whatever goes wrong from here on is undone, as far as it got.
    const auto undone = [&](std::string why) {
        if (auto undo = forget_worktree(beginning.common_dir, beginning.run, beginning.branch); !undo) {
            why += "; and it could not be undone: " + undo.error();
        }
        return fail(std::move(why));
    };
    const auto branch = git.object(branch_ref(beginning.branch));
    if (!branch) return undone(branch.error());
    if (branch->empty()) {
        auto begun = git.ask({"update-ref", "--create-reflog", "-m", "branch: Created by Interlock",
                              branch_ref(beginning.branch), *base, ""});
        if (!begun) return undone(begun.error());
    }
    const auto registration = enter_worktree(beginning, beginning.branch, *base);
    if (!registration) return undone(registration.error());
    if (auto sparse = copy_sparseness(git, repository->git_dir, *registration); !sparse) return undone(sparse.error());
    if (auto filled = fill_worktree(*registration); !filled) return undone(filled.error());
    if (auto copied = copy_included(git, repository->top, beginning.path); !copied) return undone(copied.error());
    auto worktree = finish(beginning, *registration, *base);
    if (!worktree) return undone(worktree.error());
    return worktree;
}

Result<GitWorktree, std::string> restore_worktree(const std::string& repository, const std::string& run,
                                                  const std::string& path, const std::string& lock_dir) {
    // 1. What was kept.
    if (auto good = check_run_name(run); !good) return fail(good.error());
    auto wanted_path = canonical_path(path);
    if (!wanted_path) return fail(std::move(wanted_path.error()));
    const auto common_dir = common_dir_of(repository);
    if (!common_dir) return fail(common_dir.error());
    const auto lock = lock_repository(lock_dir, *common_dir);
    if (!lock) return fail(lock.error());
    const auto saved = read_saved_work(*common_dir, run);
    if (!saved) return fail(saved.error());
    const Beginning beginning{.common_dir = *common_dir,
                              .run = run,
                              .path = std::move(*wanted_path),
                              .branch = saved->branch,
                              .subdirectory = saved->subdirectory};
    auto before = made_before(beginning);
    if (!before) return fail(std::move(before.error()));
    if (*before) return std::move(**before);

    // 2. The branch, unless it is still where it was. It is not moved: somebody may have gone on with it.
    const Git git = Git::of_repository(*common_dir);
    const auto tip = git.object(branch_ref(saved->branch));
    if (!tip) return fail(tip.error());
    if (!tip->empty() && *tip != saved->branch_tip) {
        return fail(
            fmt::format("the branch {} is no longer where run {} left it; rename it first", saved->branch, run));
    }
    if (auto named = git.ask({"update-ref", base_ref(run), saved->base}); !named) return fail(named.error());
    if (tip->empty() && !saved->branch_tip.empty()) {
        auto made = git.ask({"update-ref", branch_ref(saved->branch), saved->branch_tip, ""});
        if (!made) return fail(made.error());
    }

    // 3. The worktree, on its branch if that can be, and the files that were not committed.
    const auto undone = [&](std::string why) {
        // The branch stays where it was left: the kept ref has its commits, and the next try finds it in place.
        if (auto left = find_registration(*common_dir, run)) {
            if (auto undo = discard_half_made(*left); !undo) why += "; and it could not be undone: " + undo.error();
        }
        return fail(std::move(why));
    };
    const std::string head = saved->head.empty() ? saved->base : saved->head;
    const auto on_branch = branch_to_use(*saved, *common_dir);
    if (!on_branch) return undone(on_branch.error());
    const auto registration = enter_worktree(beginning, *on_branch, head);
    if (!registration) return undone(registration.error());
    if (auto filled = fill_worktree(*registration); !filled) return undone(filled.error());
    if (auto put = put_back(*saved, *registration); !put) return undone(put.error());
    auto worktree = finish(beginning, *registration, saved->base);
    if (!worktree) return undone(worktree.error());
    return worktree;
}

namespace {

Result<std::optional<GitWorktree>, std::string> made_before(const Beginning& beginning) {
    const auto found = find_registration(beginning.common_dir, beginning.run);
    if (!found) return std::nullopt;
    if (found->state == State::half_made) {
        if (auto discarded = discard_half_made(*found); !discarded) return fail(discarded.error());
        return std::nullopt;
    }
    if (found->state == State::removing) {
        return fail(fmt::format("the worktree of run {} is being removed", beginning.run));
    }
    if (found->path != beginning.path || !leads_back(*found)) {
        return fail(fmt::format("run {} has a worktree already, made at {}", beginning.run, found->path));
    }
    const auto base = Git::of_repository(beginning.common_dir).object(base_ref(beginning.run));
    if (!base) return fail(base.error());
    return worktree_of(beginning, *base);
}

Result<std::string, std::string> remember_base(const Git& git, const Beginning& beginning) {
    const auto branch = git.object(branch_ref(beginning.branch));
    if (!branch) return fail(branch.error());
    const auto base = git.object(base_ref(beginning.run));
    if (!base) return fail(base.error());
    if (!branch->empty() && *branch != *base) {
        return fail(fmt::format("there is a branch {} already; name another", beginning.branch));
    }
    if (!base->empty()) return *base;
    const auto head = git.object("HEAD^{commit}");
    if (!head) return fail(head.error());
    if (auto named = git.ask({"update-ref", base_ref(beginning.run), *head, ""}); !named) return fail(named.error());
    return *head;
}

Result<Registration, std::string> enter_worktree(const Beginning& beginning, const std::string& branch,
                                                 const std::string& head) {
    return register_worktree(beginning.common_dir, beginning.run, beginning.path,
                             branch.empty() ? head : "ref: " + branch_ref(branch));
}

Result<void, std::string> fill_worktree(const Registration& registration) {
    const Git git = Git::of_worktree(registration.common_dir, registration.git_dir, registration.path);
    if (auto done = git.ask({"reset", "--hard", "--quiet", "--no-recurse-submodules"}); !done)
        return fail(done.error());
    return {};
}

Result<void, std::string> copy_sparseness(const Git& git, const std::string& from, const Registration& to) {
    if (git.setting("core.sparsecheckout") != "true") return {};
    std::uint64_t bytes_left = included_bytes_max;
    if (auto copied = copy_file(from, to.git_dir, "info/sparse-checkout", bytes_left); !copied) {
        return fail(copied.error());
    }
    if (git.setting("extensions.worktreeconfig") != "true") return {};
    const std::string cone = git.setting("core.sparsecheckoutcone") == "true" ? "true" : "false";
    const auto put =
        put_file(to.git_dir, "config.worktree",
                 {.bytes = fmt::format("[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = {}\n", cone)});
    if (!put) return fail(put.error());
    return {};
}

// git itself says which files the patterns match: those that are not tracked, ignored or not. What it lists with a
// slash at the end is a repository of its own.
Result<void, std::string> copy_included(const Git& git, const std::string& top, const std::string& path) {
    const std::string patterns = top + "/" + std::string(include_file);
    const auto status = status_of(patterns);
    if (!status || !S_ISREG(status->st_mode)) return {};
    const auto listed = git.ask({"ls-files", "-z", "--others", "--ignored", "--exclude-from=" + patterns});
    if (!listed) return fail(listed.error());
    const auto names = pieces(*listed, '\0');
    if (names.size() > included_files_max) {
        return fail(
            fmt::format("{} names {} files; at most {} are copied", include_file, names.size(), included_files_max));
    }
    std::uint64_t bytes_left = included_bytes_max;
    for (const std::string& name : names) {
        if (name.ends_with('/')) continue;
        if (auto copied = copy_file(top, path, name, bytes_left); !copied) {
            return fail(
                fmt::format("{}: {}; at most {} bytes are copied", include_file, copied.error(), included_bytes_max));
        }
    }
    return {};
}

Result<std::string, std::string> branch_to_use(const SavedWork& saved, const std::string& common_dir) {
    if (saved.head.empty() || !saved.head_ref.starts_with(branch_ref(""))) return std::string();
    const std::string branch = saved.head_ref.substr(branch_ref("").size());
    const auto tip = Git::of_repository(common_dir).object(saved.head_ref);
    if (!tip) return fail(tip.error());
    const auto listed = list_worktrees(common_dir);
    if (!listed) return fail(listed.error());
    const bool used = std::ranges::any_of(*listed, [&](const ListedWorktree& other) { return other.branch == branch; });
    return *tip == saved.head && !used ? branch : std::string();
}

Result<GitWorktree, std::string> finish(const Beginning& beginning, const Registration& registration,
                                        const std::string& base) {
    // A workspace that git does not know, because nothing in it is tracked, is there all the same.
    if (auto there = put_directory(beginning.path, beginning.subdirectory); !there) return fail(there.error());
    if (auto marked = mark(registration, beginning.run, State::made); !marked) return fail(marked.error());
    return worktree_of(beginning, base);
}

}  // namespace
}  // namespace interlock::supervisor
