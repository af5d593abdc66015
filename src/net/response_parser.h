// Takes one response out of the bytes of a connection, for the client.
//
// Interim answers (100 Continue) are skipped. A response with two lengths or an unknown coding is broken.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "net/http_client.h"

namespace interlock::net {

class ResponseParser {
 public:
    using OnChunk = std::function<bool(std::string_view)>;
    enum class State { more, done, stopped, broken };  // Stopped: by on_chunk.

    // With on_chunk, the body of a 2xx goes there as it comes.
    ResponseParser(Method request_method, std::size_t body_bytes_max, OnChunk on_chunk);
    ~ResponseParser();

    // Returns how many bytes were used up; the rest is given again, with more behind it.
    std::size_t feed(std::string_view received);
    // The connection has ended. True when that is how this response ends.
    bool feed_end();

    State state() const { return state_; }
    const std::string& detail() const;  // When broken.
    ClientResponse& response();
    bool keep_alive() const;

 private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
    State state_ = State::more;
};

}  // namespace interlock::net
