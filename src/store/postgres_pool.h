// Connections to one database, shared by all lanes of a node.
//
//   (1) A connection is lent for one operation, to one at a time, and there are at most `max`.
//   (2) A connection on which something went wrong is not lent again, nor are those that lay idle then.
//   (3) The first one that is lent finds the schema as this program needs it, or brings it there.
//
// For any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "store/postgres_connection.h"

namespace interlock::store {

class PostgresPool {
 public:
    struct Options {
        PostgresOptions server = {};
        std::size_t max = 8;
    };

    explicit PostgresPool(Options options) : options_(std::move(options)) {}
    PostgresPool(const PostgresPool&) = delete;
    PostgresPool& operator=(const PostgresPool&) = delete;

    class Lent {
     public:
        Lent(PostgresPool& pool, std::unique_ptr<PostgresConnection> connection)
            : pool_(&pool), connection_(std::move(connection)) {}
        Lent(Lent&&) = default;
        Lent& operator=(Lent&&) = delete;
        ~Lent() {
            if (connection_) pool_->take_back(std::move(connection_));
        }
        PostgresConnection* operator->() { return connection_.get(); }

     private:
        PostgresPool* pool_;
        std::unique_ptr<PostgresConnection> connection_;
    };

    // Waits, as long as an exchange may take, while all are lent.
    Result<Lent, OpenError> lend();

    const PostgresOptions& server() const { return options_.server; }
    // Of all connections made here so far, for tests and metrics.
    std::int64_t round_trips() const { return round_trips_.load(std::memory_order_relaxed); }
    std::atomic<std::int64_t>& round_trips_counter() { return round_trips_; }

 private:
    Result<std::unique_ptr<PostgresConnection>, OpenError> connect();
    void take_back(std::unique_ptr<PostgresConnection> connection);

    const Options options_;
    std::atomic<std::int64_t> round_trips_ = 0;
    std::atomic<bool> schema_found_ = false;
    std::mutex mutex_;
    std::condition_variable returned_;
    std::vector<std::unique_ptr<PostgresConnection>> idle_;
    std::size_t lent_ = 0;
};

}  // namespace interlock::store
