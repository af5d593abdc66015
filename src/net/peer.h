// The program at the other end of a connection: which processes it is, as far as this machine's kernel shows it.
//
//   (1) Nothing is looked up before a caller asks: a connection only keeps when it was opened.
//   (2) A process is named only if it was there while it was asked for. Numbers that were taken over are left to the
//       caller, who gets the time by which the process must have begun.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace interlock::net {

// Who comes in by an entrance (http_server.h), and how many of its connections are open.
struct Visitor {
    const std::string name;
    std::atomic<std::size_t> connections = 0;
};

// What a connection keeps of its other end. For the connection's thread.
struct Peer {
    int socket = -1;  // -1: it is closed.
    bool local = false;
    std::chrono::nanoseconds connected_at{0};  // Since the boot.
    // By which entrance it came in (http_server.h); null: by the server's own addresses.
    std::shared_ptr<Visitor> visitor = {};
    // What callers found out, for the life of the connection.
    std::optional<bool> is_trusted = {};
    std::optional<bool> shares_files = {};
};
Peer peer_of(int socket);

// What the socket says of its other end. Good after the socket is closed.
struct PeerAddress {
    bool local = false;
    std::optional<uid_t> user = {};  // Of a local one.
    pid_t process = 0;
    std::shared_ptr<const int> handle = {};  // Of the process, where the kernel gives one.
    sockaddr_storage ours = {}, theirs = {};
    std::chrono::nanoseconds connected_at{0};
};
PeerAddress address_of(const Peer& peer);

struct PeerProcesses {
    enum class Where {
        here,       // They are in `processes`.
        elsewhere,  // On another machine, or another user's.
        hidden,     // On this machine, and no process that can be looked at holds the connection.
    };
    Where where = Where::hidden;
    std::vector<pid_t> processes = {};
    std::vector<pid_t> unreadable = {};    // Where hidden: this user's processes that cannot be looked at.
    std::chrono::nanoseconds begun_by{0};  // Since the boot: one that began later is another.
};
// Blocks: over TCP it reads the connections and the open files of the machine.
PeerProcesses processes_of(const PeerAddress& address);
// Whether the process that opened a local connection is still there. Yes where the kernel gave no handle.
bool may_be_there(const PeerAddress& address);

}  // namespace interlock::net
