// What only the SQLite store does: snapshots, disks that fail, and tables that refuse what the rules refuse.
#include "store/sqlite_store.h"

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <boost/mp11/algorithm.hpp>

#include "base/codec.h"
#include "store/sqlite_columns.h"
#include "store/sqlite_db.h"
#include "store/sqlite_failing_vfs.h"
#include "store/sqlite_schema.h"
#include "store/sqlite_store_test_support.h"

namespace interlock::store {
namespace {

namespace fs = std::filesystem;

// Numbers that a query gives, row after row.
std::vector<std::int64_t> numbers(Snapshot& snapshot, std::string_view sql) {
    std::vector<std::int64_t> all;
    const auto read = snapshot.query(sql, [&](const std::vector<Value>& values) {
        for (const Value& value : values) all.push_back(std::get<std::int64_t>(value));
    });
    EXPECT_TRUE(read) << read.error().detail;
    return all;
}

std::vector<std::string> texts(Snapshot& snapshot, std::string_view sql) {
    std::vector<std::string> all;
    const auto read = snapshot.query(sql, [&](const std::vector<Value>& values) {
        for (const Value& value : values) all.push_back(std::get<std::string>(value));
    });
    EXPECT_TRUE(read) << read.error().detail;
    return all;
}

// ---- the schema ---------------------------------------------------------------------------------------------------

TEST_F(SqliteStoreTest, every_member_of_a_row_is_a_column_and_every_column_a_member) {
    open();
    const auto snapshot = store_->snapshot();
    ASSERT_TRUE(snapshot);
    std::set<std::string> tables;

    boost::mp11::mp_for_each<core::AllRows>([&]<class Row>(Row) {
        std::vector<std::string> members{"org"};
        for (const std::string& name : shape_of<Row>().columns) members.push_back(name);
        const std::string info = fmt::format("select name from pragma_table_info('{}') order by cid", Row::table);
        EXPECT_EQ(texts(**snapshot, info), members) << Row::table;
        tables.emplace(Row::table);
    });
    tables.erase("cost_events");  // A view of two.
    tables.insert({"ledger", "ledger_details"});

    const auto found = texts(**snapshot, "select name from sqlite_master where type = 'table'");
    EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), tables);
}

// Which is how a member is found that is neither in the table of all events nor looked at when details are written.
TEST_F(SqliteStoreTest, a_cost_event_reads_back_equal_whichever_of_its_members_it_states) {
    open_with_org();
    const core::CostEvent full = sample::extreme<core::CostEvent>(1);
    std::uint64_t number = 0;

    boost::mp11::mp_for_each<Columns<core::CostEvent>>([&](auto column) {
        core::CostEvent event = sample::cost_event(++number);
        if (column.member != "key") column.in(event) = column.in(full);
        put(event);

        core::ColdRow found = sample::cost_event(number);
        EXPECT_TRUE(store_->load(org_, found));
        EXPECT_EQ(encode(std::get<core::CostEvent>(found)), encode(event)) << column.member;
    });
}

TEST_F(SqliteStoreTest, a_plain_cost_event_has_no_details) {
    open_with_org();
    core::CostEvent estimated = sample::cost_event(2);
    estimated.estimated = true;
    put(sample::cost_event(1), estimated);

    const auto snapshot = store_->snapshot();

    EXPECT_EQ(numbers(**snapshot, "select estimated from cost_events order by seq"), (std::vector<std::int64_t>{0, 1}));
    EXPECT_EQ(numbers(**snapshot, "select count(*) from ledger_details"), std::vector<std::int64_t>{1});
}

TEST_F(SqliteStoreTest, what_is_written_most_has_no_index_but_its_key) {
    open();
    const auto snapshot = store_->snapshot();

    EXPECT_EQ(numbers(**snapshot,
                      "select count(*) from sqlite_master where type = 'index' and "
                      "tbl_name in ('ledger', 'ledger_details', 'answers') and name not like 'sqlite_autoindex_%'"),
              std::vector<std::int64_t>{0});
    EXPECT_EQ(numbers(**snapshot, "select count(*) from pragma_index_list('messages')"), std::vector<std::int64_t>{1});
}

