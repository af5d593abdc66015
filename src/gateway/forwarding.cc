#include "gateway/forwarding.h"

#include <algorithm>
#include <array>

namespace interlock::gateway {
namespace {

constexpr std::string_view bearer = "Bearer ";

template <std::size_t count>
bool is_one_of(std::string_view name, const std::array<std::string_view, count>& names) {
    return std::ranges::find(names, name) != names.end();
}

bool ends_here(std::string_view name) {
    static constexpr std::array<std::string_view, 24> names{"x-http-method-override",
                                                            "api-key",
                                                            "x-real-ip",
                                                            "via",
                                                            "x-goog-user-project",
                                                            "referer",
                                                            "host",
                                                            "connection",
                                                            "content-length",
                                                            "transfer-encoding",
                                                            "keep-alive",
                                                            "te",
                                                            "trailer",
                                                            "upgrade",
                                                            "expect",
                                                            "authorization",
                                                            "x-api-key",
                                                            "x-goog-api-key",
                                                            "accept-encoding",
                                                            "proxy-authorization",
                                                            "proxy-connection",
                                                            "cookie",
                                                            "forwarded",
                                                            "origin"};
    return is_one_of(name, names) || name.starts_with("x-interlock-") || name.starts_with("x-forwarded-");
}

// Whether "keep-alive, X-Hop" names the header, which is in lower case.
bool is_named_in(std::string_view list, std::string_view name) {
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(','), list.size());
        std::string_view word = list.substr(0, end);
        while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
        while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
        const bool same = std::ranges::equal(
            word, name, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a | 0x20) : a) == b; });
        if (same) return true;
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return false;
}

net::Header key_header(Dialect dialect, std::string_view key) {
    switch (dialect) {
        case Dialect::openai:
            return {"authorization", std::string(bearer) + std::string(key)};
        case Dialect::anthropic:
            return {"x-api-key", std::string(key)};
        case Dialect::gemini:
            return {"x-goog-api-key", std::string(key)};
    }
    return {};
}

}  // namespace

std::string_view key_in(const net::Request& request, const Route& route) {
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

net::OutRequest request_for(const Upstream& upstream, std::string_view key, const net::Request& request,
                            std::string target, std::string body) {
    net::OutRequest out{.method = request.method, .target = upstream.path + std::move(target), .body = std::move(body)};
    out.headers.reserve(request.headers.size() + 2);
    const std::string_view of_connection = request.header("connection");
    for (const net::Header& header : request.headers) {
        const bool stays =
            ends_here(header.name) || upstream.headers.contains(header.name) || is_named_in(of_connection, header.name);
        if (!stays) out.headers.push_back(header);
    }
    for (const auto& [name, value] : upstream.headers) out.headers.push_back({name, value});
    if (!key.empty()) out.headers.push_back(key_header(upstream.dialect, key));
    out.headers.push_back({"accept-encoding", "identity"});
    return out;
}

std::vector<net::Header> headers_from(const std::vector<net::Header>& headers) {
    static constexpr std::array<std::string_view, 12> ours{"connection",
                                                           "content-length",
                                                           "transfer-encoding",
                                                           "keep-alive",
                                                           "trailer",
                                                           "upgrade",
                                                           "date",
                                                           "content-type",
                                                           "set-cookie",
                                                           "alt-svc",
                                                           "proxy-authenticate",
                                                           "strict-transport-security"};
    std::vector<net::Header> kept;
    kept.reserve(headers.size() + 8);
    for (const net::Header& header : headers) {
        if (!is_one_of(std::string_view(header.name), ours) && !header.name.starts_with("x-interlock-")) {
            kept.push_back(header);
        }
    }
    return kept;
}

}  // namespace interlock::gateway
