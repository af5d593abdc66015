// SQLite on a disk in memory (disk.h): the layer below SQLite that production code opens its database through, by name.
//
//   (1) Whatever SQLite does to its files goes to the mounted disk, in the order in which SQLite asks.
//   (2) Locks and the shared memory of the log's index live as long as somebody has the file open. They are the
//       machine's, not the disk's: no image has them, as none would after a loss of power.
//   (3) The sector size and the promises that SQLite is told of are those of its unix layer on Linux (4,096 bytes,
//       powersafe overwrite), unless the disk is said to be fragile: then it is promised nothing.
//
// Used by one thread at a time; several threads take one each.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sqlite3.h>

#include "crash/disk.h"
#include "crash/power_loss.h"

namespace interlock::crash {

class PowerLossVfs {
 public:
    explicit PowerLossVfs(Overwrite overwrite);
    ~PowerLossVfs();
    PowerLossVfs(const PowerLossVfs&) = delete;
    PowerLossVfs& operator=(const PowerLossVfs&) = delete;

    const std::string& name() const { return name_; }
    // Nothing may be open. The disk must outlive whatever is opened on it.
    void mount(Disk& disk);
    std::size_t open_files() const;

 private:
    struct File;
    struct Memory {  // What the machine knows about a file that somebody has open.
        std::vector<File*> users;
        std::vector<File*> index_users;
        std::vector<std::unique_ptr<char[]>> index;
    };
    struct Methods;

    const std::string name_;
    const Overwrite overwrite_;
    Disk* disk_ = nullptr;
    std::map<FileNumber, Memory> memory_;
    sqlite3_vfs vfs_ = {};
};

}  // namespace interlock::crash
