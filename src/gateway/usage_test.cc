#include "gateway/usage.h"

#include <gtest/gtest.h>

#include "gateway/stream_test_support.h"

namespace interlock::gateway {
namespace {

TEST(Usage, nonsense_never_counts_below_zero_and_keeps_the_sum) {
    const Metered metered = read_answer(Operation::chat, R"({"usage":{"prompt_tokens":10,"completion_tokens":-5,
        "prompt_tokens_details":{"cached_tokens":25,"cache_write_tokens":7,"audio_tokens":99}}})");
    EXPECT_EQ(metered.usage, (Usage{.cache_read_tokens = 10}));
    EXPECT_EQ(metered.audio_input_tokens, 0);
    EXPECT_TRUE(metered.reported);
    const Metered huge = read_answer(
        Operation::chat, R"({"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807}})");
    EXPECT_TRUE(tokens_of(huge.usage));
}

TEST(Usage, a_stated_cost_is_kept_to_the_nano_dollar) {
    const auto cost = [](const std::string& number) {
        return read_answer(Operation::chat,
                           R"({"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":)" + number + "}}")
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
            const Metered metered = read_answer(operation, body);
            EXPECT_FALSE(metered.reported) << body;
            EXPECT_EQ(metered.usage, Usage()) << body;
        }
    }
    // A provider that says only half of it has not said the last word.
    EXPECT_FALSE(read_answer(Operation::chat, R"({"usage":{"prompt_tokens":5}})").reported);
    EXPECT_TRUE(read_answer(Operation::chat, R"({"usage":{"prompt_tokens":5}})").input_reported);
    EXPECT_FALSE(read_answer(Operation::messages, R"({"usage":{"input_tokens":5}})").reported);
    EXPECT_TRUE(read_answer(Operation::messages, R"({"usage":{"input_tokens":5}})").input_reported);
}

TEST(Usage, a_usage_that_the_model_talks_about_is_not_one) {
    const Metered metered =
        read_answer(Operation::chat, R"({"choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":1}}"},
        "usage":{"prompt_tokens":7,"completion_tokens":7}}]})");
    EXPECT_FALSE(metered.reported);
}

TEST(Usage, kept_text_has_an_end_and_is_utf8) {
    const std::string body =
        R"({"choices":[{"message":{"content":")" + std::string(kept_text_bytes_max - 1, 'a') + "\xC3\xA9\"}}]}";
    EXPECT_EQ(read_answer(Operation::chat, body).text.size(), kept_text_bytes_max - 1);
    EXPECT_EQ(
        read_answer(Operation::chat, "{\"model\":\"\xFF\",\"choices\":[{\"message\":{\"content\":\"\xFF\"}}]}").text,
        "");
    EXPECT_EQ(read_usage(chat_route(), R"({"choices":[{"message":{"content":"a"}}]})", KeepText::no).text, "");
}

}  // namespace
}  // namespace interlock::gateway
