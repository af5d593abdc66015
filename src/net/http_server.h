// The HTTP/1.1 server: threads, connections, limits, and an orderly end.
//
//   (1) Each connection lives on one of the threads and its requests are answered in the order they came. The system
//       shows the threads as "http".
//   (2) A request that is not beyond doubt is refused and its connection closed (request_parser.h says what is).
//   (3) Every wait for a client has an end, and every size and count a limit in Options.
//   (4) When the destructor returns, nothing of the server runs any more. Whatever the handler refers to outlives it.
//
// No signals, no routes, no static files, no HTTP/2, no reload of certificates.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "net/http.h"

namespace interlock::net {

struct TlsFiles {
    std::string cert_file;  // PEM: the certificate, then its chain.
    std::string key_file;
};

// Whose request it is, as its head shows, and how much memory bodies of that owner may take together.
struct BodyOwner {
    std::string name;
    std::size_t bytes_max = 128u << 20;
};

struct HttpServerOptions {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;   // 0: one that is free; start() says which.
    std::size_t threads = 0;  // 0: as many as there are cores.
    std::optional<TlsFiles> tls = {};
    // A Unix socket to listen on as well, without TLS, for this user's and root's programs (local_socket.h). Empty:
    // none.
    std::string local_path = {};
    // Other users whose programs may connect there; asked for each connection. Not set: none, and none can.
    std::function<bool(std::uint32_t user)> local_users = {};

    std::vector<std::string> allowed_hosts = {};    // When not empty, another Host (its port is ignored) gets a 421.
    std::vector<std::string> allowed_origins = {};  // "https://example.org". The server's own is always allowed.

    std::size_t header_bytes_max = 16u << 10;  // Request line and headers together.
    std::size_t target_bytes_max = 8u << 10;
    std::size_t headers_max = 100;
    std::size_t body_bytes_max = 32u << 20;
    std::size_t body_bytes_all_max = 1u << 30;  // Of all requests being received or handled at a time.
    // Asked when a body does not come whole with its head, before more of it is read. The request stays where it is
    // until the answer is there. Nothing: the owner is not known; a larger body than `body_bytes_unowned_max` is then
    // refused with 401, and all such bodies together have `body_bytes_all_unowned_max`. Not set: owners are not asked
    // for.
    std::function<Task<std::optional<BodyOwner>>(const Request& head)> body_owner = {};
    std::size_t body_bytes_unowned_max = 64u << 10;
    std::size_t body_bytes_all_unowned_max = 128u << 20;
    std::size_t connections_max = 20'000;
    std::size_t connections_per_visitor_max = 512;  // By one entrance; more are closed at once.

    std::chrono::milliseconds idle_timeout{75'000};    // Between two requests.
    std::chrono::milliseconds header_timeout{10'000};  // From the first byte of a request, or from connecting.
    std::chrono::milliseconds body_timeout{10'000};    // A body may take this long, and longer by what it has brought:
    std::size_t body_bytes_per_second_min = 16u << 10;
    std::chrono::milliseconds body_time_earned_max{60'000};
    std::chrono::milliseconds write_timeout{30'000};  // Without the client taking a byte.
    std::chrono::milliseconds linger_timeout{1'000};  // To read what a client still sends after its last answer.
    std::chrono::milliseconds tick{250};              // How often deadlines are looked at.
};

struct ListenError {
    enum class Kind {
        address_in_use,  // Another server is there.
        not_possible,    // The address, the permission or the certificate is wrong.
    };
    Kind kind;
    std::string detail;
};

struct HttpServerStats {
    std::uint64_t connections_open = 0;
    std::uint64_t connections_accepted = 0;
    std::uint64_t connections_refused = 0;  // Beyond connections_max.
    std::uint64_t requests = 0;             // Given to the handler.
    std::uint64_t requests_refused = 0;     // Not given to it.
    std::uint64_t handler_failures = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t streams_open = 0;
    std::uint64_t body_bytes = 0;  // Of requests that came in more than one piece and are not answered yet.
};

// Of IPv4, as open_entrance() takes one.
bool is_tcp_listener(int socket);

class HttpServer {
 public:
    using Options = HttpServerOptions;

    HttpServer(Options options, Handler handler, Log& log);
    ~HttpServer();  // Cuts what is still open; drain() first to be polite.
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    // Listens and starts the threads. The port is the real one.
    Result<std::uint16_t, ListenError> start();

    // Accepts on this listening socket as well, and closes it in the end. Its connections are plain, and say `visitor`
    // (peer.h). A visitor has one entrance: a new one takes the place of the old. Between start() and drain(), from any
    // thread.
    void open_entrance(std::string visitor, int listener);
    void close_entrance(std::string visitor);

    // Stops accepting, closes what is idle, tells streams and waits to end, lets requests in flight be answered with
    // "Connection: close". True when all of it ended in time; otherwise the rest is cut. Not from the server's threads.
    bool drain(std::chrono::milliseconds timeout);

    HttpServerStats stats() const;

 private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace interlock::net
