// Gemini's generateContent. Each name in a request may be written in two ways, generationConfig and generation_config;
// a body that writes both is refused, because it is not known which one would count.
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
constexpr std::array<std::string_view, 11> opaque_to_generate{"args",
                                                              "response",
                                                              "parameters",
                                                              "parametersJsonSchema",
                                                              "parameters_json_schema",
                                                              "responseSchema",
                                                              "response_schema",
                                                              "responseJsonSchema",
                                                              "response_json_schema",
                                                              "functionDeclarations",
                                                              "function_declarations"};

class GenerateRequestReader final : public CallRequestReader {
 public:
    GenerateRequestReader(const ModelRoute& route, std::string_view body)
        : CallRequestReader(route, body,
                            {.messages_member = "contents", .opaque = opaque_to_generate, .names_model = false}) {}

 private:
    void member(std::string_view key) override;
    void complete() override;
    void generation_config(std::string_view name);
    void tools();

    bool server_tools_ = false;  // The provider runs one itself.
};

void GenerateRequestReader::member(std::string_view key) {
    if (key == "contents") {
        messages(key);
    } else if (key == "generationConfig" || key == "generation_config") {
        generation_config(key);
    } else if (key == "tools") {
        tools();
    } else if (key == "cachedContent" || key == "cached_content") {
        elsewhere();
    } else if (key == "serviceTier" || key == "service_tier") {
        request_.service_tier = word();
    } else {
        look(key);
    }
}

// No member bounds how often such tools run.
void GenerateRequestReader::complete() {
    request_.rounds_unbounded = server_tools_;
    request_.rounds_untold = server_tools_;
}

