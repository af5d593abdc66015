// Which provider's API a request is for, and what it wants of it.
//
//   (1) A request belongs to the gateway when its path is one that a model provider has, bare or behind /openai,
//       /anthropic or /gemini, and any of these behind /s/{run}. Every other path is left to others: nothing is
//       returned.
//   (2) Behind a prefix only the paths that a dialect lists are passed on. The gateway refuses all others, because it
//       does not know whether they cost something.
//   (3) The target that goes upstream has no prefix of ours and no key of ours in its query; the rest of it is as it
//       was sent.
//
// No body is looked at here; see call_request.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/api_format.h"
#include "net/http.h"

namespace interlock::gateway {

class Dialect;

struct ModelRoute {
    ApiFormat format = ApiFormat::openai;
    Operation operation = Operation::chat;
    std::string target;             // "/v1/messages?beta=true"
    std::string model = {};         // Where the path names it (Gemini, or one model's description); percent-decoded.
    bool stream = false;            // Where the path says it (Gemini).
    std::string run = {};           // What stood for {run} in /s/{run}, unchecked.
    std::string key_in_query = {};  // The value of ?key=; not of a GET, unless it is Gemini's.

    const Dialect& dialect() const;
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

}  // namespace interlock::gateway
