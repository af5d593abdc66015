#include "shim/launch.h"

#include <gtest/gtest.h>

namespace interlock::shim {
namespace {

using namespace std::string_literals;

std::string problem_with(const ShimMessage& message) {
    const auto read = read_launch(message);
    const auto* problem = std::get_if<std::string>(&read);
    return problem ? *problem : "none";
}

TEST(LaunchRequest, IsReadWhole) {
    const auto read = read_launch({"launch",
                                   "arg",
                                   "sh",
                                   "arg",
                                   "-c",
                                   "env",
                                   "A=1",
                                   "env",
                                   "B=",
                                   "dir",
                                   "/d",
                                   "dir_is_held",
                                   "1",
                                   "home",
                                   "/h",
                                   "timeout_ms",
                                   "5",
                                   "grace_ms",
                                   "6",
                                   "beat_ms",
                                   "7",
                                   "log_max",
                                   "8",
                                   "nice",
                                   "-9",
                                   "limit",
                                   "nofile=10",
                                   "limit",
                                   "core=unlimited",
                                   "sandbox",
                                   "1",
                                   "write",
                                   "/w",
                                   "cgroup",
                                   "/c",
                                   "of a newer server",
                                   "?"});
    ASSERT_TRUE(std::holds_alternative<LaunchRequest>(read));
    const auto& launch = std::get<LaunchRequest>(read);
    EXPECT_EQ(launch.args, (std::vector{"sh"s, "-c"s}));
    EXPECT_EQ(launch.env, (std::vector{"A=1"s, "B="s}));
    EXPECT_EQ(launch.dir + launch.home + launch.cgroup, "/d/h/c");
    EXPECT_TRUE(launch.dir_is_held);
    EXPECT_EQ(launch.place, -1) << "no descriptor comes by a text";
    EXPECT_EQ(launch.timeout_ms, 5);
    EXPECT_EQ(launch.grace_ms, 6);
    EXPECT_EQ(launch.beat_ms, 7);
    EXPECT_EQ(launch.log_max, 8);
    EXPECT_EQ(launch.nice, -9);
    ASSERT_EQ(launch.limits.size(), 2U);
    EXPECT_EQ(launch.limits[0].resource, RLIMIT_NOFILE);
    EXPECT_EQ(launch.limits[0].value, 10U);
    EXPECT_EQ(launch.limits[1].value, RLIM_INFINITY);
    EXPECT_EQ(launch.level, AppliedSandboxLevel::files);
    EXPECT_EQ(launch.writable, std::vector{"/w"s});
}

TEST(LaunchRequest, OfASealedRunHasALevelAndAPort) {
    // A shim from before the levels knows "sandbox" alone.
    const auto read = read_launch({"launch", "arg", "sh", "sandbox", "1", "level", "sealed", "port", "4100"});

    EXPECT_EQ(std::get<LaunchRequest>(read).level, AppliedSandboxLevel::sealed);
    EXPECT_EQ(std::get<LaunchRequest>(read).port, 4100);
    for (const char* port : {"-1", "65536", "80x", ""}) {
        EXPECT_NE(problem_with({"launch", "arg", "sh", "port", port}), "none") << port;
    }
    EXPECT_NE(problem_with({"launch", "arg", "sh", "level", "shut"}), "none");
}

TEST(LaunchRequest, ThatCannotBeMeantIsRefusedInASentence) {
    EXPECT_EQ(problem_with({"launch"}), "cannot start it: no command was given");
    EXPECT_EQ(problem_with({"launch", "arg", ""}), "cannot start it: no command was given");
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, std::string>>{{"limit", "nofile"},
                                                          {"limit", "nofile=-1"},
                                                          {"limit", "nofile=1k"},
                                                          {"timeout_ms", "soon"},
                                                          {"timeout_ms", "-1"},
                                                          {"grace_ms", "9223372036854775807"},
                                                          {"beat_ms", "0"},
                                                          {"nice", ""}}) {
        EXPECT_EQ(problem_with({"launch", "arg", "true", key, value}),
                  "cannot start it: its " + key + " '" + value + "' cannot be used");
    }
}

TEST(LaunchRequest, DoesNotRepeatWhatMayBeASecret) {
    EXPECT_EQ(problem_with({"launch", "arg", "true", "env", "TOKEN=secret\0more"s}),
              "cannot start it: its env cannot be used");
}

TEST(LaunchRequest, DoesNotStopReadingAtANul) {
    EXPECT_EQ(problem_with({"launch", "arg", "rm\0-rf"s}), "cannot start it: its arg 'rm' cannot be used");
}

}  // namespace
}  // namespace interlock::shim
