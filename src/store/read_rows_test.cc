#include "store/read_rows.h"

#include <filesystem>
#include <memory>

#include <gtest/gtest.h>

#include "base/codec.h"
#include "store/read_pool.h"
#include "store/sample_rows.h"
#include "store/sqlite_backup.h"
#include "store/sqlite_store.h"
#include "store/temporary_directory.h"

namespace interlock::store {
namespace {

class ReadRowsTest : public testing::Test {
 protected:
    ReadRowsTest() {
        store = std::make_unique<SqliteStore>(SqliteStore::Options{.directory = directory.path()});
        EXPECT_TRUE(store->open());
    }

    template <class... Row>
    void commit(core::OrgId org, const Row&... row) {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org;
        (of_org.template of<Row>().put.push_back(&row), ...);
        const auto committed = store->commit(writes);
        ASSERT_TRUE(committed) << committed.error().detail;
    }

    static constexpr core::OrgId ours{1};
    static constexpr core::OrgId theirs{2};
    TemporaryDirectory directory;
    std::unique_ptr<SqliteStore> store;
};

TEST_F(ReadRowsTest, whole_rows_come_back_as_they_were_written) {
    core::Run run = sample::run(3, "worker");
    run.who = sample::attribution();
    run.who.agent = "worker";
    run.who.run = run.id;
    run.wanted = {sample::claim(3, 0).place};
    core::CostEvent event = sample::cost_event(4);
    event.who = sample::attribution();
    event.usage.input_tokens = 12;
    event.overage = 5;
    event.estimated = true;
    commit(ours, sample::org(), sample::agent("worker"), run, event, sample::hold(5), sample::feed_page(1, 2));
    const auto snapshot = store->snapshot();
    ASSERT_TRUE(snapshot);

    const auto runs = read_rows<core::Run>(**snapshot, ours);
    const auto events = read_rows<core::CostEvent>(**snapshot, ours);
    const auto holds = read_rows<core::Hold>(**snapshot, ours);
    const auto pages = read_rows<core::FeedPage>(**snapshot, ours);

    ASSERT_TRUE(runs && events && holds && pages);
    ASSERT_EQ(runs->size(), 1u);
    ASSERT_EQ(events->size(), 1u);
    ASSERT_EQ(holds->size(), 1u);
    ASSERT_EQ(pages->size(), 1u);
    EXPECT_EQ(encode(runs->front()), encode(run));
    EXPECT_EQ(encode(events->front()), encode(event));
    EXPECT_EQ(encode(holds->front()), encode(sample::hold(5)));
    EXPECT_EQ(encode(pages->front()), encode(sample::feed_page(1, 2)));
}

TEST_F(ReadRowsTest, another_orgs_rows_are_not_there) {
    commit(ours, sample::org(), sample::agent("worker"));
    commit(theirs, sample::org(), sample::agent("spy"));
    const auto snapshot = store->snapshot();

    const auto agents = read_rows<core::Agent>(**snapshot, ours);
    const auto other = read_row<core::Agent>(**snapshot, ours, "spy");

    ASSERT_TRUE(agents && other);
    ASSERT_EQ(agents->size(), 1u);
    EXPECT_EQ(agents->front().name, "worker");
    EXPECT_FALSE(other->has_value());
}

TEST_F(ReadRowsTest, numbers_texts_and_ids_can_be_asked_with) {
    commit(ours, sample::org(), sample::agent("a"), sample::agent("b"), sample::session(7), sample::message(7, 0));
    const auto snapshot = store->snapshot();

    const auto after =
        read_rows<core::Agent>(**snapshot, ours, "and name > $2 limit $3", {std::string("a"), std::int64_t{5}});
    const auto session = read_row<core::Session>(**snapshot, ours, sample::id(7));
    const auto count =
        read_number(**snapshot, ours, "select count(*) from messages where org = $1 and session = $2", {sample::id(7)});

    ASSERT_TRUE(after && session && count);
    ASSERT_EQ(after->size(), 1u);
    EXPECT_EQ(after->front().name, "b");
    EXPECT_TRUE(session->has_value());
    EXPECT_EQ(*count, 1);
}

TEST_F(ReadRowsTest, a_reader_of_the_pool_sees_every_commit_before_it_and_one_moment_throughout) {
    commit(ours, sample::org(), sample::agent("a"));
    ReadPool pool(*store);
    const auto agents = [&](Snapshot& snapshot) { return read_rows<core::Agent>(snapshot, ours); };
    EXPECT_EQ(pool.with(agents)->size(), 1u);

    commit(ours, sample::agent("b"));

    EXPECT_EQ(pool.with(agents)->size(), 2u);
    const auto seen = pool.with([&](Snapshot& snapshot) {
        const std::size_t before = agents(snapshot)->size();
        commit(ours, sample::agent("c"));
        EXPECT_EQ(agents(snapshot)->size(), before) << "one reader, one moment";
        return agents(snapshot);
    });
    EXPECT_EQ(seen->size(), 2u);
    EXPECT_EQ(pool.with(agents)->size(), 3u);
}

TEST_F(ReadRowsTest, a_backup_is_a_store_of_its_own_with_the_state_of_its_moment) {
    commit(ours, sample::org(), sample::agent("worker"));
    const TemporaryDirectory elsewhere;
    const std::string file = elsewhere.path() + "/interlock.db";

    const auto facts = back_up(directory.path(), file);
    commit(ours, sample::agent("later"));

    ASSERT_TRUE(facts) << facts.error().detail;
    EXPECT_EQ(facts->bytes, static_cast<std::int64_t>(std::filesystem::file_size(file)));
    EXPECT_EQ(facts->sha256.size(), 64u);
    SqliteStore copy(SqliteStore::Options{.directory = elsewhere.path()});
    ASSERT_TRUE(copy.open());
    const auto agents = read_rows<core::Agent>(**copy.snapshot(), ours);
    ASSERT_TRUE(agents);
    ASSERT_EQ(agents->size(), 1u);
    EXPECT_EQ(agents->front().name, "worker");
}

TEST_F(ReadRowsTest, a_backup_writes_over_nothing_and_leaves_nothing_behind_when_it_fails) {
    const std::string there = directory.path() + "/interlock.db";
    EXPECT_FALSE(back_up(directory.path(), there));
    EXPECT_TRUE(store->snapshot());

    const TemporaryDirectory empty;
    const std::string file = empty.path() + "/copy.db";
    EXPECT_FALSE(back_up(empty.path(), file)) << "there is no store to copy";
    EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace interlock::store
