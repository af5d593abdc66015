// The simulator itself: it replays, it reaches what it should reach, and its checkers notice.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include <gtest/gtest.h>

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "sim/sabotage.h"
#include "sim/story.h"

namespace interlock::sim {
namespace {

TEST(Story, one_seed_always_tells_the_same_story) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        const StoryResult first = tell_story({.seed = seed, .commands = 1'500, .trace = false, .halfway = {}});
        const StoryResult second = tell_story({.seed = seed, .commands = 1'500, .trace = false, .halfway = {}});

        EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
        EXPECT_EQ(first.commands, second.commands) << "seed " << seed;
        EXPECT_EQ(first.steps, second.steps) << "seed " << seed;
    }
}

TEST(Story, one_seed_always_tells_the_same_story_of_several_nodes) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        const StoryOptions options{.seed = seed, .commands = 1'500, .nodes = 3, .halfway = {}};
        const StoryResult first = tell_story(options);
        const StoryResult second = tell_story(options);

        EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
        EXPECT_EQ(first.commands, second.commands) << "seed " << seed;
        EXPECT_EQ(first.steps, second.steps) << "seed " << seed;
    }
}

TEST(Story, two_seeds_tell_two_stories) {
    const StoryResult one = tell_story({.seed = 1, .commands = 500, .trace = false, .halfway = {}});
    const StoryResult two = tell_story({.seed = 2, .commands = 500, .trace = false, .halfway = {}});

    EXPECT_NE(one.hash, two.hash);
}

// What no story can reach, and why.
const std::set<std::string> out_of_reach = {
    // Limits of ten thousand rows and more: the unit tests of core/ reach them.
    "OrgReply.too_many",
    "AgentReply.too_many",
    "KeyReply.too_many",
    "CapReply.too_many",
    "BudgetReply.too_many",
    "ReserveReply.too_many",
    "AdmitReply.too_many",
    "ScheduleReply.too_many",
    "SessionReply.too_many",
    "WorktreeReply.too_many",
    "SettingReply.too_many",
    // Extending and releasing move no counter up.
    "HoldReply.amount_too_large",
    // Putting a schedule always puts it.
    "ScheduleReply.unchanged",
    // Time is told by the engine; no client asks for it.
    "TickReply",
};

TEST(Story, stories_keep_every_promise_and_reach_every_outcome) {
    OutcomeCounts seen{};
    for (std::uint64_t seed = 4'000; seed < 4'150; ++seed) {
        const StoryResult result =
            tell_story({.seed = seed, .commands = 3'000, .trace = false, .nodes = 1, .halfway = {}});

        EXPECT_EQ(result.violation_count, 0u) << describe_violations(result);
        for (const Outcome outcome : all_outcomes()) {
            seen[outcome.kind][outcome.status] += result.outcomes[outcome.kind][outcome.status];
        }
    }

    for (const Outcome outcome : all_outcomes()) {
        const std::string name = name_of(outcome);
        const bool was_seen = seen[outcome.kind][outcome.status] > 0;
        EXPECT_EQ(was_seen, !out_of_reach.contains(name))
            << name << (was_seen ? " can be reached after all" : " was never seen");
    }
}

TEST(Story, several_nodes_keep_every_promise_and_have_every_trouble) {
    Troubles seen;
    const auto each_trouble = [](auto visit) {
        boost::mp11::mp_for_each<boost::describe::describe_members<Troubles, boost::describe::mod_any_access>>(visit);
    };
    for (std::uint64_t seed = 2'000; seed < 2'100; ++seed) {
        const StoryResult result =
            tell_story({.seed = seed, .nodes = 2 + static_cast<std::uint32_t>(seed % 2), .halfway = {}});

        EXPECT_EQ(result.violation_count, 0u) << describe_violations(result);
        each_trouble([&](auto member) { seen.*member.pointer += result.troubles.*member.pointer; });
    }

    each_trouble([&](auto member) {
        // Time stands still for nobody while one of several nodes is down.
        const bool never = std::string_view(member.name) == "long_downtimes";
        EXPECT_EQ(seen.*member.pointer == 0, never) << member.name;
    });
}

// A database that does not keep what lanes promise. That something is wrong must be seen in a few stories.
struct LieOfLanes {
    std::string name;
    store::MemoryDatabase::Lies lies;

    friend void PrintTo(const LieOfLanes& lie, std::ostream* out) { *out << lie.name; }
};

class Lanes : public testing::TestWithParam<LieOfLanes> {};

// Whether a checker notices. In a process of its own, because the core may notice first, and ends the process then.
bool a_checker_notices(const StoryOptions& options) {
    const pid_t child = fork();
    if (child == 0) {
        std::ignore = freopen("/dev/null", "w", stderr);
        std::_Exit(tell_story(options).violation_count > 0 ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

TEST_P(Lanes, notice) {
    bool noticed = false;
    for (std::uint64_t seed = 1; seed <= 100 && !noticed; ++seed) {
        noticed = a_checker_notices({.seed = seed, .nodes = 3, .lies = GetParam().lies, .halfway = {}});
    }

    EXPECT_TRUE(noticed) << "in none of the stories";
}

INSTANTIATE_TEST_SUITE_P(
    Sim, Lanes,
    testing::Values(LieOfLanes{"commits_of_a_writer_that_was_replaced", {.no_proof = true}},
                    LieOfLanes{"a_lane_taken_without_waiting_for_a_commit", {.takes_do_not_wait = true}},
                    LieOfLanes{"a_writer_that_opens_again_at_its_old_epoch", {.opening_again_takes_nothing = true}}),
    [](const auto& info) { return info.param.name; });

class Checkers : public testing::TestWithParam<Sabotage> {};

TEST_P(Checkers, notice) {
    const Sabotage& sabotage = GetParam();

    const auto result = tell_spoiled_story(sabotage);

    ASSERT_TRUE(result) << "no story had anything to spoil";
    const bool noticed =
        std::ranges::any_of(result->violations, [&](const Violation& v) { return v.promise == sabotage.promise; });
    EXPECT_TRUE(noticed) << describe_violations(*result);
}

INSTANTIATE_TEST_SUITE_P(Sim, Checkers, testing::ValuesIn(all_sabotages()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace interlock::sim
