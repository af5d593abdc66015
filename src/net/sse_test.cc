#include "net/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace interlock::net {
namespace {

std::vector<SseEvent> read(const std::string& text, std::size_t step) {
    SseParser parser;
    std::vector<SseEvent> events;
    for (std::size_t at = 0; at < text.size(); at += step) {
        EXPECT_TRUE(parser.feed(std::string_view(text).substr(at, step), [&](const SseEvent& event) {
            events.push_back(event);
            return true;
        }));
    }
    return events;
}

TEST(Sse, an_event_is_written_line_by_line) {
    EXPECT_EQ(to_text({.id = "7", .event = "spent", .data = "{}"}), "id: 7\nevent: spent\ndata: {}\n\n");
    EXPECT_EQ(to_text({.data = ""}), "data: \n\n");
    EXPECT_EQ(to_text({.data = "a\nb\r\nc\rd\n"}), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
}

TEST(Sse, what_is_written_is_read_again_in_whatever_pieces_it_comes) {
    const std::string text = to_text({.id = "1", .event = "a", .data = "x\ny"}) + std::string(sse_heartbeat) +
                             to_text({.id = "2", .data = ""});
    for (std::size_t step = 1; step <= text.size(); ++step) {
        const auto events = read(text, step);

        ASSERT_EQ(events.size(), 2u) << step;
        EXPECT_EQ(events[0].id, "1");
        EXPECT_EQ(events[0].event, "a");
        EXPECT_EQ(events[0].data, "x\ny");
        EXPECT_EQ(events[1].id, "2");
        EXPECT_EQ(events[1].data, "");
    }
}

TEST(Sse, all_three_line_ends_are_read) {
    for (std::size_t step = 1; step < 12; ++step) {
        const auto events = read("data:a\r\ndata: b\rdata:  c\n\r\ndata\r\r: x\n\nevent: no data\n\n", step);

        ASSERT_EQ(events.size(), 2u) << step;
        EXPECT_EQ(events[0].data, "a\nb\n c");
        EXPECT_EQ(events[1].data, "");
    }
}

TEST(Sse, an_event_without_an_end_is_given_up) {
    SseParser parser;
    const std::string piece(1u << 20, 'x');
    bool taken = parser.feed("data: ", nullptr);

    for (int i = 0; i < 20 && taken; ++i) taken = parser.feed(piece, nullptr);

    EXPECT_FALSE(taken);
}

TEST(Sse, a_reader_can_stop) {
    SseParser parser;
    int events = 0;

    EXPECT_FALSE(parser.feed("data: a\n\ndata: b\n\n", [&](const SseEvent&) { return ++events > 1; }));

    EXPECT_EQ(events, 1);
}

}  // namespace
}  // namespace interlock::net
