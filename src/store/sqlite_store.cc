#include "store/sqlite_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <boost/mp11/algorithm.hpp>

#include "store/copy_mark.h"
#include "store/key_order.h"
#include "store/ledger_sum.h"
#include "store/ledger_tables.h"
#include "store/read_rows.h"
#include "store/sqlite_batch.h"
#include "store/sqlite_columns.h"
#include "store/sqlite_db.h"
#include "store/sqlite_file.h"
#include "store/sqlite_kept_lock.h"
#include "store/sqlite_log_buffer.h"
#include "store/sqlite_repair.h"
#include "store/table_shape.h"

namespace interlock::store {
namespace {

// Kinds whose ids rise with time. One that is new when it is first asked for need not be looked for.
template <class Row>
constexpr bool rises =
    std::is_same_v<Row, core::Hold> || std::is_same_v<Row, core::Run> || std::is_same_v<Row, core::Session>;

// The statements of one kind of row.
template <class Row>
struct KindStatements {
    Batch<Row> batch;                            // What put_<table> shows.
    std::unordered_map<core::OrgId, Id> newest;  // No row of the org has a higher id. Only of kinds that rise.
    std::vector<const Row*> added;               // What update_rows() has not found.
    std::array<Scratch, column_count<Row>> scratch;
    Statement put;
    Statement update;  // Only of kinds that rise.
    Statement erase;
    Statement load;  // Only of kinds that are asked for by key.
    KeyOrder<Row> order;
};

// What of a row stays as it was first written. An update that leaves it out costs less: above all, no agent has to be
// looked for a second time because the row refers to one.
constexpr bool is_fixed(std::string_view table, std::string_view column) {
    constexpr std::array<std::string_view, 10> fixed{"agent", "workflow", "provider", "model",     "api_key",
                                                     "run",   "session",  "tags",     "opened_by", "created_at"};
    return table == core::Hold::table && std::ranges::find(fixed, column) != fixed.end();
}

// Takes the table's columns of each event of the batch.
std::string put_into_ledger(LedgerTable table) {
    std::string columns = "org";
    for (const std::string& name : shape_of<core::CostEvent>().columns) {
        if (is_in(table, name)) columns += ", " + name;
    }
    return fmt::format("insert or rollback into {}({}) select {} from put_cost_events", ledger_table(table), columns,
                       columns);
}

std::string put_rows_sql(const TableShape& shape, bool all_new) {
    if (shape.table == core::CostEvent::table) return put_into_ledger(LedgerTable::plain);
    const std::string columns = column_list(shape);
    // Any error ends the whole transaction anyway. Saying so spares SQLite the notes by which it could undo this
    // statement alone.
    if (all_new) return fmt::format("insert or rollback into {0}({1}) select {1} from put_{0}", shape.table, columns);
    std::vector<std::string> settings;
    for (std::size_t i = shape.key_columns; i < shape.columns.size(); ++i) {
        settings.push_back(assignment(shape.columns[i]));
    }
    // "where true" tells SQLite's parser that "on conflict" does not belong to a join.
    return fmt::format("insert into {0}({1}) select {1} from put_{0} where true on conflict({2}) do update set {3}",
                       shape.table, columns, primary_key(shape), joined(settings, ", "));
}

std::string update_row_sql(const TableShape& shape) {
    std::vector<std::string> settings;
    for (std::size_t i = shape.key_columns; i < shape.columns.size(); ++i) {
        if (!is_fixed(shape.table, shape.columns[i])) settings.push_back(quoted(shape.columns[i]) + " = ?");
    }
    return fmt::format("update or rollback {} set {} {}", shape.table, joined(settings, ", "), where_key(shape));
}

// The parameters of update_row_sql(), in their order.
template <class Row>
void bind_update(sqlite3_stmt* statement, core::OrgId org, const Row& row,
                 std::array<Scratch, column_count<Row>>& scratch) {
    int next = 1;
    const auto bind = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
        write_column<Row, I>(BindSink{statement, next++}, row, scratch[I]);
    };
    boost::mp11::mp_for_each<boost::mp11::mp_iota_c<column_count<Row>>>([&]<std::size_t I>(boost::mp11::mp_size_t<I>) {
        using Column = boost::mp11::mp_at_c<Columns<Row>, I>;
        if constexpr (I >= Row::key_columns && !is_fixed(Row::table, Column::member)) {
            bind(std::integral_constant<std::size_t, I>{});
        }
    });
    BindSink{statement, next++}.integer(org.value);
    boost::mp11::mp_for_each<boost::mp11::mp_iota_c<Row::key_columns>>(
        [&]<std::size_t I>(boost::mp11::mp_size_t<I>) { bind(std::integral_constant<std::size_t, I>{}); });
}

}  // namespace

