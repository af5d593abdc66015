#include "shim/process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace interlock::shim {
namespace {

constexpr int family_size = 12;

// Children that wait to be ended, each with a child of its own that left its session.
class ProcessTest : public testing::Test {
 protected:
    ProcessTest() {
        // Orphans come here, so that they can be waited for.
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
    ~ProcessTest() override {
        freeze_and_kill(below_self());
        wait_for_all();
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
    }

    static pid_t start_family() {
        int ready[2];
        EXPECT_EQ(pipe(ready), 0);
        const pid_t pid = fork();
        if (pid == 0) {
            if (fork() == 0) {
                setsid();
                signal(SIGTERM, SIG_IGN);
            }
            static_cast<void>(write(ready[1], "", 1));
            for (;;) pause();
        }
        char both[2];
        EXPECT_EQ(read(ready[0], both, 1), 1);
        EXPECT_EQ(read(ready[0], both, 1), 1);
        close(ready[0]);
        close(ready[1]);
        return pid;
    }

    static void wait_for_all() {
        while (waitpid(-1, nullptr, __WALL) > 0) continue;
    }

    static ProcessTree below_self() { return {.roots = {*look_at(getpid())}, .only_below = true}; }
};

TEST_F(ProcessTest, IsSeenAsItIs) {
    const auto self = look_at(getpid());
    ASSERT_TRUE(self);
    EXPECT_EQ(self->parent, getppid());
    EXPECT_EQ(self->group, getpgrp());
    EXPECT_EQ(self->session, getsid(0));
    EXPECT_EQ(self->state, 'R');
    EXPECT_TRUE(alive(getpid(), start_time(getpid())));
    EXPECT_FALSE(alive(getpid(), "1"));
    EXPECT_EQ(boot_id().size(), 36U);
}

TEST_F(ProcessTest, MayHaveAnyName) {
    prctl(PR_SET_NAME, "a) R 1 (b", 0, 0, 0);
    EXPECT_EQ(look_at(getpid())->parent, getppid());
}

TEST_F(ProcessTest, ThatHasEndedHasAStartTimeUntilItIsWaitedFor) {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);

    const std::string start = start_time(pid);
    EXPECT_NE(start, "");
    EXPECT_FALSE(alive(pid, start));
    EXPECT_TRUE(look_at(pid)->ended());
    waitpid(pid, nullptr, 0);
    EXPECT_EQ(start_time(pid), "");
}

TEST_F(ProcessTest, TreesAreSeenWhole) {
    std::vector<pid_t> started;
    for (int i = 0; i < family_size; ++i) started.push_back(start_family());

    auto listed = children(getpid());
    std::ranges::sort(listed);
    std::ranges::sort(started);
    EXPECT_EQ(listed, started);
    EXPECT_EQ(descendants(getpid()).size(), 2U * family_size);
    EXPECT_EQ(descendants(started.front()).size(), 1U);
    EXPECT_EQ(descendants(999'999'999).size(), 0U);
}

TEST_F(ProcessTest, FrozenTreesStandStillAndGoOn) {
    start_family();
    EXPECT_EQ(freeze(below_self()).size(), 2U);
    // The signal was sent; a moment may pass until it is obeyed.
    const auto all_stopped = [] {
        return std::ranges::all_of(members(below_self()),
                                   [](const ProcessInfo& process) { return process.state == 'T'; });
    };
    for (int i = 0; i < 5'000 && !all_stopped(); ++i) usleep(1'000);
    EXPECT_TRUE(all_stopped());

    for (const ProcessInfo& process : members(below_self())) EXPECT_TRUE(send_signal(process, SIGCONT));
    EXPECT_EQ(members(below_self()).size(), 2U);
}

TEST_F(ProcessTest, KilledTreesAreGoneToTheLast) {
    for (int i = 0; i < family_size; ++i) start_family();
    const auto killed = freeze_and_kill(below_self());
    EXPECT_EQ(killed.size(), 2U * family_size);
    wait_for_all();
    for (const ProcessInfo& process : killed) EXPECT_FALSE(alive(process.pid, process.start));
    EXPECT_TRUE(descendants(getpid()).empty());
}

TEST_F(ProcessTest, OnlyWhatIsMeantIsKilled) {
    const pid_t killed = start_family(), spared = start_family(), other = start_family();
    const ProcessInfo spared_process = *look_at(spared), other_process = *look_at(other);

    ProcessTree tree = below_self();
    tree.spared = {spared_process, other_process};
    EXPECT_EQ(freeze_and_kill(tree).size(), 2U);
    EXPECT_EQ(waitpid(killed, nullptr, 0), killed);
    EXPECT_TRUE(alive(spared, spared_process.start));

    EXPECT_EQ(freeze_and_kill({.roots = {spared_process}}).size(), 2U);
    EXPECT_EQ(waitpid(spared, nullptr, 0), spared);
    EXPECT_TRUE(alive(other, other_process.start));
}

TEST_F(ProcessTest, ThatOnlyHasTheSameIdIsNotMeant) {
    const pid_t pid = start_family();
    ProcessInfo before = *look_at(pid);
    before.start = "1";

    EXPECT_FALSE(send_signal(before, SIGKILL));
    EXPECT_TRUE(freeze_and_kill({.roots = {before}}).empty());
    EXPECT_TRUE(alive(pid, start_time(pid)));
}

TEST_F(ProcessTest, CanBeMeantByWhatItIs) {
    const pid_t pid = start_family();
    const auto leads_child = [pid](const ProcessInfo& process) { return process.parent == pid; };
    const auto killed = freeze_and_kill({.also = leads_child});
    ASSERT_EQ(killed.size(), 1U);
    EXPECT_EQ(killed.front().parent, pid);
    EXPECT_TRUE(alive(pid, start_time(pid)));
}

TEST_F(ProcessTest, IsKnownByItsEnvironment) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ready[1], STDOUT_FILENO);
        const char* const environment[] = {"A=1", "INTERLOCK_RUN=run_7", nullptr};
        const char* const args[] = {"sh", "-c", "echo; read x", nullptr};
        int wait_here[2];
        if (pipe(wait_here) == 0) dup2(wait_here[0], STDIN_FILENO);
        execve("/bin/sh", const_cast<char* const*>(args), const_cast<char* const*>(environment));
        _exit(1);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);

    EXPECT_TRUE(has_in_environment(pid, "INTERLOCK_RUN=run_7"));
    EXPECT_TRUE(has_in_environment(pid, "A=1"));
    EXPECT_FALSE(has_in_environment(pid, "INTERLOCK_RUN=run_"));
    EXPECT_FALSE(has_in_environment(pid, "RUN=run_7"));
}

}  // namespace
}  // namespace interlock::shim
