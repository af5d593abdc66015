// Routes and bodies for the tests of what a request asks.
#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "gateway/call_request.h"

namespace interlock::gateway {

inline ModelRoute chat_route() { return {.operation = Operation::chat, .target = "/v1/chat/completions"}; }
inline ModelRoute responses_route() { return {.operation = Operation::responses, .target = "/v1/responses"}; }
inline ModelRoute embeddings_route() { return {.operation = Operation::embeddings, .target = "/v1/embeddings"}; }
inline ModelRoute messages_route() {
    return {.format = ApiFormat::anthropic, .operation = Operation::messages, .target = "/v1/messages"};
}
inline ModelRoute generate_route() {
    return {.format = ApiFormat::gemini,
            .operation = Operation::generate,
            .target = "/v1beta/models/gemini-x:generateContent",
            .model = "gemini-x"};
}

inline ModelRoute route_of_operation(Operation operation) {
    switch (operation) {
        case Operation::chat:
            return chat_route();
        case Operation::responses:
            return responses_route();
        case Operation::embeddings:
            return embeddings_route();
        case Operation::messages:
            return messages_route();
        case Operation::generate:
            return generate_route();
        case Operation::count_tokens:
        case Operation::models:
            break;
    }
    return {.operation = operation, .target = "/v1/models"};
}

inline CallRequest call_request_of(const ModelRoute& route, std::string_view body) {
    auto request = read_call_request(route, body);
    EXPECT_TRUE(request) << body << "\n" << (request ? "" : request.error());
    return request ? std::move(*request) : CallRequest{};
}

inline std::string refused(const ModelRoute& route, std::string_view body) {
    const auto request = read_call_request(route, body);
    EXPECT_FALSE(request) << body;
    return request ? "" : request.error();
}

}  // namespace interlock::gateway
