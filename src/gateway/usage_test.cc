#include "gateway/usage.h"

#include <gtest/gtest.h>

namespace interlock::gateway {
namespace {

Metered read(Operation operation, std::string_view body) { return read_usage(operation, body, KeepText::yes); }

TEST(Usage, a_chat_is_read_in_disjoint_kinds) {
    const Metered metered = read(Operation::chat, R"({"id":"c","model":"gpt-x-2026","service_tier":"default","choices":[
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

TEST(Usage, reasoning_beside_the_completion_is_told_by_the_total) {
    const auto of = [](const char* total) {
        return read(Operation::chat, R"({"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":)" +
                                         std::string(total) +
                                         R"(,"completion_tokens_details":{"reasoning_tokens":94}}})")
            .usage;
    };
    EXPECT_EQ(of("135"), (Usage{.input_tokens = 32, .output_tokens = 9, .reasoning_tokens = 94}));
    // Nonsense: more reasoning than there is output. The sum is kept.
    EXPECT_EQ(of("41"), (Usage{.input_tokens = 32, .reasoning_tokens = 9}));
}

TEST(Usage, nonsense_never_counts_below_zero_and_keeps_the_sum) {
    const Metered metered = read(Operation::chat, R"({"usage":{"prompt_tokens":10,"completion_tokens":-5,
        "prompt_tokens_details":{"cached_tokens":25,"cache_write_tokens":7,"audio_tokens":99}}})");
    EXPECT_EQ(metered.usage, (Usage{.cache_read_tokens = 10}));
    EXPECT_EQ(metered.audio_input_tokens, 0);
    EXPECT_TRUE(metered.reported);
    const Metered huge = read(
        Operation::chat, R"({"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}})");
    EXPECT_TRUE(tokens_of(huge.usage));
}

TEST(Usage, responses_are_read) {
    const Metered metered =
        read(Operation::responses, R"({"id":"r","object":"response","status":"completed","model":"gpt-x",
        "service_tier":"flex","output":[{"type":"reasoning","summary":[]},{"type":"web_search_call","action":{"type":"search"}},
        {"type":"web_search_call","action":{"type":"open_page"}},{"type":"file_search_call"},{"type":"function_call","arguments":"{}"},
        {"type":"message","content":[{"type":"output_text","text":"Hello"}]}],
        "usage":{"input_tokens":81,"input_tokens_details":{"cached_tokens":1},"output_tokens":1035,
        "output_tokens_details":{"reasoning_tokens":832},"total_tokens":1116}})");

    EXPECT_EQ(metered.usage,
              (Usage{.input_tokens = 80, .output_tokens = 203, .cache_read_tokens = 1, .reasoning_tokens = 832}));
    EXPECT_EQ(metered.paid_tools, 2);
    EXPECT_EQ(metered.finish, "completed");
    EXPECT_EQ(metered.text, "Hello");
    EXPECT_EQ(metered.service_tier, "flex");
    EXPECT_TRUE(metered.reported);
    EXPECT_EQ(
        read(Operation::responses, R"({"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}})")
            .finish,
        "max_output_tokens");
    EXPECT_EQ(
        read(Operation::responses, R"({"incomplete_details":{"reason":"max_output_tokens"},"status":"incomplete"})")
            .finish,
        "max_output_tokens");
}

TEST(Usage, embeddings_are_read) {
    const Metered metered = read(
        Operation::embeddings,
        R"({"object":"list","data":[{"embedding":[0.1,-2e-05]}],"model":"e","usage":{"prompt_tokens":8,"total_tokens":8}})");
    EXPECT_EQ(metered.usage, (Usage{.input_tokens = 8}));
    EXPECT_TRUE(metered.reported);
    EXPECT_EQ(metered.model, "e");
}

TEST(Usage, messages_are_read) {
    const Metered metered =
        read(Operation::messages,
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

TEST(Usage, a_cache_write_without_its_kinds_is_a_short_one) {
    EXPECT_EQ(
        read(Operation::messages, R"({"usage":{"input_tokens":1,"cache_creation_input_tokens":9,"output_tokens":2}})")
            .usage,
        (Usage{.input_tokens = 1, .output_tokens = 2, .cache_write_5m_tokens = 9}));
    EXPECT_EQ(read(Operation::messages, R"({"usage":{"input_tokens":1,"cache_creation_input_tokens":9,"output_tokens":2,
        "cache_creation":{"ephemeral_1h_input_tokens":4}}})")
                  .usage,
              (Usage{.input_tokens = 1, .output_tokens = 2, .cache_write_5m_tokens = 5, .cache_write_1h_tokens = 4}));
}

TEST(Usage, what_shortened_the_conversation_is_billed_beside_the_totals) {
    const Metered metered =
        read(Operation::messages, R"({"usage":{"input_tokens":23000,"output_tokens":1000,"iterations":[
        {"type":"compaction","input_tokens":180000,"output_tokens":3500,"cache_read_input_tokens":7},
        {"type":"message","input_tokens":23000,"output_tokens":1000}]}})");
    EXPECT_EQ(metered.usage, (Usage{.input_tokens = 203000, .output_tokens = 4500, .cache_read_tokens = 7}));
}

