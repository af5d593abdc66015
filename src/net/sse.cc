#include "net/sse.h"

#include <utility>

namespace interlock::net {

std::string to_text(const SseEvent& event) {
    std::string text;
    text.reserve(event.data.size() + event.event.size() + event.id.size() + 32);
    if (!event.id.empty()) text.append("id: ").append(event.id).append("\n");
    if (!event.event.empty()) text.append("event: ").append(event.event).append("\n");
    std::size_t begin = 0;
    while (true) {
        // A reader takes each of \r\n, \r and \n for the end of a line, so each of them becomes a new data line.
        const std::size_t end = event.data.find_first_of("\r\n", begin);
        text.append("data: ").append(event.data, begin, end - begin).append("\n");
        if (end == std::string::npos) break;
        begin = end + (event.data.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    }
    return text.append("\n");
}

bool SseParser::feed(std::string_view bytes, const std::function<bool(const SseEvent&)>& on_event) {
    while (!bytes.empty()) {
        // The second half of a \r\n, which may come in the next piece.
        if (std::exchange(after_carriage_return_, false) && bytes.front() == '\n') {
            bytes.remove_prefix(1);
            continue;
        }
        const std::size_t end = bytes.find_first_of("\r\n");
        line_.append(bytes.substr(0, end));
        if (line_.size() + event_.data.size() > event_bytes_max) return false;
        if (end == std::string_view::npos) return true;

        after_carriage_return_ = bytes[end] == '\r';
        bytes.remove_prefix(end + 1);
        const bool go_on = take_line(line_, on_event);
        line_.clear();
        if (!go_on) return false;
    }
    return true;
}

bool SseParser::take_line(std::string_view line, const std::function<bool(const SseEvent&)>& on_event) {
    if (line.empty()) {
        SseEvent event = std::exchange(event_, {});
        if (!std::exchange(has_data_, false)) return true;
        event.data.pop_back();  // Every data line brought a line break; the last one is not part of the data.
        event.id = last_id_;
        return on_event(event);
    }
    const std::size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);

    if (name == "data") {
        event_.data.append(value).append("\n");
        has_data_ = true;
    } else if (name == "event") {
        event_.event = value;
    } else if (name == "id" && value.find('\0') == std::string_view::npos) {
        last_id_ = value;
    }
    return true;  // Comments and unknown fields are skipped.
}

}  // namespace interlock::net
