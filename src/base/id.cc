#include "base/id.h"

#include <algorithm>
#include <array>

#include "base/sha256.h"

namespace interlock {
namespace {

constexpr std::string_view alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr std::size_t text_length = 26;  // 130 bits; the first character carries only 3 of them.
constexpr std::uint64_t low_variant = 0x8000'0000'0000'0000ull;
constexpr std::uint64_t chosen_bit = 0x4000'0000'0000'0000ull;
constexpr std::uint64_t low_mask = 0x3FFF'FFFF'FFFF'FFFFull;

constexpr std::array<std::int8_t, 256> values_of_alphabet() {
    std::array<std::int8_t, 256> values{};
    values.fill(-1);
    for (std::size_t i = 0; i < alphabet.size(); ++i) {
        values[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
    }
    return values;
}

std::optional<std::uint64_t> hex_value(char c) {
    if (c >= '0' && c <= '9') return static_cast<std::uint64_t>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<std::uint64_t>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return static_cast<std::uint64_t>(c - 'A' + 10);
    return std::nullopt;
}

}  // namespace

Id time_ordered_id(Instant at, std::uint64_t entropy_high, std::uint64_t entropy_low) {
    // 48 bits of milliseconds end in the year 10889; an instant past them would wrap around and sort first.
    const auto millis = static_cast<std::uint64_t>(micros(std::clamp(at, far_past, far_future)) / 1000);
    return {.high = (millis << 16) | 0x7000u | (entropy_high & 0xFFFu), .low = low_variant | (entropy_low & low_mask)};
}

Id id_from_hash(std::string_view text) {
    const Sha256 digest = sha256(text);
    Id id;
    for (std::size_t i = 0; i < 8; ++i) {
        id.high = (id.high << 8) | digest[i];
        id.low = (id.low << 8) | digest[i + 8];
    }
    id.high = (id.high & ~0xF000ull) | 0x8000u;
    id.low = low_variant | (id.low & low_mask);
    return id;
}

Id chosen_id(std::string_view space, std::string_view prefix, std::string_view text) {
    std::string named(space);
    named.append("\n").append(text);
    Id id = id_from_hash(named);
    for (const auto& given : {id_from_text(prefix, text), id_from_uuid(text)}) {
        if (!given || !is_time_ordered(*given)) continue;
        id.high = (given->high & ~0xFFFull) | (id.high & 0xFFFull);
        break;
    }
    id.low |= chosen_bit;
    return id;
}

bool is_time_ordered(Id id) { return (id.high & 0xF000u) == 0x7000u && id < time_ordered_end; }

Instant made_at(Id id) { return from_micros(static_cast<std::int64_t>(id.high >> 16) * 1000); }

std::string to_text(std::string_view prefix, Id id) {
    std::string text;
    text.reserve(prefix.size() + 1 + text_length);
    text.append(prefix).push_back('_');
    auto bits = (static_cast<unsigned __int128>(id.high) << 64) | id.low;
    const std::size_t start = text.size();
    text.resize(start + text_length);
    for (std::size_t i = text_length; i-- > 0; bits >>= 5)
        text[start + i] = alphabet[static_cast<std::size_t>(bits & 31u)];
    return text;
}

std::optional<Id> id_from_text(std::string_view prefix, std::string_view text) {
    static constexpr auto values = values_of_alphabet();
    if (text.size() != prefix.size() + 1 + text_length) return std::nullopt;
    if (!text.starts_with(prefix) || text[prefix.size()] != '_') return std::nullopt;

    const std::string_view digits = text.substr(prefix.size() + 1);
    // 26 characters hold 130 bits: a first digit past 7 would be an id that does not fit.
    if (values[static_cast<unsigned char>(digits[0])] > 7) return std::nullopt;
    unsigned __int128 bits = 0;
    for (const char c : digits) {
        const int value = values[static_cast<unsigned char>(c)];
        if (value < 0) return std::nullopt;
        bits = (bits << 5) | static_cast<unsigned>(value);
    }
    return Id{.high = static_cast<std::uint64_t>(bits >> 64), .low = static_cast<std::uint64_t>(bits)};
}

std::optional<Id> id_from_uuid(std::string_view text) {
    if (text.size() != 36) return std::nullopt;
    unsigned __int128 bits = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool hyphen_here = i == 8 || i == 13 || i == 18 || i == 23;
        if (hyphen_here != (text[i] == '-')) return std::nullopt;
        if (hyphen_here) continue;
        const auto value = hex_value(text[i]);
        if (!value) return std::nullopt;
        bits = (bits << 4) | *value;
    }
    return Id{.high = static_cast<std::uint64_t>(bits >> 64), .low = static_cast<std::uint64_t>(bits)};
}

}  // namespace interlock
