#include "net/peer.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "net/local_socket.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5.
#endif

namespace interlock::net {
namespace {

std::chrono::nanoseconds since_boot() {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

struct TcpEnd {
    uid_t user = 0;
    std::uint64_t inode = 0;
};

// As /proc/net/tcp writes an address: words of four bytes in the machine's order, then the port.
std::string text_of(const sockaddr_storage& address, bool as_v6) {
    std::array<std::uint32_t, 4> words{};
    std::size_t count = 1;
    std::uint16_t port = 0;
    if (address.ss_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, &address, sizeof six);
        std::memcpy(words.data(), &six.sin6_addr, sizeof words);
        port = ntohs(six.sin6_port);
        // A client that calls an IPv4 address has an IPv4 socket.
        if (!as_v6 && IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) words[0] = words[3];
        count = as_v6 ? 4 : 1;
    } else {
        sockaddr_in four{};
        std::memcpy(&four, &address, sizeof four);
        port = ntohs(four.sin_port);
        words[0] = four.sin_addr.s_addr;
        if (as_v6) words = {0, 0, htonl(0xffff), words[0]};
        count = as_v6 ? 4 : 1;
    }
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:08X}", words[i]);
    return text + fmt::format(":{:04X}", port);
}

// The socket at the other end, if it is one of this machine's.
std::optional<TcpEnd> find_in(const char* table, const PeerAddress& address, bool as_v6) {
    const std::string ends = " " + text_of(address.theirs, as_v6) + " " + text_of(address.ours, as_v6) + " ";
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
        // "sl local remote state queues timer retransmits uid timeout inode …"
        const std::size_t at = line.find(ends);
        if (at == std::string::npos) continue;
        TcpEnd end;
        std::string_view rest = std::string_view(line).substr(at + ends.size());
        for (int word = 3; word <= 9 && !rest.empty(); ++word) {
            rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
            const std::string_view text = rest.substr(0, rest.find(' '));
            if (word == 7) std::from_chars(text.data(), text.data() + text.size(), end.user);
            if (word == 9) std::from_chars(text.data(), text.data() + text.size(), end.inode);
            rest.remove_prefix(text.size());
        }
        return end;
    }
    return std::nullopt;
}

std::optional<TcpEnd> find_end(const PeerAddress& address) {
    if (const auto found = find_in("/proc/self/net/tcp", address, false)) return found;
    return find_in("/proc/self/net/tcp6", address, true);
}

// As one of version 6, so that both kinds compare.
in6_addr host_in(const sockaddr& address) {
    if (address.sa_family == AF_INET6) return reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    in6_addr host = IN6ADDR_ANY_INIT;
    host.s6_addr[10] = host.s6_addr[11] = 0xff;
    std::memcpy(&host.s6_addr[12], &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
    return host;
}

// A program can call this machine by any of its addresses.
bool is_of_this_machine(const sockaddr_storage& address) {
    const in6_addr host = host_in(reinterpret_cast<const sockaddr&>(address));
    if (IN6_IS_ADDR_LOOPBACK(&host) || (IN6_IS_ADDR_V4MAPPED(&host) && host.s6_addr[12] == 127)) return true;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return true;
    bool found = false;
    for (const ifaddrs* each = all; each != nullptr && !found; each = each->ifa_next) {
        if (each->ifa_addr == nullptr) continue;
        const bool has_host = each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6;
        if (!has_host) continue;
        const in6_addr own = host_in(*each->ifa_addr);
        found = std::memcmp(&own, &host, sizeof own) == 0;
    }
    ::freeifaddrs(all);
    return found;
}

// Calls `visit` with the name of each entry, until it says that this is enough.
template <class Visit>
bool walk(const std::string& path, Visit visit) {
    DIR* directory = opendir(path.c_str());
    if (directory == nullptr) return false;
    while (const dirent* entry = readdir(directory)) {
        if (!visit(entry->d_name)) break;
    }
    closedir(directory);
    return true;
}

// By the status file: a process that may not be looked at belongs to root, also if another user runs it.
bool is_of_user(const std::string& process, uid_t user) {
    std::ifstream lines(process + "/status");
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("Uid:")) continue;
        const char* begin = line.data() + std::min(line.find_first_of("0123456789"), line.size());
        uid_t found = 0;
        return std::from_chars(begin, line.data() + line.size(), found).ec == std::errc() && found == user;
    }
    return false;
}

PeerProcesses holders_of(std::uint64_t inode) {
    PeerProcesses found;
    const std::string wanted = fmt::format("socket:[{}]", inode);
    walk("/proc", [&](std::string_view name) {
        pid_t pid = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error != std::errc() || end != name.data() + name.size()) return true;
        const std::string process = "/proc/" + std::string(name);
        const std::string files = process + "/fd";
        std::array<char, 64> link{};
        const bool readable = walk(files, [&](const char* fd) {
            const ssize_t length = readlink((files + "/" + fd).c_str(), link.data(), link.size());
            const bool holds = length > 0 && std::string_view(link.data(), static_cast<std::size_t>(length)) == wanted;
            if (holds) found.processes.push_back(pid);
            return !holds;
        });
        if (!readable && is_of_user(process, ::geteuid())) found.unreadable.push_back(pid);
        return true;
    });
    found.begun_by = since_boot();
    found.where = found.processes.empty() ? PeerProcesses::Where::hidden : PeerProcesses::Where::here;
    return found;
}

}  // namespace

Peer peer_of(int socket) { return {.socket = socket, .local = is_local(socket), .connected_at = since_boot()}; }

PeerAddress address_of(const Peer& peer) {
    PeerAddress address{.local = peer.local, .connected_at = peer.connected_at};
    if (!peer.local) {
        socklen_t size = sizeof address.ours;
        ::getsockname(peer.socket, reinterpret_cast<sockaddr*>(&address.ours), &size);
        size = sizeof address.theirs;
        ::getpeername(peer.socket, reinterpret_cast<sockaddr*>(&address.theirs), &size);
        return address;
    }
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(peer.socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return address;
    address.user = who.uid;
    address.process = who.pid;
    int handle = -1;
    size = sizeof handle;
    if (::getsockopt(peer.socket, SOL_SOCKET, SO_PEERPIDFD, &handle, &size) == 0) {
        address.handle = {new int(handle), [](const int* fd) {
                              ::close(*fd);
                              delete fd;
                          }};
    }
    return address;
}

PeerProcesses processes_of(const PeerAddress& address) {
    using Where = PeerProcesses::Where;
    if (address.local) {
        // 0: it is in a PID namespace that cannot be seen from here.
        if (address.process == 0 || !may_be_there(address)) return {.where = Where::hidden};
        return {.where = Where::here, .processes = {address.process}, .begun_by = address.connected_at};
    }
    if (address.theirs.ss_family == AF_UNSPEC) return {.where = Where::hidden};  // It has hung up.
    const auto end = find_end(address);
    if (!end) return {.where = is_of_this_machine(address.theirs) ? Where::hidden : Where::elsewhere};
    if (end->inode == 0) return {.where = Where::hidden};  // It has hung up, and no process holds it any more.
    PeerProcesses found = holders_of(end->inode);
    // Only root can look at another user's open files. Runs have this server's user.
    if (found.processes.empty() && ::geteuid() != 0 && end->user != ::geteuid()) {
        return {.where = Where::elsewhere};
    }
    return found;
}

bool may_be_there(const PeerAddress& address) {
    if (!address.handle) return true;
    pollfd ended{.fd = *address.handle, .events = POLLIN, .revents = 0};
    return ::poll(&ended, 1, 0) == 0;
}

}  // namespace interlock::net
