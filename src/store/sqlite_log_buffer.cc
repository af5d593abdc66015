#include "store/sqlite_log_buffer.h"

#include <cstring>
#include <new>

#include <fmt/format.h>

namespace interlock::store {

// What SQLite knows as the layer: the one below with another way to open. Everything else is below's own, down to
// pAppData, so it needs no wrapping.
struct LogBuffer::Layer {
    sqlite3_vfs vfs;  // First, because SQLite knows it by its address.
    sqlite3_vfs* below;
};

// An open log. SQLite owns the memory; behind it is the file of the layer below.
struct LogBuffer::File {
    sqlite3_file base;  // First, as above.
    bool gathers = false;
    std::string waiting;
    sqlite3_int64 begins_at = 0;

    sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
    sqlite3_int64 ends_at() const { return begins_at + static_cast<sqlite3_int64>(waiting.size()); }

    // What could not be written is dropped, as a write that fails is: SQLite hears of it and gives the commit up.
    int flush() {
        if (waiting.empty()) return SQLITE_OK;
        const int rc = below()->pMethods->xWrite(below(), waiting.data(), static_cast<int>(waiting.size()), begins_at);
        waiting.clear();
        return rc;
    }
};

struct LogBuffer::Methods {
    // SQLite's own layer keeps only the low 17 bits of a write's size.
    static constexpr std::size_t waiting_max = (1u << 17) - 1;

    static File& of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }
    static sqlite3_file* below(sqlite3_file* file) { return of(file).below(); }
    static const sqlite3_io_methods& call(sqlite3_file* file) { return *below(file)->pMethods; }

    static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* into, int flags, int* out_flags) {
        sqlite3_vfs* real = reinterpret_cast<Layer*>(vfs)->below;
        if ((flags & SQLITE_OPEN_WAL) == 0) return real->xOpen(real, path, into, flags, out_flags);
        File* file = new (into) File{};
        file->below()->pMethods = nullptr;
        const int rc = real->xOpen(real, path, file->below(), flags, out_flags);
        if (file->below()->pMethods != nullptr) {
            file->base.pMethods = &io;
            // Where an unfinished write can spoil what stands beside it, SQLite fills the sector up, and the last bytes
            // of a commit come after its sync.
            file->gathers = (characteristics(into) & SQLITE_IOCAP_POWERSAFE_OVERWRITE) != 0;
        } else {
            file->~File();  // SQLite closes only what has methods.
            into->pMethods = nullptr;
        }
        return rc;
    }
    static int close(sqlite3_file* file) {
        const int flushed = of(file).flush();
        const int closed = call(file).xClose(below(file));
        of(file).~File();
        return flushed != SQLITE_OK ? flushed : closed;
    }
    static int read(sqlite3_file* file, void* to, int size, sqlite3_int64 at) {
        if (const int rc = of(file).flush(); rc != SQLITE_OK) return rc;
        return call(file).xRead(below(file), to, size, at);
    }
    static int write(sqlite3_file* file, const void* from, int size, sqlite3_int64 at) {
        File& log = of(file);
        if (!log.gathers) return call(file).xWrite(below(file), from, size, at);
        const auto bytes = static_cast<std::size_t>(size);
        if (log.ends_at() != at || log.waiting.size() + bytes > waiting_max) {
            if (const int rc = log.flush(); rc != SQLITE_OK) return rc;
        }
        if (log.waiting.empty()) log.begins_at = at;
        log.waiting.append(static_cast<const char*>(from), bytes);
        return SQLITE_OK;
    }
    static int truncate(sqlite3_file* file, sqlite3_int64 size) {
        if (const int rc = of(file).flush(); rc != SQLITE_OK) return rc;
        return call(file).xTruncate(below(file), size);
    }
    static int sync(sqlite3_file* file, int how) {
        if (const int rc = of(file).flush(); rc != SQLITE_OK) return rc;
        return call(file).xSync(below(file), how);
    }
    static int file_size(sqlite3_file* file, sqlite3_int64* size) {
        if (const int rc = of(file).flush(); rc != SQLITE_OK) return rc;
        return call(file).xFileSize(below(file), size);
    }
    static int lock(sqlite3_file* file, int how) { return call(file).xLock(below(file), how); }
    static int unlock(sqlite3_file* file, int how) { return call(file).xUnlock(below(file), how); }
    static int is_reserved(sqlite3_file* file, int* held) { return call(file).xCheckReservedLock(below(file), held); }
    static int control(sqlite3_file* file, int what, void* with) {
        return call(file).xFileControl(below(file), what, with);
    }
    static int sector_size(sqlite3_file* file) { return call(file).xSectorSize(below(file)); }
    static int characteristics(sqlite3_file* file) { return call(file).xDeviceCharacteristics(below(file)); }

    static constexpr sqlite3_io_methods make_io() {
        sqlite3_io_methods methods{};
        methods.iVersion = 1;  // A log has neither shared memory nor a mapping of its own.
        methods.xClose = close;
        methods.xRead = read;
        methods.xWrite = write;
        methods.xTruncate = truncate;
        methods.xSync = sync;
        methods.xFileSize = file_size;
        methods.xLock = lock;
        methods.xUnlock = unlock;
        methods.xCheckReservedLock = is_reserved;
        methods.xFileControl = control;
        methods.xSectorSize = sector_size;
        methods.xDeviceCharacteristics = characteristics;
        return methods;
    }
    static const sqlite3_io_methods io;
};

constexpr sqlite3_io_methods LogBuffer::Methods::io = make_io();

LogBuffer::LogBuffer(const std::string& below) : name_(below) {
    sqlite3_vfs* found = sqlite3_vfs_find(below.empty() ? nullptr : below.c_str());
    if (found == nullptr) return;
    layer_ = new Layer{*found, found};
    name_ = fmt::format("{}, log buffered for {}", found->zName, fmt::ptr(this));
    layer_->vfs.zName = name_.c_str();
    layer_->vfs.szOsFile = static_cast<int>(sizeof(File)) + found->szOsFile;
    layer_->vfs.pNext = nullptr;
    layer_->vfs.xOpen = Methods::open;
    sqlite3_vfs_register(&layer_->vfs, 0);
}

LogBuffer::~LogBuffer() {
    if (layer_ == nullptr) return;
    sqlite3_vfs_unregister(&layer_->vfs);
    delete layer_;
}

}  // namespace interlock::store
