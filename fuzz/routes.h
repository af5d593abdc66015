// The routes that the first byte of an input chooses.
#pragma once

#include "gateway/model_route.h"

namespace interlock::gateway {

inline ModelRoute route_for(char api) {
    switch (api) {
        case 'c':
            return {.operation = Operation::chat, .target = "/v1/chat/completions"};
        case 'r':
            return {.operation = Operation::responses, .target = "/v1/responses"};
        case 'm':
            return {.format = ApiFormat::anthropic, .operation = Operation::messages, .target = "/v1/messages"};
        case 'g':
            return {.format = ApiFormat::gemini,
                    .operation = Operation::generate,
                    .target = "/v1beta/models/m:generateContent",
                    .model = "m"};
        default:
            return {.operation = Operation::embeddings, .target = "/v1/embeddings"};
    }
}

}  // namespace interlock::gateway
