#include "net/local_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace interlock::net {
namespace {

// A directory, by whose descriptor a name in it is short.
class LocalPlace {
 public:
    explicit LocalPlace(const std::string& path) {
        const std::size_t slash = path.rfind('/');
        const std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
        name_ = slash == std::string::npos ? path : path.substr(slash + 1);
        directory_ = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    ~LocalPlace() {
        if (directory_ >= 0) ::close(directory_);
    }
    LocalPlace(const LocalPlace&) = delete;
    LocalPlace& operator=(const LocalPlace&) = delete;

    int directory() const { return directory_; }
    const std::string& name() const { return name_; }

    // Nothing when the directory cannot be opened, or the name is too long; errno says which.
    std::optional<sockaddr_un> address(const std::string& ending = "") const {
        if (directory_ < 0) return std::nullopt;
        const std::string path = fmt::format("/proc/self/fd/{}/{}{}", directory_, name_, ending);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (name_.empty() || path.size() >= sizeof address.sun_path) {
            errno = ENAMETOOLONG;
            return std::nullopt;
        }
        path.copy(address.sun_path, path.size());
        return address;
    }

 private:
    std::string name_;
    int directory_ = -1;
};

int make_local_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

int connect_to(int fd, const sockaddr_un& address) {
    return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

constexpr const char* while_it_is_made = ".new";

// Empty, or why no socket can be put there. A socket without a listener can be replaced.
std::string find_obstacle(const LocalPlace& place, const sockaddr_un& address, const std::string& path) {
    struct stat there{};
    if (::fstatat(place.directory(), place.name().c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? "" : fmt::format("cannot look at {}: {}", path, std::strerror(errno));
    }
    if (!S_ISSOCK(there.st_mode)) return fmt::format("{} is there and is not a socket; move it away", path);
    const int probe = make_local_socket();
    const int why = connect_to(probe, address);
    ::close(probe);
    return why == 0 ? fmt::format("another process listens on {}; name another path", path) : "";
}

}  // namespace

Result<LocalListener, std::string> LocalListener::open(const std::string& path, mode_t mode) {
    const LocalPlace place(path);
    const auto address = place.address();
    const auto beside = place.address(while_it_is_made);
    if (!address || !beside) return fail(fmt::format("cannot listen on {}: {}", path, std::strerror(errno)));
    if (auto obstacle = find_obstacle(place, *address, path); !obstacle.empty()) return fail(std::move(obstacle));

    const std::string name = place.name() + while_it_is_made;
    ::unlinkat(place.directory(), name.c_str(), 0);
    LocalListener made(path, make_local_socket());
    struct stat there{};
    const bool listening =
        made.fd_ >= 0 && ::bind(made.fd_, reinterpret_cast<const sockaddr*>(&*beside), sizeof *beside) == 0 &&
        ::fchmodat(place.directory(), name.c_str(), mode, 0) == 0 && ::listen(made.fd_, SOMAXCONN) == 0 &&
        ::fstatat(place.directory(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        ::renameat(place.directory(), name.c_str(), place.directory(), place.name().c_str()) == 0;
    if (!listening) {
        const int why = errno;
        ::unlinkat(place.directory(), name.c_str(), 0);
        return fail(fmt::format("cannot listen on {}: {}", path, std::strerror(why)));
    }
    made.device_ = there.st_dev;
    made.inode_ = there.st_ino;
    return made;
}

LocalListener::LocalListener(LocalListener&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      fd_(std::exchange(other.fd_, -1)),
      device_(other.device_),
      inode_(other.inode_) {}

LocalListener::~LocalListener() {
    if (fd_ >= 0) ::close(fd_);
    struct stat there{};
    const bool ours = !path_.empty() && inode_ != 0 && ::lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ &&
                      there.st_ino == inode_;
    if (ours) ::unlink(path_.c_str());
}

int LocalListener::release() { return std::exchange(fd_, -1); }

Result<int, std::string> connect_locally(const std::string& path, uid_t owner, std::chrono::milliseconds timeout) {
    const LocalPlace place(path);
    const auto address = place.address();
    if (!address) return fail(fmt::format("{}: {}", path, std::strerror(errno)));
    const int fd = make_local_socket();
    if (fd < 0) return fail(fmt::format("{}: {}", path, std::strerror(errno)));
    // The only wait is for room among those who connect, and the kernel bounds it by this.
    const timeval send_timeout{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_timeout, sizeof send_timeout);
    std::string problem;
    if (const int why = connect_to(fd, *address); why != 0) {
        problem = fmt::format("{}: {}", path, std::strerror(why));
    } else if (const auto user = peer_user(fd); user != owner) {
        problem =
            fmt::format("{} is listened on by user {}, and the data directory belongs to user {}; nothing was sent",
                        path, user ? std::to_string(*user) : "unknown", owner);
    }
    if (problem.empty()) return fd;
    ::close(fd);
    return fail(std::move(problem));
}

bool is_local(int socket) {
    int domain = 0;
    socklen_t size = sizeof domain;
    return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

std::optional<uid_t> peer_user(int socket) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return std::nullopt;
    return who.uid;
}

}  // namespace interlock::net
