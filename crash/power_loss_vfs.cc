#include "crash/power_loss_vfs.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <span>

#include "base/ensure.h"

namespace interlock::crash {

// One open file of one connection. SQLite owns the memory and knows the first member.
struct PowerLossVfs::File {
    sqlite3_file base;
    PowerLossVfs* vfs;
    FileNumber number;
    std::string* remove_on_close;  // A name, or nothing.
    int lock;                      // SQLITE_LOCK_…
    std::uint32_t index_shared;    // Bits of the index locks this connection holds.
    std::uint32_t index_exclusive;
    int persist_log;
};

// What SQLite calls, in the order of its own tables.
struct PowerLossVfs::Methods {
    static File& of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }
    static PowerLossVfs& of(sqlite3_vfs* vfs) { return *static_cast<PowerLossVfs*>(vfs->pAppData); }
    static Disk& disk(const File& file) { return *file.vfs->disk_; }
    static Memory& memory(const File& file) { return file.vfs->memory_.at(file.number); }

    // ---- the file system ------------------------------------------------------------------------------------------

    static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* into, int flags, int* flags_out) {
        PowerLossVfs& self = of(vfs);
        into->pMethods = nullptr;
        FileNumber number = 0;
        if (name == nullptr) {
            number = self.disk_->open_unnamed();
        } else {
            const Disk::OpenFor what = {
                .create = (flags & SQLITE_OPEN_CREATE) != 0,
                .journal = (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL)) != 0};
            if (self.disk_->open(name, what, number) != Io::ok) return SQLITE_CANTOPEN;
        }
        File* file = new (into) File{};
        file->base.pMethods = &io;
        file->vfs = &self;
        file->number = number;
        if (name != nullptr && (flags & SQLITE_OPEN_DELETEONCLOSE) != 0) file->remove_on_close = new std::string(name);
        self.memory_[number].users.push_back(file);
        if (flags_out != nullptr) *flags_out = flags;
        return SQLITE_OK;
    }

    static int remove(sqlite3_vfs* vfs, const char* name, int sync_directory) {
        Disk& on = *of(vfs).disk_;
        if (!on.exists(name)) return SQLITE_IOERR_DELETE_NOENT;
        return on.remove(name, sync_directory != 0) == Io::ok ? SQLITE_OK : SQLITE_IOERR_DELETE;
    }

    static int access(sqlite3_vfs* vfs, const char* name, int flags, int* answer) {
        const Disk& on = *of(vfs).disk_;
        // As in the unix layer: a journal that is there but empty is none.
        *answer = flags == SQLITE_ACCESS_EXISTS ? on.exists_and_is_not_empty(name) : on.exists(name);
        return SQLITE_OK;
    }

    static int full_name(sqlite3_vfs*, const char* name, int size, char* out) {
        if (std::strlen(name) + 1 > static_cast<std::size_t>(size)) return SQLITE_CANTOPEN;
        std::memcpy(out, name, std::strlen(name) + 1);
        return SQLITE_OK;
    }

    static int randomness(sqlite3_vfs*, int size, char* out) {
        Random(1).fill(out, static_cast<std::size_t>(size));
        return size;
    }
    static int sleep(sqlite3_vfs*, int micros) { return micros; }  // Nobody else is there to wait for.
    static int time_as_days(sqlite3_vfs*, double* days) { return *days = 2'461'000.5, SQLITE_OK; }
    static int time_as_millis(sqlite3_vfs*, sqlite3_int64* millis) {
        return *millis = sqlite3_int64{2'461'000} * 86'400'000, SQLITE_OK;
    }
    static int last_error(sqlite3_vfs*, int, char*) { return 0; }

    // ---- a file ---------------------------------------------------------------------------------------------------

    static int close(sqlite3_file* handle) {
        File& file = of(handle);
        PowerLossVfs& self = *file.vfs;
        leave_index(file);
        std::erase(memory(file).users, &file);
        if (memory(file).users.empty()) self.memory_.erase(file.number);
        if (file.remove_on_close != nullptr) {
            self.disk_->remove(*file.remove_on_close, false);
            delete file.remove_on_close;
        }
        return SQLITE_OK;
    }

    static int read(sqlite3_file* file, void* into, int size, sqlite3_int64 offset) {
        const std::span bytes(static_cast<char*>(into), static_cast<std::size_t>(size));
        switch (disk(of(file)).read(of(file).number, offset, bytes)) {
            case Io::ok:
                return SQLITE_OK;
            case Io::short_read:
                return SQLITE_IOERR_SHORT_READ;
            default:
                return SQLITE_IOERR_READ;
        }
    }

    static int write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
        const std::string_view bytes(static_cast<const char*>(from), static_cast<std::size_t>(size));
        switch (disk(of(file)).write(of(file).number, offset, bytes)) {
            case Io::ok:
                return SQLITE_OK;
            case Io::full:
                return SQLITE_FULL;
            default:
                return SQLITE_IOERR_WRITE;
        }
    }

    static int truncate(sqlite3_file* file, sqlite3_int64 size) {
        return disk(of(file)).truncate(of(file).number, size) == Io::ok ? SQLITE_OK : SQLITE_IOERR_TRUNCATE;
    }

    static int sync(sqlite3_file* file, int) {
        return disk(of(file)).sync(of(file).number) == Io::ok ? SQLITE_OK : SQLITE_IOERR_FSYNC;
    }

    static int size(sqlite3_file* file, sqlite3_int64* out) {
        std::int64_t bytes = 0;
        if (disk(of(file)).size(of(file).number, bytes) != Io::ok) return SQLITE_IOERR_FSTAT;
        *out = bytes;
        return SQLITE_OK;
    }

    static int lock(sqlite3_file* handle, int wanted) {
        File& file = of(handle);
        if (file.lock >= wanted) return SQLITE_OK;
        for (const File* other : memory(file).users) {
            if (other == &file) continue;
            if (wanted == SQLITE_LOCK_SHARED && other->lock >= SQLITE_LOCK_PENDING) return SQLITE_BUSY;
            if (wanted >= SQLITE_LOCK_RESERVED && other->lock >= SQLITE_LOCK_RESERVED) return SQLITE_BUSY;
        }
        if (wanted == SQLITE_LOCK_EXCLUSIVE) {
            // Whoever wants the file for himself keeps newcomers out while he waits for the readers to leave.
            file.lock = SQLITE_LOCK_PENDING;
            for (const File* other : memory(file).users) {
                if (other != &file && other->lock >= SQLITE_LOCK_SHARED) return SQLITE_BUSY;
            }
        }
        file.lock = wanted;
        return SQLITE_OK;
    }

    static int unlock(sqlite3_file* file, int wanted) {
        of(file).lock = std::min(of(file).lock, wanted);
        return SQLITE_OK;
    }

    static int check_reserved_lock(sqlite3_file* file, int* answer) {
        *answer = std::ranges::any_of(memory(of(file)).users,
                                      [](const File* user) { return user->lock >= SQLITE_LOCK_RESERVED; });
        return SQLITE_OK;
    }

    static int control(sqlite3_file* file, int what, void* argument) {
        switch (what) {
            case SQLITE_FCNTL_PERSIST_WAL: {
                int& flag = *static_cast<int*>(argument);
                if (flag < 0) {
                    flag = of(file).persist_log;
                } else {
                    of(file).persist_log = flag;
                }
                return SQLITE_OK;
            }
            case SQLITE_FCNTL_SIZE_HINT:
            case SQLITE_FCNTL_CHUNK_SIZE:
                return SQLITE_OK;
            default:
                return SQLITE_NOTFOUND;
        }
    }

    static int sector_size(sqlite3_file*) { return 4096; }

    static int promises(sqlite3_file* file) {
        return of(file).vfs->overwrite_ == Overwrite::powersafe ? SQLITE_IOCAP_POWERSAFE_OVERWRITE : 0;
    }

    // ---- the index of the log, in shared memory -------------------------------------------------------------------

    static int map_index(sqlite3_file* handle, int region, int region_size, int extend, void volatile** out) {
        File& file = of(handle);
        Memory& shared = memory(file);
        if (!std::ranges::count(shared.index_users, &file)) shared.index_users.push_back(&file);
        *out = nullptr;
        while (shared.index.size() <= static_cast<std::size_t>(region)) {
            if (extend == 0) return SQLITE_OK;
            shared.index.push_back(std::make_unique<char[]>(static_cast<std::size_t>(region_size)));
        }
        *out = shared.index[static_cast<std::size_t>(region)].get();
        return SQLITE_OK;
    }

    static int lock_index(sqlite3_file* handle, int first, int count, int flags) {
        File& file = of(handle);
        const std::uint32_t slots = ((1u << count) - 1u) << first;
        if ((flags & SQLITE_SHM_UNLOCK) != 0) {
            file.index_shared &= ~slots;
            file.index_exclusive &= ~slots;
            return SQLITE_OK;
        }
        for (const File* other : memory(file).index_users) {
            if (other == &file) continue;
            if ((other->index_exclusive & slots) != 0) return SQLITE_BUSY;
            if ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && (other->index_shared & slots) != 0) return SQLITE_BUSY;
        }
        ((flags & SQLITE_SHM_EXCLUSIVE) != 0 ? file.index_exclusive : file.index_shared) |= slots;
        return SQLITE_OK;
    }

    static void index_barrier(sqlite3_file*) { std::atomic_thread_fence(std::memory_order_seq_cst); }

    static int unmap_index(sqlite3_file* file, int) {
        leave_index(of(file));
        return SQLITE_OK;
    }

    static void leave_index(File& file) {
        Memory& shared = memory(file);
        std::erase(shared.index_users, &file);
        file.index_shared = 0;
        file.index_exclusive = 0;
        if (shared.index_users.empty()) shared.index.clear();
    }

    static const sqlite3_io_methods io;
};

