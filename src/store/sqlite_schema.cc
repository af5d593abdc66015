#include "store/sqlite_schema.h"

#include <map>
#include <string>

#include <fmt/format.h>

#include "base/embedded.h"
#include "base/ensure.h"

namespace interlock::embedded {
EmbeddedFiles sqlite_schema();  // schema/sqlite, by name.
}  // namespace interlock::embedded

namespace interlock::store {

const std::vector<std::string_view>& migrations() {
    static const std::vector<std::string_view> all = [] {
        std::vector<std::string_view> texts;
        for (const EmbeddedFile& file : embedded::sqlite_schema()) {
            texts.push_back(file.bytes);
            ensure(file.name.starts_with(fmt::format("{:03}_", texts.size())), "migrations are numbered without a gap");
        }
        return texts;
    }();
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
