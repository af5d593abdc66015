#include "supervisor/leftovers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "shim/process.h"

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

constexpr auto timeout = 5s;
const std::string this_run = "run_of_this_test_" + std::to_string(::getpid());

// A process that does nothing, in a session of its own, and is dead when the test is over.
class Sleeper {
 public:
    explicit Sleeper(std::vector<std::string> environment = {}) {
        pid_ = ::fork();
        if (pid_ == 0) {
            ::setsid();
            std::vector<char*> variables;
            for (std::string& variable : environment) variables.push_back(variable.data());
            variables.push_back(nullptr);
            char* const words[] = {const_cast<char*>("sleep"), const_cast<char*>("1000"), nullptr};
            ::execve("/bin/sleep", words, variables.data());
            ::_exit(127);
        }
        while (::getsid(pid_) != pid_) std::this_thread::sleep_for(1ms);
        start_ = shim::start_time(pid_);
    }
    ~Sleeper() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

    pid_t pid() const { return pid_; }
    const std::string& start() const { return start_; }
    bool alive() const { return shim::alive(pid_, start_); }
    bool carries(const std::string& mark) const { return shim::has_in_environment(pid_, mark); }

 private:
    pid_t pid_ = 0;
    std::string start_;
};

shim::ShimState state_of(const Sleeper& main) {
    shim::ShimState state;
    state.boot = shim::boot_id();
    state.child_pid = main.pid();
    state.child_start = main.start();
    return state;
}

TEST(LeftoversTest, nothing_is_gone_at_once) { EXPECT_TRUE(end_leftovers({}, this_run, ItsShim::spared, timeout)); }

TEST(LeftoversTest, who_carries_the_runs_id_is_found_and_nobody_else) {
    const Sleeper mine({"INTERLOCK_RUN=" + this_run});
    const Sleeper other({"INTERLOCK_RUN=" + this_run + "0"});
    while (!mine.carries("INTERLOCK_RUN=" + this_run)) std::this_thread::sleep_for(1ms);

    EXPECT_TRUE(end_leftovers({}, this_run, ItsShim::spared, timeout));

    EXPECT_FALSE(mine.alive());
    EXPECT_TRUE(other.alive());
}

TEST(LeftoversTest, the_main_process_is_found_by_its_number_and_its_start) {
    const Sleeper main;
    shim::ShimState another = state_of(main);
    another.child_start = "1";
    EXPECT_TRUE(end_leftovers(another, this_run, ItsShim::spared, timeout));
    EXPECT_TRUE(main.alive()) << "the number was given out again";
    another = state_of(main);
    another.boot = "another boot";
    EXPECT_TRUE(end_leftovers(another, this_run, ItsShim::spared, timeout));
    EXPECT_TRUE(main.alive()) << "the number is of another boot";

    EXPECT_TRUE(end_leftovers(state_of(main), this_run, ItsShim::spared, timeout));
    EXPECT_FALSE(main.alive());
}

// It has no mark and no control group; the session is all that tells.
TEST(LeftoversTest, what_the_main_process_has_in_its_session_is_found_with_it) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t main = ::fork();
    if (main == 0) {
        ::setsid();
        const pid_t left = ::fork();
        if (left == 0) {
            ::setpgid(0, 0);
            ::execl("/usr/bin/env", "env", "-i", "/bin/sleep", "1000", nullptr);
            ::_exit(127);
        }
        (void)!::write(ends[1], &left, sizeof left);
        ::pause();
    }
    pid_t left = 0;
    ASSERT_EQ(::read(ends[0], &left, sizeof left), static_cast<ssize_t>(sizeof left));
    ::close(ends[0]);
    ::close(ends[1]);
    shim::ShimState state;
    state.boot = shim::boot_id();
    state.child_pid = main;
    state.child_start = shim::start_time(main);
    const std::string start = shim::start_time(left);
    EXPECT_TRUE(shim::alive(left, start));

    EXPECT_TRUE(end_leftovers(state, this_run, ItsShim::spared, timeout));

    EXPECT_FALSE(shim::alive(left, start));
    ::waitpid(main, nullptr, 0);
}

TEST(LeftoversTest, a_shim_is_spared_unless_it_could_still_begin) {
    const Sleeper shim;
    ::kill(shim.pid(), SIGSTOP);
    shim::ShimState state;
    state.boot = shim::boot_id();
    state.pid = shim.pid();
    state.start = shim.start();
    EXPECT_TRUE(shim_is_alive(state));

    EXPECT_TRUE(end_leftovers(state, this_run, ItsShim::spared, timeout));
    EXPECT_TRUE(shim_is_alive(state));
    EXPECT_TRUE(end_leftovers(state, this_run, ItsShim::killed, timeout));
    EXPECT_FALSE(shim_is_alive(state));
}

// A shell with a job becomes `interlock run`: its process is then the shim, and the job is a child of it.
TEST(LeftoversTest, children_that_a_shim_had_before_are_not_the_runs) {
    const Sleeper job({"NONE=1"});
    std::this_thread::sleep_for(30ms);  // Start times are counted in hundredths of a second.
    const Sleeper main({"NONE=1"});
    shim::ShimState state = state_of(main);
    state.pid = ::getpid();
    state.start = shim::start_time(::getpid());

    const std::string held = still_held(state, this_run).value_or("");
    EXPECT_TRUE(held.starts_with("process " + std::to_string(main.pid()) + " (")) << held;
    EXPECT_TRUE(end_leftovers(state, this_run, ItsShim::spared, timeout));

    EXPECT_FALSE(main.alive());
    EXPECT_TRUE(job.alive());
    EXPECT_EQ(still_held(state, this_run), std::nullopt);
    state.child_pid = 0;
    state.child_start = "";
    EXPECT_EQ(still_held(state, this_run), std::nullopt) << "the run has started nothing";
}

}  // namespace
}  // namespace interlock::supervisor
