#include "supervisor/worktrees.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "supervisor/git.h"
#include "supervisor/registration.h"

namespace interlock::supervisor {

Result<Repository, std::string> find_repository(const std::string& dir) {
    if (!dir.starts_with('/')) return fail(fmt::format("\"{}\" is not an absolute path", dir));
    std::error_code error;
    if (!std::filesystem::is_directory(dir, error)) return fail(fmt::format("there is no directory {}", dir));
    const Git git = Git::in(dir);
    const auto inside = git.run({"rev-parse", "--is-inside-work-tree"});
    if (!inside) return fail(inside.error());
    if (inside->exit_code != 0 && inside->err.find("not a git repository") != std::string::npos) {
        return fail(fmt::format("{} is not in a git repository", dir));
    }
    if (inside->exit_code != 0) return fail(in_its_own_words("rev-parse", *inside));
    if (inside->out != "true\n") {
        const auto bare = git.line({"rev-parse", "--is-bare-repository"});
        if (!bare) return fail(bare.error());
        return fail(*bare == "true"
                        ? fmt::format("{} is a bare repository, which has no files; name one of its worktrees", dir)
                        : fmt::format("{} is where git keeps its own files; name the directory above it", dir));
    }

    auto top = git.line({"rev-parse", "--show-toplevel"});
    if (!top) return fail(std::move(top.error()));
    auto common_dir = common_dir_of(dir);
    if (!common_dir) return fail(std::move(common_dir.error()));
    auto subdirectory = git.line({"rev-parse", "--show-prefix"});
    if (!subdirectory) return fail(std::move(subdirectory.error()));
    if (subdirectory->ends_with('/')) subdirectory->pop_back();
    auto git_dir = git.line({"rev-parse", "--absolute-git-dir"});
    if (!git_dir) return fail(std::move(git_dir.error()));
    const auto head = Git::of_worktree(*common_dir, *git_dir, *top).object("HEAD^{commit}");
    if (!head) return fail(head.error());
    if (head->empty()) {
        return fail(fmt::format("the repository of {} has no commit yet, so there is nothing to begin with", dir));
    }
    return Repository{.top = std::move(*top),
                      .common_dir = std::move(*common_dir),
                      .git_dir = std::move(*git_dir),
                      .subdirectory = std::move(*subdirectory)};
}

Result<std::vector<ListedWorktree>, std::string> list_worktrees(const std::string& repository) {
    const auto common_dir = common_dir_of(repository);
    if (!common_dir) return fail(common_dir.error());
    // The directory itself and not through a view, because git tells the main worktree by its name.
    const auto listed =
        Git::in(*common_dir).with_env("GIT_DIR=" + *common_dir).ask({"worktree", "list", "--porcelain", "-z"});
    if (!listed) return fail(listed.error());
    std::vector<ListedWorktree> worktrees;
    for (const std::string& attribute : pieces(*listed, '\0')) {
        const auto space = attribute.find(' ');
        const std::string name = attribute.substr(0, space);
        std::string value = space == std::string::npos ? "" : attribute.substr(space + 1);
        if (name == "worktree") worktrees.push_back({.path = std::move(value), .head = {}, .branch = {}, .locked = {}});
        if (worktrees.empty()) continue;
        ListedWorktree& last = worktrees.back();
        if (name == "HEAD") last.head = std::move(value);
        if (name == "branch") last.branch = value.starts_with("refs/heads/") ? value.substr(11) : value;
        if (name == "bare") last.bare = true;
        if (name == "locked") last.locked = std::move(value);
    }
    return worktrees;
}

}  // namespace interlock::supervisor
