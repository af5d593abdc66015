#include "store/postgres_store.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "store/key_order.h"
#include "store/ledger_sum.h"
#include "store/postgres_repair.h"
#include "store/postgres_statements.h"

namespace interlock::store {
namespace {

constexpr std::string_view division_by_zero = "22012";

// A lane that is not ours divides by zero.
std::string without_lane(const PostgresError& error) {
    return error.state == division_by_zero ? "another node writes this org now" : error.detail;
}

const PostgresStatement& begin_statement() {
    static const PostgresStatement statement{"begin"};
    return statement;
}
const PostgresStatement& commit_statement() {
    static const PostgresStatement statement{"commit"};
    return statement;
}

template <class Row>
void add_writes(core::OrgId org, const RowWrites<Row>& writes, std::vector<PostgresRequest>& requests) {
    // What goes makes room first: a place that changes hands is erased and claimed in one commit.
    if (!writes.erased.empty()) {
        std::vector<Row> rows;
        std::vector<const Row*> pointers;
        for (const core::KeyOf<Row>& key : writes.erased) rows.push_back(core::with_key<Row>(key));
        for (const Row& row : rows) pointers.push_back(&row);
        PostgresRequest& request = requests.emplace_back(&erase_rows<Row>());
        request.parameters.integer(org.value);
        add_keys<Row>(request.parameters, pointers);
    }
    if (writes.put.empty()) return;
    KeyOrder<Row> order;
    const std::span<const Row* const> ordered = order.of(writes.put);
    const auto add_put = [&](const PostgresStatement& statement, std::span<const Row* const> rows,
                             WantedColumn wanted) {
        PostgresRequest& request = requests.emplace_back(&statement);
        request.parameters.integer(org.value);
        add_columns<Row>(request.parameters, rows, wanted);
    };
    if constexpr (std::is_same_v<Row, core::CostEvent>) {
        using enum LedgerTable;
        add_put(put_into_ledger<plain>(), ordered, is_column_of<plain>);
        std::vector<const Row*> with_details;
        std::ranges::copy_if(ordered, std::back_inserter(with_details),
                             [](const Row* event) { return has_details(*event); });
        if (with_details.empty()) return;
        add_put(put_into_ledger<details>(), with_details, is_column_of<details>);
    } else {
        add_put(put_rows<Row>(), ordered, any_column);
    }
}

}  // namespace

// ---- commit -------------------------------------------------------------------------------------------------------

Result<void, CommitError> PostgresStore::commit(const WriteSet& writes) {
    using enum CommitError::Kind;
    if (!open_) return fail(CommitError{rolled_back, closed().detail});
    read_ = {};
    if (writes.orgs.empty()) return prove_lane();

    // 1. Put the pipeline together. Its proofs come first, so that a writer that was replaced waits for nothing else.
    std::vector<PostgresRequest> requests;
    requests.emplace_back(&begin_statement());
    for (const OrgWrites& of_org : writes.orgs) {
        if (options_.org && of_org.org != *options_.org) {
            return fail(fail_commit(rolled_back, fmt::format("org {} is not this store's", of_org.org.value)));
        }
        add_proof(of_org.org, requests);
    }
    const std::size_t lanes_end = requests.size();
    for (const OrgWrites& of_org : writes.orgs) add_proof_of_chain(of_org, requests);
    const std::size_t chains_end = requests.size();
    for (const OrgWrites& of_org : writes.orgs) {
        boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, core::AllRows>>([&](auto kind) {
            using Row = typename decltype(kind)::type;
            add_writes<Row>(of_org.org, of_org.of<Row>(), requests);
        });
    }
    requests.emplace_back(&commit_statement());

    // 2. Without a connection nothing was sent.
    auto connection = options_.pool->lend();
    if (!connection) return fail(fail_commit(rolled_back, connection.error().detail));

    // 3. The journey. What the server refuses, it refuses whole: it skips all that follows, the COMMIT too, or could
    //    not carry the COMMIT out. Where its answer is missing, nobody knows.
    const auto answers = (*connection)->exchange(requests, options_.pool->server().exchange_timeout);
    if (!answers) {
        const PostgresError& error = answers.error();
        if (!error.refused) return fail(fail_commit(unknown, error.detail));
        if (error.at < lanes_end) return fail(fail_commit(rolled_back, without_lane(error)));
        const bool forgot = error.at < chains_end && error.state == division_by_zero;
        return fail(fail_commit(rolled_back, forgot ? "the database does not have the commit before this one, or has a "
                                                      "later one; what it has is read again"
                                                    : error.detail));
    }
    if (std::strcmp(PQcmdStatus(answers->back().get()), "COMMIT") != 0) {
        return fail(fail_commit(rolled_back, "the server rolled the transaction back"));
    }
    // A wait for a synchronous standby that somebody ended is a COMMIT that only one machine knows of.
    if (!(*connection)->warning().empty()) return fail(fail_commit(unknown, (*connection)->warning()));
    for (const OrgWrites& of_org : writes.orgs) epochs_.try_emplace(of_org.org, 1);
    return {};
}

// What was decided without writing was decided on rows that nobody else has changed.
Result<void, CommitError> PostgresStore::prove_lane() {
    std::vector<PostgresRequest> requests;
    add_look_at_lane(requests);
    if (requests.empty()) return {};
    auto connection = options_.pool->lend();
    if (!connection) return fail(fail_commit(CommitError::Kind::rolled_back, connection.error().detail));
    const auto answers = (*connection)->exchange(requests, options_.pool->server().exchange_timeout);
    if (answers) return {};
    return fail(fail_commit(CommitError::Kind::rolled_back, without_lane(answers.error())));
}

// Fails unless the lane is ours at this moment. Comes last among reads: nobody else has written before them, then. A
// writer that was replaced would otherwise mix what it remembers with what its successor wrote.
void PostgresStore::add_look_at_lane(std::vector<PostgresRequest>& requests) const {
    static const PostgresStatement look{"select 1 / count(*) from lanes where org = $1::bigint and epoch = $2::bigint"};
    if (!options_.org) return;
    requests.emplace_back(&look).parameters.integer(options_.org->value).integer(options_.from_epoch);
}

// Fails unless the lane is ours, and keeps it until the end of the transaction. An org that came to be while the store
// was open has no lane yet.
void PostgresStore::add_proof(core::OrgId org, std::vector<PostgresRequest>& requests) const {
    static const PostgresStatement prove{
        "select 1 / count(*) from (select 1 from lanes where org = $1::bigint and epoch = $2::bigint for update) as "
        "mine"};
    static const PostgresStatement found{
        fmt::format("insert into lanes values ($1::bigint, 1, $2::bytea, $3::bytea, {})", store_time)};
    if (const auto epoch = epochs_.find(org); epoch != epochs_.end()) {
        requests.emplace_back(&prove).parameters.integer(org.value).integer(epoch->second);
    } else {
        requests.emplace_back(&found).parameters.integer(org.value).id(options_.node).id(options_.boot);
    }
}

// Fails unless the org's last seal is the one that the writes were decided on. A database that lost commits in a
// failover still has the lane: the state in memory, which has these commits, must not be written on top of it.
void PostgresStore::add_proof_of_chain(const OrgWrites& writes, std::vector<PostgresRequest>& requests) const {
    static const PostgresStatement prove{
        "select 1 / count(*) from (select greatest((select seal_number from feed_pages where org = $1::bigint order by "
        "last_seq desc limit 1), (select max(number) from seals where org = $1::bigint), 0) as number) as last where "
        "last.number = $2::bigint"};
    if (!writes.follows) return;
    requests.emplace_back(&prove).parameters.integer(writes.org.value).integer(*writes.follows);
}

Result<void, CommitError> PostgresStore::repair(const std::vector<Repair>& repairs) {
    if (!open_) return fail(CommitError{CommitError::Kind::rolled_back, closed().detail});
    read_ = {};
    std::vector<PostgresRequest> proofs;
    for (const auto& [org, epoch] : epochs_) add_proof(org, proofs);
    const auto done = carry_out(options_.pool->server(), proofs, repairs);
    if (!done) return fail(fail_commit(done.error().kind, done.error().detail));
    return {};
}

CommitError PostgresStore::fail_commit(CommitError::Kind kind, std::string detail) {
    open_ = false;
    why_closed_ = detail;
    return {kind, std::move(detail)};
}

// ---- reading ------------------------------------------------------------------------------------------------------

bool PostgresStore::load(core::OrgId org, core::ColdRow& row) {
    return std::visit(
        [&]<class Row>(Row& wanted) {
            Read<Row>& read = std::get<Read<Row>>(read_);
            const std::pair key(org, core::key_of(wanted));
            auto found = read.find(key);
            if (found == read.end()) {
                if (!fetch(org, {row})) return false;
                found = read.find(key);
            }
            if (!found->second) return false;
            wanted = *found->second;
            return true;
        },
        row);
}

void PostgresStore::prefetch(core::OrgId org, std::vector<core::ColdRow> rows) {
    std::erase_if(rows, [&](const core::ColdRow& row) {
        return std::visit(
            [&]<class Row>(const Row& wanted) {
                return std::get<Read<Row>>(read_).contains(std::pair(org, core::key_of(wanted)));
            },
            row);
    });
    if (!rows.empty()) fetch(org, rows);
}

namespace {

// The rows of one kind among many.
template <class Row>
std::vector<const Row*> rows_of(const std::vector<core::ColdRow>& rows) {
    std::vector<const Row*> found;
    for (const core::ColdRow& row : rows) {
        if (const Row* one = std::get_if<Row>(&row)) found.push_back(one);
    }
    return found;
}

template <class Visit>
void for_each_cold_kind(Visit visit) {
    boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, core::ColdRow::Kinds>>(visit);
}
template <class Visit>
void for_each_live_kind(Visit visit) {
    boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, LiveRow>>(visit);
}

}  // namespace

// Asks for all of them at once and remembers what is there and what is not. False when there was no answer.
bool PostgresStore::fetch(core::OrgId org, const std::vector<core::ColdRow>& rows) {
    if (!open_) {
        failed_ = true;
        return false;
    }
    std::vector<PostgresRequest> requests;
    for_each_cold_kind([&](auto kind) {
        using Row = typename decltype(kind)::type;
        const std::vector<const Row*> wanted = rows_of<Row>(rows);
        if (wanted.empty()) return;
        for (const Row* row : wanted) std::get<Read<Row>>(read_)[{org, core::key_of(*row)}].reset();
        PostgresRequest& request = requests.emplace_back(&find_rows<Row>());
        request.parameters.integer(org.value);
        add_keys<Row>(request.parameters, wanted);
    });
    add_look_at_lane(requests);

    auto connection = options_.pool->lend();
    if (!connection) return fail_read(connection.error().detail), false;
    const auto answers = (*connection)->exchange(requests, options_.pool->server().exchange_timeout);
    if (!answers) return fail_read(without_lane(answers.error())), false;

    std::string why;
    std::vector<Value> values;
    for_each_cold_kind([&](auto kind) {
        using Row = typename decltype(kind)::type;
        for (std::size_t i = 0; i < requests.size(); ++i) {
            if (requests[i].statement != &find_rows<Row>()) continue;
            const PGresult& found = *(*answers)[i];
            for (int at = 0; at < PQntuples(&found); ++at) {
                core::OrgId of;
                Row row;
                if (!read_row(found, at, values, of, row)) why = unreadable_row(Row::table).detail;
                std::get<Read<Row>>(read_)[{org, core::key_of(row)}] = std::move(row);
            }
        }
    });
    if (!why.empty()) fail_read(std::move(why));
    return open_;
}

void PostgresStore::fail_read(std::string detail) {
    open_ = false;
    failed_ = true;
    why_closed_ = std::move(detail);
    read_ = {};
}

namespace {

// Members that the scope does not state are empty and agree with everything. Where tags are asked for, each set of
// tags is a sum of its own, and which of them count is decided here. Amounts are never negative, so a sum that does
// not fit is one that is past the greatest number.
constexpr const char* sum_sql =
    "select {tags}, least(sum(cost), 9223372036854775807)::bigint, least(sum(calls), 9223372036854775807)::bigint, "
    "least(sum(input_tokens), 9223372036854775807)::bigint, least(sum(output_tokens), 9223372036854775807)::bigint, "
    "least(sum(cache_read_tokens), 9223372036854775807)::bigint, "
    "least(sum(cache_write_5m_tokens), 9223372036854775807)::bigint, "
    "least(sum(cache_write_1h_tokens), 9223372036854775807)::bigint, "
    "least(sum(reasoning_tokens), 9223372036854775807)::bigint from {table} "
    "where org = $1::bigint and {time} >= $2::bigint and {time} < $3::bigint and ($4::text = '' or agent = $4) "
    "and ($5::text = '' or provider = $5) and ($6::text = '' or model = $6){finer} group by 1";

constexpr const char* finer_scope_sql =
    " and ($7::text = '' or workflow = $7) and ($8::text = '' or api_key = $8) "
    "and ($9::bytea = '' or run = $9) and ($10::bytea = '' or session = $10)";
constexpr const char* tags_if_asked = "case when $11::bigint = 1 then tags else '{}' end";

PostgresParameters coarse_scope(core::OrgId org, const core::Scope& scope, std::int64_t from, std::int64_t to) {
    PostgresParameters parameters;
    parameters.integer(org.value).integer(from).integer(to);
    parameters.text(scope.agent).text(scope.provider).text(scope.model);
    return parameters;
}
PostgresParameters whole_scope(core::OrgId org, const core::Scope& scope, WindowSpan span) {
    PostgresParameters parameters = coarse_scope(org, scope, micros(span.start), micros(span.end));
    parameters.text(scope.workflow).text(scope.api_key);
    for (const Id id : {scope.run.value, scope.session.value}) id.empty() ? parameters.bytes("") : parameters.id(id);
    parameters.integer(scope.tags.empty() ? 0 : 1);
    return parameters;
}

PostgresRequest sum_request(core::OrgId org, const core::Scope& scope, WindowSpan span) {
    using fmt::arg;
    static const PostgresStatement by_day{
        fmt::format(sum_sql, arg("table", "rollups"), arg("time", "day"), arg("finer", ""), arg("tags", "'{}'::text"))};
    static const PostgresStatement by_event{fmt::format(sum_sql, arg("table", "cost_events"), arg("time", "counted_at"),
                                                        arg("finer", finer_scope_sql), arg("tags", tags_if_asked))};
    if (!rollups_suffice(scope, span)) return {&by_event, whole_scope(org, scope, span)};
    return {&by_day, coarse_scope(org, scope, utc_day(span.start), utc_day(span.end))};
}

PostgresRequest runs_request(core::OrgId org, const core::Scope& scope, WindowSpan span) {
    static const PostgresStatement statement{
        fmt::format("select {}, count(*) from runs where org = $1::bigint and admitted_at > 0 and "
                    "admitted_at >= $2::bigint and admitted_at < $3::bigint and ($4::text = '' or agent = $4) "
                    "and ($5::text = '' or provider = $5) and ($6::text = '' or model = $6){} group by 1",
                    tags_if_asked, finer_scope_sql)};
    return {&statement, whole_scope(org, scope, span)};
}

// Hands over the numbers of each row whose tags, in the first column, agree. False when a row makes no sense.
template <class Visit>
bool each_agreeing(const PGresult& sums, const core::Scope& scope, Visit visit) {
    for (int row = 0; row < PQntuples(&sums); ++row) {
        Value value;
        core::Tags tags;
        if (!read_value(sums, row, 0, value) || !read_value(value, tags)) return false;
        std::vector<std::int64_t> numbers(static_cast<std::size_t>(PQnfields(&sums)) - 1);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            if (!read_value(sums, row, static_cast<int>(i) + 1, value) || !read_value(value, numbers[i])) return false;
        }
        if (includes_tags(tags, scope.tags)) visit(numbers);
    }
    return true;
}

}  // namespace

