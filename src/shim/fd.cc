#include "shim/fd.h"

#include <sys/socket.h>

#include <cstring>

namespace interlock::shim {
namespace {

// Room for one descriptor beside a message.
union Beside {
    cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

}  // namespace

ssize_t send_with(int socket, std::string_view bytes, const Fd& passed) {
    iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
    Beside beside{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (passed) {
        const int fd = passed.get();
        message.msg_control = &beside;
        message.msg_controllen = sizeof beside;
        beside.header.cmsg_level = SOL_SOCKET;
        beside.header.cmsg_type = SCM_RIGHTS;
        beside.header.cmsg_len = CMSG_LEN(sizeof fd);
        std::memcpy(CMSG_DATA(&beside.header), &fd, sizeof fd);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t receive_with(int socket, char* buffer, std::size_t size, Fd& received) {
    iovec part{.iov_base = buffer, .iov_len = size};
    Beside beside{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &beside;
    message.msg_controllen = CMSG_LEN(sizeof(int));  // The padding would have room for a second one.
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    const cmsghdr* header = got < 0 ? nullptr : CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len >= CMSG_LEN(sizeof(int))) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
        received = Fd(fd);
    }
    return got;
}

std::optional<std::string> read_file(const std::string& path) {
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return std::nullopt;
    std::string out;
    char buffer[4096];
    for (;;) {
        const ssize_t got = read(file.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) return out;
        out.append(buffer, static_cast<std::size_t>(got));
    }
}

bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

}  // namespace interlock::shim
