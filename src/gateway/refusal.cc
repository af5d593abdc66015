#include "gateway/refusal.h"

#include "base/text.h"
#include "gateway/dialect.h"

namespace interlock::gateway {
namespace {

// Whether the same request would be refused again.
bool is_lasting(RefusalKind kind) {
    switch (kind) {
        case RefusalKind::bad_request:
        case RefusalKind::unauthorized:
        case RefusalKind::budget:
        case RefusalKind::not_found:
            return true;
        case RefusalKind::rate_limited:
        case RefusalKind::internal:
        case RefusalKind::upstream_failed:
        case RefusalKind::busy:
        case RefusalKind::upstream_timeout:
            break;
    }
    return false;
}

net::Response response_with(ApiFormat format, int status, const CallRefusal& refused, std::string_view call_id) {
    net::Response response{.status = status, .content_type = "application/json", .inert = true};
    response.headers.push_back({"x-interlock-call", std::string(call_id)});
    if (is_lasting(refused.kind)) response.headers.push_back({"x-should-retry", "false"});
    if (refused.retry_after_s != 0) response.headers.push_back({"retry-after", std::to_string(refused.retry_after_s)});
    const std::string message = as_utf8(refused.message);  // It may quote a header of the client or of an upstream.
    response.body = dialect_of(format).error_body(
        {.kind = refused.kind, .status = status, .code = refused.code, .message = message, .call_id = call_id});
    return response;
}

RefusalCode code_of(const NoRoute& no_route) {
    switch (no_route.status) {
        case 404:
            return RefusalCode::unknown_route;
        case 405:
            return RefusalCode::method_not_allowed;
        case 426:
            return RefusalCode::websocket_not_supported;
        default:
            return RefusalCode::invalid_request;
    }
}

}  // namespace

int status_of(RefusalKind kind) {
    switch (kind) {
        case RefusalKind::bad_request:
            return 400;
        case RefusalKind::unauthorized:
            return 401;
        case RefusalKind::budget:
            return 402;
        case RefusalKind::not_found:
            return 404;
        case RefusalKind::rate_limited:
            return 429;
        case RefusalKind::internal:
            return 500;
        case RefusalKind::upstream_failed:
            return 502;
        case RefusalKind::busy:
            return 503;
        case RefusalKind::upstream_timeout:
            return 504;
    }
    return 500;
}

net::Response refusal(ApiFormat format, const CallRefusal& refused, std::string_view call_id) {
    return response_with(format, status_of(refused.kind), refused, call_id);
}

net::Response refusal(const NoRoute& no_route, std::string_view call_id) {
    const RefusalKind kind = no_route.status == 404 ? RefusalKind::not_found : RefusalKind::bad_request;
    return response_with(no_route.format, no_route.status,
                         {.kind = kind, .code = code_of(no_route), .message = no_route.detail}, call_id);
}

}  // namespace interlock::gateway
