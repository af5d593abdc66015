#include "gateway/call_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/call_request_test_support.h"

namespace interlock::gateway {
namespace {

std::string at(std::string_view body, Span span) { return std::string(body.substr(span.begin, span.end - span.begin)); }

// ---- what is refused ------------------------------------------------------------------------------------------------

TEST(CallRequest, a_body_that_is_not_one_json_object_is_refused) {
    const ModelRoute route = chat_route();
    EXPECT_EQ(refused(route, ""), "The body is not a JSON object.");
    EXPECT_EQ(refused(route, "[]"), "The body is not a JSON object.");
    EXPECT_EQ(refused(route, R"({"model":"m"} {})"), "The body has more in it than one JSON object.");
    EXPECT_EQ(refused(route, R"({"model":"m"}x)"), "The body has more in it than one JSON object.");
    EXPECT_EQ(refused(route, R"({"model":"m")"), "The body is not valid JSON (byte 12).");
    EXPECT_EQ(refused(route, "{\"model\":\"m\",\"a\":\"\xFF\"}"), "The body is not UTF-8.");
}

TEST(CallRequest, garbage_is_refused_wherever_it_stands) {
    for (const char* rubbish :
         {"[1,}", "{\"a\":}", "tru", "\"\\x\"", "[[[", "01", "\"\\ud800\"", "{\"a\" 1}", "-", "[1 2]"}) {
        for (const char* place :
             {R"({"model":"m","messages":[{"role":"user","content":%}]})", R"({"model":"m","tools":[{"x":%}]})",
              R"({"model":"m","tools":[{"type":"function","function":{"parameters":%}}]})",
              R"({"model":"m","unknown":{"deep":[%]}})", R"({"model":"m","stream_options":{"other":%}})"}) {
            std::string body = place;
            body.replace(body.find('%'), 1, rubbish);
            EXPECT_FALSE(read_call_request(chat_route(), body)) << body;
        }
    }
}

TEST(CallRequest, a_body_cut_short_anywhere_is_refused) {
    const std::string body =
        R"({"model":"m","max_tokens":12,"messages":[{"role":"user","content":"h\n\u00e9"}],"a":[1.5,{}]})";
    EXPECT_TRUE(read_call_request(chat_route(), body));
    for (std::size_t size = 0; size < body.size(); ++size) {
        EXPECT_FALSE(read_call_request(chat_route(), body.substr(0, size))) << size;
    }
}

TEST(CallRequest, a_key_twice_is_refused_where_it_could_matter) {
    const std::string why = refused(chat_route(), R"({"model":"a","model":"b"})");
    EXPECT_EQ(why, "The body has an object with the same key twice (byte 21).");
    refused(chat_route(), R"({"model":"a","max_tokens":1,"max\u005ftokens":1000})");
    refused(chat_route(), R"({"model":"a","stream_options":{"include_usage":true,"include_usage":false}})");
    refused(generate_route(), R"({"generationConfig":{"maxOutputTokens":1,"maxOutputTokens":2}})");
    refused(chat_route(), R"({"model":"a","messages":[{"content":"a","content":"b"}]})");
    refused(messages_route(), R"({"model":"a","max_tokens":9,"tools":[{"type":"custom","type":"web_search_1"}]})");
    // What a tool was called with is not ours to judge.
    call_request_of(messages_route(), R"({"model":"a","max_tokens":9,"messages":[{"role":"assistant","content":[
        {"type":"tool_use","id":"t","name":"n","input":{"a":1,"a":2}}]}]})");
}

TEST(CallRequest, a_body_nested_too_deeply_is_refused) {
    const auto nested = [](std::size_t depth) {
        return R"({"model":"m","x":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
    };
    call_request_of(chat_route(), nested(199));
    EXPECT_EQ(refused(chat_route(), nested(200)), "The body is nested too deeply (byte 216).");
}

