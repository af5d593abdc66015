// Streams as the providers send them, cut in every way.
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/usage.h"

namespace interlock::gateway {
namespace {

struct Outcome {
    std::string passed;
    Metered metered;
    bool ended = false;
};

template <class NextSize>
Outcome fed(Operation operation, bool strip, std::string_view stream, NextSize&& next_size) {
    StreamMeter meter(operation, strip, KeepText::yes);
    Outcome outcome;
    while (!stream.empty()) {
        // A copy that ends with the piece, so that reading past it or keeping a view of it is found out.
        const std::string piece(stream.substr(0, next_size()));
        stream.remove_prefix(piece.size());
        outcome.passed.append(meter.feed(piece));
    }
    outcome.passed.append(meter.finish());
    outcome.metered = meter.metered();
    outcome.ended = meter.ended();
    return outcome;
}

void expect_same(const Outcome& a, const Outcome& b) {
    EXPECT_EQ(a.passed, b.passed);
    EXPECT_EQ(a.ended, b.ended);
    EXPECT_EQ(a.metered.usage, b.metered.usage);
    EXPECT_EQ(a.metered.reported, b.metered.reported);
    EXPECT_EQ(a.metered.input_reported, b.metered.input_reported);
    EXPECT_EQ(a.metered.paid_tools, b.metered.paid_tools);
    EXPECT_EQ(a.metered.finish, b.metered.finish);
    EXPECT_EQ(a.metered.model, b.metered.model);
    EXPECT_EQ(a.metered.text, b.metered.text);
    EXPECT_EQ(a.metered.stated_cost, b.metered.stated_cost);
}

// Invariant (2): whole, byte by byte and at random places the same. Gives back the outcome.
Outcome meter(Operation operation, bool strip, const std::string& stream) {
    const Outcome whole = fed(operation, strip, stream, [&] { return stream.size(); });
    expect_same(whole, fed(operation, strip, stream, [] { return std::size_t{1}; }));
    std::mt19937 random(11);
    for (int i = 0; i < 200; ++i) {
        expect_same(whole, fed(operation, strip, stream, [&] { return 1 + random() % (i % 2 == 0 ? 10 : 200); }));
        if (testing::Test::HasFailure()) break;
    }
    if (!strip) EXPECT_EQ(whole.passed, stream);
    return whole;
}

std::string with_line_ends(std::string stream, std::string_view line_end) {
    std::string changed;
    for (const char c : stream) c == '\n' ? changed.append(line_end) : changed.append(1, c);
    return changed;
}

// ---- OpenAI chat ----------------------------------------------------------------------------------------------------

const std::string chat_begin =
    R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x-2026","service_tier":"default","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x-2026","choices":[{"index":0,"delta":{"content":"Say \"usage\":"},"logprobs":null,"finish_reason":null}],"usage":null}

: OPENROUTER PROCESSING

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x-2026","choices":[{"index":0,"delta":{"content":" {\"a\":1} é\n"},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x-2026","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}

)";
const std::string chat_usage =
    R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x-2026","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":12,"total_tokens":32,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":4},"cost":0.00012}}

)";
const std::string done = "data: [DONE]\n\n";

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

TEST(StreamMeter, a_chat_is_metered_and_passed_on_as_it_came) {
    for (const char* line_end : {"\n", "\r\n", "\r"}) {
        expect_chat(meter(Operation::chat, false, with_line_ends(chat_begin + chat_usage + done, line_end)));
    }
}

TEST(StreamMeter, the_chunk_of_usage_is_dropped_whole_where_nobody_asked_for_it) {
    for (const char* line_end : {"\n", "\r\n", "\r"}) {
        const Outcome outcome = meter(Operation::chat, true, with_line_ends(chat_begin + chat_usage + done, line_end));
        expect_chat(outcome);
        EXPECT_EQ(outcome.passed, with_line_ends(chat_begin + done, line_end));
    }
}

TEST(StreamMeter, usage_beside_choices_is_metered_and_left) {
    const std::string last =
        R"(data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":1}})"
        "\n\n";
    const Outcome outcome = meter(Operation::chat, true, last + done);
    EXPECT_EQ(outcome.passed, last + done);
    EXPECT_EQ(outcome.metered.usage.input_tokens, 3);
    EXPECT_EQ(outcome.metered.finish, "length");
}

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

TEST(StreamMeter, a_last_event_counts_without_its_blank_line) {
    std::string cut = chat_begin + chat_usage;
    cut.resize(cut.size() - 2);
    EXPECT_TRUE(meter(Operation::chat, false, cut).metered.reported);
    const Outcome stripped = meter(Operation::chat, true, cut);
    EXPECT_TRUE(stripped.metered.reported);
    EXPECT_EQ(stripped.passed, chat_begin);
}

