#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/worktrees.h"
#include "supervisor/worktrees_test_support.h"

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;

class RemoveWorktreeTest : public WorktreesTest {
 protected:
    RemoveWorktreeTest() : repository_(made_repository()) {}

    GitWorktree restored(const GitWorktree& worktree) {
        const auto again = restore_worktree(repository_, worktree.run, worktree.path, locks_);
        EXPECT_TRUE(again) << (again ? "" : again.error());
        return again.value_or(GitWorktree{});
    }
    static RemoveWorktree with_teardown(RemoveWorktree what) {
        what.tear_down = [text = what.worktree.teardown](const std::string& dir) -> Result<std::string, std::string> {
            const int status = std::system(fmt::format("cd {} && ({})", shell_word(dir), text).c_str());
            return status == 0 ? "" : fmt::format("exit code {}", WEXITSTATUS(status));
        };
        return what;
    }
    std::string kept(const std::string& what) const {
        return sh(repository_, "git rev-parse refs/interlock/kept/run_1" + what);
    }

    std::string repository_;
};

// Everything that git can hold, in ways it does not like.
void fill(const std::string& path, const std::function<std::string(const std::string&)>& in_worktree,
          const std::function<void(const std::string&, const std::string&)>& write) {
    in_worktree("echo committed > committed; git add .; git commit -q -m committed");
    in_worktree(
        "echo staged > staged; git add staged; echo 'staged, then changed' > both; git add both; echo later > both");
    in_worktree("rm sub/file; echo more >> tracked; chmod +x committed; ln -s nowhere link; git mv .gitignore renamed");
    in_worktree("echo ignored > .gitignore");
    write(path + "/bytes", std::string("\0\r\n\xff\n\r", 6));
    write(path + "/deep/er/file", "deep");
    write(path + "/empty", "");
    write(path + "/name\nwith \"all\"\\\xff", "odd");
    write(path + "/crlf.txt", "mixed\r\nline\nends\r\n");
}

TEST_F(RemoveWorktreeTest, forced_and_restored_it_is_the_same_byte_for_byte) {
    sh(repository_, "echo '*.txt text eol=crlf' > .gitattributes; git add .; git commit -q -m attributes");
    const GitWorktree worktree = made(wanted(repository_ + "/sub"));
    fill(worktree.path, [&](const std::string& script) { return sh(worktree.path, script); }, write);
    const auto files_before = files(worktree.path);
    const std::string status_before = sh(worktree.path, "git status --porcelain");
    const std::string log_before = sh(worktree.path, "git log --format=%H");

    const Removed gone = removed(removal(worktree, Force::yes));

    EXPECT_EQ(gone.kept_ref, "refs/interlock/kept/run_1");
    EXPECT_TRUE(gone.branch_deleted);
    EXPECT_EQ(sh(repository_, "git for-each-ref --format='%(refname)'"), "refs/heads/main\nrefs/interlock/kept/run_1");
    const GitWorktree again = restored(worktree);
    EXPECT_EQ(files(again.path), files_before);
    EXPECT_EQ(sh(again.path, "git status --porcelain"), status_before);
    EXPECT_EQ(sh(again.path, "git log --format=%H"), log_before);
    EXPECT_EQ(sh(again.path, "git symbolic-ref HEAD"), "refs/heads/interlock/run_1");
    EXPECT_EQ(again.base, worktree.base);
    EXPECT_EQ(again.directory, worktree.directory);
    EXPECT_EQ(again.branch, worktree.branch);
    EXPECT_EQ(again.repository, worktree.repository);
    // And once more, from what was restored.
    removed(removal(again, Force::yes));
    EXPECT_EQ(files(restored(again).path), files_before);
}

TEST_F(RemoveWorktreeTest, what_is_saved_is_everything_that_was_on_disk) {
    const GitWorktree worktree = made(wanted(repository_));
    fill(worktree.path, [&](const std::string& script) { return sh(worktree.path, script); }, write);
    write(worktree.path + "/ignored", "not saved");

    const auto commit = save_work(worktree);

    ASSERT_TRUE(commit) << commit.error();
    EXPECT_EQ(kept(""), *commit);
    fs::create_directory(root_ + "/saved");
    sh(repository_, "git archive refs/interlock/kept/run_1 | tar x -C ../saved");
    auto expected = files(worktree.path);
    EXPECT_EQ(expected.erase("ignored"), 1u);
    EXPECT_EQ(files(root_ + "/saved"), expected);
    // Nothing of the worktree's own has changed.
    EXPECT_EQ(sh(worktree.path, "git diff --cached --name-only"), "both\nrenamed\nstaged");
    EXPECT_FALSE(fs::exists(repository_ + "/.git/worktrees/run_1/interlock-index"));
}