struct SqliteStore::Connection {
    // What the database is opened with outlives it, as it outlives its statements.
    std::optional<KeptLock> lock;
    std::optional<LogBuffer> log;
    Database db;
    boost::mp11::mp_transform<KindStatements, core::AllRows> kinds;
    Statement begin;
    Statement begin_immediate;
    Statement commit;
    Statement rollback;
    Statement put_details;
    std::vector<const core::CostEvent*> with_details;
    std::size_t wal_pages = 0;
    std::size_t checkpoint_every_pages = 0;
    std::size_t checkpoint_at_pages = 0;

    template <class Row>
    KindStatements<Row>& of() {
        return std::get<KindStatements<Row>>(kinds);
    }

    int get_ready(std::size_t checkpoint_pages);
    int prepare_into(Statement& statement, const std::string& sql);
    // Statements of a kind are prepared when first used: a store that is opened and read has no use for most of them.
    template <class Row>
    int ready_to_put();
    template <class Row>
    int ready_to_update();
    template <class Row>
    int ready_to_erase();
    template <class Row>
    int ready_to_load();
    int begin_reading();
    int write(const WriteSet& writes);
    template <class Row>
    int write_kind(core::OrgId org, const RowWrites<Row>& writes);
    template <class Row>
    int put_rows(core::OrgId org, std::span<const Row* const> rows);
    template <class Row>
    int update_rows(core::OrgId org, std::span<const Row* const> rows);
    int write_details();
    template <class Row>
    void remember_newest(core::OrgId org, const std::vector<const Row*>& rows);
    template <class Row>
    bool is_known_new(core::OrgId org, const Row& row);
    template <class Row>
    bool is_new(core::OrgId org, Id id);
    void undo();
};

// ---- commit -------------------------------------------------------------------------------------------------------

Result<void, CommitError> SqliteStore::commit(const WriteSet& writes) {
    using enum CommitError::Kind;
    if (!connection_) return fail(CommitError{rolled_back, "the store is closed: " + why_closed_});
    sqlite3* db = connection_->db.get();
    if (auto there = check_files(); !there) return there;

    // 1. Begin. Loads may have begun already, to see one state and to save a lock each. Then the first write takes the
    //    lock; nobody else writes, so nobody can have come in between.
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
    if (!writes.erased.empty()) {
        if (const int rc = ready_to_erase<Row>(); rc != SQLITE_OK) return rc;
    }
    sqlite3_stmt* erase = of<Row>().erase.get();
    for (const core::KeyOf<Row>& key : writes.erased) {
        std::array<Scratch, Row::key_columns> scratch;
        const Row row = core::with_key<Row>(key);
        bind_key(erase, org, row, scratch);
        if (const int rc = run(erase); rc != SQLITE_OK) return rc;
    }
    if (writes.put.empty()) return SQLITE_OK;
    const std::span<const Row* const> ordered = of<Row>().order.of(writes.put);
    if constexpr (rises<Row>) {
        int rc = update_rows(org, ordered);
        if (rc == SQLITE_OK) rc = put_rows<Row>(org, of<Row>().added);
        remember_newest(org, writes.put);
        return rc;
    } else {
        const int rc = put_rows(org, ordered);
        if constexpr (std::is_same_v<Row, core::CostEvent>) return rc == SQLITE_OK ? write_details() : rc;
        return rc;
    }
}

template <class Row>
int SqliteStore::Connection::put_rows(core::OrgId org, std::span<const Row* const> rows) {
    if (rows.empty()) return SQLITE_OK;
    if (const int rc = ready_to_put<Row>(); rc != SQLITE_OK) return rc;
    of<Row>().batch = {org, rows.data(), rows.data() + rows.size()};
    return run(of<Row>().put.get());
}