TEST(CallRequest, numbers_that_are_not_plainly_a_limit_are_refused) {
    for (const char* number :
         {"1e3", "-1", "0", "1.0", "\"5\"", "true", "[1]", "{}", "99999999999999999999", "4000000000"}) {
        const std::string n = number;
        EXPECT_EQ(refused(chat_route(), R"({"model":"m","max_tokens":)" + n + "}"),
                  "`max_tokens` must be a whole number of at least 1.");
        refused(chat_route(), R"({"model":"m","max_completion_tokens":)" + n + "}");
        refused(chat_route(), R"({"model":"m","n":)" + n + "}");
        refused(responses_route(), R"({"model":"m","max_output_tokens":)" + n + "}");
        refused(messages_route(), R"({"model":"m","max_tokens":)" + n + "}");
        refused(generate_route(), R"({"generationConfig":{"maxOutputTokens":)" + n + "}}");
        refused(generate_route(), R"({"generation_config":{"candidate_count":)" + n + "}}");
    }
    refused(responses_route(), R"({"model":"m","max_tool_calls":-1})");
    refused(messages_route(), R"({"model":"m","max_tokens":5,"tools":[{"type":"web_search_1","max_uses":1e1}]})");
}

TEST(CallRequest, what_must_be_there_must_be_there) {
    refused(chat_route(), "{}");
    refused(chat_route(), R"({"model":null})");
    refused(chat_route(), R"({"model":""})");
    refused(chat_route(), R"({"model":7})");
    refused(chat_route(), R"({"model":"a\nb"})");
    refused(chat_route(), R"({"model":")" + std::string(257, 'm') + "\"}");
    EXPECT_EQ(refused(messages_route(), R"({"model":"m"})"), "`max_tokens` must be stated.");
    EXPECT_EQ(call_request_of(generate_route(), "{}").model, "gemini-x");
    refused(chat_route(), R"({"model":"m","stream":"true"})");
    refused(chat_route(), R"({"model":"m","stream_options":[]})");
    refused(chat_route(), R"({"model":"m","models":["other"]})");
    for (const char* member :
         {"models", "fallbacks", "context_window_fallbacks", "model_list", "api_base", "api_key"}) {
        for (const ModelRoute& route : {chat_route(), responses_route(), messages_route()}) {
            refused(route, fmt::format(R"({{"model":"m","max_tokens":1,"{}":["other"]}})", member));
        }
    }
    refused(chat_route(), "{\"model\":\"a\u202Eb\"}");
    refused(chat_route(), "{\"model\":\"a\u009Bb\"}");
}

TEST(CallRequest, two_limits_that_may_disagree_are_refused) {
    EXPECT_EQ(refused(chat_route(), R"({"model":"m","max_tokens":1,"max_completion_tokens":9})"),
              "`max_tokens` and `max_completion_tokens` are stated both: one of them must go.");
    refused(generate_route(), R"({"generationConfig":{},"generation_config":{"maxOutputTokens":5}})");
    refused(generate_route(), R"({"generationConfig":{"maxOutputTokens":5,"max_output_tokens":6}})");
    EXPECT_EQ(call_request_of(chat_route(), R"({"model":"m","max_tokens":null,"max_completion_tokens":9})").output_max,
              9);
    EXPECT_EQ(call_request_of(chat_route(), R"({"model":"m","max_tokens":9,"max_completion_tokens":null})").output_max,
              9);
}

// ---- what is read ---------------------------------------------------------------------------------------------------

TEST(CallRequest, a_chat_is_read) {
    const std::string body = R"( {"model" : "gpt-x", "stream":true, "stream_options" : {"include_usage": true},
        "max_completion_tokens": 100, "n": 3, "service_tier":"flex", "user":"u1", "modalities":["text","audio"],
        "messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]} ],
        "prediction":{"type":"content","content":"ppp"}, "tools":[{"type":"function","function":{"name":"f"}}]} )";
    const CallRequest request = call_request_of(chat_route(), body);

    EXPECT_EQ(request.model, "gpt-x");
    EXPECT_TRUE(request.stream);
    EXPECT_TRUE(request.wants_usage);
    EXPECT_EQ(request.output_max, 100);
    EXPECT_EQ(request.choices, 3);
    EXPECT_EQ(request.service_tier, "flex");
    EXPECT_EQ(request.user, "u1");
    EXPECT_TRUE(request.audio_output);
    EXPECT_EQ(request.prediction_bytes, 34);
    EXPECT_EQ(request.input_bytes, static_cast<std::int64_t>(body.size()));
    EXPECT_EQ(request.rounds, 1);
    EXPECT_FALSE(request.rounds_unbounded);
    EXPECT_FALSE(request.input_elsewhere);
    EXPECT_EQ(at(body, request.model_at), "\"gpt-x\"");
    EXPECT_EQ(at(body, request.output_max_at.value), "100");
    EXPECT_EQ(at(body, request.stream_options_at.value), R"({"include_usage": true})");
    EXPECT_EQ(at(body, request.include_usage_at.value), "true");
    ASSERT_EQ(request.boundaries.size(), 2u);
    EXPECT_TRUE(body.substr(0, request.boundaries[0]).ends_with(R"("content":"a"})"));
    EXPECT_TRUE(body.substr(0, request.boundaries[1]).ends_with(R"("text":"b"}]})"));
    EXPECT_EQ(request.counted[1].input_bytes, static_cast<std::int64_t>(request.boundaries[1]));
}

