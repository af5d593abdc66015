#include "gateway/model_route.h"

#include <gtest/gtest.h>

namespace interlock::gateway {
namespace {

using net::Method;

net::Request request(Method method, std::string target, std::vector<net::Header> headers = {}) {
    net::Request request;
    request.method = method;
    request.target = target;
    request.headers = std::move(headers);
    const std::size_t question = target.find('?');
    request.path = target.substr(0, question);
    if (question != std::string::npos) request.query = target.substr(question + 1);
    return request;
}

ModelRoute route(Method method, const std::string& target, std::vector<net::Header> headers = {}) {
    const auto routed = route_of(request(method, target, std::move(headers)));
    EXPECT_TRUE(routed && routed->route) << target;
    return routed && routed->route ? *routed->route : ModelRoute{.target = "none"};
}

NoRoute no_route(Method method, const std::string& target, std::vector<net::Header> headers = {}) {
    const auto routed = route_of(request(method, target, std::move(headers)));
    EXPECT_TRUE(routed && !routed->route) << target;
    return routed && !routed->route ? routed->why_not : NoRoute{.status = 0, .detail = {}};
}

const net::Header anthropic_version{"anthropic-version", "2023-06-01"};
const net::Header websocket{"upgrade", "WebSocket"};

TEST(ModelRoute, a_bare_path_says_whose_language_it_is) {
    const auto expect = [](const ModelRoute& found, ApiFormat dialect, Operation operation, std::string_view target) {
        EXPECT_EQ(found.format, dialect) << target;
        EXPECT_EQ(found.operation, operation) << target;
        EXPECT_EQ(found.target, target);
        EXPECT_EQ(found.run, "");
    };
    expect(route(Method::post, "/v1/chat/completions"), ApiFormat::openai, Operation::chat, "/v1/chat/completions");
    expect(route(Method::post, "/v1/responses"), ApiFormat::openai, Operation::responses, "/v1/responses");
    expect(route(Method::post, "/v1/embeddings"), ApiFormat::openai, Operation::embeddings, "/v1/embeddings");
    expect(route(Method::get, "/v1/models"), ApiFormat::openai, Operation::models, "/v1/models");
    expect(route(Method::post, "/v1/messages?beta=true"), ApiFormat::anthropic, Operation::messages,
           "/v1/messages?beta=true");
    expect(route(Method::post, "/v1/messages/count_tokens"), ApiFormat::anthropic, Operation::count_tokens,
           "/v1/messages/count_tokens");
    expect(route(Method::get, "/v1/models?limit=1000", {anthropic_version}), ApiFormat::anthropic, Operation::models,
           "/v1/models?limit=1000");
    expect(route(Method::get, "/v1/models", {{"x-api-key", "k"}}), ApiFormat::anthropic, Operation::models,
           "/v1/models");
    expect(route(Method::get, "/v1beta/models"), ApiFormat::gemini, Operation::models, "/v1beta/models");
    expect(route(Method::get, "/v1beta/models/gemini-x"), ApiFormat::gemini, Operation::models,
           "/v1beta/models/gemini-x");
    expect(route(Method::post, "/v1beta/models/gemini-x:countTokens"), ApiFormat::gemini, Operation::count_tokens,
           "/v1beta/models/gemini-x:countTokens");
    expect(route(Method::post, "/v1/models/gemini-x:generateContent"), ApiFormat::gemini, Operation::generate,
           "/v1/models/gemini-x:generateContent");
}

TEST(ModelRoute, a_path_may_name_the_model_and_whether_it_streams) {
    const ModelRoute whole = route(Method::post, "/v1beta/models/gemini-2.5-pro:generateContent");
    EXPECT_EQ(whole.model, "gemini-2.5-pro");
    EXPECT_FALSE(whole.stream);

    const ModelRoute streamed = route(Method::post, "/v1beta/models/a%20b%3AstreamGenerateContent?alt=sse");
    EXPECT_EQ(streamed.model, "a b");
    EXPECT_TRUE(streamed.stream);
    EXPECT_EQ(streamed.target, "/v1beta/models/a%20b%3AstreamGenerateContent?alt=sse");

    EXPECT_EQ(route(Method::get, "/v1/models/meta/llama%2D3").model, "meta/llama-3");
}

TEST(ModelRoute, a_prefix_decides_and_is_taken_off) {
    EXPECT_EQ(route(Method::post, "/openai/v1/chat/completions").target, "/v1/chat/completions");
    EXPECT_EQ(route(Method::post, "/openai/chat/completions?x=1").target, "/v1/chat/completions?x=1");
    EXPECT_EQ(route(Method::get, "/openai/models", {anthropic_version}).format, ApiFormat::openai);
    EXPECT_EQ(route(Method::get, "/anthropic/v1/models").format, ApiFormat::anthropic);
    EXPECT_EQ(route(Method::post, "/anthropic/v1/messages").target, "/v1/messages");
    EXPECT_EQ(route(Method::get, "/gemini/v1/models").format, ApiFormat::gemini);
    EXPECT_EQ(route(Method::post, "/gemini/v1beta/models/m:generateContent").target,
              "/v1beta/models/m:generateContent");
}

TEST(ModelRoute, a_run_may_be_named_before_everything_else) {
    const ModelRoute bare = route(Method::post, "/s/run_1/v1/messages?beta=true");
    EXPECT_EQ(bare.run, "run_1");
    EXPECT_EQ(bare.target, "/v1/messages?beta=true");

    const ModelRoute prefixed = route(Method::post, "/s/a%20b/openai/responses");
    EXPECT_EQ(prefixed.run, "a b");
    EXPECT_EQ(prefixed.target, "/v1/responses");

    EXPECT_EQ(no_route(Method::get, "/s/run_1/v1/budgets").status, 404);
    EXPECT_EQ(no_route(Method::head, "/s/run_1", {anthropic_version}).format, ApiFormat::anthropic);
}

TEST(ModelRoute, what_is_no_providers_is_nobodys) {
    for (const char* path :
         {"/", "/v1", "/v1/", "/v1/budgets", "/v1/sessions/s/messages", "/v1/events", "/v1/runs/r/log",
          "/openaix/v1/models", "/v1x/models", "/s", "/s/", "/s//v1/messages", "/v1/modelsx", "/app"}) {
        EXPECT_FALSE(route_of(request(Method::get, path))) << path;
        EXPECT_FALSE(route_of(request(Method::post, path))) << path;
    }
    EXPECT_FALSE(route_of(request(Method::head, "/")));
}

TEST(ModelRoute, what_is_not_metered_is_refused_with_what_is) {
    for (const char* path :
         {"/v1/completions", "/v1/images/generations", "/v1/audio/speech", "/v1/batches", "/v1/files", "/v1/assistants",
          "/v1/threads/t/runs", "/v1/fine_tuning/jobs", "/v1/moderations", "/v1/realtime", "/v1/videos",
          "/v1/responses/r", "/v1/responses/compact", "/v1/chat/completions/c", "/v1/chat", "/openai/v1/files",
          "/openai", "/openai/"}) {
        const NoRoute refused = no_route(Method::post, path);
        EXPECT_EQ(refused.status, 404) << path;
        EXPECT_EQ(refused.format, ApiFormat::openai) << path;
        EXPECT_NE(refused.detail.find("POST /v1/responses"), std::string::npos) << refused.detail;
    }
    for (const char* path : {"/v1/messages/batches", "/v1/messages/", "/v1/complete", "/anthropic/v1/chat/completions",
                             "/anthropic/messages", "/anthropic"}) {
        const NoRoute refused = no_route(Method::post, path);
        EXPECT_EQ(refused.status, 404) << path;
        EXPECT_EQ(refused.format, ApiFormat::anthropic) << path;
        EXPECT_NE(refused.detail.find("POST /v1/messages is metered"), std::string::npos) << refused.detail;
    }
    for (const char* path : {"/v1beta/models/m:embedContent", "/v1/models/m:predict", "/v1beta/files",
                             "/v1alpha/models", "/v1beta/models/:generateContent",
                             "/gemini/v1beta/tunedModels/m:generateContent", "/v1beta/cachedContents", "/gemini"}) {
        const NoRoute refused = no_route(Method::post, path);
        EXPECT_EQ(refused.status, 404) << path;
        EXPECT_EQ(refused.format, ApiFormat::gemini) << path;
        EXPECT_NE(refused.detail.find(":streamGenerateContent"), std::string::npos) << refused.detail;
    }
    EXPECT_EQ(no_route(Method::get, "/v1/files", {anthropic_version}).format, ApiFormat::anthropic);
}

TEST(ModelRoute, a_models_name_does_not_lead_out_of_its_folder) {
    for (const char* path : {"/openai/v1/models/../files", "/openai/v1/models/%2e%2e/files", "/v1/models/..%2Ffiles",
                             "/v1beta/models/..%2f..%2fx:generateContent", "/v1/models/a%5C..%5Cb", "/v1/models//a"}) {
        EXPECT_EQ(no_route(Method::get, path).status, 404) << path;
    }
}

TEST(ModelRoute, other_methods_are_refused) {
    EXPECT_EQ(no_route(Method::get, "/v1/chat/completions").status, 405);
    EXPECT_EQ(no_route(Method::get, "/v1/messages").status, 405);
    EXPECT_EQ(no_route(Method::delete_, "/v1/models/m").status, 405);
    EXPECT_EQ(no_route(Method::head, "/v1/models").status, 405);
    EXPECT_EQ(no_route(Method::get, "/v1beta/models/m:generateContent").status, 405);
    EXPECT_EQ(no_route(Method::put, "/v1/responses").detail, "The method of /v1/responses is POST, not PUT.");
}

TEST(ModelRoute, an_upgrade_to_a_websocket_is_refused_so_that_the_client_falls_back) {
    EXPECT_EQ(no_route(Method::get, "/v1/responses", {websocket}).status, 426);
    EXPECT_EQ(no_route(Method::get, "/s/r/openai/responses", {websocket}).status, 426);
    EXPECT_EQ(no_route(Method::get, "/v1/responses").status, 405);
    EXPECT_EQ(no_route(Method::get, "/v1/chat/completions", {websocket}).status, 405);
}

TEST(ModelRoute, a_key_in_the_query_is_taken_out_and_the_rest_stays_as_it_was) {
    const auto expect = [](std::string_view query, std::string_view kept, std::string_view key) {
        const ModelRoute found = route(Method::post, "/v1beta/models/m:generateContent?" + std::string(query));
        EXPECT_EQ(found.target, "/v1beta/models/m:generateContent" + std::string(kept)) << query;
        EXPECT_EQ(found.key_in_query, key) << query;
    };
    expect("key=k", "", "k");
    expect("key=a%2Bb&alt=sse", "?alt=sse", "a+b");
    expect("alt=sse&key=k&x=%7e+1&&y", "?alt=sse&x=%7e+1&&y", "k");
    expect("k%65y=k&keys=1", "?keys=1", "k");
    expect("key=first&key=second", "", "first");
    expect("key=%ff&a=%ff", "?a=%ff", "");
    expect("key", "", "");
    expect("b=2&a=1&b=3", "?b=2&a=1&b=3", "");
}

TEST(ModelRoute, a_link_with_a_key_in_it_is_a_request_of_gemini_only) {
    EXPECT_EQ(route(Method::get, "/v1beta/models?key=k").key_in_query, "k");
    EXPECT_EQ(route(Method::get, "/gemini/v1beta/models?key=k").key_in_query, "k");
    const ModelRoute openai = route(Method::get, "/v1/models/m?key=k");
    EXPECT_EQ(openai.key_in_query, "");
    EXPECT_EQ(openai.target, "/v1/models/m") << "it does not go on either";
}

TEST(ModelRoute, parameters_that_stand_for_headers_end_here) {
    const ModelRoute found =
        route(Method::post,
              "/v1beta/models/m:generateContent?alt=sse&$httpHeaders=a:b&%24userProject=p&access_token=t"
              "&callback=f&quotaUser=q&x=1");
    EXPECT_EQ(found.target, "/v1beta/models/m:generateContent?alt=sse&x=1");
}

TEST(ModelRoute, a_get_with_a_body_is_refused) {
    net::Request request;
    request.path = request.target = "/v1/models/m";
    request.body = "GET / HTTP/1.1";

    const auto found = route_of(request);

    ASSERT_TRUE(found && !found->route);
    EXPECT_EQ(found->why_not.status, 400);
}

}  // namespace
}  // namespace interlock::gateway
