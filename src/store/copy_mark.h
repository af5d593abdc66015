// The mark on a store that is being filled from another one (transfer.h). As long as it is there, the store is not
// whole, and nobody serves it.
//
// In a data directory it is a file, in a PostgreSQL database a row of `facts`.
#pragma once

#include <optional>
#include <string>

#include <boost/describe/class.hpp>

#include "base/result.h"
#include "store/store.h"

namespace interlock::store {

class PostgresPool;

struct CopyMark {
    std::string from;         // The source, as people call it.
    std::string fingerprint;  // Of the source and its state (transfer.h).
};
BOOST_DESCRIBE_STRUCT(CopyMark, (), (from, fingerprint))

// A mark that cannot be read is an error: something is unfinished there.
Result<std::optional<CopyMark>, ReadError> read_copy_mark(const std::string& directory);
Result<void, ReadError> write_copy_mark(const std::string& directory, const CopyMark& mark);
Result<void, ReadError> remove_copy_mark(const std::string& directory);

Result<std::optional<CopyMark>, ReadError> read_copy_mark(Snapshot& database);
Result<void, ReadError> write_copy_mark(PostgresPool& database, const CopyMark& mark);
Result<void, ReadError> remove_copy_mark(PostgresPool& database);

// Why a store with this mark is not served.
std::string unfinished_copy(const CopyMark& mark);

}  // namespace interlock::store
