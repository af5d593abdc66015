// How a stream is cut into events: server-sent events, or for Gemini an array of JSON objects that arrives bit by bit.
#include <cstring>

#include "gateway/dialect.h"
#include "gateway/usage.h"
#include "gateway/usage_reader.h"

namespace interlock::gateway {
namespace {

// What is passed on of one piece: a part of the piece itself for as long as it is one part, else a copy.
class Passed {
 public:
    Passed(std::string_view piece, std::string& buffer) : piece_(piece), buffer_(buffer) { buffer_.clear(); }

    void add_held(std::string_view bytes) {
        if (bytes.empty()) return;
        copy();
        buffer_.append(bytes);
    }
    void add(std::size_t begin, std::size_t end) {
        if (begin == end) return;
        if (copied_) {
            buffer_.append(piece_.substr(begin, end - begin));
        } else if (begin_ == end_) {
            begin_ = begin;
            end_ = end;
        } else if (begin == end_) {
            end_ = end;
        } else {
            copy();
            buffer_.append(piece_.substr(begin, end - begin));
        }
    }
    std::string_view bytes() const {
        return copied_ ? std::string_view(buffer_) : piece_.substr(begin_, end_ - begin_);
    }

 private:
    void copy() {
        if (copied_) return;
        buffer_.append(piece_.substr(begin_, end_ - begin_));
        copied_ = true;
    }

    std::string_view piece_;
    std::string& buffer_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    bool copied_ = false;
};

// Objects in an array, found by counting brackets. It only has to be right about what is JSON.
class ArrayScanner {
 public:
    template <class OnObject>
    void feed(std::string_view piece, OnObject&& on_object) {
        std::size_t begin = 0;  // Of the part of the object that is in this piece.
        for (std::size_t i = 0; i < piece.size() && !lost_; ++i) {
            const char c = piece[i];
            if (in_string_) {
                if (escaped_)
                    escaped_ = false;
                else if (c == '\\')
                    escaped_ = true;
                else if (c == '"')
                    in_string_ = false;
            } else if (c == '"') {
                in_string_ = true;
            } else if (c == '{' || c == '[') {
                if (depth_ == 1) begin = i;
                ++depth_;
            } else if (c == '}' || c == ']') {
                --depth_;
                if (depth_ == 1) {
                    keep(piece.substr(begin, i + 1 - begin));
                    if (!too_long_) on_object(std::string_view(object_));
                    object_.clear();
                    too_long_ = false;
                }
                lost_ = depth_ <= 0;
            }
        }
        if (depth_ > 1 && !lost_) keep(piece.substr(begin));
    }

 private:
    void keep(std::string_view bytes) {
        too_long_ = too_long_ || object_.size() + bytes.size() > StreamMeter::event_bytes_max;
        if (too_long_)
            object_.clear();
        else
            object_.append(bytes);
    }

    int depth_ = 0;
    bool in_string_ = false;
    bool escaped_ = false;
    bool too_long_ = false;
    bool lost_ = false;  // The array is closed; what follows is nothing we know.
    std::string object_;
};

}  // namespace

struct StreamMeter::Parts {
    Parts(const ModelRoute& route, bool strip_usage, KeepText keep)
        : reader(route.dialect().usage_reader(route.operation, keep)),
          may_be_array(route.dialect().streams_arrays()),
          strip(strip_usage && route.dialect().has_usage_event()) {}

    std::string_view feed(std::string_view piece);
    std::string_view finish();
    void feed_events(std::string_view piece, Passed& passed);
    void take_line(std::string_view piece, std::size_t begin, std::size_t end);
    void take_data(std::string_view data, bool lasts);
    void end_event();
    void pass_event(std::size_t blank, std::size_t end, Passed& passed);
    void hold(std::string_view piece, Passed& passed);

    const std::unique_ptr<UsageReader> reader;
    const bool may_be_array;
    const bool strip;
    enum class Form { unknown, events, array } form = Form::unknown;
    ArrayScanner array;

    // The line that has begun and not ended. Its bytes are kept in `line` only when its end is not in the same piece.
    std::string line;
    bool line_too_long = false;
    bool after_carriage_return = false;  // A line feed that follows belongs to the line that has ended.

    // The event that has begun and not ended.
    bool in_event = false;
    bool event_too_long = false;
    bool has_data = false;
    std::string_view data;  // Of one line of the piece at hand; or of `joined`.
    std::string joined;

