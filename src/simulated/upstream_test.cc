// Each API of the simulated provider, whole and streamed.
#include "simulated/upstream.h"

#include "simulated/test_support.h"

namespace interlock::simulated {
namespace {

using Names = std::vector<std::string>;

constexpr const char* chat = R"({"model":"m","messages":[{"role":"user","content":"12345678"}]})";
constexpr const char* chat_streamed =
    R"({"model":"m","stream":true,"messages":[{"role":"user","content":"12345678"}]})";
constexpr const char* chat_with_usage =
    R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]})";
constexpr const char* responses = R"({"model":"m","input":"12345678"})";
constexpr const char* responses_streamed = R"({"model":"m","input":"12345678","stream":true})";
constexpr const char* messages = R"({"model":"m","max_tokens":100,"messages":[{"role":"user","content":"12345678"}]})";
constexpr const char* messages_streamed =
    R"({"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"12345678"}]})";
constexpr const char* contents = R"({"contents":[{"role":"user","parts":[{"text":"12345678"}]}]})";
constexpr const char* gemini = "/v1beta/models/sim/small:generateContent";
constexpr const char* gemini_events = "/v1beta/models/sim/small:streamGenerateContent?alt=sse";
constexpr const char* gemini_array = "/v1beta/models/sim%2Fsmall:streamGenerateContent";

std::string joined(const std::vector<json::value>& documents, std::string_view pointer) {
    std::string text;
    for (const json::value& document : documents) {
        boost::system::error_code error;
        const json::value* found = document.find_pointer("/" + std::string(pointer), error);
        if (found && found->is_string()) text.append(found->as_string());
    }
    return text;
}

// ---- OpenAI: chat ---------------------------------------------------------------------------------------------------

TEST_F(SimulatedUpstreamTest, a_chat_is_answered_with_words_and_their_price) {
    const Heard heard = post("/v1/chat/completions", chat);

    const json::value answer = heard.json();
    EXPECT_EQ(heard.status, 200);
    EXPECT_EQ(heard.content_type, "application/json");
    EXPECT_EQ(text_at(answer, "object"), "chat.completion");
    EXPECT_EQ(text_at(answer, "model"), "m");
    EXPECT_EQ(text_at(answer, "choices/0/message/role"), "assistant");
    EXPECT_EQ(text_at(answer, "choices/0/finish_reason"), "stop");
    EXPECT_EQ(number_at(answer, "usage/prompt_tokens"), 2);
    EXPECT_EQ(number_at(answer, "usage/completion_tokens"), 16);
    EXPECT_EQ(number_at(answer, "usage/total_tokens"), 18);
    EXPECT_GE(text_at(answer, "choices/0/message/content").size(), 16u);
    EXPECT_TRUE(text_at(answer, "id").starts_with("chatcmpl-"));
}

TEST_F(SimulatedUpstreamTest, a_base_url_without_v1_is_as_good) {
    EXPECT_EQ(post("/chat/completions", chat).status, 200);
    EXPECT_EQ(post("/v1/chat/complete", chat).status, 404);
    EXPECT_EQ(get("/v1/chat/completions").status, 404);
}

TEST_F(SimulatedUpstreamTest, a_chat_never_says_more_than_its_cap) {
    const json::value answer =
        post("/v1/chat/completions", R"({"model":"m","max_completion_tokens":5,"n":3,"messages":[]})").json();

    EXPECT_EQ(answer.at("choices").as_array().size(), 3u);
    EXPECT_EQ(text_at(answer, "choices/2/finish_reason"), "length");
    EXPECT_EQ(number_at(answer, "usage/completion_tokens"), 15);
}

TEST_F(SimulatedUpstreamTest, a_chat_streams_its_usage_only_to_those_who_ask) {
    const Heard unasked = post("/v1/chat/completions", chat_streamed);
    EXPECT_FALSE(at(last_line(), "usage_told").as_bool());
    const Heard asked = post("/v1/chat/completions", chat_with_usage);
    EXPECT_TRUE(at(last_line(), "usage_told").as_bool());

    EXPECT_EQ(unasked.content_type, "text/event-stream; charset=utf-8");
    EXPECT_EQ(unasked.body.find("usage"), std::string::npos);
    EXPECT_TRUE(unasked.body.ends_with("\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"));
    const auto chunks = asked.documents();
    EXPECT_EQ(asked.events().back().data, "[DONE]");
    EXPECT_TRUE(at(chunks.back(), "choices").as_array().empty());
    EXPECT_EQ(number_at(chunks.back(), "usage/completion_tokens"), 16);
    for (std::size_t i = 0; i + 1 < chunks.size(); ++i) EXPECT_TRUE(at(chunks[i], "usage").is_null());
}

