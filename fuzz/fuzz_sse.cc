// An event stream: it gives the same events however it is cut, those that a naive reader of the whole text finds, and
// what is written of an event reads back as that event.
//
// The first byte of an input chooses the cuts.
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/ensure.h"
#include "net/sse.h"

namespace {

using namespace interlock;
using net::SseEvent;

struct Events {
    std::vector<SseEvent> all = {};
    std::string last_id = {};
};

template <class NextSize>
Events fed(std::string_view stream, NextSize next_size) {
    net::SseParser parser;
    Events events;
    const auto keep = [&](const SseEvent& event) { return events.all.push_back(event), true; };
    while (!stream.empty()) {
        const std::string piece(stream.substr(0, next_size()));
        stream.remove_prefix(piece.size());
        ensure(parser.feed(piece, keep), "a short stream is taken");
    }
    events.last_id = parser.last_id();
    return events;
}

// The complete lines. Each of CR LF, CR and LF ends one.
std::vector<std::string> lines_of(std::string_view stream) {
    std::vector<std::string> lines;
    std::string line;
    for (std::size_t i = 0; i < stream.size(); ++i) {
        if (stream[i] != '\r' && stream[i] != '\n') {
            line += stream[i];
            continue;
        }
        if (stream[i] == '\r' && stream.substr(i + 1).starts_with('\n')) ++i;
        lines.push_back(line);
        line.clear();
    }
    return lines;
}

// As the HTML standard describes it, with the whole stream at hand.
Events read_naively(std::string_view stream) {
    Events events;
    std::string name;
    std::vector<std::string> data;
    for (const std::string& line : lines_of(stream)) {
        if (line.empty()) {
            std::string text;
            for (std::size_t i = 0; i < data.size(); ++i) text += (i == 0 ? "" : "\n") + data[i];
            if (!data.empty()) events.all.push_back({.id = events.last_id, .event = name, .data = text});
            name.clear();
            data.clear();
            continue;
        }
        const std::size_t colon = line.find(':');
        std::string value = colon == std::string::npos ? "" : line.substr(colon + 1);
        if (value.starts_with(' ')) value.erase(0, 1);
        const std::string field = line.substr(0, colon);
        if (field == "data") data.push_back(value);
        if (field == "event") name = value;
        if (field == "id" && value.find('\0') == std::string::npos) events.last_id = value;
    }
    return events;
}

void check_same(const Events& left, const Events& right, const char* why) {
    ensure(left.last_id == right.last_id && left.all.size() == right.all.size(), why);
    for (std::size_t i = 0; i < left.all.size(); ++i) {
        const SseEvent &a = left.all[i], &b = right.all[i];
        ensure(a.id == b.id && a.event == b.event && a.data == b.data, why);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    std::mt19937 random(data[0]);
    const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);

    const Events whole = fed(stream, [&] { return stream.size(); });
    check_same(whole, read_naively(stream), "the events are those of the standard");
    check_same(whole, fed(stream, [] { return std::size_t{1}; }), "byte by byte, the same events");
    check_same(whole, fed(stream, [&] { return 1 + random() % 20; }), "however cut, the same events");

    for (const SseEvent& event : whole.all) {
        const std::string text = to_text(event) + std::string(net::sse_heartbeat);
        check_same({.all = {event}, .last_id = event.id}, fed(text, [&] { return text.size(); }),
                   "what is written reads back");
    }
    return 0;
}
