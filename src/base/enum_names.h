// Names of enumerators.
//
//   1. The names of an enum are a constant table, and one function searches it. So code that reads or writes an enum
//      does not compile a comparison for each enumerator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <boost/describe/enumerators.hpp>

namespace interlock {

struct EnumName {
    std::string_view name;
    std::int64_t value = 0;
};

namespace enum_names_detail {
template <class Enumerators>
struct EnumNameList;
template <template <class...> class List, class... Each>
struct EnumNameList<List<Each...>> {
    static constexpr std::array<EnumName, sizeof...(Each)> all{
        EnumName{Each::name, static_cast<std::int64_t>(Each::value)}...};
};
}  // namespace enum_names_detail

// Of a described enum, in the order of its definition.
template <class Enum>
constexpr std::span<const EnumName> enum_names =
    enum_names_detail::EnumNameList<boost::describe::describe_enumerators<Enum>>::all;

// Null if there is none.
const EnumName* find_enum_value(std::span<const EnumName> names, std::int64_t value);
const EnumName* find_enum_name(std::span<const EnumName> names, std::string_view name);

// Empty if the value is not an enumerator.
template <class Enum>
std::string_view enum_name(Enum value) {
    const EnumName* const found = find_enum_value(enum_names<Enum>, static_cast<std::int64_t>(value));
    return found != nullptr ? found->name : std::string_view();
}

// False if the enum has no such name; `value` is unchanged then.
template <class Enum>
bool enum_from_name(std::string_view name, Enum& value) {
    const EnumName* const found = find_enum_name(enum_names<Enum>, name);
    if (found != nullptr) value = static_cast<Enum>(found->value);
    return found != nullptr;
}

}  // namespace interlock
