// The schema of the SQLite store: its versions, and how a file gets from one to the next.
//
//   (1) Forward only: a published migration is never changed, the next one is added.
//   (2) Each migration is one transaction, with the version it leads to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/sqlite_db.h"

namespace interlock::store {

constexpr std::int64_t application_id = 0x496e746c;  // "Intl", in the header of every file of ours.

// Number n, counted from 1, leads to version n.
const std::vector<std::string_view>& migrations();

// Brings the file to the latest version. `version` is what its header says.
int migrate(sqlite3* db, std::int64_t version);

// What is different from the schema that the migrations make; empty: nothing. SQLITE_OK, or why it could not be read.
int compare_schema(sqlite3* db, std::string& difference);

}  // namespace interlock::store
