#include "shim/remove_tree.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cstring>
#include <vector>

#include "shim/fd.h"

namespace interlock::shim {
namespace {

struct DirectoryLevel {
    DIR* directory;
    std::string name;
};

DIR* open_level(int parent, const char* name, dev_t device) {
    // To be listed and emptied it needs these permissions, which its owner may have taken from himself.
    struct stat before{};
    if (fstatat(parent, name, &before, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(before.st_mode)) return nullptr;
    if (before.st_dev != device) return nullptr;
    if ((before.st_mode & S_IRWXU) != S_IRWXU) fchmodat(parent, name, S_IRWXU, 0);
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? nullptr : fdopendir(fd);
}

}  // namespace

void remove_tree(const std::string& path) {
    struct stat top{};
    if (lstat(path.c_str(), &top) != 0) return;
    DIR* first = open_level(AT_FDCWD, path.c_str(), top.st_dev);
    if (!first) return;
    // Each level keeps its directory open while those below it are emptied: as deep as descriptors go.
    std::vector<DirectoryLevel> levels{{first, path}};
    while (!levels.empty()) {
        DIR* directory = levels.back().directory;
        const dirent* entry = readdir(directory);
        if (!entry) {
            const std::string name = levels.back().name;
            closedir(directory);
            levels.pop_back();
            const int parent = levels.empty() ? AT_FDCWD : dirfd(levels.back().directory);
            unlinkat(parent, name.c_str(), AT_REMOVEDIR);
            continue;
        }
        if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
        if (DIR* below = open_level(dirfd(directory), entry->d_name, top.st_dev)) {
            levels.push_back({below, entry->d_name});
        } else {
            unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
}

}  // namespace interlock::shim
