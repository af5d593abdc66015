// Takes the chunks of a body apart, for the server and the client.
//
// Ours and not Beast's: Beast 1.81 aborts on an assertion when the last chunk's five bytes come in pieces, and takes
// line breaks inside quoted extensions.
//
//   (1) A chunk's size is hexadecimal digits, then nothing or an extension without control characters, then CRLF.
//   (2) Trailers are refused: nobody here reads them, and they are one more place to hide a header.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace interlock::net {

class ChunkedBody {
 public:
    using OnBytes = std::function<bool(std::string_view)>;  // False: stop.
    enum class State { line, data, data_end, last, done, stopped, too_large, broken };

    static constexpr std::size_t line_bytes_max = 1'024;

    explicit ChunkedBody(std::size_t body_bytes_max) : bytes_left_max_(body_bytes_max) {}

    // Returns how many bytes were used up; the rest is given again, with more behind it.
    std::size_t feed(std::string_view received, const OnBytes& on_bytes);

    State state() const { return state_; }
    bool wants_more() const { return state_ < State::done; }

 private:
    std::size_t take_line(std::string_view received);
    State state_after(std::string_view line);
    std::size_t take_data(std::string_view received, const OnBytes& on_bytes);
    std::size_t take_line_end(std::string_view received, State next);

    State state_ = State::line;
    std::size_t bytes_left_max_;
    std::size_t chunk_bytes_left_ = 0;
};

}  // namespace interlock::net