    // For stripping: what of the event came in earlier pieces and was not passed on.
    std::string held;
    std::size_t event_begin = 0;  // In the piece at hand.
    bool only_usage = false;      // The event that has just ended is to be dropped.
    bool dropped = false;         // The last event was.
    bool flowing = false;         // The event is too long to hold back: it goes on as it comes.
    std::string out;
};

std::string_view StreamMeter::Parts::feed(std::string_view piece) {
    if (form == Form::unknown) {
        const std::size_t first = piece.find_first_not_of(" \t\r\n");
        // Blank lines mean nothing to either form, so nothing is lost by waiting for what follows them.
        if (may_be_array && first == std::string_view::npos) return piece;
        form = may_be_array && piece[first] == '[' ? Form::array : Form::events;
        if (may_be_array && form == Form::events) {
            Passed passed(piece, out);
            feed_events(piece.substr(first), passed);
            return piece;
        }
    }
    if (form == Form::array) {
        array.feed(piece, [&](std::string_view object) { reader->event(object); });
        return piece;
    }
    Passed passed(piece, out);
    feed_events(piece, passed);
    return strip ? passed.bytes() : piece;
}

void StreamMeter::Parts::feed_events(std::string_view piece, Passed& passed) {
    const auto find = [&](char c, std::size_t from) {
        const void* found = from < piece.size() ? std::memchr(piece.data() + from, c, piece.size() - from) : nullptr;
        return found ? static_cast<std::size_t>(static_cast<const char*>(found) - piece.data()) : piece.size();
    };
    event_begin = 0;
    std::size_t begin = 0;
    if (after_carriage_return && piece.starts_with('\n')) {
        begin = 1;
        if (!in_event) {  // It belongs to the blank line that ended an event.
            if (!dropped) passed.add(0, 1);
            event_begin = 1;
        }
    }
    if (!piece.empty()) after_carriage_return = false;

    std::size_t feed_at = find('\n', begin);
    std::size_t return_at = find('\r', begin);
    while (begin < piece.size()) {
        if (feed_at < begin) feed_at = find('\n', begin);
        if (return_at < begin) return_at = find('\r', begin);
        const std::size_t end = std::min(feed_at, return_at);
        if (end == piece.size()) break;
        std::size_t next = end + 1;
        if (end == return_at) {
            if (next == piece.size())
                after_carriage_return = true;
            else if (piece[next] == '\n')
                ++next;
        }
        const bool blank = begin == end && line.empty() && !line_too_long;
        if (blank) {
            end_event();
            pass_event(begin, next, passed);
        } else {
            take_line(piece, begin, end);
        }
        begin = next;
    }

    // What is left is the beginning of a line.
    if (begin < piece.size()) {
        const std::string_view rest = piece.substr(begin);
        in_event = true;
        line_too_long = line_too_long || line.size() + rest.size() > event_bytes_max;
        if (line_too_long)
            line.clear();
        else
            line.append(rest);
    }
    if (has_data && data.data() != joined.data()) {
        joined.assign(data);
        data = joined;
    }
    if (strip) hold(piece, passed);
}

void StreamMeter::Parts::take_line(std::string_view piece, std::size_t begin, std::size_t end) {
    in_event = true;
    const bool whole = line.empty();
    const bool too_long = line_too_long || line.size() + (end - begin) > event_bytes_max;
    if (too_long) {
        event_too_long = true;
    } else {
        if (!whole) line.append(piece.substr(begin, end - begin));
        std::string_view text = whole ? piece.substr(begin, end - begin) : std::string_view(line);
        if (text == "data") text = "data:";
        if (text.starts_with("data:")) {
            text.remove_prefix(5);
            if (text.starts_with(' ')) text.remove_prefix(1);
            take_data(text, whole);
        }
    }
    line.clear();
    line_too_long = false;
}

// `lasts`: the bytes stay where they are until the piece ends.
void StreamMeter::Parts::take_data(std::string_view text, bool lasts) {
    if (!has_data && lasts) {
        data = text;
    } else {
        if (!has_data) {
            joined.assign(text);
        } else {
            if (data.data() != joined.data()) joined.assign(data);
            joined.append("\n").append(text);
        }
        data = joined;
        if (joined.size() > event_bytes_max) event_too_long = true;
    }
    has_data = true;
}

void StreamMeter::Parts::end_event() {
    only_usage = has_data && !event_too_long && reader->event(data);
    in_event = false;
    event_too_long = false;
    has_data = false;
    data = {};
    joined.clear();
}

// ---- holding an event back until it is known what it is -------------------------------------------------------------

// The event's blank line begins at `blank` and ends at `end`.
void StreamMeter::Parts::pass_event(std::size_t blank, std::size_t end, Passed& passed) {
    if (!strip) return;
    // What would have been too long to hold back in pieces is not dropped when it comes whole, either: invariant (2).
    dropped = only_usage && !flowing && held.size() + (blank - event_begin) <= event_bytes_max;
    if (!dropped) {
        passed.add_held(held);
        passed.add(event_begin, end);
    }
    held.clear();
    flowing = false;
    event_begin = end;
}

void StreamMeter::Parts::hold(std::string_view piece, Passed& passed) {
    const std::string_view rest = piece.substr(std::min(event_begin, piece.size()));
    if (!flowing && held.size() + rest.size() > event_bytes_max) {
        flowing = true;
        passed.add_held(held);
        held.clear();
    }
    if (flowing)
        passed.add(event_begin, piece.size());
    else
        held.append(rest);
}

std::string_view StreamMeter::Parts::finish() {
    out.clear();
    if (form != Form::events) return out;
    if (!line.empty() || line_too_long) take_line({}, 0, 0);
    end_event();
    if (strip && !only_usage) out.swap(held);
    held.clear();
    return out;
}

// ---- the part that others see ---------------------------------------------------------------------------------------

StreamMeter::StreamMeter(const ModelRoute& route, bool strip_usage, KeepText keep)
    : parts_(std::make_unique<Parts>(route, strip_usage, keep)) {}
StreamMeter::~StreamMeter() = default;
StreamMeter::StreamMeter(StreamMeter&&) noexcept = default;

std::string_view StreamMeter::feed(std::string_view piece) { return parts_->feed(piece); }
std::string_view StreamMeter::finish() { return parts_->finish(); }
const Metered& StreamMeter::metered() const { return parts_->reader->metered(); }
bool StreamMeter::ended() const { return parts_->reader->ended(); }
bool StreamMeter::between_events() const {
    if (parts_->form == Parts::Form::array) return false;
    return parts_->strip ? !parts_->flowing : !parts_->in_event;
}

}  // namespace interlock::gateway
