#include "simulated/answer.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/ensure.h"

namespace interlock::simulated {
namespace {

using std::string_view;

constexpr std::array<string_view, 7> model_names{"sim/small", "sim/large",    "sim/slow", "sim/flaky",
                                                 "sim/embed", "sim/reasoner", "sim/tools"};

std::string model_in(SimulatedDialect dialect, string_view name) {
    switch (dialect) {
        case SimulatedDialect::openai:
            return fill(R"({"id":$,"object":"model","created":1700000000,"owned_by":"sim"})", {json_string(name)});
        case SimulatedDialect::anthropic:
            return fill(R"({"type":"model","id":$,"display_name":$,"created_at":"2025-01-01T00:00:00Z"})",
                        {json_string(name), json_string(name)});
        case SimulatedDialect::gemini:
            return fill(
                R"({"name":$,"baseModelId":$,"version":"001","displayName":$,"description":"A simulated model",)"
                R"("inputTokenLimit":1048576,"outputTokenLimit":65536,)"
                R"("supportedGenerationMethods":["generateContent","countTokens"]})",
                {json_string("models/" + std::string(name)), json_string(name), json_string(name)});
    }
    return {};
}

string_view openai_error_type(int status) {
    switch (status) {
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 429:
            return "rate_limit_error";
        default:
            return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

string_view anthropic_error_type(int status) {
    switch (status) {
        case 401:
            return "authentication_error";
        case 402:
            return "billing_error";
        case 403:
            return "permission_error";
        case 404:
            return "not_found_error";
        case 413:
            return "request_too_large";
        case 429:
            return "rate_limit_error";
        case 504:
            return "timeout_error";
        case 529:
            return "overloaded_error";
        default:
            return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

string_view gemini_error_status(int status) {
    switch (status) {
        case 401:
            return "UNAUTHENTICATED";
        case 403:
            return "PERMISSION_DENIED";
        case 404:
            return "NOT_FOUND";
        case 402:
        case 429:
            return "RESOURCE_EXHAUSTED";
        case 503:
        case 529:
            return "UNAVAILABLE";
        case 504:
            return "DEADLINE_EXCEEDED";
        default:
            return status >= 500 ? "INTERNAL" : "INVALID_ARGUMENT";
    }
}

}  // namespace

std::string models_answer(const SimulatedRoute& route) {
    if (!route.model.empty()) return model_in(route.dialect, route.model);
    std::string list;
    for (const string_view name : model_names) list += (list.empty() ? "" : ",") + model_in(route.dialect, name);
    switch (route.dialect) {
        case SimulatedDialect::openai:
            return fill(R"({"object":"list","data":[$]})", {list});
        case SimulatedDialect::anthropic:
            return fill(R"({"data":[$],"has_more":false,"first_id":$,"last_id":$})",
                        {list, json_string(model_names.front()), json_string(model_names.back())});
        case SimulatedDialect::gemini:
            return fill(R"({"models":[$]})", {list});
    }
    return {};
}

std::string count_answer(SimulatedDialect dialect, std::int64_t tokens) {
    if (dialect == SimulatedDialect::anthropic) return fill(R"({"input_tokens":$})", {tokens});
    return fill(R"({"totalTokens":$,"promptTokensDetails":[{"modality":"TEXT","tokenCount":$}]})", {tokens, tokens});
}

std::string error_answer(SimulatedDialect dialect, int status, string_view message, string_view id) {
    switch (dialect) {
        case SimulatedDialect::openai:
            return fill(R"({"error":{"message":$,"type":"$","param":null,"code":$}})",
                        {json_string(message), openai_error_type(status),
                         status == 401   ? R"("invalid_api_key")"
                         : status == 429 ? R"("rate_limit_exceeded")"
                                         : "null"});
        case SimulatedDialect::anthropic:
            return fill(R"({"type":"error","error":{"type":"$","message":$},"request_id":"req_$"})",
                        {anthropic_error_type(status), json_string(message), id});
        case SimulatedDialect::gemini:
            return fill(R"({"error":{"code":$,"message":$,"status":"$"}})",
                        {std::int64_t{status}, json_string(message), gemini_error_status(status)});
    }
    return {};
}

std::string fill(string_view shape, std::initializer_list<Filling> fillings) {
    std::size_t size = shape.size();
    for (const Filling& each : fillings) size += each.text().size();
    std::string text;
    text.reserve(size);
    for (const Filling& each : fillings) {
        const auto mark = shape.find('$');
        ensure(mark != string_view::npos, "a shape has a mark for each filling");
        text.append(shape.substr(0, mark)).append(each.text());
        shape.remove_prefix(mark + 1);
    }
    ensure(shape.find('$') == string_view::npos, "a shape has a filling for each mark");
    return text.append(shape);
}

std::string json_string(string_view text) {
    return boost::json::serialize(boost::json::string_view(text.data(), text.size()));
}

std::vector<string_view> parts_of(string_view text, std::int64_t count) {
    std::vector<string_view> parts;
    const std::size_t parts_max = std::min(text.size(), static_cast<std::size_t>(std::max<std::int64_t>(count, 1)));
    const auto is_within_character = [&](std::size_t at) {
        return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
    };
    std::size_t begin = 0;
    for (std::size_t i = 1; i <= parts_max; ++i) {
        std::size_t end = text.size() * i / parts_max;
        while (is_within_character(end)) ++end;
        if (end > begin) parts.push_back(text.substr(begin, end - begin));
        begin = std::max(begin, end);
    }
    return parts;
}

}  // namespace interlock::simulated
