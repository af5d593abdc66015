// OpenAI's responses: what is metered.
#include <gtest/gtest.h>

#include "gateway/call_request_test_support.h"
#include "gateway/dialect.h"
#include "gateway/stream_test_support.h"

namespace interlock::gateway {
namespace {

TEST(OpenAiResponses, responses_are_metered) {
    const std::string stream = recorded("openai_responses.sse");
    const std::string begin = cut_at(stream, "event: response.completed").first;
    const Outcome outcome = meter(Operation::responses, false, stream);
    EXPECT_EQ(outcome.metered.usage,
              (Usage{.input_tokens = 7, .output_tokens = 8, .cache_read_tokens = 30, .reasoning_tokens = 3}));
    EXPECT_TRUE(outcome.metered.reported && outcome.ended);
    EXPECT_EQ(outcome.metered.paid_tools, 1);
    EXPECT_EQ(outcome.metered.text, "Not \"response.completed\" yet");
    EXPECT_EQ(outcome.metered.finish, "completed");
    EXPECT_EQ(outcome.metered.model, "gpt-x");

    const Outcome cut = meter(Operation::responses, false, begin);
    EXPECT_FALSE(cut.metered.reported || cut.ended);
    EXPECT_EQ(cut.metered.paid_tools, 1);
}

TEST(OpenAiResponses, responses_that_fail_have_ended) {
    const std::string begin = cut_at(recorded("openai_responses.sse"), "event: response.completed").first;
    const Outcome failed = meter(Operation::responses, false,
                                 begin +
                                     "event: response.failed\ndata: "
                                     "{\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{"
                                     "\"code\":\"x\"},\"usage\":null}}\n\n");
    EXPECT_TRUE(failed.ended);
    EXPECT_FALSE(failed.metered.reported);
    EXPECT_EQ(failed.metered.finish, "failed");
    const Outcome incomplete = meter(
        Operation::responses, false,
        begin +
            R"(data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":1,"output_tokens":2}}})"
            "\n\n");
    EXPECT_TRUE(incomplete.ended && incomplete.metered.reported);
    EXPECT_EQ(incomplete.metered.finish, "max_output_tokens");
    EXPECT_TRUE(meter(Operation::responses, false, "data: {\"type\":\"error\",\"code\":\"x\"}\n\n").ended);
}

TEST(OpenAiResponses, responses_are_read) {
    const Metered metered =
        read_answer(Operation::responses, R"({"id":"r","object":"response","status":"completed","model":"gpt-x",
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
    EXPECT_EQ(read_answer(Operation::responses,
                          R"({"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}})")
                  .finish,
              "max_output_tokens");
    EXPECT_EQ(read_answer(Operation::responses,
                          R"({"incomplete_details":{"reason":"max_output_tokens"},"status":"incomplete"})")
                  .finish,
              "max_output_tokens");
}

}  // namespace
}  // namespace interlock::gateway
