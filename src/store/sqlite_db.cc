#include "store/sqlite_db.h"

#include <fmt/format.h>

namespace interlock::store {
namespace {

// Before anybody uses SQLite, which otherwise counts its memory at every allocation, under one lock for all threads.
// Nobody here asks for the count.
[[maybe_unused]] const int not_counted = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);

}  // namespace

OpenedDatabase open_database(const std::string& path, int flags, const std::string& vfs) {
    sqlite3* db = nullptr;
    // Each connection is used by one thread at a time, which saves a lock at every call.
    const int rc = sqlite3_open_v2(path.c_str(), &db, flags | SQLITE_OPEN_NOMUTEX, vfs.empty() ? nullptr : vfs.c_str());
    if (db != nullptr) sqlite3_extended_result_codes(db, 1);
    return {Database(db), rc};
}

Statement prepare(sqlite3* db, const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    return Statement(statement);
}

int execute(sqlite3* db, const std::string& sql) { return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr); }

int run(sqlite3_stmt* statement) {
    const int rc = sqlite3_step(statement);
    sqlite3_reset(statement);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

bool read_number(sqlite3* db, const std::string& sql, std::int64_t& number) {
    const Statement statement = prepare(db, sql);
    if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) return false;
    number = sqlite3_column_int64(statement.get(), 0);
    return true;
}

bool read_text(sqlite3* db, const std::string& sql, std::string& text) {
    const Statement statement = prepare(db, sql);
    if (!statement || sqlite3_step(statement.get()) != SQLITE_ROW) return false;
    text = column_bytes(statement.get(), 0);
    return true;
}

std::string error_text(sqlite3* db) {
    return db == nullptr ? "out of memory" : fmt::format("{} ({})", sqlite3_errmsg(db), sqlite3_extended_errcode(db));
}

}  // namespace interlock::store
