// Routes and bodies for the tests of what a request asks.
#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "gateway/ask.h"

namespace interlock::gateway {

inline Route chat_route() { return {.operation = Operation::chat, .target = "/v1/chat/completions"}; }
inline Route responses_route() { return {.operation = Operation::responses, .target = "/v1/responses"}; }
inline Route embeddings_route() { return {.operation = Operation::embeddings, .target = "/v1/embeddings"}; }
inline Route messages_route() {
    return {.dialect = Dialect::anthropic, .operation = Operation::messages, .target = "/v1/messages"};
}
inline Route generate_route() {
    return {.dialect = Dialect::gemini,
            .operation = Operation::generate,
            .target = "/v1beta/models/gemini-x:generateContent",
            .model = "gemini-x"};
}

inline Ask ask_of(const Route& route, std::string_view body) {
    auto ask = read_ask(route, body);
    EXPECT_TRUE(ask) << body << "\n" << (ask ? "" : ask.error());
    return ask ? std::move(*ask) : Ask{};
}

inline std::string refused(const Route& route, std::string_view body) {
    const auto ask = read_ask(route, body);
    EXPECT_FALSE(ask) << body;
    return ask ? "" : ask.error();
}

}  // namespace interlock::gateway
