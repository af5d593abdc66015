// The members of OpenAI's requests: chat completions and responses.
#include "gateway/call_request_reader.h"

namespace interlock::gateway {

void CallRequestReader::chat_member(std::string_view key) {
    if (key == "messages") {
        messages(key);
    } else if (key == "max_tokens") {
        output_max("max_tokens");
    } else if (key == "max_completion_tokens") {
        output_max("max_completion_tokens");
    } else if (key == "stream_options") {
        stream_options();
    } else if (key == "n") {
        request_.choices = whole(key, 1).value_or(1);
    } else if (key == "prediction") {
        request_.prediction_bytes = static_cast<std::int64_t>(json_.skip().size());
    } else if (key == "modalities") {
        response_modalities();
    } else if (key == "tools") {
        openai_tools();
    } else if (key == "web_search_options" || key == "plugins") {
        server_tools_ = server_tools_ || json_.kind() != JsonKind::null;
        look(key);
    } else if (key == "search_parameters") {
        search_parameters();
    } else if (key == "enable_search") {
        if (!null_or_absent()) server_tools_ = json_.boolean().value_or(true) || server_tools_;
    } else {
        shared_openai_member(key);
    }
}

void CallRequestReader::responses_member(std::string_view key) {
    if (key == "input") {
        messages(key);
    } else if (key == "max_output_tokens") {
        output_max("max_output_tokens");
    } else if (key == "max_tool_calls") {
        request_.tool_calls_max_at = member_at();
        tool_calls_max_ = whole(key, 0);
        request_.tool_calls_max_at.value.end = json_.at();
    } else if (key == "background") {
        flag(key, request_.background);
    } else if (key == "previous_response_id" || key == "conversation" || key == "prompt") {
        elsewhere();
    } else if (key == "tools") {
        openai_tools();
    } else {
        shared_openai_member(key);
    }
}

void CallRequestReader::shared_openai_member(std::string_view key) {
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

void CallRequestReader::stream_options() {
    request_.stream_options_at = member_at();
    if (json_.kind() == JsonKind::object) {
        json_.each_member([&](std::string_view key) {
            if (key != "include_usage") return;
            request_.include_usage_at = member_at();
            flag(key, request_.wants_usage);
            request_.include_usage_at.value.end = json_.at();
        });
    } else if (!null_or_absent()) {
        refuse("`stream_options` must be an object.");
    }
    request_.stream_options_at.value.end = json_.at();
}

namespace {

// Whether the provider runs such a tool itself, and the model again with what came of it.
bool runs_at_the_provider(std::string_view type) {
    for (const std::string_view clients : {"function", "custom", "local_shell", "apply_patch", "namespace"}) {
        if (type == clients) return false;
    }
    return true;
}

}  // namespace

// Searches of xAI, billed by the source.
void CallRequestReader::search_parameters() {
    if (null_or_absent()) return;
    bool is_off = false;
    if (json_.kind() != JsonKind::object) return look("search_parameters");
    json_.each_member([&](std::string_view key) {
        if (key == "mode")
            is_off = word() == "off";
        else
            look(key);
    });
    server_tools_ = server_tools_ || !is_off;
}

void CallRequestReader::openai_tools() {
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

}  // namespace interlock::gateway
