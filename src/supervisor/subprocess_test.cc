#include "supervisor/subprocess.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/confinement.h"
#include "supervisor/open_file.h"

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

SubprocessResult sh(const std::string& script, ProgramOptions options = {}) {
    const auto finished = run_program({"/bin/sh", "-c", script}, options);
    EXPECT_TRUE(finished) << (finished ? "" : finished.error());
    return finished.value_or(SubprocessResult{.exit_code = -1, .out = {}, .err = {}});
}

// A SIGKILL that was sent arrives soon, not at once.
bool soon(const auto& holds) {
    for (int i = 0; i < 500 && !holds(); ++i) std::this_thread::sleep_for(10ms);
    return holds();
}

TEST(SubprocessTest, a_program_gives_its_exit_code_and_what_it_wrote) {
    const SubprocessResult finished = sh("cat; echo problem >&2; exit 3", {.input = std::string("a\0b", 3)});

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

TEST(SubprocessTest, a_program_that_lies_where_it_is_to_work_is_not_meant) {
    const std::string dir = testing::TempDir() + "/subprocess_path";
    std::filesystem::create_directories(dir);
    std::ofstream(dir + "/planted-program") << "#!/bin/sh\n";
    chmod((dir + "/planted-program").c_str(), 0755);
    const std::string before = std::getenv("PATH");
    setenv("PATH", ("." + std::string(":") + before).c_str(), 1);

    EXPECT_FALSE(run_program({"planted-program"}, {.dir = dir}));

    setenv("PATH", before.c_str(), 1);
    std::filesystem::remove_all(dir);
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

TEST(SubprocessTest, descriptors_of_this_process_are_not_inherited) {
    const OpenFile secret(open("/dev/zero", O_RDONLY | O_CLOEXEC));
    const OpenFile careless(open("/dev/zero", O_RDONLY));  // NOLINT(android-cloexec-open)

    const std::string seen = sh("ls -l /proc/self/fd").out;

    EXPECT_NE(seen.find("->"), std::string::npos) << seen;
    EXPECT_EQ(seen.find("/dev/zero"), std::string::npos) << seen;
}

TEST(SubprocessTest, a_program_is_asked_to_end_when_this_process_dies) {
    const std::string note = testing::TempDir() + "/subprocess_asked";
    std::filesystem::remove(note);
    const pid_t pid = fork();
    if (pid == 0) {
        sh(fmt::format("trap 'echo asked > {0}; exit' TERM; echo begun > {0}; while :; do sleep 0.01; done", note));
        _exit(0);
    }
    const auto says = [&](const std::string& word) {
        std::string text;
        std::ifstream(note) >> text;
        return text == word;
    };
    EXPECT_TRUE(soon([&] { return says("begun"); }));

    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);

    EXPECT_TRUE(soon([&] { return says("asked"); }));
    std::filesystem::remove(note);
}

TEST(SubprocessTest, what_a_confinement_does_not_name_cannot_be_executed_or_written) {
    const std::string dir = testing::TempDir() + "/subprocess_confined";
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir + "/in");
    const OpenFile ruleset = confine_git({dir + "/in"});
    if (!ruleset) GTEST_SKIP() << "this kernel has no Landlock";
    const auto confined = [&](const std::vector<std::string>& words) {
        const auto finished = run_program(words, {.confinement = ruleset.fd()});
        return finished && finished->exit_code == 0;
    };

    EXPECT_FALSE(confined({"/bin/sh", "-c", "true"}));
    EXPECT_TRUE(confined({"git", "--version"}));
    EXPECT_TRUE(confined({"git", "config", "--file", dir + "/in/config", "a.b", "c"}));
    EXPECT_FALSE(confined({"git", "config", "--file", dir + "/config", "a.b", "c"}));
    // As git starts what a configuration names.
    EXPECT_FALSE(confined({"git", "-c", "alias.x=!touch " + dir + "/in/HIT", "x"}));
    EXPECT_FALSE(std::filesystem::exists(dir + "/in/HIT"));
    std::filesystem::remove_all(dir);
}

TEST(SubprocessTest, what_takes_too_long_is_killed_with_its_whole_group) {
    const std::string note = testing::TempDir() + "/subprocess_sleeper";
    const auto begin = std::chrono::steady_clock::now();

    const auto finished =
        run_program({"/bin/sh", "-c", fmt::format("sleep 100 & echo $! > {}; sleep 100", note)}, {.timeout = 300ms});

    ASSERT_FALSE(finished);
    EXPECT_NE(finished.error().find("took longer than 300 ms"), std::string::npos);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
    pid_t sleeper = 0;
    std::ifstream(note) >> sleeper;
    ASSERT_GT(sleeper, 0);
    EXPECT_TRUE(soon([&] { return !std::filesystem::exists(fmt::format("/proc/{}/exe", sleeper)); }));
    std::filesystem::remove(note);
}

TEST(SubprocessTest, a_child_left_behind_neither_delays_the_answer_nor_survives_it) {
    const auto begin = std::chrono::steady_clock::now();

    const SubprocessResult finished = sh("sleep 100 & echo $!");

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
