#include "shim/adapters.h"

#include <algorithm>

namespace interlock::shim {
namespace {

const std::vector<Adapter>& adapters() {
    static const std::vector<Adapter> all{
        {.name = "claude",
         .programs = {"claude"},
         .login = {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN",
                   "CLAUDE_CONFIG_DIR"},
         .gateway_env = {"ANTHROPIC_BASE_URL={url}", "ANTHROPIC_AUTH_TOKEN={key}",
                         "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
         .gateway_arguments = {}},
        // It does not look at OPENAI_BASE_URL. Retries are the gateway's business: each one costs.
        {.name = "codex",
         .programs = {"codex"},
         .login = {"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"},
         .gateway_env = {"INTERLOCK_API_KEY={key}"},
         .gateway_arguments = {"-c", "model_provider=interlock", "-c",
                               "model_providers.interlock={name=\"Interlock\",base_url=\"{url}/v1\","
                               "env_key=\"INTERLOCK_API_KEY\",wire_api=\"responses\",request_max_retries=0,"
                               "stream_max_retries=0}"}},
        // It takes a key only if its settings also choose security.auth.selectedType "gemini-api-key".
        {.name = "gemini",
         .programs = {"gemini"},
         .login = {"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT",
                   "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"},
         .gateway_env = {"GOOGLE_GEMINI_BASE_URL={url}", "GEMINI_API_KEY={key}"},
         .gateway_arguments = {}},
        {.name = "opencode",
         .programs = {"opencode"},
         .login = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_CONFIG",
                   "OPENCODE_CONFIG_DIR"},
         .gateway_env = {"OPENCODE_CONFIG_CONTENT={\"provider\":{\"anthropic\":{\"options\":"
                         "{\"baseURL\":\"{url}/v1\",\"apiKey\":\"{key}\"}}}}"},
         .gateway_arguments = {}}};
    return all;
}

std::string filled(std::string_view pattern, std::string_view url, std::string_view key) {
    std::string text;
    while (!pattern.empty()) {
        if (pattern.starts_with("{url}") || pattern.starts_with("{key}")) {
            text += pattern.starts_with("{url}") ? url : key;
            pattern.remove_prefix(5);
        } else {
            text += pattern.front();
            pattern.remove_prefix(1);
        }
    }
    return text;
}

}  // namespace

const Adapter* find_adapter(std::string_view name, std::string_view program) {
    program.remove_prefix(program.rfind('/') + 1);  // npos + 1 is 0.
    for (const Adapter& adapter : adapters()) {
        const auto& programs = adapter.programs;
        const bool by_program = name.empty() && std::find(programs.begin(), programs.end(), program) != programs.end();
        if (by_program || adapter.name == name) return &adapter;
    }
    return nullptr;
}

Additions gateway_additions(const Adapter& adapter, std::string_view url, std::string_view key) {
    Additions additions;
    for (const std::string_view each : adapter.gateway_env) additions.env.push_back(filled(each, url, key));
    for (const std::string_view each : adapter.gateway_arguments) additions.arguments.push_back(filled(each, url, key));
    return additions;
}

}  // namespace interlock::shim
