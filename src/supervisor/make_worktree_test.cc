#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/worktrees.h"
#include "supervisor/worktrees_test_support.h"

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;

std::string refusal(const Result<GitWorktree, std::string>& made) { return made ? "" : made.error(); }
std::string refusal(const Result<Repository, std::string>& found) { return found ? "" : found.error(); }
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(WorktreesTest, a_worktree_is_checked_out_on_a_branch_of_its_own_and_locked) {
    const std::string repository = made_repository();

    const GitWorktree worktree = made(wanted(repository));

    EXPECT_EQ(worktree.run, "run_1");
    EXPECT_EQ(worktree.repository, repository);
    EXPECT_EQ(worktree.directory, worktree.path);
    EXPECT_EQ(worktree.base, sh(repository, "git rev-parse HEAD"));
    EXPECT_EQ(sh(worktree.path, "git symbolic-ref HEAD"), "refs/heads/interlock/run_1");
    EXPECT_EQ(sh(worktree.path, "git status --porcelain"), "");
    EXPECT_EQ(content(worktree.path + "/sub/file"), "two\n");
    const auto listed = list_worktrees(repository);
    ASSERT_TRUE(listed);
    ASSERT_EQ(listed->size(), 2u);
    EXPECT_EQ(listed->at(0).path, repository);
    EXPECT_EQ(listed->at(0).branch, "main");
    EXPECT_FALSE(listed->at(0).locked);
    EXPECT_EQ(listed->at(1).path, worktree.path);
    EXPECT_EQ(listed->at(1).branch, worktree.branch);
    EXPECT_EQ(listed->at(1).head, worktree.base);
    EXPECT_EQ(listed->at(1).locked, "interlock run_1");
}

TEST_F(WorktreesTest, a_workspace_below_the_top_has_its_counterpart_in_the_worktree) {
    const std::string repository = made_repository();
    fs::create_directories(repository + "/not/tracked");

    EXPECT_EQ(made(wanted(repository + "/sub")).directory, root_ + "/trees/run_1/sub");
    const GitWorktree untracked = made(wanted(repository + "/not/tracked", "run_2"));

    EXPECT_EQ(untracked.directory, root_ + "/trees/run_2/not/tracked");
    EXPECT_TRUE(fs::is_directory(untracked.directory));
}

TEST_F(WorktreesTest, where_no_worktree_can_be_made_a_sentence_says_why) {
    const std::string repository = made_repository();
    sh(root_, "mkdir plain empty; git init -q empty; git clone -q --bare repository bare.git; touch file");

    EXPECT_TRUE(contains(refusal(find_repository(root_ + "/nowhere")), "there is no directory"));
    EXPECT_TRUE(contains(refusal(find_repository(root_ + "/file")), "there is no directory"));
    EXPECT_TRUE(contains(refusal(find_repository(root_ + "/plain")), "is not in a git repository"));
    EXPECT_TRUE(contains(refusal(find_repository(root_ + "/empty")), "has no commit yet"));
    EXPECT_TRUE(contains(refusal(find_repository(root_ + "/bare.git")), "is a bare repository"));
    EXPECT_TRUE(contains(refusal(find_repository(repository + "/.git")), "where git keeps its own files"));
    EXPECT_TRUE(contains(refusal(make_worktree(wanted(root_ + "/empty"))), "has no commit yet"));
    MakeWorktree bad = wanted(repository);
    bad.branch = "-x..y";
    EXPECT_TRUE(contains(refusal(make_worktree(bad)), "no name of a branch"));
    bad = wanted(repository);
    bad.run = "../run";
    EXPECT_TRUE(contains(refusal(make_worktree(bad)), "no name of a run"));
    bad = wanted(repository);
    bad.path = "relative";
    EXPECT_TRUE(contains(refusal(make_worktree(bad)), "not an absolute path"));
    EXPECT_EQ(sh(repository, "git for-each-ref --format='%(refname)'"), "refs/heads/main");
}

