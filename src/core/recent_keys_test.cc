#include "core/recent_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace interlock::core {
namespace {

using Seen = RecentKeys::Seen;

constexpr OrgId acme{1};
constexpr OrgId other_org{2};
constexpr std::size_t generation = RecentKeys::generation_max;

CommandKey key_at(std::uint64_t millisecond, std::uint64_t entropy = 0) {
    return CommandKey(time_ordered_id(from_micros(static_cast<std::int64_t>(millisecond) * 1000), 0, entropy));
}
CommandKey hashed(const std::string& text) { return CommandKey(id_from_hash(text)); }

TEST(RecentKeysTest, a_key_newer_than_all_that_were_used_is_new) {
    RecentKeys keys;

    EXPECT_EQ(keys.seen(acme, key_at(1000)), Seen::no);
    keys.add(acme, key_at(1000));

    EXPECT_EQ(keys.seen(acme, key_at(1001)), Seen::no);
    EXPECT_EQ(keys.seen(acme, key_at(1000)), Seen::yes);
    EXPECT_EQ(keys.seen(acme, key_at(999)), Seen::no) << "nothing has been forgotten yet";
}

TEST(RecentKeysTest, the_same_key_in_another_org_is_another_key) {
    RecentKeys keys;
    keys.add(acme, key_at(1000));

    EXPECT_EQ(keys.seen(other_org, key_at(1000)), Seen::no);
}

TEST(RecentKeysTest, a_key_that_is_not_ordered_by_time_is_never_called_new) {
    RecentKeys keys;

    EXPECT_EQ(keys.seen(acme, hashed("order-7")), Seen::maybe);
    EXPECT_EQ(keys.seen(acme, CommandKey(Id{~0ull, ~0ull})), Seen::maybe);
    keys.add(acme, hashed("order-7"));

    EXPECT_EQ(keys.seen(acme, hashed("order-7")), Seen::yes);
    EXPECT_EQ(keys.seen(acme, hashed("order-8")), Seen::maybe);
}

TEST(RecentKeysTest, no_key_that_was_used_is_ever_called_new) {
    std::mt19937_64 random(7);
    std::vector<CommandKey> used;
    // Mostly in the order of time, as clocks and networks have it; some very late, some of hashes.
    for (std::uint64_t i = 0; i < 4 * generation; ++i) {
        const std::uint64_t late = random() % 100 == 0 ? random() % (1 + i) : random() % 64;
        used.push_back(random() % 50 == 0 ? hashed(std::to_string(i)) : key_at(1'000'000 + i - std::min(i, late), i));
    }
    RecentKeys keys;

    for (const CommandKey key : used) keys.add(acme, key);

    std::size_t called_new = 0;
    std::size_t remembered = 0;
    for (const CommandKey key : used) {
        called_new += keys.seen(acme, key) == Seen::no ? 1 : 0;
        remembered += keys.seen(acme, key) == Seen::yes ? 1 : 0;
    }
    EXPECT_EQ(called_new, 0u);
    EXPECT_LE(remembered, 2 * generation);
    EXPECT_GE(remembered, generation) << "the latest are known without a look into the store";
    EXPECT_EQ(keys.seen(acme, key_at(1'000'000 + 5 * generation)), Seen::no) << "and a new one is known to be new";
}

TEST(RecentKeysTest, what_is_older_than_something_forgotten_is_looked_up) {
    RecentKeys keys;
    for (std::uint64_t i = 0; i < 2 * generation + 1; ++i) keys.add(acme, key_at(1'000'000 + i));

    EXPECT_EQ(keys.seen(acme, key_at(1'000'000)), Seen::maybe) << "it was used, and is forgotten";
    EXPECT_EQ(keys.seen(acme, key_at(999'999)), Seen::maybe) << "it may have been";
    EXPECT_EQ(keys.seen(acme, key_at(1'000'000 + 2 * generation)), Seen::yes);
}

TEST(RecentKeysTest, a_key_from_the_far_future_costs_speed_and_nothing_else) {
    RecentKeys keys;
    const CommandKey future = key_at(4'000'000'000'000);
    keys.add(acme, future);
    for (std::uint64_t i = 0; i < 3 * generation; ++i) keys.add(acme, key_at(1'000'000 + i));

    EXPECT_NE(keys.seen(acme, future), Seen::no);
    EXPECT_EQ(keys.seen(acme, key_at(1'000'000 + 3 * generation)), Seen::maybe);
    EXPECT_EQ(keys.seen(acme, key_at(1'000'000 + 3 * generation - 1)), Seen::yes);
}

TEST(RecentKeysTest, after_forgetting_everything_only_what_is_newer_than_the_store_is_new) {
    RecentKeys keys;
    keys.add(acme, key_at(1000));
    keys.add(acme, key_at(2000));

    keys.forget_all(key_at(2000).value);

    EXPECT_EQ(keys.seen(acme, key_at(1000)), Seen::maybe);
    EXPECT_EQ(keys.seen(acme, key_at(1500)), Seen::maybe);
    EXPECT_EQ(keys.seen(acme, key_at(2000)), Seen::maybe);
    EXPECT_EQ(keys.seen(acme, key_at(2001)), Seen::no);
}

}  // namespace
}  // namespace interlock::core
