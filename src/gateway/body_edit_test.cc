#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "gateway/call_request.h"
#include "gateway/call_request_test_support.h"
#include "gateway/dialect.h"

namespace interlock::gateway {
namespace {

namespace json = boost::json;

std::string edit(const ModelRoute& route, std::string_view body, const Edits& edits) {
    return edited(route, body, call_request_of(route, body), edits);
}

TEST(CallRequestEdit, nothing_is_changed_that_is_not_named) {
    const std::string body = " {\"model\" : \"m\",\n \"x\": [1, 2]} ";
    EXPECT_EQ(edit(chat_route(), body, {}), body);
    EXPECT_EQ(edit(chat_route(), body, {.model = "n\"1"}), " {\"model\" : \"n\\\"1\",\n \"x\": [1, 2]} ");
}

TEST(CallRequestEdit, usage_is_asked_for_however_the_options_were_stated) {
    const Edits edits{.include_usage = true};
    EXPECT_EQ(edit(chat_route(), R"({"model":"m"})", edits),
              R"({"stream_options":{"include_usage":true},"model":"m"})");
    EXPECT_EQ(edit(chat_route(), R"({"model":"m","stream_options":{}})", edits),
              R"({"model":"m","stream_options":{"include_usage":true}})");
    EXPECT_EQ(edit(chat_route(), R"({"model":"m","stream_options":{"a":1}})", edits),
              R"({"model":"m","stream_options":{"include_usage":true,"a":1}})");
    EXPECT_EQ(edit(chat_route(), R"({"model":"m","stream_options":null})", edits),
              R"({"model":"m","stream_options":{"include_usage":true}})");
    EXPECT_EQ(edit(chat_route(), R"({"stream_options":{"include_usage": false },"model":"m"})", edits),
              R"({"stream_options":{"include_usage": true },"model":"m"})");
    const std::string asked = R"({"stream_options":{"include_usage":true},"model":"m"})";
    EXPECT_EQ(edit(chat_route(), asked, edits), asked);
    EXPECT_EQ(edit(responses_route(), R"({"model":"m"})", edits), R"({"model":"m"})");
}

TEST(CallRequestEdit, a_limit_is_put_where_it_was_or_where_it_belongs) {
    const Edits edits{.output_max = 42};
    EXPECT_EQ(edit(chat_route(), R"({"model":"m"})", edits), R"({"max_completion_tokens":42,"model":"m"})");
    EXPECT_EQ(edit(chat_route(), R"({"max_tokens":9,"model":"m"})", edits),
              R"({"max_completion_tokens":42,"model":"m"})");
    EXPECT_EQ(edit(chat_route(), R"({"max_tokens":null,"model":"m"})", edits),
              R"({"max_completion_tokens":42,"model":"m"})");
    EXPECT_EQ(edit(responses_route(), R"({"model":"m"})", edits), R"({"max_output_tokens":42,"model":"m"})");
    EXPECT_EQ(edit(messages_route(), R"({"model":"m","max_tokens":64000})", edits), R"({"model":"m","max_tokens":42})");
    EXPECT_EQ(edit(generate_route(), R"({})", edits), R"({"generationConfig":{"maxOutputTokens":42}})");
    EXPECT_EQ(edit(generate_route(), R"({"contents":[]})", edits),
              R"({"generationConfig":{"maxOutputTokens":42},"contents":[]})");
    EXPECT_EQ(edit(generate_route(), R"({"generation_config":{"topK":1}})", edits),
              R"({"generation_config":{"maxOutputTokens":42,"topK":1}})");
    EXPECT_EQ(edit(generate_route(), R"({"generationConfig":{ }})", edits),
              R"({"generationConfig":{"maxOutputTokens":42 }})");
    EXPECT_EQ(edit(generate_route(), R"({"generationConfig":null})", edits),
              R"({"generationConfig":{"maxOutputTokens":42}})");
    EXPECT_EQ(edit(generate_route(), R"({"generationConfig":{"max_output_tokens":7}})", edits),
              R"({"generationConfig":{"maxOutputTokens":42}})");
    EXPECT_EQ(edit(generate_route(), R"({"generationConfig":{"max_output_tokens":null, "maxOutputTokens":7}})", edits),
              R"({"generationConfig":{"maxOutputTokens":42}})");
    EXPECT_EQ(edit(embeddings_route(), R"({"model":"m","input":"x"})", edits), R"({"model":"m","input":"x"})");
}

TEST(CallRequestEdit, a_limit_goes_out_once_under_the_name_that_the_upstream_knows) {
    const Edits edits{.output_max = 42, .limit_name = "max_tokens"};
    for (const std::string_view body : {
             R"({"max_tokens":9,"model":"m"})",
             R"({"max_completion_tokens":9,"model":"m"})",
             R"({"max_tokens":null,"max_completion_tokens":9,"model":"m"})",
             R"({"max_tokens":9 , "max_completion_tokens":null,"model":"m"})",
             R"({"max\u005ftokens" : null,"max_completion\u005ftokens":null,"model":"m"})",
         }) {
        EXPECT_EQ(json::parse(edit(chat_route(), body, edits)), json::parse(R"({"max_tokens":42,"model":"m"})"));
    }
    EXPECT_EQ(edit(chat_route(), R"({"model":"m","max_tokens":null,"max_completion_tokens":null})", edits),
              R"({"model":"m","max_tokens":42})");
}

TEST(CallRequestEdit, a_bound_on_tools_replaces_one_that_is_null) {
    const Edits edits{.tool_calls_max = 8};
    EXPECT_EQ(edit(responses_route(), R"({"model":"m","max_tool_calls":null})", edits),
              R"({"model":"m","max_tool_calls":8})");
    EXPECT_EQ(edit(responses_route(), R"({"max\u005ftool_calls" : null,"model":"m"})", edits),
              R"({"max_tool_calls" : 8,"model":"m"})");
    EXPECT_EQ(edit(responses_route(), R"({"model":"m"})", edits), R"({"max_tool_calls":8,"model":"m"})");
    EXPECT_EQ(edit(chat_route(), R"({"model":"m"})", edits), R"({"model":"m"})");
}

// ---- the property: the original document with only the named members changed ----------------------------------------

// What an edit means, said by another library's tree. Shares no code with what it checks.
json::value expected(const ModelRoute& route, json::value document, const Edits& edits) {
    json::object& body = document.as_object();
    if (edits.model && route.format != ApiFormat::gemini) body["model"] = *edits.model;
    if (edits.output_max) {
        switch (route.operation) {
            case Operation::chat:
                body.erase("max_tokens");
                body.erase("max_completion_tokens");
                body[edits.limit_name] = *edits.output_max;
                break;
            case Operation::responses:
                body["max_output_tokens"] = *edits.output_max;
                break;
            case Operation::messages:
                body["max_tokens"] = *edits.output_max;
                break;
            case Operation::generate: {
                if (body.contains("generation_config") && body["generation_config"].is_null())
                    body.erase("generation_config");
                const std::string_view name =
                    body.contains("generation_config") ? "generation_config" : "generationConfig";
                json::value& config = body[name];
                if (!config.is_object()) config = json::object{};
                config.as_object().erase("max_output_tokens");
                config.as_object()["maxOutputTokens"] = *edits.output_max;
                break;
            }
            default:
                break;
        }
    }
    if (edits.tool_calls_max && route.operation == Operation::responses) body["max_tool_calls"] = *edits.tool_calls_max;
    if (edits.include_usage && route.operation == Operation::chat) {
        json::value& options = body["stream_options"];
        if (!options.is_object()) options = json::object{};
        options.as_object()["include_usage"] = true;
    }
    return document;
}

class Bodies {
 public:
    explicit Bodies(unsigned seed) : random_(seed) {}

