// OpenAI's chat completions and embeddings: what is read, changed and metered.
#include <gtest/gtest.h>

#include "gateway/call_request_test_support.h"
#include "gateway/dialect.h"
#include "gateway/stream_test_support.h"

namespace interlock::gateway {
namespace {

void expect_chat(const Outcome& outcome) {
    EXPECT_EQ(outcome.metered.usage,
              (Usage{.input_tokens = 15, .output_tokens = 8, .cache_read_tokens = 5, .reasoning_tokens = 4}));
    EXPECT_TRUE(outcome.metered.reported);
    EXPECT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.metered.text, "Say \"usage\": {\"a\":1} \xC3\xA9\n");
    EXPECT_EQ(outcome.metered.finish, "stop");
    EXPECT_EQ(outcome.metered.model, "gpt-x-2026");
    EXPECT_EQ(outcome.metered.stated_cost, Money::nanos(120'000));
}

TEST(OpenAiChat, a_chat_is_metered_and_passed_on_as_it_came) {
    const ChatStream chat = recorded_chat();
    for (const char* line_end : {"\n", "\r\n", "\r"}) {
        expect_chat(meter(Operation::chat, false, with_line_ends(chat.all(), line_end)));
    }
}

TEST(OpenAiChat, the_chunk_of_usage_is_dropped_whole_where_nobody_asked_for_it) {
    const ChatStream chat = recorded_chat();
    for (const char* line_end : {"\n", "\r\n", "\r"}) {
        const Outcome outcome = meter(Operation::chat, true, with_line_ends(chat.all(), line_end));
        expect_chat(outcome);
        EXPECT_EQ(outcome.passed, with_line_ends(chat.begin + chat.done, line_end));
    }
}

TEST(OpenAiChat, usage_beside_choices_is_metered_and_left) {
    const ChatStream chat = recorded_chat();
    const std::string last =
        R"(data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":1}})"
        "\n\n";
    const Outcome outcome = meter(Operation::chat, true, last + chat.done);
    EXPECT_EQ(outcome.passed, last + chat.done);
    EXPECT_EQ(outcome.metered.usage.input_tokens, 3);
    EXPECT_EQ(outcome.metered.finish, "length");
}

TEST(OpenAiChat, a_last_event_counts_without_its_blank_line) {
    const ChatStream chat = recorded_chat();
    std::string cut = chat.begin + chat.usage;
    cut.resize(cut.size() - 2);
    EXPECT_TRUE(meter(Operation::chat, false, cut).metered.reported);
    const Outcome stripped = meter(Operation::chat, true, cut);
    EXPECT_TRUE(stripped.metered.reported);
    EXPECT_EQ(stripped.passed, chat.begin);
}

TEST(OpenAiChat, what_was_held_back_comes_out_at_the_end) {
    const ChatStream chat = recorded_chat();
    const std::string cut = chat.begin + "data: {\"choices\":[{\"del";
    EXPECT_EQ(meter(Operation::chat, true, cut).passed, cut);
    EXPECT_EQ(meter(Operation::chat, true, "no stream at all").passed, "no stream at all");
    EXPECT_EQ(meter(Operation::chat, true, "").passed, "");
}

TEST(OpenAiChat, an_error_ends_a_chat) {
    const ChatStream chat = recorded_chat();
    const Outcome outcome =
        meter(Operation::chat, true, chat.begin + "data: {\"error\":{\"message\":\"overloaded\"}}\n\n");
    EXPECT_TRUE(outcome.ended);
    EXPECT_FALSE(outcome.metered.reported);
    EXPECT_EQ(outcome.metered.finish, "error");
}

TEST(OpenAiChat, a_chat_is_read_in_disjoint_kinds) {
    const Metered metered =
        read_answer(Operation::chat, R"({"id":"c","model":"gpt-x-2026","service_tier":"default","choices":[
        {"index":0,"message":{"role":"assistant","content":"Hi \"you\"\n"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,
        "prompt_tokens_details":{"cached_tokens":60,"audio_tokens":10,"cache_write_tokens":5},
        "completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":4,"accepted_prediction_tokens":0}}})");

    EXPECT_EQ(metered.usage, (Usage{.input_tokens = 35,
                                    .output_tokens = 20,
                                    .cache_read_tokens = 60,
                                    .cache_write_5m_tokens = 5,
                                    .reasoning_tokens = 30}));
    EXPECT_EQ(metered.audio_input_tokens, 10);
    EXPECT_EQ(metered.audio_output_tokens, 4);
    EXPECT_EQ(metered.prompt_tokens, 100);
    EXPECT_TRUE(metered.input_reported && metered.reported);
    EXPECT_EQ(metered.model, "gpt-x-2026");
    EXPECT_EQ(metered.service_tier, "default");
    EXPECT_EQ(metered.finish, "stop");
    EXPECT_EQ(metered.text, "Hi \"you\"\n");
    EXPECT_FALSE(metered.stated_cost);
}

TEST(OpenAiChat, reasoning_beside_the_completion_is_told_by_the_total) {
    const auto of = [](const char* total) {
        return read_answer(Operation::chat, R"({"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":)" +
                                                std::string(total) +
                                                R"(,"completion_tokens_details":{"reasoning_tokens":94}}})")
            .usage;
    };
    EXPECT_EQ(of("135"), (Usage{.input_tokens = 32, .output_tokens = 9, .reasoning_tokens = 94}));
    // Nonsense: more reasoning than there is output. The sum is kept.
    EXPECT_EQ(of("41"), (Usage{.input_tokens = 32, .reasoning_tokens = 9}));
}

TEST(OpenAiChat, embeddings_are_read) {
    const Metered metered = read_answer(
        Operation::embeddings,
        R"({"object":"list","data":[{"embedding":[0.1,-2e-05]}],"model":"e","usage":{"prompt_tokens":8,"total_tokens":8}})");
    EXPECT_EQ(metered.usage, (Usage{.input_tokens = 8}));
    EXPECT_TRUE(metered.reported);
    EXPECT_EQ(metered.model, "e");
}

}  // namespace
}  // namespace interlock::gateway
