// What is new in a request, for sessions that keep what was said.
#include <fmt/format.h>

#include "gateway/call_request.h"
#include "gateway/dialect.h"
#include "gateway/json_reader.h"

namespace interlock::gateway {
namespace {

class ChatMessageReader {
 public:
    ChatMessageReader(const ModelRoute& route, std::string_view body, std::size_t bytes_max)
        : route_(route), body_(body), json_(body), bytes_max_(bytes_max), bytes_left_(bytes_max) {}

    std::vector<ChatMessage> read();

 private:
    void message();
    // Adds the text of the content that comes next to `text`; what is more than text is said apart or in JSON.
    void content(std::string& text);
    void part(std::string& text);
    void say(std::string role, std::string_view text);

    const ModelRoute& route_;
    const std::string_view body_;
    JsonReader json_;
    const std::size_t bytes_max_;
    std::size_t bytes_left_;
    std::vector<ChatMessage> said_;
};

std::vector<ChatMessage> ChatMessageReader::read() {
    const std::string_view list = route_.dialect().messages_member();
    json_.each_member([&](std::string_view key) {
        if (key != list) return;
        if (json_.kind() == JsonKind::array) {
            json_.each_element([&] { message(); });
        } else if (json_.kind() == JsonKind::object) {
            message();
        } else if (const auto text = json_.string(bytes_max_)) {
            say("user", *text);
        }
    });
    return std::move(said_);
}

// Tools' answers, by whatever name, and what the assistant itself has said or called, are told apart by role or type.
std::string role_of(std::string_view role, std::string_view type) {
    if (role == "model") return "assistant";
    if (role == "developer") return "system";
    if (role == "function") return "tool";
    if (!role.empty()) return std::string(role);
    if (type.ends_with("_output")) return "tool";
    return type.empty() || type == "message" ? "user" : "assistant";
}

void ChatMessageReader::message() {
    if (json_.kind() == JsonKind::string) return say("user", json_.string(bytes_max_).value_or(""));
    if (json_.kind() != JsonKind::object) return;
    std::string role;
    std::string type;
    std::string text;
    const std::size_t said_before = said_.size();
    json_.each_member([&](std::string_view key) {
        if (key == "role")
            role = json_.string(64).value_or("");
        else if (key == "type")
            type = json_.string(64).value_or("");
        else if (key == "content" || key == "parts" || key == "output")
            content(text);
    });
    role = role_of(role, type);
    if (role == "assistant") {
        // Everything up to here was said before this request.
        said_.clear();
        bytes_left_ = bytes_max_;
        return;
    }
    // Gemini has the answers of tools said by the user.
    if (!text.empty() || said_.size() == said_before) say(std::move(role), text);
}

void ChatMessageReader::content(std::string& text) {
    if (json_.kind() == JsonKind::array) {
        json_.each_element([&] { part(text); });
    } else if (json_.kind() == JsonKind::object) {
        part(text);
    } else if (json_.kind() == JsonKind::string) {
        text.append(json_.string(bytes_max_).value_or(""));
    }
}

void ChatMessageReader::part(std::string& text) {
    if (json_.kind() != JsonKind::object) return content(text);
    const auto add = [&](std::string_view more) {
        if (!text.empty()) text.push_back('\n');
        text.append(more);
    };
    std::string type;
    std::string words;
    std::string answer;
    bool has_words = false;
    bool answers = false;
    std::string_view carries;
    const std::size_t begin = json_.at();
    json_.each_member([&](std::string_view key) {
        if (key == "type") {
            type = json_.string(64).value_or("");
        } else if (key == "text" && json_.kind() == JsonKind::string) {
            words = json_.string(bytes_max_).value_or("");
            has_words = true;
        } else if (key == "content") {
            content(answer);
        } else if (key == "functionResponse" || key == "function_response") {
            answer = cut_to(json_.skip(), bytes_max_);
            answers = true;
        } else if (key == "inlineData" || key == "inline_data" || key == "fileData" || key == "file_data") {
            carries = "file";
        }
    });
    if (type == "tool_result" || answers) return say("tool", answer);
    if (has_words) return add(words);
    // What was shown is named, not kept: it may be large, and the provider has seen it.
    for (const std::string_view shown :
         {"image", "image_url", "input_image", "document", "file", "input_file", "input_audio"}) {
        if (type == shown) carries = shown;
    }
    if (!carries.empty()) return add(fmt::format("[{}]", carries));
    add(cut_to(body_.substr(begin, json_.at() - begin), bytes_max_));
}

void ChatMessageReader::say(std::string role, std::string_view text) {
    if (bytes_left_ == 0) return;
    text = cut_to(text, bytes_left_);
    bytes_left_ -= text.size();
    said_.push_back({.role = std::move(role), .content = std::string(text)});
}

}  // namespace

std::vector<ChatMessage> new_messages(const ModelRoute& route, std::string_view body, std::size_t bytes_max) {
    return ChatMessageReader(route, body, bytes_max).read();
}

}  // namespace interlock::gateway
