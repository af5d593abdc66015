#include "shim/connection.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "shim/entrance.h"

namespace interlock::shim {
namespace {

constexpr std::int64_t retry_soon_ms = 100, retry_later_ms = 1'000;
constexpr std::int64_t soon_means_ms = 5'000;  // How long it is tried in short turns.
// A server that does not read is not told more and more. It misses beats, and those are worth nothing later.
constexpr std::size_t unsent_bytes_max = 64 << 10;

}  // namespace

bool Connection::connect(std::int64_t now_ms) {
    if (socket_ || now_ms < retry_at_) return false;
    if (lost_at_ < 0) lost_at_ = now_ms;
    retry_at_ = now_ms + (now_ms - lost_at_ < soon_means_ms ? retry_soon_ms : retry_later_ms);
    const std::string path = "/proc/self/fd/" + std::to_string(data_directory_) + "/supervisor.sock";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    Fd fresh(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fresh || ::connect(fresh.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return false;
    socket_ = std::move(fresh);
    reader_ = {};
    unsent_.clear();
    descriptor_ = -1;
    lost_ = false;
    heard_at_ = now_ms;
    return true;
}

void Connection::send(const FromShim& message, int descriptor) {
    if (!socket_ || unsent_.size() > unsent_bytes_max) return;
    if (descriptor >= 0) {
        descriptor_ = descriptor;
        descriptor_at_ = unsent_.size();
    }
    unsent_ += encode(to_message(message));
    flush();
}

void Connection::exchange(std::int64_t now_ms) {
    if (!socket_) return;
    receive(now_ms);
    flush();
    if (lost_ || reader_.broken()) lose(now_ms);
}

std::optional<FromServer> Connection::next() {
    while (const auto message = reader_.next()) {
        if (auto known = read_from_server(*message)) return known;
    }
    return std::nullopt;
}

// One part at a time, however much there is: the run's output must not wait for a talkative server.
void Connection::receive(std::int64_t now_ms) {
    char buffer[16 << 10];
    const ssize_t got = receive_with(socket_.get(), buffer, sizeof buffer, received_);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    lost_ = got <= 0;
    if (lost_) return;
    heard_at_ = now_ms;
    reader_.add({buffer, static_cast<std::size_t>(got)});
}

void Connection::flush() {
    while (!unsent_.empty()) {
        const bool comes_later = descriptor_ >= 0 && descriptor_at_ > 0;
        const ssize_t sent = send_with(socket_.get(), unsent_.data(), comes_later ? descriptor_at_ : unsent_.size(),
                                       comes_later ? -1 : descriptor_);
        if (sent < 0 && errno == EINTR) continue;
        // What else can go wrong is noticed when reading.
        if (sent < 0) return;
        if (!comes_later) descriptor_ = -1;
        if (comes_later) descriptor_at_ -= static_cast<std::size_t>(sent);
        unsent_.erase(0, static_cast<std::size_t>(sent));
    }
}

void Connection::lose(std::int64_t now_ms) {
    socket_.reset();
    unsent_.clear();
    lost_at_ = now_ms;
    retry_at_ = now_ms + retry_soon_ms;
}

}  // namespace interlock::shim