core::Amounts PostgresStore::sum(core::OrgId org, const core::Scope& scope, WindowSpan span) {
    if (!open_) {
        failed_ = true;
        return {};
    }
    auto connection = options_.pool->lend();
    if (!connection) return fail_read(connection.error().detail), core::Amounts();
    std::vector<PostgresRequest> requests{sum_request(org, scope, span), runs_request(org, scope, span)};
    add_look_at_lane(requests);
    const auto answers = (*connection)->exchange(requests, options_.pool->server().scan_timeout);
    if (!answers) return fail_read(without_lane(answers.error())), core::Amounts();

    core::Amounts sum;
    const bool good =
        each_agreeing(*(*answers)[0], scope,
                      [&](const std::vector<std::int64_t>& n) {
                          add_up(sum, n[0], n[1], {n[2], n[3], n[4], n[5], n[6], n[7]});
                      }) &&
        each_agreeing(*(*answers)[1], scope, [&](const std::vector<std::int64_t>& n) { add_up(sum.runs, n[0]); });
    if (good) return sum;
    fail_read("a sum makes no sense");
    return {};
}

std::vector<core::OpenSessions> PostgresStore::open_sessions(core::OrgId org) {
    static const PostgresStatement statement{
        "select agent, api_key, count(*) from sessions where closed = 0 and org = $1::bigint group by agent, api_key"};
    if (!open_) {
        failed_ = true;
        return {};
    }
    auto connection = options_.pool->lend();
    if (!connection) return fail_read(connection.error().detail), std::vector<core::OpenSessions>();
    std::vector<PostgresRequest> requests{{&statement}};
    requests.front().parameters.integer(org.value);
    add_look_at_lane(requests);
    const auto answers = (*connection)->exchange(requests, options_.pool->server().scan_timeout);
    if (!answers) return fail_read(without_lane(answers.error())), std::vector<core::OpenSessions>();

    std::vector<core::OpenSessions> found;
    const PGresult& rows = *(*answers)[0];
    for (int row = 0; row < PQntuples(&rows); ++row) {
        core::OpenSessions open;
        Value agent, api_key, count;
        const bool good = read_value(rows, row, 0, agent) && read_value(agent, open.agent) &&
                          read_value(rows, row, 1, api_key) && read_value(api_key, open.api_key) &&
                          read_value(rows, row, 2, count) && read_value(count, open.count);
        if (!good) return fail_read("a count of sessions makes no sense"), std::vector<core::OpenSessions>();
        found.push_back(std::move(open));
    }
    return found;
}

