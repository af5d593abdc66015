// A wire between a test and the server that can be cut at the worst moment.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace interlock::store {

class PostgresRelay {
 public:
    enum class Cut {
        nothing,
        before_the_server,  // What is sent next goes nowhere.
        after_the_server,   // What is sent next is carried out, and its answer goes nowhere.
        at_once,            // What is sent next gets to the server, and nobody stays to see what becomes of it.
    };

    explicit PostgresRelay(std::uint16_t server_port) : server_port_(server_port) {
        listener_ = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
        listen(listener_, 16);
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        thread_ = std::jthread([this](std::stop_token stop) { accept_all(stop); });
    }
    ~PostgresRelay() {
        thread_.request_stop();
        thread_.join();
        ::close(listener_);
    }
    PostgresRelay(const PostgresRelay&) = delete;
    PostgresRelay& operator=(const PostgresRelay&) = delete;

    std::uint16_t port() const { return port_; }
    // Happens once, to whichever connection sends next.
    void cut_next(Cut cut) { cut_ = cut; }

 private:
    static sockaddr_in loopback(std::uint16_t port) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port);
        return address;
    }

    void accept_all(const std::stop_token& stop) {
        std::vector<std::jthread> wires;
        while (!stop.stop_requested()) {
            pollfd polled{listener_, POLLIN, 0};
            if (poll(&polled, 1, 20) <= 0) continue;
            const int client = accept(listener_, nullptr, nullptr);
            const int server = socket(AF_INET, SOCK_STREAM, 0);
            const sockaddr_in address = loopback(server_port_);
            connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address);
            wires.emplace_back([this, client, server](std::stop_token wire_stop) {
                carry(wire_stop, client, server);
                ::close(client);
                ::close(server);
            });
        }
    }

    void carry(const std::stop_token& stop, int client, int server) {
        bool withhold = false;
        std::array<char, 65536> buffer;
        while (!stop.stop_requested()) {
            std::array<pollfd, 2> polled{{{client, POLLIN, 0}, {server, POLLIN, 0}}};
            if (poll(polled.data(), polled.size(), 20) <= 0) continue;
            if (polled[0].revents != 0) {
                const ssize_t bytes = recv(client, buffer.data(), buffer.size(), 0);
                if (bytes <= 0) return;
                const Cut cut = cut_.exchange(Cut::nothing);
                if (cut == Cut::before_the_server) return;
                send_all(server, buffer.data(), static_cast<std::size_t>(bytes));
                if (cut == Cut::at_once) return;
                withhold = withhold || cut == Cut::after_the_server;
            }
            if (polled[1].revents != 0) {
                const ssize_t bytes = recv(server, buffer.data(), buffer.size(), 0);
                if (bytes <= 0 || withhold) return;  // The server answers a pipeline when it has reached its end.
                send_all(client, buffer.data(), static_cast<std::size_t>(bytes));
            }
        }
    }

    static void send_all(int to, const char* data, std::size_t size) {
        while (size > 0) {
            const ssize_t sent = send(to, data, size, MSG_NOSIGNAL);
            if (sent <= 0) return;
            data += sent;
            size -= static_cast<std::size_t>(sent);
        }
    }

    const std::uint16_t server_port_;
    std::uint16_t port_ = 0;
    int listener_ = -1;
    std::atomic<Cut> cut_ = Cut::nothing;
    std::jthread thread_;
};

}  // namespace interlock::store
