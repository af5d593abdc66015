#include "gateway/call_request.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <simdjson.h>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

#include "base/text.h"
#include "gateway/call_request_reader.h"
#include "gateway/dialect.h"

namespace interlock::gateway {
namespace {

constexpr std::size_t name_bytes_max = 256;
// More than any model makes, little enough that sums and products of a few of them fit.
constexpr std::int64_t asked_tokens_max = INT32_MAX;

// Members whose value stands for what the provider has or gets from somewhere.
constexpr std::array<std::string_view, 7> of_a_medium_elsewhere{"file_id",      "file_url",  "fileUri",  "file_uri",
                                                                "document_url", "video_url", "audio_url"};

bool is_among(std::string_view word, std::span<const std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
}

// Whether all that a model reads of a part of this type is in the request. Parts without a type are text.
bool is_of_text(std::string_view type) {
    static constexpr std::array<std::string_view, 10> types{
        "",           "text",      "refusal",   "thinking",      "redacted_thinking", "search_result",
        "compaction", "reference", "reasoning", "tool_reference"};
    static constexpr std::array<std::string_view, 6> endings{"_text", "_use", "_result", "_error", "_call", "_output"};
    return is_among(type, types) ||
           std::ranges::any_of(endings, [&](std::string_view ending) { return type.ends_with(ending); });
}

}  // namespace

std::string edited(const ModelRoute& route, std::string_view body, const CallRequest& request, const Edits& edits) {
    BodyEdit edit(body);
    if (edits.model && !request.model_at.empty()) {
        edit.replace(request.model_at, boost::json::serialize(boost::json::string(*edits.model)));
    }
    route.dialect().edit(route, request, edits, edit);
    return std::move(edit).result();
}

Result<CallRequest, std::string> read_call_request(const ModelRoute& route, std::string_view body) {
    if (route.operation == Operation::models) return CallRequest{.model = route.model};
    if (!simdjson::validate_utf8(body.data(), body.size())) return fail(std::string("The body is not UTF-8."));
    return route.dialect().read(route, body);
}

Result<CallRequest, std::string> CallRequestReader::read() {
    request_.model = route_.model;
    request_.stream = route_.stream;
    if (json_.kind() != JsonKind::object) return fail(std::string("The body is not a JSON object."));
    json_.each_member([&](std::string_view key) {
        MemberAt at = member_at();
        read_member(key);
        if (json_.failed()) return;
        at.value.end = json_.at();
        note_for_prompt(key, {.begin = at.name.begin, .end = at.value.end},
                        body_.substr(at.value.begin, at.value.end - at.value.begin));
    });
    if (!json_.failed() && !json_.finished()) return fail(std::string("The body has more in it than one JSON object."));
    if (json_.failed()) return fail(fmt::format("The body {} (byte {}).", json_.why(), json_.at()));
    refuse_what_is_missing();
    complete();
    if (!problem_.empty()) return fail(problem_);

    const Counted all = counted_so_far();
    request_.input_bytes = all.input_bytes;
    request_.images = all.images;
    request_.files = all.files;
    request_.file_bytes = all.file_bytes;
    // An image by address has a greatest cost; a document has none.
    request_.input_elsewhere = request_.input_elsewhere || (sources_by_address_ && request_.files > 0);
    // A model whose name says that it makes images does so unasked.
    const bool makes_images = request_.makes_output && request_.model.find("-image") != std::string::npos;
    request_.image_output = request_.image_output || makes_images;
    return std::move(request_);
}

void CallRequestReader::read_member(std::string_view key) {
    if (key != "model" || !traits_.names_model) return member(key);
    request_.model_at.begin = json_.at();
    request_.model = json_.string(name_bytes_max + 1).value_or("");
    request_.model_at.end = json_.at();
}

// What is held and metered is the one model that the request names, at the upstream's provider and with its key.
bool CallRequestReader::is_for_a_router(std::string_view key) {
    for (const std::string_view known :
         {"models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "model_list"}) {
        if (key != known) continue;
        if (!null_or_absent())
            refuse(fmt::format("`{}` is not passed on: a call is priced by the one model that it names.", key));
        return true;
    }
    for (const std::string_view known : {"api_base", "base_url", "api_key"}) {
        if (key != known) continue;
        if (!null_or_absent())
            refuse(
                fmt::format("`{}` is not passed on: the upstream's setting says where a call goes and who pays.", key));
        return true;
    }
    return false;
}

void CallRequestReader::refuse_what_is_missing() {
    const bool printable = is_line(request_.model);
    if (request_.model.empty()) return refuse("The body does not name a model: `model` must be a string.");
    if (request_.model.size() > name_bytes_max || !printable) return refuse("`model` is not the name of a model.");
}

Counted CallRequestReader::counted_so_far() const {
    Counted counted = counted_;
    // Behind the last member this is the whole body.
    const std::size_t behind = json_.at();
    counted.input_bytes = static_cast<std::int64_t>(behind) - counted_.input_bytes;
    return counted;
}

void CallRequestReader::messages(std::string_view name) {
    if (json_.kind() != JsonKind::array) return look(name);
    request_.messages_begin = json_.at();
    json_.each_element([&] {
        look(name);
        if (json_.failed()) return;
        request_.boundaries.push_back(json_.at());
        request_.counted.push_back(counted_so_far());
    });
}

// ---- what may stand anywhere ----------------------------------------------------------------------------------------

// What is known of an object while it is read: its members come in any order.
struct CallRequestReader::Part {
    std::string type = {};
    bool has_role = false;
    bool image_type = false;  // By every media_type and mimeType that it has.
    bool has_media_type = false;
    std::int64_t encoded_bytes = 0;  // Of the member that holds a file in base64.
};

void CallRequestReader::look(std::string_view name) {
    switch (json_.kind()) {
        case JsonKind::object:
            return look_at_object(name);
        case JsonKind::array:
            json_.each_element([&] { look(name); });
            return;
        default:
            json_.skip();
    }
}

void CallRequestReader::look_at_object(std::string_view name) {
    Part part;
    json_.each_member([&](std::string_view key) { look_at_member(name, key, part); });
    count(name, part);
}

// The name of an object decides what its members are: {"source": {"data": …}} is Anthropic's way to send a file,
// {"inlineData": {"data": …}} Gemini's, and so on. A part that has such a member and is none of these is refused by
// every provider, or the member is not read at all.
void CallRequestReader::look_at_member(std::string_view name, std::string_view key, Part& part) {
    const auto is = [&](std::string_view an_object, std::string_view a_member) {
        return name == an_object && key == a_member;
    };
    if (key == "type") {
        part.type = word();
    } else if (key == "media_type" || key == "mimeType" || key == "mime_type") {
        // Stated in two spellings, it is not known which one counts: an image is the cheaper of both.
        const bool image = word().starts_with("image/");
        part.image_type = image && (part.image_type || !part.has_media_type);
        part.has_media_type = true;
    } else if (key == "cache_control") {
        cache_control();
    } else if (is_among(key, of_a_medium_elsewhere) || is("audio", "id")) {
        elsewhere();
    } else if (is("source", "data") || is("inlineData", "data") || is("inline_data", "data") ||
               is("input_audio", "data") || (key == "file_data" && json_.kind() == JsonKind::string)) {
        const auto data = json_.raw_string();
        part.encoded_bytes = static_cast<std::int64_t>(data ? data->size() : 0);
    } else if (is("image_url", "url") || (key == "image_url" && json_.kind() == JsonKind::string)) {
        const auto address = json_.raw_string();
        if (address && address->starts_with("data:"))
            counted_.input_bytes += static_cast<std::int64_t>(address->size());
        else
            request_.count_varies = true;  // Tomorrow another picture may be there.
    } else if (is_opaque(key)) {
        json_.skip();
    } else {
        part.has_role = part.has_role || key == "role";
        look(key);
    }
}

void CallRequestReader::count(std::string_view name, const Part& part) {
    static constexpr std::array<std::string_view, 5> images{"image", "image_url", "input_image", "computer_screenshot",
                                                            "image_generation_call"};
    static constexpr std::array<std::string_view, 5> files{"document", "file", "input_file", "input_audio",
                                                           "container_upload"};
    // OpenAI lets the type of a reference be left out: {"id": "msg_1"}.
    const bool is_short_reference =
        traits_.has_short_references && name == traits_.messages_member && part.type.empty() && !part.has_role;
    const bool gemini_part = name == "inlineData" || name == "inline_data";
    if (name == "fileData" || name == "file_data") ++counted_.files;
    if (gemini_part) ++(part.image_type ? counted_.images : counted_.files);
    if (name == "source") {
        sources_by_address_ = sources_by_address_ || part.type == "url";
        request_.count_varies = request_.count_varies || part.type != "base64";
        if (part.type != "base64") return;
    } else if (is_among(part.type, images)) {
        ++counted_.images;
    } else if (is_among(part.type, files)) {
        ++counted_.files;
    } else if (part.type == "item_reference" || is_short_reference) {
        request_.input_elsewhere = true;
    } else if ((name == "content" || name == "output") && !is_of_text(part.type)) {
        // A film by its address, for example. What it costs is not in the request.
        ++counted_.files;
        request_.input_elsewhere = true;
    }
    // A provider that shortens the conversation on the way runs a model over it once more.
    if ((name == "edits" || name == "context_management") && part.type.starts_with("compact")) ++request_.rounds;
    counted_.input_bytes += part.encoded_bytes;
    if (!part.image_type) counted_.file_bytes += part.encoded_bytes;
}

void CallRequestReader::cache_control() {
    if (null_or_absent()) return;
    if (json_.kind() != JsonKind::object) return look({});
    CacheWrite kind = CacheWrite::five_minutes;
    json_.each_member([&](std::string_view key) {
        if (key == "ttl" && word() == "1h") kind = CacheWrite::one_hour;
    });
    request_.cache_write = std::max(request_.cache_write, kind);
}

bool CallRequestReader::is_opaque(std::string_view key) const { return is_among(key, traits_.opaque); }

// ---- single values --------------------------------------------------------------------------------------------------

bool CallRequestReader::null_or_absent() {
    if (json_.kind() != JsonKind::null) return false;
    json_.skip();
    return true;
}

std::string_view CallRequestReader::word() {
    word_ = json_.string(name_bytes_max).value_or("");
    return word_;
}

std::optional<std::int64_t> CallRequestReader::whole(std::string_view name, std::int64_t least) {
    if (null_or_absent()) return std::nullopt;
    const auto number = json_.whole_number();
    if (!number || *number < least || *number > asked_tokens_max) {
        refuse(fmt::format("`{}` must be a whole number of at least {}.", name, least));
        return std::nullopt;
    }
    return number;
}

// A limit that is null is not stated. Its place is kept all the same: what we set replaces it.
void CallRequestReader::output_max(std::string_view name) {
    MemberAt& at = request_.output_max_at.empty() ? request_.output_max_at : request_.output_max_2_at;
    at = member_at();
    const auto tokens = whole(name, 1);
    at.value.end = json_.at();
    if (!tokens) return;
    if (request_.output_max)
        return refuse(fmt::format("`{}` and `{}` are stated both: one of them must go.", limit_, name));
    limit_ = name;
    request_.output_max = tokens;
}

MemberAt CallRequestReader::member_at() {
    return {.name = {.begin = json_.name_begin(), .end = json_.name_end()},
            .value = {.begin = json_.at(), .end = json_.at()}};
}

void CallRequestReader::flag(std::string_view name, bool& value) {
    if (null_or_absent()) return;
    const auto stated = json_.boolean();
    if (!stated) return refuse(fmt::format("`{}` must be true or false.", name));
    value = *stated;
}

void CallRequestReader::response_modalities() {
    if (json_.kind() != JsonKind::array) return json_.skip(), void();
    const auto is = [](std::string_view word, std::string_view wanted) {
        return std::ranges::equal(word, wanted, [](char a, char b) { return (a | 0x20) == b; });
    };
    json_.each_element([&] {
        const std::string_view each = word();
        request_.audio_output = request_.audio_output || is(each, "audio");
        request_.image_output = request_.image_output || is(each, "image");
    });
}

void CallRequestReader::elsewhere() {
    if (null_or_absent()) return;
    request_.input_elsewhere = true;
    look({});
}

void CallRequestReader::refuse(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
}

}  // namespace interlock::gateway
