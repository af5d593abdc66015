#include "supervisor/subprocess.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/open_file.h"

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

Finished sh(const std::string& script, ProgramOptions options = {}) {
    const auto finished = run_program({"/bin/sh", "-c", script}, options);
    EXPECT_TRUE(finished) << (finished ? "" : finished.error());
    return finished.value_or(Finished{.exit_code = -1, .out = {}, .err = {}});
}

// A SIGKILL that was sent arrives soon, not at once.
bool soon(const auto& holds) {
    for (int i = 0; i < 500 && !holds(); ++i) std::this_thread::sleep_for(10ms);
    return holds();
}

TEST(SubprocessTest, a_program_gives_its_exit_code_and_what_it_wrote) {
    const Finished finished = sh("cat; echo problem >&2; exit 3", {.input = std::string("a\0b", 3)});

    EXPECT_EQ(finished.exit_code, 3);
    EXPECT_EQ(finished.out, std::string("a\0b", 3));
    EXPECT_EQ(finished.err, "problem\n");
    EXPECT_EQ(sh("kill -9 $$").exit_code, 128 + SIGKILL);
}

TEST(SubprocessTest, it_starts_in_the_directory_that_was_named) {
    const std::string dir = std::filesystem::canonical(testing::TempDir());

    EXPECT_EQ(sh("pwd", {.dir = dir}).out, dir + "\n");
    EXPECT_FALSE(run_program({"true"}, {.dir = "/nowhere/at/all"}));
}

TEST(SubprocessTest, a_program_that_does_not_exist_is_an_error_with_its_name) {
    const auto finished = run_program({"no-such-program-here"});

    ASSERT_FALSE(finished);
    EXPECT_NE(finished.error().find("no-such-program-here"), std::string::npos);
}

TEST(SubprocessTest, arguments_arrive_as_they_are) {
    const auto finished = run_program({"/usr/bin/printf", "%s|", "a b", "$HOME;'\"", "x\ny", "\xff"});

    ASSERT_TRUE(finished);
    EXPECT_EQ(finished->out, "a b|$HOME;'\"|x\ny|\xff|");
}

TEST(SubprocessTest, secrets_and_the_callers_git_variables_stay_here) {
    setenv("GIT_DIR", "/elsewhere", 1);
    setenv("DATABASE_PASSWORD", "hidden", 1);
    setenv("LC_ALL", "de_DE", 1);

    const std::string seen = sh("env", {.env = {"LC_ALL=C", "MORE=yes"}}).out;

    unsetenv("GIT_DIR");
    unsetenv("DATABASE_PASSWORD");
    unsetenv("LC_ALL");
    EXPECT_EQ(seen.find("GIT_DIR"), std::string::npos);
    EXPECT_EQ(seen.find("hidden"), std::string::npos);
    EXPECT_EQ(seen.find("de_DE"), std::string::npos);
    EXPECT_NE(seen.find("MORE=yes"), std::string::npos);
    EXPECT_NE(seen.find("PATH="), std::string::npos);
}

TEST(SubprocessTest, descriptors_of_this_process_are_not_inherited_but_the_one_to_keep) {
    const OpenFile secret(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const OpenFile kept(open("/dev/zero", O_RDONLY | O_CLOEXEC));

    const std::string seen = sh("ls -l /proc/self/fd", {.keep_open = kept.fd()}).out;

    EXPECT_NE(seen.find("3 -> /dev/zero"), std::string::npos) << seen;
    EXPECT_EQ(seen.find(fmt::format("{} -> /dev/null", secret.fd())), std::string::npos) << seen;
    EXPECT_TRUE(fcntl(kept.fd(), F_GETFD) & FD_CLOEXEC);
}

TEST(SubprocessTest, what_takes_too_long_is_killed_with_its_whole_group) {
    OpenFile lock(open(testing::TempDir().c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(flock(lock.fd(), LOCK_EX), 0);
    const auto begin = std::chrono::steady_clock::now();

    const auto finished =
        run_program({"/bin/sh", "-c", "sleep 100 & sleep 100"}, {.timeout = 100ms, .keep_open = lock.fd()});

    ASSERT_FALSE(finished);
    EXPECT_NE(finished.error().find("took longer than 100 ms"), std::string::npos);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    // Both sleepers had a copy of the descriptor, and the lock is free only when the last copy is closed.
    const OpenFile other(open(testing::TempDir().c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_NE(flock(other.fd(), LOCK_EX | LOCK_NB), 0);
    lock = OpenFile();
    EXPECT_TRUE(soon([&] { return flock(other.fd(), LOCK_EX | LOCK_NB) == 0; }));
}

TEST(SubprocessTest, a_child_left_behind_neither_delays_the_answer_nor_survives_it) {
    const auto begin = std::chrono::steady_clock::now();

    const Finished finished = sh("sleep 100 & echo $!");

    EXPECT_EQ(finished.exit_code, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    const pid_t left = static_cast<pid_t>(std::strtol(finished.out.c_str(), nullptr, 10));
    ASSERT_GT(left, 0);
    EXPECT_TRUE(soon([&] { return !std::filesystem::exists(fmt::format("/proc/{}/exe", left)); }));
}

TEST(SubprocessTest, too_much_output_is_an_error_and_not_a_shorter_answer) {
    const auto finished = run_program({"/bin/sh", "-c", "yes"}, {.output_max = 100'000});

    ASSERT_FALSE(finished);
    EXPECT_NE(finished.error().find("more than 100000 bytes"), std::string::npos);
    EXPECT_EQ(sh("head -c 3000000 /dev/zero").out.size(), 3'000'000u);
    EXPECT_EQ(sh("head -c 3000000 /dev/zero >&2").exit_code, 0);
}

}  // namespace
}  // namespace interlock::supervisor