TEST_F(SimulatedUpstreamTest, a_streamed_chat_says_the_same_in_pieces) {
    const Heard heard = post("/v1/chat/completions", chat_streamed);

    const auto chunks = heard.documents();
    EXPECT_EQ(chunks.size(), 1u + 4u + 1u);
    EXPECT_EQ(heard.writes.size(), 1u + 4u + 1u);
    EXPECT_EQ(text_at(chunks[0], "choices/0/delta/role"), "assistant");
    EXPECT_EQ(joined(chunks, "choices/0/delta/content"),
              text_at(post("/v1/chat/completions", chat).json(), "choices/0/message/content"));
    EXPECT_EQ(text_at(chunks.back(), "choices/0/finish_reason"), "stop");
}

TEST_F(SimulatedUpstreamTest, a_chat_calls_a_tool_until_it_has_a_result) {
    const std::string script = R"(tool=look;tool_args={"at": "a; b"})";
    const std::string with_result =
        R"({"model":"m","messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[]},)"
        R"({"role":"tool","tool_call_id":"call_1","content":"seen"}]})";

    const json::value whole = post("/v1/chat/completions", chat, script).json();
    const auto chunks = post("/v1/chat/completions", chat_streamed, script).documents();
    const json::value after = post("/v1/chat/completions", with_result, script).json();

    EXPECT_EQ(text_at(whole, "choices/0/finish_reason"), "tool_calls");
    EXPECT_TRUE(at(whole, "choices/0/message/content").is_null());
    EXPECT_EQ(text_at(whole, "choices/0/message/tool_calls/0/function/name"), "look");
    EXPECT_EQ(text_at(whole, "choices/0/message/tool_calls/0/function/arguments"), R"({"at": "a; b"})");
    EXPECT_EQ(text_at(chunks[0], "choices/0/delta/tool_calls/0/function/name"), "look");
    EXPECT_EQ(joined(chunks, "choices/0/delta/tool_calls/0/function/arguments"), R"({"at": "a; b"})");
    EXPECT_EQ(text_at(chunks.back(), "choices/0/finish_reason"), "tool_calls");
    EXPECT_EQ(text_at(after, "choices/0/finish_reason"), "stop");
}

// ---- OpenAI: responses ----------------------------------------------------------------------------------------------

TEST_F(SimulatedUpstreamTest, a_response_is_answered) {
    const json::value answer = post("/v1/responses", responses).json();

    EXPECT_EQ(text_at(answer, "object"), "response");
    EXPECT_EQ(text_at(answer, "status"), "completed");
    EXPECT_EQ(text_at(answer, "output/0/type"), "message");
    EXPECT_EQ(text_at(answer, "output/0/content/0/type"), "output_text");
    EXPECT_EQ(number_at(answer, "usage/input_tokens"), 2);
    EXPECT_EQ(number_at(answer, "usage/output_tokens"), 16);
}

TEST_F(SimulatedUpstreamTest, a_streamed_response_tells_every_step) {
    const Heard heard = post("/v1/responses", responses_streamed, "chunks=2");

    EXPECT_EQ(heard.names(), (Names{"response.created", "response.in_progress", "response.output_item.added",
                                    "response.content_part.added", "response.output_text.delta",
                                    "response.output_text.delta", "response.output_text.done",
                                    "response.content_part.done", "response.output_item.done", "response.completed"}));
    const auto events = heard.documents();
    for (std::size_t i = 0; i < events.size(); ++i) {
        EXPECT_EQ(number_at(events[i], "sequence_number"), static_cast<std::int64_t>(i));
        EXPECT_EQ(text_at(events[i], "type"), heard.names()[i]);
    }
    EXPECT_TRUE(at(events[0], "response/usage").is_null());
    EXPECT_EQ(number_at(events.back(), "response/usage/total_tokens"), 18);
    EXPECT_EQ(joined(events, "delta"), text_at(events.back(), "response/output/0/content/0/text"));
}

