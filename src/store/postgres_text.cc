#include "store/postgres_text.h"

#include <cstddef>
#include <cstdint>

namespace interlock::store {
namespace {

constexpr char mark = '\x7f';
constexpr std::string_view hex_digits = "0123456789abcdef";

// How many bytes the character at the front has; 0 where no valid one begins (RFC 3629).
std::size_t character_bytes(std::string_view text) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
        return byte(i) >= low && byte(i) <= high;
    };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
    if (first >= 0xE0 && first <= 0xEF) {
        // Neither what two bytes could say, nor half of a pair of UTF-16.
        const bool good = follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2);
        return good ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        const bool good =
            follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) && follows(3);
        return good ? 4 : 0;
    }
    return 0;
}

int hex_value(char c) {
    const auto found = hex_digits.find(c);
    return found == std::string_view::npos ? -1 : static_cast<int>(found);
}

}  // namespace

bool is_plain_text(std::string_view text) {
    bool plain = true;
    bool ascii = true;
    for (const char c : text) {  // Without a branch, so that many bytes are looked at at once.
        plain &= c != '\0' && c != mark;
        ascii &= c >= 0;
    }
    if (ascii || !plain) return plain;
    for (std::size_t bytes = 0; !text.empty(); text.remove_prefix(bytes)) {
        bytes = character_bytes(text);
        if (bytes == 0) return false;
    }
    return true;
}

void append_escaped(std::string& out, std::string_view text) {
    while (!text.empty()) {
        const std::size_t bytes = character_bytes(text);
        if (bytes > 0 && text[0] != '\0' && text[0] != mark) {
            out.append(text, 0, bytes);
            text.remove_prefix(bytes);
            continue;
        }
        const auto byte = static_cast<unsigned char>(text[0]);
        out += {mark, hex_digits[byte >> 4], hex_digits[byte & 15]};
        text.remove_prefix(1);
    }
}

std::string unescaped(std::string_view text) {
    std::string out;
    for (;;) {
        const std::size_t at = text.find(mark);
        out.append(text, 0, at);
        if (at == std::string_view::npos) return out;
        text.remove_prefix(at);
        const int high = text.size() > 2 ? hex_value(text[1]) : -1;
        const int low = text.size() > 2 ? hex_value(text[2]) : -1;
        const bool ours = high >= 0 && low >= 0;
        out += ours ? static_cast<char>(high * 16 + low) : mark;
        text.remove_prefix(ours ? 3 : 1);
    }
}

}  // namespace interlock::store