TEST(CallRequest, null_is_as_good_as_absent) {
    const CallRequest request =
        call_request_of(chat_route(), R"({"model":"m","stream":null,"stream_options":null,"max_tokens":null,"n":null,
        "web_search_options":null,"models":null,"modalities":null,"service_tier":null,"tools":null})");
    EXPECT_FALSE(request.stream || request.wants_usage || request.output_max || request.rounds_unbounded ||
                 request.audio_output);
    EXPECT_EQ(request.choices, 1);
    const CallRequest responses =
        call_request_of(responses_route(), R"({"model":"m","previous_response_id":null,"conversation":null,
        "prompt":null,"background":null,"max_tool_calls":null,"max_output_tokens":null})");
    EXPECT_FALSE(responses.input_elsewhere || responses.background || responses.output_max);
    EXPECT_FALSE(call_request_of(messages_route(), R"({"model":"m","max_tokens":1,"container":null,"mcp_servers":[],
        "system":[{"type":"text","text":"x","cache_control":null}]})")
                     .input_elsewhere);
}

TEST(CallRequest, the_limit_of_each_api_is_read) {
    EXPECT_EQ(call_request_of(chat_route(), R"({"model":"m","max_tokens":7})").output_max, 7);
    EXPECT_EQ(call_request_of(responses_route(), R"({"model":"m","max_output_tokens":7})").output_max, 7);
    EXPECT_EQ(call_request_of(messages_route(), R"({"model":"m","max_tokens":7})").output_max, 7);
    for (const char* config : {"generationConfig", "generation_config"}) {
        for (const char* member : {"maxOutputTokens", "max_output_tokens"}) {
            const std::string body = std::string("{\"") + config + R"(":{"temperature":0,")" + member + R"(":7}})";
            const CallRequest request = call_request_of(generate_route(), body);
            EXPECT_EQ(request.output_max, 7);
            EXPECT_EQ(at(body, request.output_max_at.value), "7");
            EXPECT_EQ(at(body, request.generation_config_at.value).front(), '{');
        }
    }
    EXPECT_EQ(call_request_of(generate_route(), R"({"generationConfig":{"candidateCount":4}})").choices, 4);
    EXPECT_FALSE(call_request_of(embeddings_route(), R"({"model":"m","input":["a","b"]})").output_max);
}