TEST_F(RemoveWorktreeTest, what_was_saved_earlier_is_not_forgotten) {
    const GitWorktree worktree = made(wanted(repository_));
    write(worktree.path + "/new", "first");
    const auto first = save_work(worktree);
    ASSERT_TRUE(first) << first.error();
    fs::remove(worktree.path + "/new");

    const auto second = save_work(worktree);

    ASSERT_TRUE(second) << second.error();
    EXPECT_EQ(kept(""), *second);
    EXPECT_EQ(sh(repository_, "git merge-base --is-ancestor " + *first + " refs/interlock/kept/run_1"), "");
    EXPECT_EQ(sh(repository_, "git show " + *first + ":new"), "first");
}

TEST_F(RemoveWorktreeTest, force_saves_commits_that_only_the_reflog_knows) {
    const GitWorktree worktree = made(wanted(repository_));
    sh(worktree.path, "echo a > a; git add a; git commit -q -m a; git reset -q --hard HEAD~; git checkout -q --detach");
    sh(worktree.path, "echo b > b; git add b; git commit -q -m b");
    const std::string lost = sh(worktree.path, "git rev-parse interlock/run_1@{1}");
    const std::string detached = sh(worktree.path, "git rev-parse HEAD");

    removed(removal(worktree, Force::yes));

    sh(repository_, "git reflog expire --expire=now --all; git gc -q --prune=now");
    EXPECT_EQ(sh(repository_, "git log -1 --format=%s " + lost), "a");
    const GitWorktree again = restored(worktree);
    EXPECT_EQ(sh(again.path, "git rev-parse HEAD"), detached);
    EXPECT_EQ(sh(again.path, "git rev-parse interlock/run_1"), worktree.base);
    EXPECT_EQ(sh(again.path, "git symbolic-ref -q HEAD || echo detached"), "detached");
}

TEST_F(RemoveWorktreeTest, a_worktree_on_a_branch_without_commits_is_saved_with_all_it_was_before) {
    const GitWorktree worktree = made(wanted(repository_));
    sh(worktree.path,
       "echo a > a; git add a; git commit -q -m a; git checkout -q --detach; git commit -q --allow-empty -m b");
    const std::string detached =
        sh(worktree.path, "git rev-parse HEAD; git checkout -q --orphan fresh; git rm -q --cached a");
    const auto before = files(worktree.path);
    EXPECT_EQ(reasons(worktree), (Names{"modified", "untracked", "unreachable_commits"}));

    removed(removal(worktree, Force::yes));

    sh(repository_, "git reflog expire --expire=now --all; git gc -q --prune=now; git cat-file -e " + detached);
    const GitWorktree again = restored(worktree);
    EXPECT_EQ(files(again.path), before);
    EXPECT_EQ(sh(repository_, "git log -1 --format=%s interlock/run_1"), "a");
}

TEST_F(RemoveWorktreeTest, an_unfinished_merge_is_saved_as_the_files_that_are_there) {
    const GitWorktree worktree = made(wanted(repository_));
    sh(repository_, "echo theirs > tracked; git commit -q -a -m theirs");
    sh(worktree.path, "echo ours > tracked; git commit -q -a -m ours; git merge -q main || true");
    const auto before = files(worktree.path);
    EXPECT_EQ(reasons(worktree), (Names{"modified", "unreachable_commits", "operation_in_progress"}));

    removed(removal(worktree, Force::yes));

    EXPECT_EQ(files(restored(worktree).path), before);
}

TEST_F(RemoveWorktreeTest, force_goes_against_a_lock_and_a_worktree_that_is_gone_from_disk) {
    const GitWorktree locked = made(wanted(repository_, "run_2"));
    sh(repository_, "git worktree unlock ../trees/run_2; git worktree lock ../trees/run_2");
    removed(removal(locked, Force::yes));
    const GitWorktree worktree = made(wanted(repository_));
    sh(worktree.path,
       "echo committed > committed; git add .; git commit -q -m committed; echo staged > staged; git add staged");
    fs::remove_all(worktree.path);
    EXPECT_FALSE(remove_worktree(removal(worktree)));

    EXPECT_TRUE(removed(removal(worktree, Force::yes)).branch_deleted);

    const GitWorktree again = restored(worktree);
    EXPECT_EQ(content(again.path + "/committed"), "committed\n");
    EXPECT_EQ(content(again.path + "/staged"), "staged\n");
}

TEST_F(RemoveWorktreeTest, a_branch_that_another_worktree_uses_stays) {
    const GitWorktree worktree = made(wanted(repository_));
    sh(worktree.path, "git checkout -q --detach");
    sh(repository_, "git worktree add -q ../other interlock/run_1");

    EXPECT_FALSE(removed(removal(worktree)).branch_deleted);

    EXPECT_EQ(sh(root_ + "/other", "git rev-parse HEAD"), worktree.base);
}