Result<void, ReadError> PostgresStore::load_live(const OnLiveRow& on_row) {
    static const PostgresStatement begin{"begin isolation level repeatable read read only"};
    if (!open_) return fail(closed());
    std::vector<PostgresRequest> requests{{&begin}};
    for_each_live_kind([&](auto kind) {
        using Row = typename decltype(kind)::type;
        if (options_.org) {
            requests.emplace_back(&live_rows<Row, OfOrgs::one>()).parameters.integer(options_.org->value);
        } else {
            requests.emplace_back(&live_rows<Row, OfOrgs::all>());
        }
    });
    requests.emplace_back(&commit_statement());
    add_look_at_lane(requests);
    auto connection = options_.pool->lend();
    if (!connection) return fail_read(connection.error().detail), fail(closed());
    const auto answers = (*connection)->exchange(requests, options_.pool->server().scan_timeout);
    if (!answers) return fail_read(without_lane(answers.error())), fail(closed());

    std::string why;
    std::vector<Value> values;
    std::size_t next = 1;
    for_each_live_kind([&](auto kind) {
        using Row = typename decltype(kind)::type;
        const PGresult& found = *(*answers)[next++];
        for (int at = 0; at < PQntuples(&found) && why.empty(); ++at) {
            core::OrgId org;
            Row row;
            if (read_row(found, at, values, org, row)) {
                on_row(org, std::move(row));
            } else {
                why = unreadable_row(Row::table).detail;
            }
        }
    });
    if (why.empty()) return {};
    return fail_read(std::move(why)), fail(closed());
}

