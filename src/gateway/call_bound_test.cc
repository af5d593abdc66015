#include "gateway/call_bound.h"

#include <gtest/gtest.h>

#include "gateway/call_request_test_support.h"

namespace interlock::gateway {
namespace {

ModelPrice priced(Rates rates = {.input = 10, .output = 50}) {
    return {.provider = "p",
            .model = "m",
            .version = "1",
            .tiers = {{0, rates}},
            .input_max = 100'000,
            .output_max = 8'000,
            .image_max = 700};
}

CallBound bound(const ModelRoute& route, std::string_view body, const ModelPrice& price = priced()) {
    return bound_of(call_request_of(route, body), &price, {}, std::nullopt);
}

std::string why(const ModelRoute& route, std::string_view body, std::string_view provider,
                const ModelPrice& price = priced()) {
    return why_unbounded(route.dialect(), call_request_of(route, body), &price, provider).value_or("");
}

TEST(CallBoundTest, text_is_bounded_by_its_bytes_and_an_image_by_its_model) {
    const std::string text = R"({"model":"m","messages":[{"role":"user","content":"hello"}]})";
    const std::string image =
        R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":"https://x"}]}]})";
    const auto size = [](const std::string& body) { return static_cast<std::int64_t>(body.size()); };
    EXPECT_EQ(bound(chat_route(), text).at_most.input, size(text) + 1'024);
    EXPECT_EQ(bound(chat_route(), image).at_most.input, size(image) + 1'024 + 700);
    ModelPrice unknown = priced();
    unknown.image_max = 0;
    EXPECT_EQ(bound(chat_route(), image, unknown).at_most.input, size(image) + 1'024 + 50'000);
}

TEST(CallBoundTest, only_the_messages_behind_a_known_beginning_are_counted) {
    const std::string first = R"({"role":"user","content":")" + std::string(3'000, 'x') + R"("})";
    const std::string body = R"({"model":"m","messages":[)" + first + R"(,{"role":"user","content":"b"}],"tools":[]})";
    const CallRequest request = call_request_of(chat_route(), body);
    const ModelPrice price = priced();
    const auto known = bound_of(request, &price, {}, KnownPrefix{.counted = request.counted[0], .prompt_tokens = 40});
    EXPECT_EQ(known.at_most.input,
              40 + static_cast<std::int64_t>(request.boundaries[1] - request.boundaries[0]) + 1'024);
}

TEST(CallBoundTest, each_tool_of_the_provider_reads_all_that_the_model_takes_in_each_round) {
    const CallBound bounded =
        bound(responses_route(), R"({"model":"m","input":"x","tools":[{"type":"web_search"}],"max_tool_calls":3})");
    EXPECT_EQ(bounded.at_most.input, 4 * 100'000);
    EXPECT_EQ(bounded.at_most.paid_tools, 3);
    const CallBound two = bound(
        messages_route(), R"({"model":"m","max_tokens":5,"tools":[{"type":"web_search_1"},{"type":"web_fetch_1"}]})");
    EXPECT_EQ(two.at_most.paid_tools, 16) << "each of them gets max_uses 8";
    EXPECT_EQ(two.multiple, 17);
    const CallBound loop =
        bound(messages_route(), R"({"model":"m","max_tokens":5,"tools":[{"type":"code_execution_1"}]})");
    EXPECT_EQ(loop.multiple, 11) << "the provider ends its loop after ten rounds";
}

TEST(CallBoundTest, what_nothing_bounds_has_a_reason) {
    const std::string search = R"({"model":"m","input":"x","tools":[{"type":"web_search"}]})";
    EXPECT_EQ(why(responses_route(), search, "openai"), "");
    EXPECT_NE(why(responses_route(), search, "elsewhere"), "");
    EXPECT_NE(why(chat_route(), R"({"model":"m","search_parameters":{"mode":"auto"}})", "x-ai"), "");
    EXPECT_EQ(why(chat_route(), R"({"model":"m","search_parameters":{"mode":"off"}})", "x-ai"), "");
    EXPECT_NE(why(chat_route(), R"({"model":"m","enable_search":true})", "alibaba"), "");
    EXPECT_EQ(why(chat_route(), R"({"model":"m","enable_search":false})", "alibaba"), "");
    EXPECT_NE(why(chat_route(), R"({"model":"m","tools":[{"googleSearch":{}}]})", "google"), "");
    EXPECT_NE(why(chat_route(), R"({"model":"m","tools":[{"type":null,"function":{"name":"f"}}]})", "google"), "");
    EXPECT_EQ(why(chat_route(), R"({"model":"m","tools":[{"function":{"name":"f"}}]})", "google"), "");
    EXPECT_NE(why(generate_route(), R"({"tools":[{"googleSearch":{}}]})", "google"), "");
    EXPECT_EQ(why(generate_route(), R"({"tools":[{"functionDeclarations":[]}]})", "google"), "");
    EXPECT_EQ(why(messages_route(), R"({"model":"m","max_tokens":5,"tools":[{"type":"web_search_1"}]})", "anthropic"),
              "");

    const std::string images = R"({"model":"m","input":"x","tools":[{"type":"image_generation"}]})";
    EXPECT_NE(why(responses_route(), images, "openai"), "");
    EXPECT_EQ(why(responses_route(), images, "openai", priced({.input = 1, .output = 1, .per_image = 1})), "");
    const std::string drawn = R"({"model":"m","modalities":["text","image"]})";
    EXPECT_NE(why(chat_route(), drawn, "openrouter"), "");
    EXPECT_EQ(why(chat_route(), drawn, "openrouter", priced({.input = 1, .output = 1, .image_output = 1})), "");
}

}  // namespace
}  // namespace interlock::gateway
