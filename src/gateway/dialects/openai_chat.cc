// OpenAI's chat completions and embeddings, and what many other providers speak.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "gateway/dialects/openai.h"

namespace interlock::gateway {
namespace {

// ---- requests -------------------------------------------------------------------------------------------------------

class ChatRequestReader final : public OpenAiRequestReader {
 public:
    ChatRequestReader(const ModelRoute& route, std::string_view body)
        : OpenAiRequestReader(route, body, {.messages_member = "messages", .opaque = opaque_members}) {}

 private:
    void member(std::string_view key) override;
    void complete() override;
    void stream_options();
    void search_parameters();
};

void ChatRequestReader::member(std::string_view key) {
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
        tools();
    } else if (key == "web_search_options" || key == "plugins") {
        server_tools_ = server_tools_ || json_.kind() != JsonKind::null;
        look(key);
    } else if (key == "search_parameters") {
        search_parameters();
    } else if (key == "enable_search") {
        if (!null_or_absent()) server_tools_ = json_.boolean().value_or(true) || server_tools_;
    } else {
        shared_member(key);
    }
}

// No member of a chat bounds how often such tools run.
void ChatRequestReader::complete() {
    const bool searches = request_.model.find("-search-preview") != std::string::npos ||
                          request_.model.find("-search-api") != std::string::npos;
    request_.rounds_unbounded = searches || server_tools_;
    request_.rounds_untold = searches || server_tools_;
}

void ChatRequestReader::stream_options() {
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

// Searches of xAI, billed by the source.
void ChatRequestReader::search_parameters() {
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

class EmbeddingsRequestReader final : public OpenAiRequestReader {
 public:
    EmbeddingsRequestReader(const ModelRoute& route, std::string_view body)
        : OpenAiRequestReader(route, body, {.opaque = opaque_members}) {}

 private:
    void member(std::string_view key) override { look(key); }
    void complete() override { request_.makes_output = false; }
};

// ---- answers --------------------------------------------------------------------------------------------------------

class ChatUsageReader : public OpenAiUsageReader {
 public:
    using OpenAiUsageReader::OpenAiUsageReader;

 private:
    void read_whole(JsonReader& json) override { chunk(json); }
    bool read_event(JsonReader& json) override { return chunk(json); }
    bool matters(std::string_view data) const override {
        return has_member(data, "\"usage\"", '{') || has_member(data, "\"finish_reason\"", '"') ||
               has_member(data, "\"error\"", '{');
    }

    // True: it has usage and nothing else.
    bool chunk(JsonReader& json);
    void choices(JsonReader& json, bool& any);
};

bool ChatUsageReader::chunk(JsonReader& json) {
    bool has_usage = false;
    bool has_choices = false;
    bool no_choices = false;
    json.each_member([&](std::string_view key) {
        if (key == "usage") {
            has_usage = json.kind() == JsonKind::object;
            usage(json);
        } else if (key == "x_groq") {
            each_member(json, [&](std::string_view name) {
                if (name == "usage") usage(json);
            });
        } else if (key == "model") {
            set_word(metered_.model, json);
        } else if (key == "service_tier") {
            set_word(metered_.service_tier, json);
        } else if (key == "choices") {
            no_choices = json.kind() == JsonKind::array;
            choices(json, has_choices);
        } else if (key == "error" && json.kind() == JsonKind::object) {
            metered_.finish = "error";
            ended_ = true;
        }
    });
    return has_usage && no_choices && !has_choices;
}

void ChatUsageReader::choices(JsonReader& json, bool& any) {
    each_element(json, [&] {
        any = true;
        each_member(json, [&](std::string_view key) {
            if (key == "finish_reason") {
                set_word(metered_.finish, json);
            } else if (key == "delta" || key == "message") {
                each_member(json, [&](std::string_view name) {
                    if (name == "content") content(json);
                });
            }
        });
    });
}

// Their answers do not stream.
class EmbeddingsUsageReader final : public ChatUsageReader {
 public:
    using ChatUsageReader::ChatUsageReader;

 private:
    bool read_event(JsonReader&) override { return false; }
    bool matters(std::string_view) const override { return false; }
    bool states_input_only() const override { return true; }
};

// ---- the dialect ----------------------------------------------------------------------------------------------------

class OpenAiChat final : public OpenAiDialect {
 public:
    bool serves(Operation operation) const override {
        return operation == Operation::chat || operation == Operation::embeddings || operation == Operation::models;
    }
    bool owns(std::string_view path) const override;
    std::optional<Endpoint> endpoint(std::string_view path) const override;

    Result<CallRequest, std::string> read(const ModelRoute& route, std::string_view body) const override {
        if (route.operation == Operation::embeddings) return EmbeddingsRequestReader(route, body).read();
        return ChatRequestReader(route, body).read();
    }
    bool hides_usage(const ModelRoute& route, const CallRequest& request) const override {
        return route.operation == Operation::chat && request.stream && !request.wants_usage;
    }
    void edit(const ModelRoute& route, const CallRequest& request, const Edits& edits, BodyEdit& body) const override;

    std::unique_ptr<UsageReader> usage_reader(Operation operation, KeepText keep) const override {
        if (operation == Operation::embeddings) return std::make_unique<EmbeddingsUsageReader>(keep);
        return std::make_unique<ChatUsageReader>(keep);
    }
    bool has_usage_event() const override { return true; }
    std::string stream_error(const ErrorFacts& error) const override {
        return fmt::format("data: {}\n\ndata: [DONE]\n\n", error_body(error));
    }
};

// What stands behind /v1/ at the provider and does not in our own API (src/api). What of it is not metered is refused:
// without that it would look like a mistake in the address.
bool OpenAiChat::owns(std::string_view path) const {
    static constexpr std::array<std::string_view, 22> nouns{
        "assistants",  "audio",   "batches", "chat",       "completions",   "containers",  "edits",    "embeddings",
        "engines",     "evals",   "graders", "fine-tunes", "fine_tuning",   "images",      "realtime", "threads",
        "moderations", "chatkit", "uploads", "videos",     "vector_stores", "organization"};
    return std::ranges::find(nouns, noun_of(path)) != nouns.end();
}

std::optional<Endpoint> OpenAiChat::endpoint(std::string_view path) const {
    if (path == "/v1/chat/completions") return Endpoint{.operation = Operation::chat};
    if (path == "/v1/embeddings") return Endpoint{.operation = Operation::embeddings};
    if (!take_prefix(path, "/v1")) return std::nullopt;
    return models_endpoint(path);
}

void OpenAiChat::edit(const ModelRoute& route, const CallRequest& request, const Edits& edits, BodyEdit& body) const {
    if (route.operation != Operation::chat) return;
    if (edits.output_max) {
        body.set_member(body.brace(), request.output_max_at, edits.limit_name, std::to_string(*edits.output_max));
        body.remove_member(request.output_max_2_at);
    }
    if (!edits.include_usage || request.wants_usage) return;
    const MemberAt& options = request.stream_options_at;
    if (options.empty() || body.is_null(options.value)) {
        body.set_member(body.brace(), options, "stream_options", R"({"include_usage":true})");
    } else {
        body.set_member(options.value.begin, request.include_usage_at, "include_usage", "true");
    }
}

}  // namespace

const Dialect& openai_chat() {
    static const OpenAiChat dialect;
    return dialect;
}

}  // namespace interlock::gateway
