// Answers of our own, in the shapes that the clients of each dialect understand (dialect.h).
#include <fmt/format.h>
#include <boost/json.hpp>

#include "gateway/dialect.h"

namespace interlock::gateway {
namespace json = boost::json;
namespace {

struct Words {
    int status;
    std::string_view openai;
    std::string_view anthropic;
    std::string_view gemini;
    bool lasting;  // Asked again, it would be refused again.
};
Words words_of(RefusalKind why);
json::object body_of(ApiFormat dialect, const Words& words, std::string_view code, std::string_view message,
                     std::string_view call_id);
net::Response response_of(ApiFormat dialect, const Words& words, std::string_view code, std::string_view message,
                          std::string_view call_id, int retry_after_s);

}  // namespace

int status_of(RefusalKind why) { return words_of(why).status; }

net::Response refusal(ApiFormat dialect, RefusalKind why, std::string_view code, std::string_view message,
                      std::string_view call_id, int retry_after_s) {
    return response_of(dialect, words_of(why), code, message, call_id, retry_after_s);
}

net::Response refusal(const NoRoute& no_route, std::string_view call_id) {
    Words words = words_of(RefusalKind::not_found);
    std::string_view code = "unknown_route";
    if (no_route.status != words.status) {
        words = words_of(RefusalKind::bad_request);
        words.status = no_route.status;
        code = no_route.status == 426   ? "websocket_not_supported"
               : no_route.status == 405 ? "method_not_allowed"
                                        : "invalid_request";
    }
    return response_of(no_route.format, words, code, no_route.detail, call_id, 0);
}

std::string stream_error(Operation operation, std::string_view code, std::string_view message) {
    const Words words = words_of(code == "budget_exceeded" ? RefusalKind::budget : RefusalKind::upstream_failed);
    const auto body = [&](ApiFormat dialect) { return json::serialize(body_of(dialect, words, code, message, {})); };
    switch (operation) {
        case Operation::chat:
            return fmt::format("data: {}\n\ndata: [DONE]\n\n", body(ApiFormat::openai));
        case Operation::messages:
            return fmt::format("event: error\ndata: {}\n\n", body(ApiFormat::anthropic));
        case Operation::generate:
            return fmt::format("data: {}\n\n", body(ApiFormat::gemini));
        case Operation::responses: {
            // How many events went before is not known here; what their reader relies on is that the number rises.
            const json::object failed{
                {"type", "response.failed"},
                {"sequence_number", INT32_MAX},
                {"response", json::object{{"id", "resp_interlock"},
                                          {"object", "response"},
                                          {"status", "failed"},
                                          {"error", json::object{{"code", code}, {"message", message}}},
                                          {"output", json::array{}}}}};
            return fmt::format("event: response.failed\ndata: {}\n\n", json::serialize(failed));
        }
        case Operation::embeddings:
        case Operation::count_tokens:
        case Operation::models:
            return {};  // These do not stream.
    }
    return {};
}

namespace {

Words words_of(RefusalKind why) {
    switch (why) {
        case RefusalKind::bad_request:
            return {400, "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT", true};
        case RefusalKind::unauthorized:
            return {401, "invalid_request_error", "authentication_error", "UNAUTHENTICATED", true};
        case RefusalKind::budget:
            return {402, "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED", true};
        case RefusalKind::not_found:
            return {404, "invalid_request_error", "not_found_error", "NOT_FOUND", true};
        case RefusalKind::rate_limited:
            return {429, "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED", false};
        case RefusalKind::internal:
            return {500, "server_error", "api_error", "INTERNAL", false};
        case RefusalKind::upstream_failed:
            return {502, "server_error", "api_error", "UNAVAILABLE", false};
        case RefusalKind::busy:
            return {503, "server_error", "overloaded_error", "UNAVAILABLE", false};
        case RefusalKind::upstream_timeout:
            return {504, "server_error", "timeout_error", "DEADLINE_EXCEEDED", false};
    }
    return {500, "server_error", "api_error", "INTERNAL", false};
}

json::object body_of(ApiFormat dialect, const Words& words, std::string_view code, std::string_view message,
                     std::string_view call_id) {
    switch (dialect) {
        case ApiFormat::openai:
            return {{"error",
                     json::object{{"message", message}, {"type", words.openai}, {"param", nullptr}, {"code", code}}}};
        case ApiFormat::anthropic: {
            json::object body{{"type", "error"},
                              {"error", json::object{{"type", words.anthropic}, {"message", message}}}};
            if (!call_id.empty()) body["request_id"] = call_id;
            return body;
        }
        case ApiFormat::gemini:
            return {{"error", json::object{{"code", words.status}, {"message", message}, {"status", words.gemini}}}};
    }
    return {};
}

net::Response response_of(ApiFormat dialect, const Words& words, std::string_view code, std::string_view message,
                          std::string_view call_id, int retry_after_s) {
    net::Response response{.status = words.status, .content_type = "application/json", .inert = true};
    response.headers.push_back({"x-interlock-call", std::string(call_id)});
    if (words.lasting) response.headers.push_back({"x-should-retry", "false"});
    if (retry_after_s != 0) response.headers.push_back({"retry-after", std::to_string(retry_after_s)});
    response.body = json::serialize(body_of(dialect, words, code, message, call_id));
    return response;
}

}  // namespace
}  // namespace interlock::gateway
