#include "store/transfer.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "store/copy_mark.h"
#include "store/sample_rows.h"
#include "store/sqlite_store.h"
#include "store/temporary_directory.h"

namespace interlock::store {
namespace {

// Ends after some commits, as a process does that is killed between two of them.
class EndingStore final : public Store {
 public:
    EndingStore(Store& store, std::size_t commits_max) : store_(store), left_(commits_max) {}

    Result<void, CommitError> commit(const WriteSet& writes) override {
        if (left_ == 0) return fail(CommitError{CommitError::Kind::rolled_back, "ended"});
        --left_;
        ++commits;
        for (const OrgWrites& org : writes.orgs) rows_max = std::max(rows_max, org.of<core::CostEvent>().put.size());
        return store_.commit(writes);
    }
    Result<void, OpenError> open() override { return store_.open(); }
    void close() override { store_.close(); }
    bool load(core::OrgId org, core::ColdRow& row) override { return store_.load(org, row); }
    core::Amounts sum(core::OrgId org, const core::Scope& scope, WindowSpan span) override {
        return store_.sum(org, scope, span);
    }
    std::vector<core::OpenSessions> open_sessions(core::OrgId org) override { return store_.open_sessions(org); }
    Result<void, ReadError> load_live(const OnLiveRow& on_row) override { return store_.load_live(on_row); }
    Result<Id, ReadError> newest_key() override { return store_.newest_key(); }
    Result<std::unique_ptr<Snapshot>, ReadError> snapshot() override { return store_.snapshot(); }

    std::size_t commits = 0;
    std::size_t rows_max = 0;  // Cost events in one commit.

 private:
    Store& store_;
    std::size_t left_;
};

class TransferTest : public testing::Test {
 protected:
    TransferTest() {
        EXPECT_TRUE(source.open());
        EXPECT_TRUE(target.open());
    }

    template <class... Row>
    void commit(core::OrgId org, const Row&... row) {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org;
        (of_org.template of<Row>().put.push_back(&row), ...);
        const auto committed = source.commit(writes);
        ASSERT_TRUE(committed) << committed.error().detail;
    }

    // Two orgs, every kind of row, many of some.
    void fill_source() {
        for (const core::OrgId org : {core::OrgId(1), core::OrgId(7)}) {
            commit(org, sample::org());
            for (const core::Agent& agent : sample::agents_of_extremes()) commit(org, agent);
            for (const std::uint64_t variant : {0u, 1u, 3u}) {
                commit(org, sample::extreme<core::AgentTotals>(variant), sample::extreme<core::ApiKey>(variant),
                       sample::extreme<core::Cap>(variant), sample::extreme<core::Budget>(variant),
                       sample::extreme<core::Window>(variant), sample::extreme<core::Run>(variant),
                       sample::extreme<core::Claim>(variant), sample::extreme<core::Hold>(variant),
                       sample::extreme<core::CostEvent>(variant), sample::extreme<core::Rollup>(variant),
                       sample::extreme<core::Schedule>(variant), sample::extreme<core::StoredReply>(variant),
                       sample::extreme<core::Launch>(variant), sample::extreme<core::Worktree>(variant),
                       sample::extreme<core::Setting>(variant), sample::extreme<core::ModelCall>(variant),
                       sample::extreme<core::SpendMark>(variant), sample::extreme<core::RunStep>(variant),
                       sample::extreme<core::ScheduleTick>(variant), sample::extreme<core::CorrectedCost>(variant));
            }
            for (std::uint64_t i = 1; i <= 20; ++i) {
                const auto seq = static_cast<std::int64_t>(i);
                commit(org, sample::session(i), sample::message(i, 0), sample::message(i, 1),
                       sample::cost_event(100 + i), sample::answer(100 + i), sample::feed_page(seq * 3 - 2, seq * 3),
                       sample::seal(seq));
            }
        }
    }

    static std::vector<TableDigest> digests(Store& store) {
        const auto snapshot = store.snapshot();
        EXPECT_TRUE(snapshot);
        const auto all = read_digests(**snapshot);
        EXPECT_TRUE(all) << all.error().detail;
        return *all;
    }

    Result<void, std::string> copy(Store& into, const CopyOptions& options = {}) {
        const auto snapshot = source.snapshot();
        EXPECT_TRUE(snapshot);
        return copy_rows(**snapshot, into, options);
    }