namespace {

// Keys that are hashes lie among those that begin with the time. Past so many of them the search ends, and what it has
// come down to is a bound instead of the newest key itself.
std::string newest_key_sql(std::string_view table, std::string_view of_orgs) {
    return fmt::format(
        "select coalesce((select key from (select key from {0} where {0}.org = orgs.org and key < $1::bytea "
        "order by key desc limit 100000) as looked_at where get_byte(key, 6) >> 4 = 7 limit 1), "
        "(select key from {0} where {0}.org = orgs.org and key < $1 order by key desc offset 100000 limit 1)) "
        "from orgs where {1}",
        table, of_orgs);
}

std::vector<PostgresRequest> newest_key_requests(std::optional<core::OrgId> org) {
    static const std::vector<PostgresStatement> of_all{{newest_key_sql("ledger", "org >= 0")},
                                                       {newest_key_sql("answers", "org >= 0")}};
    static const std::vector<PostgresStatement> of_one{{newest_key_sql("ledger", "org = $2::bigint")},
                                                       {newest_key_sql("answers", "org = $2::bigint")}};
    std::vector<PostgresRequest> requests;
    for (const PostgresStatement& statement : org ? of_one : of_all) {
        PostgresParameters& parameters = requests.emplace_back(&statement).parameters;
        parameters.id(time_ordered_end);
        if (org) parameters.integer(org->value);
    }
    return requests;
}

}  // namespace

