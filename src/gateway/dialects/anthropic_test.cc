// Anthropic's messages: what is changed and metered.
#include <gtest/gtest.h>

#include "gateway/call_request_test_support.h"
#include "gateway/dialect.h"
#include "gateway/stream_test_support.h"

namespace interlock::gateway {
namespace {

TEST(Anthropic, messages_are_metered_and_the_last_word_wins) {
    const Outcome outcome = meter(Operation::messages, false, recorded("anthropic.sse"));
    EXPECT_EQ(outcome.metered.usage, (Usage{.input_tokens = 10,
                                            .output_tokens = 15,
                                            .cache_read_tokens = 1000,
                                            .cache_write_5m_tokens = 40,
                                            .cache_write_1h_tokens = 60}));
    EXPECT_EQ(outcome.metered.prompt_tokens, 1110);
    EXPECT_EQ(outcome.metered.paid_tools, 2);
    EXPECT_TRUE(outcome.metered.reported && outcome.ended);
    EXPECT_EQ(outcome.metered.text, "Hello \"usage\":{");
    EXPECT_EQ(outcome.metered.finish, "end_turn");
    EXPECT_EQ(outcome.metered.model, "claude-x");
    EXPECT_EQ(outcome.metered.service_tier, "standard");
}

TEST(Anthropic, the_beginning_of_a_message_reports_only_its_input) {
    const std::string start = cut_at(recorded("anthropic.sse"), "event: message_delta").first;
    const Outcome outcome = meter(Operation::messages, false, start);
    EXPECT_TRUE(outcome.metered.input_reported);
    EXPECT_FALSE(outcome.metered.reported || outcome.ended);
    EXPECT_EQ(outcome.metered.usage.cache_read_tokens, 1000);

    const Outcome failed =
        meter(Operation::messages, false,
              start +
                  "event: error\ndata: "
                  "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n");
    EXPECT_TRUE(failed.ended);
    EXPECT_FALSE(failed.metered.reported);
}

TEST(Anthropic, messages_are_read) {
    const Metered metered =
        read_answer(Operation::messages,
                    R"({"id":"m","type":"message","model":"claude-x","content":[{"type":"thinking","thinking":"hm"},
        {"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"cache_creation_input_tokens":100,
        "cache_read_input_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":70},
        "output_tokens":40,"server_tool_use":{"web_search_requests":3,"web_fetch_requests":5},"service_tier":"standard"}})");

    EXPECT_EQ(metered.usage, (Usage{.input_tokens = 10,
                                    .output_tokens = 40,
                                    .cache_read_tokens = 1000,
                                    .cache_write_5m_tokens = 30,
                                    .cache_write_1h_tokens = 70}));
    EXPECT_EQ(metered.prompt_tokens, 1110);
    EXPECT_EQ(metered.paid_tools, 3);
    EXPECT_EQ(metered.finish, "end_turn");
    EXPECT_EQ(metered.text, "Hello");
    EXPECT_EQ(metered.service_tier, "standard");
    EXPECT_TRUE(metered.reported && metered.input_reported);
}

TEST(Anthropic, a_cache_write_without_its_kinds_is_a_short_one) {
    EXPECT_EQ(read_answer(Operation::messages,
                          R"({"usage":{"input_tokens":1,"cache_creation_input_tokens":9,"output_tokens":2}})")
                  .usage,
              (Usage{.input_tokens = 1, .output_tokens = 2, .cache_write_5m_tokens = 9}));
    EXPECT_EQ(read_answer(Operation::messages,
                          R"({"usage":{"input_tokens":1,"cache_creation_input_tokens":9,"output_tokens":2,
        "cache_creation":{"ephemeral_1h_input_tokens":4}}})")
                  .usage,
              (Usage{.input_tokens = 1, .output_tokens = 2, .cache_write_5m_tokens = 5, .cache_write_1h_tokens = 4}));
}

TEST(Anthropic, what_shortened_the_conversation_is_billed_beside_the_totals) {
    const Metered metered =
        read_answer(Operation::messages, R"({"usage":{"input_tokens":23000,"output_tokens":1000,"iterations":[
        {"type":"compaction","input_tokens":180000,"output_tokens":3500,"cache_read_input_tokens":7},
        {"type":"message","input_tokens":23000,"output_tokens":1000}]}})");
    EXPECT_EQ(metered.usage, (Usage{.input_tokens = 203000, .output_tokens = 4500, .cache_read_tokens = 7}));
}

std::string edit_messages(std::string_view body, const Edits& edits) {
    return edited(messages_route(), body, call_request_of(messages_route(), body), edits);
}

TEST(Anthropic, a_budget_for_thinking_stays_below_the_limit) {
    const std::string body = R"({"model":"m","max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":31999}})";
    EXPECT_EQ(edit_messages(body, {.output_max = 5000}),
              R"({"model":"m","max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":4999}})");
    EXPECT_EQ(edit_messages(body, {.output_max = 32000}), body);
}

}  // namespace
}  // namespace interlock::gateway