    TemporaryDirectory from;
    TemporaryDirectory to;
    SqliteStore source{SqliteStore::Options{.directory = from.path()}};
    SqliteStore target{SqliteStore::Options{.directory = to.path()}};
};

TEST_F(TransferTest, every_row_of_every_kind_arrives) {
    fill_source();

    const auto copied = copy(target);

    ASSERT_TRUE(copied) << copied.error();
    const auto there = digests(target);
    EXPECT_EQ(there, digests(source));
    EXPECT_TRUE(std::ranges::all_of(there, [](const TableDigest& table) { return table.rows > 0; }));
}

TEST_F(TransferTest, an_empty_store_gives_an_empty_store) {
    ASSERT_TRUE(copy(target));

    EXPECT_EQ(digests(target), digests(source));
}

TEST_F(TransferTest, wherever_a_copy_breaks_off_the_next_one_goes_on) {
    fill_source();
    const auto whole = digests(source);

    std::size_t breaks = 0;
    for (bool done = false; !done; ++breaks) {
        ASSERT_LT(breaks, 1000u);
        EndingStore ending(target, breaks);
        done = copy(ending, {.rows_max = 6}).has_value();
        EXPECT_EQ(done, digests(target) == whole);
    }

    EXPECT_GT(breaks, 10u);
}

TEST_F(TransferTest, what_is_written_once_is_not_written_again) {
    fill_source();
    ASSERT_TRUE(copy(target, {.rows_max = 5}));
    EndingStore again(target, 1000);

    ASSERT_TRUE(copy(again, {.rows_max = 5}));

    EXPECT_EQ(again.rows_max, 0u);
    EXPECT_EQ(digests(target), digests(source));
}

TEST_F(TransferTest, a_fork_brings_the_sessions_it_comes_from) {
    commit(core::OrgId(1), sample::org());
    for (std::uint64_t i = 10; i >= 1; --i) {
        core::Session session = sample::session(i);
        if (i < 10) session.parent = sample::session(i + 1).id;
        session.first_seq = session.next_seq = i < 10 ? 1 : 0;
        commit(core::OrgId(1), session);
    }

    const auto copied = copy(target, {.rows_max = 2});

    ASSERT_TRUE(copied) << copied.error();
    EXPECT_EQ(digests(target), digests(source));
}

TEST_F(TransferTest, a_chunk_is_bounded_by_rows_and_by_bytes) {
    commit(core::OrgId(1), sample::org());
    for (std::uint64_t i = 1; i <= 50; ++i) commit(core::OrgId(1), sample::cost_event(i));
    EndingStore by_rows(target, 1000);
    ASSERT_TRUE(copy(by_rows, {.rows_max = 10}));
    TemporaryDirectory other;
    SqliteStore second{SqliteStore::Options{.directory = other.path()}};
    ASSERT_TRUE(second.open());
    EndingStore by_bytes(second, 1000);
    ASSERT_TRUE(copy(by_bytes, {.rows_max = 1000, .bytes_max = 1}));

    EXPECT_EQ(by_rows.rows_max, 10u);
    EXPECT_EQ(by_bytes.rows_max, 1u);
    EXPECT_EQ(digests(second), digests(source));
}

TEST_F(TransferTest, progress_counts_up_to_what_there_is) {
    fill_source();
    std::map<std::string_view, std::int64_t> last;

    ASSERT_TRUE(copy(target, {.rows_max = 7, .on_chunk = [&](auto table, auto rows) { last[table] = rows; }}));

    EXPECT_EQ(last["sessions"], 20);
    EXPECT_EQ(last["messages"], 40);
    EXPECT_EQ(last["feed_pages"], 20);
}

TEST_F(TransferTest, a_difference_in_one_column_changes_the_digest_of_that_table) {
    fill_source();
    ASSERT_TRUE(copy(target));
    core::Agent changed = sample::agent("worker");
    changed.max_concurrent_runs = 2;
    commit(core::OrgId(7), changed);

    const auto ours = digests(source);
    const auto theirs = digests(target);

    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_EQ(ours[i] == theirs[i], ours[i].table != "agents");
}

TEST_F(TransferTest, a_fingerprint_follows_the_feeds) {
    fill_source();
    const auto print = [&] {
        const auto snapshot = source.snapshot();
        return fingerprint(*read_heads(**snapshot));
    };
    const std::string before = print();

    commit(core::OrgId(7), sample::feed_page(61, 61));

    EXPECT_EQ(before.size(), 64u);
    EXPECT_NE(print(), before);
}

// ---- the mark -----------------------------------------------------------------------------------------------------

TEST(CopyMarkTest, a_marked_directory_is_opened_by_the_copy_alone) {
    TemporaryDirectory directory;
    ASSERT_TRUE(write_copy_mark(directory.path(), {"there", "print"}));

    SqliteStore store(SqliteStore::Options{.directory = directory.path()});
    const auto refused = store.open();
    SqliteStore copying(
        SqliteStore::Options{.directory = directory.path(), .unfinished_copy = SqliteStore::UnfinishedCopy::opened});
    const auto opened = copying.open();
    const auto mark = read_copy_mark(directory.path());

    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().detail.find("a copy of there that is not finished"), std::string::npos);
    EXPECT_TRUE(opened);
    ASSERT_TRUE(mark && *mark);
    EXPECT_EQ((*mark)->from, "there");
    EXPECT_EQ((*mark)->fingerprint, "print");
}

TEST(CopyMarkTest, a_directory_whose_mark_was_removed_is_like_any_other) {
    TemporaryDirectory directory;
    ASSERT_TRUE(write_copy_mark(directory.path(), {"there", "print"}));
    ASSERT_TRUE(remove_copy_mark(directory.path()));
    ASSERT_TRUE(remove_copy_mark(directory.path()));

    SqliteStore store(SqliteStore::Options{.directory = directory.path()});

    EXPECT_TRUE(store.open());
    EXPECT_FALSE(*read_copy_mark(directory.path()));
}

TEST(CopyMarkTest, half_a_mark_keeps_everybody_out) {
    TemporaryDirectory directory;
    std::ofstream(directory.path() + "/migration.json") << "{\"from\":";

    SqliteStore store(SqliteStore::Options{.directory = directory.path()});

    EXPECT_FALSE(store.open());
    EXPECT_FALSE(read_copy_mark(directory.path()));
}

}  // namespace
}  // namespace interlock::store