TEST_F(WorktreesTest, a_branch_or_directory_of_somebody_else_is_left_alone) {
    const std::string repository = made_repository();
    sh(repository, "git branch interlock/run_1");
    write(root_ + "/trees/run_2/theirs", "text");

    EXPECT_TRUE(contains(refusal(make_worktree(wanted(repository, "run_1"))), "there is a branch"));
    EXPECT_TRUE(contains(refusal(make_worktree(wanted(repository, "run_2"))), "already exists"));

    EXPECT_EQ(sh(repository, "git for-each-ref --format='%(refname)'"), "refs/heads/interlock/run_1\nrefs/heads/main");
    EXPECT_EQ(content(root_ + "/trees/run_2/theirs"), "text");
    EXPECT_TRUE(!fs::exists(repository + "/.git/worktrees") || fs::is_empty(repository + "/.git/worktrees"));
}

TEST_F(WorktreesTest, an_empty_directory_may_be_there_already) {
    const std::string repository = made_repository();
    fs::create_directories(root_ + "/trees/run_1");

    EXPECT_EQ(content(made(wanted(repository)).path + "/tracked"), "one\n");
}

TEST_F(WorktreesTest, asked_again_it_is_the_same_worktree_with_the_work_in_it) {
    const std::string repository = made_repository();
    const GitWorktree first = made(wanted(repository));
    write(first.path + "/work", "mine");
    sh(repository, "git commit -q --allow-empty -m later");

    const GitWorktree second = made(wanted(repository));

    EXPECT_EQ(second.path, first.path);
    EXPECT_EQ(second.base, first.base);
    EXPECT_EQ(content(second.path + "/work"), "mine");
    MakeWorktree elsewhere = wanted(repository);
    elsewhere.path = root_ + "/trees/other";
    EXPECT_TRUE(contains(refusal(make_worktree(elsewhere)), "has a worktree already"));
}

