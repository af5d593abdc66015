#include "store/postgres_pool.h"

#include <utility>

#include "store/postgres_schema.h"

namespace interlock::store {

Result<PostgresPool::Lent, OpenError> PostgresPool::lend() {
    {
        std::unique_lock lock(mutex_);
        if (!returned_.wait_for(lock, options_.server.exchange_timeout, [&] { return lent_ < options_.max; })) {
            return fail(OpenError{OpenError::Kind::unavailable, "every connection to PostgreSQL is in use"});
        }
        ++lent_;
        while (!idle_.empty()) {
            auto connection = std::move(idle_.back());
            idle_.pop_back();
            if (connection->usable()) return Lent(*this, std::move(connection));
        }
    }
    auto connection = connect();
    if (connection) return Lent(*this, std::move(*connection));
    take_back(nullptr);
    return fail(connection.error());
}

// Two that come here at once both look at the schema, which does no harm.
Result<std::unique_ptr<PostgresConnection>, OpenError> PostgresPool::connect() {
    auto connection = PostgresConnection::connect(options_.server, PostgresConnection::Use::lane, round_trips_);
    if (!connection || schema_found_) return connection;
    if (auto found = migrate(**connection, options_.server); !found) return fail(found.error());
    schema_found_ = true;
    return connection;
}

void PostgresPool::take_back(std::unique_ptr<PostgresConnection> connection) {
    {
        const std::lock_guard lock(mutex_);
        --lent_;
        if (connection && connection->usable()) {
            idle_.push_back(std::move(connection));
        } else {
            // Where one connection broke, the others may be just as dead: a server that was started anew.
            idle_.clear();
        }
    }
    returned_.notify_one();
}

}  // namespace interlock::store
