#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "sim/supervised_story.h"

namespace interlock::sim {
namespace {

TEST(Supervised, one_seed_always_tells_the_same_story) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const SupervisedResult first = tell_supervised_story({.seed = seed});
        const SupervisedResult second = tell_supervised_story({.seed = seed});

        EXPECT_EQ(first.hash, second.hash) << "seed " << seed;
        EXPECT_EQ(first.steps, second.steps) << "seed " << seed;
    }
}

TEST(Supervised, stories_keep_every_promise_and_have_every_trouble) {
    std::uint64_t began = 0, restarts = 0, mishaps = 0, told_truly = 0;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        const SupervisedResult result = tell_supervised_story({.seed = seed});

        EXPECT_EQ(result.violation_count, 0u) << describe_violations(result);
        began += result.began;
        restarts += result.restarts;
        mishaps += result.mishaps;
        told_truly += result.told_truly;
    }

    EXPECT_GT(began, 2'000u);
    EXPECT_GT(restarts, 400u);
    EXPECT_GT(mishaps, 1'000u);
    EXPECT_GT(told_truly, 400u);
}

struct FaultOfSupervisor {
    std::string name;
    SupervisorFault fault;
    Promise promise;

    friend void PrintTo(const FaultOfSupervisor& each, std::ostream* out) { *out << each.name; }
};

class SupervisorFaults : public testing::TestWithParam<FaultOfSupervisor> {};

TEST_P(SupervisorFaults, are_noticed) {
    bool noticed = false;
    for (std::uint64_t seed = 1; seed <= 1'000 && !noticed; ++seed) {
        const SupervisedResult result = tell_supervised_story({.seed = seed, .fault = GetParam().fault});
        for (const Violation& violation : result.violations) noticed |= violation.promise == GetParam().promise;
    }

    EXPECT_TRUE(noticed) << "in none of the stories";
}

INSTANTIATE_TEST_SUITE_P(
    Sim, SupervisorFaults,
    testing::Values(FaultOfSupervisor{"a_place_that_is_freed_before_the_last_process_is_gone",
                                      SupervisorFault::frees_places_early, Promise::one_worker_per_place},
                    FaultOfSupervisor{"a_second_shim_that_is_believed", SupervisorFault::believes_second_shim,
                                      Promise::honest_answers},
                    FaultOfSupervisor{"an_end_that_is_reported_twice", SupervisorFault::reports_end_twice,
                                      Promise::nothing_twice},
                    FaultOfSupervisor{"a_timeout_that_is_forgotten_over_a_restart", SupervisorFault::forgets_timeouts,
                                      Promise::nobody_forgotten}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace interlock::sim