TEST(CallRequest, images_and_files_are_counted_and_not_weighed) {
    const auto expect = [](const ModelRoute& route, const std::string& before, const std::string& data,
                           const std::string& after, std::int64_t images, std::int64_t files) {
        const std::string body = before + data + after;
        const CallRequest request = call_request_of(route, body);
        EXPECT_EQ(request.images, images) << body;
        EXPECT_EQ(request.files, files) << body;
        EXPECT_EQ(request.input_bytes, static_cast<std::int64_t>(body.size() - data.size())) << body;
        EXPECT_EQ(request.file_bytes, files > 0 ? static_cast<std::int64_t>(data.size()) : 0) << body;
    };
    const std::string data(1000, 'A');
    const std::string chat = R"({"model":"m","messages":[{"role":"user","content":[)";
    expect(chat_route(), chat + R"({"type":"image_url","image_url":{"url":")", "data:image/png;base64," + data,
           R"("}}]}]})", 1, 0);
    expect(chat_route(), chat + R"({"image_url":{"detail":"low","url":")", "data:" + data,
           R"("},"type":"image_url"}]}]})", 1, 0);
    expect(chat_route(), chat + R"({"type":"input_audio","input_audio":{"format":"wav","data":")", data, R"("}}]}]})",
           0, 1);
    expect(chat_route(), chat + R"({"type":"file","file":{"filename":"a.pdf","file_data":")", data, R"("}}]}]})", 0, 1);

    const std::string responses = R"({"model":"m","input":[{"role":"user","content":[)";
    expect(responses_route(), responses + R"({"type":"input_image","image_url":")", "data:" + data, R"("}]}]})", 1, 0);
    expect(responses_route(), responses + R"({"type":"input_file","filename":"a","file_data":")", data, R"("}]}]})", 0,
           1);
    expect(
        responses_route(),
        R"({"model":"m","input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":")",
        "data:" + data, R"("}]}]})", 1, 0);

    const std::string messages = R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":[)";
    expect(messages_route(),
           messages + R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":")", data,
           R"("}}]}]})", 1, 0);
    expect(messages_route(), messages + R"({"source":{"data":")", data,
           R"(","media_type":"image/png","type":"base64"},"type":"image"}]}]})", 1, 0);
    expect(messages_route(),
           messages + R"({"type":"document","source":{"type":"base64","media_type":"application/pdf","data":")", data,
           R"("}}]}]})", 0, 1);
    expect(
        messages_route(),
        messages +
            R"({"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":")",
        data, R"("}}]}]}]})", 1, 0);

    const std::string generate = R"({"contents":[{"role":"user","parts":[)";
    expect(generate_route(), generate + R"({"inlineData":{"mimeType":"image/png","data":")", data, R"("}}]}]})", 1, 0);
    expect(generate_route(), generate + R"({"inline_data":{"data":")", data, R"(","mime_type":"audio/wav"}}]}]})", 0,
           1);
    expect(generate_route(), R"({"contents":{"parts":{"inlineData":{"mimeType":"image/png","data":")", data, R"("}}}})",
           1, 0);
}

TEST(CallRequest, text_that_only_looks_like_an_image_is_weighed) {
    const std::string data(1000, 'A');
    const auto all_counts = [](const ModelRoute& route, const std::string& body) {
        const CallRequest request = call_request_of(route, body);
        EXPECT_EQ(request.input_bytes, static_cast<std::int64_t>(body.size())) << body;
        EXPECT_EQ(request.images, 0) << body;
        EXPECT_FALSE(request.input_elsewhere) << body;
        EXPECT_EQ(request.cache_write, CacheWrite::none) << body;
    };
    const std::string image =
        R"({"type":"image","file_id":"f","cache_control":{"type":"ephemeral"},"source":{"type":"base64","media_type":"image/png","data":")" +
        data + "\"}}";
    all_counts(messages_route(),
               R"({"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","input":)" +
                   image + "}]}]}");
    all_counts(messages_route(), R"({"model":"m","max_tokens":5,"tools":[{"name":"t","input_schema":)" + image + "}]}");
    all_counts(messages_route(),
               R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":")" + data +
                   "\"}]}]}");
    all_counts(generate_route(),
               R"({"contents":[{"parts":[{"functionResponse":{"name":"f","response":)" + image + "}}]}]}");
    all_counts(generate_route(), R"({"contents":[{"parts":[{"functionCall":{"name":"f","args":)" + image + "}}]}]}");
    all_counts(chat_route(),
               R"({"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":)" + image + "}}]}");

    // A document of plain text is a document, and its text is text.
    const std::string document =
        R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":")" +
        data + "\"}}]}]}";
    EXPECT_EQ(call_request_of(messages_route(), document).input_bytes, static_cast<std::int64_t>(document.size()));
}

TEST(CallRequest, an_image_by_address_counts_and_a_document_by_address_is_input_elsewhere) {
    const CallRequest image = call_request_of(
        chat_route(),
        R"({"model":"m","messages":[{"content":[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]})");
    EXPECT_EQ(image.images, 1);
    EXPECT_FALSE(image.input_elsewhere);
    const std::string block =
        R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"%","source":{"type":"url","url":"http://x"}}]}]})";
    const auto with = [&](const char* type) { return std::string(block).replace(block.find('%'), 1, type); };
    EXPECT_FALSE(call_request_of(messages_route(), with("image")).input_elsewhere);
    EXPECT_TRUE(call_request_of(messages_route(), with("document")).input_elsewhere);
}

