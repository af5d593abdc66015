// The schema of the PostgreSQL store: its versions, and how a database gets from one to the next.
//
//   (1) Forward only: a published migration is never changed, the next one is added.
//   (2) Each migration is one transaction, with its row in schema_migrations. Of several nodes that start at once one
//       carries it out, and the others wait for it.
//   (3) A migration says which program can still work on what it leaves (`least`): so nodes are upgraded one by one.
//
// Everything is in the schema that the connection makes tables in. No extension, no function, no right of a superuser.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "store/postgres_connection.h"

namespace interlock::store {

struct PostgresMigration {
    std::string_view name;
    std::string_view sql;
    std::int64_t least;  // The lowest version of this list with which a program can work on the result.
};

// Number n, counted from 1, leads to version n.
const std::vector<PostgresMigration>& postgres_migrations();

// Brings the database to the latest version, or finds that it is there, or is later and bears us.
Result<void, OpenError> migrate(PostgresConnection& connection, const PostgresOptions& options);

}  // namespace interlock::store