void GenerateRequestReader::generation_config(std::string_view name) {
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
void GenerateRequestReader::tools() {
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

// ---- answers --------------------------------------------------------------------------------------------------------

class GenerateUsageReader final : public UsageReader {
 public:
    using UsageReader::UsageReader;

 private:
    void read_whole(JsonReader& json) override {
        chunk(json);
        // Counts come bit by bit in a stream. In a whole answer they are the last word.
        metered_.reported = metered_.input_reported && has_counts_;
    }
    bool read_event(JsonReader& json) override {
        chunk(json);
        return false;
    }
    bool matters(std::string_view) const override { return true; }

    void chunk(JsonReader& json);
    void candidate(JsonReader& json);
    void usage(JsonReader& json);

    bool has_counts_ = false;
};

void GenerateUsageReader::chunk(JsonReader& json) {
    json.each_member([&](std::string_view key) {
        if (key == "usageMetadata") {
            usage(json);
        } else if (key == "modelVersion") {
            set_word(metered_.model, json);
        } else if (key == "candidates") {
            each_element(json, [&] { candidate(json); });
        } else if (key == "promptFeedback") {
            each_member(json, [&](std::string_view name) {
                if (name != "blockReason") return;
                set_word(metered_.finish, json);
                ended_ = true;
            });
        } else if (key == "error" && json.kind() == JsonKind::object) {
            metered_.finish = "error";
            ended_ = true;
        }
    });
    // Each chunk has the counts so far; those that come with the end are the last.
    metered_.reported = metered_.reported || (has_counts_ && ended_ && metered_.finish != "error");
}

void GenerateUsageReader::candidate(JsonReader& json) {
    each_member(json, [&](std::string_view key) {
        if (key == "finishReason") {
            set_word(metered_.finish, json);
            ended_ = true;
        } else if (key == "content") {
            each_member(json, [&](std::string_view name) {
                if (name == "parts") content(json);
            });
        } else if (key == "groundingMetadata") {
            each_member(json, [&](std::string_view name) {
                std::int64_t searches = 0;
                if (name == "webSearchQueries") each_element(json, [&] { ++searches; });
                metered_.paid_tools = std::max(metered_.paid_tools, searches);
            });
        }
    });
}

void GenerateUsageReader::usage(JsonReader& json) {
    if (json.kind() != JsonKind::object) return;
    std::optional<std::int64_t> prompt;
    std::int64_t cached = 0, tool_prompt = 0, candidates = 0, thoughts = 0, audio_in = 0, audio_cached = 0,
                 audio_out = 0, image_out = 0, image = 0;
    const auto audio_of = [&] {
        std::int64_t audio = 0;
        image = 0;
        each_element(json, [&] {
            std::string modality;
            std::int64_t count = 0;
            each_member(json, [&](std::string_view name) {
                if (name == "modality")
                    set_word(modality, json);
                else if (name == "tokenCount")
                    count = tokens(json).value_or(0);
            });
            if (modality == "AUDIO") audio = std::min(audio + count, metered_tokens_max);
            if (modality == "IMAGE") image = std::min(image + count, metered_tokens_max);
        });
        return audio;
    };
    json.each_member([&](std::string_view key) {
        if (key == "promptTokenCount")
            prompt = tokens(json);
        else if (key == "cachedContentTokenCount")
            cached = tokens(json).value_or(0);
        else if (key == "toolUsePromptTokenCount")
            tool_prompt = tokens(json).value_or(0);
        else if (key == "candidatesTokenCount")
            candidates = tokens(json).value_or(0);
        else if (key == "thoughtsTokenCount")
            thoughts = tokens(json).value_or(0);
        else if (key == "promptTokensDetails")
            audio_in = audio_of();
        else if (key == "cacheTokensDetails")
            audio_cached = audio_of();
        else if (key == "candidatesTokensDetails")
            audio_out = audio_of(), image_out = image;
    });
    if (!prompt) return;
    has_counts_ = true;
    set_input(*prompt + tool_prompt, cached, 0, std::max<std::int64_t>(audio_in - audio_cached, 0));
    set_output(candidates + thoughts, thoughts, audio_out, image_out);
}

// ---- the dialect ----------------------------------------------------------------------------------------------------

std::string_view gemini_error_status(RefusalKind kind) {
    switch (kind) {
        case RefusalKind::bad_request:
            return "INVALID_ARGUMENT";
        case RefusalKind::unauthorized:
            return "UNAUTHENTICATED";
        case RefusalKind::budget:
        case RefusalKind::rate_limited:
            return "RESOURCE_EXHAUSTED";
        case RefusalKind::not_found:
            return "NOT_FOUND";
        case RefusalKind::upstream_failed:
        case RefusalKind::busy:
            return "UNAVAILABLE";
        case RefusalKind::upstream_timeout:
            return "DEADLINE_EXCEEDED";
        case RefusalKind::internal:
            break;
    }
    return "INTERNAL";
}

// "/models/gemini-x:generateContent"
bool is_gemini_call(std::string_view path) {
    static constexpr std::array<std::string_view, 8> actions{
        "generateContent", "streamGenerateContent", "countTokens",        "embedContent",
        "predict",         "batchEmbedContents",    "predictLongRunning", "batchGenerateContent"};
    std::size_t colon = path.rfind(':');
    std::size_t behind = colon + 1;
    if (colon == std::string_view::npos) {
        colon = std::max(path.rfind("%3A") + 1, path.rfind("%3a") + 1);
        behind = colon + 2;
    }
    if (colon == 0 || behind >= path.size()) return false;
    return std::ranges::find(actions, path.substr(behind)) != actions.end();
}

class Gemini final : public Dialect {
 public:
    ApiFormat format() const override { return ApiFormat::gemini; }
    bool serves(Operation operation) const override {
        return operation == Operation::generate || operation == Operation::count_tokens ||
               operation == Operation::models;
    }
    bool owns(std::string_view path) const override;
    bool is_named_by(const net::Request& request) const override { return !request.header("x-goog-api-key").empty(); }
    std::optional<Endpoint> endpoint(std::string_view path) const override;
    std::string_view listed_paths() const override {
        return "POST /v1beta/models/{model}:generateContent and :streamGenerateContent are metered, and :countTokens "
               "and GET /v1beta/models are free";
    }
    bool takes_key_in_query(net::Method) const override { return true; }
    std::string target_for(const ModelRoute& route, const std::string& model) const override;

    Result<CallRequest, std::string> read(const ModelRoute& route, std::string_view body) const override {
        return GenerateRequestReader(route, body).read();
    }
    std::string_view messages_member() const override { return "contents"; }
    void edit(const ModelRoute& route, const CallRequest& request, const Edits& edits, BodyEdit& body) const override;
    net::Header key_header(std::string_view key) const override { return {"x-goog-api-key", std::string(key)}; }

    std::unique_ptr<UsageReader> usage_reader(Operation, KeepText keep) const override {
        return std::make_unique<GenerateUsageReader>(keep);
    }
    bool streams_arrays() const override { return true; }

    std::string error_body(const ErrorFacts& error) const override;
    std::string stream_error(const ErrorFacts& error) const override {
        return fmt::format("data: {}\n\n", error_body(error));
    }

    ProviderHome home() const override {
        return {.provider = "google", .host = "generativelanguage.googleapis.com", .version_path = "/v1beta"};
    }
};

bool Gemini::owns(std::string_view path) const {
    std::string_view rest = path;
    if (take_prefix(rest, "/v1beta") || take_prefix(rest, "/v1alpha")) return true;
    return noun_of(path) == "models" && is_gemini_call(path);
}

std::optional<Endpoint> Gemini::endpoint(std::string_view path) const {
    if (!take_prefix(path, "/v1") && !take_prefix(path, "/v1beta")) return std::nullopt;
    auto endpoint = models_endpoint(path);
    const std::size_t colon = endpoint ? endpoint->model.rfind(':') : std::string::npos;
    if (colon == std::string::npos) return endpoint;

    const std::string action = endpoint->model.substr(colon + 1);
    endpoint->model.resize(colon);
    endpoint->method = net::Method::post;
    endpoint->stream = action == "streamGenerateContent";
    if (endpoint->model.empty()) return std::nullopt;
    if (action == "generateContent" || endpoint->stream)
        endpoint->operation = Operation::generate;
    else if (action == "countTokens")
        endpoint->operation = Operation::count_tokens;
    else
        return std::nullopt;
    return endpoint;
}

std::string Gemini::target_for(const ModelRoute& route, const std::string& model) const {
    constexpr std::string_view folder = "/models/";
    const std::string& target = route.target;
    const std::size_t path_end = std::min(target.find('?'), target.size());
    const std::size_t begin = target.find(folder);
    if (route.model.empty() || begin == std::string::npos || begin > path_end) return target;

    // The model ends at the last colon, which may be encoded; a model's description has none.
    const std::string_view path = std::string_view(target).substr(0, path_end);
    std::size_t end = path_end;
    if (route.operation != Operation::models) {
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

void Gemini::edit(const ModelRoute&, const CallRequest& request, const Edits& edits, BodyEdit& body) const {
    if (!edits.output_max) return;
    const std::string tokens = std::to_string(*edits.output_max);
    const MemberAt& config = request.generation_config_at;
    if (config.empty() || body.is_null(config.value)) {
        body.set_member(body.brace(), config, "generationConfig", fmt::format("{{\"maxOutputTokens\":{}}}", tokens));
        return;
    }
    body.set_member(config.value.begin, request.output_max_at, "maxOutputTokens", tokens);
    body.remove_member(request.output_max_2_at);
}

std::string Gemini::error_body(const ErrorFacts& error) const {
    namespace json = boost::json;
    return json::serialize(json::object{{"error", json::object{{"code", error.status},
                                                               {"message", error.message},
                                                               {"status", gemini_error_status(error.kind)}}}});
}

}  // namespace

const Dialect& gemini() {
    static const Gemini dialect;
    return dialect;
}

}  // namespace interlock::gateway