TEST(StreamMeter, what_was_held_back_comes_out_at_the_end) {
    const std::string cut = chat_begin + "data: {\"choices\":[{\"del";
    EXPECT_EQ(meter(Operation::chat, true, cut).passed, cut);
    EXPECT_EQ(meter(Operation::chat, true, "no stream at all").passed, "no stream at all");
    EXPECT_EQ(meter(Operation::chat, true, "").passed, "");
}

TEST(StreamMeter, an_error_ends_a_chat) {
    const Outcome outcome =
        meter(Operation::chat, true, chat_begin + "data: {\"error\":{\"message\":\"overloaded\"}}\n\n");
    EXPECT_TRUE(outcome.ended);
    EXPECT_FALSE(outcome.metered.reported);
    EXPECT_EQ(outcome.metered.finish, "error");
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

// ---- OpenAI responses -----------------------------------------------------------------------------------------------

const std::string responses_begin =
    R"(event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-x","output":[],"usage":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"function_call","name":"shell","arguments":""}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":2,"item_id":"msg_1","delta":"Not \"response.completed\"","obfuscation":"xxxxxxxxxxx"}

event: response.output_text.delta
data: {"sequence_number":3,"delta":" yet","type":"response.output_text.delta"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":4,"item":{"type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}}}

)";
const std::string responses_end =
    R"(event: response.completed
data: {"type":"response.completed","sequence_number":5,"response":{"id":"resp_1","status":"completed","model":"gpt-x","service_tier":"default","output":[{"type":"web_search_call","action":{"type":"search"}},{"type":"message","content":[{"type":"output_text","text":"Not yet"}]}],"usage":{"input_tokens":37,"input_tokens_details":{"cached_tokens":30},"output_tokens":11,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":48}}}

)";

TEST(StreamMeter, responses_are_metered) {
    const Outcome outcome = meter(Operation::responses, false, responses_begin + responses_end);
    EXPECT_EQ(outcome.metered.usage,
              (Usage{.input_tokens = 7, .output_tokens = 8, .cache_read_tokens = 30, .reasoning_tokens = 3}));
    EXPECT_TRUE(outcome.metered.reported && outcome.ended);
    EXPECT_EQ(outcome.metered.paid_tools, 1);
    EXPECT_EQ(outcome.metered.text, "Not \"response.completed\" yet");
    EXPECT_EQ(outcome.metered.finish, "completed");
    EXPECT_EQ(outcome.metered.model, "gpt-x");

    const Outcome cut = meter(Operation::responses, false, responses_begin);
    EXPECT_FALSE(cut.metered.reported || cut.ended);
    EXPECT_EQ(cut.metered.paid_tools, 1);
}

TEST(StreamMeter, responses_that_fail_have_ended) {
    const Outcome failed = meter(Operation::responses, false,
                                 responses_begin +
                                     "event: response.failed\ndata: "
                                     "{\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{"
                                     "\"code\":\"x\"},\"usage\":null}}\n\n");
    EXPECT_TRUE(failed.ended);
    EXPECT_FALSE(failed.metered.reported);
    EXPECT_EQ(failed.metered.finish, "failed");
    const Outcome incomplete = meter(
        Operation::responses, false,
        responses_begin +
            R"(data: {"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":1,"output_tokens":2}}})"
            "\n\n");
    EXPECT_TRUE(incomplete.ended && incomplete.metered.reported);
    EXPECT_EQ(incomplete.metered.finish, "max_output_tokens");
    EXPECT_TRUE(meter(Operation::responses, false, "data: {\"type\":\"error\",\"code\":\"x\"}\n\n").ended);
}

// ---- Anthropic ------------------------------------------------------------------------------------------------------

const std::string messages_begin =
    R"(event: message_start
data: {"type":"message_start","message":{"model":"claude-x","id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":40,"ephemeral_1h_input_tokens":60},"output_tokens":1,"service_tier":"standard"}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello \"usage\":{"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":5}}

)";
const std::string messages_end =
    R"(event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15,"server_tool_use":{"web_search_requests":2}}}

event: message_stop
data: {"type":"message_stop"}

)";

TEST(StreamMeter, messages_are_metered_and_the_last_word_wins) {
    const Outcome outcome = meter(Operation::messages, false, messages_begin + messages_end);
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

TEST(StreamMeter, the_beginning_of_a_message_reports_only_its_input) {
    const std::string start = messages_begin.substr(0, messages_begin.find("event: message_delta"));
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

// ---- Gemini ---------------------------------------------------------------------------------------------------------

const std::string gemini_first =
    R"({"candidates": [{"content": {"parts": [{"text": "Hel"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 8,"totalTokenCount": 8},"modelVersion": "gemini-x"})";
const std::string gemini_last =
    R"({"candidates": [{"content": {"parts": [{"text": "lo [{\"}"}],"role": "model"},"finishReason": "STOP","index": 0}],"usageMetadata": {"promptTokenCount": 8,"candidatesTokenCount": 5,"thoughtsTokenCount": 90,"totalTokenCount": 103},"modelVersion": "gemini-x"})";

