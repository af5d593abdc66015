#include "shim/adapters.h"

#include <algorithm>
#include <array>
#include <utility>

namespace interlock::shim {
namespace {

const std::vector<Adapter>& adapters() {
    static const std::vector<Adapter> all{
        {.name = "claude",
         .programs = {"claude"},
         .login = {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN",
                   "CLAUDE_CONFIG_DIR"},
         .dialect = "anthropic",
         .gateway_env = {"ANTHROPIC_BASE_URL={url}", "ANTHROPIC_AUTH_TOKEN={key}",
                         "ANTHROPIC_API_KEY=", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
         .gateway_arguments = {},
         .gateway_file_name = {},
         .gateway_file = {},
         .output_tokens = "CLAUDE_CODE_MAX_OUTPUT_TOKENS"},
        // It does not look at OPENAI_BASE_URL. Retries are the gateway's business: each one costs.
        {.name = "codex",
         .programs = {"codex"},
         .login = {"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"},
         .dialect = "openai",
         .gateway_env = {"INTERLOCK_API_KEY={key}"},
         // Searching at the provider has no bound that a budget could be held for.
         .gateway_arguments = {"-c", "web_search=\"disabled\"", "-c", "model_provider=interlock", "-c",
                               "model_providers.interlock={name=\"Interlock\",base_url=\"{url}/v1\","
                               "env_key=\"INTERLOCK_API_KEY\",wire_api=\"responses\",request_max_retries=0,"
                               "stream_max_retries=0}"},
         .gateway_file_name = {},
         .gateway_file = {},
         .output_tokens = {}},
        // It takes a key only if its settings choose so, and believes no settings but those under a home that can be
        // named. It runs nothing in a directory that nobody has said it may trust.
        {.name = "gemini",
         .programs = {"gemini"},
         .login = {"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT",
                   "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"},
         .dialect = "gemini",
         .gateway_env = {"GOOGLE_GEMINI_BASE_URL={url}", "GEMINI_API_KEY={key}", "GEMINI_CLI_HOME={home}/gemini",
                         "GEMINI_CLI_TRUST_WORKSPACE=true"},
         .gateway_arguments = {},
         .gateway_file_name = "gemini/.gemini/settings.json",
         .gateway_file = R"({"security":{"auth":{"selectedType":"gemini-api-key"}}})",
         .output_tokens = {}},
        {.name = "opencode",
         .programs = {"opencode"},
         .login = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_CONFIG",
                   "OPENCODE_CONFIG_DIR"},
         .dialect = "anthropic",
         .gateway_env = {"OPENCODE_CONFIG_CONTENT={\"provider\":{\"anthropic\":{\"options\":"
                         "{\"baseURL\":\"{url}/v1\",\"apiKey\":\"{key}\"}}}}"},
         .gateway_arguments = {},
         .gateway_file_name = {},
         .gateway_file = {},
         .output_tokens = {}}};
    return all;
}

using Word = std::pair<std::string_view, std::string_view>;

std::string filled(std::string_view pattern, const std::array<Word, 3>& words) {
    std::string text;
    while (!pattern.empty()) {
        const auto word =
            std::find_if(words.begin(), words.end(), [&](const Word& each) { return pattern.starts_with(each.first); });
        const bool found = word != words.end();
        text += found ? word->second : pattern.substr(0, 1);
        pattern.remove_prefix(found ? word->first.size() : 1);
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

Additions gateway_additions(const Adapter& adapter, std::string_view url, std::string_view key, std::string_view home) {
    const std::array<Word, 3> words{Word{"{url}", url}, Word{"{key}", key}, Word{"{home}", home}};
    Additions additions;
    for (const std::string_view each : adapter.gateway_env) additions.env.push_back(filled(each, words));
    for (const std::string_view each : adapter.gateway_arguments) additions.arguments.push_back(filled(each, words));
    return additions;
}

}  // namespace interlock::shim
