// Takes requests out of the bytes of a connection, and refuses every one that two readers could understand differently.
//
// Beast's parser reads the head. What it accepts and we do not is checked here, and each check has its test:
//
//   (1) The head is complete, within its limits, has no bare LF and no folded line before it is looked at.
//   (2) One Host, of letters, digits, dots and a port; at most one each of the headers that decide something.
//   (3) The target is a path with well-formed percent-encoding; no fragment. What is for another server has its host
//       and port, and is taken only where Limits say so; a CONNECT has no body.
//   (4) The body has one length: one Content-Length of digits, or the one coding "chunked" in HTTP/1.1, read by
//       chunked_body.h.
//
// After a refusal the parser is of no use any more: where the next request would begin is anybody's guess.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/http.h"

namespace interlock::net {

struct Refusal {
    int status = 0;
    std::string_view code;
    std::string detail;
};

class RequestParser {
 public:
    struct Limits {
        std::size_t header_bytes_max = 16u << 10;
        std::size_t target_bytes_max = 8u << 10;
        std::size_t headers_max = 100;
        std::size_t body_bytes_max = 32u << 20;
        bool proxied = false;  // Also takes what is for other servers: CONNECT, and targets with http://.
    };
    enum class State { head, body, done, refused };

    explicit RequestParser(Limits limits);
    ~RequestParser();

    // Takes from the front of what has been received, and returns how many bytes were used up. Until the head is
    // complete none are: call again with the same bytes and more behind them. Stops at the end of a request.
    std::size_t feed(std::string_view received);
    State state() const { return state_; }

    // When done, or from the end of the head on.
    Request& request();
    bool keep_alive() const;
    bool http_1_0() const;
    bool expects_continue() const;

    const Refusal& refusal() const;  // When refused.

    void begin_next();  // After a request is done.

 private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
    State state_ = State::head;
};

}  // namespace interlock::net