TEST(CallRequest, input_that_is_not_in_the_body_is_noticed) {
    for (const char* body :
         {R"({"model":"m","previous_response_id":"resp_1"})", R"({"model":"m","conversation":"conv_1"})",
          R"({"model":"m","conversation":{"id":"conv_1"}})", R"({"model":"m","prompt":{"id":"pmpt_1"}})",
          R"({"model":"m","input":[{"type":"item_reference","id":"msg_1"}]})",
          R"({"model":"m","input":[{"id":"msg_1"}]})",
          R"({"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]})",
          R"({"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_url":"http://x"}]}]})"}) {
        EXPECT_TRUE(call_request_of(responses_route(), body).input_elsewhere) << body;
    }
    EXPECT_FALSE(
        call_request_of(
            responses_route(),
            R"({"model":"m","input":[{"role":"user","content":"x"},{"type":"reasoning","id":"r","summary":[]}]})")
            .input_elsewhere);
    EXPECT_TRUE(call_request_of(chat_route(),
                                R"({"model":"m","messages":[{"content":[{"type":"file","file":{"file_id":"f"}}]}]})")
                    .input_elsewhere);
    EXPECT_TRUE(call_request_of(messages_route(), R"({"model":"m","max_tokens":1,"container":"c"})").input_elsewhere);
    EXPECT_TRUE(
        call_request_of(
            messages_route(),
            R"({"model":"m","max_tokens":1,"messages":[{"content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]})")
            .input_elsewhere);
    EXPECT_TRUE(call_request_of(generate_route(), R"({"cachedContent":"cachedContents/1"})").input_elsewhere);
    for (const char* part :
         {R"({"fileData":{"fileUri":"gs://x","mimeType":"video/mp4"}})", R"({"file_data":{"file_uri":"gs://x"}})"}) {
        const CallRequest request =
            call_request_of(generate_route(), R"({"contents":[{"parts":[)" + std::string(part) + "]}]}");
        EXPECT_TRUE(request.input_elsewhere);
        EXPECT_EQ(request.files, 1);
    }
}

