// What every database that several nodes can share must do about lanes, as tests: who may write an org, and what
// becomes of a writer that was replaced. A database takes part by giving a way to make stores on it (see
// store_test.cc).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "store/cluster.h"
#include "store/sample_rows.h"
#include "store/store.h"

namespace interlock::store {

// One database and the nodes on it.
class LanesUnderTest {
 public:
    virtual ~LanesUnderTest() = default;
    // A store with the lane of one org, which open() takes for `taker` from the epoch given there. Not opened yet.
    virtual std::unique_ptr<Store> make_store(const LaneHolder& taker) = 0;
    virtual LaneHolder lane_of(core::OrgId org) = 0;
    // The ways in which the answer to the next commit of one of these stores can get lost. A database for which that
    // cannot be arranged has none.
    using LoseNextCommit = std::function<void(Store&)>;
    virtual std::vector<LoseNextCommit> ways_to_lose_a_commit() { return {}; }
    // Whatever is on its way to the database arrives.
    virtual void let_everything_arrive() {}
};

struct LanesFactory {
    std::string name;
    std::function<std::unique_ptr<LanesUnderTest>()> make;
};
inline void PrintTo(const LanesFactory& factory, std::ostream* out) { *out << factory.name; }

class LaneConformance : public testing::TestWithParam<LanesFactory> {
 protected:
    void SetUp() override { start_anew(); }

    // No data but two orgs, whose lanes are free.
    void start_anew() {
        under_test_ = GetParam().make();
        for (const core::OrgId org : {org_a, org_b}) {
            const auto maker = open_store(org, 99);
            const core::Org row = sample::org();
            ASSERT_TRUE(put(*maker, org, row));
            maker->close();
        }
    }

    LaneHolder lane_of(core::OrgId org) { return under_test_->lane_of(org); }
    // A store of this node, which has seen the lane as it is now.
    std::unique_ptr<Store> make_store(core::OrgId org, std::uint64_t node) {
        return make_store(org, node, lane_of(org).epoch);
    }
    std::unique_ptr<Store> make_store(core::OrgId org, std::uint64_t node, std::int64_t epoch) {
        return under_test_->make_store({.org = org, .epoch = epoch, .node = {1, node}, .boot = {2, node}});
    }
    std::unique_ptr<Store> open_store(core::OrgId org, std::uint64_t node) {
        auto store = make_store(org, node);
        const auto opened = store->open();
        EXPECT_TRUE(opened) << opened.error().detail;
        return store;
    }

    template <class Row>
    static Result<void, CommitError> put(Store& store, core::OrgId org, const Row& row) {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org;
        of_org.of<Row>().put.push_back(&row);
        return store.commit(writes);
    }
    static bool has(Store& store, core::OrgId org, const core::CostEvent& event) {
        core::ColdRow row = core::with_key<core::CostEvent>(event.key);
        const bool found = store.load(org, row);
        EXPECT_FALSE(store.failed());
        return found;
    }
    static void expect_refused(Store& store, core::OrgId org) {
        const auto done = put(store, org, sample::cost_event(77));
        ASSERT_FALSE(done) << "it was replaced";
        EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back);
    }
    static void expect_in_use(Store& store) {
        const auto opened = store.open();
        ASSERT_FALSE(opened) << "somebody else has the lane";
        EXPECT_EQ(opened.error().kind, OpenError::Kind::in_use);
        EXPECT_FALSE(opened.error().detail.empty());
    }

    LanesUnderTest& under_test() { return *under_test_; }

