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

// 0, or why not.
int lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }

// Who wrote itself down as the one who has it; 0: nobody.
long owner_of(int fd) {
    char text[32] = {};
    return ::pread(fd, text, sizeof text - 1, 0) > 0 ? std::strtol(text, nullptr, 10) : 0;
}

bool owner_is_gone(int fd) {
    const long owner = owner_of(fd);
    return owner > 0 && ::kill(static_cast<pid_t>(owner), 0) != 0 && errno == ESRCH;
}

}  // namespace

Result<void, OpenError> DataLock::take(const std::string& directory) {
    if (held()) return {};
    if (auto good = check_directory(directory); !good) return good;

    const std::string path = directory + "/interlock.lock";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        return fail(OpenError{unavailable, fmt::format("cannot write {}: {}; the data directory must be writable", path,
                                                       std::strerror(errno))});
    }
    fd_ = fd;
    int why = lock(fd);
    // Of a server that was killed, a child on its way to another program may hold the lock for a moment longer.
    for (int tries = 0; why == EWOULDBLOCK && owner_is_gone(fd) && tries < 100; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        why = lock(fd);
    }
    if (why != 0) {
        const long owner = owner_of(fd);
        let_go();
        if (why != EWOULDBLOCK) {
            return fail(OpenError{unavailable, fmt::format("cannot lock {}: {}", path, std::strerror(why))});
        }
        return fail(OpenError{
            in_use, fmt::format("the data in {} is in use by {}; stop it, or name another directory", directory,
                                owner > 0 ? fmt::format("process {}", owner) : std::string("another process"))});
    }
    // For people who look into it, and for the message above. The lock itself does not depend on it.
    const std::string self = fmt::format("{}\n", ::getpid());
    if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, self.data(), self.size(), 0) < 0) {
        why = errno;
        let_go();
        return fail(OpenError{unavailable, fmt::format("cannot write {}: {}", path, std::strerror(why))});
    }
    return {};
}

void DataLock::let_go() {
    if (held()) ::close(std::exchange(fd_, -1));
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