TEST(CallRequest, tools_that_run_at_the_provider_are_rounds) {
    const auto responses = [](const std::string& tools, const std::string& more = "") {
        return call_request_of(responses_route(), R"({"model":"m","tools":[)" + tools + "]" + more + "}");
    };
    EXPECT_EQ(responses(R"({"type":"function","name":"f"},{"type":"custom","name":"g"},{"type":"local_shell"})").rounds,
              1);
    EXPECT_FALSE(responses(R"({"type":"function","name":"f"})").rounds_unbounded);
    for (const char* type : {"web_search", "web_search_preview_2025_03_11", "file_search", "code_interpreter", "mcp",
                             "image_generation", "computer_use_preview", "something_new"}) {
        const std::string tool = R"({"type":")" + std::string(type) + "\"}";
        EXPECT_TRUE(responses(tool).rounds_unbounded) << type;
        const CallRequest bounded = responses(tool, R"(,"max_tool_calls":4)");
        EXPECT_FALSE(bounded.rounds_unbounded) << type;
        EXPECT_EQ(bounded.rounds, 5);
        EXPECT_EQ(bounded.paid_tools_max, 4);
    }
    EXPECT_TRUE(responses(R"({"type":"web_search"},{"type":"function","name":"f"})").rounds_unbounded);
    EXPECT_EQ(responses(R"({"type":"function","name":"f"})", R"(,"max_tool_calls":4)").rounds, 1);

    const auto messages = [](const std::string& tools, const std::string& more = "") {
        return call_request_of(messages_route(), R"({"model":"m","max_tokens":1,"tools":[)" + tools + "]" + more + "}");
    };
    const CallRequest clients =
        messages(R"({"name":"a","input_schema":{}},{"type":"custom","name":"b"},{"type":"bash_20250124","name":"bash"},
        {"type":"text_editor_20250728"},{"type":"computer_20250124"},{"type":"memory_20250818"})");
    EXPECT_EQ(clients.rounds, 1);
    EXPECT_FALSE(clients.rounds_unbounded);
    const CallRequest bounded =
        messages(R"({"type":"web_search_20250305","max_uses":3},{"max_uses":2,"type":"web_fetch_20250910"})");
    EXPECT_EQ(bounded.rounds, 6);
    EXPECT_EQ(bounded.paid_tools_max, 5);
    EXPECT_FALSE(bounded.rounds_unbounded);
    EXPECT_TRUE(messages(R"({"type":"web_search_20250305"})").rounds_unbounded);
    EXPECT_TRUE(messages(R"({"type":"code_execution_20250825"})").rounds_unbounded);
    EXPECT_TRUE(messages("", R"(,"mcp_servers":[{"type":"url","url":"http://x"}])").rounds_unbounded);

    const auto generate = [](const std::string& tools) {
        return call_request_of(generate_route(), R"({"tools":)" + tools + "}").rounds_unbounded;
    };
    EXPECT_FALSE(generate(R"([{"functionDeclarations":[{"name":"f"}]},{"function_declarations":[]}])"));
    for (const char* tool : {"googleSearch", "google_search", "urlContext", "codeExecution", "googleMaps"}) {
        EXPECT_TRUE(generate(R"([{")" + std::string(tool) + "\":{}}]")) << tool;
    }
    EXPECT_TRUE(generate(R"({"googleSearch":{}})"));

    EXPECT_EQ(call_request_of(messages_route(), R"({"model":"m","max_tokens":1,"context_management":{"edits":[
        {"type":"clear_tool_uses_20250919"},{"type":"compact_20260112"}]}})")
                  .rounds,
              2);
    EXPECT_EQ(
        call_request_of(responses_route(), R"({"model":"m","context_management":[{"type":"compaction"}]})").rounds, 2);

    EXPECT_TRUE(call_request_of(chat_route(), R"({"model":"m","web_search_options":{}})").rounds_unbounded);
    EXPECT_TRUE(call_request_of(chat_route(), R"({"model":"m","plugins":[{"id":"web"}]})").rounds_unbounded);
    EXPECT_TRUE(call_request_of(chat_route(), R"({"model":"gpt-4o-search-preview"})").rounds_unbounded);
}

TEST(CallRequest, the_dearest_mark_for_a_cache_counts) {
    const auto mark = [](const std::string& control) {
        return call_request_of(messages_route(),
                               R"({"model":"m","max_tokens":1,"system":[{"type":"text","text":"a","cache_control":)" +
                                   control + R"(}],"messages":[{"role":"user","content":"b"}]})")
            .cache_write;
    };
    EXPECT_EQ(mark(R"({"type":"ephemeral"})"), CacheWrite::five_minutes);
    EXPECT_EQ(mark(R"({"type":"ephemeral","ttl":"5m"})"), CacheWrite::five_minutes);
    EXPECT_EQ(mark(R"({"ttl":"1\u0068","type":"ephemeral"})"), CacheWrite::one_hour);
    EXPECT_EQ(call_request_of(messages_route(),
                              R"({"model":"m","max_tokens":1,"tools":[{"name":"t","cache_control":{"ttl":"1h"}}],
        "messages":[{"content":[{"type":"tool_result","content":[{"type":"text","text":"x","cache_control":{}}]}]}]})")
                  .cache_write,
              CacheWrite::one_hour);
    EXPECT_EQ(call_request_of(messages_route(), R"({"model":"m","max_tokens":1,"cache_control":{"type":"ephemeral"}})")
                  .cache_write,
              CacheWrite::five_minutes);
    EXPECT_EQ(call_request_of(messages_route(), R"({"model":"m","max_tokens":1})").cache_write, CacheWrite::none);
}