    static constexpr core::OrgId org_a{1};
    static constexpr core::OrgId org_b{4'000'000'000};

 private:
    std::unique_ptr<LanesUnderTest> under_test_;
};

TEST_P(LaneConformance, a_lane_that_nobody_has_taken_is_free_and_at_epoch_0) {
    const LaneHolder lane = lane_of(core::OrgId(7));

    EXPECT_EQ(lane.org, core::OrgId(7));
    EXPECT_EQ(lane.epoch, 0);
    EXPECT_TRUE(lane.node.empty());
    EXPECT_TRUE(lane.boot.empty());
}

TEST_P(LaneConformance, opening_takes_the_lane_and_raises_its_epoch) {
    const std::int64_t before = lane_of(org_a).epoch;
    const std::int64_t other = lane_of(org_b).epoch;

    const auto store = open_store(org_a, 1);

    EXPECT_EQ(lane_of(org_a).epoch, before + 1);
    EXPECT_EQ(lane_of(org_a).node, (Id{1, 1}));
    EXPECT_EQ(lane_of(org_a).boot, (Id{2, 1}));
    EXPECT_EQ(lane_of(org_b).epoch, other);
    EXPECT_TRUE(lane_of(org_b).boot.empty());
    EXPECT_TRUE(put(*store, org_a, sample::cost_event(1)));
    EXPECT_TRUE(store->open()) << "to open an open store does nothing";
    EXPECT_EQ(lane_of(org_a).epoch, before + 1);
}

TEST_P(LaneConformance, a_second_taker_wins_and_nothing_of_the_first_gets_in_any_more) {
    const auto first = open_store(org_a, 1);
    ASSERT_TRUE(put(*first, org_a, sample::cost_event(1)));

    const auto second = open_store(org_a, 2);

    EXPECT_TRUE(has(*second, org_a, sample::cost_event(1)));
    expect_refused(*first, org_a);
    EXPECT_FALSE(has(*second, org_a, sample::cost_event(77)));
    EXPECT_TRUE(put(*second, org_a, sample::cost_event(2)));
    EXPECT_EQ(lane_of(org_a).boot, (Id{2, 2}));
}

TEST_P(LaneConformance, a_writer_that_was_replaced_stays_so_however_often_it_opens) {
    const auto first = open_store(org_a, 1);
    const auto second = open_store(org_a, 2);

    for (int i = 0; i < 3; ++i) {
        expect_refused(*first, org_a);
        expect_in_use(*first);
    }

    second->close();
    expect_in_use(*first);
    expect_refused(*first, org_a);
}

TEST_P(LaneConformance, a_writer_that_was_replaced_cannot_even_commit_nothing) {
    const auto first = open_store(org_a, 1);
    EXPECT_TRUE(first->commit({}));

    const auto second = open_store(org_a, 2);

    const auto done = first->commit({});
    ASSERT_FALSE(done) << "what is answered without a change has to be true as well";
    EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back);
    EXPECT_TRUE(second->commit({}));
}

TEST_P(LaneConformance, a_writer_that_was_replaced_reads_nothing_any_more) {
    // What it has in memory is old. Together with newer rows it would be a state that never was.
    core::ColdRow row = sample::cost_event(1);
    const std::vector<std::function<void(Store&)>> readings = {
        [&](Store& store) { EXPECT_FALSE(store.load(org_a, row)); },
        [&](Store& store) { EXPECT_EQ(store.sum(org_a, {}, {from_micros(1), far_future}), core::Amounts{}); },
        [](Store& store) { EXPECT_FALSE(store.load_live([](core::OrgId, LiveRow&&) {})); },
        [](Store& store) { EXPECT_FALSE(store.newest_key()); },
    };
    for (const auto& read : readings) {
        start_anew();
        const auto first = open_store(org_a, 1);
        ASSERT_TRUE(put(*first, org_a, sample::cost_event(1)));
        const auto second = open_store(org_a, 2);

        read(*first);

        EXPECT_TRUE(first->failed());
        expect_in_use(*first);
    }
}

TEST_P(LaneConformance, closing_does_not_free_the_lane_of_whoever_came_after) {
    const auto first = open_store(org_a, 1);
    const auto second = open_store(org_a, 2);

    first->close();

    EXPECT_EQ(lane_of(org_a).boot, (Id{2, 2}));
    EXPECT_TRUE(put(*second, org_a, sample::cost_event(1)));
}

TEST_P(LaneConformance, of_two_takers_from_one_epoch_one_gets_the_lane) {
    const std::int64_t epoch = lane_of(org_a).epoch;
    const auto first = make_store(org_a, 1, epoch);
    const auto second = make_store(org_a, 2, epoch);

    ASSERT_TRUE(second->open());

    expect_in_use(*first);
    EXPECT_TRUE(put(*second, org_a, sample::cost_event(1)));
    EXPECT_EQ(lane_of(org_a).epoch, epoch + 1);
}