// These kinds have many columns. An update of a row costs less than an insert that comes upon it and then updates it.
// (Of kinds with few columns it costs more.) Rows that are not there are in `added` afterwards.
template <class Row>
int SqliteStore::Connection::update_rows(core::OrgId org, std::span<const Row* const> rows) {
    KindStatements<Row>& kind = of<Row>();
    kind.added.clear();
    for (const Row* row : rows) {
        if (is_known_new(org, *row)) {
            kind.added.push_back(row);
            continue;
        }
        if (const int rc = ready_to_update<Row>(); rc != SQLITE_OK) return rc;
        bind_update(kind.update.get(), org, *row, kind.scratch);
        if (const int rc = run(kind.update.get()); rc != SQLITE_OK) return rc;
        if (sqlite3_changes(db.get()) == 0) kind.added.push_back(row);
    }
    return SQLITE_OK;
}

template <class Row>
bool SqliteStore::Connection::is_known_new(core::OrgId org, const Row& row) {
    const auto& all = of<Row>().newest;
    const auto newest = all.find(org);
    return newest != all.end() && newest->second < row.id.value;
}

template <class Row>
void SqliteStore::Connection::remember_newest(core::OrgId org, const std::vector<const Row*>& rows) {
    auto& all = of<Row>().newest;
    const auto newest = all.find(org);
    if (newest == all.end()) return;
    for (const Row* row : rows) newest->second = std::max(newest->second, row->id.value);
}

template <class Row>
bool SqliteStore::Connection::is_new(core::OrgId org, Id id) {
    auto& all = of<Row>().newest;
    const auto [newest, unknown] = all.try_emplace(org);
    if (unknown) {
        const Statement last =
            prepare(db.get(), fmt::format("select id from {} where org = ? order by id desc limit 1", Row::table));
        if (last) sqlite3_bind_int64(last.get(), 1, org.value);
        const int rc = last ? sqlite3_step(last.get()) : SQLITE_ERROR;
        decltype(Row::id) found;
        const bool read = rc == SQLITE_DONE || (rc == SQLITE_ROW && read_column(last.get(), 0, found));
        if (!read) {
            all.erase(newest);  // Whoever looks for the row finds out why.
            return false;
        }
        newest->second = found.value;
    }
    return newest->second < id;
}

// Of the cost events just written.
int SqliteStore::Connection::write_details() {
    Batch<core::CostEvent>& batch = of<core::CostEvent>().batch;
    with_details.clear();
    std::copy_if(batch.begin, batch.end, std::back_inserter(with_details),
                 [](const core::CostEvent* event) { return has_details(*event); });
    if (with_details.empty()) return SQLITE_OK;
    if (!put_details) {
        if (const int rc = prepare_into(put_details, put_into_ledger(LedgerTable::details)); rc != SQLITE_OK) return rc;
    }
    batch = {batch.org, with_details.data(), with_details.data() + with_details.size()};
    return run(put_details.get());
}

void SqliteStore::Connection::undo() {
    // Some errors have rolled back by themselves. If this fails too, closing the connection does it.
    if (sqlite3_get_autocommit(db.get()) == 0) run(rollback.get());
}

// A commit goes to the open files. If the next start would not find them, nothing more may be said to be committed.
Result<void, CommitError> SqliteStore::check_files() {
    const StoreFiles::File* gone = files_ ? files_->find_gone() : nullptr;
    if (gone == nullptr) return {};
    const bool removed = ::access(gone->path.c_str(), F_OK) != 0;
    // What is in a log that was removed is lost with this process, unless it is written back now.
    if (removed) {
        connection_->undo();
        sqlite3_wal_checkpoint_v2(connection_->db.get(), nullptr, SQLITE_CHECKPOINT_FULL, nullptr, nullptr);
    }
    return fail(CommitError{CommitError::Kind::rolled_back,
                            fmt::format("{} was {} while the server runs; nothing is written until it is put back",
                                        gone->path, removed ? "removed or moved" : "replaced")});
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
    broke_off_ = true;
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
            if constexpr (rises<Row>) {
                if (connection_->is_new<Row>(org, wanted.id.value)) return false;
            }
            int rc = connection_->begin_reading();
            if (rc == SQLITE_OK) rc = connection_->ready_to_load<Row>();
            if (rc == SQLITE_OK) {
                std::array<Scratch, Row::key_columns> scratch;
                sqlite3_stmt* statement = connection_->of<Row>().load.get();
                const ResetAtEnd reset(statement);
                bind_key(statement, org, wanted, scratch);
                rc = sqlite3_step(statement);
                if (rc == SQLITE_DONE) return false;
                if (rc == SQLITE_ROW && read_row(statement, 1, wanted)) return true;
            }
            fail_read(rc == SQLITE_ROW ? unreadable_row(Row::table).detail : error_text(connection_->db.get()));
            return false;
        },
        row);
}

