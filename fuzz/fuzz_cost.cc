// Searches for requests that cost more than they are held at, in every dialect: one request, or two of which the second
// may begin with what a provider has counted of the first.
//
// An input is the API's letter (c, r, m, g; e for anything else) and a body, or two bodies with a zero byte between
// them. The provider here reads what is sent with another library: one token for each byte of text, all output that the
// limit allows, every use of a tool that its bound allows, and messages cleared where it is asked to.
#include <algorithm>
#include <boost/json.hpp>

#include "base/ensure.h"
#include "fuzz/routes.h"
#include "gateway/call_bound.h"
#include "gateway/prefix_token_cache.h"

namespace {

using namespace interlock;
using namespace interlock::gateway;
namespace json = boost::json;

constexpr std::int64_t image_tokens = 5'000;
constexpr std::int64_t model_takes = 1'000'000;
constexpr std::string_view limit_name = "max_tokens";

// ---- the provider ---------------------------------------------------------------------------------------------------

std::int64_t number_or(const json::object& object, std::string_view name, std::int64_t otherwise) {
    const json::value* found = object.if_contains(name);
    return found != nullptr && found->is_int64() ? found->get_int64() : otherwise;
}

std::string_view text_or(const json::object& object, std::string_view name, std::string_view otherwise) {
    const json::value* found = object.if_contains(name);
    return found != nullptr && found->is_string() ? std::string_view(found->get_string()) : otherwise;
}

bool is_image(const json::object& part) {
    const std::string_view type = text_or(part, "type", "");
    return type == "image" || type == "image_url" || type == "input_image";
}

// What a model reads of a value as text. Names of members count; files and pictures that stand in the body do not.
std::int64_t text_tokens(std::string_view name, const json::value& value) {
    if (const auto* text = value.if_string()) {
        const bool is_file = name == "data" || name == "file_data" ||
                             ((name == "url" || name == "image_url") && text->starts_with("data:"));
        return is_file ? 0 : static_cast<std::int64_t>(text->size());
    }
    std::int64_t sum = 1;
    if (const auto* array = value.if_array()) {
        for (const json::value& each : *array) sum += text_tokens(name, each);
    } else if (const auto* object = value.if_object()) {
        for (const auto& member : *object)
            sum += static_cast<std::int64_t>(member.key().size()) + text_tokens(member.key(), member.value());
    }
    return sum;
}

// Pictures are parts of what a message says.
std::int64_t message_tokens(const json::value& message) {
    const auto* object = message.if_object();
    const json::value* content = object == nullptr ? nullptr : object->if_contains("content");
    const auto* parts = content == nullptr ? nullptr : content->if_array();
    if (parts == nullptr) return text_tokens("", message);
    std::int64_t sum = 0;
    for (const json::value& part : *parts) {
        const bool pictured = part.is_object() && is_image(part.get_object());
        sum += pictured ? image_tokens : text_tokens("", part);
    }
    return sum;
}

std::string_view messages_name(Operation operation) {
    return operation == Operation::responses ? "input" : operation == Operation::generate ? "contents" : "messages";
}

// Clears all but the last message where the request asks for it, under any name.
std::int64_t prompt_tokens(Operation operation, const json::object& body) {
    const bool clears =
        body.contains("context_management") || text_or(body, "truncation", "") == "auto" || body.contains("transforms");
    std::int64_t sum = 0;
    for (const auto& member : body) {
        const auto* list = member.value().if_array();
        if (std::string_view(member.key()) != messages_name(operation) || list == nullptr) {
            sum += text_tokens(member.key(), member.value());
            continue;
        }
        for (auto message = list->begin(); message != list->end(); ++message) {
            if (!clears || message + 1 == list->end()) sum += message_tokens(*message);
        }
    }
    return std::min(sum, model_takes);
}

// Of each choice. No limit that it knows: a million.
std::int64_t output_allowed(Operation operation, const json::object& body) {
    constexpr std::int64_t no_limit = 1'000'000'000;
    switch (operation) {
        case Operation::chat:
            return number_or(body, limit_name, no_limit);
        case Operation::responses:
            return number_or(body, "max_output_tokens", no_limit);
        case Operation::messages:
            return number_or(body, "max_tokens", no_limit);
        case Operation::generate: {
            for (const char* name : {"generationConfig", "generation_config"}) {
                const json::value* config = body.if_contains(name);
                if (config == nullptr || !config->is_object()) continue;
                return number_or(config->get_object(), "maxOutputTokens",
                                 number_or(config->get_object(), "max_output_tokens", no_limit));
            }
            return no_limit;
        }
        default:
            return 0;
    }
}

std::int64_t choices(Operation operation, const json::object& body) {
    if (operation == Operation::chat) return number_or(body, "n", 1);
    if (operation != Operation::generate) return 1;
    for (const char* name : {"generationConfig", "generation_config"}) {
        const json::value* config = body.if_contains(name);
        if (config == nullptr || !config->is_object()) continue;
        return number_or(config->get_object(), "candidateCount", number_or(config->get_object(), "candidate_count", 1));
    }
    return 1;
}

// Uses of tools that run here, as far as a bound allows them; nothing that bounds them: very many.
std::int64_t tool_uses(Operation operation, const json::object& body) {
    constexpr std::int64_t no_bound = 1'000'000;
    const json::value* tools = body.if_contains("tools");
    const auto* list = tools == nullptr ? nullptr : tools->if_array();
    if (list == nullptr) return 0;
    std::int64_t uses = 0;
    for (const json::value& each : *list) {
        const auto* tool = each.if_object();
        if (tool == nullptr) continue;
        const std::string_view type = text_or(*tool, "type", "");
        if (operation == Operation::responses && (type == "web_search" || type == "image_generation")) {
            return number_or(body, "max_tool_calls", no_bound);
        }
        if (operation == Operation::messages && (type.starts_with("web_search_") || type.starts_with("web_fetch_"))) {
            uses += number_or(*tool, "max_uses", no_bound);
        }
        if (operation == Operation::generate && tool->contains("googleSearch") && !tool->at("googleSearch").is_null()) {
            uses = no_bound;
        }
    }
    return uses;
}

// ---- what must hold -------------------------------------------------------------------------------------------------

struct Call {
    std::string body;
    CallRequest request;
    json::object sent;
};

const GatewaySettings& settings() {
    static const GatewaySettings some{.image_tokens_max = image_tokens};
    return some;
}

const ModelPrice& price() {
    static const ModelPrice some{.provider = "openai",
                                 .model = "m",
                                 .version = "1",
                                 .tiers = {{0, {.input = 1, .output = 1, .image_output = 1, .per_image = 1}}},
                                 .input_max = model_takes};
    return some;
}

std::optional<Call> read_call(const ModelRoute& route, std::string body) {
    auto request = read_call_request(route, body);
    constexpr std::int64_t rounds_max = 1'000;
    if (!request || request->choices > 128 || request->rounds > rounds_max ||
        request->unbounded_tools_at.size() > 100) {
        return std::nullopt;
    }
    const CallBound bound = bound_of(*request, &price(), settings(), std::nullopt);
    Edits edits{.limit_name = std::string(limit_name)};
    if (bound.output_max > 0) edits.output_max = bound.output_max;
    if (request->rounds_unbounded) edits.tool_calls_max = edits.tool_uses_max = settings().tool_rounds_max;
    const std::string sent = edited(route, body, *request, edits);
    ensure(read_call_request(route, sent).has_value(), "what is sent passes the rules that clients are asked to keep");
    json::parse_options options;
    options.max_depth = 1'000;
    json::value parsed = json::parse(sent, {}, options);
    return Call{std::move(body), std::move(*request), std::move(parsed.as_object())};
}

void check(const ModelRoute& route, const Call& call, const std::optional<KnownPrefix>& known) {
    const Operation operation = route.operation;
    const CallBound bound = bound_of(call.request, &price(), settings(), known);
    const std::int64_t output = output_allowed(operation, call.sent) * choices(operation, call.sent);
    const std::int64_t uses = tool_uses(operation, call.sent);
    ensure(output <= bound.at_most.output, "the output that is allowed is held");
    ensure(prompt_tokens(operation, call.sent) <= bound.at_most.input, "the input is held");
    if (why_unbounded(route.dialect(), call.request, &price(), "openai")) return;
    ensure(uses <= bound.at_most.paid_tools, "the tools that are allowed are held");
    ensure(uses == 0 || (1 + uses) * model_takes <= bound.at_most.input, "each round reads all that the model takes");
}

// What the provider's count of the first request is worth for the second.
std::optional<KnownPrefix> known_of(const ModelRoute& route, const Call& first, const Call& second) {
    if (!is_prefix_cacheable(first.request, first.body) || !is_prefix_cacheable(second.request, second.body))
        return std::nullopt;
    const auto members = [](const Call& call) {
        std::vector<std::string> texts;
        for (const Span span : call.request.prompt_members)
            texts.push_back(call.body.substr(span.begin, span.end - span.begin));
        return texts;
    };
    if (members(first) != members(second)) return std::nullopt;
    const Hash128 name = prefixes_of(first.request, first.body).back();
    const auto names = prefixes_of(second.request, second.body);
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return KnownPrefix{.counted = second.request.counted[static_cast<std::size_t>(found - names.begin())],
                       .prompt_tokens = prompt_tokens(route.operation, first.sent)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const ModelRoute route = route_for(static_cast<char>(data[0]));
    if (route.operation == Operation::embeddings) return 0;
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const std::size_t half = text.find('\0');
    const auto first = read_call(route, text.substr(0, half));
    if (!first) return 0;
    check(route, *first, std::nullopt);
    if (half == std::string::npos) return 0;
    const auto second = read_call(route, text.substr(half + 1));
    if (second) check(route, *second, known_of(route, *first, *second));
    return 0;
}
