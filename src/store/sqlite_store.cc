#include "store/sqlite_store.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <boost/mp11/algorithm.hpp>

#include "base/ensure.h"
#include "store/ledger_sum.h"
#include "store/sqlite_batch.h"
#include "store/sqlite_columns.h"
#include "store/sqlite_db.h"
#include "store/sqlite_schema.h"

namespace interlock::store {
namespace {

// Measured with batches of 16 to 1000 cost events: 4 KiB costs more calls to the system, 16 KiB more copying.
constexpr int page_size = 8192;
// Up to here the whole file is checked at open, which takes a tenth of a second. A larger one has its small tables
// checked; a fault elsewhere is met when it is read, and `interlock verify` reads everything.
constexpr std::int64_t check_all_bytes_max = 16 << 20;
// Nobody else writes, so this is only waited for while another process reads the log of a dead server for the first
// time.
constexpr int busy_timeout_ms = 5000;

// The statements of one kind of row.
template <class Row>
struct Kind {
    Batch<Row> batch;  // What put_<table> shows.
    Statement put;
    Statement erase;
    Statement load;  // Only of kinds that are asked for by key.
    std::vector<std::pair<core::KeyOf<Row>, const Row*>> sorted;
    std::vector<const Row*> rows;
};

std::string database_path(const std::string& directory) { return directory + "/interlock.db"; }

}  // namespace

struct SqliteStore::Connection {
    Database db;  // First, so that it outlives the statements.
    boost::mp11::mp_transform<Kind, core::AllRows> kinds;
    Statement begin;
    Statement begin_immediate;
    Statement commit;
    Statement rollback;
    std::size_t wal_pages = 0;
    std::size_t checkpoint_every_pages = 0;
    std::size_t checkpoint_at_pages = 0;

    template <class Row>
    Kind<Row>& of() {
        return std::get<Kind<Row>>(kinds);
    }

