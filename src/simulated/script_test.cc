// The directives: how they are read, and what each of them does to an answer.
#include "simulated/script.h"

#include "simulated/test_support.h"

namespace interlock::simulated {
namespace {

constexpr const char* chat_path = "/v1/chat/completions";
constexpr const char* chat_body = R"({"model":"m","max_tokens":20,"messages":[{"role":"user","content":"12345678"}]})";
constexpr const char* streamed_body =
    R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]})";

std::string saying(const std::string& text, const std::string& model = "m") {
    return R"({"model":")" + model + R"(","max_tokens":20,"messages":[{"role":"user","content":)" +
           json::serialize(text) + "}]}";
}

class Directives : public SimulatedUpstreamTest {
 protected:
    json::value with(const std::string& script) { return post(chat_path, chat_body, script).json(); }
    std::string refused(const std::string& script) {
        const Heard heard = post(chat_path, chat_body, script);
        EXPECT_EQ(heard.status, 400);
        return text_at(heard.json(), "error/message");
    }
    std::chrono::milliseconds time_of(const std::string& script) {
        return std::chrono::duration_cast<std::chrono::milliseconds>(post(chat_path, streamed_body, script).took);
    }
};

// ---- how they are read ----------------------------------------------------------------------------------------------

TEST_F(Directives, stand_in_the_last_message_of_the_user) {
    const json::value answer =
        post(chat_path, R"({"model":"m","messages":[{"role":"user","content":"[[sim output=1]]"},)"
                        R"({"role":"assistant","content":"[[sim output=2]]"},)"
                        R"({"role":"user","content":[{"type":"text","text":"say [[sim output=3 cached=1]] it"}]},)"
                        R"({"role":"assistant","content":"[[sim output=4]]"}]})")
            .json();
    const json::value later =
        post(chat_path, R"({"model":"m","messages":[{"role":"user","content":"[[sim output=1]]"},)"
                        R"({"role":"user","content":"no more"}]})")
            .json();

    EXPECT_EQ(number_at(answer, "usage/completion_tokens"), 3);
    EXPECT_EQ(number_at(later, "usage/completion_tokens"), 16);
}

TEST_F(Directives, of_the_prompt_win_over_those_of_the_header) {
    const json::value answer = post(chat_path, saying("[[sim output=3]]"), "output=5;input=77").json();

    EXPECT_EQ(number_at(answer, "usage/completion_tokens"), 3);
    EXPECT_EQ(number_at(answer, "usage/prompt_tokens"), 77);
}

TEST_F(Directives, may_be_quoted_or_hold_json) {
    Script script;
    ASSERT_TRUE(read_script(R"(text="a b; \"c\"" tool_args={"x": "]] }"} tool=t)", ScriptForm::prompt, script));

    EXPECT_EQ(script.text, R"(a b; "c")");
    EXPECT_EQ(script.tool_args, R"({"x": "]] }"})");
    EXPECT_EQ(script.tool, "t");
    EXPECT_EQ(find_script(R"(a [[sim tool_args={"x": "]] }"} output=1]] b)"), R"(tool_args={"x": "]] }"} output=1)");
    EXPECT_FALSE(find_script("[[sim output=1"));
    EXPECT_FALSE(find_script("[[simulated]]"));
}

TEST_F(Directives, that_cannot_be_meant_are_refused) {
    EXPECT_EQ(refused("outptu=1"), "simulated: there is no directive 'outptu'");
    EXPECT_EQ(refused("output"), "simulated: a directive is key=value, and 'output' is not");
    EXPECT_EQ(refused("output=-1"), "simulated: the directive 'output' cannot be '-1'");
    EXPECT_EQ(refused("output=1000001"), "simulated: the directive 'output' cannot be '1000001'");
    EXPECT_EQ(refused("status=200"), "simulated: the directive 'status' cannot be '200'");
    EXPECT_EQ(refused("status=600"), "simulated: the directive 'status' cannot be '600'");
    EXPECT_EQ(refused("no_usage=yes"), "simulated: the directive 'no_usage' cannot be 'yes'");
    EXPECT_EQ(refused("tool_args=[]"), "simulated: the directive 'tool_args' cannot be '[]'");
    EXPECT_EQ(refused("cost=free"), "simulated: the directive 'cost' cannot be 'free'");
    EXPECT_EQ(refused("delay_ms=120001"), "simulated: the directive 'delay_ms' cannot be '120001'");
}

