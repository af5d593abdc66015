// The lock by which a server keeps others away from its data directory: on the directory, and on interlock.lock in it.
// Either is enough. The file can be removed by a clean-up; the directory cannot be locked on some network file systems.
// Let go when the process ends, however it ends.
#pragma once

#include <string>

#include "base/result.h"
#include "store/store.h"

namespace interlock::store {

class DataLock {
 public:
    DataLock() = default;
    ~DataLock() { let_go(); }
    DataLock(const DataLock&) = delete;
    DataLock& operator=(const DataLock&) = delete;

    // in_use when another process, or another lock in this one, has it; unavailable when the directory is no good.
    // Does nothing when it is held already.
    Result<void, OpenError> take(const std::string& directory);
    void let_go();
    bool held() const { return file_ >= 0; }

 private:
    OpenError in_use_by_another(const std::string& directory, const std::string& path);

    int directory_ = -1;
    int file_ = -1;
};

// An error unless there is such a directory.
Result<void, OpenError> check_directory(const std::string& directory);

}  // namespace interlock::store