TEST_F(SimulatedUpstreamTest, a_streamed_response_calls_a_function) {
    const Heard heard = post("/v1/responses", responses_streamed, R"(tool=look;tool_args={"a":1};chunks=2)");

    EXPECT_EQ(heard.names(),
              (Names{"response.created", "response.in_progress", "response.output_item.added",
                     "response.function_call_arguments.delta", "response.function_call_arguments.delta",
                     "response.function_call_arguments.done", "response.output_item.done", "response.completed"}));
    EXPECT_EQ(joined(heard.documents(), "delta"), R"({"a":1})");
    EXPECT_EQ(text_at(heard.documents().back(), "response/output/0/name"), "look");
}

TEST_F(SimulatedUpstreamTest, a_function_that_has_answered_is_not_called_again) {
    const std::string body =
        R"({"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"[[sim tool=look]]"}]},)"
        R"({"type":"function_call","call_id":"c","name":"look","arguments":"{}"},)"
        R"({"type":"function_call_output","call_id":"c","output":"seen"}]})";

    EXPECT_EQ(text_at(post("/v1/responses", body).json(), "output/0/type"), "message");
}

TEST_F(SimulatedUpstreamTest, a_response_at_its_cap_is_incomplete) {
    const Heard heard = post("/v1/responses", R"({"model":"m","input":"x","max_output_tokens":3,"stream":true})");

    EXPECT_EQ(heard.names().back(), "response.incomplete");
    EXPECT_EQ(text_at(heard.documents().back(), "response/incomplete_details/reason"), "max_output_tokens");
    EXPECT_EQ(number_at(heard.documents().back(), "response/usage/output_tokens"), 3);
}

TEST_F(SimulatedUpstreamTest, a_response_shows_reasoning_and_searches_as_items) {
    const Heard heard = post("/v1/responses", responses_streamed, "reasoning=4;searches=2");

    const json::value last = heard.documents().back();
    EXPECT_EQ(text_at(last, "response/output/0/type"), "reasoning");
    EXPECT_EQ(text_at(last, "response/output/1/type"), "web_search_call");
    EXPECT_EQ(text_at(last, "response/output/2/type"), "web_search_call");
    EXPECT_EQ(text_at(last, "response/output/3/type"), "message");
    EXPECT_EQ(number_at(last, "response/usage/output_tokens_details/reasoning_tokens"), 4);
    for (const json::value& event : heard.documents()) {
        if (text_at(event, "type") == "response.output_text.delta") EXPECT_EQ(number_at(event, "output_index"), 3);
    }
}

// ---- OpenAI: embeddings ---------------------------------------------------------------------------------------------

TEST_F(SimulatedUpstreamTest, embeddings_are_as_many_as_there_are_inputs) {
    const json::value one = post("/v1/embeddings", R"({"model":"m","input":"12345"})").json();
    const json::value two = post("/v1/embeddings", R"({"model":"m","input":["1234","5678"],"dimensions":3})").json();
    const json::value tokens = post("/v1/embeddings", R"({"model":"m","input":[[1,2,3],[4]]})").json();

    EXPECT_EQ(number_at(one, "usage/prompt_tokens"), 2);
    EXPECT_EQ(at(one, "data/0/embedding").as_array().size(), 8u);
    EXPECT_EQ(json::serialize(at(two, "data/1/embedding")), "[0E0,1E0,0E0]");
    EXPECT_EQ(number_at(two, "data/1/index"), 1);
    EXPECT_EQ(number_at(tokens, "usage/total_tokens"), 4);
    EXPECT_EQ(at(tokens, "data").as_array().size(), 2u);
}

TEST_F(SimulatedUpstreamTest, embeddings_come_as_base64_for_clients_that_want_them_so) {
    const json::value answer =
        post("/v1/embeddings", R"({"model":"m","input":"x","dimensions":2,"encoding_format":"base64"})").json();

    EXPECT_EQ(text_at(answer, "data/0/embedding"), "AACAPwAAAAA=");  // 1.0f, 0.0f
}

// ---- Anthropic ------------------------------------------------------------------------------------------------------

TEST_F(SimulatedUpstreamTest, a_message_is_answered) {
    const Heard heard = post("/v1/messages?beta=true", messages);

    const json::value answer = heard.json();
    EXPECT_EQ(text_at(answer, "type"), "message");
    EXPECT_EQ(text_at(answer, "content/0/type"), "text");
    EXPECT_EQ(text_at(answer, "stop_reason"), "end_turn");
    EXPECT_EQ(number_at(answer, "usage/input_tokens"), 2);
    EXPECT_EQ(number_at(answer, "usage/output_tokens"), 16);
    EXPECT_TRUE(header_of(heard, "request-id").starts_with("req_"));
}

