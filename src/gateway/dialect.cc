#include "gateway/dialect.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

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
std::optional<ApiFormat> dialect_of(const net::Request& request, const Stripped& stripped);
Routed routed(const net::Request& request, const Stripped& stripped, ApiFormat dialect);

}  // namespace

std::optional<Routed> route_of(const net::Request& request) {
    const auto stripped = strip(request.path);
    if (!stripped) return std::nullopt;
    const auto dialect = dialect_of(request, *stripped);
    if (!dialect) return std::nullopt;
    return routed(request, *stripped, *dialect);
}

namespace {

// ---- whose path is it -----------------------------------------------------------------------------------------------

// Takes "/first" off "/first/rest" or "/first", and nothing off "/firstling".
bool take(std::string_view& path, std::string_view prefix) {
    if (!path.starts_with(prefix)) return false;
    if (path.size() > prefix.size() && path[prefix.size()] != '/') return false;
    path.remove_prefix(prefix.size());
    return true;
}

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
    if (take(path, "/openai")) stripped.format = ApiFormat::openai;
    if (!stripped.format && take(path, "/anthropic")) stripped.format = ApiFormat::anthropic;
    if (!stripped.format && take(path, "/gemini")) stripped.format = ApiFormat::gemini;
    stripped.ours = stripped.ours || stripped.format;

    // OpenAI's clients are given a base address with or without its version.
    const bool versioned = path == "/v1" || path.starts_with("/v1/");
    stripped.path = stripped.format == ApiFormat::openai && !versioned ? fmt::format("/v1{}", path) : std::string(path);
    return stripped;
}

ApiFormat dialect_by_headers(const net::Request& request) {
    if (!request.header("anthropic-version").empty() || !request.header("x-api-key").empty())
        return ApiFormat::anthropic;
    if (!request.header("x-goog-api-key").empty()) return ApiFormat::gemini;
    return ApiFormat::openai;
}

bool is_gemini_call(std::string_view path) {
    static constexpr std::array<std::string_view, 8> actions{
        "generateContent", "streamGenerateContent", "countTokens",        "embedContent",
        "predict",         "batchEmbedContents",    "predictLongRunning", "batchGenerateContent"};
    std::size_t colon = path.rfind(':');
    std::size_t behind = colon + 1;
    if (colon == std::string_view::npos) {
        colon = std::max(path.rfind("%3A") + 1, path.rfind("%3a") + 1);
        behind = colon + 2;
    }
    if (colon == 0 || behind >= path.size()) return false;
    return std::ranges::find(actions, path.substr(behind)) != actions.end();
}

// Nothing: the path is no provider's, as far as we know.
std::optional<ApiFormat> dialect_of_bare(const net::Request& request, std::string_view path) {
    // What stands behind /v1/ at a provider and does not in our own API (src/api). What of it is not metered is refused
    // here: answered by nobody it would look like a mistake in the address.
    static constexpr std::array<std::string_view, 24> openai{
        "assistants",    "audio",   "batches",    "chat",     "completions",   "containers",
        "conversations", "edits",   "embeddings", "engines",  "evals",         "fine-tunes",
        "fine_tuning",   "graders", "images",     "realtime", "responses",     "threads",
        "moderations",   "chatkit", "uploads",    "videos",   "vector_stores", "organization"};
    static constexpr std::array<std::string_view, 3> anthropic{"messages", "complete", "skills"};
    static constexpr std::array<std::string_view, 2> either{"models", "files"};
    for (const std::string_view version : {"/v1beta", "/v1alpha"}) {
        if (take(path, version)) return ApiFormat::gemini;
    }
    if (!take(path, "/v1") || path.empty()) return std::nullopt;

    const std::string_view noun = path.substr(1, std::min(path.find('/', 1), path.size()) - 1);
    const auto among = [&](const auto& nouns) { return std::ranges::find(nouns, noun) != nouns.end(); };
    if (among(openai)) return ApiFormat::openai;
    if (among(anthropic)) return ApiFormat::anthropic;
    if (noun == "models" && is_gemini_call(path)) return ApiFormat::gemini;
    if (among(either)) return dialect_by_headers(request);
    return std::nullopt;
}

std::optional<ApiFormat> dialect_of(const net::Request& request, const Stripped& stripped) {
    if (stripped.format) return stripped.format;
    const auto bare = dialect_of_bare(request, stripped.path);
    if (!bare && stripped.ours) return dialect_by_headers(request);
    return bare;
}

// ---- what is asked for ----------------------------------------------------------------------------------------------

struct Known {
    Operation operation = Operation::chat;
    net::Method method = net::Method::post;
    std::string model = {};
    bool stream = false;
};