// ---- what is billed -------------------------------------------------------------------------------------------------

TEST_F(Directives, say_what_is_billed) {
    const json::value answer =
        with("input=100;cached=40;cache_write=5;cache_write_1h=6;audio_in=7;output=9;reasoning=4;audio_out=2;cost=0.5");

    EXPECT_EQ(number_at(answer, "usage/prompt_tokens"), 100);
    EXPECT_EQ(number_at(answer, "usage/prompt_tokens_details/cached_tokens"), 40);
    EXPECT_EQ(number_at(answer, "usage/prompt_tokens_details/cache_write_tokens"), 11);
    EXPECT_EQ(number_at(answer, "usage/prompt_tokens_details/audio_tokens"), 7);
    EXPECT_EQ(number_at(answer, "usage/completion_tokens"), 9);
    EXPECT_EQ(number_at(answer, "usage/completion_tokens_details/reasoning_tokens"), 4);
    EXPECT_EQ(number_at(answer, "usage/completion_tokens_details/audio_tokens"), 2);
    EXPECT_EQ(at(answer, "usage/cost").as_double(), 0.5);
    EXPECT_EQ(number_at(last_line(), "usage/cache_write_1h"), 6);
}

TEST_F(Directives, never_bill_a_part_that_is_larger_than_the_whole) {
    EXPECT_EQ(number_at(with("cached=40;cache_write=5"), "usage/prompt_tokens"), 45);
    EXPECT_EQ(number_at(with("output=3;reasoning=9"), "usage/completion_tokens_details/reasoning_tokens"), 3);
}

TEST_F(Directives, let_no_output_pass_the_cap_but_by_exceed) {
    EXPECT_EQ(number_at(with("output=50"), "usage/completion_tokens"), 20);
    EXPECT_EQ(text_at(with("output=50"), "choices/0/finish_reason"), "length");
    EXPECT_EQ(number_at(with("exceed=7"), "usage/completion_tokens"), 27);
    EXPECT_EQ(number_at(last_line(), "usage/output"), 27);
}

TEST_F(Directives, can_leave_usage_out) {
    const Heard stream = post(chat_path, streamed_body, "no_usage=1");
    const Heard message = post("/v1/messages", chat_body, "no_usage=1");

    EXPECT_FALSE(with("no_usage=1").as_object().contains("usage"));
    EXPECT_EQ(stream.body.find("usage"), std::string::npos);
    EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
    EXPECT_EQ(message.body.find("usage"), std::string::npos);
}

// ---- what is said, and how ------------------------------------------------------------------------------------------

TEST_F(Directives, say_what_is_said) {
    const json::value answer = with(R"(text="grüße")");

    EXPECT_EQ(text_at(answer, "choices/0/message/content"), "grüße");
    EXPECT_EQ(number_at(answer, "usage/completion_tokens"), 2);
    const Heard letters = post(chat_path, streamed_body, "text=grüße;chunks=100");
    EXPECT_EQ(letters.documents().size(), 1u + 5u + 2u);
}

TEST_F(Directives, say_in_how_many_pieces) {
    EXPECT_EQ(post(chat_path, streamed_body, "chunks=9").writes.size(), 1u + 9u + 1u);
    EXPECT_EQ(post(chat_path, streamed_body, "output=0").writes.size(), 1u);
}

TEST_F(Directives, that_ask_for_more_than_fits_into_memory_are_refused) {
    const std::string many = R"({"model":"m","n":128,"messages":[]})";

    EXPECT_EQ(post(chat_path, R"({"model":"m","messages":[]})", "output=1000000").status, 200);
    EXPECT_EQ(post(chat_path, many, "output=1000000").status, 400);
    EXPECT_EQ(post(chat_path, many, "chunks=1000").status, 400);
    EXPECT_EQ(post(chat_path, many, "output=1000;chunks=700").status, 200);
}

