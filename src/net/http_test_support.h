// For tests: a running server with a log one can read, and a client and a server that are nothing but sockets.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "net/http_server.h"
#include "net/test_certificate.h"

namespace interlock::net {

using std::chrono::milliseconds;

// Waits for something that another thread brings about. The tests' only sleep.
template <class Condition>
bool eventually(Condition condition) {
    for (int i = 0; i < 2'000; ++i) {
        if (condition()) return true;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
}

// A gate between a test and a handler.
class Gate {
 public:
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    bool wait() {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(5), [this] { return open_; });
    }

 private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
};

// Logs into a string.
class TestLog {
 public:
    Log& log() { return log_; }
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }

 private:
    std::mutex mutex_;
    std::string text_;
    Log log_{{.clock = [] { return far_past; },
              .write =
                  [this](std::string_view line) {
                      const std::lock_guard lock(mutex_);
                      text_.append(line);
                  }}};
};

// Says what it was asked: "POST /a?b body".
inline Task<Response> echo(Request request) {
    Response response;
    response.content_type = "text/plain";
    response.body.append(name_of(request.method)).append(" ").append(request.target).append(" ").append(request.body);
    co_return response;
}

inline HttpServerOptions test_options() {
    HttpServerOptions options;
    options.threads = 2;
    options.tick = milliseconds(10);
    options.linger_timeout = milliseconds(200);
    return options;
}

class TestServer {
 public:
    explicit TestServer(Handler handler = echo, HttpServerOptions options = test_options())
        : server(std::move(options), std::move(handler), log.log()) {
        const auto started = server.start();
        EXPECT_TRUE(started) << started.error().detail;
        port = started ? *started : std::uint16_t{0};
    }

    TestLog log;
    HttpServer server;
    std::uint16_t port = 0;
};

class RawClient {
 public:
    explicit RawClient(std::uint16_t port) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        timeval timeout{.tv_sec = 5, .tv_usec = 0};
        ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        connected_ = ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    ~RawClient() { close(); }
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    bool connected() const { return connected_; }
    void close() {
        if (descriptor_ >= 0) ::close(descriptor_);
        descriptor_ = -1;
    }
    void finish_sending() { ::shutdown(descriptor_, SHUT_WR); }

    void send(std::string_view text) {
        while (!text.empty()) {
            const auto count = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
            if (count <= 0) return;
            text.remove_prefix(static_cast<std::size_t>(count));
        }
    }

    // One answer with a Content-Length: head and body. Shorter when the connection ends before.
    std::string receive() { return receive_until(&RawClient::is_whole); }
    // An answer without a body.
    std::string receive_head() { return receive_until(&RawClient::has_head); }
    // Everything up to the end of the connection; "(reset)" or "(silence)" is added when that is how it ended.
    std::string receive_all() {
        return receive_until([](const std::string&) { return std::string::npos; }) + ending_;
    }
    std::string receive_until_contains(std::string_view text) {
        return receive_until([text](const std::string& received) {
            const auto found = received.find(text);
            return found == std::string::npos ? found : found + text.size();
        });
    }
    std::string ask(std::string_view text) {
        send(text);
        return receive();
    }
    bool is_closed_by_peer() { return receive_all().empty() && ending_.empty(); }

 private:
    static std::size_t has_head(const std::string& received) {
        const auto end = received.find("\r\n\r\n");
        return end == std::string::npos ? end : end + 4;
    }
    static std::size_t is_whole(const std::string& received) {
        const auto head = has_head(received);
        const auto length = received.find("Content-Length: ");
        if (head == std::string::npos || length > head) return head;
        const std::size_t size = head + std::stoul(received.substr(length + 16, 20));
        return size <= received.size() ? size : std::string::npos;
    }

    // Gives back the first so many bytes as `end` says, once it says so.
    template <class End>
    std::string receive_until(End end) {
        while (true) {
            const std::size_t size = std::invoke(end, received_);
            if (size != std::string::npos) {
                std::string result = received_.substr(0, size);
                received_.erase(0, size);
                return result;
            }
            char piece[4096];
            const auto count = ::recv(descriptor_, piece, sizeof piece, 0);
            if (count <= 0) {
                ending_ = count == 0 ? "" : errno == EAGAIN ? "(silence)" : "(reset)";
                return std::exchange(received_, {});
            }
            received_.append(piece, static_cast<std::size_t>(count));
        }
    }

    int descriptor_;
    bool connected_ = false;
    std::string received_;
    std::string ending_;
};

// Accepts one connection after another and does to each what it is told.
class RawServer {
 public:
    using Talk = std::function<void(int descriptor)>;

    explicit RawServer(std::vector<Talk> talks) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::listen(descriptor_, 5);
        socklen_t size = sizeof address;
        ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size);
        port = ntohs(address.sin_port);
        thread_ = std::thread([this, todo = std::move(talks)] {
            for (const Talk& talk : todo) {
                const int peer = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
                talk(peer);
                ::close(peer);
                ++served;
            }
        });
    }
    ~RawServer() {
        ::shutdown(descriptor_, SHUT_RDWR);
        thread_.join();
        ::close(descriptor_);
    }

    std::uint16_t port = 0;
    std::atomic<int> served = 0;

 private:
    int descriptor_;
    std::thread thread_;
};

inline void read_request(int descriptor) {
    std::string received;
    char piece[1024];
    while (received.find("\r\n\r\n") == std::string::npos) {
        const auto count = ::recv(descriptor, piece, sizeof piece, 0);
        if (count <= 0) return;
        received.append(piece, static_cast<std::size_t>(count));
    }
}

inline RawServer::Talk answer_with(std::string text) {
    return [text](int descriptor) {
        read_request(descriptor);
        ::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL);
    };
}

inline void stay_silent(int descriptor) {
    read_request(descriptor);
    char byte = 0;
    while (::recv(descriptor, &byte, 1, 0) > 0) continue;
}

inline std::string status_of(const std::string& answer) { return answer.substr(0, answer.find("\r\n")); }
inline std::string body_of(const std::string& answer) {
    const auto end = answer.find("\r\n\r\n");
    return end == std::string::npos ? "" : answer.substr(end + 4);
}
inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

inline std::string get(const std::string& target) { return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n"; }
inline std::string post(const std::string& target, const std::string& body, const std::string& headers = "") {
    return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline HttpServerOptions secure_options(const TestCertificate& certificate) {
    auto options = test_options();
    options.tls = certificate.files;
    return options;
}

}  // namespace interlock::net
