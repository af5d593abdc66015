#include "supervisor/run_membership.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "shim/process.h"
#include "shim/run_mark.h"

namespace interlock::supervisor {
namespace {

constexpr std::chrono::nanoseconds any_time = std::chrono::nanoseconds::max();

// A shell that sleeps until the test ends. `before` runs in it first.
class SleepingShell {
 public:
    template <class Before>
    SleepingShell(Before before, const char* name, std::vector<const char*> environment = {}) {
        environment.push_back(nullptr);
        pid_ = fork();
        if (pid_ == 0) {
            before();
            execle("/bin/sh", name, "-c", "sleep 60 & wait", static_cast<char*>(nullptr), environment.data());
            _exit(1);
        }
        while (child() == 0) poll(nullptr, 0, 1);
    }
    ~SleepingShell() {
        kill(child(), SIGKILL);
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    pid_t pid() const { return pid_; }
    pid_t child() const {
        const auto found = shim::children(pid_);
        return found.empty() ? 0 : found.front();
    }

 private:
    pid_t pid_ = 0;
};

// The tests' own process stands for the server, so its children would all be its own: a process between them is not.
Membership seen_from_elsewhere(pid_t process) {
    const pid_t looker = fork();
    if (looker == 0) _exit(static_cast<int>(RunMembership().of(process, any_time)));
    int status = 0;
    waitpid(looker, &status, 0);
    return static_cast<Membership>(WEXITSTATUS(status));
}

TEST(RunMembershipTest, this_process_is_outside_and_what_it_starts_is_not) {
    const RunMembership runs;
    const SleepingShell started([] {}, "sh");

    EXPECT_EQ(runs.of(getpid(), any_time), Membership::outside);
    EXPECT_EQ(runs.of(started.child(), any_time), Membership::inside);
    EXPECT_EQ(seen_from_elsewhere(started.child()), Membership::outside);
}

TEST(RunMembershipTest, what_is_below_a_shim_is_inside) {
    const SleepingShell shim([] {}, "interlock-shim");

    EXPECT_EQ(seen_from_elsewhere(shim.pid()), Membership::inside);
    EXPECT_EQ(seen_from_elsewhere(shim.child()), Membership::inside);
}

TEST(RunMembershipTest, what_has_the_mark_or_the_runs_name_is_inside) {
    const SleepingShell marked([] { shim::mark_as_run(); }, "sh");
    const SleepingShell named([] {}, "sh", {"INTERLOCK_RUN=run_1"});

    EXPECT_EQ(seen_from_elsewhere(marked.child()), Membership::inside);
    EXPECT_EQ(seen_from_elsewhere(named.child()), Membership::inside);
}

TEST(RunMembershipTest, a_server_in_a_run_does_not_count_that_run) {
    const auto seen_from_inside = [](pid_t process) {
        const pid_t looker = fork();
        if (looker == 0) {
            shim::mark_as_run();
            _exit(static_cast<int>(RunMembership().of(process, any_time)));
        }
        int status = 0;
        waitpid(looker, &status, 0);
        return static_cast<Membership>(WEXITSTATUS(status));
    };
    const SleepingShell beside([] { shim::mark_as_run(); }, "sh");
    const SleepingShell deeper([] { shim::mark_as_run(), shim::mark_as_run(); }, "sh");

    EXPECT_EQ(seen_from_inside(beside.child()), Membership::outside);
    EXPECT_EQ(seen_from_inside(deeper.child()), Membership::inside);
}

TEST(RunMembershipTest, who_has_ended_or_came_later_is_not_known) {
    const pid_t ended = fork();
    if (ended == 0) _exit(0);
    waitpid(ended, nullptr, 0);

    EXPECT_EQ(RunMembership().of(ended, any_time), Membership::unknown);
    EXPECT_EQ(RunMembership().of(getpid(), std::chrono::nanoseconds(0)), Membership::unknown);
}

}  // namespace
}  // namespace interlock::supervisor
