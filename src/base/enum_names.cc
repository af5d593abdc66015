#include "base/enum_names.h"

#include <algorithm>

namespace interlock {

const EnumName* find_enum_value(std::span<const EnumName> names, std::int64_t value) {
    // Most enums count from 0.
    if (value >= 0 && static_cast<std::size_t>(value) < names.size()) {
        const EnumName& guess = names[static_cast<std::size_t>(value)];
        if (guess.value == value) return &guess;
    }
    const auto found = std::ranges::find(names, value, &EnumName::value);
    return found == names.end() ? nullptr : &*found;
}

const EnumName* find_enum_name(std::span<const EnumName> names, std::string_view name) {
    const auto found = std::ranges::find(names, name, &EnumName::name);
    return found == names.end() ? nullptr : &*found;
}

}  // namespace interlock