TEST_F(Directives, make_it_wait) {
    EXPECT_GE(time_of("delay_ms=30").count(), 30);
    EXPECT_GE(time_of("chunks=3;chunk_delay_ms=10").count(), 30);
}

TEST_F(Directives, cut_a_stream_between_pieces) {
    const Heard early = post(chat_path, streamed_body, "cut_after=0");
    const Heard middle = post(chat_path, streamed_body, "cut_after=2");
    const Heard late = post("/v1beta/models/m:streamGenerateContent?alt=sse", R"({"contents":[]})", "cut_after=4");

    EXPECT_TRUE(early.cut);
    EXPECT_EQ(early.writes.size(), 1u);
    EXPECT_TRUE(middle.cut);
    EXPECT_EQ(middle.writes.size(), 3u);
    EXPECT_EQ(middle.body.find("[DONE]"), std::string::npos);
    EXPECT_TRUE(late.cut);
    EXPECT_EQ(late.writes.size(), 4u);
    EXPECT_EQ(number_at(last_line(), "usage/output"), 16);
}

TEST_F(Directives, cut_a_whole_answer_between_bytes) {
    const Heard heard = post(chat_path, chat_body, "cut_after=10");

    EXPECT_TRUE(heard.cut);
    EXPECT_EQ(heard.body, R"({"id":"cha)");
}

// ---- how it fails ---------------------------------------------------------------------------------------------------

TEST_F(Directives, let_a_request_fail) {
    const Heard limited = post(chat_path, chat_body, "status=429;retry_after=7");
    const Heard overloaded = post("/v1/messages", chat_body, "status=529");
    const Heard unavailable = post("/v1beta/models/m:generateContent", R"({"contents":[]})", "status=503");

    EXPECT_EQ(limited.status, 429);
    EXPECT_EQ(header_of(limited, "retry-after"), "7");
    EXPECT_EQ(text_at(limited.json(), "error/code"), "rate_limit_exceeded");
    EXPECT_EQ(overloaded.status, 529);
    EXPECT_EQ(text_at(overloaded.json(), "error/type"), "overloaded_error");
    EXPECT_EQ(text_at(unavailable.json(), "error/status"), "UNAVAILABLE");
    EXPECT_TRUE(at(last_line(), "usage").is_null());
    EXPECT_EQ(number_at(last_line(), "status"), 503);
}

TEST_F(Directives, let_the_first_requests_of_a_key_fail) {
    const auto status_of = [&](const std::string& key) {
        return post(chat_path, chat_body, "status=500;fail_times=2;fail_key=" + key).status;
    };

    EXPECT_EQ(status_of("a"), 500);
    EXPECT_EQ(status_of("b"), 500);
    EXPECT_EQ(status_of("a"), 500);
    EXPECT_EQ(status_of("a"), 200);
    EXPECT_EQ(status_of("b"), 500);
    EXPECT_EQ(status_of("a"), 200);
    EXPECT_EQ(post(chat_path, chat_body, "fail_times=1;fail_key=c").status, 529);
}

// ---- models by name -------------------------------------------------------------------------------------------------

TEST_F(Directives, come_with_the_names_of_models) {
    std::vector<int> flaky;
    for (int i = 0; i < 6; ++i) flaky.push_back(post(chat_path, saying("x", "sim/flaky")).status);
    const Heard reasoner = post(chat_path, saying("x", "sim/reasoner"));
    const Heard tools = post(chat_path, R"({"model":"sim/tools","messages":[{"role":"user","content":"x"}],)"
                                        R"("tools":[{"type":"function","function":{"name":"look"}}]})");

    EXPECT_EQ(flaky, (std::vector{200, 200, 529, 200, 200, 529}));
    EXPECT_EQ(number_at(reasoner.json(), "usage/completion_tokens_details/reasoning_tokens"), 8);
    EXPECT_EQ(text_at(tools.json(), "choices/0/message/tool_calls/0/function/name"), "look");
    EXPECT_EQ(text_at(post(chat_path, saying("x", "sim/tools")).json(), "choices/0/finish_reason"), "stop");
    EXPECT_EQ(number_at(post(chat_path, R"({"model":"sim/large","messages":[]})").json(), "usage/completion_tokens"),
              256);
}

}  // namespace
}  // namespace interlock::simulated
