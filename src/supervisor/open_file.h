// A descriptor that is closed with its owner.
#pragma once

#include <cerrno>
#include <utility>

#include <unistd.h>

namespace interlock::supervisor {

class OpenFile {
 public:
    OpenFile() = default;
    explicit OpenFile(int fd) : fd_(fd) {}
    OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    OpenFile& operator=(OpenFile&& other) noexcept {
        OpenFile old(std::exchange(fd_, std::exchange(other.fd_, -1)));
        return *this;
    }
    ~OpenFile() {
        // Closing one file must not hide why the next could not be opened.
        const int error = errno;
        if (fd_ >= 0) close(fd_);
        errno = error;
    }
    explicit operator bool() const { return fd_ >= 0; }
    int fd() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }

 private:
    int fd_ = -1;
};

}  // namespace interlock::supervisor
