// Responses of the gateway itself, in the shape that the clients of each API understand.
#pragma once

#include <string>
#include <string_view>

#include <boost/describe/enum.hpp>
#include <boost/describe/enum_to_string.hpp>

#include "gateway/model_route.h"
#include "net/http.h"

namespace interlock::gateway {

// Decides status, error type and whether a client may try again.
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
int status_of(RefusalKind kind);

// The `code` of a refusal: a stable name for programs, in responses, rows and metrics.
enum class RefusalCode {
    agent_missing,
    agent_not_found,
    agent_paused,
    amount_too_large,
    budget_exceeded,
    budget_frozen,
    client_left,
    concurrency_limit,
    forbidden,
    hold_exists,
    inside_a_run,
    invalid_request,
    method_not_allowed,
    no_upstream,
    not_metered,
    rate_limited,
    run_ended,
    run_not_found,
    sender_unknown,
    session_not_found,
    stale_fence,
    too_many,
    unauthorized,
    unavailable,
    unbounded_cost,
    unbounded_tools,
    unknown_model,
    unknown_price,
    unknown_route,
    upstream_failed,
    websocket_not_supported,
};
BOOST_DESCRIBE_ENUM(RefusalCode, agent_missing, agent_not_found, agent_paused, amount_too_large, budget_exceeded,
                    budget_frozen, client_left, concurrency_limit, forbidden, hold_exists, inside_a_run,
                    invalid_request, method_not_allowed, no_upstream, not_metered, rate_limited, run_ended,
                    run_not_found, sender_unknown, session_not_found, stale_fence, too_many, unauthorized, unavailable,
                    unbounded_cost, unbounded_tools, unknown_model, unknown_price, unknown_route, upstream_failed,
                    websocket_not_supported)
inline const char* to_text(RefusalCode code) { return boost::describe::enum_to_string(code, ""); }

// Error response that the gateway sends instead of the provider's.
struct CallRefusal {
    RefusalKind kind = RefusalKind::internal;
    RefusalCode code = RefusalCode::unavailable;
    std::string message = {};
    int retry_after_s = 0;  // 0: not sent.
};

// x-should-retry says false if the same request would be refused again.
net::Response refusal(ApiFormat format, const CallRefusal& refused, std::string_view call_id);
net::Response refusal(const NoRoute& no_route, std::string_view call_id);

}  // namespace interlock::gateway
