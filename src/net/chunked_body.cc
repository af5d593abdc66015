#include "net/chunked_body.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace interlock::net {

std::size_t ChunkedBody::feed(std::string_view received, std::string_view& piece) {
    piece = {};
    std::size_t used = 0;
    while (wants_more() && piece.empty() && used < received.size()) {
        const std::string_view rest = received.substr(used);
        std::size_t taken = 0;
        if (state_ == State::line)
            taken = take_line(rest);
        else if (state_ == State::data)
            taken = take_data(rest, piece);
        else
            taken = take_line_end(rest, state_ == State::last ? State::done : State::line);
        if (taken == 0) break;
        used += taken;
    }
    return used;
}

std::size_t ChunkedBody::take_line(std::string_view received) {
    const std::size_t feed = received.find('\n');
    if (std::min(feed, received.size()) > line_bytes_max) state_ = State::broken;
    if (feed == std::string_view::npos || state_ == State::broken) return 0;
    state_ = state_after(received.substr(0, feed));
    return feed + 1;
}

ChunkedBody::State ChunkedBody::state_after(std::string_view line) {
    if (!line.ends_with('\r')) return State::broken;
    line.remove_suffix(1);
    std::uint64_t size = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
    if (error != std::errc()) return State::broken;

    line.remove_prefix(static_cast<std::size_t>(end - line.data()));
    const auto is_control = [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F; };
    if (!line.empty() && line.front() != ';') return State::broken;
    if (std::ranges::any_of(line, is_control)) return State::broken;

    if (size > bytes_left_max_) return State::too_large;
    bytes_left_max_ -= size;
    chunk_bytes_left_ = size;
    return size == 0 ? State::last : State::data;
}

std::size_t ChunkedBody::take_data(std::string_view received, std::string_view& piece) {
    piece = received.substr(0, chunk_bytes_left_);
    chunk_bytes_left_ -= piece.size();
    if (chunk_bytes_left_ == 0) state_ = State::data_end;
    return piece.size();
}

std::size_t ChunkedBody::take_line_end(std::string_view received, State next) {
    constexpr std::string_view line_end = "\r\n";
    const std::string_view found = received.substr(0, line_end.size());
    if (!line_end.starts_with(found)) state_ = State::broken;
    if (found != line_end) return 0;
    state_ = next;
    return line_end.size();
}

}  // namespace interlock::net
