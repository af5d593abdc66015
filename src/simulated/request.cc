#include "simulated/request.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

#include "simulated/script.h"

namespace interlock::simulated {
namespace {

namespace dom = simdjson::dom;
using std::string_view;

constexpr std::int64_t choices_max = 128;
constexpr std::int64_t dimensions_max = 4'096;
constexpr std::size_t inputs_max = 2'048;

std::optional<SimulatedRoute> gemini_route(const net::Request& request, string_view path);
void read_limits(const SimulatedRoute& route, const dom::element& root, SimulatedRequest& call);
void read_conversation(const dom::element& root, bool with_text, SimulatedRequest& call);
void read_embedding(const dom::element& root, SimulatedRequest& call);
std::int64_t prompt_bytes(const dom::element& root);
std::string first_tool(const dom::element& root);

std::optional<dom::element> member(const dom::element& of, string_view name) {
    dom::element found;
    if (of[name].get(found) != simdjson::SUCCESS || found.is_null()) return std::nullopt;
    return found;
}

std::optional<dom::element> member(const dom::element& of, std::initializer_list<string_view> names) {
    for (const string_view name : names) {
        if (auto found = member(of, name)) return found;
    }
    return std::nullopt;
}

string_view text_of(const std::optional<dom::element>& element) {
    string_view text;
    if (!element || element->get(text) != simdjson::SUCCESS) return {};
    return text;
}

bool is_true(const std::optional<dom::element>& element) {
    bool value = false;
    return element && element->get(value) == simdjson::SUCCESS && value;
}

std::optional<std::int64_t> number_of(const std::optional<dom::element>& element) {
    std::int64_t number = 0;
    if (!element || element->get(number) != simdjson::SUCCESS) return std::nullopt;
    return number;
}

bool take(string_view& text, string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

}  // namespace

SimulatedDialect simulated_dialect_of(const net::Request& request) {
    if (request.path.starts_with("/v1beta/")) return SimulatedDialect::gemini;
    if (request.path.starts_with("/v1/messages") || !request.header("anthropic-version").empty()) {
        return SimulatedDialect::anthropic;
    }
    return SimulatedDialect::openai;
}

std::optional<SimulatedRoute> simulated_route_of(const net::Request& request) {
    string_view path = request.path;
    if (path.starts_with("/v1beta/") || path.find(':') != string_view::npos) return gemini_route(request, path);
    take(path, "/v1");  // Some base URLs have it, some do not.
    const SimulatedDialect dialect = simulated_dialect_of(request);
    if (request.method == net::Method::get && take(path, "/models")) {
        if (!path.empty() && !take(path, "/")) return std::nullopt;
        return SimulatedRoute{.dialect = request.header("x-api-key").empty() ? dialect : SimulatedDialect::anthropic,
                              .model = std::string(path)};
    }
    if (request.method != net::Method::post) return std::nullopt;
    if (path == "/chat/completions") return SimulatedRoute{.api = SimulatedApi::chat};
    if (path == "/responses") return SimulatedRoute{.api = SimulatedApi::responses};
    if (path == "/embeddings") return SimulatedRoute{.api = SimulatedApi::embeddings};
    if (path == "/messages")
        return SimulatedRoute{.dialect = SimulatedDialect::anthropic, .api = SimulatedApi::messages};
    if (path == "/messages/count_tokens") {
        return SimulatedRoute{.dialect = SimulatedDialect::anthropic, .api = SimulatedApi::count_messages};
    }
    return std::nullopt;
}

Result<SimulatedRequest, std::string> read_simulated_request(const SimulatedRoute& route, std::string& body) {
    body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
    dom::parser parser;
    dom::element root;
    const auto error = parser.parse(body.data(), body.size(), false).get(root);
    if (error != simdjson::SUCCESS) return fail(std::string("the body is not JSON: ") + simdjson::error_message(error));
    if (!root.is_object()) return fail(std::string("the body is not a JSON object"));
    if (const auto inner = member(root, "generateContentRequest")) root = *inner;

    SimulatedRequest call;
    call.model = route.model.empty() ? std::string(text_of(member(root, "model"))) : route.model;
    if (call.model.empty()) return fail(std::string("you must provide a model parameter"));
    call.prompt_tokens = (prompt_bytes(root) + simulated_bytes_per_token - 1) / simulated_bytes_per_token;
    read_limits(route, root, call);
    if (call.output_max && *call.output_max < 1) return fail(std::string("the cap on output is to be 1 or more"));
    if (route.api == SimulatedApi::messages && !call.output_max) return fail(std::string("max_tokens: Field required"));
    if (call.choices < 1 || call.choices > choices_max) return fail(std::string("n is to be between 1 and 128"));
    if (route.api == SimulatedApi::embeddings) {
        read_embedding(root, call);
    } else {
        const bool with_script =
            ::memmem(body.data(), body.size(), script_begin.data(), script_begin.size()) != nullptr;
        read_conversation(root, with_script, call);
        call.first_tool = first_tool(root);
    }
    return call;
}

namespace {

// "/v1beta/models/sim/small:streamGenerateContent": a model's name may have a slash, coded or not.
std::optional<SimulatedRoute> gemini_route(const net::Request& request, string_view path) {
    // Some clients leave out "models/" before a name that has a slash itself.
    const bool found = take(path, "/v1beta/models") || take(path, "/v1/models") ||
                       (request.method == net::Method::post && take(path, "/v1beta"));
    if (!found) return std::nullopt;
    const auto decoded =
        path.empty() ? std::vector<std::string>{} : net::path_segments(path).value_or(std::vector{std::string()});
    std::string name;
    for (const std::string& segment : decoded) name += (name.empty() ? "" : "/") + segment;
    SimulatedRoute route{.dialect = SimulatedDialect::gemini, .model = name};
    if (request.method == net::Method::get) return route;
    const auto colon = name.rfind(':');
    if (request.method != net::Method::post || colon == std::string::npos) return std::nullopt;
    const std::string method = name.substr(colon + 1);
    route.model = name.substr(0, colon);
    route.stream = method == "streamGenerateContent";
    route.array = route.stream && request.query.find("alt=sse") == std::string::npos;
    if (route.stream || method == "generateContent") {
        route.api = SimulatedApi::generate;
    } else if (method == "countTokens") {
        route.api = SimulatedApi::count_contents;
    } else {
        return std::nullopt;
    }
    return route;
}

void read_limits(const SimulatedRoute& route, const dom::element& root, SimulatedRequest& call) {
    call.stream = route.stream || is_true(member(root, "stream"));
    switch (route.api) {
        case SimulatedApi::chat:
            call.output_max = number_of(member(root, {"max_completion_tokens", "max_tokens"}));
            call.choices = number_of(member(root, "n")).value_or(1);
            if (const auto options = member(root, "stream_options")) {
                call.include_usage = is_true(member(*options, "include_usage"));
            }
            return;
        case SimulatedApi::responses:
            call.output_max = number_of(member(root, "max_output_tokens"));
            return;
        case SimulatedApi::messages:
            call.output_max = number_of(member(root, "max_tokens"));
            return;
        case SimulatedApi::generate:
            if (const auto config = member(root, {"generationConfig", "generation_config"})) {
                call.output_max = number_of(member(*config, {"maxOutputTokens", "max_output_tokens"}));
                call.choices = number_of(member(*config, {"candidateCount", "candidate_count"})).value_or(1);
            }
            return;
        case SimulatedApi::embeddings:
        case SimulatedApi::count_messages:
        case SimulatedApi::count_contents:
        case SimulatedApi::models:
            return;
    }
}

// ---- how much text there is -----------------------------------------------------------------------------------------

// Not text, or not read by the model: what holds a thing together, and what is in the body as base64.
bool is_no_text(string_view name) {
    static constexpr std::array<string_view, 6> names{"role", "type", "id", "data", "file_data", "media_type"};
    return std::ranges::find(names, name) != names.end();
}

std::int64_t text_bytes(const dom::element& element) {
    std::int64_t bytes = 0;
    dom::array array;
    dom::object object;
    string_view text;
    if (element.get(text) == simdjson::SUCCESS) {
        bytes = text.starts_with("data:") ? 0 : static_cast<std::int64_t>(text.size());
    } else if (element.get(array) == simdjson::SUCCESS) {
        for (const dom::element each : array) bytes += text_bytes(each);
    } else if (element.get(object) == simdjson::SUCCESS) {
        for (const dom::key_value_pair each : object) bytes += is_no_text(each.key) ? 0 : text_bytes(each.value);
    }
    return bytes;
}

std::int64_t prompt_bytes(const dom::element& root) {
    static constexpr std::array<string_view, 9> names{"messages", "input",    "instructions",      "system",
                                                      "tools",    "contents", "systemInstruction", "system_instruction",
                                                      "prompt"};
    std::int64_t bytes = 0;
    for (const string_view name : names) {
        if (const auto found = member(root, name)) bytes += text_bytes(*found);
    }
    return bytes;
}

// ---- who says what --------------------------------------------------------------------------------------------------

struct Message {
    bool of_user = false;
    bool says_something = false;
    bool has_tool_result = false;
    std::string text = {};
};

bool is_tool_result(const dom::element& part) {
    const string_view type = text_of(member(part, "type"));
    return type == "tool_result" || type.ends_with("_call_output") ||
           member(part, {"functionResponse", "function_response"}).has_value();
}

Message read_message(const dom::element& message, bool with_text) {
    const string_view role = text_of(member(message, "role"));
    Message read{.of_user = role == "user" || role.empty(),
                 .has_tool_result = role == "tool" || role == "function" || is_tool_result(message)};
    const auto say = [&](string_view text) {
        read.says_something = true;
        if (with_text) read.text.append(text).append("\n");
    };
    const auto content = member(message, {"content", "parts"});
    if (!content) return read;
    dom::array parts;
    if (content->get(parts) != simdjson::SUCCESS) {
        say(text_of(content));
        return read;
    }
    for (const dom::element part : parts) {
        if (is_tool_result(part)) {
            read.has_tool_result = true;
        } else if (const auto text = member(part, "text")) {
            say(text_of(text));
        }
    }
    return read;
}

void read_conversation(const dom::element& root, bool with_text, SimulatedRequest& call) {
    const auto messages = member(root, {"messages", "input", "contents"});
    if (!messages) return;
    dom::array array;
    if (messages->get(array) != simdjson::SUCCESS) {
        if (with_text) call.last_user_text = text_of(messages);
        return;
    }
    for (const dom::element each : array) {
        Message message = read_message(each, with_text);
        if (message.of_user && message.says_something) {
            call.last_user_text = std::move(message.text);
            call.has_tool_result = message.has_tool_result;
        } else if (message.has_tool_result) {
            call.has_tool_result = true;
        }
    }
}

std::string first_tool(const dom::element& root) {
    dom::array tools;
    const auto found = member(root, "tools");
    if (!found || found->get(tools) != simdjson::SUCCESS) return {};
    for (const dom::element tool : tools) {
        dom::element of = tool;
        dom::array declared;
        if (const auto function = member(tool, "function")) of = *function;
        if (const auto list = member(tool, {"functionDeclarations", "function_declarations"});
            list && list->get(declared) == simdjson::SUCCESS && declared.size() > 0) {
            of = declared.at(0);
        }
        if (const string_view name = text_of(member(of, "name")); !name.empty()) return std::string(name);
    }
    return {};
}

// Texts, or the tokens of texts: "a", ["a", "b"], [1, 2], [[1, 2], [3]].
void read_embedding(const dom::element& root, SimulatedRequest& call) {
    call.base64 = text_of(member(root, "encoding_format")) == "base64";
    call.dimensions =
        std::clamp<std::int64_t>(number_of(member(root, "dimensions")).value_or(call.dimensions), 1, dimensions_max);
    dom::array inputs;
    const auto input = member(root, "input");
    if (!input || input->get(inputs) != simdjson::SUCCESS || inputs.size() == 0) return;
    std::int64_t tokens = 0;
    for (const dom::element each : inputs) {
        dom::array inner;
        if (each.is_number()) ++tokens;
        if (each.get(inner) == simdjson::SUCCESS) tokens += static_cast<std::int64_t>(inner.size());
    }
    call.prompt_tokens += tokens;
    const bool one_of_tokens = inputs.at(0).is_number();
    call.inputs = one_of_tokens ? 1 : static_cast<std::int64_t>(std::min(inputs.size(), inputs_max));
}

}  // namespace
}  // namespace interlock::simulated
