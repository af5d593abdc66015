// The faults of the store in memory: each does what its name says, and nothing else.
#include "store/memory_store.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "store/sample_rows.h"

namespace interlock::store {
namespace {

class MemoryStoreTest : public testing::Test {
 protected:
    MemoryStoreTest() { EXPECT_TRUE(store_.open()); }

    // Four rows of two kinds.
    Result<void, CommitError> commit() {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org_;
        for (const core::Session& session : sessions_) of_org.of<core::Session>().put.push_back(&session);
        for (const core::StoredReply& answer : answers_) of_org.of<core::StoredReply>().put.push_back(&answer);
        return store_.commit(writes);
    }
    std::size_t rows() const { return store_.rows<core::Session>().size() + store_.rows<core::StoredReply>().size(); }
    bool load() {
        core::ColdRow row = answers_[0];
        return store_.load(org_, row);
    }
    void expect_closed() {
        EXPECT_FALSE(commit());
        EXPECT_FALSE(load());
        EXPECT_TRUE(store_.open());
    }

    const core::OrgId org_{1};
    const std::vector<core::Session> sessions_{sample::session(1), sample::session(2)};
    const std::vector<core::StoredReply> answers_{sample::answer(1), sample::answer(2)};
    MemoryStore store_;
};

TEST_F(MemoryStoreTest, without_a_fault_everything_is_written) {
    EXPECT_TRUE(commit());
    EXPECT_EQ(rows(), 4u);
    EXPECT_TRUE(load());
}

TEST_F(MemoryStoreTest, fail_before_rolls_back) {
    store_.fail_next_commit(CommitFault::fail_before);

    const auto done = commit();

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back);
    EXPECT_EQ(rows(), 0u);
    expect_closed();
    EXPECT_TRUE(commit()) << "only the next commit was to fail";
}

TEST_F(MemoryStoreTest, a_lost_answer_is_unknown_and_written) {
    store_.fail_next_commit(CommitFault::lose_answer);

    const auto done = commit();

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::unknown);
    EXPECT_EQ(rows(), 4u);
    expect_closed();
    EXPECT_TRUE(load());
}

TEST_F(MemoryStoreTest, a_lost_write_is_unknown_and_not_written) {
    store_.fail_next_commit(CommitFault::lose_write);

    const auto done = commit();

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::unknown);
    EXPECT_EQ(rows(), 0u);
    expect_closed();
    EXPECT_FALSE(load());
}

TEST_F(MemoryStoreTest, a_store_that_forgets_says_done) {
    store_.fail_next_commit(CommitFault::forget);

    EXPECT_TRUE(commit());
    EXPECT_EQ(rows(), 0u);
}

TEST_F(MemoryStoreTest, a_store_that_tears_writes_half) {
    store_.fail_next_commit(CommitFault::tear);

    EXPECT_TRUE(commit());
    EXPECT_EQ(store_.rows<core::Session>().size(), 2u);
    EXPECT_EQ(store_.rows<core::StoredReply>().size(), 0u);
}

TEST_F(MemoryStoreTest, a_store_that_tears_may_also_be_unsure) {
    store_.fail_next_commit(CommitFault::tear_unsure);

    const auto done = commit();

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::unknown);
    EXPECT_EQ(rows(), 2u);
    expect_closed();
}

TEST_F(MemoryStoreTest, a_plan_is_asked_at_every_commit) {
    int asked = 0;
    store_.set_faults({.at_commit = [&] { return ++asked == 2 ? CommitFault::fail_before : CommitFault::none; },
                       .at_load = nullptr,
                       .at_open = nullptr});

    EXPECT_TRUE(store_.commit({}));
    EXPECT_FALSE(store_.commit({}));
    EXPECT_TRUE(store_.open());
    EXPECT_TRUE(store_.commit({}));
    EXPECT_EQ(asked, 3);
}

TEST_F(MemoryStoreTest, a_failed_load_is_remembered_until_the_store_is_opened) {
    ASSERT_TRUE(commit());
    store_.fail_next_load();

    EXPECT_FALSE(load());
    EXPECT_TRUE(store_.failed());
    EXPECT_FALSE(load());
    EXPECT_FALSE(store_.commit({}));

    ASSERT_TRUE(store_.open());
    EXPECT_FALSE(store_.failed());
    EXPECT_TRUE(load());
}

TEST_F(MemoryStoreTest, opening_fails_when_it_is_asked_to) {
    store_.close();
    bool fails = true;
    store_.set_faults({.at_commit = nullptr, .at_load = nullptr, .at_open = [&]() -> std::optional<OpenError> {
                           if (fails) return OpenError{OpenError::Kind::unavailable, "asked to"};
                           return std::nullopt;
                       }});

    EXPECT_FALSE(store_.open());
    fails = false;
    EXPECT_TRUE(store_.open());
}