Result<Id, ReadError> PostgresStore::newest_key() {
    if (!open_) return fail(closed());
    auto connection = options_.pool->lend();
    if (!connection) return fail_read(connection.error().detail), fail(closed());
    std::vector<PostgresRequest> requests = newest_key_requests(options_.org);
    const std::size_t questions = requests.size();
    add_look_at_lane(requests);
    const auto answers = (*connection)->exchange(requests, options_.pool->server().scan_timeout);
    if (!answers) return fail_read(without_lane(answers.error())), fail(closed());
    core::CommandKey newest;
    for (const PostgresResult& answer : std::span(*answers).first(questions)) {
        for (int row = 0; row < PQntuples(answer.get()); ++row) {
            Value value;
            core::CommandKey key;
            if (!read_value(*answer, row, 0, value) || !read_value(value, key)) {
                return fail_read("a key makes no sense"), fail(closed());
            }
            newest = std::max(newest, key);
        }
    }
    return newest.value;
}

// ---- opening and closing ------------------------------------------------------------------------------------------

PostgresStore::PostgresStore(Options options) : options_(std::move(options)) {
    if (!options_.pool) {
        options_.pool = std::make_shared<PostgresPool>(PostgresPool::Options{.server = options_.server});
    }
}
PostgresStore::~PostgresStore() { close(); }

