// Each reason by itself keeps a worktree, and without it the worktree goes.
#include <filesystem>
#include <functional>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/open_file.h"
#include "supervisor/worktrees.h"
#include "supervisor/worktrees_test_support.h"

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;

class ReasonsToKeepTest : public WorktreesTest {
 protected:
    ReasonsToKeepTest() : repository_(made_repository()), worktree_(made(wanted(repository_))) {
        own_ = sh(worktree_.path, "git rev-parse --absolute-git-dir");
    }

    // This reason and no other, and a removal that says so and leaves everything as it is.
    void expect_kept(const std::string& reason, Lease lease = Lease::none) {
        EXPECT_EQ(reasons(worktree_, lease), Names{reason});
        RemoveWorktree what = removal(worktree_);
        what.lease = lease;
        const auto done = remove_worktree(what);
        ASSERT_FALSE(done);
        EXPECT_NE(done.error().find(reason + ": "), std::string::npos) << done.error();
        EXPECT_TRUE(fs::exists(own_ + "/HEAD"));
    }
    void expect_goes() {
        EXPECT_EQ(reasons(worktree_), Names{});
        EXPECT_TRUE(removed(removal(worktree_)).branch_deleted);
    }
    std::string in_worktree(const std::string& script) const { return sh(worktree_.path, script); }

    std::string repository_;
    GitWorktree worktree_;
    std::string own_;
};

// A process that does something and then waits to be ended.
class Waiting {
 public:
    explicit Waiting(const std::function<bool()>& prepare) {
        std::array<int, 2> ends{};
        EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
        const OpenFile ready(ends[0]);
        OpenFile done(ends[1]);
        pid_ = fork();
        if (pid_ == 0) {
            const char answer = prepare() ? 'y' : 'n';
            if (write(done.fd(), &answer, 1) != 1) _exit(1);
            for (;;) pause();
        }
        done = OpenFile();
        char answer = 'n';
        prepared_ = read(ready.fd(), &answer, 1) == 1 && answer == 'y';
    }
    ~Waiting() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

    bool prepared() const { return prepared_; }
    pid_t pid() const { return pid_; }

 private:
    pid_t pid_ = -1;
    bool prepared_ = false;
};

TEST_F(ReasonsToKeepTest, leased) {
    expect_kept("leased", Lease::held);
    RemoveWorktree forced = removal(worktree_, Force::yes);
    forced.lease = Lease::held;
    EXPECT_FALSE(remove_worktree(forced));
    expect_goes();
}

TEST_F(ReasonsToKeepTest, a_process_works_in_it) {
    {
        const Waiting process([&] { return chdir((worktree_.path + "/sub").c_str()) == 0; });
        ASSERT_TRUE(process.prepared());
        expect_kept("process_inside");
        EXPECT_NE(reasons_to_keep(worktree_, Lease::none).at(0).detail.find(fmt::format("process {} ", process.pid())),
                  std::string::npos);
        const auto forced = remove_worktree(removal(worktree_, Force::yes));
        ASSERT_FALSE(forced);
        EXPECT_NE(forced.error().find("process_inside"), std::string::npos);
    }
    expect_goes();
}

TEST_F(ReasonsToKeepTest, a_process_has_a_file_of_it_open_or_mapped_or_runs_it) {
    const std::string file = worktree_.path + "/ignored";
    fs::copy_file("/bin/sleep", file);
    const auto opened = [&] { return open(file.c_str(), O_RDONLY) >= 0; };
    const auto opened_and_deleted = [&] {
        const std::string other = worktree_.path + "/sub/ignored";
        return open(other.c_str(), O_RDWR | O_CREAT, 0600) >= 0 && unlink(other.c_str()) == 0;
    };
    const auto mapped = [&] {
        const int fd = open(file.c_str(), O_RDONLY);
        const bool good = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED;
        return close(fd) == 0 && good;
    };
    for (const std::function<bool()>& use :
         {std::function<bool()>(opened), std::function<bool()>(opened_and_deleted), std::function<bool()>(mapped)}) {
        const Waiting process(use);
        ASSERT_TRUE(process.prepared());
        EXPECT_EQ(reasons(worktree_), Names{"process_inside"});
    }
    const pid_t running = vfork();
    if (running == 0) {
        execl(file.c_str(), "sleep", "100", nullptr);
        _exit(1);
    }
    expect_kept("process_inside");
    kill(running, SIGKILL);
    waitpid(running, nullptr, 0);
    expect_goes();
}

