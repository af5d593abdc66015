#include "nodes/store_time.h"

#include <gtest/gtest.h>

namespace interlock::nodes {
namespace {

using namespace std::chrono_literals;

Instant machine_time() { return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()); }

TEST(StoreTime, is_what_the_store_said_whatever_this_machine_believes) {
    StoreTime time;
    const Instant three_days_ago = machine_time() - 72h;
    const Duration asked = StoreTime::monotonic();

    time.heard(three_days_ago, asked, asked);
    engine::Clock clock = time.clock();

    EXPECT_GE(time.now(), three_days_ago);
    EXPECT_LT(time.now(), three_days_ago + 60s);
    EXPECT_LT(clock.now(), three_days_ago + 60s);
}

TEST(StoreTime, an_answer_is_taken_for_as_old_as_half_its_journey) {
    StoreTime time;
    const Instant said = from_micros(1'762'948'800'000'000);
    const Duration answered = StoreTime::monotonic();

    time.heard(said, answered - 4s, answered);

    EXPECT_GE(time.now(), said + 2s);
    EXPECT_LT(time.now(), said + 62s);
}

}  // namespace
}  // namespace interlock::nodes