void expect_gemini(const Outcome& outcome) {
    EXPECT_EQ(outcome.metered.usage, (Usage{.input_tokens = 8, .output_tokens = 5, .reasoning_tokens = 90}));
    EXPECT_TRUE(outcome.metered.reported && outcome.ended);
    EXPECT_EQ(outcome.metered.text, "Hello [{\"}");
    EXPECT_EQ(outcome.metered.finish, "STOP");
    EXPECT_EQ(outcome.metered.model, "gemini-x");
}

TEST(StreamMeter, gemini_is_metered_as_events_and_as_an_array) {
    for (const char* line_end : {"\n", "\r\n"}) {
        expect_gemini(meter(Operation::generate, false,
                            with_line_ends("data: " + gemini_first + "\n\ndata: " + gemini_last + "\n\n", line_end)));
    }
    expect_gemini(meter(Operation::generate, false, "[" + gemini_first + "\n,\r\n" + gemini_last + "\n]"));
    expect_gemini(meter(Operation::generate, false, " \n [ " + gemini_first + "," + gemini_last));
}

TEST(StreamMeter, counts_of_gemini_before_the_end_are_not_the_last_word) {
    const Outcome outcome = meter(Operation::generate, false, "data: " + gemini_first + "\n\n");
    EXPECT_TRUE(outcome.metered.input_reported);
    EXPECT_FALSE(outcome.metered.reported || outcome.ended);
    const Outcome blocked =
        meter(Operation::generate, false,
              R"(data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":8}})"
              "\n\n");
    EXPECT_TRUE(blocked.metered.reported && blocked.ended);
    EXPECT_EQ(blocked.metered.finish, "SAFETY");
}

// ---- limits ---------------------------------------------------------------------------------------------------------

TEST(StreamMeter, an_event_that_is_too_long_is_passed_on_unread_and_the_next_one_is_read) {
    const std::string filler(StreamMeter::event_bytes_max, 'x');
    const std::string long_line =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9},\"x\":\"" + filler + "\"}\n\n";
    std::string comments = chat_usage;
    comments.insert(0, ":" + filler + "\n");
    for (const std::string& stream : {long_line, comments}) {
        for (const std::size_t size : {stream.size() * 2, std::size_t{100'000}, std::size_t{1} << 20}) {
            const Outcome unread = fed(Operation::chat, true, stream, [&] { return size; });
            EXPECT_EQ(unread.passed.size(), stream.size()) << size;
            EXPECT_FALSE(unread.metered.reported) << size;
            const Outcome next = fed(Operation::chat, true, stream + chat_usage + done, [&] { return size; });
            EXPECT_EQ(next.passed.size(), stream.size() + done.size()) << size;
            EXPECT_EQ(next.metered.usage.input_tokens, 15) << size;
        }
    }
    const std::string array = "[{\"x\":\"" + filler + "\"}," + gemini_last + "]";
    EXPECT_EQ(fed(Operation::generate, false, array, [] { return std::size_t{1} << 20; }).metered.usage.output_tokens,
              5);
}

TEST(StreamMeter, an_event_that_is_too_long_to_be_held_back_is_read_and_not_dropped) {
    const std::string comment = ":" + std::string(StreamMeter::event_bytes_max * 2 / 3, 'x') + "\n";
    const std::string stream = comment + comment + chat_usage;
    for (const std::size_t size : {stream.size() + done.size(), std::size_t{100'000}, std::size_t{1} << 20}) {
        const Outcome outcome = fed(Operation::chat, true, stream + done, [&] { return size; });
        EXPECT_EQ(outcome.passed.size(), stream.size() + done.size()) << size;
        EXPECT_TRUE(outcome.metered.reported) << size;
    }
}

TEST(StreamMeter, says_whether_another_event_may_follow_what_was_passed_on) {
    StreamMeter meter(Operation::messages, false, KeepText::no);
    EXPECT_TRUE(meter.between_events());
    meter.feed("event: ping\n");
    EXPECT_FALSE(meter.between_events());
    meter.feed("data: {}\n");
    EXPECT_FALSE(meter.between_events());
    meter.feed("\nda");
    EXPECT_FALSE(meter.between_events());
    meter.feed("ta: {}\n\n");
    EXPECT_TRUE(meter.between_events());

    StreamMeter stripping(Operation::chat, true, KeepText::no);
    EXPECT_EQ(stripping.feed("data: {}\n\ndata: {"), "data: {}\n\n");
    EXPECT_TRUE(stripping.between_events());
}

TEST(StreamMeter, a_piece_of_whole_events_is_passed_on_without_a_copy) {
    StreamMeter meter(Operation::chat, true, KeepText::no);
    const std::string piece = chat_begin;
    EXPECT_EQ(meter.feed(piece).data(), piece.data());
    const std::string last = chat_begin + chat_usage;
    EXPECT_EQ(meter.feed(last).data(), last.data());
    EXPECT_EQ(meter.metered().text, "");
    EXPECT_TRUE(meter.metered().reported);
}

}  // namespace
}  // namespace interlock::gateway
