// The APIs of model providers, and what a request can want of one of them.
#pragma once

#include <boost/describe/enum.hpp>

namespace interlock::gateway {

// A provider's wire format. In documents and answers it is called `dialect`.
enum class ApiFormat { openai, anthropic, gemini };
BOOST_DESCRIBE_ENUM(ApiFormat, openai, anthropic, gemini)

enum class Operation { chat, responses, embeddings, messages, generate, count_tokens, models };
BOOST_DESCRIBE_ENUM(Operation, chat, responses, embeddings, messages, generate, count_tokens, models)

// True if the provider does not bill for it.
constexpr bool is_free(Operation operation) {
    switch (operation) {
        case Operation::count_tokens:
        case Operation::models:
            return true;
        case Operation::chat:
        case Operation::responses:
        case Operation::embeddings:
        case Operation::messages:
        case Operation::generate:
            break;
    }
    return false;
}

}  // namespace interlock::gateway
