// Carrying out corrections (store/repair.h) on a PostgreSQL database.
#pragma once

#include <vector>

#include "store/postgres_connection.h"
#include "store/repair.h"

namespace interlock::store {

// In one transaction that begins with `proofs`, over a connection of its own. Rolled back when a row no longer says
// what it is corrected from.
Result<void, CommitError> carry_out(const PostgresOptions& server, const std::vector<PostgresRequest>& proofs,
                                    const std::vector<Repair>& repairs);

}  // namespace interlock::store
