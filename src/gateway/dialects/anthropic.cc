// Anthropic's messages.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "gateway/call_request_reader.h"
#include "gateway/dialect.h"
#include "gateway/usage_reader.h"

namespace interlock::gateway {
namespace {

// ---- requests -------------------------------------------------------------------------------------------------------

// What is said to a client's tools and by them, and the shapes of it.
constexpr std::array<std::string_view, 3> opaque_to_messages{"input", "input_schema", "input_examples"};

class MessagesRequestReader final : public CallRequestReader {
 public:
    MessagesRequestReader(const ModelRoute& route, std::string_view body)
        : CallRequestReader(route, body, {.messages_member = "messages", .opaque = opaque_to_messages}) {}

 private:
    void member(std::string_view key) override;
    void complete() override;
    void thinking();
    void tools();
    void loops_at_the_provider();

    std::string inference_geo_;
};

void MessagesRequestReader::member(std::string_view key) {
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
        tools();
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
        // A dearer way to run the same model; "standard" is the default.
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

void MessagesRequestReader::complete() {
    if (!request_.output_max) return refuse("`max_tokens` must be stated.");
    if (inference_geo_.empty()) return;
    const std::string& tier = request_.service_tier;
    const bool plain = tier.empty() || tier == "auto" || tier == "standard" || tier == "standard_only";
    request_.service_tier = plain ? inference_geo_ : tier + "-" + inference_geo_;
}

void MessagesRequestReader::thinking() {
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

// Clients run these themselves; everything else with a type runs at the provider.
bool runs_at_the_client(std::string_view type) {
    for (const std::string_view clients : {"text_editor_", "bash_", "computer_", "memory_"}) {
        if (type.starts_with(clients)) return true;
    }
    return type.empty() || type == "custom" || type == "function";
}

bool knows_max_uses(std::string_view type) { return type.starts_with("web_search_") || type.starts_with("web_fetch_"); }

void MessagesRequestReader::tools() {
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
void MessagesRequestReader::loops_at_the_provider() {
    request_.rounds_unbounded = true;
    request_.rounds_by_provider = 10;
}

// ---- answers --------------------------------------------------------------------------------------------------------

class MessagesUsageReader final : public UsageReader {
 public:
    using UsageReader::UsageReader;

 private:
    // Counts as the provider says them, each as it was said last.
    struct Counts {
        std::int64_t input = 0;
        std::int64_t output = 0;
        std::int64_t cache_read = 0;
        std::int64_t cache_write = 0;  // Of either length.
        std::int64_t cache_write_1h = 0;
        bool input_said = false;
        bool output_said = false;
    };

    void read_whole(JsonReader& json) override {
        json.each_member([&](std::string_view key) { message_member(json, key); });
        // Counts come bit by bit in a stream. In a whole answer they are the last word.
        metered_.reported = metered_.input_reported && counts_.output_said;
    }
    bool read_event(JsonReader& json) override;
    bool matters(std::string_view data) const override {
        return has_member(data, "\"usage\"", '{') ||
               find_bytes(data, "\"message_stop\"", 0) != std::string_view::npos || has_member(data, "\"error\"", '{');
    }

    void message_member(JsonReader& json, std::string_view key);
    void usage(JsonReader& json);
    void read_counts(JsonReader& json, std::string_view key, Counts& counts);

    Counts counts_;
    Counts beside_;  // Runs of a model that the totals leave out.
};

bool MessagesUsageReader::read_event(JsonReader& json) {
    std::string type;
    counts_.output_said = false;
    json.each_member([&](std::string_view key) {
        if (key == "type") {
            set_word(type, json);
        } else if (key == "message") {
            each_member(json, [&](std::string_view name) { message_member(json, name); });
        } else if (key == "usage") {
            usage(json);
        } else if (key == "delta") {
            each_member(json, [&](std::string_view name) {
                if (name == "stop_reason")
                    set_word(metered_.finish, json);
                else if (name == "text")
                    keep_text(json.raw_string().value_or(""));
            });
        }
    });
    // What message_start says of the output is only its beginning.
    if (type == "message_delta" && counts_.output_said) metered_.reported = metered_.input_reported;
    if (type == "error") metered_.finish = "error";
    ended_ = ended_ || type == "message_stop" || type == "error";
    return false;
}

void MessagesUsageReader::message_member(JsonReader& json, std::string_view key) {
    if (key == "usage")
        usage(json);
    else if (key == "model")
        set_word(metered_.model, json);
    else if (key == "stop_reason")
        set_word(metered_.finish, json);
    else if (key == "content")
        content(json);
}

void MessagesUsageReader::usage(JsonReader& json) {
    if (json.kind() != JsonKind::object) return;
    json.each_member([&](std::string_view key) {
        if (key == "service_tier") {
            set_word(metered_.service_tier, json);
        } else if (key == "inference_geo") {
            set_word(metered_.inference_geo, json);
        } else if (key == "server_tool_use") {
            each_member(json, [&](std::string_view name) {
                if (name == "web_search_requests") metered_.paid_tools = tokens(json).value_or(metered_.paid_tools);
            });
        } else if (key == "iterations") {
            // The totals are those of the messages alone; what shortened the conversation before them is billed as
            // well.
            beside_ = {};
            each_element(json, [&] {
                std::string type = "message";
                Counts run;
                each_member(json, [&](std::string_view name) {
                    if (name == "type")
                        set_word(type, json);
                    else
                        read_counts(json, name, run);
                });
                if (type == "message") return;
                beside_.input += run.input;
                beside_.output += run.output;
                beside_.cache_read += run.cache_read;
                beside_.cache_write += run.cache_write;
                beside_.cache_write_1h += run.cache_write_1h;
            });
        } else {
            read_counts(json, key, counts_);
        }
    });
    const std::int64_t written = counts_.cache_write + beside_.cache_write;
    metered_.usage.input_tokens = counts_.input + beside_.input;
    metered_.usage.output_tokens = counts_.output + beside_.output;
    metered_.usage.cache_read_tokens = counts_.cache_read + beside_.cache_read;
    metered_.usage.cache_write_1h_tokens = std::min(counts_.cache_write_1h + beside_.cache_write_1h, written);
    metered_.usage.cache_write_5m_tokens = written - metered_.usage.cache_write_1h_tokens;
    metered_.prompt_tokens = counts_.input + counts_.cache_read + counts_.cache_write;
    metered_.input_reported = counts_.input_said;
}

void MessagesUsageReader::read_counts(JsonReader& json, std::string_view key, Counts& counts) {
    const auto set = [&](std::int64_t& count) {
        const auto said = tokens(json);
        count = said.value_or(count);
        return said.has_value();
    };
    if (key == "input_tokens") {
        counts.input_said = set(counts.input) || counts.input_said;
    } else if (key == "output_tokens") {
        counts.output_said = set(counts.output) || counts.output_said;
    } else if (key == "cache_read_input_tokens") {
        set(counts.cache_read);
    } else if (key == "cache_creation_input_tokens") {
        set(counts.cache_write);
    } else if (key == "cache_creation") {
        std::int64_t five_minutes = 0;
        each_member(json, [&](std::string_view name) {
            if (name == "ephemeral_1h_input_tokens")
                set(counts.cache_write_1h);
            else if (name == "ephemeral_5m_input_tokens")
                set(five_minutes);
        });
        counts.cache_write = std::max(counts.cache_write, five_minutes + counts.cache_write_1h);
    }
}

// ---- the dialect ----------------------------------------------------------------------------------------------------

std::string_view anthropic_error_type(RefusalKind kind) {
    switch (kind) {
        case RefusalKind::bad_request:
            return "invalid_request_error";
        case RefusalKind::unauthorized:
            return "authentication_error";
        case RefusalKind::budget:
            return "billing_error";
        case RefusalKind::not_found:
            return "not_found_error";
        case RefusalKind::rate_limited:
            return "rate_limit_error";
        case RefusalKind::busy:
            return "overloaded_error";
        case RefusalKind::upstream_timeout:
            return "timeout_error";
        case RefusalKind::internal:
        case RefusalKind::upstream_failed:
            break;
    }
    return "api_error";
}

class Anthropic final : public Dialect {
 public:
    ApiFormat format() const override { return ApiFormat::anthropic; }
    bool serves(Operation operation) const override {
        return operation == Operation::messages || operation == Operation::count_tokens ||
               operation == Operation::models;
    }
    bool owns(std::string_view path) const override {
        const std::string_view noun = noun_of(path);
        return noun == "messages" || noun == "complete" || noun == "skills";
    }
    bool is_named_by(const net::Request& request) const override {
        return !request.header("anthropic-version").empty() || !request.header("x-api-key").empty();
    }
    std::optional<Endpoint> endpoint(std::string_view path) const override;
    std::string_view listed_paths() const override {
        return "POST /v1/messages is metered, and POST /v1/messages/count_tokens and GET /v1/models are free";
    }

    // What counts tokens goes where the call itself would go.
    bool has_body_to_read(Operation operation) const override { return operation != Operation::models; }
    Result<CallRequest, std::string> read(const ModelRoute& route, std::string_view body) const override {
        return MessagesRequestReader(route, body).read();
    }
    void edit(const ModelRoute& route, const CallRequest& request, const Edits& edits, BodyEdit& body) const override;
    net::Header key_header(std::string_view key) const override { return {"x-api-key", std::string(key)}; }

    std::unique_ptr<UsageReader> usage_reader(Operation, KeepText keep) const override {
        return std::make_unique<MessagesUsageReader>(keep);
    }

    std::string error_body(const ErrorFacts& error) const override;
    std::string stream_error(const ErrorFacts& error) const override {
        return fmt::format("event: error\ndata: {}\n\n", error_body(error));
    }

    ProviderHome home() const override {
        return {.provider = "anthropic", .host = "api.anthropic.com", .version_path = "/v1"};
    }
};

std::optional<Endpoint> Anthropic::endpoint(std::string_view path) const {
    if (path == "/v1/messages") return Endpoint{.operation = Operation::messages};
    if (path == "/v1/messages/count_tokens") return Endpoint{.operation = Operation::count_tokens};
    if (!take_prefix(path, "/v1")) return std::nullopt;
    return models_endpoint(path);
}

void Anthropic::edit(const ModelRoute&, const CallRequest& request, const Edits& edits, BodyEdit& body) const {
    if (edits.output_max) {
        const std::int64_t tokens = *edits.output_max;
        body.set_member(body.brace(), request.output_max_at, "max_tokens", std::to_string(tokens));
        body.remove_member(request.output_max_2_at);
        const bool lowered = edits.output_max != request.output_max;
        const bool has_thinking = !request.thinking_budget_at.empty();
        if (lowered && has_thinking && request.thinking_budget >= tokens && tokens > 1)
            body.replace(request.thinking_budget_at, std::to_string(tokens - 1));
    }
    if (!edits.tool_uses_max) return;
    for (const ToolAt& tool : request.unbounded_tools_at)
        body.set_member(tool.brace, tool.max_uses, "max_uses", std::to_string(*edits.tool_uses_max));
}

std::string Anthropic::error_body(const ErrorFacts& error) const {
    namespace json = boost::json;
    json::object body{{"type", "error"},
                      {"error", json::object{{"type", anthropic_error_type(error.kind)}, {"message", error.message}}}};
    if (!error.call_id.empty()) body["request_id"] = error.call_id;
    return json::serialize(body);
}

}  // namespace

const Dialect& anthropic() {
    static const Anthropic dialect;
    return dialect;
}

}  // namespace interlock::gateway