TEST_F(MemoryStoreTest, a_copy_goes_its_own_way) {
    ASSERT_TRUE(commit());
    MemoryStore copy = store_;

    WriteSet writes;
    OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = org_;
    of_org.of<core::Session>().erased.push_back(sessions_[0].id);
    ASSERT_TRUE(copy.commit(writes));

    EXPECT_EQ(copy.rows<core::Session>().size(), 1u);
    EXPECT_EQ(store_.rows<core::Session>().size(), 2u);
}

// ---- several on one database --------------------------------------------------------------------------------------

class MemoryLanesTest : public testing::Test {
 protected:
    std::unique_ptr<MemoryStore> open_as(std::uint64_t node) {
        const LaneHolder taker{
            .org = org_, .epoch = database_->lane_of(org_).epoch, .node = {1, node}, .boot = {2, node}};
        auto store = std::make_unique<MemoryStore>(database_, taker);
        EXPECT_TRUE(store->open());
        return store;
    }
    Result<void, CommitError> commit(MemoryStore& store, const core::Session& session) {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org_;
        of_org.of<core::Session>().put.push_back(&session);
        return store.commit(writes);
    }
    bool is_there(const core::Session& session) const {
        return database_->rows<core::Session>().contains({org_, session.id});
    }

    const core::OrgId org_{1};
    const core::Session session_ = sample::session(1);
    const std::shared_ptr<MemoryDatabase> database_ = std::make_shared<MemoryDatabase>();
};

TEST_F(MemoryLanesTest, a_commit_on_the_wire_is_written_when_it_arrives_while_the_lane_is_its_own) {
    int told = 0;
    database_->on_written = [&](const WriteSet&) { ++told; };
    const auto store = open_as(1);
    store->fail_next_commit(CommitFault::late_on_the_wire);

    const auto done = commit(*store, session_);

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::unknown);
    EXPECT_FALSE(is_there(session_));
    database_->deliver_late(0);
    EXPECT_TRUE(is_there(session_));
    EXPECT_EQ(told, 1);
    EXPECT_EQ(database_->late_commits(), 0u);
}

TEST_F(MemoryLanesTest, a_commit_on_the_wire_comes_too_late_once_its_own_writer_has_opened) {
    const auto store = open_as(1);
    store->fail_next_commit(CommitFault::late_on_the_wire);
    ASSERT_FALSE(commit(*store, session_));

    ASSERT_TRUE(store->open());
    database_->deliver_late(0);

    EXPECT_FALSE(is_there(session_));
}

TEST_F(MemoryLanesTest, a_commit_that_was_begun_is_written_before_the_lane_is_taken) {
    const auto store = open_as(1);
    store->fail_next_commit(CommitFault::late_in_the_database);
    ASSERT_FALSE(commit(*store, session_));
    EXPECT_FALSE(is_there(session_));

    const auto taker = open_as(2);

    EXPECT_TRUE(is_there(session_));
    EXPECT_EQ(database_->late_commits(), 0u);
}

TEST_F(MemoryLanesTest, each_lie_is_told) {
    const auto first = open_as(1);
    database_->lies = {.no_proof = true, .takes_do_not_wait = true, .opening_again_takes_nothing = true};
    first->fail_next_commit(CommitFault::late_in_the_database);
    ASSERT_FALSE(commit(*first, session_));
    const std::int64_t epoch = database_->lane_of(org_).epoch;

    EXPECT_TRUE(first->open());
    EXPECT_EQ(database_->lane_of(org_).epoch, epoch);
    const auto second = open_as(2);
    EXPECT_FALSE(is_there(session_));
    database_->deliver_late(0);
    EXPECT_TRUE(is_there(session_));
    EXPECT_TRUE(commit(*first, sample::session(2))) << "it was replaced";
}

TEST_F(MemoryLanesTest, an_open_that_fails_may_have_taken_the_lane) {
    MemoryStore store(database_, {.org = org_, .epoch = 0, .node = {1, 1}, .boot = {2, 1}});
    bool fails = true;
    store.set_faults({.at_commit = nullptr,
                      .at_load = nullptr,
                      .at_open = [&]() -> std::optional<OpenError> {
                          if (fails) return OpenError{OpenError::Kind::unavailable, "asked to"};
                          return std::nullopt;
                      },
                      .takes_all_the_same = [] { return true; }});

    EXPECT_FALSE(store.open());
    EXPECT_EQ(database_->lane_of(org_).epoch, 1);
    fails = false;
    EXPECT_TRUE(store.open());
    EXPECT_EQ(store.epoch(), 2);
}

TEST_F(MemoryStoreTest, there_is_no_sql) { EXPECT_FALSE(store_.snapshot()); }

}  // namespace
}  // namespace interlock::store
