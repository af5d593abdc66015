// A file descriptor that closes itself, and the few things everybody does with one.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace interlock::shim {

class Fd {
 public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        other.reset();
        return *this;
    }
    ~Fd() { reset(); }

    // Another one of the same open file; nothing if this is nothing.
    Fd duplicate() const { return Fd(fd_ < 0 ? -1 : fcntl(fd_, F_DUPFD_CLOEXEC, 0)); }

    explicit operator bool() const { return fd_ >= 0; }
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }
    void reset() {
        // Closing must not hide why something before it failed.
        const int error = errno;
        if (fd_ >= 0) close(fd_);
        fd_ = -1;
        errno = error;
    }

 private:
    int fd_ = -1;
};

// As send() and recv() do, with a descriptor if there is one. `received` is replaced by what came.
ssize_t send_with(int socket, std::string_view bytes, const Fd& passed);
ssize_t receive_with(int socket, char* buffer, std::size_t size, Fd& received);

// Empty when it cannot be opened or read.
std::optional<std::string> read_file(const std::string& path);
// False when not all of it was written; errno says why.
bool write_all(int fd, std::string_view bytes);

}  // namespace interlock::shim