    int prepare_all();
    int prepare_into(Statement& statement, const std::string& sql);
    template <class Row>
    int prepare_kind();
    int begin_reading();
    int write(const WriteSet& writes);
    template <class Row>
    int write_kind(core::OrgId org, const RowWrites<Row>& writes);
    template <class Row>
    void show(core::OrgId org, const std::vector<const Row*>& rows);
    void undo();
};

// ---- commit -------------------------------------------------------------------------------------------------------

Result<void, CommitError> SqliteStore::commit(const WriteSet& writes) {
    using enum CommitError::Kind;
    if (!connection_) return fail(CommitError{rolled_back, "the store is closed: " + why_closed_});
    sqlite3* db = connection_->db.get();

    // 1. Begin. Loads have begun already, to see one state and to save a lock each; then the first write takes the
    // lock.
    //    Nobody else writes, so nobody can have come in between.
    if (sqlite3_get_autocommit(db) != 0 && run(connection_->begin_immediate.get()) != SQLITE_OK) {
        return fail(fail_commit(rolled_back, error_text(db)));
    }

    // 2. Write. Until the commit is asked for, every error leaves the file as it was.
    if (connection_->write(writes) != SQLITE_OK) {
        std::string why = error_text(db);
        connection_->undo();
        return fail(fail_commit(rolled_back, std::move(why)));
    }

    // 3. Commit. A constraint is checked, and a lock missed, before anything is written. After any other error the
    //    commit may be in the log or not, and may turn up after a crash: only the next open() settles that.
    if (const int rc = run(connection_->commit.get()); rc != SQLITE_OK) {
        std::string why = error_text(db);
        const bool nothing_written = (rc & 0xff) == SQLITE_CONSTRAINT || (rc & 0xff) == SQLITE_BUSY;
        if (nothing_written) connection_->undo();
        return fail(fail_commit(nothing_written ? rolled_back : unknown, std::move(why)));
    }

    // 4. Tidy up. What goes wrong here goes wrong for the next one: this commit is safe in the log.
    checkpoint_if_due();
    return {};
}

int SqliteStore::Connection::write(const WriteSet& writes) {
    for (const OrgWrites& of_org : writes.orgs) {
        int rc = SQLITE_OK;
        boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, core::AllRows>>([&](auto kind) {
            using Row = typename decltype(kind)::type;
            if (rc == SQLITE_OK) rc = write_kind<Row>(of_org.org, of_org.of<Row>());
        });
        if (rc != SQLITE_OK) return rc;
    }
    return SQLITE_OK;
}

template <class Row>
int SqliteStore::Connection::write_kind(core::OrgId org, const RowWrites<Row>& writes) {
    // What goes makes room first: a place that changes hands is erased and claimed in one commit.
    sqlite3_stmt* erase = of<Row>().erase.get();
    for (const core::KeyOf<Row>& key : writes.erased) {
        std::array<Scratch, Row::key_columns> scratch;
        const Row row = core::with_key<Row>(key);
        bind_key(erase, org, row, scratch);
        if (const int rc = run(erase); rc != SQLITE_OK) return rc;
    }
    if (writes.put.empty()) return SQLITE_OK;
    show(org, writes.put);
    return run(of<Row>().put.get());
}

// Rows in the order of their keys go to neighbouring places in the tree.
template <class Row>
void SqliteStore::Connection::show(core::OrgId org, const std::vector<const Row*>& rows) {
    Kind<Row>& kind = of<Row>();
    kind.batch = {org, rows.data(), rows.data() + rows.size()};
    if constexpr (std::is_trivially_destructible_v<core::KeyOf<Row>>) {  // Other keys are not worth copying.
        if (rows.size() < 2) return;
        kind.sorted.clear();
        for (const Row* row : rows) kind.sorted.emplace_back(core::key_of(*row), row);
        const auto by_key = [](const auto& a, const auto& b) { return a.first < b.first; };
        if (std::is_sorted(kind.sorted.begin(), kind.sorted.end(), by_key)) return;
        std::sort(kind.sorted.begin(), kind.sorted.end(), by_key);
        kind.rows.clear();
        for (const auto& [_, row] : kind.sorted) kind.rows.push_back(row);
        kind.batch = {org, kind.rows.data(), kind.rows.data() + kind.rows.size()};
    }
}

void SqliteStore::Connection::undo() {
    // Some errors have rolled back by themselves. If this fails too, closing the connection does it.
    if (sqlite3_get_autocommit(db.get()) == 0) run(rollback.get());
}

void SqliteStore::checkpoint_if_due() {
    Connection& connection = *connection_;
    if (connection.wal_pages < connection.checkpoint_at_pages) return;

    int pages = 0;
    const int rc = sqlite3_wal_checkpoint_v2(connection.db.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, &pages, nullptr);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY) {
        return fail_read("the checkpoint failed: " + error_text(connection.db.get()));
    }
    // Normally the next commit starts the log anew. While a snapshot holds on to it, it goes on growing, and trying
    // again after every commit would sync the file each time.
    connection.checkpoint_at_pages = static_cast<std::size_t>(std::max(pages, 0)) + options_.checkpoint_pages / 4 + 1;
}

CommitError SqliteStore::fail_commit(CommitError::Kind kind, std::string detail) {
    why_closed_ = detail;
    connection_.reset();
    return {kind, std::move(detail)};
}

// ---- reading ------------------------------------------------------------------------------------------------------

bool SqliteStore::load(core::OrgId org, core::ColdRow& row) {
    if (!connection_) {
        failed_ = true;
        return false;
    }
    return std::visit(
        [&]<class Row>(Row& wanted) {
            int rc = connection_->begin_reading();
            if (rc == SQLITE_OK) {
                std::array<Scratch, Row::key_columns> scratch;
                sqlite3_stmt* statement = connection_->of<Row>().load.get();
                const ResetAtEnd reset(statement);
                bind_key(statement, org, wanted, scratch);
                rc = sqlite3_step(statement);
                if (rc == SQLITE_DONE) return false;
                if (rc == SQLITE_ROW && read_row(statement, 1, wanted)) return true;
            }
            fail_read(rc == SQLITE_ROW ? fmt::format("a row of {} makes no sense", Row::table)
                                       : error_text(connection_->db.get()));
            return false;
        },
        row);
}

int SqliteStore::Connection::begin_reading() {
    return sqlite3_get_autocommit(db.get()) == 0 ? SQLITE_OK : run(begin.get());
}

