#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "gateway/call_request_test_support.h"
#include "gateway/dialect.h"
#include "gateway/refusal.h"

namespace interlock::gateway {
namespace {

namespace json = boost::json;

TEST(Refusal, a_budget_is_refused_in_the_words_of_each_dialect) {
    const auto body = [](ApiFormat dialect) {
        return refusal(dialect, {RefusalKind::budget, RefusalCode::budget_exceeded, "No \"money\"\n"}, "call_1").body;
    };
    EXPECT_EQ(json::parse(body(ApiFormat::openai)),
              json::parse(R"({"error":{"message":"No \"money\"\n","type":"insufficient_quota","param":null,
                              "code":"budget_exceeded"}})"));
    EXPECT_EQ(json::parse(body(ApiFormat::anthropic)),
              json::parse(R"({"type":"error","error":{"type":"billing_error","message":"No \"money\"\n"},
                              "request_id":"call_1"})"));
    EXPECT_EQ(json::parse(body(ApiFormat::gemini)),
              json::parse(R"({"error":{"code":402,"message":"No \"money\"\n","status":"RESOURCE_EXHAUSTED"}})"));
}

TEST(Refusal, every_kind_has_its_status_and_its_words) {
    struct Expected {
        RefusalKind why;
        int status;
        std::string_view openai, anthropic, gemini;
        bool lasting;
    };
    for (const Expected& expected : {
             Expected{RefusalKind::bad_request, 400, "invalid_request_error", "invalid_request_error",
                      "INVALID_ARGUMENT", true},
             Expected{RefusalKind::unauthorized, 401, "invalid_request_error", "authentication_error",
                      "UNAUTHENTICATED", true},
             Expected{RefusalKind::budget, 402, "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED", true},
             Expected{RefusalKind::not_found, 404, "invalid_request_error", "not_found_error", "NOT_FOUND", true},
             Expected{RefusalKind::rate_limited, 429, "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED",
                      false},
             Expected{RefusalKind::internal, 500, "server_error", "api_error", "INTERNAL", false},
             Expected{RefusalKind::upstream_failed, 502, "server_error", "api_error", "UNAVAILABLE", false},
             Expected{RefusalKind::busy, 503, "server_error", "overloaded_error", "UNAVAILABLE", false},
             Expected{RefusalKind::upstream_timeout, 504, "server_error", "timeout_error", "DEADLINE_EXCEEDED", false},
         }) {
        EXPECT_EQ(status_of(expected.why), expected.status);
        const auto error = [&](ApiFormat dialect) {
            const net::Response response =
                refusal(dialect, {expected.why, RefusalCode::run_ended, "Words.", 7}, "call_1");
            EXPECT_EQ(response.status, expected.status);
            EXPECT_EQ(response.content_type, "application/json");
            EXPECT_EQ(net::find_header(response.headers, "x-interlock-call"), "call_1");
            EXPECT_EQ(net::find_header(response.headers, "retry-after"), "7");
            EXPECT_EQ(net::find_header(response.headers, "x-should-retry"), expected.lasting ? "false" : "");
            return json::parse(response.body).at("error");
        };
        EXPECT_EQ(error(ApiFormat::openai).at("type").as_string(), expected.openai);
        EXPECT_EQ(error(ApiFormat::openai).at("code").as_string(), "run_ended");
        EXPECT_EQ(error(ApiFormat::anthropic).at("type").as_string(), expected.anthropic);
        EXPECT_EQ(error(ApiFormat::gemini).at("status").as_string(), expected.gemini);
        EXPECT_EQ(error(ApiFormat::gemini).at("code").as_int64(), expected.status);
    }
    EXPECT_EQ(net::find_header(refusal(ApiFormat::openai, {RefusalKind::busy, RefusalCode::unavailable}, "c").headers,
                               "retry-after"),
              "");
}

TEST(Refusal, a_request_without_a_route_gets_its_own_status) {
    const net::Response upgrade = refusal({.format = ApiFormat::openai, .status = 426, .detail = "Post."}, "call_1");
    EXPECT_EQ(upgrade.status, 426);
    EXPECT_EQ(net::find_header(upgrade.headers, "x-interlock-call"), "call_1");
    EXPECT_EQ(net::find_header(upgrade.headers, "x-should-retry"), "false");
    EXPECT_EQ(json::parse(upgrade.body).at("error").at("message").as_string(), "Post.");

    const net::Response missing = refusal({.format = ApiFormat::anthropic, .status = 404, .detail = "No."}, "call_1");
    EXPECT_EQ(missing.status, 404);
    EXPECT_EQ(json::parse(missing.body).at("error").at("type").as_string(), "not_found_error");
    EXPECT_EQ(refusal({.format = ApiFormat::gemini, .status = 405, .detail = ""}, "c").status, 405);
}

json::value data_of(std::string_view event) {
    const std::size_t data = event.find("data: ") + 6;
    return json::parse(event.substr(data, event.find("\n\n", data) - data));
}

std::string stream_error(Operation operation, RefusalKind kind, RefusalCode code) {
    return route_of_operation(operation).dialect().stream_error(
        {.kind = kind, .status = status_of(kind), .code = code, .message = "Gone."});
}

TEST(Refusal, a_stream_that_cannot_go_on_ends_in_its_own_words) {
    const std::string chat = stream_error(Operation::chat, RefusalKind::upstream_failed, RefusalCode::upstream_failed);
    EXPECT_TRUE(chat.ends_with("\n\ndata: [DONE]\n\n"));
    EXPECT_EQ(data_of(chat).at("error").at("message").as_string(), "Gone.");

    const std::string messages =
        stream_error(Operation::messages, RefusalKind::upstream_failed, RefusalCode::upstream_failed);
    EXPECT_TRUE(messages.starts_with("event: error\ndata: {"));
    EXPECT_EQ(data_of(messages), json::parse(R"({"type":"error","error":{"type":"api_error","message":"Gone."}})"));

    const std::string responses =
        stream_error(Operation::responses, RefusalKind::upstream_failed, RefusalCode::upstream_failed);
    EXPECT_TRUE(responses.starts_with("event: response.failed\ndata: {"));
    EXPECT_EQ(data_of(responses).at("type").as_string(), "response.failed");
    EXPECT_EQ(data_of(responses).at("response").at("status").as_string(), "failed");
    EXPECT_EQ(data_of(responses).at("response").at("error").at("code").as_string(), "upstream_failed");

    const std::string generate = stream_error(Operation::generate, RefusalKind::budget, RefusalCode::budget_exceeded);
    EXPECT_EQ(data_of(generate).at("error").at("code").as_int64(), 402);
}

}  // namespace
}  // namespace interlock::gateway
