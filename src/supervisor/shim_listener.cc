#include "supervisor/shim_listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "shim/entrance.h"

namespace interlock::supervisor {
namespace {

// What an event of the poll is about. Guests are counted from here on.
constexpr std::uint64_t the_door = 0;
constexpr std::uint64_t the_wake_up = 1;
constexpr std::uint64_t connections_from = 2;
constexpr int parts_at_once = 16;

bool watch(const shim::Fd& poll, const shim::Fd& fd, std::uint64_t what, std::uint32_t events, int operation) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = what;
    return ::epoll_ctl(poll.get(), operation, fd.get(), &event) == 0;
}

std::string why_not(const std::string& what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

}  // namespace

Result<std::unique_ptr<ShimListener>, std::string> ShimListener::open(const std::string& directory) {
    std::unique_ptr<ShimListener> door(new ShimListener());
    // The name of a socket may have 107 bytes, which a data directory easily exceeds; a descriptor of it never does.
    const shim::Fd parent(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!parent) return fail(why_not("cannot open " + directory));
    const std::string path = fmt::format("/proc/self/fd/{}/{}", parent.get(), name);
    ::unlink(path.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);

    door->listening_ = shim::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const bool bound =
        door->listening_ &&
        ::bind(door->listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::chmod(path.c_str(), 0600) == 0 && ::listen(door->listening_.get(), SOMAXCONN) == 0;
    if (!bound) return fail(why_not(fmt::format("cannot listen on {}/{}", directory, name)));
    door->poll_ = shim::Fd(::epoll_create1(EPOLL_CLOEXEC));
    door->wake_up_ = shim::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const bool watched = door->poll_ && door->wake_up_ &&
                         watch(door->poll_, door->listening_, the_door, EPOLLIN, EPOLL_CTL_ADD) &&
                         watch(door->poll_, door->wake_up_, the_wake_up, EPOLLIN, EPOLL_CTL_ADD);
    if (!watched) return fail(why_not("cannot watch for shims"));
    door->connections_ = connections_from;
    return door;
}

void ShimListener::wake() {
    const std::uint64_t once = 1;
    (void)!::write(wake_up_.get(), &once, sizeof once);
}

std::vector<ShimListener::Heard> ShimListener::wait(std::chrono::milliseconds timeout) {
    // The caller has dealt with all that was heard, so a guest that gives way now has not proven anything.
    if (std::exchange(knocked_, false)) let_in();
    std::array<epoll_event, 128> events;
    const int count =
        ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(timeout.count()));
    std::vector<Heard> heard;
    for (int i = 0; i < count; ++i) {
        const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
        if (what == the_door) {
            knocked_ = true;
        } else if (what == the_wake_up) {
            std::uint64_t rung = 0;
            (void)!::read(wake_up_.get(), &rung, sizeof rung);
        } else if (const auto found = visits_.find(what); found != visits_.end()) {
            const ConnectionId connection(what);
            const std::uint32_t happened = events[static_cast<std::size_t>(i)].events;
            bool stays = (happened & EPOLLOUT) == 0 || write_to(connection, found->second);
            if (stays && (happened & ~std::uint32_t{EPOLLOUT}) != 0)
                stays = read_from(connection, found->second, heard);
            if (stays) continue;
            heard.push_back({connection, found->second.process, std::nullopt, {}});
            strangers_.erase(what);
            visits_.erase(found);
        }
    }
    end_long_stays(heard);
    return heard;
}

void ShimListener::end_long_stays(std::vector<Heard>& heard) {
    const auto came_before = std::chrono::steady_clock::now() - stranger_stays;
    while (!strangers_.empty() && strangers_.begin()->second < came_before) {
        const ConnectionId connection(strangers_.begin()->first);
        heard.push_back({connection, visits_.at(connection.value).process, std::nullopt, {}});
        show_out(connection);
    }
}

// As many at a time as there is always room for: each is read once before newer ones can take its place.
void ShimListener::let_in() {
    for (std::size_t i = 0; i < strangers_beside; ++i) {
        shim::Fd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) return;
        ucred who{};
        socklen_t size = sizeof who;
        const bool known = ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0;
        if (!known || (who.uid != ::geteuid() && who.uid != 0)) continue;
        const std::uint64_t number = connections_++;
        if (!watch(poll_, socket, number, EPOLLIN, EPOLL_CTL_ADD)) continue;
        if (strangers_.size() >= strangers_per_run * live_runs_ + strangers_beside) {
            show_out(ConnectionId(strangers_.begin()->first));
        }
        Visit& visit = visits_.emplace(number, Visit{.socket = std::move(socket), .process = who.pid}).first->second;
        visit.reader.limit(message_of_stranger_max);
        strangers_.emplace(number, std::chrono::steady_clock::now());
    }
}

// False when the guest has left, or makes no sense.
bool ShimListener::read_from(ConnectionId connection, Visit& visit, std::vector<Heard>& heard) {
    std::array<char, 16384> buffer;
    // Whoever says more has his turn again, after the others.
    for (int part = 0; part < parts_at_once; ++part) {
        const ssize_t got = shim::receive_with(visit.socket.get(), buffer.data(), buffer.size(), visit.entrance);
        if (got < 0) return errno == EAGAIN || errno == EINTR;
        if (got == 0) return false;
        visit.reader.add({buffer.data(), static_cast<std::size_t>(got)});
        while (const auto message = visit.reader.next()) {
            // A verb of a newer release is passed over.
            auto known = shim::read_from_shim(*message);
            if (!known) continue;
            const bool brings_entrance = std::holds_alternative<shim::Entrance>(*known);
            heard.push_back({connection, visit.process, std::move(*known),
                             brings_entrance ? std::exchange(visit.entrance, shim::Fd()) : shim::Fd()});
        }
        if (visit.reader.broken()) return false;
    }
    return true;
}

bool ShimListener::write_to(ConnectionId connection, Visit& visit) {
    while (!visit.unsent.empty()) {
        const ssize_t sent = shim::send_with(visit.socket.get(), visit.unsent, visit.passing);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno != EAGAIN) return false;
        if (sent < 0) break;
        visit.passing.reset();
        visit.unsent.erase(0, static_cast<std::size_t>(sent));
    }
    if (visit.unsent.size() > unsent_max) return false;
    if (visit.asks_to_write == !visit.unsent.empty()) return true;
    visit.asks_to_write = !visit.unsent.empty();
    const std::uint32_t events = visit.asks_to_write ? EPOLLIN | EPOLLOUT : EPOLLIN;
    return watch(poll_, visit.socket, connection.value, events, EPOLL_CTL_MOD);
}

void ShimListener::send(ConnectionId connection, const shim::FromServer& message, const shim::Fd& with) {
    const auto found = visits_.find(connection.value);
    if (found == visits_.end()) return;
    if (with) found->second.passing = shim::Fd(::fcntl(with.get(), F_DUPFD_CLOEXEC, 0));
    found->second.unsent += shim::encode(shim::to_message(message));
    // Who cannot be written to any more is heard to leave by the next wait.
    if (!write_to(connection, found->second)) ::shutdown(found->second.socket.get(), SHUT_RDWR);
}

void ShimListener::admit(ConnectionId connection) {
    strangers_.erase(connection.value);
    const auto found = visits_.find(connection.value);
    if (found != visits_.end()) found->second.reader.limit(shim::message_bytes_max);
}

void ShimListener::show_out(ConnectionId connection) {
    strangers_.erase(connection.value);
    visits_.erase(connection.value);
}

}  // namespace interlock::supervisor
