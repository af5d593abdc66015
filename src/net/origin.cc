#include "net/origin.h"

#include <algorithm>

namespace interlock::net {
namespace {

bool same_text(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
    return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view without_port(std::string_view host) {
    return host.ends_with(']') ? host : host.substr(0, host.rfind(':'));
}

// "https://example.org:8443" → "example.org:8443". The scheme is not compared: a proxy in front may speak TLS for us.
std::string_view authority_of(std::string_view origin) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (origin.starts_with(scheme)) return origin.substr(scheme.size());
    }
    return {};
}

}  // namespace

std::optional<Refusal> check_host_and_origin(const Request& request, const HttpServerOptions& options) {
    const std::string_view host = request.header("host");
    const auto is_host = [&](std::string_view allowed) { return same_text(allowed, without_port(host)); };
    if (!options.allowed_hosts.empty() && std::ranges::none_of(options.allowed_hosts, is_host)) {
        return Refusal{421, "misdirected_request", "this server does not answer for that Host"};
    }
    const std::string_view origin = request.header("origin");
    const auto is_origin = [&](std::string_view allowed) { return same_text(allowed, origin); };
    if (origin.empty() || (!host.empty() && same_text(authority_of(origin), host))) return std::nullopt;
    if (std::ranges::any_of(options.allowed_origins, is_origin)) return std::nullopt;
    return Refusal{403, "origin_not_allowed", "requests from that Origin are not allowed"};
}

SentBy sent_by(const Request& request) {
    // Browsers say the first of connections that nobody can listen to, and the second of whatever may change something.
    const std::string_view site = request.header("sec-fetch-site");
    if (site.empty()) return request.header("origin").empty() ? SentBy::nobody : SentBy::this_site;
    return site == "same-origin" ? SentBy::this_site : site == "none" ? SentBy::nobody : SentBy::another_site;
}

}  // namespace interlock::net
