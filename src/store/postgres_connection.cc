#include "store/postgres_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>

#include <fmt/format.h>

#include "store/column_values.h"
#include "store/postgres_text.h"

namespace interlock::store {
namespace {

constexpr int binary = 1;

std::string trimmed(const char* text) {
    std::string all = text == nullptr ? "" : text;
    while (!all.empty() && (all.back() == '\n' || all.back() == ' ')) all.pop_back();
    return all;
}

const PostgresStatement& deallocate_all() {
    static const PostgresStatement statement{"deallocate all"};
    return statement;
}

}  // namespace

// ---- exchanges ----------------------------------------------------------------------------------------------------

Result<std::vector<PostgresResult>, PostgresError> PostgresConnection::exchange(
    const std::vector<PostgresRequest>& requests, std::chrono::milliseconds timeout) {
    return exchange(requests, timeout, nullptr);
}

Result<std::vector<PostgresResult>, PostgresError> PostgresConnection::exchange(
    const std::vector<PostgresRequest>& requests, std::chrono::milliseconds timeout, const OnRow& on_row) {
    // 1. Send. What does not fit into the system's buffers goes out while answers come in.
    std::size_t owed = due_.size();
    warning_.clear();
    if (auto sent = send(requests); !sent) return fail(sent.error());

    // 2. Take the answers, in order; those of an earlier send() first. Each ends with a null, but for the last.
    std::vector<PostgresResult> results;
    auto deadline = Clock::now() + timeout;
    for (const Due& due : std::exchange(due_, {})) {
        const bool ours = owed == 0;
        if (!ours) --owed;
        const bool last = ours && due.kind == Due::Kind::request && due.request + 1 == requests.size();
        const bool row_by_row = last && on_row;
        if (row_by_row && PQsetSingleRowMode(connection_.get()) == 0) {
            return fail(lost(due.request, "the rows cannot be had one by one"));
        }
        PostgresResult answer;
        for (;;) {
            auto result = next_result(deadline, due.request);
            if (!result) return fail(result.error());
            if (*result == nullptr) break;
            const ExecStatusType status = PQresultStatus(result->get());
            if (status == PGRES_SINGLE_TUPLE) {
                on_row(**result);
                deadline = Clock::now() + timeout;
                continue;
            }
            if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_PIPELINE_SYNC) {
                return fail(broken(**result, due.request));
            }
            answer = std::move(*result);
            if (due.kind == Due::Kind::end) break;
        }
        if (ours && due.kind == Due::Kind::request) results.push_back(std::move(answer));
    }
    return results;
}

Result<void, PostgresError> PostgresConnection::send(const std::vector<PostgresRequest>& requests) {
    if (!connection_) return fail(lost(0, "the connection was closed"));
    if (std::exchange(forget_, false)) {
        prepared_.clear();
        if (PQsendQueryParams(connection_.get(), deallocate_all().sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr,
                              binary) == 0) {
            return fail(lost(0));
        }
        due_.push_back({Due::Kind::preparation});
        // It ends here: a "begin" that follows wants to be the first of its transaction.
        if (PQpipelineSync(connection_.get()) == 0) return fail(lost(0));
        due_.push_back({Due::Kind::end});
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
        if (!send_request(requests[i], i)) return fail(lost(i));
    }
    if (PQpipelineSync(connection_.get()) == 0) return fail(lost(requests.size()));
    due_.push_back({Due::Kind::end, requests.empty() ? 0 : requests.size() - 1});
    round_trips_.fetch_add(1, std::memory_order_relaxed);
    if (PQflush(connection_.get()) < 0) return fail(lost(0));
    return {};
}

bool PostgresConnection::send_request(const PostgresRequest& request, std::size_t index) {
    const PostgresStatement& statement = *request.statement;
    std::string& name = prepared_[&statement];
    if (name.empty()) {
        name = fmt::format("s{}", ++names_given_);
        if (PQsendPrepare(connection_.get(), name.c_str(), statement.sql.c_str(),
                          static_cast<int>(statement.types.size()),
                          statement.types.empty() ? nullptr : statement.types.data()) == 0) {
            return false;
        }
        due_.push_back({Due::Kind::preparation, index});
    }
    const std::vector<std::string>& values = request.parameters.values_;
    std::vector<const char*> pointers;
    std::vector<int> lengths;
    const std::vector<int> formats(values.size(), binary);
    for (const std::string& value : values) {
        pointers.push_back(value.data());
        lengths.push_back(static_cast<int>(value.size()));
    }
    due_.push_back({Due::Kind::request, index});
    return PQsendQueryPrepared(connection_.get(), name.c_str(), static_cast<int>(values.size()), pointers.data(),
                               lengths.data(), formats.data(), binary) != 0;
}