TEST_F(SqliteStoreTest, live_rows_are_found_by_an_index) {
    open();
    const auto snapshot = store_->snapshot();
    const auto plan = [&](const std::string& sql) {
        std::string steps;
        EXPECT_TRUE((*snapshot)->query("explain query plan " + sql, [&](const std::vector<Value>& values) {
            steps += std::get<std::string>(values[3]) + "\n";
        }));
        return steps;
    };

    EXPECT_NE(
        plan("select * from runs where state in ('queued', 'starting', 'running', 'paused')").find("unfinished_runs"),
        std::string::npos);
    EXPECT_NE(plan("select * from holds where state = 'open'").find("open_holds"), std::string::npos);
    EXPECT_NE(plan("select agent, api_key, count(*) from sessions where closed = 0 and org = 1 group by agent, api_key")
                  .find("COVERING INDEX open_sessions"),
              std::string::npos);
}

// Each line is a change that the rules never make. The tables refuse it by themselves.
TEST_F(SqliteStoreTest, the_tables_refuse_what_the_rules_refuse) {
    open_with_org();
    core::CostEvent event = sample::cost_event(1);
    event.calls = 2;  // So that it has details.
    put(sample::agent("worker"), sample::agent_totals("worker"), sample::budget("daily"), sample::session(1),
        sample::message(1, 0), sample::run(1, "worker"), sample::claim(1, 0), sample::hold(1), event,
        sample::schedule("nightly", "worker"), sample::answer(1), sample::feed_page(1, 5));
    core::Window window;
    window.budget = "daily";
    window.end_at = from_micros(1);
    put(window, core::SpendMark{.budget = "daily"}, core::RunStep{.run = sample::run(1, "worker").id, .number = 1},
        core::ScheduleTick{.schedule = "nightly", .number = 1, .run = sample::run(1, "worker").id});
    store_->close();
    const OpenedDatabase opened = open_database(file(), SQLITE_OPEN_READWRITE, "");
    sqlite3* db = opened.db.get();
    ASSERT_EQ(execute(db, "pragma foreign_keys = on"), SQLITE_OK);

    const std::string id = "x'018bcfe56800700080000000000000ff'";
    const std::vector<std::string> refused{
        // Counters below zero.
        "update budget_windows set settled = -1",
        "update budget_windows set held = -1",
        "update budget_windows set grace = -1",
        "update agent_totals set settled = -1",
        "update ledger_details set overage = -1",
        "update holds set bound_usd = -1",
        "update runs set unknown = 1",
        "update budgets set limit_units = -1",
        "update orgs set last_fence = -1",
        "update spend_marks set settled = -1",
        "update runs set steps = -1",
        "update run_steps set number = 0",
        "update ticks set number = 0",
        // Values outside their set.
        "update holds set state = 'opened'",
        "update runs set state = 'done'",
        "update messages set role = 'robot'",
        "update budgets set metric = 'euros'",
        "update budgets set window = 'year'",
        "update ledger_details set estimated = 2",
        "update claims set mode = 'append'",
        "update schedules set overlap = 'none'",
        "update run_steps set state = 'done'",
        "update run_steps set waits_for = 'money'",
        "update ticks set outcome = 'late'",
        "insert into caps values (1, 'org', 'named', 1)",
        "insert into caps values (1, 'provider', '', 1)",
        // Keys and hashes of the wrong size or type.
        "update ledger set key = x'00'",
        "update answers set key = 'text'",
        "update ledger set seq = 0",
        "update feed_pages set hash = x'00'",
        "update ledger set cost = 'free'",
        "update agents set name = ''",
        // Orders that cannot be.
        "update feed_pages set first_seq = 6",
        "update feed_pages set first_seq = 0",
        "update budget_windows set end_at = start_at",
        "update sessions set next_seq = -1",
        "update messages set seq = -1",
        "update sessions set first_seq = 1, next_seq = 1",
        "update runs set fence = 0",
        "update runs set state = 'queued'",
        "update claims set fence = 0",
        "update spend_marks set start_at = 1",
        "update spend_marks set budget = '', start_at = 1, at = 1",
        "update ticks set run = null",
        "update ticks set outcome = 'skipped'",
        "update schedules set every_s = 0",
        "update schedules set cron = '* * * * *'",
        "update holds set opened_by = 'nobody'",
        "update holds set event = x'00'",
        "update runs set parent = x'00'",
        "update runs set root = x'00'",
        "update ledger_details set corrects = x'00'",
        // A second one where there can be one.
        "insert into messages select org, session, seq, " + id +
            ", role, content, metadata, at, 0, 0, null from messages",
        "insert into claims select org, run, 1, kind, host, path, chain, 'write', fence, parent from claims",
        "insert into ledger select * from ledger",
        "insert into answers select * from answers",
        // What refers to nothing.
        "insert into agents select 99, name, command, 1, tags, pauses, 0, 0, '{}', '{}', '{}', '', 'usage', '[]', "
        "'[]', "
        "'[]' from agents",
        "update agent_totals set agent = 'nobody'",
        "update runs set agent = 'nobody'",
        "update holds set agent = 'nobody'",
        "update schedules set agent = 'nobody'",
        "update budget_windows set budget = 'none'",
        "update messages set session = " + id,
        "update ledger_details set key = " + id,
        "update claims set run = " + id,
        "update run_steps set run = " + id,
        "update ticks set schedule = 'none'",
        "update sessions set parent = " + id + ", first_seq = 1, next_seq = 1",
        "delete from agents",
        "delete from runs",
        "delete from sessions",
    };
    for (const std::string& sql : refused) {
        EXPECT_EQ(execute(db, sql) & 0xff, SQLITE_CONSTRAINT) << sql;
        EXPECT_NE(sqlite3_get_autocommit(db), 0) << sql;
    }

    // The same kind of change without the flaw is taken, so it is the flaw that was refused.
    const std::vector<std::string> taken{
        "update budget_windows set settled = 1, held = 1, grace = 1",
        "update holds set state = 'settled', agent = 'worker'",
        "update messages set seq = 1, role = 'tool'",
        "insert into claims select org, run, 1, kind, host, path, chain, 'read', fence, parent from claims",
        "insert into caps values (1, 'org', '', 1), (1, 'provider', 'p', 1)",
        "update sessions set parent = id, first_seq = 1, next_seq = 1",
        "update runs set state = 'queued', fence = 0",
        "update schedules set every_s = 0, cron = '* * * * *'",
        "update feed_pages set first_seq = 5",
        "update spend_marks set start_at = 1, at = 1",
        "update ticks set outcome = 'skipped', run = null",
    };
    for (const std::string& sql : taken) EXPECT_EQ(execute(db, sql), SQLITE_OK) << sql << ": " << error_text(db);
}