TEST_F(ReasonsToKeepTest, a_process_that_calls_it_by_another_name_is_inside_too) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can give a process other mounts";
    const std::string elsewhere = root_ + "/elsewhere";
    fs::create_directory(elsewhere);
    const Waiting process([&] {
        return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               mount(worktree_.path.c_str(), elsewhere.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
               chdir((elsewhere + "/sub").c_str()) == 0;
    });
    if (!process.prepared()) GTEST_SKIP() << "no mount namespaces here";

    EXPECT_EQ(reasons(worktree_), Names{"process_inside"});
}

TEST_F(ReasonsToKeepTest, a_process_beside_it_is_not_inside) {
    fs::create_directory(worktree_.path + "2");
    const Waiting process([&] { return chdir((worktree_.path + "2").c_str()) == 0; });
    ASSERT_TRUE(process.prepared());
    expect_goes();
}

TEST_F(ReasonsToKeepTest, modified) {
    in_worktree("echo more >> tracked");
    expect_kept("modified");
    in_worktree("git checkout -q tracked");
    expect_goes();
}

TEST_F(ReasonsToKeepTest, modified_in_other_ways) {
    const auto kept = [&](const std::string& change, const std::string& undo) {
        in_worktree(change);
        EXPECT_EQ(reasons(worktree_), Names{"modified"}) << change;
        in_worktree(undo);
        EXPECT_EQ(reasons(worktree_), Names{}) << undo;
    };
    kept("echo more >> tracked; git add tracked", "git reset -q --hard");
    kept("echo new > new; git add new", "git rm -q -f new");
    // Staged, and as it was again on disk.
    kept("echo more >> tracked; git add tracked; echo one > tracked", "git reset -q --hard");
    kept("rm sub/file", "git reset -q --hard");
    kept("chmod +x tracked", "git reset -q --hard");
    kept("rm tracked; ln -s sub tracked", "git reset -q --hard");
    // What git was told not to look at.
    kept("git update-index --assume-unchanged tracked; echo more > tracked",
         "git update-index --no-assume-unchanged tracked; git reset -q --hard");
    kept("git update-index --skip-worktree tracked; echo more > tracked",
         "git update-index --no-skip-worktree tracked; git reset -q --hard");
    // As large and as old as before.
    kept("touch -r tracked ../time; echo two > tracked; touch -r ../time tracked", "git reset -q --hard");
    // A sparse checkout lacks files without having lost any.
    in_worktree("git sparse-checkout set --no-cone tracked");
    EXPECT_FALSE(fs::exists(worktree_.path + "/sub/file"));
    EXPECT_EQ(reasons(worktree_), Names{});
}

TEST_F(ReasonsToKeepTest, untracked) {
    write(worktree_.path + "/sub/new\nfile", "x");
    write(worktree_.path + "/ignored", "ignored files do not count");
    // Not even if the repository's owner does not want to see them.
    in_worktree("git config status.showUntrackedFiles no");
    expect_kept("untracked");
    fs::remove(worktree_.path + "/sub/new\nfile");
    expect_goes();
}

