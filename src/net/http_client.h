// A blocking HTTP/1.1 client for command lines and tests.
//
//   (1) could_not_connect and tls_failed mean that no byte of the request was sent; outcome_unknown means that some
//       were and no answer came. Nothing else decides whether a request may be repeated.
//   (2) One client has one connection, kept between requests. Only a GET or HEAD is sent again by itself, when a kept
//       connection turns out to have been closed.
//   (3) A server is believed only with a certificate for its name, signed by the system's authorities or ca_file.
//
// No redirects, no cookies, no compression, no proxy. Not for two threads at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http.h"

namespace interlock::net {

struct Url {
    bool secure = false;
    std::string host = {};  // An IPv6 address without its brackets.
    std::uint16_t port = 80;
    std::string target = "/";
};
// Nothing but http://host[:port][/target] and https://…; the error is a sentence.
Result<Url, std::string> parse_url(std::string_view text);

struct ClientError {
    enum class Kind {
        could_not_connect,  // Nobody answers there, or not in time. Nothing was sent.
        tls_failed,         // Not who it claims to be. Nothing was sent.
        outcome_unknown,    // Sent, at least in part, and no whole answer came, or not in time.
        bad_response,       // What came is not HTTP, or too large.
    };
    Kind kind;
    std::string detail;
    bool timed_out = false;  // Our timeout has passed; the connection has not ended.
};

struct ClientRequest {
    Method method = Method::get;
    std::string target = "/";
    std::vector<Header> headers = {};  // Host and Content-Length are added.
    std::string body = {};
};

struct ClientResponse {
    int status = 0;
    std::vector<Header> headers;
    std::string body;

    std::string_view header(std::string_view lower_case_name) const { return find_header(headers, lower_case_name); }
};

class HttpClient {
 public:
    struct Options {
        std::chrono::milliseconds connect_timeout{5'000};
        std::chrono::milliseconds total_timeout{30'000};    // Of request(), connecting included.
        std::chrono::milliseconds silence_timeout{60'000};  // Of stream(): between two pieces.
        std::size_t body_bytes_max = 64u << 20;
        std::string ca_file = {};  // PEM; believed besides the system's authorities.
        bool public_only = false;  // Connects over TLS only, and only to public addresses (public_address.h).
        // A Unix socket to connect to in place of the URL's host and port, and the user whose server must listen there.
        std::string local_path = {};
        std::uint32_t local_owner = 0;
    };

    HttpClient(Url url, Options options);  // The URL's target is not used; each request has its own.
    ~HttpClient();
    HttpClient(HttpClient&&) noexcept;

    Result<ClientResponse, ClientError> request(ClientRequest request);

    // Gives the body of a 2xx to on_chunk, piece by piece as it arrives, until it ends or on_chunk returns false, which
    // closes the connection and is no error. Any other answer is returned as request() does.
    Result<ClientResponse, ClientError> stream(ClientRequest request, std::function<bool(std::string_view)> on_chunk);

 private:
    class Connection;
    std::unique_ptr<Connection> connection_;
};

}  // namespace interlock::net