TEST_F(SqliteStoreTest, a_row_that_refers_to_nothing_fails_its_commit_and_is_not_there) {
    open_with_org();

    const auto done = store_->commit(write_set(sample::answer(1), sample::run(1, "nobody")));

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back);
    open();
    EXPECT_FALSE(has(sample::answer(1)));
    EXPECT_FALSE(store_->failed());
}

TEST_F(SqliteStoreTest, what_is_held_can_be_read_part_by_part) {
    open_with_org();
    core::Hold hold = sample::hold(1);
    hold.parts = {{"daily", from_micros(7), 5, 0}, {"a \"quoted\" one", from_micros(8), 6, 1}};
    core::Hold closed = sample::hold(2);
    closed.state = core::HoldState::released;
    put(hold);
    put(closed);

    const auto snapshot = store_->snapshot();

    EXPECT_EQ(texts(**snapshot, "select budget from hold_parts order by amount"),
              (std::vector<std::string>{"daily", "a \"quoted\" one"}));
    EXPECT_EQ(numbers(**snapshot, "select org, window_start, amount from hold_parts order by amount"),
              (std::vector<std::int64_t>{1, 7, 5, 1, 8, 6}));
}

TEST_F(SqliteStoreTest, whole_days_are_added_up_from_rollups) {
    open_with_org();
    core::Rollup day = core::with_key<core::Rollup>({1, "agent", "provider", "model"});
    day.cost = 42;
    put(day);  // Without an event: only the roll-up can say 42.

    const Instant start = from_micros(std::int64_t{86'400} * 1'000'000);

    EXPECT_EQ(store_->sum(org_, {}, {start, far_future}).usd, 42);
    EXPECT_EQ(store_->sum(org_, {}, {start + Duration(1), far_future}).usd, 0);
    core::Scope by_tag;
    by_tag.tags = {{"a", "b"}};
    EXPECT_EQ(store_->sum(org_, by_tag, {start, far_future}).usd, 0);
}

// ---- disks that fail ----------------------------------------------------------------------------------------------

class FailingDiskTest : public SqliteStoreTest {
 protected:
    FailingDiskTest() { make_store(options()); }
    ~FailingDiskTest() override { store_.reset(); }
    SqliteStore::Options options() {
        SqliteStore::Options options;
        options.vfs = vfs_.name();
        return options;
    }

    FailingVfs vfs_;
};

TEST_F(FailingDiskTest, no_room_for_the_file_is_unavailable_until_there_is_room) {
    vfs_.full = true;
    EXPECT_EQ(open_error_of(*store_), OpenError::Kind::unavailable);

    vfs_.full = false;
    open_with_org();
}

TEST_F(FailingDiskTest, no_room_for_an_open_to_settle_the_log_is_unavailable) {
    open_with_org();
    put(sample::answer(1));
    vfs_.full = true;
    ASSERT_FALSE(store_->commit(write_set(sample::answer(2))));

    EXPECT_EQ(open_error_of(*store_), OpenError::Kind::unavailable);
    vfs_.full = false;
    open();
    EXPECT_TRUE(has(sample::answer(1)));
    EXPECT_FALSE(has(sample::answer(2)));
    put(sample::answer(2));
}

TEST_F(FailingDiskTest, a_commit_is_one_write_and_others_see_it_at_once) {
    open_with_org();
    put(sample::answer(1));
    vfs_.log_writes = 0;

    put(sample::answer(2), sample::agent("worker"), sample::cost_event(1));

    EXPECT_EQ(vfs_.log_writes, 1);
    const auto snapshot = store_->snapshot();
    EXPECT_EQ(numbers(**snapshot, "select count(*) from answers"), std::vector<std::int64_t>{2});
}

TEST_F(FailingDiskTest, a_disk_that_is_full_before_the_commit_rolls_back) {
    SqliteStore::Options small = options();
    small.page_cache_kib = 64;  // So small that pages go to the log before the commit.
    make_store(small);
    open_with_org();
    std::vector<core::Message> messages;
    for (std::int64_t seq = 0; seq < 200; ++seq) messages.push_back(sample::message(1, seq));
    for (core::Message& message : messages) message.content = std::string(5000, 'm');
    const core::Session session = sample::session(1);
    WriteSet writes = write_set(session);
    for (const core::Message& message : messages) writes.orgs[0].of<core::Message>().put.push_back(&message);

    vfs_.full = true;
    const auto done = store_->commit(writes);

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back) << done.error().detail;
    vfs_.full = false;
    open();
    core::ColdRow row = session;
    EXPECT_FALSE(store_->load(org_, row));
    EXPECT_TRUE(store_->commit(writes));
    EXPECT_TRUE(store_->load(org_, row));
}

TEST_F(FailingDiskTest, a_commit_that_cannot_be_synced_is_unknown_and_the_next_open_settles_it) {
    open_with_org();
    put(sample::answer(1));
    vfs_.log_sync_fails = true;

    const auto done = store_->commit(write_set(sample::answer(2)));

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::unknown) << done.error().detail;
    EXPECT_EQ(open_error_of(*store_), OpenError::Kind::unavailable);
    vfs_.log_sync_fails = false;
    open();
    const bool there = has(sample::answer(2));
    EXPECT_TRUE(has(sample::answer(1)));
    // Whatever it said is still so after a crash.
    TemporaryDirectory after_crash;
    copy_files_to(after_crash);
    SqliteStore recovered({.directory = after_crash.path()});
    ASSERT_TRUE(recovered.open());
    core::ColdRow row = sample::answer(2);
    EXPECT_EQ(recovered.load(org_, row), there);
}

