// Bytes for described structs: one description gives encoding and decoding.
//
// The form: integers seven bits at a time, low bits first, the high bit of a byte saying that more follow (signed ones
// zigzag first); bool and enums as one byte; ids as a byte that says whether one is stated, then its 16 bytes, high end
// first; text as its length and its bytes; optional as a byte and the value; lists and maps as their length and their
// elements; structs as their members in order; variants as the index and the value. New members go at the end of the
// outermost struct: a decoder that meets the end of the bytes leaves the rest at its defaults, so old bytes stay
// readable. A struct with something behind it, such as an element of a list, cannot grow: its end is nowhere written
// down.
//
// Decoding trusts no byte: numbers fit their type and have no needless bytes, enumerators and alternatives exist, the
// keys of a map rise, and no length reserves memory that the bytes behind it do not account for.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/enum_names.h"
#include "base/id.h"
#include "base/instant.h"
#include "base/money.h"
#include "base/strong.h"
#include "base/variant.h"

namespace interlock {

// `Out` has push_back(char), append(bytes, size) and append(text), like a string.
template <class Out>
class BasicEncoder {
 public:
    explicit BasicEncoder(Out& out) : out_(out) {}

    template <class T>
    void put(const T& value);

 private:
    void put_u64(std::uint64_t bits) {
        if (bits < 0x80) return out_.push_back(static_cast<char>(bits));
        char bytes[10];
        std::size_t size = 0;
        for (; bits >= 0x80; bits >>= 7) bytes[size++] = static_cast<char>(bits | 0x80);
        bytes[size++] = static_cast<char>(bits);
        out_.append(bytes, size);
    }
    void put_id(const Id& id) {
        const std::uint64_t halves[] = {__builtin_bswap64(id.high), __builtin_bswap64(id.low)};
        char bytes[1 + sizeof halves] = {1};
        std::memcpy(bytes + 1, halves, sizeof halves);
        out_.append(bytes, sizeof bytes);
    }
    Out& out_;
};
using Encoder = BasicEncoder<std::string>;

class Decoder {
 public:
    explicit Decoder(std::string_view in) : in_(in) {}

    // False when the bytes are not an encoding of T. At the end of the input `value` keeps its default.
    template <class T>
    bool get(T& value);
    bool at_end() const { return in_.empty(); }

