// How a stream of any dialect is cut into events.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/stream_test_support.h"

namespace interlock::gateway {
namespace {

TEST(StreamMeter, an_event_may_have_several_lines_comments_and_no_blanks) {
    const std::string stream =
        "\xEF\xBB\xBF:hi\n\nevent: message\nid:1\ndata:{\"model\":\"m\",\"choices\":[],\n:c\ndata:\ndata\ndata: "
        "\"usage\":\ndata:{\"prompt_tokens\":1,\n"
        "data:\"completion_tokens\":2}}\n\ndata:[DONE]\n\n";
    const Outcome kept = meter(Operation::chat, false, stream);
    EXPECT_EQ(kept.metered.usage, (Usage{.input_tokens = 1, .output_tokens = 2}));
    EXPECT_TRUE(kept.ended);
    EXPECT_EQ(meter(Operation::chat, true, stream).passed, "\xEF\xBB\xBF:hi\n\ndata:[DONE]\n\n");
}

TEST(StreamMeter, whatever_is_not_understood_is_passed_on) {
    for (const char* stream :
         {"data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}\n\n", "data: [DONE\n\n", "data: \xFF\xFE\n\n",
          "data: {\"usage\":{\"prompt_tokens\":1}}\n\n", "\n\n\n\r\r\r\n\n", "data\n\n", "{\"usage\":{}}"}) {
        for (const Operation operation :
             {Operation::chat, Operation::responses, Operation::messages, Operation::generate}) {
            const Outcome outcome = meter(operation, true, stream);
            EXPECT_EQ(outcome.passed, stream);
            EXPECT_FALSE(outcome.metered.reported) << stream;
        }
    }
}

// ---- limits ---------------------------------------------------------------------------------------------------------

TEST(StreamMeter, an_event_that_is_too_long_is_passed_on_unread_and_the_next_one_is_read) {
    const ChatStream chat = recorded_chat();
    const std::string filler(StreamMeter::event_bytes_max, 'x');
    const std::string long_line =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9},\"x\":\"" + filler + "\"}\n\n";
    std::string comments = chat.usage;
    comments.insert(0, ":" + filler + "\n");
    for (const std::string& stream : {long_line, comments}) {
        for (const std::size_t size : {stream.size() * 2, std::size_t{100'000}, std::size_t{1} << 20}) {
            const Outcome unread = fed(Operation::chat, true, stream, [&] { return size; });
            EXPECT_EQ(unread.passed.size(), stream.size()) << size;
            EXPECT_FALSE(unread.metered.reported) << size;
            const Outcome next = fed(Operation::chat, true, stream + chat.usage + chat.done, [&] { return size; });
            EXPECT_EQ(next.passed.size(), stream.size() + chat.done.size()) << size;
            EXPECT_EQ(next.metered.usage.input_tokens, 15) << size;
        }
    }
    const std::string array = "[{\"x\":\"" + filler + "\"}," + recorded_objects().second + "]";
    EXPECT_EQ(fed(Operation::generate, false, array, [] { return std::size_t{1} << 20; }).metered.usage.output_tokens,
              5);
}

TEST(StreamMeter, an_event_that_is_too_long_to_be_held_back_is_read_and_not_dropped) {
    const ChatStream chat = recorded_chat();
    const std::string comment = ":" + std::string(StreamMeter::event_bytes_max * 2 / 3, 'x') + "\n";
    const std::string stream = comment + comment + chat.usage;
    for (const std::size_t size : {stream.size() + chat.done.size(), std::size_t{100'000}, std::size_t{1} << 20}) {
        const Outcome outcome = fed(Operation::chat, true, stream + chat.done, [&] { return size; });
        EXPECT_EQ(outcome.passed.size(), stream.size() + chat.done.size()) << size;
        EXPECT_TRUE(outcome.metered.reported) << size;
    }
}

TEST(StreamMeter, says_whether_another_event_may_follow_what_was_passed_on) {
    StreamMeter meter(messages_route(), false, KeepText::no);
    EXPECT_TRUE(meter.between_events());
    meter.feed("event: ping\n");
    EXPECT_FALSE(meter.between_events());
    meter.feed("data: {}\n");
    EXPECT_FALSE(meter.between_events());
    meter.feed("\nda");
    EXPECT_FALSE(meter.between_events());
    meter.feed("ta: {}\n\n");
    EXPECT_TRUE(meter.between_events());

    StreamMeter stripping(chat_route(), true, KeepText::no);
    EXPECT_EQ(stripping.feed("data: {}\n\ndata: {"), "data: {}\n\n");
    EXPECT_TRUE(stripping.between_events());
}

TEST(StreamMeter, a_piece_of_whole_events_is_passed_on_without_a_copy) {
    const ChatStream chat = recorded_chat();
    StreamMeter meter(chat_route(), true, KeepText::no);
    const std::string piece = chat.begin;
    EXPECT_EQ(meter.feed(piece).data(), piece.data());
    const std::string last = chat.begin + chat.usage;
    EXPECT_EQ(meter.feed(last).data(), last.data());
    EXPECT_EQ(meter.metered().text, "");
    EXPECT_TRUE(meter.metered().reported);
}

}  // namespace
}  // namespace interlock::gateway
