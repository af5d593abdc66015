#include "gateway/forwarding.h"

#include <algorithm>
#include <array>

#include "gateway/dialect.h"

namespace interlock::gateway {
namespace {

constexpr std::string_view bearer = "Bearer ";

// Compares lengths first. A binary search would read a text at each step.
template <std::size_t count>
bool is_one_of(std::string_view name, const std::array<std::string_view, count>& names) {
    return std::ranges::find(names, name) != names.end();
}

template <std::size_t count>
bool begins_with_one_of(std::string_view name, const std::array<std::string_view, count>& prefixes) {
    return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Request headers that clients of the three dialects send and that choose neither who pays nor how much.
constexpr std::array<std::string_view, 20> passing{"accept",
                                                   "anthropic-beta",
                                                   "anthropic-dangerous-direct-browser-access",
                                                   "anthropic-version",
                                                   "openai-beta",
                                                   "originator",
                                                   "session-id",
                                                   "session_id",
                                                   "thread-id",
                                                   "traceparent",
                                                   "tracestate",
                                                   "user-agent",
                                                   "version",
                                                   "x-anthropic-additional-protection",
                                                   "x-app",
                                                   "x-client-request-id",
                                                   "x-goog-api-client",
                                                   "x-server-timeout",
                                                   "x-session-affinity",
                                                   "x-session-id"};
constexpr std::array<std::string_view, 3> passing_prefixes{"x-claude-code-", "x-codex-", "x-stainless-"};

// Those of them that name one request or one attempt, and change no answer.
constexpr std::array<std::string_view, 4> of_one_request{"traceparent", "tracestate", "x-client-request-id",
                                                         "x-stainless-retry-count"};

// Response headers that clients read. None of them makes a browser do anything.
constexpr std::array<std::string_view, 12> returning{
    "apim-request-id", "cf-ray",       "content-encoding", "content-language",
    "request-id",      "retry-after",  "retry-after-ms",   "x-cloud-trace-context",
    "x-models-etag",   "x-request-id", "x-should-retry",   "x-trace-id"};
constexpr std::array<std::string_view, 6> returning_prefixes{"anthropic-", "openai-", "x-codex-",
                                                             "x-goog-",    "x-groq-", "x-ratelimit-"};

bool passes(std::string_view name) { return is_one_of(name, passing) || begins_with_one_of(name, passing_prefixes); }

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

bool equal_but_for_case(std::string_view text, std::string_view lower_case) {
    return std::ranges::equal(
        text, lower_case, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a | 0x20) : a) == b; });
}

// Whether "keep-alive, X-Hop" names the header, which is in lower case.
bool is_named_in(std::string_view list, std::string_view name) {
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(','), list.size());
        if (equal_but_for_case(trimmed(list.substr(0, end)), name)) return true;
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return false;
}

}  // namespace

std::string_view key_in(const net::Request& request, const ModelRoute& route) {
    const std::string_view authorization = request.header("authorization");
    const bool is_bearer =
        authorization.size() > bearer.size() && std::ranges::equal(
                                                    authorization.substr(0, bearer.size()), bearer, {},
                                                    [](char c) { return c | 0x20; }, [](char c) { return c | 0x20; });
    if (is_bearer) return authorization.substr(bearer.size());
    if (const auto key = request.header("x-api-key"); !key.empty()) return key;
    if (const auto key = request.header("x-goog-api-key"); !key.empty()) return key;
    return route.key_in_query;
}

bool ends_here(std::string_view name) {
    static constexpr std::array<std::string_view, 31> names{"accept-encoding",
                                                            "api-key",
                                                            "authorization",
                                                            "connection",
                                                            "content-encoding",
                                                            "content-length",
                                                            "content-type",
                                                            "cookie",
                                                            "expect",
                                                            "forwarded",
                                                            "host",
                                                            "http2-settings",
                                                            "idempotency-key",
                                                            "keep-alive",
                                                            "origin",
                                                            "proxy-authorization",
                                                            "proxy-connection",
                                                            "range",
                                                            "referer",
                                                            "set-cookie",
                                                            "te",
                                                            "trailer",
                                                            "transfer-encoding",
                                                            "upgrade",
                                                            "via",
                                                            "x-api-key",
                                                            "x-goog-api-key",
                                                            "x-http-method",
                                                            "x-http-method-override",
                                                            "x-method-override",
                                                            "x-real-ip"};
    return is_one_of(name, names) || name.starts_with("x-interlock-") || name.starts_with("x-forwarded-");
}

bool passes_to(const Upstream& upstream, std::string_view name) {
    if (passes(name)) return true;
    return std::ranges::any_of(upstream.pass_headers,
                               [&](const std::string& pattern) { return matches(pattern, name); }) &&
           !ends_here(name);
}

std::string what_goes_on(const Config& config, const net::Request& request) {
    std::string text;
    for (const net::Header& header : request.headers) {
        const bool counts =
            !is_one_of(header.name, of_one_request) &&
            (passes(header.name) || std::ranges::any_of(config.upstreams, [&](const Upstream& upstream) {
                 return passes_to(upstream, header.name);
             }));
        // A value has no line breaks.
        if (counts) text.append(header.name).append(":").append(header.value).append("\n");
    }
    return text;
}

bool goes_on(const net::Header& header, const net::Request& request, const Upstream& upstream) {
    return passes_to(upstream, header.name) && !upstream.headers.contains(header.name) &&
           !is_named_in(request.header("connection"), header.name);
}

net::OutRequest request_for(const Upstream& upstream, std::string_view key, const net::Request& request,
                            std::string target, std::string body) {
    const bool has_body = net::defines_body(request.method);
    net::OutRequest out{.method = request.method, .target = upstream.path + std::move(target)};
    if (has_body) out.body = std::move(body);
    out.headers.reserve(request.headers.size() + 3);
    for (const net::Header& header : request.headers) {
        if (goes_on(header, request, upstream)) out.headers.push_back(header);
    }
    for (const auto& [name, value] : upstream.headers) out.headers.push_back({name, value});
    if (!key.empty()) out.headers.push_back(dialect_of(upstream.format).key_header(key));
    // Every body that goes on was read as JSON. Another type could have the upstream read it otherwise.
    if (has_body) out.headers.push_back({"content-type", "application/json"});
    out.headers.push_back({"accept-encoding", "identity"});
    return out;
}

std::vector<net::Header> headers_from(const std::vector<net::Header>& headers) {
    std::vector<net::Header> kept;
    kept.reserve(headers.size() + 8);
    for (const net::Header& header : headers) {
        const bool comes_back =
            is_one_of(header.name, returning) || begins_with_one_of(header.name, returning_prefixes);
        if (comes_back && net::is_header_name(header.name) && net::is_header_value(header.value)) {
            kept.push_back(header);
        }
    }
    return kept;
}

std::string content_type_from(std::string_view stated) {
    const std::string_view essence = trimmed(stated.substr(0, stated.find(';')));
    const auto is = [&](std::string_view type) { return equal_but_for_case(essence, type); };
    constexpr std::string_view application = "application/";
    constexpr std::string_view json_suffix = "+json";
    const bool is_json = is("application/json") ||
                         (essence.size() > application.size() + json_suffix.size() &&
                          equal_but_for_case(essence.substr(0, application.size()), application) &&
                          equal_but_for_case(essence.substr(essence.size() - json_suffix.size()), json_suffix));
    if (is_json) return "application/json";
    if (is("text/event-stream")) return "text/event-stream; charset=utf-8";
    return "application/octet-stream";
}

}  // namespace interlock::gateway
