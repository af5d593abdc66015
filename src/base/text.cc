#include "base/text.h"

#include <cstdint>
#include <cstring>

namespace interlock {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD.

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

// The length of the character at the beginning, 1 to 4; 0 where there is none.
std::size_t character_length(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x80) return 1;
    const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length == 0 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if (!is_continuation(text[i])) return 0;
    }
    const auto second = static_cast<unsigned char>(text[1]);
    if (first == 0xE0 && second < 0xA0) return 0;   // Overlong.
    if (first == 0xED && second >= 0xA0) return 0;  // A surrogate.
    if (first == 0xF0 && second < 0x90) return 0;   // Overlong.
    if (first == 0xF4 && second >= 0x90) return 0;  // Past U+10FFFF.
    return length;
}

// How many bytes at the beginning are ASCII, counted in steps of eight.
std::size_t ascii_bytes(std::string_view text) {
    std::size_t at = 0;
    for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
        std::memcpy(&word, text.data() + at, sizeof word);
        if ((word & 0x8080'8080'8080'8080ull) != 0) break;
    }
    return at;
}

// Whether the character is one that is_line() refuses.
bool is_control(std::string_view character) {
    const auto first = static_cast<unsigned char>(character[0]);
    if (character.size() == 1) return first < 0x20 || first == 0x7F;
    if (character.size() == 2) return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
    if (character.size() != 3 || first != 0xE2) return false;
    const auto third = static_cast<unsigned char>(character[2]);
    if (character[1] == '\x80') return third >= 0xA8 && third <= 0xAE;
    return character[1] == '\x81' && third >= 0xA6 && third <= 0xA9;
}

// Whether all eight bytes are from 0x20 to 0x7E. A byte that is not sets the high bit of its own place in one of the
// three; carries and borrows come only from such bytes.
bool is_plain_word(std::uint64_t word) {
    return ((word | (word + 0x0101'0101'0101'0101ull) | (word - 0x2020'2020'2020'2020ull)) &
            0x8080'8080'8080'8080ull) == 0;
}

// Labels are checked in every command, and are short: no byte is looked at alone.
bool is_plain(std::string_view text) {
    std::uint64_t word = 0x2020'2020'2020'2020ull;
    if (text.size() < sizeof word) {
        std::memcpy(&word, text.data(), text.size());
        return is_plain_word(word);
    }
    for (std::size_t at = 0; at + sizeof word <= text.size(); at += sizeof word) {
        std::memcpy(&word, text.data() + at, sizeof word);
        if (!is_plain_word(word)) return false;
    }
    std::memcpy(&word, text.data() + text.size() - sizeof word, sizeof word);  // The rest, and some of it again.
    return is_plain_word(word);
}

}  // namespace

bool is_utf8(std::string_view text) {
    while (true) {
        text.remove_prefix(ascii_bytes(text));
        if (text.empty()) return true;
        // To the end of what the step of eight stopped at.
        for (std::size_t end = text.size() > 8 ? text.size() - 8 : 0; !text.empty() && text.size() > end;) {
            const std::size_t length = character_length(text);
            if (length == 0) return false;
            text.remove_prefix(length);
        }
    }
}

bool is_line(std::string_view text) {
    if (is_plain(text)) return true;
    while (!text.empty()) {
        const std::size_t length = character_length(text);
        if (length == 0 || is_control(text.substr(0, length))) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string as_utf8(std::string_view text) {
    if (is_utf8(text)) return std::string(text);
    std::string good;
    good.reserve(text.size() + 16);
    while (!text.empty()) {
        const std::size_t length = character_length(text);
        good += length == 0 ? replacement : text.substr(0, length);
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return good;
}

std::string as_line(std::string_view text) {
    if (is_line(text)) return std::string(text);
    std::string line;
    while (!text.empty()) {
        const std::size_t length = character_length(text);
        const std::string_view character = text.substr(0, length == 0 ? 1 : length);
        const bool blank = character == "\n" || character == "\r" || character == "\t";
        line += blank ? " " : length == 0 || is_control(character) ? replacement : character;
        text.remove_prefix(character.size());
    }
    return line;
}

std::string cut_text(std::string text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return text;
    std::size_t end = bytes_max;
    while (end > 0 && is_continuation(text[end])) --end;
    text.resize(end);
    return text;
}

}  // namespace interlock
