// A value with a meaning of its own: one line per type, and no way from one to another by accident.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/keyed_hash.h"

namespace interlock {

template <class Tag, class Value>
struct Strong {
    using value_type = Value;

    constexpr Strong() = default;
    constexpr explicit Strong(Value v) : value(std::move(v)) {}
    friend constexpr auto operator<=>(const Strong&, const Strong&) = default;
    friend constexpr bool operator==(const Strong&, const Strong&) = default;

    Value value{};
};

}  // namespace interlock

template <class Tag, class Value>
struct std::hash<interlock::Strong<Tag, Value>> {
    std::size_t operator()(const interlock::Strong<Tag, Value>& strong) const {
        if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
            return interlock::keyed_hash(strong.value);
        } else {
            return std::hash<Value>{}(strong.value);
        }
    }
};