    std::string body(Operation operation) {
        std::vector<std::string> members{filler(), filler(), filler()};
        if (operation != Operation::generate) members.push_back(member("model", R"("some \"model\" \u00e9")"));
        if (operation == Operation::messages) members.push_back(member("max_tokens", "1000"));
        if (operation == Operation::chat) {
            const bool other_is_stated = coin();
            if (coin()) members.push_back(member("max_tokens", other_is_stated || coin() ? "null" : "77"));
            if (coin()) members.push_back(member("max_completion\\u005ftokens", other_is_stated ? "78" : "null"));
            if (coin()) members.push_back(member("stream_options", options()));
            members.push_back(
                member("messages", R"([{"role":"user","content":"a,}\"{"},{"role":"assistant","content":null}])"));
        }
        if (operation == Operation::responses && coin())
            members.push_back(member("max_output_tokens", coin() ? "5" : "null"));
        if (operation == Operation::responses && coin())
            members.push_back(member("max_tool_calls", coin() ? "3" : "null"));
        if (operation == Operation::generate && coin())
            members.push_back(member(coin() ? "generationConfig" : "generation_config", config()));
        std::shuffle(members.begin(), members.end(), random_);
        std::string text = blank() + "{" + blank();
        for (std::size_t i = 0; i < members.size(); ++i) text += (i == 0 ? "" : "," + blank()) + members[i] + blank();
        return text + "}" + blank();
    }
    bool coin() { return random_() % 2 == 0; }

