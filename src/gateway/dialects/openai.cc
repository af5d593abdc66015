#include "gateway/dialects/openai.h"

#include <algorithm>
#include <array>

#include <boost/json.hpp>

namespace interlock::gateway {
namespace {

// A provider that speaks OpenAI's API, as the price catalog calls it.
struct OpenAiProvider {
    std::string_view name;
    std::string_view host = {};  // Empty: not known by its host.
    // Most know the older name of a chat's limit, and pass over a name that they do not know.
    std::string_view limit_name = "max_tokens";
    bool keeps_max_tool_calls = false;
};
constexpr std::string_view newer_limit = "max_completion_tokens";
constexpr std::array<OpenAiProvider, 12> providers{{
    {.name = "openai", .limit_name = newer_limit, .keeps_max_tool_calls = true},
    {.name = "azure", .limit_name = newer_limit, .keeps_max_tool_calls = true},
    {.name = "sim", .limit_name = newer_limit, .keeps_max_tool_calls = true},
    {.name = "openrouter", .host = "openrouter.ai"},
    {.name = "groq", .host = "api.groq.com", .limit_name = newer_limit},
    {.name = "mistral", .host = "api.mistral.ai"},
    {.name = "deepseek", .host = "api.deepseek.com"},
    {.name = "x-ai", .host = "api.x.ai", .limit_name = newer_limit},
    {.name = "together", .host = "api.together.xyz"},
    {.name = "fireworks", .host = "api.fireworks.ai"},
    {.name = "cohere", .host = "api.cohere.ai"},
    {.name = "cerebras", .limit_name = newer_limit},
}};
constexpr OpenAiProvider other_provider{.name = {}};

const OpenAiProvider& provider_named(std::string_view name) {
    const auto found = std::ranges::find(providers, name, &OpenAiProvider::name);
    return found == providers.end() ? other_provider : *found;
}

std::string_view error_type(RefusalKind kind) {
    switch (kind) {
        case RefusalKind::bad_request:
        case RefusalKind::unauthorized:
        case RefusalKind::not_found:
            return "invalid_request_error";
        case RefusalKind::budget:
            return "insufficient_quota";
        case RefusalKind::rate_limited:
            return "rate_limit_error";
        case RefusalKind::internal:
        case RefusalKind::upstream_failed:
        case RefusalKind::busy:
        case RefusalKind::upstream_timeout:
            break;
    }
    return "server_error";
}

// Whether the provider runs such a tool itself, and the model again with what came of it.
bool runs_at_the_provider(std::string_view type) {
    for (const std::string_view clients : {"function", "custom", "local_shell", "apply_patch", "namespace"}) {
        if (type == clients) return false;
    }
    return true;
}

}  // namespace

// ---- the dialect ----------------------------------------------------------------------------------------------------

// Clients are given a base address with or without its version.
std::string OpenAiDialect::versioned(std::string_view path) const {
    const bool has_version = path == "/v1" || path.starts_with("/v1/");
    return has_version ? std::string(path) : "/v1" + std::string(path);
}

std::string_view OpenAiDialect::listed_paths() const {
    return "POST /v1/chat/completions, POST /v1/responses and POST /v1/embeddings are metered, and GET /v1/models is "
           "free";
}

net::Header OpenAiDialect::key_header(std::string_view key) const {
    return {"authorization", "Bearer " + std::string(key)};
}

std::string OpenAiDialect::error_body(const ErrorFacts& error) const {
    namespace json = boost::json;
    return json::serialize(json::object{{"error", json::object{{"message", error.message},
                                                               {"type", error_type(error.kind)},
                                                               {"param", nullptr},
                                                               {"code", to_text(error.code)}}}});
}

ProviderHome OpenAiDialect::home() const {
    return {.provider = "openai", .host = "api.openai.com", .version_path = "/v1"};
}

std::string_view OpenAiDialect::provider_at(std::string_view host) const {
    const auto found = std::ranges::find(providers, host, &OpenAiProvider::host);
    return found == providers.end() || host.empty() ? std::string_view() : found->name;
}

std::string_view chat_limit_name(std::string_view provider) { return provider_named(provider).limit_name; }

bool keeps_max_tool_calls(std::string_view provider) { return provider_named(provider).keeps_max_tool_calls; }

// ---- requests -------------------------------------------------------------------------------------------------------

void OpenAiRequestReader::shared_member(std::string_view key) {
    if (key == "stream") {
        flag(key, request_.stream);
    } else if (key == "service_tier") {
        request_.service_tier = word();
    } else if (key == "prompt_cache_key") {
        if (const std::string_view name = word(); !name.empty()) request_.user = name;
    } else if (key == "user") {
        if (const std::string_view name = word(); request_.user.empty()) request_.user = name;
    } else if (is_opaque(key)) {
        json_.skip();
    } else if (!is_for_a_router(key)) {
        look(key);
    }
}

void OpenAiRequestReader::tools() {
    if (json_.kind() != JsonKind::array) return look("tools");
    json_.each_element([&] {
        if (json_.kind() != JsonKind::object) return look("tools");
        std::string type;
        bool is_typed = false, is_named = false;
        json_.each_member([&](std::string_view key) {
            is_named = is_named || key == "function" || key == "name";
            if (key == "type") {
                is_typed = true;
                type = word();
            } else if (is_opaque(key)) {
                json_.skip();
            } else {
                look(key);
            }
        });
        if (!is_typed && is_named) type = "function";
        server_tools_ = server_tools_ || runs_at_the_provider(type);
        request_.image_tool = request_.image_tool || type == "image_generation";
    });
}

// ---- answers --------------------------------------------------------------------------------------------------------

void OpenAiUsageReader::usage(JsonReader& json) {
    if (json.kind() != JsonKind::object) return;
    std::optional<std::int64_t> prompt, completion, total;
    std::int64_t cached = 0, written = 0, audio_in = 0, reasoning = 0, audio_out = 0, image_out = 0;
    json.each_member([&](std::string_view key) {
        if (key == "prompt_tokens" || key == "input_tokens") {
            prompt = tokens(json);
        } else if (key == "completion_tokens" || key == "output_tokens") {
            completion = tokens(json);
        } else if (key == "total_tokens") {
            total = tokens(json);
        } else if (key == "cost" && json.kind() == JsonKind::number) {
            stated_cost(json);
        } else if (key == "prompt_tokens_details" || key == "input_tokens_details") {
            each_member(json, [&](std::string_view detail) {
                if (detail == "cached_tokens")
                    cached = tokens(json).value_or(0);
                else if (detail == "cache_write_tokens" || detail == "cache_creation_tokens")
                    written = tokens(json).value_or(0);
                else if (detail == "audio_tokens")
                    audio_in = tokens(json).value_or(0);
            });
        } else if (key == "completion_tokens_details" || key == "output_tokens_details") {
            each_member(json, [&](std::string_view detail) {
                if (detail == "reasoning_tokens")
                    reasoning = tokens(json).value_or(0);
                else if (detail == "audio_tokens")
                    audio_out = tokens(json).value_or(0);
                else if (detail == "image_tokens")
                    image_out = tokens(json).value_or(0);
            });
        } else if (key == "num_sources_used") {
            metered_.paid_tools = tokens(json).value_or(0);
        }
    });
    if (!prompt) return;
    set_input(*prompt, cached, written, audio_in);
    if (states_input_only()) completion = completion.value_or(0);
    if (!completion) return;
    // Some who speak this dialect count reasoning beside the completion and not within it; their total says so.
    const bool beside = reasoning > 0 && total == *prompt + *completion + reasoning;
    set_output(*completion + (beside ? reasoning : 0), reasoning, audio_out, image_out);
    metered_.reported = true;
}

}  // namespace interlock::gateway