Result<void, OpenError> PostgresStore::open() {
    if (open_) return {};
    const auto give_up_at = std::chrono::steady_clock::now() + options_.pool->server().exchange_timeout;
    while (true) {
        auto connection = options_.pool->lend();
        if (!connection) return fail(connection.error());
        bool locked = false;
        auto taken =
            options_.org ? take_lane(*connection->operator->(), locked) : take_every_lane(*connection->operator->());
        if (taken) break;
        if (!locked || std::chrono::steady_clock::now() > give_up_at) return taken;
        end_stuck_writers();
    }
    open_ = true;
    failed_ = false;
    read_ = {};
    return {};
}

namespace {

OpenError not_open(const PostgresError& error) {
    return {OpenError::Kind::unavailable, "the lane could not be taken: " + error.detail};
}

std::int64_t number(const PGresult& result, int row, int column) {
    Value value;
    const bool good = read_value(result, row, column, value) && std::holds_alternative<std::int64_t>(value);
    return good ? std::get<std::int64_t>(value) : 0;
}

}  // namespace

// Whether the lane was taken is only believed when the server has said COMMIT and nothing else. A try of which that is
// not known is repeated by the next open(), which finds the lane as it was, or with our boot.
// A commit is sent in one piece. A backend in the middle of one that has waited for its client for a second waits for a
// process that is frozen or cut off, and keeps the lane locked for as long. Ended, its transaction is rolled back; one
// that has reached its COMMIT does not wait for its client, and is left alone.
void PostgresStore::end_stuck_writers() {
    static const PostgresStatement end{
        "select pg_terminate_backend(pid) from pg_stat_activity join pg_locks using (pid) where relation = "
        "'lanes'::regclass and granted and wait_event = 'ClientRead' and pid <> pg_backend_pid() and xact_start < "
        "clock_timestamp() - interval '1 second'"};
    auto connection = options_.pool->lend();
    if (connection) (void)(*connection)->exchange({{&end}}, options_.pool->server().exchange_timeout);
}