struct Fixed {
    ApiFormat format;
    std::string_view path;
    Operation operation;
};
constexpr std::array fixed_paths{
    Fixed{ApiFormat::openai, "/v1/chat/completions", Operation::chat},
    Fixed{ApiFormat::openai, "/v1/responses", Operation::responses},
    Fixed{ApiFormat::openai, "/v1/embeddings", Operation::embeddings},
    Fixed{ApiFormat::anthropic, "/v1/messages", Operation::messages},
    Fixed{ApiFormat::anthropic, "/v1/messages/count_tokens", Operation::count_tokens},
};

// A model's name is forwarded as a part of a path, so it must not lead out of its folder, however it is encoded.
bool leads_elsewhere(std::string_view model) {
    return model.find("..") != std::string_view::npos || model.find('\\') != std::string_view::npos;
}

std::optional<Known> known_model_path(ApiFormat dialect, std::string_view path) {
    const bool gemini = dialect == ApiFormat::gemini;
    if (!take(path, "/v1") && !(gemini && take(path, "/v1beta"))) return std::nullopt;
    if (!take(path, "/models")) return std::nullopt;
    Known known{.operation = Operation::models, .method = net::Method::get};
    if (path.empty()) return known;

    // Names of models may have slashes in them.
    const auto segments = net::path_segments(path);
    if (!segments || segments->empty() || path.ends_with('/')) return std::nullopt;
    known.model = segments->front();
    for (std::size_t i = 1; i < segments->size(); ++i) known.model.append("/").append((*segments)[i]);
    if (leads_elsewhere(known.model)) return std::nullopt;
    if (!gemini) return known;

    const std::size_t colon = known.model.rfind(':');
    if (colon == std::string::npos) return known;
    const std::string action = known.model.substr(colon + 1);
    known.model.resize(colon);
    known.method = net::Method::post;
    known.stream = action == "streamGenerateContent";
    if (known.model.empty()) return std::nullopt;
    if (action == "generateContent" || known.stream)
        known.operation = Operation::generate;
    else if (action == "countTokens")
        known.operation = Operation::count_tokens;
    else
        return std::nullopt;
    return known;
}

std::optional<Known> known_path(ApiFormat dialect, std::string_view path) {
    for (const Fixed& fixed : fixed_paths) {
        if (fixed.format == dialect && fixed.path == path) return Known{.operation = fixed.operation};
    }
    return known_model_path(dialect, path);
}

std::string_view metered_paths(ApiFormat dialect) {
    switch (dialect) {
        case ApiFormat::openai:
            return "POST /v1/chat/completions, POST /v1/responses and POST /v1/embeddings are metered, and GET "
                   "/v1/models "
                   "is free";
        case ApiFormat::anthropic:
            return "POST /v1/messages is metered, and POST /v1/messages/count_tokens and GET /v1/models are free";
        case ApiFormat::gemini:
            return "POST /v1beta/models/{model}:generateContent and :streamGenerateContent are metered, and "
                   ":countTokens "
                   "and GET /v1beta/models are free";
    }
    return {};
}

bool is_websocket(const net::Request& request) {
    return std::ranges::equal(request.header("upgrade"), std::string_view("websocket"),
                              [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
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

Routed routed(const net::Request& request, const Stripped& stripped, ApiFormat dialect) {
    const auto refuse = [&](int status, std::string detail) {
        return Routed{.route = std::nullopt,
                      .why_not = {.format = dialect, .status = status, .detail = std::move(detail)}};
    };
    const auto known = known_path(dialect, stripped.path);
    if (!known) {
        return refuse(404,
                      fmt::format("Interlock does not pass {} {} on, because it could not count what that costs: {}.",
                                  net::name_of(request.method), stripped.path, metered_paths(dialect)));
    }
    if (known->operation == Operation::responses && request.method == net::Method::get && is_websocket(request)) {
        return refuse(426,
                      "Interlock meters responses over plain HTTP: send a POST, with or without \"stream\": true.");
    }
    if (request.method != known->method) {
        return refuse(405, fmt::format("The method of {} is {}, not {}.", stripped.path, net::name_of(known->method),
                                       net::name_of(request.method)));
    }

    if (!request.body.empty() && !net::defines_body(request.method)) {
        return refuse(400, fmt::format("A {} has no body: an upstream could take it for a second request.",
                                       net::name_of(request.method)));
    }

    ModelRoute route{.format = dialect,
                     .operation = known->operation,
                     .target = stripped.path,
                     .model = known->model,
                     .stream = known->stream,
                     .run = stripped.run};
    std::string key;
    if (const std::string query = without_keys(request.query, key); !query.empty()) {
        route.target.append("?").append(query);
    }
    // A link with a key in it is a request that a web page can have a user's browser make.
    if (dialect == ApiFormat::gemini || request.method == net::Method::post) route.key_in_query = std::move(key);
    return {.route = std::move(route)};
}

}  // namespace
}  // namespace interlock::gateway