TEST_F(SimulatedUpstreamTest, a_message_must_have_a_cap) {
    const Heard heard = post("/v1/messages", R"({"model":"m","messages":[]})");

    EXPECT_EQ(heard.status, 400);
    EXPECT_EQ(text_at(heard.json(), "type"), "error");
    EXPECT_EQ(text_at(heard.json(), "error/type"), "invalid_request_error");
    EXPECT_EQ(text_at(heard.json(), "error/message"), "max_tokens: Field required");
}

TEST_F(SimulatedUpstreamTest, caches_are_no_input_tokens_in_a_message) {
    const json::value answer =
        post("/v1/messages", messages, "input=100;cached=40;cache_write=20;cache_write_1h=10;searches=3").json();

    EXPECT_EQ(number_at(answer, "usage/input_tokens"), 30);
    EXPECT_EQ(number_at(answer, "usage/cache_read_input_tokens"), 40);
    EXPECT_EQ(number_at(answer, "usage/cache_creation_input_tokens"), 30);
    EXPECT_EQ(number_at(answer, "usage/cache_creation/ephemeral_5m_input_tokens"), 20);
    EXPECT_EQ(number_at(answer, "usage/cache_creation/ephemeral_1h_input_tokens"), 10);
    EXPECT_EQ(number_at(answer, "usage/server_tool_use/web_search_requests"), 3);
}

TEST_F(SimulatedUpstreamTest, a_streamed_message_counts_as_it_goes) {
    const Heard heard = post("/v1/messages", messages_streamed, "chunks=2");

    EXPECT_EQ(heard.names(), (Names{"message_start", "content_block_start", "ping", "content_block_delta",
                                    "content_block_delta", "content_block_stop", "message_delta", "message_stop"}));
    const auto events = heard.documents();
    EXPECT_EQ(number_at(events[0], "message/usage/input_tokens"), 2);
    EXPECT_EQ(number_at(events[0], "message/usage/output_tokens"), 1);
    EXPECT_EQ(number_at(events[6], "usage/output_tokens"), 16);
    EXPECT_EQ(text_at(events[6], "delta/stop_reason"), "end_turn");
    EXPECT_EQ(joined(events, "delta/text"), text_at(post("/v1/messages", messages).json(), "content/0/text"));
}

TEST_F(SimulatedUpstreamTest, a_message_uses_a_tool_until_it_has_a_result) {
    const std::string script = R"(tool=look;tool_args={"a":[1]})";
    const std::string with_result =
        R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"[[sim tool=look]]"},)"
        R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"look","input":{}}]},)"
        R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"seen"}]}]})";

    const json::value whole = post("/v1/messages", messages, script).json();
    const Heard streamed = post("/v1/messages", messages_streamed, script);
    const json::value after = post("/v1/messages", with_result).json();

    EXPECT_EQ(text_at(whole, "stop_reason"), "tool_use");
    EXPECT_EQ(number_at(whole, "content/0/input/a/0"), 1);
    EXPECT_EQ(text_at(streamed.documents()[1], "content_block/name"), "look");
    EXPECT_EQ(joined(streamed.documents(), "delta/partial_json"), R"({"a":[1]})");
    EXPECT_EQ(text_at(after, "content/0/type"), "text");
    EXPECT_EQ(text_at(after, "stop_reason"), "max_tokens");
}

TEST_F(SimulatedUpstreamTest, tokens_of_a_message_are_counted_for_nothing) {
    const Heard heard = post("/v1/messages/count_tokens", R"({"model":"m","messages":[{"content":"12345678"}]})");

    EXPECT_EQ(heard.body, R"({"input_tokens":2})");
    EXPECT_TRUE(at(last_line(), "usage").is_null());
}

// ---- Gemini ---------------------------------------------------------------------------------------------------------

TEST_F(SimulatedUpstreamTest, contents_are_answered) {
    const json::value answer = post(gemini, contents, "cached=1;reasoning=6").json();

    EXPECT_EQ(text_at(answer, "candidates/0/content/role"), "model");
    EXPECT_EQ(text_at(answer, "candidates/0/finishReason"), "STOP");
    EXPECT_EQ(text_at(answer, "modelVersion"), "sim/small");
    EXPECT_EQ(number_at(answer, "usageMetadata/promptTokenCount"), 2);
    EXPECT_EQ(number_at(answer, "usageMetadata/cachedContentTokenCount"), 1);
    EXPECT_EQ(number_at(answer, "usageMetadata/candidatesTokenCount"), 10);
    EXPECT_EQ(number_at(answer, "usageMetadata/thoughtsTokenCount"), 6);
    EXPECT_EQ(number_at(answer, "usageMetadata/totalTokenCount"), 18);
}

