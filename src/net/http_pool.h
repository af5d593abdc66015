// Requests to other servers, from coroutines, over connections that are kept.
//
//   (1) One pool per io_context: no lock, and an exchange lives on the thread that began it.
//   (2) could_not_connect and tls_failed mean that no byte of the request was sent; outcome_unknown means that
//       some were and no whole answer came. Nothing is ever sent twice by itself: a kept connection that its
//       server has closed is noticed before it is used.
//   (3) A server is believed only with a certificate for its name, signed by the system's authorities or ca_file.
//   (4) Every wait has an end: connecting, the first byte, the silence between two pieces.
//   (5) An answer is read as fast as its reader asks for it and no faster: at most one buffer of it is in memory.
//
// No redirects, no cookies, no compression, no proxy, no HTTP/2.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http.h"
#include "net/http_client.h"

namespace interlock::net {

struct Origin {
    bool secure = false;
    std::string host = {};
    std::uint16_t port = 80;
    std::string ca_file = {};  // PEM; believed besides the system's authorities.
    // Whose connections these are. One is used again only by requests with the same name here, so that what one party
    // leaves behind on a connection cannot reach another.
    std::string pool = {};
    // Connects over TLS only, and only to public addresses (public_address.h). Looked at when the name is resolved, for
    // each connection: a name that led elsewhere before does not help.
    bool public_only = false;

    friend auto operator<=>(const Origin&, const Origin&) = default;
};

struct OutRequest {
    Method method = Method::post;
    std::string target = "/";
    std::vector<Header> headers = {};  // Host and Content-Length are added.
    std::string body = {};             // Not sent, and the request refused, where the method defines none.
};

struct HttpTimeouts {
    std::chrono::milliseconds connect{5'000};
    std::chrono::milliseconds first_byte{60'000};  // From the request's last byte.
    std::chrono::milliseconds silence{60'000};     // Between two pieces of the answer.
};

// One request and its answer, from the answer's head on. Destroyed before its end it closes the connection.
class HttpExchange {
 public:
    virtual ~HttpExchange() = default;

    int status = 0;
    std::vector<Header> headers = {};  // Names in lower case.
    std::string_view header(std::string_view lower_case_name) const { return find_header(headers, lower_case_name); }

    // The next piece of the body, valid until the next call; empty at its end.
    virtual Task<Result<std::string_view, ClientError>> read() = 0;
};

class HttpPool {
 public:
    static constexpr std::size_t kept_per_origin_max = 256;
    static constexpr std::chrono::seconds kept_for{55};

    virtual ~HttpPool() = default;
    // The one of this io_context, made at the first call. It ends with the io_context.
    static HttpPool& of(const Executor& executor);

    // Up to the head of the answer; interim answers are skipped.
    virtual Task<Result<std::unique_ptr<HttpExchange>, ClientError>> send(Origin origin, OutRequest request,
                                                                          HttpTimeouts timeouts) = 0;
};

}  // namespace interlock::net
