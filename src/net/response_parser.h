// Takes one response out of the bytes of a connection, for whoever asked: the head, then the body piece by piece.
//
// Interim answers (100 Continue) are skipped. A response with two lengths or an unknown coding is broken.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

namespace interlock::net {

class ResponseParser {
 public:
    enum class State { head, body, done, broken };

    ResponseParser(Method request_method, std::size_t head_bytes_max);
    ~ResponseParser();

    // Takes from the front of what has been received, up to the end of the head or of the next piece of the body, and
    // returns how many bytes were used up. `piece` is part of `received`. When it is empty and the state is what it
    // was, give the rest again, with more behind it.
    std::size_t feed(std::string_view received, std::string_view& piece);
    // The connection has ended. True when that is how this response ends.
    bool feed_end();

    State state() const { return state_; }
    bool wants_more() const { return state_ < State::done; }
    const std::string& detail() const;  // When broken.

    // From the end of the head on.
    int status() const;
    std::vector<Header>& headers();  // Names in lower case.
    bool keep_alive() const;

 private:
    struct Parts;
    std::size_t feed_head(std::string_view received);
    std::size_t feed_chunks(std::string_view received, std::string_view& piece);
    std::size_t feed_bytes(std::string_view received, std::string_view& piece);

    std::unique_ptr<Parts> parts_;
    State state_ = State::head;
};

}  // namespace interlock::net
