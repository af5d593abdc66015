// Opening the file: whose it is, whether it is sound, and what must happen before anybody relies on it.
#pragma once

#include <string>

#include "base/result.h"
#include "store/sqlite_db.h"
#include "store/sqlite_store.h"
#include "store/store.h"

namespace interlock::store {

std::string database_path(const std::string& directory);

// The connection that writes: of the latest version, and settled (see sqlite_store.h).
enum class LeftBy { nobody, an_error_of_ours };
Result<Database, OpenError> open_to_write(const SqliteStore::Options& options, LeftBy left_by);
// A connection that reads one moment, the present one, and neither writes nor writes the log back.
Result<Database, OpenError> open_to_read(const std::string& directory, const std::string& vfs);

// What the last error of a connection means to somebody who wanted to open the file.
OpenError open_error(sqlite3* db, const std::string& path);

}  // namespace interlock::store
