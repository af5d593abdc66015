#include "store/data_lock.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace interlock::store {

using enum OpenError::Kind;

namespace {

// False when another has it. A file system that knows no such locks says so by another error: there is none then.
bool lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

// The process that the file names as the owner of the data; 0: none.
long owner_of(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return 0;
    char text[32] = {};
    const bool read = ::pread(fd, text, sizeof text - 1, 0) > 0;
    ::close(fd);
    return read ? std::strtol(text, nullptr, 10) : 0;
}

bool owner_is_gone(const std::string& path) {
    const long owner = owner_of(path);
    return owner > 0 && ::kill(static_cast<pid_t>(owner), 0) != 0 && errno == ESRCH;
}

// Of a server that was killed, a child on its way to another program may hold the lock for a moment longer.
bool lock_patiently(int fd, const std::string& path) {
    for (int tries = 0; !lock(fd); ++tries) {
        if (tries == 100 || !owner_is_gone(path)) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
}

bool is_at(int fd, const std::string& path) {
    struct stat open{};
    struct stat there{};
    return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &there) == 0 && open.st_dev == there.st_dev &&
           open.st_ino == there.st_ino;
}

}  // namespace

Result<void, OpenError> DataLock::take(const std::string& directory) {
    if (held()) return {};
    if (auto good = check_directory(directory); !good) return good;
    const std::string path = directory + "/interlock.lock";

    // 1. The directory itself: another program can remove the file under a server, not the directory.
    directory_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_ >= 0 && !lock_patiently(directory_, path)) return fail(in_use_by_another(directory, path));

    // 2. The file, which says whose the data is. Another program may remove it between the two calls.
    for (int tries = 0; tries < 10; ++tries) {
        file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file_ < 0) {
            const int why = errno;
            let_go();
            return fail(OpenError{unavailable, fmt::format("cannot write {}: {}; the data directory must be writable",
                                                           path, std::strerror(why))});
        }
        if (!lock_patiently(file_, path)) return fail(in_use_by_another(directory, path));
        if (is_at(file_, path)) break;
        ::close(std::exchange(file_, -1));
    }
    if (file_ < 0) {
        let_go();
        return fail(OpenError{unavailable, fmt::format("cannot lock {}: it is removed again and again", path)});
    }

    // For people who look into it, and for in_use_by_another. The lock itself does not depend on it.
    const std::string self = fmt::format("{}\n", ::getpid());
    if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, self.data(), self.size(), 0) < 0) {
        const int why = errno;
        let_go();
        return fail(OpenError{unavailable, fmt::format("cannot write {}: {}", path, std::strerror(why))});
    }
    return {};
}

OpenError DataLock::in_use_by_another(const std::string& directory, const std::string& path) {
    const long owner = owner_of(path);
    let_go();
    return {in_use, fmt::format("the data in {} is in use by {}; stop it, or name another directory", directory,
                                owner > 0 ? fmt::format("process {}", owner) : std::string("another process"))};
}

void DataLock::let_go() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
    if (directory_ >= 0) ::close(std::exchange(directory_, -1));
}

Result<void, OpenError> check_directory(const std::string& directory) {
    struct stat found{};
    if (::stat(directory.c_str(), &found) != 0) {
        return fail(
            OpenError{unavailable, fmt::format("cannot use the data directory {}: {}; make it, or name another one",
                                               directory, std::strerror(errno))});
    }
    if (!S_ISDIR(found.st_mode)) {
        return fail(
            OpenError{unavailable, fmt::format("{} is not a directory; name another one for the data", directory)});
    }
    return {};
}

}  // namespace interlock::store
