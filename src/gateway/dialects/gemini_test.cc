// Gemini's generateContent: what is changed and metered.
#include <gtest/gtest.h>

#include "gateway/call_request_test_support.h"
#include "gateway/dialect.h"
#include "gateway/stream_test_support.h"

namespace interlock::gateway {
namespace {

void expect_gemini(const Outcome& outcome) {
    EXPECT_EQ(outcome.metered.usage, (Usage{.input_tokens = 8, .output_tokens = 5, .reasoning_tokens = 90}));
    EXPECT_TRUE(outcome.metered.reported && outcome.ended);
    EXPECT_EQ(outcome.metered.text, "Hello [{\"}");
    EXPECT_EQ(outcome.metered.finish, "STOP");
    EXPECT_EQ(outcome.metered.model, "gemini-x");
}

TEST(Gemini, gemini_is_metered_as_events_and_as_an_array) {
    const auto [first, last] = recorded_objects();
    for (const char* line_end : {"\n", "\r\n"}) {
        expect_gemini(meter(Operation::generate, false, with_line_ends(recorded("gemini.sse"), line_end)));
    }
    expect_gemini(meter(Operation::generate, false, "[" + first + "\n,\r\n" + last + "\n]"));
    expect_gemini(meter(Operation::generate, false, " \n [ " + first + "," + last));
}

TEST(Gemini, counts_of_gemini_before_the_end_are_not_the_last_word) {
    const Outcome outcome = meter(Operation::generate, false, "data: " + recorded_objects().first + "\n\n");
    EXPECT_TRUE(outcome.metered.input_reported);
    EXPECT_FALSE(outcome.metered.reported || outcome.ended);
    const Outcome blocked =
        meter(Operation::generate, false,
              R"(data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":8}})"
              "\n\n");
    EXPECT_TRUE(blocked.metered.reported && blocked.ended);
    EXPECT_EQ(blocked.metered.finish, "SAFETY");
}

TEST(Gemini, generated_content_is_read) {
    const Metered metered = read_answer(
        Operation::generate,
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

TEST(Gemini, a_target_gets_another_model) {
    const auto with = [](std::string target, Operation operation = Operation::generate) {
        return gemini().target_for(
            {.format = ApiFormat::gemini, .operation = operation, .target = std::move(target), .model = "old"},
            "a/b c:1");
    };
    EXPECT_EQ(with("/v1beta/models/old:generateContent?alt=sse"), "/v1beta/models/a/b%20c%3A1:generateContent?alt=sse");
    EXPECT_EQ(with("/v1beta/models/o%3Ald%3AcountTokens?x=a:b"), "/v1beta/models/a/b%20c%3A1%3AcountTokens?x=a:b");
    EXPECT_EQ(with("/v1beta/models/old", Operation::models), "/v1beta/models/a/b%20c%3A1");
    EXPECT_EQ(anthropic().target_for(messages_route(), "x"), "/v1/messages");
}

}  // namespace
}  // namespace interlock::gateway
