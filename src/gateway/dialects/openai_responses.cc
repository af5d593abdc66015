// OpenAI's responses.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "gateway/dialects/openai.h"

namespace interlock::gateway {
namespace {

// ---- requests -------------------------------------------------------------------------------------------------------

class ResponsesRequestReader final : public OpenAiRequestReader {
 public:
    ResponsesRequestReader(const ModelRoute& route, std::string_view body)
        : OpenAiRequestReader(route, body,
                              {.messages_member = "input", .opaque = opaque_members, .has_short_references = true}) {}

 private:
    void member(std::string_view key) override;
    void complete() override;

    std::optional<std::int64_t> tool_calls_max_;
};

void ResponsesRequestReader::member(std::string_view key) {
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
        tools();
    } else {
        shared_member(key);
    }
}

void ResponsesRequestReader::complete() {
    if (!server_tools_) return;
    request_.rounds += tool_calls_max_.value_or(0);
    request_.paid_tools_max += tool_calls_max_.value_or(0);
    request_.rounds_unbounded = !tool_calls_max_;
}

// ---- answers --------------------------------------------------------------------------------------------------------

class ResponsesUsageReader final : public OpenAiUsageReader {
 public:
    using OpenAiUsageReader::OpenAiUsageReader;

 private:
    void read_whole(JsonReader& json) override {
        json.each_member([&](std::string_view key) { response_member(json, key); });
    }
    bool read_event(JsonReader& json) override;
    bool matters(std::string_view data) const override;

