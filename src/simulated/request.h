// What a simulated provider reads of a request: which of its APIs is meant, and the little of the body that it answers
// to. It shares no code with the parts that read requests to meter them, or it would share their mistakes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "net/http.h"

namespace interlock::simulated {

enum class SimulatedDialect { openai, anthropic, gemini };

enum class SimulatedApi { chat, responses, embeddings, messages, count_messages, generate, count_contents, models };

struct SimulatedRoute {
    SimulatedDialect dialect = SimulatedDialect::openai;
    SimulatedApi api = SimulatedApi::models;
    std::string model = {};  // Where the path names it.
    bool stream = false;     // Where the path says it.
    bool array = false;      // Gemini without alt=sse: a stream is one JSON array.
};
// Nothing: no provider has such a path, or not with this method.
std::optional<SimulatedRoute> simulated_route_of(const net::Request& request);
// The API in whose shape an error is sent, also for an unknown path.
SimulatedDialect simulated_dialect_of(const net::Request& request);

constexpr std::int64_t simulated_bytes_per_token = 4;

struct SimulatedRequest {
    std::string model = {};
    bool stream = false;
    bool include_usage = false;
    std::optional<std::int64_t> output_max = {};
    std::int64_t choices = 1;
    std::int64_t prompt_tokens = 0;   // ceil(bytes of text / 4), and so never more than the bytes.
    std::string last_user_text = {};  // Only where the body has a directive somewhere.
    bool has_tool_result = false;     // In or behind the last message in which the user says something.
    std::string first_tool = {};      // Of those the client carries out.

    // For embeddings.
    std::int64_t inputs = 1;
    std::int64_t dimensions = 8;
    bool base64 = false;
};
// The error is a sentence for the client. The body is given room behind its end, which simdjson reads into.
Result<SimulatedRequest, std::string> read_simulated_request(const SimulatedRoute& route, std::string& body);

}  // namespace interlock::simulated
