// The simulator itself: it replays, it reaches what it should reach, and its checkers notice.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

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
    // Extending and releasing move no counter up.
    "HoldReply.amount_too_large",
    // Putting a schedule always puts it.
    "ScheduleReply.unchanged",
    // Time is told by the engine; no client asks for it.
    "TickReply",
};

TEST(Story, stories_keep_every_promise_and_reach_every_outcome) {
    OutcomeCounts seen{};
    for (std::uint64_t seed = 1'000; seed < 1'150; ++seed) {
        const StoryResult result = tell_story({.seed = seed, .commands = 3'000, .trace = false, .halfway = {}});

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