TEST_F(SimulatedUpstreamTest, contents_are_for_a_model_whose_name_may_have_a_slash) {
    for (const std::string name : {"models/sim/small", "models/sim%2Fsmall", "sim/small"}) {
        EXPECT_EQ(text_at(post("/v1beta/" + name + ":generateContent", contents).json(), "modelVersion"), "sim/small");
    }
}

TEST_F(SimulatedUpstreamTest, contents_stream_as_events_with_usage_in_each) {
    const Heard heard = post(gemini_events, contents);

    const auto chunks = heard.documents();
    ASSERT_EQ(chunks.size(), 4u);
    EXPECT_EQ(number_at(chunks[0], "usageMetadata/candidatesTokenCount"), 4);
    EXPECT_EQ(number_at(chunks[3], "usageMetadata/candidatesTokenCount"), 16);
    EXPECT_FALSE(at(chunks[2], "candidates/0").as_object().contains("finishReason"));
    EXPECT_EQ(text_at(chunks[3], "candidates/0/finishReason"), "STOP");
}

TEST_F(SimulatedUpstreamTest, contents_stream_as_an_array_without_alt) {
    const Heard heard = post(gemini_array, contents);

    EXPECT_EQ(heard.content_type, "application/json");
    EXPECT_EQ(heard.json().as_array().size(), 4u);
    EXPECT_EQ(heard.writes.size(), 5u);
    EXPECT_EQ(text_at(heard.json(), "0/modelVersion"), "sim/small");
}

TEST_F(SimulatedUpstreamTest, contents_have_a_cap_in_either_spelling) {
    for (const std::string config : {R"("generationConfig":{"maxOutputTokens":5,"candidateCount":2})",
                                     R"("generation_config":{"max_output_tokens":5,"candidate_count":2})"}) {
        const json::value answer = post(gemini, R"({"contents":[],)" + config + "}").json();

        EXPECT_EQ(text_at(answer, "candidates/1/finishReason"), "MAX_TOKENS");
        EXPECT_EQ(number_at(answer, "usageMetadata/candidatesTokenCount"), 10);
    }
}

TEST_F(SimulatedUpstreamTest, contents_call_a_function_until_it_has_answered) {
    const std::string with_result =
        R"({"contents":[{"role":"user","parts":[{"text":"[[sim tool=look]]"}]},{"role":"model","parts":[]},)"
        R"({"role":"user","parts":[{"functionResponse":{"name":"look","response":{}}}]}]})";

    const json::value whole = post(gemini, contents, "tool=look").json();
    const auto streamed = post(gemini_events, contents, "tool=look").documents();
    const json::value after = post(gemini, with_result).json();

    EXPECT_EQ(text_at(whole, "candidates/0/content/parts/0/functionCall/name"), "look");
    ASSERT_EQ(streamed.size(), 1u);
    EXPECT_EQ(text_at(streamed[0], "candidates/0/content/parts/0/functionCall/name"), "look");
    EXPECT_TRUE(at(after, "candidates/0/content/parts/0").as_object().contains("text"));
}

TEST_F(SimulatedUpstreamTest, tokens_of_contents_are_counted_for_nothing) {
    const std::string wrapped = R"({"generateContentRequest":)" + std::string(contents) + "}";

    EXPECT_EQ(number_at(post("/v1beta/models/m:countTokens", contents).json(), "totalTokens"), 2);
    EXPECT_EQ(number_at(post("/v1beta/models/m:countTokens", wrapped).json(), "totalTokens"), 2);
    EXPECT_EQ(post("/v1beta/models/m:embedContent", contents).status, 404);
}

// ---- all of them ----------------------------------------------------------------------------------------------------

TEST_F(SimulatedUpstreamTest, models_are_listed_in_each_language) {
    EXPECT_EQ(text_at(get("/v1/models").json(), "data/0/id"), "sim/small");
    EXPECT_EQ(text_at(get("/v1/models", {{"anthropic-version", "2023-06-01"}}).json(), "data/0/type"), "model");
    EXPECT_EQ(text_at(get("/v1/models?limit=1000", {{"x-api-key", "k"}}).json(), "data/0/display_name"), "sim/small");
    EXPECT_EQ(text_at(get("/v1beta/models").json(), "models/0/name"), "models/sim/small");
    EXPECT_EQ(text_at(get("/v1/models/any").json(), "id"), "any");
    EXPECT_EQ(text_at(get("/v1beta/models/sim%2Fany").json(), "name"), "models/sim/any");
}