// While a snapshot is open, SQLite does not read the log again, and so does not see the commit that was lost. Its pages
// are still behind the end of the log.
TEST_F(FailingDiskTest, a_lost_commit_that_open_did_not_see_never_comes_back) {
    open_with_org();
    put(sample::answer(1));
    const auto snapshot = store_->snapshot();
    ASSERT_TRUE(snapshot);
    vfs_.log_sync_fails = true;
    ASSERT_FALSE(store_->commit(write_set(sample::answer(2))));
    vfs_.log_sync_fails = false;

    open();

    ASSERT_FALSE(has(sample::answer(2)));
    TemporaryDirectory after_crash;
    copy_files_to(after_crash);
    SqliteStore recovered({.directory = after_crash.path()});
    ASSERT_TRUE(recovered.open());
    core::ColdRow row = sample::answer(2);
    EXPECT_FALSE(recovered.load(org_, row));
    row = sample::answer(1);
    EXPECT_TRUE(recovered.load(org_, row));
}

TEST_F(FailingDiskTest, what_open_finds_in_the_log_is_in_the_file_before_it_answers) {
    open_with_org();
    put(sample::answer(1));
    vfs_.log_sync_fails = true;
    ASSERT_FALSE(store_->commit(write_set(sample::answer(2))));
    vfs_.log_sync_fails = false;
    const int syncs_before = vfs_.database_syncs;

    open();

    // The system may have dropped what it could not sync and say nothing more about it: the log is no proof.
    ASSERT_TRUE(has(sample::answer(2)));
    EXPECT_GT(vfs_.database_syncs, syncs_before);
    TemporaryDirectory only_the_file;
    fs::copy_file(file(), only_the_file.path() + "/interlock.db");
    SqliteStore recovered({.directory = only_the_file.path()});
    ASSERT_TRUE(recovered.open());
    core::ColdRow row = sample::answer(2);
    EXPECT_TRUE(recovered.load(org_, row));
}

