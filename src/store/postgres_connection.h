// A connection to PostgreSQL, and exchanges over it: many statements go out, then all answers come in. One journey.
//
//   (1) After anything went wrong the connection is closed: nobody goes on in a state that nobody knows.
//   (2) An exchange ends by its deadline. What was sent may be carried out all the same.
//   (3) The server never ends a statement by a timeout of its own: a COMMIT that is cancelled is a riddle.
//   (4) A server that may lose what it has confirmed, or that is a standby, is not connected to.
//
// Statements are prepared when a connection first meets them, in the same journey. Values go both ways in binary.
// For one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <libpq-fe.h>

#include "base/id.h"
#include "base/result.h"
#include "store/store.h"

namespace interlock::store {

struct PostgresOptions {
    std::string uri = "";
    std::chrono::milliseconds connect_timeout{3000};
    std::chrono::milliseconds exchange_timeout{30'000};
    std::chrono::milliseconds scan_timeout{600'000};  // Of what the store may have to read a whole org for.
    std::chrono::milliseconds read_timeout{60'000};   // Of a snapshot: how long it waits for the next row.
    // Raised when another server has become the primary: connections that were made before are used no more. A primary
    // that was replaced while it was frozen may wake up and answer on them. Shared by all copies; null: never.
    std::shared_ptr<std::atomic<std::int64_t>> primaries = nullptr;
};

// Known by its address, so it must outlive the connections that have prepared it.
// The time of the database, in microseconds.
inline constexpr const char* store_time = "(extract(epoch from clock_timestamp()) * 1000000)::bigint";

struct PostgresStatement {
    std::string sql;
    std::vector<Oid> types = {};  // Of the parameters; those that are left out are the server's to find out.
};

// The values of a statement's parameters.
class PostgresParameters {
 public:
    PostgresParameters& integer(std::int64_t value);
    PostgresParameters& text(std::string_view value);
    PostgresParameters& bytes(std::string_view value);
    PostgresParameters& id(Id value);
    PostgresParameters& array(std::string value);  // In PostgreSQL's own form, see postgres_columns.h.

 private:
    friend class PostgresConnection;
    std::vector<std::string> values_;
};

struct PostgresRequest {
    const PostgresStatement* statement;
    PostgresParameters parameters = {};
};

struct PostgresError {
    // True: the server refused the statement, and with it all that came after it in the exchange. False: what became of
    // the exchange is not known.
    bool refused = false;
    std::size_t at = 0;      // Which request.
    std::string state = "";  // The five characters of SQLSTATE, where the server said them.
    std::string detail = "";
};

struct ResultDeleter {
    void operator()(PGresult* result) const { PQclear(result); }
};
using PostgresResult = std::unique_ptr<PGresult, ResultDeleter>;

class PostgresConnection {
 public:
    enum class Use {
        lane,  // Finds rows by their keys, always in the same way.
        read,  // Answers any question.
    };

    // Each exchange is counted in `round_trips`, which must outlive the connection.
    static Result<std::unique_ptr<PostgresConnection>, OpenError> connect(const PostgresOptions& options, Use use,
                                                                          std::atomic<std::int64_t>& round_trips);

    // One journey. One result for each request, in their order.
    Result<std::vector<PostgresResult>, PostgresError> exchange(const std::vector<PostgresRequest>& requests,
                                                                std::chrono::milliseconds timeout);
    // The rows of the last request are handed over one by one as they come; the deadline begins anew with each.
    using OnRow = std::function<void(const PGresult&)>;
    Result<std::vector<PostgresResult>, PostgresError> exchange(const std::vector<PostgresRequest>& requests,
                                                                std::chrono::milliseconds timeout, const OnRow& on_row);
    // Sends, and leaves the answers to the next exchange.
    Result<void, PostgresError> send(const std::vector<PostgresRequest>& requests);
    // Several statements in one text, for migrations.
    Result<void, PostgresError> execute(const std::string& sql, std::chrono::milliseconds timeout);
    // Prepared statements are dropped with the next exchange.
    void forget_statements();

    // Hands over what the server has announced on the channels listened to, waiting for the first one.
    Result<std::vector<std::string>, PostgresError> notifications(std::chrono::milliseconds timeout);

    bool usable() const { return connection_ != nullptr && (!primaries_ || *primaries_ == made_under_); }
    // What the server warned of during the last exchange; empty: of nothing.
    const std::string& warning() const { return warning_; }

 private:
    using Clock = std::chrono::steady_clock;
    // An answer that is on its way.
    struct Due {
        enum class Kind { preparation, request, end } kind;
        std::size_t request = 0;
    };

    struct ConnectionDeleter {
        void operator()(PGconn* connection) const { PQfinish(connection); }
    };

    explicit PostgresConnection(std::atomic<std::int64_t>& round_trips) : round_trips_(round_trips) {}
    Result<void, OpenError> get_ready(const PostgresOptions& options, Use use);
    bool send_request(const PostgresRequest& request, std::size_t index);
    Result<PostgresResult, PostgresError> next_result(Clock::time_point deadline, std::size_t at);
    PostgresError lost(std::size_t at, std::string why = "");
    PostgresError broken(const PGresult& result, std::size_t at);
    bool wait_for_server(Clock::time_point deadline, bool to_write);
    static void on_notice(void* self, const PGresult* notice);

    std::unique_ptr<PGconn, ConnectionDeleter> connection_;  // Null: closed.
    std::shared_ptr<const std::atomic<std::int64_t>> primaries_;
    std::int64_t made_under_ = 0;
    std::atomic<std::int64_t>& round_trips_;
    std::unordered_map<const PostgresStatement*, std::string> prepared_;
    std::uint64_t names_given_ = 0;
    bool forget_ = false;
    std::vector<Due> due_;
    std::string warning_;
};

}  // namespace interlock::store