TEST_F(SimulatedUpstreamTest, its_root_is_there) {
    EXPECT_EQ(ask(net::Method::head, "/").status, 200);
    EXPECT_EQ(get("/").status, 200);
}

TEST_F(SimulatedUpstreamTest, what_is_no_request_is_refused_in_its_language) {
    EXPECT_EQ(text_at(post("/v1/chat/completions", "{").json(), "error/type"), "invalid_request_error");
    EXPECT_EQ(text_at(post("/v1/chat/completions", "[]").json(), "error/message"), "the body is not a JSON object");
    EXPECT_EQ(text_at(post("/v1/messages", R"({"max_tokens":1})").json(), "error/type"), "invalid_request_error");
    EXPECT_EQ(text_at(post("/v1beta/models/m:generateContent", "").json(), "error/status"), "INVALID_ARGUMENT");
    EXPECT_EQ(text_at(post("/v1beta/nothing", "{}").json(), "error/status"), "NOT_FOUND");
    EXPECT_EQ(post("/v1/chat/completions", "{\"model\":\"\xff\"}").status, 400);
    EXPECT_TRUE(at(last_line(), "body").is_null());
}

TEST_F(SimulatedUpstreamTest, the_books_have_every_request_and_what_it_costs) {
    post("/v1/chat/completions?a=b", chat, "input=100;cached=40;output=7;no_usage=1");

    const json::value line = last_line();
    EXPECT_EQ(text_at(line, "method"), "POST");
    EXPECT_EQ(text_at(line, "path"), "/v1/chat/completions");
    EXPECT_EQ(text_at(line, "query"), "a=b");
    EXPECT_EQ(text_at(line, "body"), chat);
    EXPECT_EQ(text_at(line, "headers/x-sim"), "input=100;cached=40;output=7;no_usage=1");
    EXPECT_EQ(number_at(line, "status"), 200);
    EXPECT_EQ(number_at(line, "usage/input"), 100);
    EXPECT_EQ(number_at(line, "usage/cached"), 40);
    EXPECT_EQ(number_at(line, "usage/output"), 7);
    EXPECT_FALSE(at(line, "usage_told").as_bool());
    EXPECT_TRUE(lines.back().ends_with("}\n"));
}

TEST_F(SimulatedUpstreamTest, inline_data_is_no_text) {
    const std::string body = R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"1234"},)"
                             R"({"type":"image_url","image_url":{"url":"data:image/png;base64,AAAAAAAAAAAAAAAAAAAA"}},)"
                             R"({"type":"file","file":{"file_data":"AAAAAAAAAAAAAAAAAAAA"}}]}]})";

    EXPECT_EQ(number_at(post("/v1/chat/completions", body).json(), "usage/prompt_tokens"), 1);
}

class LockedUpstreamTest : public SimulatedUpstreamTest {
 protected:
    LockedUpstreamTest() : SimulatedUpstreamTest({.key = "secret"}) {}
    int status_of(const std::string& query, std::vector<net::Header> headers) {
        return ask(net::Method::post, "/v1/chat/completions" + query, chat, std::move(headers)).status;
    }
};

TEST_F(LockedUpstreamTest, takes_its_key_wherever_clients_put_theirs) {
    EXPECT_EQ(status_of("", {{"authorization", "Bearer secret"}}), 200);
    EXPECT_EQ(status_of("", {{"x-api-key", "secret"}}), 200);
    EXPECT_EQ(status_of("", {{"x-goog-api-key", "secret"}}), 200);
    EXPECT_EQ(status_of("?alt=sse&key=secret", {}), 200);
}

TEST_F(LockedUpstreamTest, refuses_a_request_without_its_key) {
    EXPECT_EQ(status_of("", {}), 401);
    EXPECT_EQ(status_of("", {{"authorization", "Bearer wrong"}}), 401);
    EXPECT_EQ(status_of("?key=secre", {}), 401);
    EXPECT_EQ(text_at(post("/v1/messages", messages).json(), "error/type"), "authentication_error");
    EXPECT_EQ(text_at(post(gemini, contents).json(), "error/status"), "UNAUTHENTICATED");
    EXPECT_EQ(text_at(post("/v1/chat/completions", chat).json(), "error/code"), "invalid_api_key");
}

}  // namespace
}  // namespace interlock::simulated
