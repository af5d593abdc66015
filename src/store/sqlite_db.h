// A thin hold on SQLite: connections and statements that clean up after themselves, and errors as text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <sqlite3.h>

namespace interlock::store {

struct CloseDatabase {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
// Declared after its database, so that it goes first.
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

// A connection and what became of opening it. There is one even when it failed: SQLite keeps the reason in it.
struct OpenedDatabase {
    Database db;
    int rc = SQLITE_OK;
};
OpenedDatabase open_database(const std::string& path, int flags, const std::string& vfs);

// Null when SQLite does not take it.
Statement prepare(sqlite3* db, const std::string& sql);
// Every row is thrown away.
int execute(sqlite3* db, const std::string& sql);
// Steps once and makes the statement ready for the next time. For statements that give no rows.
int run(sqlite3_stmt* statement);
// The first column of the first row. False when there is none; error_text() says why.
bool read_number(sqlite3* db, const std::string& sql, std::int64_t& number);
bool read_text(sqlite3* db, const std::string& sql, std::string& text);

// What stands in a column of the current row, until the next step.
inline std::string_view column_bytes(sqlite3_stmt* statement, int index) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, index));
    return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement, index))};
}

// "disk I/O error (778)"
std::string error_text(sqlite3* db);

// A read in progress, given up at the end of the scope: a statement that was not reset would keep its read lock.
struct ResetAtEnd {
    explicit ResetAtEnd(sqlite3_stmt* s) : statement(s) {}
    ~ResetAtEnd() { sqlite3_reset(statement); }
    ResetAtEnd(const ResetAtEnd&) = delete;
    ResetAtEnd& operator=(const ResetAtEnd&) = delete;
    sqlite3_stmt* statement;
};

}  // namespace interlock::store
