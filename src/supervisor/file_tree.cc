#include "supervisor/file_tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fts.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "supervisor/open_file.h"
#include "supervisor/worktrees.h"

namespace interlock::supervisor {
namespace {

constexpr std::size_t repositories_named_max = 3;

std::string failure(std::string_view what, const std::string& path) {
    return fmt::format("cannot {} {}: {}", what, path, std::strerror(errno));
}

bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto written = write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

std::string parent_of(const std::string& name) {
    const auto slash = name.rfind('/');
    return slash == std::string::npos ? std::string() : name.substr(0, slash);
}

std::string last_of(const std::string& name) { return name.substr(name.rfind('/') + 1); }

// Directory by directory, so that no link on the way can lead out of `top`.
Result<OpenFile, std::string> open_below(const std::string& top, const std::string& name, bool make) {
    OpenFile here(open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    std::string_view rest = name;
    while (here && !rest.empty()) {
        const std::string next(rest.substr(0, rest.find('/')));
        rest.remove_prefix(std::min(next.size() + 1, rest.size()));
        if (next.empty() || next == "." || next == "..") return fail(fmt::format("{} is no name below {}", name, top));
        if (make && mkdirat(here.fd(), next.c_str(), 0777) != 0 && errno != EEXIST) break;
        here = OpenFile(openat(here.fd(), next.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    }
    if (!here || !rest.empty()) return fail(failure("use the directory", top + "/" + name));
    return here;
}

enum class Copied { yes, no, too_much };

// The bytes from `at` to `end`, which may have become fewer.
Copied copy_range(int from, int to, off_t at, off_t end, std::uint64_t& bytes_left) {
    std::array<char, 65536> buffer;
    while (at < end) {
        const auto wanted = std::min(buffer.size(), static_cast<std::size_t>(end - at));
        const auto count = pread(from, buffer.data(), wanted, at);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count == 0 ? Copied::yes : Copied::no;
        const auto bytes = static_cast<std::size_t>(count);
        if (bytes > bytes_left) return Copied::too_much;
        if (lseek(to, at, SEEK_SET) < 0 || !write_all(to, {buffer.data(), bytes})) return Copied::no;
        bytes_left -= bytes;
        at += count;
    }
    return Copied::yes;
}

// What is data; what is a hole becomes one.
Copied copy_bytes(int from, const struct stat& source, int to, std::uint64_t& bytes_left) {
    const auto stored = static_cast<std::uint64_t>(source.st_blocks) * 512;
    // A file system that can share the blocks copies nothing.
    if (stored <= bytes_left && ioctl(to, FICLONE, from) == 0) {
        bytes_left -= stored;
        return Copied::yes;
    }
    for (off_t at = 0; at < source.st_size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) break;
        off_t end = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
        // A file system that does not know its holes.
        if (data < 0 || end < 0) {
            data = at;
            end = source.st_size;
        }
        end = std::min(end, source.st_size);
        if (const Copied copied = copy_range(from, to, data, end, bytes_left); copied != Copied::yes) return copied;
        at = std::max(end, at + 1);
    }
    return ftruncate(to, source.st_size) == 0 ? Copied::yes : Copied::no;
}

// A regular file that is there under this very name.
OpenFile open_regular(int dir, const std::string& name, struct stat& status) {
    // NONBLOCK: a pipe may have taken the place of the file.
    OpenFile file(openat(dir, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file && (fstat(file.fd(), &status) != 0 || !S_ISREG(status.st_mode))) {
        errno = EINVAL;
        return {};
    }
    return file;
}

std::optional<std::string> link_target(int dir, const std::string& name) {
    std::array<char, 4096> buffer;
    const auto length = readlinkat(dir, name.c_str(), buffer.data(), buffer.size());
    if (length < 0 || static_cast<std::size_t>(length) == buffer.size()) return std::nullopt;
    return std::string(buffer.data(), static_cast<std::size_t>(length));
}

Result<bool, std::string> put_link(const OpenFile& dir, const std::string& name, const std::string& target) {
    if (symlinkat(target.c_str(), dir.fd(), name.c_str()) == 0) return true;
    if (errno == EEXIST) return false;
    return fail(failure("make the link", name));
}

class DirectoryWalk {
 public:
    explicit DirectoryWalk(const std::string& path) : path_(path) {
        std::array<char*, 2> paths = {path_.data(), nullptr};
        // NOCHDIR: the working directory belongs to all threads.
        fts_ = fts_open(paths.data(), FTS_PHYSICAL | FTS_NOCHDIR, nullptr);
    }
    ~DirectoryWalk() {
        if (fts_ != nullptr) fts_close(fts_);
    }
    DirectoryWalk(const DirectoryWalk&) = delete;
    DirectoryWalk& operator=(const DirectoryWalk&) = delete;

    FTSENT* next() { return fts_ == nullptr ? nullptr : fts_read(fts_); }

 private:
    std::string path_;
    FTS* fts_ = nullptr;
};

}  // namespace

std::optional<struct stat> status_of(const std::string& path) {
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0) return std::nullopt;
    return status;
}

bool is_directory(const std::string& path) {
    const auto status = status_of(path);
    return status && S_ISDIR(status->st_mode);
}

std::optional<std::string> read_file(const std::string& path) {
    struct stat status{};
    const OpenFile file = open_regular(AT_FDCWD, path, status);
    if (!file) return std::nullopt;
    std::string text;
    std::array<char, 65536> buffer;
    for (;;) {
        const auto count = read(file.fd(), buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return std::nullopt;
        if (count == 0) return text;
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
}

Result<void, std::string> write_file_durably(const std::string& path, std::string_view text) {
    const std::string beside = last_of(path) + ".new";
    const OpenFile dir(open(parent_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    // Left by an interrupted call, or put there to lead elsewhere.
    if (dir) unlinkat(dir.fd(), beside.c_str(), 0);
    const OpenFile file(openat(dir.fd(), beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file || !write_all(file.fd(), text) || fsync(file.fd()) != 0 ||
        renameat(dir.fd(), beside.c_str(), dir.fd(), last_of(path).c_str()) != 0 || fsync(dir.fd()) != 0) {
        return fail(failure("write", path));
    }
    return {};
}

Result<bool, std::string> put_file(const std::string& top, const std::string& name, const FileContent& content) {
    const auto dir = open_below(top, parent_of(name), true);
    if (!dir) return fail(dir.error());
    const std::string last = last_of(name);
    if (content.kind == FileContent::Kind::link) return put_link(*dir, last, content.bytes);

    const mode_t mode = content.kind == FileContent::Kind::executable ? 0777 : 0666;
    const OpenFile file(openat(dir->fd(), last.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!file && errno == EEXIST) return false;
    if (!file || !write_all(file.fd(), content.bytes)) return fail(failure("write", top + "/" + name));
    return true;
}

Result<bool, std::string> copy_file(const std::string& from, const std::string& top, const std::string& name,
                                    std::uint64_t& bytes_left) {
    const auto source_dir = open_below(from, parent_of(name), false);
    if (!source_dir) return false;
    const std::string last = last_of(name);
    struct stat status{};
    if (fstatat(source_dir->fd(), last.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
    if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) return false;

    const auto dir = open_below(top, parent_of(name), true);
    if (!dir) return fail(dir.error());
    if (S_ISLNK(status.st_mode)) {
        const auto target = link_target(source_dir->fd(), last);
        if (!target) return fail(failure("read the link", from + "/" + name));
        return put_link(*dir, last, *target);
    }
    const OpenFile source = open_regular(source_dir->fd(), last, status);
    if (!source) return fail(failure("read", from + "/" + name));
    const OpenFile file(openat(dir->fd(), last.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file && errno == EEXIST) return false;
    const Copied copied = file ? copy_bytes(source.fd(), status, file.fd(), bytes_left) : Copied::no;
    if (copied == Copied::too_much) {
        return fail(fmt::format("cannot copy {}: too many bytes would be copied with it", from + "/" + name));
    }
    const std::array<timespec, 2> times = {status.st_atim, status.st_mtim};
    if (copied == Copied::no || fchmod(file.fd(), status.st_mode & 0777) != 0 ||
        futimens(file.fd(), times.data()) != 0) {
        return fail(failure("copy to", top + "/" + name));
    }
    return true;
}

Result<bool, std::string> copy_within(const std::string& dir, const std::string& from, const std::string& to) {
    const auto here = open_below(dir, "", false);
    if (!here) return fail(here.error());
    struct stat status{};
    const OpenFile source = open_regular(here->fd(), from, status);
    if (!source && errno == ENOENT) return false;
    if (!source) return fail(failure("read", dir + "/" + from));
    const OpenFile file(openat(here->fd(), to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    std::uint64_t bytes_left = std::numeric_limits<std::uint64_t>::max();
    const std::array<timespec, 2> times = {status.st_atim, status.st_mtim};
    if (!file || copy_bytes(source.fd(), status, file.fd(), bytes_left) != Copied::yes ||
        futimens(file.fd(), times.data()) != 0) {
        return fail(failure("copy to", dir + "/" + to));
    }
    return true;
}

Result<void, std::string> take_file(const std::string& top, const std::string& name) {
    {
        const auto dir = open_below(top, parent_of(name), false);
        if (!dir) return {};
        if (unlinkat(dir->fd(), last_of(name).c_str(), 0) != 0 && errno != ENOENT) {
            return fail(failure("remove", top + "/" + name));
        }
    }
    for (std::string above = parent_of(name); !above.empty(); above = parent_of(above)) {
        const auto dir = open_below(top, parent_of(above), false);
        if (!dir || unlinkat(dir->fd(), last_of(above).c_str(), AT_REMOVEDIR) != 0) break;
    }
    return {};
}

Result<void, std::string> put_directory(const std::string& top, const std::string& name) {
    const auto dir = open_below(top, name, true);
    if (!dir) return fail(dir.error());
    return {};
}

Result<void, std::string> remove_tree(const std::string& path) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error) return {};
    // Some tools write-protect the directories of their caches; the second try comes after undoing that.
    DirectoryWalk walk(path);
    while (FTSENT* entry = walk.next()) {
        if (entry->fts_info != FTS_D && entry->fts_info != FTS_DNR) continue;
        // By a descriptor: a link that takes the directory's place is not followed.
        const OpenFile dir(open(entry->fts_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (dir) chmod(fmt::format("/proc/self/fd/{}", dir.fd()).c_str(), entry->fts_statp->st_mode | 0700);
    }
    std::filesystem::remove_all(path, error);
    if (error) return fail(fmt::format("cannot remove {}: {}", path, error.message()));
    return {};
}

Result<std::vector<std::string>, std::string> repositories_inside(const std::string& path) {
    std::vector<std::string> found;
    DirectoryWalk walk(path);
    errno = 0;
    while (FTSENT* entry = walk.next()) {
        const std::string_view name = entry->fts_name;
        const std::string at = entry->fts_path;
        switch (entry->fts_info) {
            case FTS_DNR:
            case FTS_ERR:
            case FTS_NS:
                return fail(fmt::format("cannot look into {}: {}", at, std::strerror(entry->fts_errno)));
            default:
                break;
        }
        if (entry->fts_info == FTS_DP || entry->fts_level < 1) continue;
        const bool git = name == ".git" && entry->fts_level > 1;
        // A bare one has no .git and is known by what it consists of.
        const bool bare = name == "HEAD" && entry->fts_info == FTS_F && is_directory(parent_of(at) + "/objects") &&
                          is_directory(parent_of(at) + "/refs");
        if (git || bare) found.push_back(parent_of(at));
        if (found.size() == repositories_named_max) break;
        errno = 0;
    }
    if (found.empty() && errno != 0) return fail(failure("look into", path));
    return found;
}

std::uint64_t disk_bytes(const std::string& path) {
    std::uint64_t bytes = 0;
    std::set<std::pair<dev_t, ino_t>> counted;
    DirectoryWalk walk(path);
    while (FTSENT* entry = walk.next()) {
        if (entry->fts_info == FTS_DP || entry->fts_info == FTS_NS || entry->fts_info == FTS_ERR) continue;
        const struct stat& status = *entry->fts_statp;
        const bool again =
            !S_ISDIR(status.st_mode) && status.st_nlink > 1 && !counted.emplace(status.st_dev, status.st_ino).second;
        if (!again) bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return bytes;
}

}  // namespace interlock::supervisor
