#include "store/sqlite_schema.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

// The text is taken into the binary as it stands, so that there is one copy of it and no file to lose.
__asm__(
    ".pushsection .rodata\n"
    ".global interlock_schema_sqlite_001_begin\n"
    ".global interlock_schema_sqlite_001_end\n"
    "interlock_schema_sqlite_001_begin:\n"
    ".incbin \"" INTERLOCK_SCHEMA_DIR
    "/sqlite/001_init.sql\"\n"
    "interlock_schema_sqlite_001_end:\n"
    ".popsection\n");
extern "C" const char interlock_schema_sqlite_001_begin[];
extern "C" const char interlock_schema_sqlite_001_end[];

namespace interlock::store {

const std::vector<std::string_view>& migrations() {
    static const std::vector<std::string_view> all{
        {interlock_schema_sqlite_001_begin, interlock_schema_sqlite_001_end},
    };
    return all;
}

int migrate(sqlite3* db, std::int64_t version) {
    for (auto next = static_cast<std::size_t>(version); next < migrations().size(); ++next) {
        const std::string transaction =
            fmt::format("begin immediate;\n{}\npragma user_version = {};\ncommit;", migrations()[next], next + 1);
        if (const int rc = execute(db, transaction); rc != SQLITE_OK) return rc;
    }
    return SQLITE_OK;
}

namespace {

// Name to text, of every table, index and view.
std::map<std::string, std::string> schema_of(sqlite3* db) {
    std::map<std::string, std::string> all;
    const Statement statement = prepare(db, "select type || ' ' || name, coalesce(sql, '') from sqlite_master");
    const auto text = [&](int column) {
        return std::string(static_cast<const char*>(sqlite3_column_blob(statement.get(), column)),
                           static_cast<std::size_t>(sqlite3_column_bytes(statement.get(), column)));
    };
    while (statement && sqlite3_step(statement.get()) == SQLITE_ROW) all.emplace(text(0), text(1));
    return all;
}

}  // namespace

std::string schema_difference(sqlite3* db) {
    const Opened expected = open_database(":memory:", SQLITE_OPEN_READWRITE, "");
    if (expected.rc != SQLITE_OK || migrate(expected.db.get(), 0) != SQLITE_OK) return error_text(expected.db.get());

    const auto wanted = schema_of(expected.db.get());
    const auto found = schema_of(db);
    for (const auto& [name, sql] : wanted) {
        const auto match = found.find(name);
        if (match == found.end()) return "there is no " + name;
        if (match->second != sql) return name + " is not as it should be";
    }
    for (const auto& [name, _] : found) {
        if (!wanted.contains(name)) return name + " does not belong there";
    }
    return "";
}

}  // namespace interlock::store
