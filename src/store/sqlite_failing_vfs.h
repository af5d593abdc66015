// The system's files, but for what a test wants to go wrong: a full disk, or a disk that cannot sync.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include <sqlite3.h>

namespace interlock::store {

class FailingVfs {
 public:
    FailingVfs() {
        system_ = sqlite3_vfs_find(nullptr);
        vfs_ = *system_;
        vfs_.zName = name_;
        vfs_.szOsFile = static_cast<int>(sizeof(File)) + system_->szOsFile;
        vfs_.pAppData = this;
        vfs_.xOpen = open;
        sqlite3_vfs_register(&vfs_, 0);
    }
    ~FailingVfs() { sqlite3_vfs_unregister(&vfs_); }
    FailingVfs(const FailingVfs&) = delete;
    FailingVfs& operator=(const FailingVfs&) = delete;

    std::string name() const { return name_; }

    bool full = false;            // Writes find no room.
    bool log_sync_fails = false;  // The log is written, but nobody knows whether it is on the disk.
    bool unreadable = false;      // Reads of the database fail.
    int database_syncs = 0;
    int log_writes = 0;

 private:
    struct File {
        sqlite3_file base;
        FailingVfs* vfs;
        int kind;  // SQLITE_OPEN_MAIN_DB, SQLITE_OPEN_WAL, …
        sqlite3_io_methods methods;
        sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
    };
    static File& file(sqlite3_file* base) { return *reinterpret_cast<File*>(base); }

    static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* base, int flags, int* out_flags) {
        auto* self = static_cast<FailingVfs*>(vfs->pAppData);
        File& opened = file(base);
        std::memset(&opened, 0, sizeof opened);
        opened.vfs = self;
        opened.kind = flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL);
        const int rc = self->system_->xOpen(self->system_, path, opened.real(), flags, out_flags);
        if (opened.real()->pMethods == nullptr) return rc;

        sqlite3_io_methods& methods = opened.methods;
        methods = {};
        methods.iVersion = 2;  // Shared memory, but no mapped files.
        methods.xClose = [](sqlite3_file* f) { return file(f).real()->pMethods->xClose(file(f).real()); };
        methods.xRead = [](sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
            if (file(f).vfs->unreadable && file(f).kind == SQLITE_OPEN_MAIN_DB) return SQLITE_IOERR_READ;
            return file(f).real()->pMethods->xRead(file(f).real(), to, size, at);
        };
        methods.xWrite = [](sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
            if (file(f).vfs->full) return SQLITE_FULL;
            if (file(f).kind == SQLITE_OPEN_WAL) ++file(f).vfs->log_writes;
            return file(f).real()->pMethods->xWrite(file(f).real(), from, size, at);
        };
        methods.xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
            return file(f).real()->pMethods->xTruncate(file(f).real(), size);
        };
        methods.xSync = [](sqlite3_file* f, int how) {
            if (file(f).kind == SQLITE_OPEN_MAIN_DB) ++file(f).vfs->database_syncs;
            if (file(f).vfs->log_sync_fails && file(f).kind == SQLITE_OPEN_WAL) return SQLITE_IOERR_FSYNC;
            return file(f).real()->pMethods->xSync(file(f).real(), how);
        };
        methods.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
            return file(f).real()->pMethods->xFileSize(file(f).real(), size);
        };
        methods.xLock = [](sqlite3_file* f, int lock) { return file(f).real()->pMethods->xLock(file(f).real(), lock); };
        methods.xUnlock = [](sqlite3_file* f, int lock) {
            return file(f).real()->pMethods->xUnlock(file(f).real(), lock);
        };
        methods.xCheckReservedLock = [](sqlite3_file* f, int* held) {
            return file(f).real()->pMethods->xCheckReservedLock(file(f).real(), held);
        };
        methods.xFileControl = [](sqlite3_file* f, int what, void* with) {
            return file(f).real()->pMethods->xFileControl(file(f).real(), what, with);
        };
        methods.xSectorSize = [](sqlite3_file* f) { return file(f).real()->pMethods->xSectorSize(file(f).real()); };
        methods.xDeviceCharacteristics = [](sqlite3_file* f) {
            return file(f).real()->pMethods->xDeviceCharacteristics(file(f).real());
        };
        methods.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** memory) {
            return file(f).real()->pMethods->xShmMap(file(f).real(), page, size, extend, memory);
        };
        methods.xShmLock = [](sqlite3_file* f, int offset, int count, int flags2) {
            return file(f).real()->pMethods->xShmLock(file(f).real(), offset, count, flags2);
        };
        methods.xShmBarrier = [](sqlite3_file* f) { file(f).real()->pMethods->xShmBarrier(file(f).real()); };
        methods.xShmUnmap = [](sqlite3_file* f, int remove) {
            return file(f).real()->pMethods->xShmUnmap(file(f).real(), remove);
        };
        opened.base.pMethods = &methods;
        return rc;
    }

    static constexpr const char* name_ = "failing";
    sqlite3_vfs* system_ = nullptr;
    sqlite3_vfs vfs_{};
};

}  // namespace interlock::store