TEST_F(RemoveWorktreeTest, the_teardown_runs_first_and_cannot_prevent_the_removal) {
    GitWorktree worktree = made(wanted(repository_ + "/sub"));
    worktree.teardown = "pwd > ../../../torn_down; rm -rf file; echo no good >&2; exit 3";

    const Removed gone = removed(with_teardown(removal(worktree, Force::yes)));

    EXPECT_EQ(content(root_ + "/torn_down"), worktree.directory + "\n");
    EXPECT_NE(gone.teardown_failed.find("exit code 3"), std::string::npos);
    // What it destroyed was saved before.
    EXPECT_EQ(content(restored(worktree).path + "/sub/file"), "two\n");
}

TEST_F(RemoveWorktreeTest, what_the_teardown_changes_keeps_an_unforced_removal) {
    GitWorktree worktree = made(wanted(repository_));
    worktree.teardown = "echo report > report";

    EXPECT_FALSE(remove_worktree(with_teardown(removal(worktree))));

    EXPECT_EQ(content(worktree.path + "/report"), "report\n");
}

TEST_F(RemoveWorktreeTest, a_teardown_that_cannot_run_as_the_run_did_keeps_the_worktree) {
    GitWorktree worktree = made(wanted(repository_));
    worktree.teardown = "true";
    RemoveWorktree what = removal(worktree, Force::yes);
    what.tear_down = [](const std::string&) { return fail(std::string("there is no sandbox")); };

    const auto refused = remove_worktree(what);

    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().find("there is no sandbox"), std::string::npos);
    EXPECT_TRUE(fs::exists(worktree.path + "/tracked"));
}

TEST_F(RemoveWorktreeTest, write_protected_directories_go_too) {
    const GitWorktree worktree = made(wanted(repository_));
    write(worktree.path + "/ignored/cache/file", "x");
    chmod((worktree.path + "/ignored/cache/file").c_str(), 0444);
    chmod((worktree.path + "/ignored/cache").c_str(), 0555);

    removed(removal(worktree));
}

TEST_F(RemoveWorktreeTest, a_removal_can_be_repeated_from_wherever_it_stopped) {
    const auto fresh = [&] {
        const GitWorktree worktree = made(wanted(repository_));
        sh(worktree.path, "echo a > a; git add a; git commit -q -m a; echo b > b");
        EXPECT_TRUE(save_work(worktree));
        write(repository_ + "/.git/worktrees/run_1/interlock", "removing run_1\n");
        return worktree;
    };
    const auto expect_finished = [&](const GitWorktree& worktree, const std::string& state) {
        const Removed gone = removed(removal(worktree));
        EXPECT_TRUE(gone.branch_deleted) << state;
        EXPECT_EQ(gone.kept_ref, "refs/interlock/kept/run_1") << state;
        EXPECT_EQ(kept(":b").size(), 40u) << state;
        const Removed again = removed(removal(worktree));
        EXPECT_TRUE(again.branch_deleted) << state;
    };

    GitWorktree worktree = fresh();
    EXPECT_FALSE(make_worktree(wanted(repository_)));
    expect_finished(worktree, "marked");
    worktree = fresh();
    sh(repository_, "git worktree unlock ../trees/run_1");
    expect_finished(worktree, "unlocked");
    worktree = fresh();
    fs::rename(worktree.path, worktree.path + ".removing");
    expect_finished(worktree, "moved aside");
    worktree = fresh();
    fs::rename(worktree.path, worktree.path + ".removing");
    fs::remove(worktree.path + ".removing/.git");
    fs::remove(worktree.path + ".removing/a");
    expect_finished(worktree, "half gone");
    worktree = fresh();
    fs::remove_all(worktree.path);
    expect_finished(worktree, "gone from disk");
    worktree = fresh();
    fs::remove_all(worktree.path);
    fs::remove_all(repository_ + "/.git/worktrees/run_1");
    expect_finished(worktree, "gone from the list");
    worktree = fresh();
    fs::remove_all(worktree.path);
    sh(repository_, "rm -rf .git/worktrees/run_1; git branch -q -D interlock/run_1");
    expect_finished(worktree, "without its branch");
}

TEST_F(RemoveWorktreeTest, a_removal_that_is_killed_at_any_moment_loses_nothing_and_can_be_repeated) {
    for (int i = 0; i < 6; ++i) {
        const GitWorktree worktree = made(wanted(repository_, fmt::format("run_k{}", i)));
        sh(worktree.path, "echo a > a; git add a; git commit -q -m a; echo b > b");
        const auto before = files(worktree.path);
        killed_after(std::chrono::milliseconds(40 * i),
                     [&] { return remove_worktree(removal(worktree, Force::yes)).has_value(); });

        removed(removal(worktree, Force::yes));

        EXPECT_EQ(files(restored(worktree).path), before);
    }
}