 private:
    bool get_u64(std::uint64_t& bits) {
        bits = 0;
        for (unsigned shift = 0; shift < 64 && !in_.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(in_.front());
            in_.remove_prefix(1);
            if (shift == 63 && byte > 1) return false;
            if (shift > 0 && byte == 0) return false;  // One number has one form.
            bits |= static_cast<std::uint64_t>(byte & 0x7Fu) << shift;
            if (byte < 0x80) return true;
        }
        return false;
    }
    bool get_fixed(std::uint64_t& bits) {
        if (in_.size() < sizeof bits) return false;
        std::memcpy(&bits, in_.data(), sizeof bits);
        bits = __builtin_bswap64(bits);
        in_.remove_prefix(sizeof bits);
        return true;
    }
    bool get_length(std::uint64_t& length) { return get_u64(length) && length <= in_.size(); }
    std::string_view in_;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ids are turned around on the way out");

namespace codec_detail {
template <class T>
struct IsStrong : std::false_type {};
template <class Tag, class V>
struct IsStrong<Strong<Tag, V>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class V>
struct IsOptional<std::optional<V>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class V>
struct IsVector<std::vector<V>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class K, class V>
struct IsMap<std::map<K, V>> : std::true_type {};

template <class T>
using MembersOf = boost::describe::describe_members<T, boost::describe::mod_any_access>;

template <class Enum>
bool is_enumerator(unsigned char byte) {
    return find_enum_value(enum_names<Enum>, byte) != nullptr;
}
}  // namespace codec_detail

template <class Out>
template <class T>
void BasicEncoder<Out>::put(const T& value) {
    using namespace codec_detail;
    if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
        out_.push_back(static_cast<char>(value));
    } else if constexpr (std::is_unsigned_v<T>) {
        put_u64(value);
    } else if constexpr (std::is_integral_v<T>) {
        const auto wide = static_cast<std::int64_t>(value);
        put_u64((static_cast<std::uint64_t>(wide) << 1) ^ static_cast<std::uint64_t>(wide >> 63));
    } else if constexpr (std::is_same_v<T, std::string>) {
        put_u64(value.size());
        out_.append(value);
    } else if constexpr (std::is_same_v<T, Instant>) {
        put(micros(value));
    } else if constexpr (std::is_same_v<T, Money>) {
        put(value.nanos());
    } else if constexpr (std::is_same_v<T, Id>) {
        // Most ids in the feed are those of a hold, run or session that there is not.
        if (value.empty()) return out_.push_back('\0');
        put_id(value);
    } else if constexpr (IsStrong<T>::value) {
        put(value.value);
    } else if constexpr (IsOptional<T>::value) {
        put(value.has_value());
        if (value) put(*value);
    } else if constexpr (IsVector<T>::value) {
        put_u64(value.size());
        for (const auto& element : value) put(element);
    } else if constexpr (IsMap<T>::value) {
        put_u64(value.size());
        for (const auto& [key, mapped] : value) {
            put(key);
            put(mapped);
        }
    } else if constexpr (IsVariant<T>) {
        out_.push_back(static_cast<char>(value.index()));
        std::visit([this](const auto& alternative) { this->put(alternative); }, value);
    } else {
        boost::mp11::mp_for_each<MembersOf<T>>([&](auto member) { put(value.*member.pointer); });
    }
}

template <class T>
bool Decoder::get(T& value) {
    using namespace codec_detail;
    if (in_.empty()) return true;
    if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
        const auto byte = static_cast<unsigned char>(in_.front());
        in_.remove_prefix(1);
        if constexpr (std::is_enum_v<T>) {
            if (!is_enumerator<T>(byte)) return false;
        } else if (byte > 1) {
            return false;
        }
        value = static_cast<T>(byte);
        return true;
    } else if constexpr (std::is_integral_v<T>) {
        std::uint64_t bits = 0;
        if (!get_u64(bits)) return false;
        if constexpr (std::is_signed_v<T>) bits = (bits >> 1) ^ (~(bits & 1) + 1);
        value = static_cast<T>(bits);
        return static_cast<std::uint64_t>(value) == bits;
    } else if constexpr (std::is_same_v<T, std::string>) {
        std::uint64_t length = 0;
        if (!get_length(length)) return false;
        value.assign(in_.substr(0, length));
        in_.remove_prefix(length);
        return true;
    } else if constexpr (std::is_same_v<T, Instant>) {
        std::int64_t count = 0;
        const bool ok = get(count);
        value = from_micros(count);
        return ok;
    } else if constexpr (std::is_same_v<T, Money>) {
        std::int64_t count = 0;
        const bool ok = get(count);
        value = Money::nanos(count);
        return ok;
    } else if constexpr (std::is_same_v<T, Id>) {
        bool stated = false;
        if (!get(stated)) return false;
        if (!stated) return value = Id(), true;
        return get_fixed(value.high) && get_fixed(value.low) && !value.empty();
    } else if constexpr (IsStrong<T>::value) {
        return get(value.value);
    } else if constexpr (IsOptional<T>::value) {
        bool present = false;
        if (!get(present)) return false;
        if (!present) return value.reset(), true;
        return !in_.empty() && get(value.emplace());
    } else if constexpr (IsVector<T>::value) {
        std::uint64_t length = 0;
        if (!get_length(length)) return false;  // An element takes at least a byte.
        value.clear();
        for (std::uint64_t i = 0; i < length; ++i) {
            if (in_.empty() || !get(value.emplace_back())) return false;
        }
        return true;
    } else if constexpr (IsMap<T>::value) {
        std::uint64_t length = 0;
        if (!get_length(length)) return false;
        value.clear();
        for (std::uint64_t i = 0; i < length; ++i) {
            typename T::key_type key{};
            if (in_.empty() || !get(key) || in_.empty()) return false;
            if (!value.empty() && !(value.rbegin()->first < key)) return false;  // One map has one form.
            if (!get(value[key])) return false;
        }
        return true;
    } else if constexpr (IsVariant<T>) {
        const auto index = static_cast<unsigned char>(in_.front());
        in_.remove_prefix(1);
        if (index >= std::variant_size_v<KindsOf<T>>) return false;
        return boost::mp11::mp_with_index<std::variant_size_v<KindsOf<T>>>(
            index, [&](auto i) { return get(value.template emplace<decltype(i)::value>()); });
    } else {
        bool ok = true;
        boost::mp11::mp_for_each<MembersOf<T>>([&](auto member) { ok = ok && get(value.*member.pointer); });
        return ok;
    }
}

template <class T>
std::string encode(const T& value) {
    std::string out;
    Encoder(out).put(value);
    return out;
}

// Empty when the bytes are not exactly one T.
template <class T>
std::optional<T> decode(std::string_view bytes) {
    T value{};
    Decoder decoder(bytes);
    if (!decoder.get(value) || !decoder.at_end()) return std::nullopt;
    return value;
}

}  // namespace interlock