    void response_member(JsonReader& json, std::string_view key);
    enum class PaidItem { no, tool, image };
    PaidItem paid_item(JsonReader& json);
};

// Which event of OpenAI's responses this is: "completed" of "response.completed". Empty: another one.
std::string_view responses_type(std::string_view data) {
    constexpr std::string_view begin = "\"response.";
    constexpr std::array<std::string_view, 6> known{"completed\"", "incomplete\"",       "failed\"",
                                                    "created\"",   "output_item.done\"", "output_item.added\""};
    std::size_t at = 0;
    while ((at = find_bytes(data, begin, at)) != std::string_view::npos) {
        at += begin.size();
        for (const std::string_view type : known) {
            if (data.substr(at).starts_with(type)) return type.substr(0, type.size() - 1);
        }
    }
    return {};
}

bool ResponsesUsageReader::matters(std::string_view data) const {
    const std::string_view type = responses_type(data);
    return (!type.empty() && type != "output_item.added") || find_bytes(data, "\"error\"", 0) != std::string_view::npos;
}

bool ResponsesUsageReader::read_event(JsonReader& json) {
    std::string type;
    std::string_view delta;
    PaidItem paid = PaidItem::no;
    json.each_member([&](std::string_view key) {
        if (key == "type") {
            set_word(type, json);
        } else if (key == "response") {
            each_member(json, [&](std::string_view name) { response_member(json, name); });
        } else if (key == "item" && json.kind() == JsonKind::object) {
            paid = paid_item(json);
        } else if (key == "delta") {
            delta = json.raw_string().value_or("");
        }
    });
    if (type == "response.output_text.delta") keep_text(delta);
    if (type == "response.output_item.done" && paid == PaidItem::tool) ++metered_.paid_tools;
    if (type == "response.output_item.done" && paid == PaidItem::image) ++metered_.images_made;
    ended_ = ended_ || type == "response.completed" || type == "response.incomplete" || type == "response.failed" ||
             type == "error";
    if (type == "error") metered_.finish = "error";
    return false;
}

void ResponsesUsageReader::response_member(JsonReader& json, std::string_view key) {
    if (key == "usage") {
        usage(json);
    } else if (key == "model") {
        set_word(metered_.model, json);
    } else if (key == "service_tier") {
        set_word(metered_.service_tier, json);
    } else if (key == "status") {
        // The reason says more than "incomplete", and may stand on either side of it.
        std::string status;
        set_word(status, json);
        if (status != "incomplete" || metered_.finish.empty() || metered_.finish == "in_progress")
            metered_.finish = status;
    } else if (key == "incomplete_details") {
        each_member(json, [&](std::string_view name) {
            if (name == "reason") set_word(metered_.finish, json);
        });
    } else if (key == "output") {
        std::int64_t tools = 0, images = 0;
        each_element(json, [&] {
            const PaidItem paid = json.kind() == JsonKind::object ? paid_item(json) : PaidItem::no;
            tools += paid == PaidItem::tool ? 1 : 0;
            images += paid == PaidItem::image ? 1 : 0;
        });
        metered_.paid_tools = std::max(metered_.paid_tools, tools);
        metered_.images_made = std::max(metered_.images_made, images);
    }
}

// What the item is: the use of a tool that is billed by the use, or none. What a message among them says is kept on the
// way, unless it was kept while it streamed.
ResponsesUsageReader::PaidItem ResponsesUsageReader::paid_item(JsonReader& json) {
    std::string type;
    std::string action;
    json.each_member([&](std::string_view key) {
        if (key == "type") {
            set_word(type, json);
        } else if (key == "content" && !is_streamed()) {
            content(json);
        } else if (key == "action") {
            each_member(json, [&](std::string_view name) {
                if (name == "type") set_word(action, json);
            });
        }
    });
    // Opening a page that a search has found costs nothing.
    if (type == "image_generation_call") return PaidItem::image;
    const bool is_search = type == "web_search_call" && (action.empty() || action == "search");
    const bool is_paid = is_search || type == "file_search_call" || type == "code_interpreter_call";
    return is_paid ? PaidItem::tool : PaidItem::no;
}

// ---- the dialect ----------------------------------------------------------------------------------------------------

bool is_websocket(const net::Request& request) {
    return std::ranges::equal(request.header("upgrade"), std::string_view("websocket"),
                              [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

class OpenAiResponses final : public OpenAiDialect {
 public:
    bool serves(Operation operation) const override { return operation == Operation::responses; }
    bool owns(std::string_view path) const override {
        const std::string_view noun = noun_of(path);
        return noun == "responses" || noun == "conversations";
    }
    std::optional<Endpoint> endpoint(std::string_view path) const override {
        if (path == "/v1/responses") return Endpoint{.operation = Operation::responses};
        return std::nullopt;
    }
    std::optional<NoRoute> refuse(const Endpoint& endpoint, const net::Request& request) const override;

    Result<CallRequest, std::string> read(const ModelRoute& route, std::string_view body) const override {
        return ResponsesRequestReader(route, body).read();
    }
    std::string_view messages_member() const override { return "input"; }
    void edit(const ModelRoute& route, const CallRequest& request, const Edits& edits, BodyEdit& body) const override;
    bool keeps_tool_limit(std::string_view provider) const override { return keeps_max_tool_calls(provider); }

    std::unique_ptr<UsageReader> usage_reader(Operation, KeepText keep) const override {
        return std::make_unique<ResponsesUsageReader>(keep);
    }
    std::string stream_error(const ErrorFacts& error) const override;
};

std::optional<NoRoute> OpenAiResponses::refuse(const Endpoint&, const net::Request& request) const {
    if (request.method != net::Method::get || !is_websocket(request)) return std::nullopt;
    return NoRoute{
        .format = format(),
        .status = 426,
        .detail = "Interlock meters responses over plain HTTP: send a POST, with or without \"stream\": true."};
}

void OpenAiResponses::edit(const ModelRoute&, const CallRequest& request, const Edits& edits, BodyEdit& body) const {
    if (edits.output_max) {
        body.set_member(body.brace(), request.output_max_at, "max_output_tokens", std::to_string(*edits.output_max));
        body.remove_member(request.output_max_2_at);
    }
    if (edits.tool_calls_max) {
        body.set_member(body.brace(), request.tool_calls_max_at, "max_tool_calls",
                        std::to_string(*edits.tool_calls_max));
    }
}

std::string OpenAiResponses::stream_error(const ErrorFacts& error) const {
    namespace json = boost::json;
    // How many events went before is not known here; what their reader relies on is that the number rises.
    const json::object failed{
        {"type", "response.failed"},
        {"sequence_number", INT32_MAX},
        {"response", json::object{{"id", "resp_interlock"},
                                  {"object", "response"},
                                  {"status", "failed"},
                                  {"error", json::object{{"code", to_text(error.code)}, {"message", error.message}}},
                                  {"output", json::array{}}}}};
    return fmt::format("event: response.failed\ndata: {}\n\n", json::serialize(failed));
}

}  // namespace

const Dialect& openai_responses() {
    static const OpenAiResponses dialect;
    return dialect;
}

}  // namespace interlock::gateway
