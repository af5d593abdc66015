#include "supervisor/launching.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/id.h"

namespace interlock::supervisor {
namespace {

// Every value that the message has under this name.
std::vector<std::string> all_of(const shim::ShimMessage& message, const std::string& name) {
    std::vector<std::string> values;
    for (std::size_t i = 1; i + 1 < message.size(); i += 2) {
        if (message[i] == name) values.push_back(message[i + 1]);
    }
    return values;
}

bool has(const shim::ShimMessage& message, const std::string& name, const std::string& value) {
    return std::ranges::count(all_of(message, name), value) == 1;
}

class LaunchingTest : public testing::Test {
 protected:
    LaunchingTest() {
        run.id = core::RunId(Id{1, 2});
        run.fence = core::Fence(7);
        run.who.agent = "ada";
        process.command = {"/bin/echo", "a b"};
        around.home = "/data/runs/it";
        around.directory = "/src";
        around.environment = {"PATH=/bin", "HOME=/ada", "SECRET=1", "INTERLOCK_KEY=of the server"};
        around.url = "http://127.0.0.1:1";
        around.key = "ilk_mine";
    }
    shim::ShimMessage message() const { return launch_message(run, process, around); }

    core::Run run;
    core::ProcessSpec process;
    LaunchContext around;
};

TEST_F(LaunchingTest, a_run_is_told_who_it_is_and_nothing_else_of_the_servers_environment) {
    const shim::ShimMessage launch = message();

    EXPECT_EQ(launch.front(), "launch");
    EXPECT_EQ(all_of(launch, "arg"), process.command);
    EXPECT_TRUE(has(launch, "env", "PATH=/bin"));
    EXPECT_TRUE(has(launch, "env", "INTERLOCK_KEY=ilk_mine"));
    EXPECT_TRUE(has(launch, "env", "INTERLOCK_RUN=" + to_text("run", run.id.value)));
    EXPECT_TRUE(has(launch, "env", "INTERLOCK_FENCE=7"));
    EXPECT_TRUE(has(launch, "env", "TMPDIR=/data/runs/it/tmp"));
    EXPECT_FALSE(has(launch, "env", "SECRET=1"));
    EXPECT_FALSE(has(launch, "env", "INTERLOCK_KEY=of the server"));
}

TEST_F(LaunchingTest, a_shim_is_told_whether_a_descriptor_of_the_directory_comes_along) {
    EXPECT_FALSE(has(message(), "dir_is_held", "1"));
    around.directory_is_held = true;
    EXPECT_TRUE(has(message(), "dir_is_held", "1"));
}

TEST_F(LaunchingTest, what_is_named_is_handed_on_but_never_another_key) {
    process.pass_env = {"SECRET", "INTERLOCK_KEY"};
    process.env = {{"PATH", "/opt/bin"}, {"MINE", "yes"}};
    const shim::ShimMessage launch = message();

    EXPECT_TRUE(has(launch, "env", "SECRET=1"));
    EXPECT_TRUE(has(launch, "env", "PATH=/opt/bin"));
    EXPECT_FALSE(has(launch, "env", "PATH=/bin"));
    EXPECT_TRUE(has(launch, "env", "MINE=yes"));
    EXPECT_TRUE(has(launch, "env", "INTERLOCK_KEY=ilk_mine"));
}

TEST_F(LaunchingTest, a_terminal_keeps_its_own_environment) {
    process.foreground = true;

    EXPECT_FALSE(has(message(), "env", "PATH=/bin"));
    EXPECT_TRUE(has(message(), "env", "INTERLOCK_KEY=ilk_mine"));
}

TEST_F(LaunchingTest, the_setup_goes_first_in_a_worktree_and_only_there) {
    process.setup = "make ready";
    EXPECT_EQ(all_of(message(), "arg"), process.command);

    around.in_worktree = true;
    const auto words = all_of(message(), "arg");
    ASSERT_EQ(words.size(), 6u);
    EXPECT_EQ(words[0], "/bin/sh");
    EXPECT_NE(words[2].find("make ready"), std::string::npos);
    EXPECT_EQ(std::vector(words.begin() + 4, words.end()), process.command);
}

TEST_F(LaunchingTest, bounds_are_said_in_the_shims_units) {
    process.timeout_s = 3'000'000;
    process.grace_s = 5;
    process.limits = {{"nofile", 77}};
    around.sandbox = {.level = core::SandboxLevel::files, .note = "a note"};
    around.hidden = {"/data", ""};
    process.readable = {"/books"};
    process.writable = {"/mine"};
    around.writable = {"/repository/.git"};
    const shim::ShimMessage launch = message();

    EXPECT_TRUE(has(launch, "timeout_ms", "3000000000"));
    EXPECT_TRUE(has(launch, "grace_ms", "5000"));
    EXPECT_TRUE(has(launch, "limit", "nofile=77"));
    EXPECT_TRUE(has(launch, "sandbox", "1"));
    EXPECT_TRUE(has(launch, "level", "files"));
    EXPECT_TRUE(has(launch, "note", "a note"));
    EXPECT_EQ(all_of(launch, "hide"), std::vector<std::string>{"/data"});
    EXPECT_EQ(all_of(launch, "read"), std::vector<std::string>{"/books"});
    EXPECT_EQ(all_of(launch, "write"), (std::vector<std::string>{"/mine", "/repository/.git"}));
    EXPECT_TRUE(all_of(launch, "cgroup").empty());
}

TEST_F(LaunchingTest, a_sealed_run_is_told_of_its_entrance_and_gets_no_key) {
    around.url = "https://host.example:4100";
    around.sandbox = {.level = core::SandboxLevel::sealed};
    process.env = {{"NO_PROXY", "mine"}};
    const shim::ShimMessage launch = message();

    EXPECT_TRUE(has(launch, "level", "sealed"));
    EXPECT_TRUE(has(launch, "sandbox", "1"));
    EXPECT_TRUE(has(launch, "port", "4100"));
    EXPECT_TRUE(has(launch, "env", "INTERLOCK_URL=http://127.0.0.1:4100"));
    EXPECT_TRUE(has(launch, "env", "INTERLOCK_KEY=" + std::string(key_of_sealed_runs)));
    EXPECT_TRUE(has(launch, "env", "HTTPS_PROXY=http://127.0.0.1:4100"));
    EXPECT_TRUE(has(launch, "env", "no_proxy=127.0.0.1,localhost"));
    EXPECT_TRUE(has(launch, "env", "NO_PROXY=mine"));
    for (const std::string& word : launch) EXPECT_EQ(word.find("ilk_mine"), std::string::npos) << word;
}

TEST_F(LaunchingTest, a_sealed_teardown_has_no_entrance) {
    around.url = "";
    around.sandbox = {.level = core::SandboxLevel::sealed};
    const shim::ShimMessage launch = message();

    EXPECT_TRUE(has(launch, "level", "sealed"));
    EXPECT_TRUE(all_of(launch, "port").empty());
    EXPECT_FALSE(has(launch, "env", "HTTPS_PROXY="));
}

}  // namespace
}  // namespace interlock::supervisor
