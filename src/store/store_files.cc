#include "store/store_files.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "store/sqlite_file.h"

namespace interlock::store {

Result<StoreFiles, OpenError> StoreFiles::find(const std::string& directory) {
    const std::string database = database_path(directory);
    StoreFiles files;
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
    }
    return files;
}

const StoreFiles::File* StoreFiles::find_gone() const {
    for (const File& file : files_) {
        struct stat found{};
        if (::stat(file.path.c_str(), &found) != 0 || !file.is(found)) return &file;
    }
    return nullptr;
}

}  // namespace interlock::store