void SqliteStore::fail_read(std::string detail) {
    why_closed_ = std::move(detail);
    failed_ = true;
    connection_.reset();
}

namespace {

constexpr const char* amount_columns =
    "cost, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, "
    "reasoning_tokens";

// "and agent = ?4 and …" for what the scope states. Tags are compared when a row is read.
std::string where_scope(const core::Scope& scope) {
    std::string sql;
    const auto state = [&](bool stated, const char* column, int parameter) {
        if (stated) sql += fmt::format(" and {} = ?{}", column, parameter);
    };
    state(!scope.agent.empty(), "agent", 4);
    state(!scope.workflow.empty(), "workflow", 5);
    state(!scope.provider.empty(), "provider", 6);
    state(!scope.model.empty(), "model", 7);
    state(!scope.api_key.empty(), "api_key", 8);
    state(!scope.run.value.empty(), "run", 9);
    state(!scope.session.value.empty(), "session", 10);
    return sql;
}

// Parameters that the statement does not have are refused by SQLite, which is all that is wanted.
struct BoundScope {
    Scratch run;
    Scratch session;
    BoundScope(sqlite3_stmt* statement, core::OrgId org, const core::Scope& scope, std::int64_t from, std::int64_t to) {
        BindSink{statement, 1}.integer(org.value);
        BindSink{statement, 2}.integer(from);
        BindSink{statement, 3}.integer(to);
        BindSink{statement, 4}.text(scope.agent);
        BindSink{statement, 5}.text(scope.workflow);
        BindSink{statement, 6}.text(scope.provider);
        BindSink{statement, 7}.text(scope.model);
        BindSink{statement, 8}.text(scope.api_key);
        BindSink{statement, 9}.bytes(id_bytes(scope.run.value, run));
        BindSink{statement, 10}.bytes(id_bytes(scope.session.value, session));
    }
};

bool tags_agree(sqlite3_stmt* statement, int column, const core::Scope& scope) {
    if (scope.tags.empty()) return true;
    core::Tags tags;
    return read_json(column_bytes(statement, column), tags) && includes_tags(tags, scope.tags);
}

void add_row(sqlite3_stmt* statement, core::Amounts& sum) {
    const auto column = [&](int index) { return sqlite3_column_int64(statement, index); };
    add_up(sum, column(0), column(1), {column(2), column(3), column(4), column(5), column(6), column(7)});
}

// Both return SQLITE_DONE, or what went wrong.
int sum_ledger(sqlite3* db, core::OrgId org, const core::Scope& scope, WindowSpan span, core::Amounts& sum) {
    const bool by_day = rollups_suffice(scope, span);
    const Statement statement =
        prepare(db, by_day ? fmt::format("select {} from rollups where org = ?1 and day >= ?2 and day < ?3{}",
                                         amount_columns, where_scope(scope))
                           : fmt::format("select {}, tags from cost_events where org = ?1 and counted_at >= ?2 and "
                                         "counted_at < ?3{}",
                                         amount_columns, where_scope(scope)));
    if (!statement) return sqlite3_errcode(db);
    const BoundScope bound(statement.get(), org, scope, by_day ? utc_day(span.start) : micros(span.start),
                           by_day ? utc_day(span.end) : micros(span.end));
    int rc = SQLITE_OK;
    while ((rc = sqlite3_step(statement.get())) == SQLITE_ROW) {
        if (by_day || tags_agree(statement.get(), 8, scope)) add_row(statement.get(), sum);
    }
    return rc;
}

int count_runs(sqlite3* db, core::OrgId org, const core::Scope& scope, WindowSpan span, core::Amounts& sum) {
    const Statement statement = prepare(
        db, "select tags from runs where org = ?1 and admitted_at > 0 and admitted_at >= ?2 and admitted_at < ?3" +
                where_scope(scope));
    if (!statement) return sqlite3_errcode(db);
    const BoundScope bound(statement.get(), org, scope, micros(span.start), micros(span.end));
    int rc = SQLITE_OK;
    while ((rc = sqlite3_step(statement.get())) == SQLITE_ROW) {
        if (tags_agree(statement.get(), 0, scope)) ++sum.runs;
    }
    return rc;
}

}  // namespace