// `locked`: somebody else's transaction has kept the lane for longer than a commit takes.
Result<void, OpenError> PostgresStore::take_lane(PostgresConnection& connection, bool& locked) {
    constexpr std::string_view lock_not_available = "55P03";
    static const PostgresStatement wait_not_long{"set local lock_timeout = 1500"};
    static const PostgresStatement take{fmt::format(
        "insert into lanes as lane values ($1::bigint, $2::bigint + 1, $3::bytea, $4::bytea, {}) on conflict (org) do "
        "update set epoch = lane.epoch + 1, node = excluded.node, boot = excluded.boot, taken_at = excluded.taken_at "
        "where lane.epoch = $2 or lane.boot = $4 returning epoch",
        store_time)};
    static const PostgresStatement look{"select epoch from lanes where org = $1::bigint"};
    std::vector<PostgresRequest> requests{
        {&begin_statement()}, {&wait_not_long}, {&take}, {&look}, {&commit_statement()}};
    requests[2].parameters.integer(options_.org->value).integer(options_.from_epoch);
    requests[2].parameters.id(options_.node).id(options_.boot);
    requests[3].parameters.integer(options_.org->value);
    const auto answers = connection.exchange(requests, options_.pool->server().exchange_timeout);
    locked = !answers && answers.error().state == lock_not_available;
    if (!answers) return fail(not_open(answers.error()));
    if (!connection.warning().empty()) return fail(not_open({.detail = connection.warning()}));
    if (PQntuples((*answers)[2].get()) == 0) {
        return fail(OpenError{OpenError::Kind::in_use,
                              fmt::format("another node has taken org {} (epoch {}, expected {})", options_.org->value,
                                          number(*(*answers)[3], 0, 0), options_.from_epoch)});
    }
    options_.from_epoch = number(*(*answers)[2], 0, 0);
    epochs_ = {{*options_.org, options_.from_epoch}};
    return {};
}

// From whoever has them, unless it is alive.
Result<void, OpenError> PostgresStore::take_every_lane(PostgresConnection& connection) {
    static const std::string held_by_others = fmt::format(
        "boot <> $1::bytea and exists (select 1 from nodes where nodes.boot = lanes.boot and lease_until > {})",
        store_time);
    static const PostgresStatement make{
        "insert into lanes select org, 0, null, null, 0 from orgs where org >= 0 order by org on conflict do nothing"};
    static const PostgresStatement check{
        fmt::format("select 1 / (1 - count(*)) from (select 1 from lanes where {} limit 1) as held", held_by_others)};
    static const PostgresStatement take{fmt::format(
        "update lanes set epoch = epoch + 1, boot = $1::bytea, node = $2::bytea, taken_at = {} returning org, epoch",
        store_time)};
    std::vector<PostgresRequest> requests{{&begin_statement()}, {&make}, {&check}, {&take}, {&commit_statement()}};
    requests[2].parameters.id(options_.boot);
    requests[3].parameters.id(options_.boot).id(options_.node);
    const auto answers = connection.exchange(requests, options_.pool->server().exchange_timeout);
    if (!answers && answers.error().refused && answers.error().at == 2) {
        return fail(OpenError{OpenError::Kind::in_use, "another node is alive and has lanes of this database"});
    }
    if (!answers) return fail(not_open(answers.error()));
    if (!connection.warning().empty()) return fail(not_open({.detail = connection.warning()}));
    epochs_.clear();
    const PGresult& taken = *(*answers)[3];
    for (int row = 0; row < PQntuples(&taken); ++row) {
        epochs_[core::OrgId(static_cast<std::uint32_t>(number(taken, row, 0)))] = number(taken, row, 1);
    }
    return {};
}

void PostgresStore::close() {
    static const PostgresStatement give_back{
        "update lanes set node = null, boot = null where org = $1::bigint and epoch = $2::bigint"};
    // After an error the server may be out of reach; then the lease of this node says that the lanes are free.
    if (std::exchange(open_, false)) {
        std::vector<PostgresRequest> requests;
        for (const auto& [org, epoch] : epochs_) {
            requests.emplace_back(&give_back).parameters.integer(org.value).integer(epoch);
        }
        if (auto connection = options_.pool->lend()) {
            [[maybe_unused]] const auto done =
                (*connection)->exchange(requests, options_.pool->server().connect_timeout);
        }
    }
    read_ = {};
    why_closed_ = "it was closed";
}

Result<std::unique_ptr<Snapshot>, ReadError> PostgresStore::snapshot() {
    auto opened = open_snapshot(options_.pool->server());
    if (!opened) return fail(ReadError{opened.error().detail});
    return std::move(*opened);
}

}  // namespace interlock::store
