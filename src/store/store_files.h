// The files of an open SQLite database, by device and inode: are they still the ones that their paths name?
#pragma once

#include <sys/stat.h>

#include <array>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace interlock::store {

class StoreFiles {
 public:
    struct File {
        std::string path;
        dev_t device = 0;
        ino_t inode = 0;

        bool is(const struct stat& found) const { return found.st_dev == device && found.st_ino == inode; }
    };

    // The database in the directory, its log and its log's index. All three are there while a connection is open.
    static Result<StoreFiles, OpenError> find(const std::string& directory);

    const File& database() const { return files_.front(); }
    // The first one whose path names no file or another one; null: all are in place.
    const File* find_gone();

 private:
    bool directory_is_as_before() const;

    std::array<File, 3> files_;
    std::string directory_;
    struct stat seen_{};      // The directory, before the files were last looked at. Its time changes with its entries.
    bool has_links_ = false;  // Their targets may be in another directory.
};

}  // namespace interlock::store