// Null at the end of an answer.
Result<PostgresResult, PostgresError> PostgresConnection::next_result(Clock::time_point deadline, std::size_t at) {
    for (;;) {
        const int unsent = PQflush(connection_.get());
        if (unsent < 0) return fail(lost(at));
        if (PQisBusy(connection_.get()) == 0) return PostgresResult(PQgetResult(connection_.get()));
        if (!wait_for_server(deadline, unsent > 0)) {
            return fail(lost(at, "the server did not answer in time"));
        }
        if (PQconsumeInput(connection_.get()) == 0) return fail(lost(at));
    }
}

bool PostgresConnection::wait_for_server(Clock::time_point deadline, bool to_write) {
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count() + 1;
        if (left <= 0) return false;
        pollfd polled{PQsocket(connection_.get()), static_cast<short>(POLLIN | (to_write ? POLLOUT : 0)), 0};
        const int ready = poll(&polled, 1, static_cast<int>(std::min<std::int64_t>(left, 1'000'000)));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return true;  // Reading tells what is wrong.
    }
}

// The words of the server, or of libpq when there are none. Only an ERROR leaves the transaction undone for certain:
// with anything worse the session ended, perhaps after a COMMIT.
PostgresError PostgresConnection::broken(const PGresult& result, std::size_t at) {
    const char* severity = PQresultErrorField(&result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char* state = PQresultErrorField(&result, PG_DIAG_SQLSTATE);
    const char* detail = PQresultErrorField(&result, PG_DIAG_MESSAGE_DETAIL);
    std::string why = trimmed(PQresultErrorField(&result, PG_DIAG_MESSAGE_PRIMARY));
    if (why.empty()) why = trimmed(PQresultErrorMessage(&result));
    if (detail != nullptr) why += " (" + trimmed(detail) + ")";
    PostgresError error = lost(at, std::move(why));
    error.refused = severity != nullptr && std::strcmp(severity, "ERROR") == 0;
    error.state = state == nullptr ? "" : state;
    return error;
}

PostgresError PostgresConnection::lost(std::size_t at, std::string why) {
    if (why.empty()) why = connection_ ? trimmed(PQerrorMessage(connection_.get())) : "there is no connection";
    connection_.reset();
    prepared_.clear();
    due_.clear();
    return {.refused = false, .at = at, .detail = std::move(why)};
}

void PostgresConnection::forget_statements() { forget_ = true; }

Result<void, PostgresError> PostgresConnection::execute(const std::string& sql, std::chrono::milliseconds timeout) {
    if (!connection_) return fail(lost(0, "the connection was closed"));
    if (PQexitPipelineMode(connection_.get()) == 0 || PQsendQuery(connection_.get(), sql.c_str()) == 0) {
        return fail(lost(0));
    }
    round_trips_.fetch_add(1, std::memory_order_relaxed);
    for (const auto deadline = Clock::now() + timeout;;) {
        auto result = next_result(deadline, 0);
        if (!result) return fail(result.error());
        if (*result == nullptr) break;
        const ExecStatusType status = PQresultStatus(result->get());
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) return fail(broken(**result, 0));
    }
    if (PQenterPipelineMode(connection_.get()) == 0) return fail(lost(0));
    return {};
}

Result<std::vector<std::string>, PostgresError> PostgresConnection::notifications(std::chrono::milliseconds timeout) {
    if (!connection_) return fail(lost(0, "the connection was closed"));
    std::vector<std::string> all;
    for (const auto deadline = Clock::now() + timeout;;) {
        if (PQconsumeInput(connection_.get()) == 0) return fail(lost(0));
        while (PGnotify* notification = PQnotifies(connection_.get())) {
            all.emplace_back(notification->extra);
            PQfreemem(notification);
        }
        if (!all.empty() || !wait_for_server(deadline, false)) return all;
    }
}

// ---- connecting ---------------------------------------------------------------------------------------------------

namespace {

OpenError no_connection(std::string detail) { return {OpenError::Kind::unavailable, std::move(detail)}; }

// Settings of the session, by name, where this version of the server has them. A backend whose client is gone must
// notice soon, because it may keep a lane locked.
constexpr const char* settings_sql =
    "select set_config(name, value, false) from (values ('statement_timeout', '0'), ('lock_timeout', '0'), "
    "('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'), ('transaction_timeout', '0'), "
    "('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'), "
    "('tcp_user_timeout', '10000'), ('jit', 'off'), ('default_transaction_isolation', 'read committed')) "
    "as wanted(name, value) join pg_settings using (name)";

// A plan is made once and kept. Made while a table was small, it must still be the right one when it has grown.
constexpr const char* lane_settings_sql =
    "select set_config(name, value, false) from (values ('plan_cache_mode', 'force_generic_plan'), "
    "('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off')) "
    "as wanted(name, value) join pg_settings using (name)";

constexpr const char* promises_sql =
    "select current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'), "
    "current_setting('server_encoding'), pg_is_in_recovery()::text, current_setting('transaction_read_only')";

std::string find_fault(const PGresult& promises) {
    const auto is = [&](int column, std::string_view value) { return PQgetvalue(&promises, 0, column) == value; };
    if (is(4, "true")) return "this is a standby, which takes no writes; name the primary";
    if (is(5, "on")) return "the server takes no writes (transaction_read_only is on); name one that does";
    if (is(0, "off")) return "synchronous_commit is off, so that a crash loses confirmed commits; turn it on";
    if (is(1, "off")) return "fsync is off, so that a power failure loses the database; turn it on";
    if (is(2, "off")) return "full_page_writes is off, so that a power failure tears pages; turn it on";
    if (!is(3, "UTF8")) return "the database's encoding is not UTF8; create one that has it";
    return "";
}

}  // namespace