TEST_P(LaneConformance, nobody_takes_a_lane_from_an_epoch_that_it_does_not_have) {
    const std::int64_t epoch = lane_of(org_a).epoch;

    for (const std::int64_t wrong : {epoch - 1, epoch + 1, std::int64_t{0}}) {
        const auto store = make_store(org_a, 1, wrong);
        expect_in_use(*store);
    }
    EXPECT_EQ(lane_of(org_a).epoch, epoch);
}

TEST_P(LaneConformance, a_lane_that_was_given_back_can_be_taken_and_keeps_its_epoch_until_then) {
    const auto first = open_store(org_a, 1);
    const std::int64_t epoch = lane_of(org_a).epoch;

    first->close();

    EXPECT_EQ(lane_of(org_a).epoch, epoch);
    EXPECT_TRUE(lane_of(org_a).boot.empty());
    const auto second = open_store(org_a, 2);
    EXPECT_EQ(lane_of(org_a).epoch, epoch + 1);
    EXPECT_TRUE(put(*second, org_a, sample::cost_event(1)));
    expect_in_use(*first);
}

TEST_P(LaneConformance, a_node_takes_its_own_lane_again_whatever_epoch_it_remembers) {
    const auto before = open_store(org_a, 1);
    const auto after = make_store(org_a, 1, 0);

    ASSERT_TRUE(after->open()) << "the answer to an earlier take may have been lost";

    expect_refused(*before, org_a);
    EXPECT_TRUE(put(*after, org_a, sample::cost_event(1)));
}

TEST_P(LaneConformance, a_store_with_a_lane_sees_the_rows_of_its_org_only) {
    const auto a = open_store(org_a, 1);
    const auto b = open_store(org_b, 1);
    core::CostEvent event = sample::cost_event(1);
    event.key = core::CommandKey(time_ordered_id(from_micros(5'000'000), 1, 2));
    ASSERT_TRUE(put(*a, org_a, event));
    ASSERT_TRUE(put(*b, org_b, sample::agent("other")));

    std::vector<core::OrgId> seen;
    ASSERT_TRUE(a->load_live([&](core::OrgId org, LiveRow&&) { seen.push_back(org); }));
    EXPECT_EQ(seen, std::vector{org_a});
    EXPECT_EQ(*a->newest_key(), event.key.value);
    EXPECT_TRUE(b->newest_key()->empty());
}

TEST_P(LaneConformance, two_lanes_are_written_side_by_side) {
    const auto a = open_store(org_a, 1);
    const auto b = open_store(org_b, 2);

    for (std::uint64_t i = 1; i <= 3; ++i) {
        EXPECT_TRUE(put(*a, org_a, sample::cost_event(i)));
        EXPECT_TRUE(put(*b, org_b, sample::cost_event(i)));
    }
}

TEST_P(LaneConformance, a_commit_whose_answer_was_lost_is_there_or_not_for_good_once_its_writer_has_opened) {
    for (std::size_t way = 0; way < under_test().ways_to_lose_a_commit().size(); ++way) {
        start_anew();
        const auto writer = open_store(org_a, 1);
        under_test().ways_to_lose_a_commit()[way](*writer);
        const auto done = put(*writer, org_a, sample::cost_event(1));
        ASSERT_FALSE(done);
        ASSERT_EQ(done.error().kind, CommitError::Kind::unknown);

        ASSERT_TRUE(writer->open());

        const bool there = has(*writer, org_a, sample::cost_event(1));
        under_test().let_everything_arrive();
        EXPECT_EQ(has(*writer, org_a, sample::cost_event(1)), there);
        EXPECT_TRUE(put(*writer, org_a, sample::cost_event(2)));
    }
}

TEST_P(LaneConformance, a_commit_whose_answer_was_lost_is_there_or_not_for_good_once_somebody_has_taken_the_lane) {
    for (std::size_t way = 0; way < under_test().ways_to_lose_a_commit().size(); ++way) {
        start_anew();
        const auto writer = open_store(org_a, 1);
        under_test().ways_to_lose_a_commit()[way](*writer);
        ASSERT_FALSE(put(*writer, org_a, sample::cost_event(1)));

        const auto taker = open_store(org_a, 2);

        const bool there = has(*taker, org_a, sample::cost_event(1));
        under_test().let_everything_arrive();
        EXPECT_EQ(has(*taker, org_a, sample::cost_event(1)), there);
        EXPECT_TRUE(put(*taker, org_a, sample::cost_event(2)));
        expect_in_use(*writer);
    }
}

}  // namespace interlock::store
