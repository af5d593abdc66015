// Tools on a PostgreSQL store: corrections of single rows, and whole stores that come and go.
#include "store/postgres_repair.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "store/column_values.h"
#include "store/copy_mark.h"
#include "store/postgres_store.h"
#include "store/postgres_test_database.h"
#include "store/sample_rows.h"
#include "store/sqlite_store.h"
#include "store/temporary_directory.h"
#include "store/transfer.h"

namespace interlock::store {
namespace {

template <class... Row>
void put(Store& store, core::OrgId org, const Row&... row) {
    WriteSet writes;
    OrgWrites& of_org = writes.orgs.emplace_back();
    of_org.org = org;
    (of_org.template of<Row>().put.push_back(&row), ...);
    const auto done = store.commit(writes);
    ASSERT_TRUE(done) << done.error().detail;
}

class PostgresRepairTest : public testing::Test {
 protected:
    PostgresRepairTest() {
        const auto opened = store.open();
        EXPECT_TRUE(opened) << opened.error().detail;
        put(store, org_one, sample::org(), sample::agent("worker"), sample::agent_totals("worker"), sample::agent("x"));
    }

    std::string sql(const std::string& text) const { return run_sql(database.uri(), text); }
    std::string settled() const { return sql("select settled from agent_totals where agent = 'worker'"); }

    static Repair settled_from_to(std::int64_t from, std::int64_t to) {
        return {.kind = Repair::Kind::change,
                .row = {"agent_totals", {{"org", std::int64_t{1}}, {"agent", std::string("worker")}}},
                .cells = {{"settled", from, to}}};
    }

    PostgresTestDatabase database;
    PostgresStore store{PostgresStore::Options{.server = {.uri = database.uri()}, .boot = Id{2, 1}}};
};

TEST_F(PostgresRepairTest, rows_are_changed_added_and_removed_in_one_transaction) {
    const core::Session session = sample::session(3);
    put(store, org_one, session);
    Scratch scratch;
    const std::string id(id_bytes(session.id.value, scratch));

    const auto done = store.repair({settled_from_to(0, 7),
                                    {.kind = Repair::Kind::insert,
                                     .row = {"agent_totals", {{"org", std::int64_t{1}}, {"agent", std::string("x")}}},
                                     .cells = {{"settled", std::int64_t{0}, std::int64_t{9}},
                                               {"tokens", std::int64_t{0}, std::int64_t{0}},
                                               {"events", std::int64_t{0}, std::int64_t{1}},
                                               {"last_event_at", std::int64_t{0}, std::int64_t{5}}}},
                                    {.kind = Repair::Kind::remove,
                                     .row = {"sessions", {{"org", std::int64_t{1}}, {"id", Blob{id}}}},
                                     .cells = {{"title", std::string("a session"), std::string()}}}});

    ASSERT_TRUE(done) << done.error().detail;
    EXPECT_EQ(settled(), "7");
    EXPECT_EQ(sql("select settled from agent_totals where agent = 'x'"), "9");
    EXPECT_EQ(sql("select count(*) from sessions"), "0");
}

TEST_F(PostgresRepairTest, a_row_that_has_changed_since_undoes_all_of_it) {
    const auto done = store.repair({settled_from_to(0, 7), settled_from_to(5, 6)});

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back);
    EXPECT_EQ(done.error().detail, "a row of agent_totals is no longer what it was");
    EXPECT_EQ(settled(), "0");
}

TEST_F(PostgresRepairTest, whoever_lost_a_lane_repairs_nothing) {
    sql("update lanes set epoch = epoch + 1");

    const auto done = store.repair({settled_from_to(0, 7)});

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back);
    EXPECT_EQ(settled(), "0");
}

// ---- whole stores -------------------------------------------------------------------------------------------------

void copy(Store& from, Store& to, const CopyOptions& how) {
    const auto snapshot = from.snapshot();
    ASSERT_TRUE(snapshot);
    const auto copied = copy_rows(**snapshot, to, how);
    ASSERT_TRUE(copied) << copied.error();
}

std::vector<TableDigest> digests(Store& store) {
    const auto snapshot = store.snapshot();
    const auto all = read_digests(**snapshot);
    EXPECT_TRUE(all) << all.error().detail;
    return *all;
}

TEST(PostgresTransferTest, whatever_a_column_can_hold_goes_there_and_back) {
    const TemporaryDirectory first;
    const TemporaryDirectory second;
    SqliteStore source(SqliteStore::Options{.directory = first.path()});
    SqliteStore back(SqliteStore::Options{.directory = second.path()});
    const PostgresTestDatabase database;
    PostgresStore there(PostgresStore::Options{.server = {.uri = database.uri()}, .boot = Id{2, 1}});
    ASSERT_TRUE(source.open() && back.open() && there.open());
    for (const core::OrgId org : {core::OrgId(1), core::OrgId(9)}) {
        put(source, org, sample::org());
        for (const core::Agent& agent : sample::agents_of_extremes()) put(source, org, agent);
        for (const std::uint64_t variant : {0u, 1u, 3u}) {
            put(source, org, sample::extreme<core::AgentTotals>(variant), sample::extreme<core::ApiKey>(variant),
                sample::extreme<core::Cap>(variant), sample::extreme<core::Budget>(variant),
                sample::extreme<core::Window>(variant), sample::extreme<core::Run>(variant),
                sample::extreme<core::Claim>(variant), sample::extreme<core::Hold>(variant),
                sample::extreme<core::CostEvent>(variant), sample::extreme<core::Rollup>(variant),
                sample::extreme<core::Schedule>(variant), sample::extreme<core::StoredReply>(variant));
        }
        for (std::uint64_t i = 10; i >= 1; --i) {
            core::Session session = sample::session(i);
            if (i < 10) session.parent = sample::session(i + 1).id;
            session.first_seq = session.next_seq = i < 10 ? 1 : 0;
            const auto seq = static_cast<std::int64_t>(11 - i);
            put(source, org, session, sample::message(i, 0), sample::feed_page(seq, seq));
        }
    }

    copy(source, there, {.rows_max = 2});
    copy(source, there, {.rows_max = 3});  // Again, as after a break.
    copy(there, back, {.rows_max = 2, .bytes_max = 5000});

    EXPECT_EQ(digests(there), digests(source));
    EXPECT_EQ(digests(back), digests(source));
}

TEST(PostgresTransferTest, the_mark_of_an_unfinished_copy_stays_until_it_is_removed) {
    const PostgresTestDatabase database;
    PostgresPool pool({.server = {.uri = database.uri()}});
    const auto read = [&] {
        const auto snapshot = open_snapshot(PostgresOptions{.uri = database.uri()});
        auto mark = read_copy_mark(**snapshot);
        EXPECT_TRUE(mark);
        return *mark;
    };
    ASSERT_TRUE(pool.lend());
    EXPECT_FALSE(read());

    ASSERT_TRUE(write_copy_mark(pool, {"there", "print"}));
    ASSERT_TRUE(read());
    EXPECT_EQ(read()->fingerprint, "print");

    ASSERT_TRUE(remove_copy_mark(pool));
    EXPECT_FALSE(read());
}

}  // namespace
}  // namespace interlock::store