TEST_F(FailingDiskTest, a_load_that_fails_says_no_such_row_and_remembers) {
    SqliteStore::Options small = options();
    small.page_cache_kib = 64;
    make_store(small);
    open_with_org();
    for (std::uint64_t i = 1; i < 40; ++i) {
        core::StoredReply answer = sample::answer(i);
        answer.reply = std::string(20'000, 'r');
        put(answer);
    }
    store_->close();
    open();
    vfs_.unreadable = true;

    EXPECT_FALSE(has(sample::answer(20)));
    EXPECT_TRUE(store_->failed());
    vfs_.unreadable = false;
    EXPECT_FALSE(has(sample::answer(20)));
    EXPECT_TRUE(store_->failed());

    open();
    EXPECT_TRUE(has(sample::answer(20)));
    EXPECT_FALSE(store_->failed());
}

TEST_F(SqliteStoreTest, a_row_that_somebody_else_has_bent_is_noticed_at_open) {
    open_with_org();
    put(sample::session(1), sample::message(1, 0));
    store_->close();
    {
        const OpenedDatabase opened = open_database(file(), SQLITE_OPEN_READWRITE, "");
        ASSERT_EQ(execute(opened.db.get(), "pragma ignore_check_constraints = on; update messages set role = 'robot'"),
                  SQLITE_OK);
    }

    // A file that small is looked through at open.
    EXPECT_EQ(open_error_of(*store_), OpenError::Kind::not_ours);
}

// ---- the log and its checkpoints ----------------------------------------------------------------------------------

TEST_F(SqliteStoreTest, the_log_stays_bounded_under_a_long_load) {
    SqliteStore::Options options;
    options.checkpoint_pages = 50;
    make_store(options);
    open_with_org();
    core::StoredReply answer = sample::answer(0);
    answer.reply = std::string(100'000, 'r');
    std::uintmax_t largest = 0;

    for (std::uint64_t number = 1; number < 100; ++number) {
        answer.key = core::CommandKey(sample::id(number));
        put(answer);
        largest = std::max(largest, fs::file_size(file() + "-wal"));
    }

    EXPECT_GT(fs::file_size(file()), 9'000'000u);
    EXPECT_LT(largest, 90u * 8192);
}

TEST_F(SqliteStoreTest, the_log_shrinks_again_after_a_snapshot_that_held_it) {
    SqliteStore::Options options;
    options.checkpoint_pages = 50;
    make_store(options);
    open_with_org();
    core::StoredReply answer = sample::answer(0);
    answer.reply = std::string(100'000, 'r');
    std::uint64_t number = 0;
    const auto put_many = [&] {
        for (int i = 0; i < 40; ++i) {
            answer.key = core::CommandKey(sample::id(++number));
            put(answer);
        }
    };
    auto snapshot = store_->snapshot();
    put_many();
    ASSERT_GT(fs::file_size(file() + "-wal"), 400u * 8192);

    snapshot->reset();
    put_many();

    EXPECT_LT(fs::file_size(file() + "-wal"), 150u * 8192);
}

TEST_F(SqliteStoreTest, a_clean_close_leaves_one_file) {
    open_with_org();
    put(sample::answer(1));

    store_->close();

    EXPECT_FALSE(fs::exists(file() + "-wal"));
    EXPECT_TRUE(fs::exists(file()));
    open();
    EXPECT_TRUE(has(sample::answer(1)));
}

// ---- snapshots ----------------------------------------------------------------------------------------------------

TEST_F(SqliteStoreTest, a_snapshot_stays_at_its_moment_while_commits_go_on) {
    open_with_org();
    put_answers(1, 11);
    const auto snapshot = store_->snapshot();
    ASSERT_TRUE(snapshot);

    put_answers(11, 31);

    EXPECT_EQ(numbers(**snapshot, "select count(*) from answers"), std::vector<std::int64_t>{10});
    EXPECT_EQ(numbers(**store_->snapshot(), "select count(*) from answers"), std::vector<std::int64_t>{30});
}

TEST_F(SqliteStoreTest, a_snapshot_gives_numbers_texts_bytes_and_nothing) {
    open_with_org();
    const auto snapshot = store_->snapshot();
    std::vector<Value> row;

    ASSERT_TRUE((*snapshot)->query("select 9223372036854775807, 'text', x'00ff', null",
                                   [&](const std::vector<Value>& values) { row = values; }));

    const std::vector<Value> expected{INT64_MAX, std::string("text"), std::string("\0\xff", 2), std::monostate()};
    EXPECT_EQ(row, expected);
}

TEST_F(SqliteStoreTest, a_snapshot_refuses_to_write_and_bad_sql) {
    open_with_org();
    const auto snapshot = store_->snapshot();
    const OnValues ignore = [](const std::vector<Value>&) {};

    EXPECT_FALSE((*snapshot)->query("delete from orgs", ignore));
    EXPECT_FALSE((*snapshot)->query("select nothing from nowhere", ignore));
    EXPECT_EQ(numbers(**snapshot, "select count(*) from orgs"), std::vector<std::int64_t>{1});
}

TEST_F(SqliteStoreTest, a_snapshot_can_be_taken_from_outside_while_the_server_works) {
    open_with_org();
    put_answers(1, 11);

    const auto snapshot = open_snapshot(directory_.path());

    ASSERT_TRUE(snapshot) << snapshot.error().detail;
    put_answers(11, 21);
    EXPECT_EQ(numbers(**snapshot, "select count(*) from answers"), std::vector<std::int64_t>{10});
}

TEST_F(SqliteStoreTest, a_snapshot_can_be_taken_of_what_a_killed_server_left) {
    open_with_org();
    put_answers(1, 11);
    TemporaryDirectory after_crash;
    copy_files_to(after_crash);
    ASSERT_GT(fs::file_size(after_crash.path() + "/interlock.db-wal"), 0u);
    const std::string file_before = bytes_of(after_crash.path() + "/interlock.db");
    const std::string log_before = bytes_of(after_crash.path() + "/interlock.db-wal");

    {
        const auto snapshot = open_snapshot(after_crash.path());
        ASSERT_TRUE(snapshot) << snapshot.error().detail;
        EXPECT_EQ(numbers(**snapshot, "select count(*) from answers"), std::vector<std::int64_t>{10});
    }

    // What the server has written is as it was, and a server can start on it.
    EXPECT_TRUE(bytes_of(after_crash.path() + "/interlock.db") == file_before);
    EXPECT_TRUE(bytes_of(after_crash.path() + "/interlock.db-wal") == log_before);
    SqliteStore next({.directory = after_crash.path()});
    ASSERT_TRUE(next.open());
    core::ColdRow row = sample::answer(10);
    EXPECT_TRUE(next.load(org_, row));
}

TEST_F(SqliteStoreTest, a_snapshot_from_outside_does_not_keep_a_server_away) {
    open_with_org();
    store_->close();
    const auto snapshot = open_snapshot(directory_.path());
    ASSERT_TRUE(snapshot) << snapshot.error().detail;

    open();

    put(sample::answer(1));
    EXPECT_EQ(numbers(**snapshot, "select count(*) from answers"), std::vector<std::int64_t>{0});
}

// ---- repairs ------------------------------------------------------------------------------------------------------

TEST_F(SqliteStoreTest, repairs_are_carried_out_together) {
    open_with_org();
    put(sample::agent("one"), sample::agent_totals("one"));
    put(sample::agent("two"), sample::agent_totals("two"));
    put(sample::agent("three"));
    const auto name = [](const std::string& agent) {
        return RowName{"agent_totals", {{"org", std::int64_t{1}}, {"agent", agent}}};
    };
    const auto zero = std::int64_t{0};
    const std::vector<Repair> repairs{
        {Repair::Kind::change, name("one"), {{"settled", zero, std::int64_t{7}}, {"events", zero, std::int64_t{1}}}},
        {Repair::Kind::remove, name("two"), {{"settled", zero, zero}}},
        {Repair::Kind::insert,
         name("three"),
         {{"settled", zero, std::int64_t{5}},
          {"tokens", zero, zero},
          {"events", zero, zero},
          {"last_event_at", zero, zero}}},
    };

    const auto done = store_->repair(repairs);

    ASSERT_TRUE(done) << done.error().detail;
    EXPECT_EQ(texts(**store_->snapshot(), "select agent from agent_totals"),
              (std::vector<std::string>{"one", "three"}));
    EXPECT_EQ(numbers(**store_->snapshot(), "select settled, events from agent_totals"),
              (std::vector<std::int64_t>{7, 1, 5, 0}));
}

TEST_F(SqliteStoreTest, a_repair_of_a_row_that_has_changed_since_changes_nothing) {
    open_with_org();
    put(sample::agent("one"), sample::agent_totals("one"));
    const RowName name{"agent_totals", {{"org", std::int64_t{1}}, {"agent", std::string("one")}}};
    const auto change = [](std::int64_t from, std::int64_t to) {
        return std::vector<Repair::Change>{{"settled", from, to}};
    };

    const auto done =
        store_->repair({{Repair::Kind::change, name, change(0, 7)}, {Repair::Kind::change, name, change(3, 8)}});

    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, CommitError::Kind::rolled_back);
    open();
    EXPECT_EQ(numbers(**store_->snapshot(), "select settled from agent_totals"), std::vector<std::int64_t>{0});
}

}  // namespace
}  // namespace interlock::store
