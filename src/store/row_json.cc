#include "store/row_json.h"

namespace interlock::store {
namespace {

constexpr char lower_hex[] = "0123456789abcdef";

bool hex_value(char c, std::uint32_t& value) {
    if (c >= '0' && c <= '9') return value = static_cast<std::uint32_t>(c - '0'), true;
    if (c >= 'a' && c <= 'f') return value = static_cast<std::uint32_t>(c - 'a') + 10, true;
    if (c >= 'A' && c <= 'F') return value = static_cast<std::uint32_t>(c - 'A') + 10, true;
    return false;
}

void append_utf8(std::string& text, std::uint32_t point) {
    const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
    if (point < 0x80) return add(point);
    if (point < 0x800) return add(0xC0 | point >> 6), add(0x80 | (point & 0x3F));
    if (point < 0x10000) return add(0xE0 | point >> 12), add(0x80 | (point >> 6 & 0x3F)), add(0x80 | (point & 0x3F));
    add(0xF0 | point >> 18), add(0x80 | (point >> 12 & 0x3F)), add(0x80 | (point >> 6 & 0x3F)),
        add(0x80 | (point & 0x3F));
}

}  // namespace

void write_json_text(std::string& out, std::string_view text) {
    out += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte < 0x20) {
            out += "\\u00";
            out += lower_hex[byte >> 4];
            out += lower_hex[byte & 15];
        } else {
            out += c;
        }
    }
    out += '"';
}

void write_json_id(std::string& out, Id id) {
    out += '"';
    for (const std::uint64_t half : {id.high, id.low}) {
        for (int shift = 60; shift >= 0; shift -= 4) out += lower_hex[half >> shift & 15];
    }
    out += '"';
}

void RowJsonReader::skip_blanks() {
    while (!in_.empty() && (in_.front() == ' ' || in_.front() == '\n' || in_.front() == '\t' || in_.front() == '\r')) {
        in_.remove_prefix(1);
    }
}

bool RowJsonReader::take(char c) {
    skip_blanks();
    if (in_.empty() || in_.front() != c) return false;
    in_.remove_prefix(1);
    return true;
}

bool RowJsonReader::get_text(std::string& text) {
    text.clear();
    if (!take('"')) return false;
    while (!in_.empty()) {
        const std::size_t plain = in_.find_first_of("\"\\");
        if (plain == std::string_view::npos) return false;
        text.append(in_.substr(0, plain));
        const char end = in_[plain];
        in_.remove_prefix(plain + 1);
        if (end == '"') return true;
        if (!get_escape(text)) return false;
    }
    return false;
}

bool RowJsonReader::get_escape(std::string& text) {
    if (in_.empty()) return false;
    const char c = in_.front();
    in_.remove_prefix(1);
    constexpr std::string_view names = "\"\\/bfnrt";
    constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
    if (const auto found = names.find(c); found != std::string_view::npos) return text += meant[found], true;
    if (c != 'u') return false;

    std::uint32_t point = 0;
    if (!get_code_unit(point)) return false;
    if (point >= 0xD800 && point < 0xDC00) {  // The first half of a pair; our own writer makes none, other tools do.
        std::uint32_t low = 0;
        if (!in_.starts_with("\\u")) return false;
        in_.remove_prefix(2);
        if (!get_code_unit(low) || low < 0xDC00 || low > 0xDFFF) return false;
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(text, point);
    return true;
}

bool RowJsonReader::get_code_unit(std::uint32_t& unit) {
    if (in_.size() < 4) return false;
    unit = 0;
    for (int i = 0; i < 4; ++i) {
        std::uint32_t digit = 0;
        if (!hex_value(in_[static_cast<std::size_t>(i)], digit)) return false;
        unit = unit << 4 | digit;
    }
    in_.remove_prefix(4);
    return true;
}

bool RowJsonReader::get_id(Id& id) {
    std::string text;
    if (!get_text(text) || text.size() != 32) return false;
    id = {};
    for (std::size_t i = 0; i < 32; ++i) {
        std::uint32_t digit = 0;
        if (!hex_value(text[i], digit)) return false;
        std::uint64_t& half = i < 16 ? id.high : id.low;
        half = half << 4 | digit;
    }
    return true;
}

}  // namespace interlock::store
