// The few changes that metering makes to a body: text is spliced, nothing is written anew.
#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/ensure.h"
#include "gateway/call_request.h"

namespace interlock::gateway {
namespace {

struct Splice {
    Span at;  // What goes; empty: nothing does, and the text is put before at.begin.
    std::string text;
};

bool is_null(std::string_view body, Span value) { return body[value.begin] == 'n'; }

// Puts a member first into the object that begins at `brace`.
Splice first_member(std::string_view body, std::size_t brace, std::string member) {
    const std::size_t next = body.find_first_not_of(" \t\r\n", brace + 1);
    if (body[next] != '}') member.push_back(',');
    return {.at = {.begin = brace + 1, .end = brace + 1}, .text = std::move(member)};
}

// The one way to set a member: it replaces name and value where the object has the member, under any spelling and
// with any value, and is put first where the object has none. No reader then finds two.
void set_member(std::vector<Splice>& splices, std::string_view body, std::size_t brace, const MemberAt& at,
                std::string_view name, std::string_view value) {
    if (at.empty()) return splices.push_back(first_member(body, brace, fmt::format("\"{}\":{}", name, value)));
    splices.push_back({.at = at.name, .text = fmt::format("\"{}\"", name)});
    splices.push_back({.at = at.value, .text = std::string(value)});
}

// Takes a member out that is not the only one of its object, with one of the commas beside it.
void remove_member(std::vector<Splice>& splices, std::string_view body, const MemberAt& at) {
    if (at.empty()) return;
    Span all{.begin = at.name.begin, .end = at.value.end};
    const std::size_t behind = body.find_first_not_of(" \t\r\n", all.end);
    if (body[behind] == ',') {
        all.end = behind + 1;
    } else {
        all.begin = body.rfind(',', all.begin);
    }
    splices.push_back({.at = all, .text = {}});
}

void put_output_max(std::vector<Splice>& splices, const ModelRoute& route, std::string_view body,
                    const CallRequest& request, const Edits& edits) {
    const std::size_t brace = body.find('{');
    const std::string tokens = std::to_string(*edits.output_max);
    const auto put = [&](std::size_t in, std::string_view name) {
        set_member(splices, body, in, request.output_max_at, name, tokens);
        remove_member(splices, body, request.output_max_2_at);
    };
    switch (route.operation) {
        case Operation::chat:
            put(brace, edits.limit_name);
            break;
        case Operation::responses:
            put(brace, "max_output_tokens");
            break;
        case Operation::messages:
            put(brace, "max_tokens");
            break;
        case Operation::generate: {
            const std::string config = fmt::format("{{\"maxOutputTokens\":{}}}", tokens);
            const MemberAt& at = request.generation_config_at;
            if (at.empty() || is_null(body, at.value)) {
                set_member(splices, body, brace, at, "generationConfig", config);
            } else {
                put(at.value.begin, "maxOutputTokens");
            }
            break;
        }
        case Operation::embeddings:
        case Operation::count_tokens:
        case Operation::models:
            return;
    }
    const bool lowered = edits.output_max != request.output_max;
    if (lowered && !request.thinking_budget_at.empty() && request.thinking_budget >= *edits.output_max &&
        *edits.output_max > 1) {
        splices.push_back({.at = request.thinking_budget_at, .text = std::to_string(*edits.output_max - 1)});
    }
}

void put_include_usage(std::vector<Splice>& splices, std::string_view body, const CallRequest& request) {
    const MemberAt& options = request.stream_options_at;
    if (options.empty() || is_null(body, options.value)) {
        set_member(splices, body, body.find('{'), options, "stream_options", R"({"include_usage":true})");
    } else {
        set_member(splices, body, options.value.begin, request.include_usage_at, "include_usage", "true");
    }
}

// In the order of their places. Two members that are put first into one object want a comma between them: the one that
// comes earlier in the text has another member behind it, also where the object was empty.
std::string spliced(std::string_view body, std::vector<Splice> splices) {
    std::ranges::sort(splices, {}, [](const Splice& splice) { return std::pair(splice.at.begin, splice.at.end); });
    std::string text;
    text.reserve(body.size() + 128);
    std::size_t at = 0;
    for (std::size_t i = 0; i < splices.size(); ++i) {
        const Splice& splice = splices[i];
        ensure(splice.at.begin >= at && splice.at.end <= body.size(), "splices do not overlap");
        text.append(body.substr(at, splice.at.begin - at)).append(splice.text);
        const bool same_place = splice.at.empty() && i + 1 < splices.size() && splices[i + 1].at.empty() &&
                                splices[i + 1].at.begin == splice.at.begin;
        if (same_place && !text.ends_with(',')) text.push_back(',');
        at = splice.at.end;
    }
    return text.append(body.substr(at));
}

}  // namespace

std::string edited(const ModelRoute& route, std::string_view body, const CallRequest& request, const Edits& edits) {
    std::vector<Splice> splices;
    if (edits.model && !request.model_at.empty()) {
        splices.push_back({.at = request.model_at, .text = boost::json::serialize(boost::json::string(*edits.model))});
    }
    if (edits.output_max) put_output_max(splices, route, body, request, edits);
    if (edits.tool_calls_max && route.operation == Operation::responses) {
        set_member(splices, body, body.find('{'), request.tool_calls_max_at, "max_tool_calls",
                   std::to_string(*edits.tool_calls_max));
    }
    if (edits.tool_uses_max) {
        for (const ToolAt& tool : request.unbounded_tools_at) {
            set_member(splices, body, tool.brace, tool.max_uses, "max_uses", std::to_string(*edits.tool_uses_max));
        }
    }
    if (edits.include_usage && route.operation == Operation::chat && !request.wants_usage) {
        put_include_usage(splices, body, request);
    }
    return splices.empty() ? std::string(body) : spliced(body, std::move(splices));
}

std::string edited_target(const ModelRoute& route, const std::string& model) {
    constexpr std::string_view folder = "/models/";
    const std::string& target = route.target;
    const std::size_t path_end = std::min(target.find('?'), target.size());
    const std::size_t begin = target.find(folder);
    if (route.model.empty() || begin == std::string::npos || begin > path_end) return target;

    // The model ends at the last colon, which may be encoded; a model's description has none.
    const std::string_view path = std::string_view(target).substr(0, path_end);
    std::size_t end = path_end;
    if (route.format == ApiFormat::gemini && route.operation != Operation::models) {
        for (const std::string_view colon : {":", "%3A", "%3a"}) {
            const std::size_t found = path.rfind(colon);
            if (found != std::string_view::npos && (end == path_end || found > end)) end = found;
        }
    }
    std::string edited = target.substr(0, begin + folder.size());
    for (const char c : model) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           std::string_view("-._~/").find(c) != std::string_view::npos;
        if (plain)
            edited.push_back(c);
        else
            edited.append(fmt::format("%{:02X}", static_cast<unsigned char>(c)));
    }
    return edited.append(target.substr(end));
}

}  // namespace interlock::gateway
