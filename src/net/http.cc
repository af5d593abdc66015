#include "net/http.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace interlock::net {
namespace {

enum class Plus { is_space, is_plus };

std::optional<int> hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return std::nullopt;
}

// The length of the character that begins the text, or 0: overlong forms, surrogates and what lies past U+10FFFF are
// not UTF-8.
std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
    if (byte(0) < 0x80) return 1;
    if (byte(0) >= 0xC2 && byte(0) <= 0xDF) return follows(1) ? 2 : 0;
    if (byte(0) >= 0xE0 && byte(0) <= 0xEF) {
        const bool overlong = byte(0) == 0xE0 && byte(1) < 0xA0;
        const bool surrogate = byte(0) == 0xED && byte(1) > 0x9F;
        return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
    }
    if (byte(0) >= 0xF0 && byte(0) <= 0xF4) {
        const bool overlong = byte(0) == 0xF0 && byte(1) < 0x90;
        const bool past_the_end = byte(0) == 0xF4 && byte(1) > 0x8F;
        return follows(1) && follows(2) && follows(3) && !overlong && !past_the_end ? 4 : 0;
    }
    return 0;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::optional<std::string> percent_decode(std::string_view text, Plus plus) {
    std::string decoded;
    decoded.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '+' && plus == Plus::is_space) {
            decoded.push_back(' ');
        } else if (text[i] != '%') {
            decoded.push_back(text[i]);
        } else {
            const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
            const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
            if (!high || !low) return std::nullopt;
            decoded.push_back(static_cast<char>(*high * 16 + *low));
            i += 2;
        }
    }
    if (decoded.find('\0') != std::string::npos || !is_utf8(decoded)) return std::nullopt;
    return decoded;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

void append_json_string(std::string& json, std::string_view text) {
    static constexpr std::string_view digits = "0123456789abcdef";
    json.push_back('"');
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        const char c = text.front();
        if (length == 0) {
            json.append("\\ufffd");
        } else if (c == '"' || c == '\\') {
            json.append({'\\', c});
        } else if (is_control(c)) {
            const auto code = static_cast<unsigned char>(c);
            json.append("\\u00").append({digits[code / 16u], digits[code % 16u]});
        } else {
            json.append(text.substr(0, length));
        }
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    json.push_back('"');
}

}  // namespace

std::string_view name_of(Method method) {
    static constexpr std::array<std::string_view, 8> names{"GET",   "HEAD",   "POST",    "PUT",
                                                           "PATCH", "DELETE", "OPTIONS", "CONNECT"};
    return names[static_cast<std::size_t>(method)];
}

std::string_view find_header(const std::vector<Header>& headers, std::string_view lower_case_name) {
    const auto found = std::ranges::find(headers, lower_case_name, &Header::name);
    return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

bool is_header_name(std::string_view text) {
    static constexpr std::array<bool, 256> allowed = [] {
        std::array<bool, 256> table{};
        for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~")) {
            table[static_cast<unsigned char>(c)] = true;
        }
        return table;
    }();
    return !text.empty() && std::ranges::all_of(text, [](char c) { return allowed[static_cast<unsigned char>(c)]; });
}

bool is_header_value(std::string_view text) {
    return std::ranges::none_of(text, [](char c) { return is_control(c) && c != '\t'; });
}

Response problem(int status, std::string_view code, std::string_view detail) {
    Response response;
    response.status = status;
    response.content_type = "application/problem+json";
    response.inert = true;
    std::string& json = response.body;
    json.append(R"({"type":"about:blank","title":)");
    append_json_string(json, reason_of(status));
    json.append(R"(,"status":)").append(std::to_string(status));
    json.append(R"(,"code":)");
    append_json_string(json, code);
    json.append(R"(,"detail":)");
    append_json_string(json, detail);
    json.append("}");
    return response;
}

std::string_view reason_of(int status) {
    static constexpr std::array<std::pair<int, std::string_view>, 38> reasons{{
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {423, "Locked"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    }};
    const auto found = std::ranges::find(reasons, status, &std::pair<int, std::string_view>::first);
    return found == reasons.end() ? "Unknown" : found->second;
}

std::optional<std::vector<std::string>> path_segments(std::string_view path) {
    if (!path.starts_with('/')) return std::nullopt;
    path.remove_prefix(1);
    if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    std::vector<std::string> segments;
    while (!path.empty()) {
        const std::size_t slash = path.find('/');
        auto segment = percent_decode(path.substr(0, slash), Plus::is_plus);
        if (!segment || segment->empty() || *segment == "." || *segment == "..") return std::nullopt;
        if (std::ranges::any_of(*segment, is_control)) return std::nullopt;
        segments.push_back(std::move(*segment));
        if (slash == std::string_view::npos) break;
        path.remove_prefix(slash + 1);
        if (path.empty()) return std::nullopt;  // "/a//": the last segment is empty.
    }
    return segments;
}

std::optional<std::vector<std::pair<std::string, std::string>>> query_pairs(std::string_view query) {
    std::vector<std::pair<std::string, std::string>> pairs;
    while (!query.empty()) {
        const std::size_t end = query.find('&');
        const std::string_view part = query.substr(0, end);
        const std::size_t equals = part.find('=');
        const bool has_value = equals != std::string_view::npos;
        auto name = percent_decode(part.substr(0, equals), Plus::is_space);
        auto value = percent_decode(has_value ? part.substr(equals + 1) : std::string_view(), Plus::is_space);
        if (!name || !value || name->empty()) return std::nullopt;
        pairs.emplace_back(std::move(*name), std::move(*value));
        query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
    }
    return pairs;
}

}  // namespace interlock::net