TEST_F(WorktreesTest, what_worktreeinclude_names_is_copied_and_nothing_else) {
    const std::string repository = made_repository();
    write(repository + "/.gitignore", "ignored\n*.env\n/deps/\nlink\nnested/\n");
    write(repository + "/.worktreeinclude", "*.env\n!not.env\n/deps/\nlink\nloose\ntracked\nnested/\n");
    sh(repository, "git add .gitignore .worktreeinclude; git commit -q -m include");
    write(repository + "/a.env", "secret");
    write(repository + "/not.env", "not this");
    write(repository + "/sub/b.env", "another");
    write(repository + "/deps/with space/\xff\n", "odd");
    write(repository + "/loose", "untracked and not ignored");
    write(repository + "/ignored", "not named");
    write(repository + "/tracked", "modified");
    write(root_ + "/outside", "outside");
    fs::create_symlink(root_ + "/outside", repository + "/link");
    chmod((repository + "/a.env").c_str(), 0640);
    sh(repository, "git init -q nested; touch nested/file");

    const GitWorktree worktree = made(wanted(repository));

    EXPECT_EQ(content(worktree.path + "/a.env"), "secret");
    struct stat status{};
    ASSERT_EQ(stat((worktree.path + "/a.env").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0640u);
    EXPECT_EQ(content(worktree.path + "/sub/b.env"), "another");
    EXPECT_EQ(content(worktree.path + "/deps/with space/\xff\n"), "odd");
    EXPECT_EQ(content(worktree.path + "/loose"), "untracked and not ignored");
    EXPECT_EQ(fs::read_symlink(worktree.path + "/link"), root_ + "/outside");
    EXPECT_FALSE(fs::exists(worktree.path + "/not.env"));
    EXPECT_FALSE(fs::exists(worktree.path + "/ignored"));
    EXPECT_FALSE(fs::exists(worktree.path + "/nested"));
    EXPECT_EQ(content(worktree.path + "/tracked"), "one\n");
}

TEST_F(WorktreesTest, a_tracked_link_does_not_lead_an_included_file_out_of_the_worktree) {
    const std::string repository = made_repository();
    fs::create_directory(root_ + "/outside");
    fs::create_symlink(root_ + "/outside", repository + "/dir");
    write(repository + "/.worktreeinclude", "*.env\n");
    sh(repository, "git add .; git commit -q -m link; rm dir; mkdir dir");
    write(repository + "/dir/a.env", "secret");

    const auto worktree = make_worktree(wanted(repository));

    EXPECT_FALSE(worktree);
    EXPECT_TRUE(fs::is_empty(root_ + "/outside"));
    EXPECT_FALSE(fs::exists(root_ + "/trees/run_1"));
    EXPECT_EQ(sh(repository, "git for-each-ref --format='%(refname)'"), "refs/heads/main");
}

TEST_F(WorktreesTest, a_sparse_worktree_gives_a_sparse_one) {
    for (const char* extension : {"false", "true"}) {
        const std::string repository = made_repository(std::string("sparse_") + extension);
        sh(repository, std::string("git config extensions.worktreeConfig ") + extension +
                           "; git config core.repositoryformatversion 1; mkdir other; echo x > other/x; git add .\n"
                           "git commit -q -m more; git sparse-checkout set --cone sub; ls");

        const GitWorktree worktree = made(wanted(repository, std::string("run_") + extension));

        EXPECT_TRUE(fs::exists(worktree.path + "/sub/file"));
        EXPECT_FALSE(fs::exists(worktree.path + "/other"));
        EXPECT_EQ(sh(worktree.path, "git status --porcelain"), "");
        EXPECT_EQ(reasons(worktree), Names{});
    }
}

TEST_F(WorktreesTest, no_hook_runs) {
    const std::string repository = made_repository();
    for (const char* hook : {"post-checkout", "reference-transaction", "post-index-change"}) {
        write(repository + "/.git/hooks/" + hook, "#!/bin/sh\necho ran >> " + root_ + "/hooks\n");
        chmod((repository + "/.git/hooks/" + hook).c_str(), 0755);
    }

    const GitWorktree worktree = made(wanted(repository));
    write(worktree.path + "/new", "x");
    removed(removal(worktree, Force::yes));

    EXPECT_FALSE(fs::exists(root_ + "/hooks"));
    sh(repository, "git branch control");
    EXPECT_TRUE(fs::exists(root_ + "/hooks"));
}

TEST_F(WorktreesTest, paths_may_contain_anything) {
    const std::string odd = "-a 'b' \"c\"\n$(d)\xff";
    const std::string repository = made_repository(odd);
    fs::create_directories(repository + "/" + odd);
    write(repository + "/" + odd + "/" + odd, "odd");
    sh(repository, "git add .; git commit -q -m odd");
    MakeWorktree what = wanted(repository + "/" + odd);
    what.path = root_ + "/trees" + odd + "/" + odd + "\n";

    const GitWorktree worktree = made(what);

    EXPECT_EQ(worktree.repository, repository);
    EXPECT_EQ(worktree.directory, what.path + "/" + odd);
    EXPECT_EQ(content(worktree.directory + "/" + odd), "odd");
    EXPECT_EQ(reasons(worktree), Names{});
    write(worktree.directory + "/new" + odd, "new");
    EXPECT_EQ(reasons(worktree), Names{"untracked"});
    const auto before = files(worktree.path);
    removed(removal(worktree, Force::yes));
    const auto restored = restore_worktree(repository, worktree.run, worktree.path, locks_);
    ASSERT_TRUE(restored) << restored.error();
    EXPECT_EQ(files(restored->path), before);
    EXPECT_EQ(restored->directory, worktree.directory);
}

TEST_F(WorktreesTest, the_workspace_may_be_a_worktree_itself_and_detached) {
    const std::string repository = made_repository();
    sh(repository,
       "git worktree add -q --detach ../linked; cd ../linked; echo more > more; git add more; git commit -q -m more");

    const GitWorktree worktree = made(wanted(root_ + "/linked/sub"));

    EXPECT_EQ(worktree.repository, repository);
    EXPECT_EQ(worktree.base, sh(root_ + "/linked", "git rev-parse HEAD"));
    EXPECT_EQ(content(worktree.path + "/more"), "more\n");
    // Only a detached HEAD elsewhere has that commit, and a HEAD moves on without a word.
    EXPECT_EQ(reasons(worktree), Names{"unreachable_commits"});
    sh(root_ + "/linked", "git branch kept");
    EXPECT_EQ(reasons(worktree), Names{});
    removed(removal(worktree));
    EXPECT_TRUE(fs::exists(root_ + "/linked/more"));
}

TEST_F(WorktreesTest, a_worktree_of_a_bare_repository_can_have_more) {
    made_repository();
    sh(root_, "git clone -q --bare repository bare.git; cd bare.git; git worktree add -q ../linked main");

    const GitWorktree worktree = made(wanted(root_ + "/linked"));

    EXPECT_EQ(worktree.repository, root_ + "/bare.git");
    EXPECT_EQ(list_worktrees(worktree.repository)->at(0).bare, true);
    EXPECT_EQ(reasons(worktree), Names{});
    removed(removal(worktree));
}

TEST_F(WorktreesTest, a_repository_with_sha256_and_packed_refs_is_like_any_other) {
    const std::string repository = made_repository("repository", "--object-format=sha256");
    const GitWorktree worktree = made(wanted(repository));
    sh(repository, "git pack-refs --all --prune");
    write(worktree.path + "/new", "x");
    fs::remove(worktree.path + "/tracked");
    const auto before = files(worktree.path);

    EXPECT_EQ(reasons(worktree), (Names{"modified", "untracked"}));
    EXPECT_TRUE(removed(removal(worktree, Force::yes)).branch_deleted);
    const auto restored = restore_worktree(repository, worktree.run, worktree.path, locks_);

    ASSERT_TRUE(restored) << restored.error();
    EXPECT_EQ(files(restored->path), before);
}

TEST_F(WorktreesTest, thirty_at_once_are_made_and_no_commit_is_lost) {
    const std::string repository = made_repository();
    constexpr int count = 30;
    std::vector<std::string> errors(count);
    std::vector<GitWorktree> worktrees(count);
    std::vector<std::thread> threads;

    for (int i = 0; i < count; ++i) {
        threads.emplace_back([&, i] {
            auto worktree = make_worktree(wanted(repository, fmt::format("run_{}", i)));
            if (!worktree) {
                errors[static_cast<std::size_t>(i)] = worktree.error();
                return;
            }
            sh(worktree->path, fmt::format("echo {0} > file_{0}; git add .; git commit -q -m 'of {0}'", i));
            worktrees[static_cast<std::size_t>(i)] = *worktree;
        });
    }
    for (std::thread& thread : threads) thread.join();

    EXPECT_EQ(errors, std::vector<std::string>(count));
    EXPECT_EQ(sh(repository, "git worktree list | wc -l"), fmt::format("{}", count + 1));
    std::set<std::string> subjects;
    for (const GitWorktree& worktree : worktrees) {
        subjects.insert(sh(repository, "git log -1 --format=%s refs/heads/" + worktree.branch));
        EXPECT_EQ(sh(repository, "git rev-list --count main.." + worktree.branch), "1");
    }
    EXPECT_EQ(subjects.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(sh(repository, "git fsck --no-dangling"), "");
}

// Every state that a make can be interrupted in, built by hand, in the order in which git writes.
class InterruptedMakeTest : public WorktreesTest {
 protected:
    InterruptedMakeTest() : repository_(made_repository()), own_(repository_ + "/.git/worktrees/run_1") {
        base_ = sh(repository_, "git rev-parse HEAD; git update-ref refs/interlock/base/run_1 HEAD");
        // The next call finds a HEAD that has moved, and must begin where the first did.
        sh(repository_, "git commit -q --allow-empty -m later");
    }
    void branch() { sh(repository_, "git branch interlock/run_1 " + base_); }
    void own_git_dir() { write(own_ + "/locked", "interlock run_1\n"); }
    void registered() {
        sh(repository_,
           "git worktree add -q --no-checkout --lock --reason 'interlock run_1' ../trees/run_1 interlock/run_1");
    }
    void expect_whole_again() {
        const GitWorktree worktree = made(wanted(repository_));
        EXPECT_EQ(worktree.base, base_);
        EXPECT_EQ(sh(worktree.path, "git rev-parse HEAD"), base_);
        EXPECT_EQ(sh(worktree.path, "git status --porcelain"), "");
        EXPECT_EQ(sh(worktree.path, "git symbolic-ref HEAD"), "refs/heads/interlock/run_1");
        EXPECT_EQ(sh(repository_, "git worktree list --porcelain | grep -c locked"), "1");
        EXPECT_EQ(std::distance(fs::directory_iterator(repository_ + "/.git/worktrees"), {}), 1);
        EXPECT_EQ(reasons(worktree), Names{});
        removed(removal(worktree));
    }
    // Or the run was cancelled, and nobody makes it.
    void expect_removable() {
        const std::string path = root_ + "/trees/run_1";
        removed(removal({.run = "run_1",
                         .repository = repository_,
                         .path = path,
                         .directory = path,
                         .branch = "interlock/run_1",
                         .base = base_}));
        EXPECT_EQ(sh(repository_, "git for-each-ref --format='%(refname)'"), "refs/heads/main");
        EXPECT_EQ(sh(repository_, "git worktree list | wc -l"), "1");
    }

    std::string repository_;
    std::string own_;
    std::string base_;
};

TEST_F(InterruptedMakeTest, after_the_base_was_noted) { expect_whole_again(); }

TEST_F(InterruptedMakeTest, after_the_branch) {
    branch();
    expect_whole_again();
}

TEST_F(InterruptedMakeTest, after_its_own_git_directory_was_begun) {
    branch();
    own_git_dir();
    expect_whole_again();
}

TEST_F(InterruptedMakeTest, after_its_own_git_directory_and_an_empty_worktree) {
    branch();
    own_git_dir();
    fs::create_directories(root_ + "/trees/run_1");
    expect_whole_again();
}

TEST_F(InterruptedMakeTest, before_the_first_file) {
    branch();
    registered();
    expect_whole_again();
}

TEST_F(InterruptedMakeTest, between_two_files) {
    branch();
    registered();
    write(root_ + "/trees/run_1/tracked", "on");
    write(own_ + "/index.lock", "");
    expect_whole_again();
}

TEST_F(InterruptedMakeTest, before_the_mark) {
    branch();
    registered();
    sh(root_ + "/trees/run_1", "git reset -q --hard; echo x > ignored");
    expect_whole_again();
}

TEST_F(InterruptedMakeTest, by_a_kill_at_any_moment) {
    for (int i = 0; i < 8; ++i) {
        const MakeWorktree what = wanted(repository_, fmt::format("run_k{}", i));
        killed_after(std::chrono::milliseconds(7 * i), [&] { return make_worktree(what).has_value(); });

        const GitWorktree worktree = made(what);

        EXPECT_EQ(sh(worktree.path, "git status --porcelain; git rev-parse HEAD"),
                  sh(repository_, "git rev-parse HEAD"));
        EXPECT_EQ(reasons(worktree), Names{});
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(repository_ + "/.git/worktrees"), {}), 8);
}

TEST_F(InterruptedMakeTest, and_removed_after_the_base_was_noted) { expect_removable(); }

TEST_F(InterruptedMakeTest, and_removed_after_the_branch) {
    branch();
    expect_removable();
}

TEST_F(InterruptedMakeTest, and_removed_after_its_own_git_directory_was_begun) {
    branch();
    own_git_dir();
    expect_removable();
}

TEST_F(InterruptedMakeTest, and_removed_between_two_files) {
    branch();
    registered();
    write(root_ + "/trees/run_1/tracked", "on");
    expect_removable();
}

}  // namespace
}  // namespace interlock::supervisor
