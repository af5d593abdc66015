// What a file of an earlier version brings along is there afterwards, in the form of this one.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "store/sqlite_db.h"
#include "store/sqlite_schema.h"

namespace interlock::store {
namespace {

class SqliteMigrationTest : public testing::Test {
 protected:
    void migrate_to(std::size_t version) {
        for (std::size_t i = 0; i < version; ++i) sql(std::string(migrations()[i]));
    }
    void sql(const std::string& text) { ASSERT_EQ(execute(db(), text), SQLITE_OK) << error_text(db()) << text; }
    void charge(int org, int number, std::int64_t at, std::int64_t cost) {
        sql("insert into ledger values (" + std::to_string(org) + ", x'" + std::string(30, '0') + "0" +
            std::to_string(number) + "', 0, 1, " + std::to_string(at) + ", 0, 'worker', '', '', null, null, " +
            std::to_string(cost) + ", 0, 0, null)");
    }
    std::vector<std::int64_t> numbers(const std::string& query) {
        std::vector<std::int64_t> found;
        const Statement statement = prepare(db(), query);
        EXPECT_TRUE(statement) << error_text(db());
        while (sqlite3_step(statement.get()) == SQLITE_ROW) {
            for (int i = 0; i < sqlite3_column_count(statement.get()); ++i) {
                found.push_back(sqlite3_column_int64(statement.get(), i));
            }
        }
        return found;
    }
    sqlite3* db() { return opened_.db.get(); }

 private:
    OpenedDatabase opened_ = open_database(":memory:", SQLITE_OPEN_READWRITE, "");
};

TEST_F(SqliteMigrationTest, what_was_spent_before_there_were_marks_is_marked_by_the_minute) {
    constexpr std::int64_t minute = 60'000'000;
    migrate_to(3);
    sql("insert into orgs values (1, 'one', 0, 0, 0), (2, 'two', 0, 0, 0), (3, 'idle', 0, 0, 0)");
    charge(1, 1, 5 * minute, 10);
    charge(1, 2, 5 * minute + 7, 20);
    charge(1, 3, 6 * minute, 0);
    charge(1, 4, 9 * minute + 1, 40);
    charge(2, 5, 7 * minute, 50);

    ASSERT_EQ(migrate(db(), 3), SQLITE_OK) << error_text(db());

    EXPECT_EQ(numbers("select org, start_at, at, settled from spend_marks order by org, at"),
              (std::vector<std::int64_t>{1, 0, 5 * minute, 0, 1, 0, 9 * minute, 30, 2, 0, 7 * minute, 0}));
    EXPECT_EQ(numbers("select org, marked_at from orgs order by org"),
              (std::vector<std::int64_t>{1, 9 * minute, 2, 7 * minute, 3, 0}));
}

TEST_F(SqliteMigrationTest, orgs_that_are_there_look_keys_up_under_their_former_names_for_a_month) {
    migrate_to(5);
    sql("insert into orgs (org, name, created_at, last_fence, last_ticket) values (1, 'one', 0, 0, 0)");

    ASSERT_EQ(migrate(db(), 5), SQLITE_OK) << error_text(db());

    EXPECT_EQ(numbers("select round(former_keys_until / 1e6 / 86400 - strftime('%s', 'now') / 86400.0) from orgs"),
              std::vector<std::int64_t>{30});
    sql("insert into orgs (org, name, created_at, last_fence, last_ticket) values (2, 'two', 0, 0, 0)");
    EXPECT_EQ(numbers("select former_keys_until from orgs where org = 2"), std::vector<std::int64_t>{0});
}

TEST_F(SqliteMigrationTest, tables_that_are_written_all_the_time_look_nothing_up_in_a_list) {
    ASSERT_EQ(migrate(db(), 0), SQLITE_OK) << error_text(db());

    // A list of two is compared by SQLite itself.
    EXPECT_EQ(numbers("select count(*) from sqlite_schema where type = 'table' and name in ('holds', 'messages', "
                      "'runs', 'run_steps') and sql like '% in (''%'"),
              std::vector<std::int64_t>{0});
    EXPECT_EQ(numbers("select count(*) from sqlite_schema where name in ('holds', 'messages', 'runs', 'run_steps') and "
                      "type = 'table' and sql like '% or %'"),
              std::vector<std::int64_t>{4});
}

TEST_F(SqliteMigrationTest, sessions_and_agents_that_are_there_have_no_key_and_no_roots) {
    migrate_to(6);
    sql("insert into orgs (org, name, created_at, last_fence, last_ticket) values (1, 'one', 0, 0, 0)");
    sql("insert into agents (org, name, command, max_concurrent_runs, tags, pauses, created_at, archived) values (1, "
        "'worker', '[]', 1, '{}', '[]', 0, 0)");
    sql("insert into sessions values (1, x'" + std::string(31, '0') +
        "1', 'worker', '', '', 0, null, 0, 0, 0, 0, 0, 0, "
        "0)");

    ASSERT_EQ(migrate(db(), 6), SQLITE_OK) << error_text(db());

    EXPECT_EQ(numbers("select count(*) from sessions where api_key = ''"), std::vector<std::int64_t>{1});
    EXPECT_EQ(numbers("select count(*) from agents where roots = '[]' and resolved_roots = '[]'"),
              std::vector<std::int64_t>{1});
}

}  // namespace
}  // namespace interlock::store
