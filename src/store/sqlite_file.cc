#include "store/sqlite_file.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "store/sqlite_schema.h"

namespace interlock::store {
namespace {

using enum OpenError::Kind;

// Measured with batches of 16 to 1000 cost events: 4 KiB costs more calls to the system, 16 KiB more copying.
constexpr int page_size = 8192;
// Up to here the whole file is checked at open, which takes about a tenth of a second. A larger one has its small
// tables checked; a fault elsewhere is met when it is read, and `interlock verify` reads everything.
constexpr std::int64_t check_all_bytes_max = 16 << 20;
// Nobody else writes, so this is only waited for while another process reads the log of a dead server for the first
// time.
constexpr int busy_timeout_ms = 5000;

OpenError damaged(const std::string& path, const std::string& how) {
    return {not_ours, fmt::format("{} is damaged: {}; keep a copy and restore a backup", path, how)};
}

struct FileHeader {
    std::int64_t pages = 0;
    std::int64_t application = 0;
    std::int64_t version = 0;
};

// Whose file it is, without changing it.
Result<FileHeader, OpenError> read_header(sqlite3* db, const std::string& path) {
    using enum OpenError::Kind;
    FileHeader header;
    if (!read_number(db, "pragma page_count", header.pages) ||
        !read_number(db, "pragma application_id", header.application) ||
        !read_number(db, "pragma user_version", header.version)) {
        return fail(open_error(db, path));
    }
    if (header.pages == 0) return header;
    if (header.application != application_id) {
        return fail(
            OpenError{not_ours, fmt::format("{} belongs to another program (application id {:#x}); move it away, or "
                                            "name another directory",
                                            path, header.application)});
    }
    if (header.version > static_cast<std::int64_t>(migrations().size())) {
        return fail(OpenError{too_new, fmt::format("{} was written by a later version (schema {}, this one knows {}); "
                                                   "upgrade interlock",
                                                   path, header.version, migrations().size())});
    }
    return header;
}

// Nobody but the owner of the writing connection may write the log back: two doing it at once is a known way to lose
// data in SQLite before 3.51.3. So no connection does it on its own when it is closed.
void set_up(sqlite3* db) {
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    sqlite3_busy_timeout(db, busy_timeout_ms);
}

const char* name_of(SqliteStore::Synchronous synchronous) {
    switch (synchronous) {
        case SqliteStore::Synchronous::full:
            return "full";
        case SqliteStore::Synchronous::normal_for_negative_control:
            return "normal";
        case SqliteStore::Synchronous::off_for_negative_control:
            return "off";
    }
    return "full";
}

// A new file says whose it is with its very first transaction, so that a crash never leaves one that nobody owns.
bool configure(sqlite3* db, const SqliteStore::Options& options, const FileHeader& header) {
    std::string mode;
    return (header.pages > 0 || execute(db, fmt::format("pragma page_size = {}", page_size)) == SQLITE_OK) &&
           execute(db, fmt::format("pragma synchronous = {}", name_of(options.synchronous))) == SQLITE_OK &&
           (header.pages > 0 || execute(db, fmt::format("pragma application_id = {}", application_id)) == SQLITE_OK) &&
           read_text(db, "pragma journal_mode = wal", mode) &&
           execute(db, fmt::format("pragma wal_autocheckpoint = 0; pragma journal_size_limit = {}; "
                                   "pragma cache_size = -{}; pragma foreign_keys = on; pragma cell_size_check = on; "
                                   "pragma mmap_size = 0; pragma temp_store = memory",
                                   options.checkpoint_pages * page_size * 2, options.page_cache_kib)) == SQLITE_OK;
}

Result<void, OpenError> find_damage(sqlite3* db, const std::string& path) {
    std::int64_t pages = 0;
    std::int64_t page_bytes = 0;
    if (!read_number(db, "pragma page_count", pages) || !read_number(db, "pragma page_size", page_bytes)) {
        return fail(open_error(db, path));
    }
    std::vector<std::string> checks{"quick_check(1)"};
    if (pages * page_bytes > check_all_bytes_max) {
        checks = {"quick_check(orgs)", "quick_check(agents)", "quick_check(agent_totals)", "quick_check(budgets)",
                  "quick_check(claims)"};
    }
    for (const std::string& check : checks) {
        std::string verdict;
        if (!read_text(db, "pragma " + check, verdict)) return fail(open_error(db, path));
        if (verdict != "ok") return fail(damaged(path, verdict));
    }
    return {};
}

}  // namespace

Result<Database, OpenError> open_to_write(const SqliteStore::Options& options, LeftBy left_by) {
    const std::string path = database_path(options.directory);

    // 1. Look, and change nothing.
    OpenedDatabase opened = open_database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, options.vfs);
    sqlite3* db = opened.db.get();
    if (opened.rc != SQLITE_OK) return fail(open_error(db, path));
    set_up(db);
    // What a schema can call is called when it is used. Snapshots need the JSON functions of a view; a writer needs
    // none.
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    const auto header = read_header(db, path);
    if (!header) return fail(header.error());
    if (header->version > 0) {
        if (auto sound = find_damage(db, path); !sound) return fail(sound.error());
    }