core::Amounts SqliteStore::sum(core::OrgId org, const core::Scope& scope, WindowSpan span) {
    if (!connection_) {
        failed_ = true;
        return {};
    }
    sqlite3* db = connection_->db.get();
    core::Amounts sum;
    const bool good = connection_->begin_reading() == SQLITE_OK &&
                      sum_ledger(db, org, scope, span, sum) == SQLITE_DONE &&
                      count_runs(db, org, scope, span, sum) == SQLITE_DONE;
    if (good) return sum;
    fail_read(error_text(db));
    return {};
}

namespace {

// Which rows of a kind live in memory. The conditions are those of the partial indexes, word for word: SQLite takes an
// index only where it sees that its condition holds.
template <class Row>
std::string live_rows() {
    if constexpr (std::is_same_v<Row, core::Run>) {
        return select_rows<Row>() + "where state in ('queued', 'starting', 'running', 'paused')";
    } else if constexpr (std::is_same_v<Row, core::Hold>) {
        return select_rows<Row>() + "where state = 'open'";
    } else if constexpr (std::is_same_v<Row, core::FeedPage>) {
        return select_rows<Row>() +
               "where rowid in (select (select rowid from feed_pages as page where page.org = orgs.org "
               "order by last_seq desc limit 1) from orgs)";
    } else {
        return select_rows<Row>();
    }
}

// Empty, or what went wrong.
template <class Row>
std::string read_live(sqlite3* db, const OnLiveRow& on_row) {
    const Statement statement = prepare(db, live_rows<Row>());
    if (!statement) return error_text(db);
    int rc = SQLITE_OK;
    while ((rc = sqlite3_step(statement.get())) == SQLITE_ROW) {
        core::OrgId org;
        Row row;
        if (!read_column(statement.get(), 0, org) || !read_row(statement.get(), 1, row)) {
            return fmt::format("a row of {} makes no sense", Row::table);
        }
        on_row(org, std::move(row));
    }
    return rc == SQLITE_DONE ? "" : error_text(db);
}

}  // namespace

Result<void, ReadError> SqliteStore::load_live(const OnLiveRow& on_row) {
    if (!connection_) return fail(ReadError{"the store is closed: " + why_closed_});
    sqlite3* db = connection_->db.get();
    std::string why = connection_->begin_reading() == SQLITE_OK ? "" : error_text(db);
    boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, LiveRow>>([&](auto kind) {
        if (why.empty()) why = read_live<typename decltype(kind)::type>(db, on_row);
    });
    if (why.empty()) return {};
    fail_read(why);
    return fail(ReadError{std::move(why)});
}

namespace {

// Keys that are hashes lie anywhere, and most of them above every key that begins with the time. Past so many of them
// the search ends, and what it has come down to is a bound instead of the newest key itself.
constexpr int newest_key_looks_max = 100'000;

// SQLITE_DONE or SQLITE_ROW, or what went wrong.
int find_newest_key(sqlite3_stmt* keys, std::int64_t org, Id& newest) {
    const ResetAtEnd reset(keys);
    sqlite3_bind_int64(keys, 1, org);
    core::CommandKey key;
    int rc = SQLITE_OK;
    for (int looks = 0; (rc = sqlite3_step(keys)) == SQLITE_ROW; ++looks) {
        if (!read_column(keys, 0, key)) return SQLITE_CORRUPT;
        if (is_time_ordered(key.value) || looks == newest_key_looks_max) break;
    }
    if (rc == SQLITE_ROW) newest = std::max(newest, key.value);
    return rc;
}

}  // namespace

Result<Id, ReadError> SqliteStore::newest_key() {
    if (!connection_) return fail(ReadError{"the store is closed: " + why_closed_});
    sqlite3* db = connection_->db.get();
    Id newest;
    bool good = connection_->begin_reading() == SQLITE_OK;
    {
        const Statement orgs = prepare(db, "select org from orgs");
        const Statement events = prepare(db, "select key from cost_events where org = ? order by key desc");
        const Statement answers = prepare(db, "select key from answers where org = ? order by key desc");
        good = good && orgs && events && answers;
        int rc = SQLITE_DONE;
        while (good && (rc = sqlite3_step(orgs.get())) == SQLITE_ROW) {
            for (sqlite3_stmt* keys : {events.get(), answers.get()}) {
                const int found = find_newest_key(keys, sqlite3_column_int64(orgs.get(), 0), newest);
                good = good && (found == SQLITE_ROW || found == SQLITE_DONE);
            }
        }
        good = good && rc == SQLITE_DONE;
    }
    if (good) return newest;
    fail_read(error_text(db));
    return fail(ReadError{why_closed_});
}