Result<std::unique_ptr<PostgresConnection>, OpenError> PostgresConnection::connect(
    const PostgresOptions& options, Use use, std::atomic<std::int64_t>& round_trips) {
    // What the address states itself comes later and counts.
    const std::string seconds = std::to_string(
        std::max<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(options.connect_timeout).count(), 1));
    const std::array<std::pair<const char*, const char*>, 10> words{{
        {"connect_timeout", seconds.c_str()},
        {"application_name", "interlock"},
        {"keepalives", "1"},
        {"keepalives_idle", "5"},
        {"keepalives_interval", "2"},
        {"keepalives_count", "3"},
        {"tcp_user_timeout", "10000"},
        {"dbname", options.uri.c_str()},
        {"client_encoding", "UTF8"},
        {nullptr, nullptr},
    }};
    std::array<const char*, words.size()> names{};
    std::array<const char*, words.size()> values{};
    for (std::size_t i = 0; i < words.size(); ++i) std::tie(names[i], values[i]) = words[i];

    std::unique_ptr<PostgresConnection> self(new PostgresConnection(round_trips));
    self->primaries_ = options.primaries;
    if (options.primaries) self->made_under_ = *options.primaries;
    self->connection_.reset(PQconnectdbParams(names.data(), values.data(), 1));
    PGconn* connection = self->connection_.get();
    if (PQstatus(connection) != CONNECTION_OK) {
        return fail(
            no_connection(fmt::format("no connection to PostgreSQL: {}; is the server running, is the address "
                                      "right, and does the database exist?",
                                      trimmed(PQerrorMessage(connection)))));
    }
    if (auto ready = self->get_ready(options, use); !ready) return fail(ready.error());
    return self;
}

Result<void, OpenError> PostgresConnection::get_ready(const PostgresOptions& options, Use use) {
    PQsetNoticeReceiver(connection_.get(), on_notice, this);
    if (PQsetnonblocking(connection_.get(), 1) != 0 || PQenterPipelineMode(connection_.get()) == 0) {
        return fail(no_connection(lost(0).detail));
    }
    static const PostgresStatement settings{settings_sql};
    static const PostgresStatement lane_settings{lane_settings_sql};
    static const PostgresStatement promises{promises_sql};
    std::vector<PostgresRequest> requests{{&promises}, {&settings}};
    if (use == Use::lane) requests.push_back({&lane_settings});
    const auto answers = exchange(requests, options.connect_timeout);
    if (!answers) return fail(no_connection("PostgreSQL does not get ready: " + answers.error().detail));
    if (std::string fault = find_fault(*answers->front()); !fault.empty()) {
        return fail(no_connection("PostgreSQL is there, but " + fault));
    }
    return {};
}

void PostgresConnection::on_notice(void* self, const PGresult* notice) {
    const char* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity == nullptr || std::strcmp(severity, "WARNING") != 0) return;
    auto& connection = *static_cast<PostgresConnection*>(self);
    connection.warning_ = trimmed(PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY));
    if (connection.warning_.empty()) connection.warning_ = "a warning without words";
}

// ---- parameters ---------------------------------------------------------------------------------------------------

PostgresParameters& PostgresParameters::integer(std::int64_t value) {
    const std::uint64_t bits = __builtin_bswap64(static_cast<std::uint64_t>(value));
    values_.emplace_back(reinterpret_cast<const char*>(&bits), sizeof bits);
    return *this;
}
PostgresParameters& PostgresParameters::text(std::string_view value) {
    if (is_plain_text(value)) return bytes(value);
    append_escaped(values_.emplace_back(), value);
    return *this;
}
PostgresParameters& PostgresParameters::bytes(std::string_view value) {
    values_.emplace_back(value);
    return *this;
}
PostgresParameters& PostgresParameters::id(Id value) {
    Scratch scratch;
    return bytes(id_bytes(value, scratch));
}
PostgresParameters& PostgresParameters::array(std::string value) {
    values_.push_back(std::move(value));
    return *this;
}

}  // namespace interlock::store
