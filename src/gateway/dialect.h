// Which provider's language a request speaks, and what it asks for in it.
//
//   (1) A request belongs to the gateway when its path is one that a model provider has, bare or behind /openai,
//       /anthropic or /gemini, and any of these behind /s/{run}. Everything else is nobody's here: nothing is returned.
//   (2) Behind a prefix nothing is passed on that is not listed below: what is not known to be metered or free of cost
//       is refused.
//   (3) The target that goes upstream has no prefix of ours and no key of ours in its query; the rest of it is as it
//       was sent.
//
// No body is looked at here; see call_request.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <boost/describe/enum.hpp>

#include "core/rows.h"
#include "net/http.h"

namespace interlock::gateway {

enum class ApiFormat { openai, anthropic, gemini };
BOOST_DESCRIBE_ENUM(ApiFormat, openai, anthropic, gemini)

enum class Operation { chat, responses, embeddings, messages, generate, count_tokens, models };
BOOST_DESCRIBE_ENUM(Operation, chat, responses, embeddings, messages, generate, count_tokens, models)

// Whether the provider bills for it.
constexpr bool is_free(Operation operation) {
    return operation == Operation::count_tokens || operation == Operation::models;
}

struct ModelRoute {
    ApiFormat format = ApiFormat::openai;
    Operation operation = Operation::chat;
    std::string target;             // "/v1/messages?beta=true"
    std::string model = {};         // Where the path names it (Gemini, or one model's description); percent-decoded.
    bool stream = false;            // Where the path says it (Gemini).
    std::string run = {};           // What stood for {run} in /s/{run}, unchecked.
    std::string key_in_query = {};  // The value of ?key=; not of a GET, unless it is Gemini's.
};

// A request that is the gateway's and goes nowhere.
struct NoRoute {
    ApiFormat format = ApiFormat::openai;
    int status = 404;  // 400 for a body where none belongs, 404, 405, or 426 for an upgrade to a WebSocket.
    std::string detail;
};

struct Routed {
    std::optional<ModelRoute> route;
    NoRoute why_not = {};  // Without a route.
};
// Nothing: the request is not the gateway's.
std::optional<Routed> route_of(const net::Request& request);

// ---- answers of our own, in the shape that the dialect's clients understand -----------------------------------------

// A kind of refusal decides status, error type and whether a client may try again.
enum class RefusalKind {
    bad_request,       // 400
    unauthorized,      // 401
    budget,            // 402, never to be retried
    not_found,         // 404: a model or a route
    rate_limited,      // 429, with retry-after
    internal,          // 500
    upstream_failed,   // 502
    busy,              // 503, with retry-after
    upstream_timeout,  // 504
};
int status_of(RefusalKind why);

// `code` is a stable word of ours (budget_exceeded, unknown_model, …), carried where the dialect has room for it.
// x-should-retry says false for whatever would meet the same answer again. `retry_after_s` is sent where it is not 0.
net::Response refusal(ApiFormat dialect, RefusalKind why, std::string_view code, std::string_view message,
                      std::string_view call_id, int retry_after_s = 0);
net::Response refusal(const NoRoute& no_route, std::string_view call_id);

// What ends a stream cleanly that cannot go on: an event in the dialect's own shape, and whatever its clients need to
// see after it.
std::string stream_error(Operation operation, std::string_view code, std::string_view message);

}  // namespace interlock::gateway
