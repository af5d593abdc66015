// The members of Anthropic's requests.
#include "gateway/call_request_reader.h"

namespace interlock::gateway {

void CallRequestReader::messages_member(std::string_view key) {
    if (key == "messages") {
        messages(key);
    } else if (key == "max_tokens") {
        output_max("max_tokens");
    } else if (key == "stream") {
        flag(key, request_.stream);
    } else if (key == "cache_control") {
        cache_control();
    } else if (key == "thinking") {
        thinking();
    } else if (key == "tools") {
        anthropic_tools();
    } else if (key == "mcp_servers") {
        bool any = false;
        if (json_.kind() == JsonKind::array)
            json_.each_element([&] { any = true; });
        else
            any = !null_or_absent();
        if (any) loops_at_the_provider();
    } else if (key == "container") {
        elsewhere();
    } else if (key == "service_tier") {
        if (const std::string_view tier = word(); request_.service_tier.empty()) request_.service_tier = tier;
    } else if (key == "speed") {
        // A dearer way to run the same model; "standard" is what everybody gets.
        if (const std::string_view speed = word(); !speed.empty() && speed != "standard") request_.service_tier = speed;
    } else if (key == "inference_geo") {
        if (const std::string_view geo = word(); !geo.empty() && geo != "global") inference_geo_ = geo;
    } else if (key == "metadata" && json_.kind() == JsonKind::object) {
        json_.each_member([&](std::string_view name) {
            if (name == "user_id") request_.user = word();
        });
    } else if (!is_for_a_router(key)) {
        look(key);
    }
}

void CallRequestReader::thinking() {
    if (json_.kind() != JsonKind::object) return look("thinking");
    json_.each_member([&](std::string_view key) {
        if (key != "budget_tokens") return look(key);
        const std::size_t begin = json_.at();
        const auto tokens = whole("thinking.budget_tokens", 1);
        if (!tokens) return;
        request_.thinking_budget = *tokens;
        request_.thinking_budget_at = {.begin = begin, .end = json_.at()};
    });
}

namespace {

// Clients run these themselves; everything else with a type runs at the provider.
bool runs_at_the_client(std::string_view type) {
    for (const std::string_view clients : {"text_editor_", "bash_", "computer_", "memory_"}) {
        if (type.starts_with(clients)) return true;
    }
    return type.empty() || type == "custom" || type == "function";
}

bool knows_max_uses(std::string_view type) { return type.starts_with("web_search_") || type.starts_with("web_fetch_"); }

}  // namespace

void CallRequestReader::anthropic_tools() {
    if (json_.kind() != JsonKind::array) return look("tools");
    json_.each_element([&] {
        if (json_.kind() != JsonKind::object) return look("tools");
        std::string type;
        std::optional<std::int64_t> uses;
        ToolAt tool{.brace = json_.at()};
        json_.each_member([&](std::string_view key) {
            if (key == "type") {
                type = word();
            } else if (key == "max_uses") {
                tool.max_uses = member_at();
                uses = whole(key, 0);
                tool.max_uses.value.end = json_.at();
            } else if (key == "cache_control") {
                cache_control();
            } else if (is_opaque(key)) {
                json_.skip();
            } else {
                look(key);
            }
        });
        if (runs_at_the_client(type)) return;
        request_.rounds += uses.value_or(0);
        request_.paid_tools_max += uses.value_or(0);
        if (uses) return;
        if (!knows_max_uses(type)) return loops_at_the_provider();
        request_.rounds_unbounded = true;
        request_.unbounded_tools_at.push_back(tool);
    });
}

// Anthropic runs tools in a loop of its own, which it leaves after ten rounds with the reason `pause_turn`.
void CallRequestReader::loops_at_the_provider() {
    request_.rounds_unbounded = true;
    request_.rounds_by_provider = 10;
}

}  // namespace interlock::gateway
