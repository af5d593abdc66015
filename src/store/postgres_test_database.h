// A place of its own for each test in the PostgreSQL server that tools/with_postgres.py has started: a schema, which is
// dropped at the end.
#pragma once

#include <atomic>
#include <string>

#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <unistd.h>

#include "store/postgres_connection.h"

namespace interlock::store {

inline constexpr core::OrgId org_one{1};

// Of an empty database, whose owner may do everything (postgres_store_test.cc).
std::string postgres_test_uri();

// Runs statements beside the store; what goes wrong fails the test.
inline std::string run_sql(const std::string& uri, const std::string& sql) {
    PGconn* connection = PQconnectdb(uri.c_str());
    PGresult* result = PQexec(connection, sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    EXPECT_TRUE(status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) << sql << ": " << PQerrorMessage(connection);
    std::string first = PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
    PQclear(result);
    PQfinish(connection);
    return first;
}

class PostgresTestDatabase {
 public:
    PostgresTestDatabase() {
        static std::atomic<int> made = 0;
        schema_ = "t" + std::to_string(getpid()) + "_" + std::to_string(++made);
        run_sql(postgres_test_uri(), "set client_min_messages = warning; create schema " + schema_);
    }
    ~PostgresTestDatabase() {
        run_sql(postgres_test_uri(), "set client_min_messages = warning; drop schema " + schema_ + " cascade");
    }
    PostgresTestDatabase(const PostgresTestDatabase&) = delete;
    PostgresTestDatabase& operator=(const PostgresTestDatabase&) = delete;

    // With what makes tables appear in, and disappear with, the schema.
    std::string uri() const { return within(postgres_test_uri()); }
    std::string within(const std::string& server) const {
        return server + (server.find('?') == std::string::npos ? "?" : "&") + "options=-csearch_path%3D" + schema_;
    }

 private:
    std::string schema_;
};

}  // namespace interlock::store
