// Lists, maps and structs as JSON text, the way they stand in a column.
//
// Instants are whole microseconds, ids 32 hex digits, enumerations their names, structs objects. A Scope has only the
// members it states. Bytes that are not UTF-8 go in and come out as they are. Reading takes what writing gives, in any
// order of members and with blanks, and leaves a member that is missing at its default; a member nobody knows, or
// anything after the end, is refused.
#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/codec.h"
#include "base/enum_names.h"
#include "core/rows.h"

namespace interlock::store {

void write_json_text(std::string& out, std::string_view text);
void write_json_id(std::string& out, Id id);

template <class T>
void write_json(std::string& out, const T& value) {
    using namespace codec_detail;
    if constexpr (std::is_same_v<T, bool>) {
        out += value ? "true" : "false";
    } else if constexpr (std::is_enum_v<T>) {
        write_json_text(out, enum_name(value));
    } else if constexpr (std::is_integral_v<T>) {
        char digits[24];
        out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    } else if constexpr (std::is_same_v<T, std::string>) {
        write_json_text(out, value);
    } else if constexpr (std::is_same_v<T, Instant>) {
        write_json(out, micros(value));
    } else if constexpr (std::is_same_v<T, Id>) {
        write_json_id(out, value);
    } else if constexpr (IsStrong<T>::value) {
        write_json(out, value.value);
    } else if constexpr (IsVector<T>::value) {
        char before = '[';
        for (const auto& element : value) {
            out += before;
            write_json(out, element);
            before = ',';
        }
        out += value.empty() ? "[]" : "]";
    } else if constexpr (IsMap<T>::value) {
        char before = '{';
        for (const auto& [key, mapped] : value) {
            out += before;
            write_json_text(out, key);
            out += ':';
            write_json(out, mapped);
            before = ',';
        }
        out += value.empty() ? "{}" : "}";
    } else {
        char before = '{';
        boost::mp11::mp_for_each<MembersOf<T>>([&](auto member) {
            if constexpr (requires { typename T::sparse; }) {
                static const T defaults{};
                if (value.*member.pointer == defaults.*member.pointer) return;
            }
            out += before;
            out += '"';
            out += member.name;
            out += "\":";
            write_json(out, value.*member.pointer);
            before = ',';
        });
        out += before == '{' ? "{}" : "}";
    }
}

class RowJsonReader {
 public:
    explicit RowJsonReader(std::string_view in) : in_(in) {}

    // False when the text is not a T.
    template <class T>
    bool get(T& value);
    bool at_end() { return skip_blanks(), in_.empty(); }

 private:
    void skip_blanks();
    bool take(char c);
    bool get_text(std::string& text);
    bool get_id(Id& id);
    bool get_escape(std::string& text);
    bool get_code_unit(std::uint32_t& unit);

    // Between the brackets: `element` for each, with commas in between.
    template <class Element>
    bool get_all(char open, char close, Element element) {
        if (!take(open)) return false;
        if (take(close)) return true;
        do {
            if (!element()) return false;
        } while (take(','));
        return take(close);
    }

    std::string_view in_;
};

template <class T>
bool RowJsonReader::get(T& value) {
    using namespace codec_detail;
    skip_blanks();
    if constexpr (std::is_same_v<T, bool>) {
        value = in_.starts_with("true");
        if (!value && !in_.starts_with("false")) return false;
        in_.remove_prefix(value ? 4 : 5);
        return true;
    } else if constexpr (std::is_enum_v<T>) {
        std::string name;
        return get_text(name) && enum_from_name(name, value);
    } else if constexpr (std::is_integral_v<T>) {
        const auto [end, error] = std::from_chars(in_.data(), in_.data() + in_.size(), value);
        if (error != std::errc()) return false;
        in_.remove_prefix(static_cast<std::size_t>(end - in_.data()));
        return true;
    } else if constexpr (std::is_same_v<T, std::string>) {
        return get_text(value);
    } else if constexpr (std::is_same_v<T, Instant>) {
        std::int64_t count = 0;
        if (!get(count)) return false;
        value = from_micros(count);
        return true;
    } else if constexpr (std::is_same_v<T, Id>) {
        return get_id(value);
    } else if constexpr (IsStrong<T>::value) {
        return get(value.value);
    } else if constexpr (IsVector<T>::value) {
        value.clear();
        return get_all('[', ']', [&] { return get(value.emplace_back()); });
    } else if constexpr (IsMap<T>::value) {
        value.clear();
        return get_all('{', '}', [&] {
            std::string key;
            return get(key) && take(':') && get(value[key]);
        });
    } else {
        value = T{};
        return get_all('{', '}', [&] {
            std::string name;
            if (!get(name) || !take(':')) return false;
            bool known = false;
            bool good = false;
            boost::mp11::mp_for_each<MembersOf<T>>([&](auto member) {
                if (known || name != member.name) return;
                known = true;
                good = get(value.*member.pointer);
            });
            return good;
        });
    }
}

template <class T>
bool read_json(std::string_view text, T& value) {
    RowJsonReader reader(text);
    return reader.get(value) && reader.at_end();
}

}  // namespace interlock::store
