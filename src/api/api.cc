#include "api/api.h"

#include <chrono>

#include <fmt/format.h>

#include "api/key_ring.h"
#include "api/metrics.h"
#include "net/origin.h"
#include "net/peer.h"
#include "store/read_rows.h"

namespace interlock::api {
namespace {

std::string_view bearer(const net::Request& request) {
    const std::string_view header = request.header("authorization");
    constexpr std::string_view scheme = "Bearer ";
    if (header.size() <= scheme.size()) return {};
    for (std::size_t i = 0; i < scheme.size(); ++i) {
        if ((header[i] | 0x20) != (scheme[i] | 0x20)) return {};
    }
    return header.substr(scheme.size());
}

Problem unauthorized(bool had_key) {
    return {.status = 401,
            .code = "unauthorized",
            .detail = had_key ? "the API key is unknown or revoked; create another with: interlock keys create"
                              : "the request has no API key; send Authorization: Bearer ilk_…"};
}

Problem run_without_key() {
    return {.status = 401,
            .code = "unauthorized",
            .detail =
                "this program belongs to a run, and a run needs its own key: Authorization: Bearer "
                "$INTERLOCK_KEY"};
}

Problem forbidden(Access needed) {
    constexpr std::array names{"no", "a read", "an agent", "an operator", "an admin"};
    return {.status = 403,
            .code = "forbidden",
            .detail = fmt::format("the scope of the API key does not allow this; use {} key",
                                  names[static_cast<std::size_t>(needed)])};
}

Problem beyond_bound(const Principal& caller) {
    constexpr std::array names{"nothing", "an agent", "a run", "a budget"};
    return {.status = 403,
            .code = "forbidden",
            .detail = fmt::format("the API key is limited to {}, which does not cover this",
                                  names[static_cast<std::size_t>(caller.bound())])};
}

// A browser sends its cookie along with whatever any page makes it send. Pages of the same machine on another port
// count as the same site for that, so SameSite alone does not keep them out.
bool may_come_by_cookie(const net::Request& request) {
    const bool only_reads = request.method == net::Method::get || request.method == net::Method::head;
    const net::SentBy sender = net::sent_by(request);
    return sender == net::SentBy::this_site || (only_reads && sender == net::SentBy::nobody);
}

Problem not_from_this_page() {
    return {.status = 403,
            .code = "origin_not_allowed",
            .detail =
                "with a login, a request comes from the page itself; other programs send a key: Authorization: "
                "Bearer ilk_…"};
}

std::optional<Problem> take_query(Call& call, const ApiRoute& route) {
    auto pairs = net::query_pairs(call.request.query);
    if (!pairs) return invalid("the query string is not well-formed");
    for (const auto& [name, value] : *pairs) {
        if (std::ranges::find(route.query, name) == route.query.end()) {
            return invalid(route.query.empty()
                               ? fmt::format("there is no query parameter '{}' here", name)
                               : fmt::format("there is no query parameter '{}' here; possible parameters: {}", name,
                                             fmt::join(route.query, ", ")));
        }
    }
    call.query = std::move(*pairs);
    return std::nullopt;
}

}  // namespace

net::Task<net::Response> Api::handle(net::Request request) {
    const auto begun = std::chrono::steady_clock::now();
    Call call{.parts = parts_,
              .request = std::move(request),
              .request_id = to_text("req", parts_.commands.fresh_id()),
              .caller = {},
              .names = {},
              .query = {}};
    const ApiRoute* route = nullptr;
    net::Response response;
    try {
        response = co_await dispatch(call, route);
    } catch (const net::Busy&) {
        response = respond(call, problem_of(engine::SubmitError::busy));
    }
    response.headers.push_back({"x-request-id", call.request_id});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    parts_.metrics.count_request(net::name_of(call.request.method), route != nullptr ? route->path : "none",
                                 response.status, seconds);
    if (response.status >= 500) {
        parts_.log.warn("request_failed", {{"request", call.request_id},
                                           {"method", net::name_of(call.request.method)},
                                           {"path", call.request.path},
                                           {"status", std::int64_t{response.status}}});
    } else {
        parts_.log.debug("request", {{"request", call.request_id},
                                     {"method", net::name_of(call.request.method)},
                                     {"path", call.request.path},
                                     {"status", std::int64_t{response.status}},
                                     {"key", call.caller.key_id},
                                     {"us", static_cast<std::int64_t>(seconds * 1e6)}});
    }
    co_return response;
}

net::Task<net::Response> Api::dispatch(Call& call, const ApiRoute*& route) {
    // 1. Where it goes.
    auto segments = net::path_segments(call.request.path);
    if (!segments) co_return respond(call, invalid("the path is not well-formed"));
    Routes::Match match = routes_.find(call.request.method, std::move(*segments));
    route = match.route;

    // 2. Who sends it. Before saying whether there is such a path: that is nobody's business without a key.
    if (route == nullptr || route->needs != Access::open) {
        if (auto why = parts_.commands.block_reason()) co_return respond(call, unavailable(std::move(*why)));
        const std::string_view key = bearer(call.request);
        auto caller = key.empty() ? parts_.callers.page_caller(call.request) : parts_.keys.find(key);
        if (!caller && !key.empty() && parts_.callers.keys_are_shared()) {
            co_await net::run_on(parts_.workers, [&callers = parts_.callers] { callers.refresh_keys(); });
            caller = parts_.keys.find(key);
        }
        if (!caller && key.empty()) caller = local_caller(call.request);
        if (!caller) co_return respond(call, unauthorized(!key.empty()));
        if (caller->by_cookie && !may_come_by_cookie(call.request)) co_return respond(call, not_from_this_page());
        if (caller->may(Access::operate) || caller->is_local()) {
            if (auto problem = co_await check_sender(call.request, *caller)) co_return respond(call, *problem);
        }
        call.caller = std::move(*caller);
    }
    if (route == nullptr) {
        if (match.allowed.empty()) co_return respond(call, not_found("path", call.request.path));
        net::Response response =
            respond(call, Problem{.status = 405,
                                  .code = "method_not_allowed",
                                  .detail = fmt::format("{} does not take {}; it takes {}", call.request.path,
                                                        net::name_of(call.request.method), match.allowed)});
        response.headers.push_back({"allow", match.allowed});
        co_return response;
    }
    if (!call.caller.may(route->needs)) co_return respond(call, forbidden(route->needs));
    if (call.caller.bound() > route->narrowest) co_return respond(call, beyond_bound(call.caller));
    if (route->reach == Reach::server && !call.is_home()) {
        co_return respond(call,
                          not_in_this_org("this concerns the whole server; use an admin key of the org 'default'"));
    }
    if (!call.caller.run.value.empty()) {
        if (auto problem = co_await check_run_key(call)) co_return respond(call, *problem);
    }

    // 3. Carry it out.
    call.names = std::move(match.names);
    if (auto problem = take_query(call, *route)) co_return respond(call, *problem);
    co_await parse_ahead(call);
    net::Response response = co_await route->handler(call);
    if (response.status >= 400) parts_.metrics.count_refusal(call.refused_code);
    co_return response;
}

// By the Unix socket the kernel says who it is. A key that is wrong does not turn into no key.
std::optional<Principal> Api::local_caller(const net::Request& request) const {
    if (request.sender == nullptr || !request.sender->local || !request.header("authorization").empty()) return {};
    const auto user = net::address_of(*request.sender).user;
    return user ? parts_.keys.user(*user) : std::nullopt;
}

net::Task<std::optional<Problem>> Api::check_sender(const net::Request& request, const Principal& caller) {
    const Sender sender = co_await parts_.callers.sender_of(request.sender);
    if (sender == Sender::run && caller.is_local() && !caller.by_cookie) co_return run_without_key();
    co_return problem_of(sender);
}

// A key that belongs to a run ends with it.
net::Task<std::optional<Problem>> Api::check_run_key(Call& call) {
    const core::OrgId org = call.caller.org;
    const Id id = call.caller.run.value;
    const auto run =
        co_await read(call, [=](store::Snapshot& snapshot) { return store::read_row<core::Run>(snapshot, org, id); });
    if (!run) co_return run.error();
    if (!*run || core::has_ended((*run)->state)) co_return unauthorized(true);
    call.caller.agent = (*run)->who.agent;
    call.caller.session = (*run)->who.session;
    co_return std::nullopt;
}

}  // namespace interlock::api
