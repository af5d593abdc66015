// Gathers what SQLite appends to its write-ahead log, so that a commit is one write to the system and one sync.
//
// SQLite writes each page of a commit with two calls, one for 24 bytes and one for the page, and each of them costs the
// file system as much as a large one. Until the sync of synchronous=FULL nobody may look at them: other connections
// learn of a commit from the log's index, which changes after the sync. So they can wait for it in memory.
//
//   (1) The log is written in the order SQLite wrote it, and all of it before a sync, a read, a truncation, a question
//       for the size, or the end.
//   (2) Every other file goes straight to the layer below.
//
// Only for a connection with synchronous=FULL: with less, a commit would be seen before it is in the file. On a disk
// without SQLITE_IOCAP_POWERSAFE_OVERWRITE nothing waits, because there a commit does not end with its sync.
#pragma once

#include <string>

#include <sqlite3.h>

namespace interlock::store {

class LogBuffer {
 public:
    // Over the layer of this name; empty: the system's. It is there as long as this is, and must outlive every
    // connection that uses it.
    explicit LogBuffer(const std::string& below);
    ~LogBuffer();
    LogBuffer(const LogBuffer&) = delete;
    LogBuffer& operator=(const LogBuffer&) = delete;

    // To open a connection with. That of the layer below where there is no such layer: opening says so then.
    const std::string& name() const { return name_; }

 private:
    struct Layer;
    struct File;
    struct Methods;

    std::string name_;
    Layer* layer_ = nullptr;
};

}  // namespace interlock::store
