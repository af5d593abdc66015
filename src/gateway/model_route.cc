#include "gateway/model_route.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>

#include "gateway/dialect.h"

namespace interlock::gateway {
namespace {

// What is left of a path when our prefixes are off it.
struct Stripped {
    std::string path;
    std::string run = {};
    std::optional<ApiFormat> format = {};  // As a prefix says.
    bool ours = false;                     // A prefix of ours stood there.
};
std::optional<Stripped> strip(std::string_view path);
std::optional<ApiFormat> format_of(const net::Request& request, const Stripped& stripped);
Routed routed(const net::Request& request, const Stripped& stripped, ApiFormat format);

}  // namespace

const Dialect& ModelRoute::dialect() const { return dialect_of(format, operation); }

std::optional<Routed> route_of(const net::Request& request) {
    const auto stripped = strip(request.path);
    if (!stripped) return std::nullopt;
    const auto format = format_of(request, *stripped);
    if (!format) return std::nullopt;
    return routed(request, *stripped, *format);
}

namespace {

// ---- whose path is it -----------------------------------------------------------------------------------------------

std::optional<Stripped> strip(std::string_view path) {
    Stripped stripped;
    if (path.starts_with("/s/")) {
        const std::size_t end = std::min(path.find('/', 3), path.size());
        const auto run = net::path_segments(path.substr(2, end - 2));
        if (!run || run->size() != 1) return std::nullopt;
        stripped.run = run->front();
        stripped.ours = true;
        path.remove_prefix(end);
    }
    for (const ApiFormat format : {ApiFormat::openai, ApiFormat::anthropic, ApiFormat::gemini}) {
        if (!take_prefix(path, fmt::format("/{}", boost::describe::enum_to_string(format, "")))) continue;
        stripped.format = format;
        break;
    }
    stripped.ours = stripped.ours || stripped.format;
    stripped.path = stripped.format ? dialect_of(*stripped.format).versioned(path) : std::string(path);
    return stripped;
}

// OpenAI's, which many programs speak, unless the headers name another API.
ApiFormat format_by_headers(const net::Request& request) {
    for (const Dialect* dialect : all_dialects()) {
        if (dialect->is_named_by(request)) return dialect->format();
    }
    return ApiFormat::openai;
}

// Nothing: the path is no provider's, as far as we know.
std::optional<ApiFormat> format_of_bare(const net::Request& request, std::string_view path) {
    for (const Dialect* dialect : all_dialects()) {
        if (dialect->owns(path)) return dialect->format();
    }
    const std::string_view noun = noun_of(path);
    if (noun == "models" || noun == "files") return format_by_headers(request);
    return std::nullopt;
}

std::optional<ApiFormat> format_of(const net::Request& request, const Stripped& stripped) {
    if (stripped.format) return stripped.format;
    const auto bare = format_of_bare(request, stripped.path);
    if (!bare && stripped.ours) return format_by_headers(request);
    return bare;
}

// ---- what is asked for ----------------------------------------------------------------------------------------------

std::optional<Endpoint> endpoint_of(ApiFormat format, std::string_view path) {
    for (const Dialect* dialect : all_dialects()) {
        if (dialect->format() != format) continue;
        if (auto found = dialect->endpoint(path)) return found;
    }
    return std::nullopt;
}

// Parameters that stand for headers at Google's servers: other credentials, another payer, another method. And the
// name of a function that the answer shall call.
bool stands_for_a_header(std::string_view parameter) {
    static constexpr std::array<std::string_view, 6> names{"access_token", "callback",  "jsonp",
                                                           "oauth_token",  "quotaUser", "userProject"};
    return parameter.starts_with('$') || std::ranges::find(names, parameter) != names.end();
}

// Takes every `key` out of the query, and what stands for a header; the rest stays as it was sent.
std::string without_keys(std::string_view query, std::string& key) {
    std::string kept;
    bool first = true;
    while (true) {
        const std::size_t end = std::min(query.find('&'), query.size());
        const std::string_view member = query.substr(0, end);
        // A value that does not decode must not carry its name past us.
        const auto name = net::query_pairs(member.substr(0, member.find('=')));
        if (name && name->size() == 1 && name->front().first == "key") {
            const auto pair = net::query_pairs(member);
            if (pair && key.empty()) key = pair->front().second;
        } else if (!name || name->size() != 1 || !stands_for_a_header(name->front().first)) {
            if (!first) kept.push_back('&');
            kept.append(member);
            first = false;
        }
        if (end == query.size()) return kept;
        query.remove_prefix(end + 1);
    }
}

Routed routed(const net::Request& request, const Stripped& stripped, ApiFormat format) {
    const auto refuse = [&](int status, std::string detail) {
        return Routed{.route = std::nullopt,
                      .why_not = {.format = format, .status = status, .detail = std::move(detail)}};
    };
    const auto endpoint = endpoint_of(format, stripped.path);
    if (!endpoint) {
        return refuse(404,
                      fmt::format("Interlock does not pass {} {} on, because it could not count what that costs: {}.",
                                  net::name_of(request.method), stripped.path, dialect_of(format).listed_paths()));
    }
    const Dialect& dialect = dialect_of(format, endpoint->operation);
    if (auto refused = dialect.refuse(*endpoint, request))
        return {.route = std::nullopt, .why_not = std::move(*refused)};
    if (request.method != endpoint->method) {
        return refuse(405, fmt::format("The method of {} is {}, not {}.", stripped.path, net::name_of(endpoint->method),
                                       net::name_of(request.method)));
    }

    if (!request.body.empty() && !net::defines_body(request.method)) {
        return refuse(400, fmt::format("A {} has no body: an upstream could take it for a second request.",
                                       net::name_of(request.method)));
    }

    ModelRoute route{.format = format,
                     .operation = endpoint->operation,
                     .target = stripped.path,
                     .model = endpoint->model,
                     .stream = endpoint->stream,
                     .run = stripped.run};
    std::string key;
    if (const std::string query = without_keys(request.query, key); !query.empty()) {
        route.target.append("?").append(query);
    }
    // A link with a key in it is a request that a web page can have a user's browser make.
    if (dialect.takes_key_in_query(request.method)) route.key_in_query = std::move(key);
    return {.route = std::move(route)};
}

}  // namespace
}  // namespace interlock::gateway
