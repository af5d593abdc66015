// The few changes that metering makes to a body: text is spliced, nothing is written anew.
#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/ensure.h"
#include "gateway/ask.h"

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

void put_output_max(std::vector<Splice>& splices, const Route& route, std::string_view body, const Ask& ask,
                    std::int64_t tokens) {
    const std::size_t brace = body.find('{');
    if (!ask.output_max_at.empty()) {
        splices.push_back({.at = ask.output_max_at, .text = std::to_string(tokens)});
    } else if (route.operation == Operation::generate) {
        const std::string member = fmt::format("\"maxOutputTokens\":{}", tokens);
        const Span config = ask.generation_config_at;
        if (config.empty()) {
            splices.push_back(first_member(body, brace, fmt::format("\"generationConfig\":{{{}}}", member)));
        } else if (is_null(body, config)) {
            splices.push_back({.at = config, .text = fmt::format("{{{}}}", member)});
        } else {
            splices.push_back(first_member(body, config.begin, member));
        }
    } else if (route.operation == Operation::chat || route.operation == Operation::responses) {
        const std::string_view name =
            route.operation == Operation::chat ? "max_completion_tokens" : "max_output_tokens";
        splices.push_back(first_member(body, brace, fmt::format("\"{}\":{}", name, tokens)));
    }
    if (!ask.thinking_budget_at.empty() && ask.thinking_budget >= tokens && tokens > 1) {
        splices.push_back({.at = ask.thinking_budget_at, .text = std::to_string(tokens - 1)});
    }
}

void put_include_usage(std::vector<Splice>& splices, std::string_view body, const Ask& ask) {
    constexpr std::string_view member = "\"include_usage\":true";
    const Span options = ask.stream_options_at;
    if (!ask.include_usage_at.empty()) {
        splices.push_back({.at = ask.include_usage_at, .text = "true"});
    } else if (options.empty()) {
        splices.push_back(first_member(body, body.find('{'), fmt::format("\"stream_options\":{{{}}}", member)));
    } else if (is_null(body, options)) {
        splices.push_back({.at = options, .text = fmt::format("{{{}}}", member)});
    } else {
        splices.push_back(first_member(body, options.begin, std::string(member)));
    }
}

// In the order of their places. Two members that are put first into one object want a comma between them: the one that
// comes earlier in the text has another member behind it, also where the object was empty.
std::string spliced(std::string_view body, std::vector<Splice> splices) {
    std::ranges::sort(splices, {}, [](const Splice& splice) { return splice.at.begin; });
    std::string text;
    text.reserve(body.size() + 128);
    std::size_t at = 0;
    for (std::size_t i = 0; i < splices.size(); ++i) {
        const Splice& splice = splices[i];
        ensure(splice.at.begin >= at && splice.at.end <= body.size(), "splices do not overlap");
        text.append(body.substr(at, splice.at.begin - at)).append(splice.text);
        const bool same_place = i + 1 < splices.size() && splices[i + 1].at.begin == splice.at.begin;
        if (same_place && !text.ends_with(',')) text.push_back(',');
        at = splice.at.end;
    }
    return text.append(body.substr(at));
}

}  // namespace

std::string edited(const Route& route, std::string_view body, const Ask& ask, const Edits& edits) {
    std::vector<Splice> splices;
    if (edits.model && !ask.model_at.empty()) {
        splices.push_back({.at = ask.model_at, .text = boost::json::serialize(boost::json::string(*edits.model))});
    }
    if (edits.output_max) put_output_max(splices, route, body, ask, *edits.output_max);
    if (edits.include_usage && route.operation == Operation::chat && !ask.wants_usage) {
        put_include_usage(splices, body, ask);
    }
    return splices.empty() ? std::string(body) : spliced(body, std::move(splices));
}

std::string edited_target(const Route& route, const std::string& model) {
    constexpr std::string_view folder = "/models/";
    const std::string& target = route.target;
    const std::size_t path_end = std::min(target.find('?'), target.size());
    const std::size_t begin = target.find(folder);
    if (route.model.empty() || begin == std::string::npos || begin > path_end) return target;

    // The model ends at the last colon, which may be encoded; a model's description has none.
    const std::string_view path = std::string_view(target).substr(0, path_end);
    std::size_t end = path_end;
    if (route.dialect == Dialect::gemini && route.operation != Operation::models) {
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