 private:
    std::string blank() { return std::string(coin() ? "" : coin() ? " " : "\n\t "); }
    std::string member(std::string_view name, std::string_view value) {
        return fmt::format("\"{}\"{}:{}{}", name, blank(), blank(), value);
    }
    std::string filler() {
        constexpr std::array values{R"({"a":[1,2,{"b":"}"}]})",    "[]", "{}", "1.25", "\"x\\\\\"", "null",
                                    "\"\\u2028{\\\"model\\\":1}\""};
        return member(fmt::format("filler{}", ++fillers_), values[random_() % values.size()]);
    }
    std::string options() {
        constexpr std::array values{
            "null", "{}", "{ }", R"({"include_usage":false})", R"({"a":1,"include_usage": true})", R"({"a":{}})"};
        return values[random_() % values.size()];
    }
    std::string config() {
        constexpr std::array values{"null",
                                    "{}",
                                    "{ \n}",
                                    R"({"maxOutputTokens":9})",
                                    R"({"topP":0.5,"max_output_tokens" : 8})",
                                    R"({"maxOutputTokens":null ,"max_output_tokens" : 8})",
                                    R"({"max_output_tokens" : null , "topP":0.5,"maxOutputTokens": null})",
                                    R"({"topP":0.5})"};
        return values[random_() % values.size()];
    }

    std::mt19937 random_;
    int fillers_ = 0;
};

TEST(CallRequestEdit, an_edited_body_is_the_original_with_only_the_named_members_changed) {
    for (unsigned seed = 1; seed <= 4'000; ++seed) {
        Bodies bodies(seed);
        for (const ModelRoute& route : {chat_route(), responses_route(), messages_route(), generate_route()}) {
            const std::string body = bodies.body(route.operation);
            Edits edits{.include_usage = bodies.coin()};
            if (bodies.coin()) edits.output_max = 4321;
            if (bodies.coin()) edits.limit_name = "max_tokens";
            if (bodies.coin()) edits.tool_calls_max = 8;
            if (bodies.coin()) edits.model = "other/\"model\"";

            const std::string result = edit(route, body, edits);

            boost::system::error_code error;
            const json::value document = json::parse(result, error);
            ASSERT_FALSE(error) << result;
            ASSERT_EQ(document, expected(route, json::parse(body), edits)) << body << "\n" << result;
            // What was edited reads as it was meant.
            const CallRequest again = call_request_of(route, result);
            if (edits.output_max) ASSERT_EQ(again.output_max, 4321) << result;
            if (edits.include_usage && route.operation == Operation::chat) ASSERT_TRUE(again.wants_usage) << result;
            if (edits.model && route.operation != Operation::generate) ASSERT_EQ(again.model, *edits.model);
        }
    }
}

}  // namespace
}  // namespace interlock::gateway
