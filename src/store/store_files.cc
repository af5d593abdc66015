#include "store/store_files.h"

#include <cerrno>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "store/sqlite_file.h"

namespace interlock::store {

Result<StoreFiles, OpenError> StoreFiles::find(const std::string& directory) {
    const std::string database = database_path(directory);
    StoreFiles files;
    files.directory_ = directory;
    files.files_[0].path = database;
    files.files_[1].path = database + "-wal";
    files.files_[2].path = database + "-shm";
    for (File& file : files.files_) {
        struct stat found{};
        if (::stat(file.path.c_str(), &found) != 0) {
            return fail(OpenError{OpenError::Kind::unavailable,
                                  fmt::format("{} is gone: {}", file.path, std::strerror(errno))});
        }
        file.device = found.st_dev;
        file.inode = found.st_ino;
        struct stat named{};
        files.has_links_ = files.has_links_ || ::lstat(file.path.c_str(), &named) != 0 || !S_ISREG(named.st_mode);
    }
    return files;
}

// One system call in place of three: this is asked before every commit. Two changes within a tick of the kernel's clock
// leave the same time, so a recent change is not relied on.
bool StoreFiles::directory_is_as_before() const {
    constexpr std::int64_t recent_ms = 100;
    const auto ms_of = [](const timespec& time) { return time.tv_sec * 1000 + time.tv_nsec / 1'000'000; };
    struct stat now{};
    if (has_links_ || ::stat(directory_.c_str(), &now) != 0) return false;
    const bool same = now.st_ino == seen_.st_ino && now.st_dev == seen_.st_dev &&
                      now.st_mtim.tv_sec == seen_.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen_.st_mtim.tv_nsec;
    timespec clock{};
    ::clock_gettime(CLOCK_REALTIME, &clock);
    return same && ms_of(clock) - ms_of(now.st_mtim) > recent_ms;
}

const StoreFiles::File* StoreFiles::find_gone() {
    if (directory_is_as_before()) return nullptr;
    struct stat directory{};
    const bool known = ::stat(directory_.c_str(), &directory) == 0;
    for (const File& file : files_) {
        struct stat found{};
        if (::stat(file.path.c_str(), &found) != 0 || !file.is(found)) {
            seen_ = {};
            return &file;
        }
    }
    if (known) seen_ = directory;
    return nullptr;
}

}  // namespace interlock::store