    // 2. Make it ours, of the latest version.
    if (!configure(db, options, *header) || migrate(db, header->version) != SQLITE_OK) {
        return fail(open_error(db, path));
    }
    std::string mode;
    if (!read_text(db, "pragma journal_mode", mode)) return fail(open_error(db, path));
    if (mode != "wal") {
        return fail(
            OpenError{unavailable, fmt::format("{} is on a file system without shared memory, so there can be no "
                                               "write-ahead log; name a directory on a local disk",
                                               path)});
    }
    std::string difference;
    if (compare_schema(db, difference) != SQLITE_OK) return fail(open_error(db, path));
    if (!difference.empty()) return fail(damaged(path, difference));

    // 3. Settle what a lost commit may have left behind. Where nobody else had the file open, the log was read from the
    //    disk, and what it holds is written back: the file is then as durable as what we say. Where a snapshot kept the
    //    log's index in memory, the lost commit is not in it, but its pages still stand behind the end of the log and
    //    would be found after a crash; the next commit overwrites them, so there is one now.
    //    A sync of ours that failed may have left the log with a hole on the disk, though not in the system's memory.
    //    It must not be read after a crash: once it is written back, another commit begins it anew.
    const std::string commit_anything = fmt::format("pragma user_version = {}", migrations().size());
    if (execute(db, commit_anything) != SQLITE_OK) return fail(open_error(db, path));
    const int rc = sqlite3_wal_checkpoint_v2(db, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY) return fail(open_error(db, path));
    if (left_by == LeftBy::an_error_of_ours && execute(db, commit_anything) != SQLITE_OK)
        return fail(open_error(db, path));
    return std::move(opened.db);
}

Result<Database, OpenError> open_to_read(const std::string& directory, const std::string& vfs) {
    const std::string path = database_path(directory);
    OpenedDatabase opened = open_database(path, SQLITE_OPEN_READONLY, vfs);
    sqlite3* db = opened.db.get();
    if (opened.rc != SQLITE_OK) {
        return fail(OpenError{
            unavailable, fmt::format("cannot read {}: {}; is there a store in this directory?", path, error_text(db))});
    }
    set_up(db);
    // The first read fixes the moment that all later ones see.
    if (execute(db, "pragma query_only = on; pragma temp_store = memory; begin") != SQLITE_OK) {
        return fail(open_error(db, path));
    }
    const auto header = read_header(db, path);
    if (!header) return fail(header.error());
    if (header->version < static_cast<std::int64_t>(migrations().size())) {
        return fail(
            OpenError{unavailable, fmt::format("{} is of an earlier version (schema {}, this one knows {}); start the "
                                               "server once, it brings the file up to date",
                                               path, header->version, migrations().size())});
    }
    return std::move(opened.db);
}

std::string database_path(const std::string& directory) { return directory + "/interlock.db"; }

OpenError open_error(sqlite3* db, const std::string& path) {
    using enum OpenError::Kind;
    const std::string why = error_text(db);
    switch (db == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(db) & 0xff) {
        case SQLITE_NOTADB:
            return {not_ours,
                    fmt::format("{} is not a database: {}; move it away, or name another directory", path, why)};
        case SQLITE_CORRUPT:
            return damaged(path, why);
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            return {in_use, fmt::format("{} is in use by another process: {}", path, why)};
        case SQLITE_FULL:
            return {unavailable, fmt::format("no room for {}: {}; free some space on its disk", path, why)};
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_CANTOPEN:
            return {
                unavailable,
                fmt::format("cannot write {}: {}; look at the permissions of the file and its directory", path, why)};
        default:
            return {unavailable, fmt::format("cannot use {}: {}", path, why)};
    }
}

}  // namespace interlock::store
