// The members of Gemini's requests. Each name may be written in two ways, generationConfig and generation_config; a
// body that writes both is refused, because it is not known which one would count.
#include <fmt/format.h>

#include "gateway/call_request_reader.h"

namespace interlock::gateway {

void CallRequestReader::generate_member(std::string_view key) {
    if (key == "contents") {
        messages(key);
    } else if (key == "generationConfig" || key == "generation_config") {
        generation_config(key);
    } else if (key == "tools") {
        gemini_tools();
    } else if (key == "cachedContent" || key == "cached_content") {
        elsewhere();
    } else if (key == "serviceTier" || key == "service_tier") {
        request_.service_tier = word();
    } else {
        look(key);
    }
}

void CallRequestReader::generation_config(std::string_view name) {
    if (!request_.generation_config_at.empty())
        return refuse("`generationConfig` is there twice, in two ways of writing it.");
    request_.generation_config_at = member_at();
    bool choices_stated = false;
    if (json_.kind() == JsonKind::object) {
        json_.each_member([&](std::string_view key) {
            if (key == "maxOutputTokens") {
                output_max("maxOutputTokens");
            } else if (key == "max_output_tokens") {
                output_max("max_output_tokens");
            } else if (key == "candidateCount" || key == "candidate_count") {
                if (choices_stated) refuse("`candidateCount` is there twice, in two ways of writing it.");
                choices_stated = true;
                request_.choices = whole(key, 1).value_or(1);
            } else if (key == "responseModalities" || key == "response_modalities") {
                response_modalities();
            } else if (is_opaque(key)) {
                json_.skip();
            } else {
                look(key);
            }
        });
    } else if (!null_or_absent()) {
        refuse(fmt::format("`{}` must be an object.", name));
    }
    request_.generation_config_at.value.end = json_.at();
}

// Each member of a tool is a tool of its own: {"googleSearch": {}}, {"functionDeclarations": […]}.
void CallRequestReader::gemini_tools() {
    const auto one = [&] {
        if (json_.kind() != JsonKind::object) return look("tools");
        json_.each_member([&](std::string_view key) {
            const bool clients = key == "functionDeclarations" || key == "function_declarations" ||
                                 key == "computerUse" || key == "computer_use";
            server_tools_ = server_tools_ || (!clients && json_.kind() != JsonKind::null);
            if (is_opaque(key))
                json_.skip();
            else
                look(key);
        });
    };
    if (json_.kind() == JsonKind::array)
        json_.each_element(one);
    else
        one();
}

}  // namespace interlock::gateway