int SqliteStore::Connection::begin_reading() {
    return sqlite3_get_autocommit(db.get()) == 0 ? SQLITE_OK : run(begin.get());
}

void SqliteStore::fail_read(std::string detail) {
    broke_off_ = true;
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

std::vector<core::OpenSessions> SqliteStore::open_sessions(core::OrgId org) {
    if (!connection_) {
        failed_ = true;
        return {};
    }
    sqlite3* db = connection_->db.get();
    std::vector<core::OpenSessions> found;
    int rc = connection_->begin_reading();
    if (rc == SQLITE_OK) {
        const Statement statement = prepare(
            db, "select agent, api_key, count(*) from sessions where closed = 0 and org = ?1 group by agent, api_key");
        rc = statement ? sqlite3_bind_int64(statement.get(), 1, org.value) : sqlite3_errcode(db);
        while (rc == SQLITE_OK || rc == SQLITE_ROW) {
            rc = sqlite3_step(statement.get());
            if (rc != SQLITE_ROW) break;
            found.push_back({.agent = std::string(column_bytes(statement.get(), 0)),
                             .api_key = std::string(column_bytes(statement.get(), 1)),
                             .count = sqlite3_column_int64(statement.get(), 2)});
        }
    }
    if (rc == SQLITE_DONE) return found;
    fail_read(error_text(db));
    return {};
}

namespace {

// Which rows of a kind live in memory. The conditions are those of the partial indexes, word for word: SQLite takes an
// index only where it sees that its condition holds.
std::string live_rows_sql(const TableShape& shape) {
    std::string_view where;
    if (shape.table == core::Run::table) where = "where state in ('queued', 'starting', 'running', 'paused')";
    if (shape.table == core::Hold::table) where = "where state = 'open'";
    if (is_chain(shape)) {
        return select_rows(shape) + fmt::format(
                                        "where rowid in (select (select rowid from {0} as link where link.org = "
                                        "orgs.org order by {1} desc limit 1) "
                                        "from orgs)",
                                        shape.table, shape.columns.front());
    }
    return select_rows(shape).append(where);
}

// Empty, or what went wrong.
template <class Row>
std::string read_live(sqlite3* db, const OnLiveRow& on_row) {
    const Statement statement = prepare(db, live_rows_sql(shape_of<Row>()));
    if (!statement) return error_text(db);
    int rc = SQLITE_OK;
    while ((rc = sqlite3_step(statement.get())) == SQLITE_ROW) {
        core::OrgId org;
        Row row;
        if (!read_column(statement.get(), 0, org) || !read_row(statement.get(), 1, row)) {
            return unreadable_row(Row::table).detail;
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
    const bool held_before = lock_.held();
    if (options_.vfs.empty()) {  // The files of another one are somewhere else.
        auto ready = options_.exclusive_lock ? lock_.take(options_.directory) : check_directory(options_.directory);
        if (!ready) return ready;
        auto usable = refuse_unfinished_copy();
        if (usable) usable = refuse_other_file();
        if (!usable) {
            if (!held_before) lock_.let_go();
            return usable;
        }
    }

    auto connection = std::make_unique<Connection>();
    Options options = options_;
    if (options.exclusive_lock) options.vfs = connection->lock.emplace(options.vfs).name();
    if (options.synchronous == Synchronous::full) options.vfs = connection->log.emplace(options.vfs).name();
    auto db = open_to_write(options, broke_off_ ? LeftBy::an_error_of_ours : LeftBy::nobody);
    if (!db) {
        why_closed_ = db.error().detail;
        // A server that is opening again after an error stays the server.
        if (!held_before) lock_.let_go();
        return fail(db.error());
    }
    connection->db = std::move(*db);
    if (connection->get_ready(options_.checkpoint_pages) != SQLITE_OK) {
        if (!held_before) lock_.let_go();
        return fail(open_error(connection->db.get(), database_path(options_.directory)));
    }
    if (options_.vfs.empty() && options_.exclusive_lock) {
        auto files = StoreFiles::find(options_.directory);
        if (!files) {
            if (!held_before) lock_.let_go();
            return fail(files.error());
        }
        files_ = std::move(*files);
    }
    connection_ = std::move(connection);
    failed_ = false;
    broke_off_ = false;
    return {};
}

Result<void, OpenError> SqliteStore::refuse_unfinished_copy() const {
    if (options_.unfinished_copy == UnfinishedCopy::opened) return {};
    const auto mark = read_copy_mark(options_.directory);
    if (mark && !*mark) return {};
    return fail(OpenError{OpenError::Kind::not_ours, mark ? fmt::format("the store in {} cannot be used: {}",
                                                                        options_.directory, unfinished_copy(**mark))
                                                          : mark.error().detail});
}

Result<void, OpenError> SqliteStore::refuse_other_file() const {
    using enum OpenError::Kind;
    const std::string path = database_path(options_.directory);
    struct stat found{};
    if (::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return {};
    // Each name would have a log of its own.
    if (found.st_nlink > 1) {
        return fail(OpenError{not_ours, fmt::format("{} has {} names (hard links), and another server may be using it "
                                                    "under another one; copy it with cp and use the copy",
                                                    path, found.st_nlink)});
    }
    if (files_ && !files_->database().is(found)) {
        return fail(OpenError{not_ours, fmt::format("{} was replaced while the server runs; put it back, or stop the "
                                                    "server and start it again to use the new file",
                                                    path)});
    }
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
    files_.reset();
    lock_.let_go();
}

int SqliteStore::Connection::get_ready(std::size_t checkpoint_pages) {
    checkpoint_every_pages = checkpoint_at_pages = checkpoint_pages;
    const auto count_pages = [](void* self, sqlite3*, const char*, int pages) {
        auto& connection = *static_cast<Connection*>(self);
        const auto now = static_cast<std::size_t>(pages);
        // Fewer than before: the log has been started anew.
        if (now < connection.wal_pages) connection.checkpoint_at_pages = connection.checkpoint_every_pages;
        connection.wal_pages = now;
        return SQLITE_OK;
    };
    sqlite3_wal_hook(db.get(), count_pages, this);

    int rc = SQLITE_OK;
    const auto one = [&](Statement& statement, const char* sql) {
        if (rc == SQLITE_OK) rc = prepare_into(statement, sql);
    };
    one(begin, "begin");
    one(begin_immediate, "begin immediate");
    one(commit, "commit");
    one(rollback, "rollback");
    boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, core::AllRows>>([&](auto kind) {
        using Row = typename decltype(kind)::type;
        if (rc == SQLITE_OK) rc = BatchTable<Row>::add_to(db.get(), of<Row>().batch);
    });
    return rc;
}

template <class Row>
int SqliteStore::Connection::ready_to_put() {
    constexpr bool all_new = Row::life == core::Life::appended || rises<Row>;
    Statement& put = of<Row>().put;
    return put ? SQLITE_OK : prepare_into(put, put_rows_sql(shape_of<Row>(), all_new));
}

template <class Row>
int SqliteStore::Connection::ready_to_update() {
    Statement& update = of<Row>().update;
    return update ? SQLITE_OK : prepare_into(update, update_row_sql(shape_of<Row>()));
}

template <class Row>
int SqliteStore::Connection::ready_to_erase() {
    Statement& erase = of<Row>().erase;
    if (erase) return SQLITE_OK;
    return prepare_into(erase, fmt::format("delete from {} {}", Row::table, where_key(shape_of<Row>())));
}

template <class Row>
int SqliteStore::Connection::ready_to_load() {
    Statement& load = of<Row>().load;
    if (load) return SQLITE_OK;
    return prepare_into(load, select_rows(shape_of<Row>()) + where_key(shape_of<Row>()));
}

int SqliteStore::Connection::prepare_into(Statement& statement, const std::string& sql) {
    statement = prepare(db.get(), sql);
    return statement ? SQLITE_OK : sqlite3_errcode(db.get());
}

// ---- the rest -----------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Snapshot>, ReadError> SqliteStore::snapshot() {
    auto opened = open_snapshot(options_.directory, options_.vfs);
    if (!opened) return fail(ReadError{opened.error().detail});
    return std::move(*opened);
}

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
