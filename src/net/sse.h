// Server-sent events: text/event-stream, written and read.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace interlock::net {

struct SseEvent {
    std::string id = {};     // Empty: none. Without line breaks.
    std::string event = {};  // Empty: "message". Without line breaks.
    std::string data = {};   // May have several lines.
};

// As on the wire, blank line included.
std::string to_text(const SseEvent& event);

// What keeps a quiet connection open: a comment that every reader skips.
inline constexpr std::string_view sse_heartbeat = ":\n\n";

// Takes a stream apart, in whatever pieces it comes.
class SseParser {
 public:
    static constexpr std::size_t event_bytes_max = 16u << 20;

    // Calls on_event for every event that is complete now. False: an event is larger than event_bytes_max, or on_event
    // said stop by returning false; the parser is of no use any more.
    bool feed(std::string_view bytes, const std::function<bool(const SseEvent&)>& on_event);

    const std::string& last_id() const { return last_id_; }  // For Last-Event-ID.

 private:
    bool take_line(std::string_view line, const std::function<bool(const SseEvent&)>& on_event);

    std::string line_;
    bool after_carriage_return_ = false;
    bool has_data_ = false;
    SseEvent event_;
    std::string last_id_;
};

}  // namespace interlock::net
