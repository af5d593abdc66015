// Whose file it is: other servers, other programs, and files that are not a store.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "store/sqlite_db.h"
#include "store/sqlite_schema.h"
#include "store/sqlite_store_test_support.h"

namespace interlock::store {
namespace {

namespace fs = std::filesystem;

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST_F(SqliteStoreTest, a_second_server_on_the_data_is_refused_by_name) {
    open_with_org();
    SqliteStore second({.directory = directory_.path()});

    std::string detail;
    EXPECT_EQ(open_error_of(second, &detail), OpenError::Kind::in_use);
    EXPECT_NE(detail.find(std::to_string(::getpid())), std::string::npos) << detail;

    put(sample::answer(1));
    store_->close();
    EXPECT_TRUE(second.open());
}

TEST_F(SqliteStoreTest, a_second_server_is_refused_also_when_the_lock_file_was_removed) {
    open_with_org();
    fs::remove(directory_.path() + "/interlock.lock");
    SqliteStore second({.directory = directory_.path()});

    EXPECT_EQ(open_error_of(second), OpenError::Kind::in_use);
}

TEST_F(SqliteStoreTest, no_other_program_can_write_between_commits_and_all_can_read) {
    open_with_org();
    const auto another_writes = [&] {
        const OpenedDatabase opened = open_database(file(), SQLITE_OPEN_READWRITE, "");
        return execute(opened.db.get(), "update orgs set name = 'other'");
    };

    EXPECT_EQ(another_writes() & 0xff, SQLITE_BUSY);
    for (std::uint64_t i = 1; i <= 300; ++i) put(sample::answer(i));  // With checkpoints among them.
    EXPECT_EQ(another_writes() & 0xff, SQLITE_BUSY);
    EXPECT_TRUE(open_snapshot(directory_.path()));

    ASSERT_FALSE(store_->commit(write_set(sample::answer(1))));
    open();
    EXPECT_EQ(another_writes() & 0xff, SQLITE_BUSY) << "also after an error";
    store_->close();
    EXPECT_EQ(another_writes(), SQLITE_OK);
}

TEST_F(SqliteStoreTest, nothing_is_committed_to_a_file_that_was_moved_until_it_is_back) {
    open_with_org();
    put(sample::answer(1));
    for (const char* ending : {"", "-wal", "-shm"}) {
        const std::string path = file() + ending;
        fs::rename(path, path + ".aside");
        const auto committed = store_->commit(write_set(sample::answer(2)));
        ASSERT_FALSE(committed);
        EXPECT_EQ(committed.error().kind, CommitError::Kind::rolled_back);
        EXPECT_NE(committed.error().detail.find(path + " was removed or moved"), std::string::npos)
            << committed.error().detail;
        EXPECT_FALSE(has(sample::answer(2)));
        fs::rename(path + ".aside", path);
    }

    put(sample::answer(2));
    EXPECT_TRUE(has(sample::answer(2)));
}

TEST_F(SqliteStoreTest, a_log_that_was_removed_takes_no_commit_with_it) {
    open_with_org();
    put(sample::answer(1));
    fs::remove(file() + "-wal");
    EXPECT_FALSE(store_->commit(write_set(sample::answer(2))));

    fs::copy_file(file(), file() + ".copy");
    TemporaryDirectory after_crash;
    fs::rename(file() + ".copy", after_crash.path() + "/interlock.db");
    SqliteStore recovered({.directory = after_crash.path()});
    ASSERT_TRUE(recovered.open());
    core::ColdRow row = sample::answer(1);
    EXPECT_TRUE(recovered.load(org_, row));
}

TEST_F(SqliteStoreTest, a_file_that_took_the_place_of_an_open_one_is_not_written_to) {
    open_with_org();
    fs::copy_file(file(), file() + ".other");
    fs::rename(file() + ".other", file());
    const std::string before = bytes_of(file());

    const auto committed = store_->commit(write_set(sample::answer(1)));
    ASSERT_FALSE(committed);
    EXPECT_NE(committed.error().detail.find("was replaced"), std::string::npos) << committed.error().detail;
    EXPECT_TRUE(bytes_of(file()) == before);
}

TEST_F(SqliteStoreTest, a_file_with_two_names_is_refused) {
    open_with_org();
    store_->close();
    fs::create_hard_link(file(), file() + ".link");

    EXPECT_EQ(open_error_of(*store_), OpenError::Kind::not_ours);
    fs::remove(file() + ".link");
    open();
}

TEST_F(SqliteStoreTest, a_server_that_opens_again_after_an_error_has_never_let_go) {
    open_with_org();
    put(sample::answer(1));
    ASSERT_FALSE(store_->commit(write_set(sample::answer(1))));

    SqliteStore second({.directory = directory_.path()});

    EXPECT_EQ(open_error_of(second), OpenError::Kind::in_use);

    fs::rename(file(), file() + ".aside");
    fs::create_directory(file());
    EXPECT_EQ(open_error_of(*store_), OpenError::Kind::unavailable);
    EXPECT_EQ(open_error_of(second), OpenError::Kind::in_use) << "also while it does not open";

    fs::remove(file());
    fs::rename(file() + ".aside", file());
    open();
}

class ForeignFileTest : public SqliteStoreTest {
 protected:
    void expect_left_alone(OpenError::Kind kind) {
        const std::string before = bytes_of(file());
        EXPECT_EQ(open_error_of(*store_), kind);
        EXPECT_EQ(open_error_of(*store_), kind) << "the second time";
        EXPECT_TRUE(bytes_of(file()) == before);
        EXPECT_FALSE(open_snapshot(directory_.path()));
        EXPECT_TRUE(bytes_of(file()) == before);
    }
    void run_sql(const std::string& sql) {
        const OpenedDatabase opened = open_database(file(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "");
        ASSERT_EQ(execute(opened.db.get(), sql), SQLITE_OK) << error_text(opened.db.get());
    }
};

TEST_F(ForeignFileTest, garbage_is_not_ours_and_stays_as_it_is) {
    write_file(file(), std::string(100'000, 'g'));

    expect_left_alone(OpenError::Kind::not_ours);
}

TEST_F(ForeignFileTest, a_few_bytes_are_not_ours_and_stay_as_they_are) {
    write_file(file(), "hello");

    expect_left_alone(OpenError::Kind::not_ours);
}

TEST_F(ForeignFileTest, a_database_of_another_program_is_not_ours_and_stays_as_it_is) {
    run_sql("create table notes(text); insert into notes values ('mine')");

    expect_left_alone(OpenError::Kind::not_ours);
}

TEST_F(ForeignFileTest, a_database_of_another_program_in_wal_mode_stays_as_it_is) {
    run_sql("pragma application_id = 7; pragma journal_mode = wal; create table notes(text)");

    expect_left_alone(OpenError::Kind::not_ours);
}

TEST_F(ForeignFileTest, a_log_that_another_program_left_behind_is_not_written_back) {
    TemporaryDirectory theirs;
    const std::string path = theirs.path() + "/interlock.db";
    const OpenedDatabase writer = open_database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "");
    ASSERT_EQ(execute(writer.db.get(), "pragma journal_mode = wal; create table notes(text)"), SQLITE_OK);
    for (const char* name : {"/interlock.db", "/interlock.db-wal"}) {
        fs::copy_file(theirs.path() + name, directory_.path() + name);
    }
    const std::string log_before = bytes_of(file() + "-wal");
    ASSERT_NE(log_before, "");

    expect_left_alone(OpenError::Kind::not_ours);

    EXPECT_TRUE(bytes_of(file() + "-wal") == log_before);
}

TEST_F(ForeignFileTest, a_file_of_a_later_version_is_too_new_and_stays_as_it_is) {
    open_with_org();
    store_->close();
    run_sql(fmt::format("pragma user_version = {}", migrations().size() + 1));

    expect_left_alone(OpenError::Kind::too_new);
}

TEST_F(ForeignFileTest, a_file_with_a_table_too_many_is_refused) {
    open_with_org();
    store_->close();
    run_sql("create table notes(text)");

    EXPECT_EQ(open_error_of(*store_), OpenError::Kind::not_ours);
}

TEST_F(ForeignFileTest, a_damaged_file_is_refused_and_stays_as_it_is) {
    open_with_org();
    std::vector<core::CostEvent> events;
    for (std::uint64_t i = 1; i < 500; ++i) events.push_back(sample::cost_event(i));
    WriteSet writes = write_set();
    for (const core::CostEvent& event : events) writes.orgs[0].of<core::CostEvent>().put.push_back(&event);
    ASSERT_TRUE(store_->commit(writes));
    store_->close();
    std::string bytes = bytes_of(file());
    for (std::size_t at = bytes.size() / 2; at < bytes.size(); ++at) bytes[at] = 'x';
    write_file(file(), bytes);

    EXPECT_EQ(open_error_of(*store_), OpenError::Kind::not_ours);
    EXPECT_TRUE(bytes_of(file()) == bytes);
}

TEST_F(ForeignFileTest, a_file_whose_making_was_cut_off_is_made_to_the_end) {
    run_sql(fmt::format("pragma application_id = {}", application_id));

    open_with_org();
    put(sample::answer(1));

    EXPECT_TRUE(has(sample::answer(1)));
}

TEST_F(SqliteStoreTest, a_directory_that_is_not_there_is_named) {
    for (const std::string& directory :
         {directory_.path() + "/missing", directory_.path() + "/file", directory_.path() + "/file/sub"}) {
        write_file(directory_.path() + "/file", "");
        SqliteStore store({.directory = directory});

        std::string detail;
        EXPECT_EQ(open_error_of(store, &detail), OpenError::Kind::unavailable) << directory;
        EXPECT_NE(detail.find(directory), std::string::npos) << detail;
    }
    EXPECT_FALSE(fs::exists(directory_.path() + "/missing"));
}

TEST_F(SqliteStoreTest, a_file_that_cannot_be_opened_is_unavailable) {
    fs::create_directory(file());

    EXPECT_EQ(open_error_of(*store_), OpenError::Kind::unavailable);
}

TEST_F(SqliteStoreTest, there_is_no_snapshot_of_an_empty_directory) {
    const auto snapshot = open_snapshot(directory_.path());

    ASSERT_FALSE(snapshot);
    EXPECT_EQ(snapshot.error().kind, OpenError::Kind::unavailable);
    EXPECT_TRUE(fs::is_empty(directory_.path()));
}

}  // namespace
}  // namespace interlock::store