TEST_F(ReasonsToKeepTest, unreachable_commits) {
    in_worktree("echo more >> tracked; git commit -q -a -m more");
    expect_kept("unreachable_commits");
    // None of these keeps a commit for long.
    in_worktree(
        "git update-ref refs/interlock/other HEAD; git update-ref refs/stash HEAD; git update-ref ORIG_HEAD HEAD");
    in_worktree("git symbolic-ref refs/heads/alias refs/heads/interlock/run_1; git bisect start; git bisect good HEAD");
    EXPECT_EQ(reasons(worktree_), (Names{"unreachable_commits", "operation_in_progress"}));
    in_worktree("git bisect reset; git symbolic-ref -d refs/heads/alias; git tag there");
    expect_goes();
}

TEST_F(ReasonsToKeepTest, commits_that_only_the_reflog_knows) {
    in_worktree(
        "git checkout -q --detach; echo more >> tracked; git commit -q -a -m detached; git checkout -q "
        "interlock/run_1");
    expect_kept("unreachable_commits");
    in_worktree("git branch rescued HEAD@{1}");
    expect_goes();
}

TEST_F(ReasonsToKeepTest, commits_that_were_amended_or_reset_away) {
    in_worktree("echo more >> tracked; git commit -q -a -m more; git reset -q --hard HEAD~");
    expect_kept("unreachable_commits");
    in_worktree("git branch rescued HEAD@{1}");
    expect_goes();
}

TEST_F(ReasonsToKeepTest, a_commit_whose_change_is_elsewhere_does_not_keep_but_is_kept) {
    in_worktree("echo more >> tracked; git commit -q -a -m more");
    const std::string commit = in_worktree("git rev-parse HEAD");
    sh(repository_, "git commit -q --allow-empty -m between; git cherry-pick interlock/run_1");

    EXPECT_EQ(reasons(worktree_), Names{});
    const Removed gone = removed(removal(worktree_));

    EXPECT_EQ(gone.kept_ref, "refs/interlock/kept/run_1");
    EXPECT_TRUE(gone.branch_deleted);
    EXPECT_EQ(sh(repository_, "git rev-parse refs/interlock/kept/run_1^1"), commit);
}

TEST_F(ReasonsToKeepTest, a_merge_that_is_nowhere_else_keeps) {
    sh(repository_, "echo other > other; git add other; git commit -q -m other");
    in_worktree("git checkout -q -b side; echo side > side; git add side; git commit -q -m side");
    in_worktree("git checkout -q interlock/run_1; git merge -q --no-ff -m merge side");
    expect_kept("unreachable_commits");
    sh(repository_, "git merge -q interlock/run_1");
    expect_goes();
}

TEST_F(ReasonsToKeepTest, operation_in_progress) {
    in_worktree("git bisect start");
    expect_kept("operation_in_progress");
    in_worktree("git bisect reset");
    sh(repository_, "git commit -q --allow-empty -m later");
    in_worktree("GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i main");
    EXPECT_EQ(reasons(worktree_), Names{"operation_in_progress"});
    in_worktree("git rebase --abort");
    for (const std::string name :
         {"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-apply/next", "sequencer/todo"}) {
        write(own_ + "/" + name, worktree_.base + "\n");
        EXPECT_EQ(reasons(worktree_), Names{"operation_in_progress"}) << name;
        fs::remove_all(own_ + "/" + name.substr(0, name.find('/')));
    }
    expect_goes();
}

TEST_F(ReasonsToKeepTest, locked_by_other) {
    sh(repository_, "git worktree unlock ../trees/run_1; git worktree lock --reason 'on a stick' ../trees/run_1");
    expect_kept("locked_by_other");
    sh(repository_, "git worktree unlock ../trees/run_1");
    expect_goes();
}

TEST_F(ReasonsToKeepTest, nested_repository) {
    const std::string nested = worktree_.path + "/ignored";
    fs::create_directory(nested);
    sh(nested, "git init -q deep");
    expect_kept("nested_repository");
    const auto forced = remove_worktree(removal(worktree_, Force::yes));
    EXPECT_FALSE(forced);
    fs::remove_all(nested);
    fs::create_directory(nested);
    sh(nested, "git init -q --bare bare");
    EXPECT_EQ(reasons(worktree_), Names{"nested_repository"});
    fs::remove_all(nested);
    expect_goes();
}

