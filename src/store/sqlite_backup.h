// A copy of a store while it is in use: the state of one moment, in a file of its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace interlock::store {

struct BackupFacts {
    std::int64_t bytes = 0;
    std::string sha256;  // Of the file, hex.
    std::string head;    // The number and the hash of the default org's last commit.
};

// The file must not be there yet. It is complete and synced when this returns; after an error there is none.
Result<BackupFacts, ReadError> back_up(const std::string& directory, const std::string& file);

}  // namespace interlock::store
