// Carrying out a correction (store/repair.h) on a SQLite file.
#pragma once

#include <string>

#include "store/repair.h"
#include "store/sqlite_db.h"

namespace interlock::store {

// Inside the caller's transaction. Empty, or what went wrong: also that the row no longer says what it is corrected
// from.
std::string carry_out(sqlite3* db, const Repair& repair);

}  // namespace interlock::store