// ---- opening and closing ------------------------------------------------------------------------------------------

SqliteStore::SqliteStore(Options options) : options_(std::move(options)) {}
SqliteStore::~SqliteStore() { close(); }

Result<void, OpenError> SqliteStore::open() {
    if (connection_) return {};
    const bool locked_before = lock_fd_ >= 0;
    if (auto locked = take_lock(); !locked) return locked;

    auto opened = open_connection();
    if (!opened) {
        why_closed_ = opened.error().detail;
        connection_.reset();
        // A server that is opening again after an error stays the server.
        if (!locked_before && lock_fd_ >= 0) ::close(std::exchange(lock_fd_, -1));
        return opened;
    }
    failed_ = false;
    return {};
}

void SqliteStore::close() {
    if (connection_) {
        // The last one out writes the log back and removes it. After an error there is no connection any more, and the
        // log stays for open() to read.
        connection_->undo();
        sqlite3_db_config(connection_->db.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
        connection_.reset();
    }
    why_closed_ = "it was closed";
    if (lock_fd_ >= 0) ::close(std::exchange(lock_fd_, -1));
}

Result<void, OpenError> SqliteStore::take_lock() {
    using enum OpenError::Kind;
    if (!options_.vfs.empty()) return {};  // Its files are somewhere else.
    const std::string& directory = options_.directory;
    struct stat found{};
    if (::stat(directory.c_str(), &found) != 0) {
        return fail(
            OpenError{unavailable, fmt::format("cannot use the data directory {}: {}; make it, or name another one",
                                               directory, std::strerror(errno))});
    }
    if (!S_ISDIR(found.st_mode)) {
        return fail(
            OpenError{unavailable, fmt::format("{} is not a directory; name another one for the data", directory)});
    }
    if (!options_.exclusive_lock || lock_fd_ >= 0) return {};

    const std::string path = directory + "/interlock.lock";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        return fail(OpenError{unavailable, fmt::format("cannot write {}: {}; the data directory must be writable", path,
                                                       std::strerror(errno))});
    }
    char owner[32] = {};
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const int why = errno;
        const bool known = ::pread(fd, owner, sizeof owner - 1, 0) > 0 && std::strtol(owner, nullptr, 10) > 0;
        ::close(fd);
        if (why != EWOULDBLOCK) {
            return fail(OpenError{unavailable, fmt::format("cannot lock {}: {}", path, std::strerror(why))});
        }
        return fail(OpenError{
            in_use,
            fmt::format("the data in {} is in use by {}; stop it, or name another directory", directory,
                        known ? fmt::format("process {}", std::strtol(owner, nullptr, 10)) : "another process")});
    }
    lock_fd_ = fd;
    // For people who look into it, and for the message above. The lock itself does not depend on it.
    const std::string self = fmt::format("{}\n", ::getpid());
    const bool written = ::ftruncate(fd, 0) == 0 && ::pwrite(fd, self.data(), self.size(), 0) > 0;
    if (!written) {
        return fail(OpenError{unavailable, fmt::format("cannot write {}: {}", path, std::strerror(errno))});
    }
    return {};
}

