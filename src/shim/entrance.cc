#include "shim/entrance.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>

namespace interlock::shim {
namespace {

// A sender may put more descriptors into one message than were asked for. All of them must be closed.
constexpr std::size_t descriptors_max = 8;

bool switch_loopback_on() {
    const Fd socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket_) return false;
    ifreq loopback{};
    std::strncpy(loopback.ifr_name, "lo", sizeof loopback.ifr_name - 1);
    if (ioctl(socket_.get(), SIOCGIFFLAGS, &loopback) != 0) return false;
    loopback.ifr_flags = static_cast<short>(loopback.ifr_flags | IFF_UP | IFF_RUNNING);
    return ioctl(socket_.get(), SIOCSIFFLAGS, &loopback) == 0;
}

}  // namespace

bool open_entrance(int port, Fd& entrance) {
    if (!switch_loopback_on()) return false;
    if (port == 0) return true;
    Fd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listening) return false;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return false;
    if (listen(listening.get(), SOMAXCONN) != 0) return false;
    entrance = std::move(listening);
    return true;
}

ssize_t send_with(int socket, const void* bytes, std::size_t size, int descriptor) {
    if (descriptor < 0) return send(socket, bytes, size, MSG_NOSIGNAL);
    iovec part{.iov_base = const_cast<void*>(bytes), .iov_len = size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t receive_with(int socket, void* bytes, std::size_t size, Fd& descriptor) {
    iovec part{.iov_base = bytes, .iov_len = size};
    alignas(cmsghdr) char control[CMSG_SPACE(descriptors_max * sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0) return got;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int number = -1;
            std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
            Fd came(number);
            if (!descriptor) descriptor = std::move(came);
        }
    }
    return got;
}

}  // namespace interlock::shim