TEST(CallRequest, other_things_that_change_the_price_are_read) {
    EXPECT_TRUE(call_request_of(responses_route(), R"({"model":"m","background":true})").background);
    EXPECT_EQ(call_request_of(messages_route(), R"({"model":"m","max_tokens":1,"speed":"fast","service_tier":"auto"})")
                  .service_tier,
              "fast");
    EXPECT_EQ(
        call_request_of(messages_route(), R"({"model":"m","max_tokens":1,"speed":"standard","service_tier":"auto"})")
            .service_tier,
        "auto");
    EXPECT_EQ(call_request_of(generate_route(), R"({"serviceTier":"flex"})").service_tier, "flex");
    EXPECT_TRUE(
        call_request_of(generate_route(), R"({"generationConfig":{"responseModalities":["AUDIO"]}})").audio_output);
    EXPECT_EQ(call_request_of(messages_route(), R"({"model":"m","max_tokens":1,"metadata":{"user_id":"u"}})").user,
              "u");
    EXPECT_EQ(call_request_of(responses_route(), R"({"model":"m","user":"u","prompt_cache_key":"c"})").user, "c");
    const CallRequest thinking = call_request_of(
        messages_route(), R"({"model":"m","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8000}})");
    EXPECT_EQ(thinking.thinking_budget, 8000);
}

TEST(CallRequest, what_stands_before_each_boundary_is_counted) {
    const std::string data(500, 'A');
    const std::string body = R"({"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":")" + data +
                             R"("}}]},{"parts":[{"text":"x"}]}],"systemInstruction":{"parts":[{"text":"y"}]}})";
    const CallRequest request = call_request_of(generate_route(), body);

    ASSERT_EQ(request.boundaries.size(), 2u);
    ASSERT_EQ(request.counted.size(), 2u);
    EXPECT_EQ(request.counted[0].images, 1);
    EXPECT_EQ(request.counted[0].input_bytes, static_cast<std::int64_t>(request.boundaries[0] - data.size()));
    EXPECT_EQ(request.counted[1].input_bytes - request.counted[0].input_bytes,
              static_cast<std::int64_t>(request.boundaries[1] - request.boundaries[0]));
    EXPECT_TRUE(call_request_of(chat_route(), R"({"model":"m","messages":[]})").boundaries.empty());
    EXPECT_TRUE(call_request_of(responses_route(), R"({"model":"m","input":"text"})").boundaries.empty());
}

// ---- what is new ----------------------------------------------------------------------------------------------------

std::string said(const ModelRoute& route, std::string_view body, std::size_t bytes_max = 10'000) {
    std::string all;
    for (const ChatMessage& each : new_messages(route, body, bytes_max)) all += each.role + ":" + each.content + "|";
    return all;
}

TEST(CallRequest, what_is_new_comes_behind_what_the_assistant_said_last) {
    EXPECT_EQ(said(chat_route(), R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}]})"),
              "system:s|user:a|");
    EXPECT_EQ(said(chat_route(), R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[]},
        {"role":"tool","tool_call_id":"t","content":"r"},{"content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"u"}}],"role":"user"}]})"),
              "tool:r|user:b\n[image_url]|");
    EXPECT_EQ(said(responses_route(), R"({"input":"hello"})"), "user:hello|");
    EXPECT_EQ(
        said(
            responses_route(),
            R"({"input":[{"role":"user","content":"a"},{"type":"reasoning","summary":[]},{"type":"function_call","name":"f"},
        {"type":"function_call_output","output":"r"},{"type":"message","role":"user","content":[{"type":"input_text","text":"b"}]}]})"),
        "tool:r|user:b|");
    EXPECT_EQ(said(messages_route(),
                   R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use"}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r"}]},{"type":"text","text":"b"}]}]})"),
              "tool:r|user:b|");
    EXPECT_EQ(said(generate_route(),
                   R"({"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"x"}]},
        {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"a":1}}}]},{"parts":[{"text":"b"}]}]})"),
              R"(tool:{"name":"f","response":{"a":1}}|user:b|)");
}

TEST(CallRequest, what_is_kept_of_what_is_new_has_an_end) {
    EXPECT_EQ(
        said(chat_route(), R"({"messages":[{"role":"user","content":"abcdef"},{"role":"user","content":"gh"}]})", 7),
        "user:abcdef|user:g|");
    EXPECT_EQ(said(chat_route(), R"({"messages":[{"role":"user","content":"a\u00e9"}]})", 2), "user:a|");
    EXPECT_EQ(said(chat_route(), "not json"), "");
}

}  // namespace
}  // namespace interlock::gateway
