#include "store/sqlite_schema.h"

#include <map>
#include <string>

#include <fmt/format.h>

#include "base/ensure.h"

// The text is taken into the binary as it stands, so that there is one copy of it and no file to lose.
#define INTERLOCK_SCHEMA(number, file)                    \
    __asm__(                                              \
        ".pushsection .rodata\n"                          \
        ".global interlock_schema_sqlite_" number         \
        "_begin\n"                                        \
        ".global interlock_schema_sqlite_" number         \
        "_end\n"                                          \
        "interlock_schema_sqlite_" number                 \
        "_begin:\n"                                       \
        ".incbin \"" INTERLOCK_SCHEMA_DIR "/sqlite/" file \
        "\"\n"                                            \
        "interlock_schema_sqlite_" number                 \
        "_end:\n"                                         \
        ".popsection\n")
INTERLOCK_SCHEMA("001", "001_init.sql");
INTERLOCK_SCHEMA("002", "002_supervised_runs.sql");
INTERLOCK_SCHEMA("003", "003_gateway.sql");
INTERLOCK_SCHEMA("004", "004_history.sql");
INTERLOCK_SCHEMA("005", "005_lighter_writes.sql");
INTERLOCK_SCHEMA("006", "006_border.sql");
INTERLOCK_SCHEMA("007", "007_shares.sql");
INTERLOCK_SCHEMA("008", "008_children.sql");
extern "C" const char interlock_schema_sqlite_001_begin[], interlock_schema_sqlite_001_end[];
extern "C" const char interlock_schema_sqlite_002_begin[], interlock_schema_sqlite_002_end[];
extern "C" const char interlock_schema_sqlite_003_begin[], interlock_schema_sqlite_003_end[];
extern "C" const char interlock_schema_sqlite_004_begin[], interlock_schema_sqlite_004_end[];
extern "C" const char interlock_schema_sqlite_005_begin[], interlock_schema_sqlite_005_end[];
extern "C" const char interlock_schema_sqlite_006_begin[], interlock_schema_sqlite_006_end[];
extern "C" const char interlock_schema_sqlite_007_begin[], interlock_schema_sqlite_007_end[];
extern "C" const char interlock_schema_sqlite_008_begin[], interlock_schema_sqlite_008_end[];

namespace interlock::store {

const std::vector<std::string_view>& migrations() {
    static const std::vector<std::string_view> all{
        {interlock_schema_sqlite_001_begin, interlock_schema_sqlite_001_end},
        {interlock_schema_sqlite_002_begin, interlock_schema_sqlite_002_end},
        {interlock_schema_sqlite_003_begin, interlock_schema_sqlite_003_end},
        {interlock_schema_sqlite_004_begin, interlock_schema_sqlite_004_end},
        {interlock_schema_sqlite_005_begin, interlock_schema_sqlite_005_end},
        {interlock_schema_sqlite_006_begin, interlock_schema_sqlite_006_end},
        {interlock_schema_sqlite_007_begin, interlock_schema_sqlite_007_end},
        {interlock_schema_sqlite_008_begin, interlock_schema_sqlite_008_end},
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
using Schema = std::map<std::string, std::string>;

int read_schema(sqlite3* db, Schema& schema) {
    const Statement statement = prepare(db, "select type || ' ' || name, coalesce(sql, '') from sqlite_master");
    if (!statement) return sqlite3_errcode(db);
    int rc = SQLITE_OK;
    while ((rc = sqlite3_step(statement.get())) == SQLITE_ROW) {
        schema.emplace(column_bytes(statement.get(), 0), column_bytes(statement.get(), 1));
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

// What a new file has.
Schema fresh_schema() {
    Schema schema;
    const OpenedDatabase fresh = open_database(":memory:", SQLITE_OPEN_READWRITE, "");
    ensure(fresh.rc == SQLITE_OK && migrate(fresh.db.get(), 0) == SQLITE_OK &&
               read_schema(fresh.db.get(), schema) == SQLITE_OK,
           "our own schema can be made");
    return schema;
}

}  // namespace

int compare_schema(sqlite3* db, std::string& difference) {
    Schema found;
    if (const int rc = read_schema(db, found); rc != SQLITE_OK) return rc;

    static const Schema wanted = fresh_schema();
    for (const auto& [name, sql] : wanted) {
        const auto match = found.find(name);
        if (match == found.end()) return difference = "there is no " + name, SQLITE_OK;
        if (match->second != sql) return difference = name + " is not as it should be", SQLITE_OK;
    }
    for (const auto& [name, _] : found) {
        if (!wanted.contains(name)) return difference = name + " does not belong there", SQLITE_OK;
    }
    return SQLITE_OK;
}

}  // namespace interlock::store