TEST_F(ReasonsToKeepTest, an_initialised_submodule_is_a_nested_repository_and_one_that_is_not_is_none) {
    made_repository("library");
    sh(repository_, "git -c protocol.file.allow=always submodule add -q ../library lib; git commit -q -m submodule");
    worktree_ = made(wanted(repository_, "run_2"));
    EXPECT_TRUE(fs::is_empty(worktree_.path + "/lib"));
    EXPECT_EQ(reasons(worktree_), Names{});
    in_worktree("git -c protocol.file.allow=always submodule update -q --init");
    EXPECT_EQ(reasons(worktree_), Names{"nested_repository"});
    in_worktree("git submodule deinit -q --all");
    EXPECT_EQ(reasons(worktree_), Names{});
    removed(removal(worktree_));
}

TEST_F(ReasonsToKeepTest, not_ours) {
    const std::string aside = root_ + "/aside";
    fs::rename(worktree_.path, aside);
    expect_kept("not_ours");
    // Another directory in its place, and a link to the right one.
    write(worktree_.path + "/theirs", "x");
    expect_kept("not_ours");
    EXPECT_FALSE(remove_worktree(removal(worktree_, Force::yes)));
    EXPECT_TRUE(fs::exists(worktree_.path + "/theirs"));
    fs::remove_all(worktree_.path);
    fs::create_symlink(aside, worktree_.path);
    expect_kept("not_ours");
    fs::remove(worktree_.path);
    fs::rename(aside, worktree_.path);
    expect_goes();
}

TEST_F(ReasonsToKeepTest, a_worktree_of_another_run_or_repository_is_not_ours) {
    GitWorktree other = worktree_;
    other.run = "run_2";
    EXPECT_EQ(reasons(other), Names{"not_ours"});
    EXPECT_FALSE(remove_worktree(removal(other, Force::yes)));
    other = worktree_;
    other.repository = made_repository("another");
    EXPECT_EQ(reasons(other), Names{"not_ours"});
    EXPECT_FALSE(remove_worktree(removal(other, Force::yes)));
    sh(repository_, "git worktree move -f -f ../trees/run_1 ../trees/moved");
    expect_kept("not_ours");
    sh(repository_, "git worktree move -f -f ../trees/moved ../trees/run_1");
    expect_goes();
}

TEST_F(ReasonsToKeepTest, unreadable) {
    const std::string index = content(own_ + "/index");
    write(own_ + "/index", "no index");
    expect_kept("unreadable");
    EXPECT_FALSE(remove_worktree(removal(worktree_, Force::yes)));
    write(own_ + "/index", index);
    expect_goes();
}

TEST_F(ReasonsToKeepTest, a_repository_that_is_gone_makes_everything_unreadable) {
    fs::rename(repository_, root_ + "/moved");
    EXPECT_EQ(reasons(worktree_), Names{"unreadable"});
    EXPECT_FALSE(remove_worktree(removal(worktree_, Force::yes)));
    fs::rename(root_ + "/moved", repository_);
    expect_goes();
}

TEST_F(ReasonsToKeepTest, several_reasons_come_in_their_order) {
    in_worktree(
        "echo x > new; git commit -q --allow-empty -m empty; echo more >> tracked; mkdir ignored; git init -q "
        "ignored/deep");
    in_worktree("git worktree unlock .; git worktree lock .; git bisect start");
    const Waiting process([&] { return chdir(worktree_.path.c_str()) == 0; });

    EXPECT_EQ(reasons(worktree_, Lease::held),
              (Names{"leased", "process_inside", "modified", "untracked", "unreachable_commits",
                     "operation_in_progress", "locked_by_other", "nested_repository"}));
}

}  // namespace
}  // namespace interlock::supervisor
