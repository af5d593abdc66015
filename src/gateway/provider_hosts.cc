#include "gateway/provider_hosts.h"

#include <algorithm>
#include <array>

namespace interlock::gateway {
namespace {

// The hosts, and everything below them.
constexpr std::array<std::string_view, 27> hosts{
    "api.openai.com",
    "chatgpt.com",
    "openai.azure.com",
    "cognitiveservices.azure.com",
    "services.ai.azure.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    "aiplatform.googleapis.com",
    "cloudcode-pa.googleapis.com",
    "openrouter.ai",
    "api.groq.com",
    "api.mistral.ai",
    "api.deepseek.com",
    "api.x.ai",
    "api.together.xyz",
    "api.together.ai",
    "api.fireworks.ai",
    "api.cohere.ai",
    "api.cohere.com",
    "api.perplexity.ai",
    "api.cerebras.ai",
    "api.moonshot.ai",
    "api.githubcopilot.com",
    "models.github.ai",
    "models.inference.ai.azure.com",
    "router.huggingface.co",
    "opencode.ai",
};

bool is_or_below(std::string_view host, std::string_view of) {
    return host.ends_with(of) && (host.size() == of.size() || host[host.size() - of.size() - 1] == '.');
}

// Regions come before or behind a service's name.
bool is_cloud_service(std::string_view host) {
    if (host.ends_with("-aiplatform.googleapis.com")) return true;
    const bool amazon = host.ends_with(".amazonaws.com") || host.ends_with(".api.aws");
    return amazon && (host.starts_with("bedrock") || host.find(".bedrock") != std::string_view::npos);
}

}  // namespace

bool is_provider_host(std::string_view host) {
    return is_cloud_service(host) ||
           std::ranges::any_of(hosts, [&](std::string_view each) { return is_or_below(host, each); });
}

}  // namespace interlock::gateway
