// Keeps SQLite's write lock of a database for as long as its connection is open.
//
// SQLite takes the write lock for a transaction and gives it back at the commit. Another program could then write to
// the database of a live server, whose memory would not know of it. This layer takes the lock when SQLite first does,
// and gives it back when the connection is closed. Other programs that want to write are told that the database is
// locked. Readers and checkpoints do not need the lock.
//
// Only for the main database of one connection, in WAL mode.
#pragma once

#include <string>

#include <sqlite3.h>

namespace interlock::store {

class KeptLock {
 public:
    // Over the layer of this name; empty: the system's. It must outlive the connection that uses it.
    explicit KeptLock(const std::string& below);
    ~KeptLock();
    KeptLock(const KeptLock&) = delete;
    KeptLock& operator=(const KeptLock&) = delete;

    // To open the connection with. That of the layer below where there is no such layer: opening says so then.
    const std::string& name() const { return name_; }

 private:
    struct Layer;
    struct Methods;

    std::string name_;
    Layer* layer_ = nullptr;
};

}  // namespace interlock::store
