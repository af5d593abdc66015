// The embedded store: one SQLite file in a directory, written by one connection.
//
// The file is in WAL mode with synchronous=FULL: a commit is on the disk before commit() returns. The connection in
// here is the only one that ever writes or checkpoints; snapshots have read-only connections of their own. Locks on the
// data directory and on interlock.lock keep a second server away; SQLite's own write lock, which is held between
// commits too (sqlite_kept_lock.h), keeps every other program from writing.
//
//   (1) What open() finds is settled: it writes and checkpoints before it answers, so a commit whose outcome was
//       unknown is either in the file for good, or its remains can never come back.
//   (2) A file that is not ours, is damaged or is too new is left as it is.
//   (3) The log does not grow without bound while no snapshot is held for long: after checkpoint_pages it is written
//       back and used again from its start.
//   (4) A commit succeeds only while the open files are those that the directory names.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/data_lock.h"
#include "store/repair.h"
#include "store/store.h"
#include "store/store_files.h"

namespace interlock::store {

class SqliteStore final : public Store {
 public:
    // Everything but `full` loses acknowledged commits, or the file, when the power fails. They are here to show that
    // the crash tests would notice.
    enum class Synchronous { full, normal_for_negative_control, off_for_negative_control };

    // What becomes of a store that another one is being copied into (copy_mark.h): it is for the copy alone.
    enum class UnfinishedCopy { refused, opened };

    struct Options {
        std::string directory = "";  // Must be there. The file in it is made where there is none.
        std::string vfs = "";        // Empty: the system's. With another one there is no lock file.
        Synchronous synchronous = Synchronous::full;
        std::size_t page_cache_kib = 32 * 1024;
        // 2 MB, which are written back within a few milliseconds: somebody waits for it. More at once would save next
        // to nothing, since most pages in the log are new ones.
        std::size_t checkpoint_pages = 250;
        bool exclusive_lock = true;
        UnfinishedCopy unfinished_copy = UnfinishedCopy::refused;
    };

    explicit SqliteStore(Options options);
    ~SqliteStore() override;
    SqliteStore(const SqliteStore&) = delete;
    SqliteStore& operator=(const SqliteStore&) = delete;

    Result<void, OpenError> open() override;
    void close() override;

    bool load(core::OrgId org, core::ColdRow& row) override;
    core::Amounts sum(core::OrgId org, const core::Scope& scope, WindowSpan span) override;
    std::vector<core::OpenSessions> open_sessions(core::OrgId org) override;
    Result<void, ReadError> load_live(const OnLiveRow& on_row) override;
    Result<Id, ReadError> newest_key() override;
    Result<void, CommitError> commit(const WriteSet& writes) override;
    bool failed() const override { return failed_; }
    Result<std::unique_ptr<Snapshot>, ReadError> snapshot() override;

    // Carries the corrections out in one transaction, each only if the row still says what it is corrected from.
    Result<void, CommitError> repair(const std::vector<Repair>& repairs);

 private:
    struct Connection;

    Result<void, OpenError> refuse_unfinished_copy() const;
    Result<void, OpenError> refuse_other_file() const;
    Result<void, CommitError> check_files();
    void checkpoint_if_due();
    CommitError fail_commit(CommitError::Kind kind, std::string detail);
    void fail_read(std::string detail);

    Options options_;
    std::unique_ptr<Connection> connection_;  // Null: closed.
    DataLock lock_;
    std::optional<StoreFiles> files_;  // Of the open database, also while it is opened again after an error.
    bool failed_ = false;
    bool broke_off_ = false;  // The connection before was ended by an error.
    std::string why_closed_ = "it has not been opened";
};

// A snapshot of the store in a directory, without being its server: the server may be running, or may have been killed.
// Takes no lock that a server minds and changes nothing that a server has written. The directory must be writable, as
// readers leave their marks in a file beside the database.
Result<std::unique_ptr<Snapshot>, OpenError> open_snapshot(const std::string& directory, const std::string& vfs = "");

}  // namespace interlock::store