TEST(Usage, generated_content_is_read) {
    const Metered metered =
        read(Operation::generate,
             R"({"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"Hello"}],"role":"model"},
        "finishReason":"STOP","groundingMetadata":{"webSearchQueries":["a","b"]}}],"modelVersion":"gemini-x","usageMetadata":{
        "promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":20,"thoughtsTokenCount":30,"toolUsePromptTokenCount":7,
        "totalTokenCount":157,"promptTokensDetails":[{"modality":"TEXT","tokenCount":70},{"modality":"AUDIO","tokenCount":30}],
        "cacheTokensDetails":[{"modality":"AUDIO","tokenCount":10}],"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":5}]}})");

    EXPECT_EQ(metered.usage,
              (Usage{.input_tokens = 67, .output_tokens = 20, .cache_read_tokens = 40, .reasoning_tokens = 30}));
    EXPECT_EQ(metered.prompt_tokens, 107);
    EXPECT_EQ(metered.audio_input_tokens, 20);
    EXPECT_EQ(metered.audio_output_tokens, 5);
    EXPECT_EQ(metered.paid_tools, 2);
    EXPECT_EQ(metered.finish, "STOP");
    EXPECT_EQ(metered.text, "Hello");
    EXPECT_EQ(metered.model, "gemini-x");
    EXPECT_TRUE(metered.reported);
}

TEST(Usage, a_stated_cost_is_kept_to_the_nano_dollar) {
    const auto cost = [](const std::string& number) {
        return read(Operation::chat, R"({"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":)" + number + "}}")
            .stated_cost;
    };
    EXPECT_EQ(cost("0.00014"), Money::nanos(140'000));
    EXPECT_EQ(cost("0.00014250000000000002"), Money::nanos(142'500));
    EXPECT_EQ(cost("1.2e-7"), Money::nanos(120));
    EXPECT_EQ(cost("5E-10"), Money::nanos(1));
    EXPECT_EQ(cost("4e-10"), Money::nanos(0));
    EXPECT_EQ(cost("5e-12"), Money::nanos(0));
    EXPECT_EQ(cost("2"), Money::dollars(2));
    EXPECT_EQ(cost("1.5e+2"), Money::dollars(150));
    EXPECT_EQ(cost("0"), Money::nanos(0));
    EXPECT_EQ(cost("1e300"), std::nullopt);
    EXPECT_EQ(cost("9223372036.854775807"), Money::max());
    EXPECT_EQ(cost("9223372036.8547758075"), std::nullopt);
    EXPECT_EQ(cost("-1"), std::nullopt);
    EXPECT_EQ(cost("\"1\""), std::nullopt);
    EXPECT_EQ(cost("null"), std::nullopt);
}

TEST(Usage, an_answer_without_usage_is_not_taken_for_one) {
    for (const Operation operation :
         {Operation::chat, Operation::responses, Operation::messages, Operation::generate, Operation::embeddings}) {
        for (const char* body :
             {"", "{}", "[]", "null", "not json", R"({"usage":null})", R"({"usage":{}})", R"({"usage":[1]})",
              R"({"usageMetadata":{}})", R"({"usage":{"prompt_tokens":"1","input_tokens":1.5}})",
              R"({"error":{"message":"x"}})",
              R"({"usage":{"prompt_tokens":1,"completion_tokens":1,"input_tokens":1,"output_tokens":1})"}) {
            const Metered metered = read(operation, body);
            EXPECT_FALSE(metered.reported) << body;
            EXPECT_EQ(metered.usage, Usage()) << body;
        }
    }
    // A provider that says only half of it has not said the last word.
    EXPECT_FALSE(read(Operation::chat, R"({"usage":{"prompt_tokens":5}})").reported);
    EXPECT_TRUE(read(Operation::chat, R"({"usage":{"prompt_tokens":5}})").input_reported);
    EXPECT_FALSE(read(Operation::messages, R"({"usage":{"input_tokens":5}})").reported);
    EXPECT_TRUE(read(Operation::messages, R"({"usage":{"input_tokens":5}})").input_reported);
}

TEST(Usage, a_usage_that_the_model_talks_about_is_not_one) {
    const Metered metered =
        read(Operation::chat, R"({"choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":1}}"},
        "usage":{"prompt_tokens":7,"completion_tokens":7}}]})");
    EXPECT_FALSE(metered.reported);
}

TEST(Usage, kept_text_has_an_end_and_is_utf8) {
    const std::string body =
        R"({"choices":[{"message":{"content":")" + std::string(kept_text_bytes_max - 1, 'a') + "\xC3\xA9\"}}]}";
    EXPECT_EQ(read(Operation::chat, body).text.size(), kept_text_bytes_max - 1);
    EXPECT_EQ(read(Operation::chat, "{\"model\":\"\xFF\",\"choices\":[{\"message\":{\"content\":\"\xFF\"}}]}").text,
              "");
    EXPECT_EQ(read_usage(Operation::chat, R"({"choices":[{"message":{"content":"a"}}]})", KeepText::no).text, "");
}

}  // namespace
}  // namespace interlock::gateway