namespace {

// What an error of SQLite means to somebody who wants to open the file.
OpenError open_error(sqlite3* db, const std::string& path) {
    using enum OpenError::Kind;
    const std::string why = error_text(db);
    switch (db == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(db) & 0xff) {
        case SQLITE_NOTADB:
            return {not_ours,
                    fmt::format("{} is not a database: {}; move it away, or name another directory", path, why)};
        case SQLITE_CORRUPT:
            return {not_ours, fmt::format("{} is damaged: {}; keep a copy and restore a backup", path, why)};
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

struct Header {
    std::int64_t pages = 0;
    std::int64_t application = 0;
    std::int64_t version = 0;
};

// Whose file it is, without changing it.
Result<Header, OpenError> read_header(sqlite3* db, const std::string& path) {
    using enum OpenError::Kind;
    Header header;
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
bool configure(sqlite3* db, const SqliteStore::Options& options, const Header& header) {
    std::string mode;
    return (header.pages > 0 || execute(db, fmt::format("pragma page_size = {}", page_size)) == SQLITE_OK) &&
           execute(db, fmt::format("pragma synchronous = {}", name_of(options.synchronous))) == SQLITE_OK &&
           (header.pages > 0 || execute(db, fmt::format("pragma application_id = {}", application_id)) == SQLITE_OK) &&
           read_text(db, "pragma journal_mode = wal", mode) && mode == "wal" &&
           execute(db, fmt::format("pragma wal_autocheckpoint = 0; pragma journal_size_limit = {}; "
                                   "pragma cache_size = -{}; pragma foreign_keys = on; pragma cell_size_check = on; "
                                   "pragma mmap_size = 0; pragma temp_store = memory",
                                   options.checkpoint_pages * page_size * 2, options.page_cache_kib)) == SQLITE_OK;
}

// Empty: nothing wrong was seen.
std::string find_damage(sqlite3* db) {
    std::int64_t pages = 0;
    std::int64_t page_bytes = 0;
    if (!read_number(db, "pragma page_count", pages) || !read_number(db, "pragma page_size", page_bytes)) {
        return error_text(db);
    }
    std::vector<std::string> checks;
    if (pages * page_bytes <= check_all_bytes_max) {
        checks = {"pragma quick_check(1)"};
    } else {
        checks = {"pragma quick_check(orgs)", "pragma quick_check(agents)", "pragma quick_check(agent_totals)",
                  "pragma quick_check(budgets)", "pragma quick_check(claims)"};
    }
    for (const std::string& check : checks) {
        std::string verdict;
        if (!read_text(db, check, verdict)) return error_text(db);
        if (verdict != "ok") return verdict;
    }
    return "";
}

}  // namespace

Result<void, OpenError> SqliteStore::open_connection() {
    using enum OpenError::Kind;
    const std::string path = database_path(options_.directory);
    connection_ = std::make_unique<Connection>();

    // 1. Look, and change nothing.
    Opened opened = open_database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, options_.vfs);
    connection_->db = std::move(opened.db);
    sqlite3* db = connection_->db.get();
    if (opened.rc != SQLITE_OK) return fail(open_error(db, path));
    set_up(db);
    // What a schema can call is called when it is used. Snapshots need the JSON functions of a view; we need none.
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    const auto header = read_header(db, path);
    if (!header) return fail(header.error());
    if (header->version > 0) {
        if (const std::string damage = find_damage(db); !damage.empty()) {
            return fail(
                OpenError{not_ours, fmt::format("{} is damaged: {}; keep a copy and restore a backup", path, damage)});
        }
    }

    // 2. Make it ours, of the latest version.
    if (!configure(db, options_, *header) || migrate(db, header->version) != SQLITE_OK)
        return fail(open_error(db, path));
    if (const std::string difference = schema_difference(db); !difference.empty()) {
        return fail(OpenError{
            not_ours,
            fmt::format("the tables of {} are not ours: {}; keep a copy and restore a backup", path, difference)});
    }

    // 3. Settle what a lost commit may have left behind. Where nobody else had the file open, the log was read from the
    //    disk, and what it holds is written back: the file is then as durable as what we say. Where a snapshot kept the
    //    log's index in memory, the lost commit is not in it, but its pages still stand behind the end of the log and
    //    would be found after a crash; the next commit overwrites them, so there is one now.
    if (execute(db, fmt::format("pragma user_version = {}", migrations().size())) != SQLITE_OK) {
        return fail(open_error(db, path));
    }
    const int rc = sqlite3_wal_checkpoint_v2(db, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY) return fail(open_error(db, path));

    // 4. Get ready.
    connection_->checkpoint_every_pages = connection_->checkpoint_at_pages = options_.checkpoint_pages;
    sqlite3_wal_hook(
        db,
        [](void* self, sqlite3*, const char*, int pages) {
            auto& connection = *static_cast<Connection*>(self);
            const auto now = static_cast<std::size_t>(pages);
            // Fewer than before: the log has been started anew.
            if (now < connection.wal_pages) connection.checkpoint_at_pages = connection.checkpoint_every_pages;
            connection.wal_pages = now;
            return SQLITE_OK;
        },
        connection_.get());
    if (connection_->prepare_all() != SQLITE_OK) return fail(open_error(db, path));
    return {};
}

int SqliteStore::Connection::prepare_all() {
    int rc = SQLITE_OK;
    const auto one = [&](Statement& statement, const char* sql) {
        if (rc == SQLITE_OK) rc = prepare_into(statement, sql);
    };
    one(begin, "begin");
    one(begin_immediate, "begin immediate");
    one(commit, "commit");
    one(rollback, "rollback");
    boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, core::AllRows>>([&](auto kind) {
        if (rc == SQLITE_OK) rc = prepare_kind<typename decltype(kind)::type>();
    });
    return rc;
}

template <class Row>
int SqliteStore::Connection::prepare_kind() {
    Kind<Row>& kind = of<Row>();
    if (const int rc = BatchTable<Row>::add_to(db.get(), kind.batch); rc != SQLITE_OK) return rc;

    const std::string columns = column_list<Row>();
    const std::string table(Row::table);
    std::string put;
    if constexpr (Row::life == core::Life::appended) {
        // Any error ends the whole transaction anyway. Saying so spares SQLite the notes by which it could undo this
        // statement alone.
        put = fmt::format("insert or rollback into {}({}) select {} from put_{}", table, columns, columns, table);
    } else {
        std::vector<std::string> settings;
        for (std::size_t i = Row::key_columns; i < column_count<Row>; ++i) {
            settings.push_back(fmt::format("{0} = excluded.{0}", column_names<Row>()[i]));
        }
        // "where true" tells SQLite's parser that "on conflict" does not belong to a join.
        put = fmt::format("insert into {}({}) select {} from put_{} where true on conflict({}) do update set {}", table,
                          columns, columns, table, joined(key_names<Row>(), ", "), joined(settings, ", "));
    }
    int rc = prepare_into(kind.put, put);
    if (rc == SQLITE_OK) rc = prepare_into(kind.erase, fmt::format("delete from {} {}", table, where_key<Row>()));
    if constexpr (boost::mp11::mp_contains<core::ColdRow, Row>::value) {
        if (rc == SQLITE_OK) rc = prepare_into(kind.load, select_rows<Row>() + where_key<Row>());
    }
    return rc;
}

int SqliteStore::Connection::prepare_into(Statement& statement, const std::string& sql) {
    statement = prepare(db.get(), sql);
    return statement ? SQLITE_OK : sqlite3_errcode(db.get());
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    return fmt::format("{}", fmt::join(words, between));
}

// ---- snapshots ----------------------------------------------------------------------------------------------------

namespace {

class SqliteSnapshot final : public Snapshot {
 public:
    explicit SqliteSnapshot(Database db) : db_(std::move(db)) {}

    Result<void, ReadError> query(std::string_view sql, const OnValues& on_row) override {
        const Statement statement = prepare(db_.get(), std::string(sql));
        if (!statement) return fail(ReadError{error_text(db_.get())});
        std::vector<Value> values(static_cast<std::size_t>(sqlite3_column_count(statement.get())));
        int rc = SQLITE_OK;
        while ((rc = sqlite3_step(statement.get())) == SQLITE_ROW) {
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(statement.get(), static_cast<int>(i));
            on_row(values);
        }
        if (rc != SQLITE_DONE) return fail(ReadError{error_text(db_.get())});
        return {};
    }

 private:
    static Value value(sqlite3_stmt* statement, int column) {
        switch (sqlite3_column_type(statement, column)) {
            case SQLITE_NULL:
                return std::monostate();
            case SQLITE_INTEGER:
                return sqlite3_column_int64(statement, column);
            case SQLITE_FLOAT:
                sqlite3_column_text(statement, column);  // Turned into its text. No column of ours is one.
        }
        return std::string(column_bytes(statement, column));
    }

    Database db_;
};

}  // namespace

Result<std::unique_ptr<Snapshot>, OpenError> open_snapshot(const std::string& directory, const std::string& vfs) {
    using enum OpenError::Kind;
    const std::string path = database_path(directory);
    Opened opened = open_database(path, SQLITE_OPEN_READONLY, vfs);
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
    return std::unique_ptr<Snapshot>(std::make_unique<SqliteSnapshot>(std::move(opened.db)));
}

Result<std::unique_ptr<Snapshot>, ReadError> SqliteStore::snapshot() {
    auto opened = open_snapshot(options_.directory, options_.vfs);
    if (!opened) return fail(ReadError{opened.error().detail});
    return std::move(*opened);
}

// ---- repairs ------------------------------------------------------------------------------------------------------

namespace {

// Statement and values, put together side by side.
struct Edit {
    std::string sql;
    std::vector<const StoredValue*> values;

    void add_list(std::string_view form, const std::string& column, const StoredValue& value, std::string_view between,
                  bool first) {
        if (!first) sql += between;
        sql += fmt::format(fmt::runtime(form), column);
        values.push_back(&value);
    }
};

Edit edit_for(const Repair& repair) {
    Edit edit;
    bool first = true;
    const auto add = [&](std::string_view form, const std::string& column, const StoredValue& value,
                         std::string_view between) {
        edit.add_list(form, column, value, between, std::exchange(first, false));
    };
    if (repair.kind == Repair::Kind::insert) {
        std::string marks;
        edit.sql = fmt::format("insert into {}(", repair.row.table);
        for (const Cell& cell : repair.row.key) add("{}", cell.column, cell.value, ", ");
        for (const Repair::Change& cell : repair.cells) add("{}", cell.column, cell.to, ", ");
        for (std::size_t i = 0; i < edit.values.size(); ++i) marks += i == 0 ? "?" : ", ?";
        edit.sql += ") values (" + marks + ")";
        return edit;
    }
    if (repair.kind == Repair::Kind::change) {
        edit.sql = fmt::format("update {} set ", repair.row.table);
        for (const Repair::Change& cell : repair.cells) add("{} = ?", cell.column, cell.to, ", ");
    } else {
        edit.sql = fmt::format("delete from {}", repair.row.table);
    }
    edit.sql += " where ";
    first = true;
    for (const Cell& cell : repair.row.key) add("{} is ?", cell.column, cell.value, " and ");
    for (const Repair::Change& cell : repair.cells) add("{} is ?", cell.column, cell.from, " and ");
    return edit;
}

// Empty, or what went wrong.
std::string carry_out(sqlite3* db, const Repair& repair) {
    const Edit edit = edit_for(repair);
    const Statement statement = prepare(db, edit.sql);
    if (!statement) return error_text(db);
    for (std::size_t i = 0; i < edit.values.size(); ++i) {
        BindSink sink{statement.get(), static_cast<int>(i) + 1};
        const StoredValue& value = *edit.values[i];
        if (const auto* number = std::get_if<std::int64_t>(&value)) sink.integer(*number);
        if (const auto* text = std::get_if<std::string>(&value)) sink.text(*text);
        if (const auto* blob = std::get_if<Blob>(&value)) sink.bytes(blob->bytes);
    }
    if (sqlite3_step(statement.get()) != SQLITE_DONE) return error_text(db);
    if (sqlite3_changes(db) != 1) return fmt::format("a row of {} is no longer what it was", repair.row.table);
    return "";
}

}  // namespace

Result<void, CommitError> SqliteStore::repair(const std::vector<Repair>& repairs) {
    using enum CommitError::Kind;
    if (!connection_) return fail(CommitError{rolled_back, "the store is closed: " + why_closed_});
    sqlite3* db = connection_->db.get();
    connection_->undo();  // Ends what loads have begun: repairs see the latest state.
    std::string why = run(connection_->begin_immediate.get()) == SQLITE_OK ? "" : error_text(db);
    for (const Repair& repair : repairs) {
        if (why.empty()) why = carry_out(db, repair);
    }
    if (!why.empty()) {
        connection_->undo();
        return fail(fail_commit(rolled_back, std::move(why)));
    }
    return commit({});  // With nothing to add, but ended like any other.
}

}  // namespace interlock::store