TEST_F(RemoveWorktreeTest, what_took_the_place_of_a_half_removed_worktree_is_left_alone) {
    const GitWorktree worktree = made(wanted(repository_));
    write(repository_ + "/.git/worktrees/run_1/interlock", "removing run_1\n");
    fs::rename(worktree.path, worktree.path + ".removing");
    write(worktree.path + "/theirs", "x");

    EXPECT_FALSE(remove_worktree(removal(worktree, Force::yes)));

    EXPECT_EQ(content(worktree.path + "/theirs"), "x");
}

TEST_F(RemoveWorktreeTest, what_took_the_place_of_a_worktree_that_is_already_deleted_is_left_alone) {
    const GitWorktree worktree = made(wanted(repository_));
    write(repository_ + "/.git/worktrees/run_1/interlock", "removing run_1\n");
    fs::remove_all(worktree.path);
    write(worktree.path + "/theirs", "x");

    EXPECT_FALSE(remove_worktree(removal(worktree, Force::yes)));

    EXPECT_EQ(content(worktree.path + "/theirs"), "x");
    fs::remove_all(worktree.path);
    removed(removal(worktree));
}

TEST_F(RemoveWorktreeTest, a_removal_that_has_begun_to_delete_does_not_save_what_is_left) {
    const GitWorktree worktree = made(wanted(repository_));
    write(worktree.path + "/new", "x");
    write(worktree.path + ".removing/in the way", "x");
    EXPECT_FALSE(remove_worktree(removal(worktree, Force::yes)));
    EXPECT_EQ(content(worktree.path + "/new"), "x");
    fs::remove_all(worktree.path + ".removing");
    EXPECT_TRUE(save_work(worktree));
    write(repository_ + "/.git/worktrees/run_1/interlock", "removing run_1\n");
    EXPECT_EQ(reasons(worktree), Names{});
    // As if the deletion had come that far.
    fs::rename(worktree.path, worktree.path + ".removing");
    fs::remove(worktree.path + ".removing/new");

    removed(removal(worktree, Force::yes));

    EXPECT_EQ(content(restored(worktree).path + "/new"), "x");
}

TEST_F(RemoveWorktreeTest, a_branch_that_nobody_else_keeps_survives_its_worktree) {
    const GitWorktree worktree = made(wanted(repository_));
    sh(worktree.path, "echo a > a; git add a; git commit -q -m a");
    // By somebody who does not ask us.
    sh(repository_, "git worktree remove -f -f ../trees/run_1");

    EXPECT_FALSE(removed(removal(worktree)).branch_deleted);

    EXPECT_EQ(sh(repository_, "git log -1 --format=%s interlock/run_1"), "a");
}

TEST_F(RemoveWorktreeTest, a_restore_can_be_repeated_and_does_not_move_a_branch) {
    const GitWorktree worktree = made(wanted(repository_));
    sh(worktree.path, "echo a > a; git add a; git commit -q -m a; echo b > b; echo c >> tracked");
    const auto before = files(worktree.path);
    removed(removal(worktree, Force::yes));
    EXPECT_FALSE(restore_worktree(repository_, "run_2", root_ + "/trees/run_2", locks_));

    // Interrupted before the mark, with some files brought back.
    EXPECT_EQ(files(restored(worktree).path), before);
    fs::remove(repository_ + "/.git/worktrees/run_1/interlock");
    fs::remove(worktree.path + "/b");
    EXPECT_EQ(files(restored(worktree).path), before);
    // Finished, and worked in: nothing is brought back over it.
    write(worktree.path + "/b", "newer");
    EXPECT_EQ(content(restored(worktree).path + "/b"), "newer");
    removed(removal(worktree, Force::yes));
    sh(repository_, "git branch interlock/run_1 main");
    const auto refused = restore_worktree(repository_, "run_1", worktree.path, locks_);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().find("no longer where"), std::string::npos);
    sh(repository_, "git branch -q -m interlock/run_1 theirs");
    EXPECT_EQ(content(restored(worktree).path + "/b"), "newer");
}

TEST_F(RemoveWorktreeTest, the_disk_use_of_a_directory_counts_each_file_once) {
    const std::string dir = root_ + "/sized";
    write(dir + "/a/file", std::string(1'000'000, 'x'));
    const auto once = disk_bytes(dir);
    fs::create_hard_link(dir + "/a/file", dir + "/again");
    fs::create_symlink("/", dir + "/link");

    EXPECT_GE(once, 1'000'000u);
    EXPECT_LT(once, 1'200'000u);
    EXPECT_LT(disk_bytes(dir), once + 100'000);
    EXPECT_EQ(disk_bytes(root_ + "/nowhere"), 0u);
}

}  // namespace
}  // namespace interlock::supervisor