const sqlite3_io_methods PowerLossVfs::Methods::io = {
    .iVersion = 2,
    .xClose = close,
    .xRead = read,
    .xWrite = write,
    .xTruncate = truncate,
    .xSync = sync,
    .xFileSize = size,
    .xLock = lock,
    .xUnlock = unlock,
    .xCheckReservedLock = check_reserved_lock,
    .xFileControl = control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = promises,
    .xShmMap = map_index,
    .xShmLock = lock_index,
    .xShmBarrier = index_barrier,
    .xShmUnmap = unmap_index,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

namespace {

std::string fresh_name() {
    static std::atomic<unsigned> count = 0;
    return "power-loss-" + std::to_string(++count);
}

}  // namespace

PowerLossVfs::PowerLossVfs(Overwrite overwrite) : name_(fresh_name()), overwrite_(overwrite) {
    vfs_.iVersion = 2;
    vfs_.szOsFile = sizeof(File);
    vfs_.mxPathname = 512;
    vfs_.zName = name_.c_str();
    vfs_.pAppData = this;
    vfs_.xOpen = Methods::open;
    vfs_.xDelete = Methods::remove;
    vfs_.xAccess = Methods::access;
    vfs_.xFullPathname = Methods::full_name;
    vfs_.xRandomness = Methods::randomness;
    vfs_.xSleep = Methods::sleep;
    vfs_.xCurrentTime = Methods::time_as_days;
    vfs_.xGetLastError = Methods::last_error;
    vfs_.xCurrentTimeInt64 = Methods::time_as_millis;
    ensure(sqlite3_vfs_register(&vfs_, 0) == SQLITE_OK, "a name is used once");
}

PowerLossVfs::~PowerLossVfs() {
    ensure(open_files() == 0, "whoever opened a file closes it before its disk goes");
    sqlite3_vfs_unregister(&vfs_);
}

void PowerLossVfs::mount(Disk& disk) {
    ensure(open_files() == 0, "no file is open while disks are changed");
    disk_ = &disk;
}

std::size_t PowerLossVfs::open_files() const {
    std::size_t count = 0;
    for (const auto& [_, memory] : memory_) count += memory.users.size();
    return count;
}

}  // namespace interlock::crash
