// Takes the chunks of a body apart, for the server and the client.
//
// Ours and not Beast's: Beast 1.81 aborts on an assertion when the last chunk's five bytes come in pieces, and takes
// line breaks inside quoted extensions.
//
//   (1) A chunk's size is hexadecimal digits, then nothing or an extension without control characters, then CRLF.
//   (2) Trailers are refused: nobody here reads them, and they are one more place to hide a header.
#pragma once

#include <cstddef>
#include <string_view>

namespace interlock::net {

class ChunkedBody {
 public:
    enum class State { line, data, data_end, last, done, too_large, broken };

    static constexpr std::size_t line_bytes_max = 1'024;

    explicit ChunkedBody(std::size_t body_bytes_max) : bytes_left_max_(body_bytes_max) {}

    // Takes from the front of what has been received, up to the end of the next bytes of the body, and returns how many
    // were used up. `piece` is the bytes, as part of `received`; empty: give the rest again, with more behind it.
    std::size_t feed(std::string_view received, std::string_view& piece);

    State state() const { return state_; }
    bool wants_more() const { return state_ < State::done; }

 private:
    std::size_t take_line(std::string_view received);
    State state_after(std::string_view line);
    std::size_t take_data(std::string_view received, std::string_view& piece);
    std::size_t take_line_end(std::string_view received, State next);

    State state_ = State::line;
    std::size_t bytes_left_max_;
    std::size_t chunk_bytes_left_ = 0;
};

}  // namespace interlock::net
