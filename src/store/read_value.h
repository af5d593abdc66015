// Values of a query (store.h) as members of rows.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/codec.h"
#include "base/enum_names.h"
#include "store/columns.h"
#include "store/row_json.h"
#include "store/store.h"

namespace interlock::store {

// False when the value is not one of the member's type.
template <class T>
bool read_value(const Value& value, T& member) {
    const auto* number = std::get_if<std::int64_t>(&value);
    const auto* text = std::get_if<std::string>(&value);
    if constexpr (is_id<T>) {
        member = T{};
        if (text == nullptr) return number == nullptr;
        if (text->size() != 16) return false;
        std::uint64_t halves[2];
        std::memcpy(halves, text->data(), sizeof halves);
        member = T(Id{__builtin_bswap64(halves[0]), __builtin_bswap64(halves[1])});
        return true;
    } else if constexpr (std::is_same_v<T, std::string>) {
        member = text != nullptr ? *text : std::string();
        return number == nullptr;
    } else if constexpr (std::is_same_v<T, Instant>) {
        if (number != nullptr) member = from_micros(*number);
        return number != nullptr;
    } else if constexpr (codec_detail::IsStrong<T>::value) {
        return read_value(value, member.value);
    } else if constexpr (std::is_enum_v<T>) {
        return text != nullptr && enum_from_name(*text, member);
    } else if constexpr (std::is_integral_v<T>) {
        if (number == nullptr) return false;
        member = static_cast<T>(*number);
        return static_cast<std::int64_t>(member) == *number;
    } else {
        return text != nullptr && read_json(*text, member);
    }
}

}  // namespace interlock::store
