#include "store/sqlite_kept_lock.h"

#include <fmt/format.h>

namespace interlock::store {
namespace {

constexpr int write_lock = 0;  // Its place among the locks of the log's index (WAL_WRITE_LOCK in SQLite's wal.c).

}  // namespace

// The layer below with another way to open. The main database is the file of the layer below, with two of its methods
// replaced.
struct KeptLock::Layer {
    sqlite3_vfs vfs;  // First, because SQLite knows it by its address.
    sqlite3_vfs* below;

    struct Main {
        sqlite3_io_methods methods;  // First: an open file leads here.
        const sqlite3_io_methods* below;
        bool held;
    };
    Main main;
};

struct KeptLock::Methods {
    using Main = Layer::Main;

    static Main& of(sqlite3_file* file) {
        return *const_cast<Main*>(reinterpret_cast<const Main*>(file->pMethods));  // Ours, and not constant.
    }

    static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
        auto& layer = *reinterpret_cast<Layer*>(vfs);
        const int rc = layer.below->xOpen(layer.below, path, file, flags, out_flags);
        const bool has_locks = rc == SQLITE_OK && file->pMethods->iVersion >= 2 && file->pMethods->xShmLock != nullptr;
        if ((flags & SQLITE_OPEN_MAIN_DB) == 0 || !has_locks) return rc;
        layer.main = {*file->pMethods, file->pMethods, false};
        layer.main.methods.xShmLock = lock;
        layer.main.methods.xShmUnmap = unmap;
        file->pMethods = &layer.main.methods;
        return rc;
    }

    static int lock(sqlite3_file* file, int first, int count, int flags) {
        Main& main = of(file);
        if (first != write_lock || count != 1 || (flags & SQLITE_SHM_EXCLUSIVE) == 0) {
            return main.below->xShmLock(file, first, count, flags);
        }
        if (main.held) return SQLITE_OK;  // Taken again, or given back: neither changes anything.
        const int rc = main.below->xShmLock(file, first, count, flags);
        main.held = rc == SQLITE_OK && (flags & SQLITE_SHM_LOCK) != 0;
        return rc;
    }

    static int unmap(sqlite3_file* file, int remove) {
        Main& main = of(file);
        if (main.held) main.below->xShmLock(file, write_lock, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
        main.held = false;
        return main.below->xShmUnmap(file, remove);
    }
};

KeptLock::KeptLock(const std::string& below) : name_(below) {
    sqlite3_vfs* found = sqlite3_vfs_find(below.empty() ? nullptr : below.c_str());
    if (found == nullptr) return;
    layer_ = new Layer{*found, found, {}};
    name_ = fmt::format("{}, write lock kept for {}", found->zName, fmt::ptr(this));
    layer_->vfs.zName = name_.c_str();
    layer_->vfs.pNext = nullptr;
    layer_->vfs.xOpen = Methods::open;
    sqlite3_vfs_register(&layer_->vfs, 0);
}

KeptLock::~KeptLock() {
    if (layer_ == nullptr) return;
    sqlite3_vfs_unregister(&layer_->vfs);
    delete layer_;
}

}  // namespace interlock::store
