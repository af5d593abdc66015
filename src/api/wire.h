// JSON on the wire: one description of a struct gives its reader, its writer and its schema.
//
//   (1) A member that is not described is refused by name; so is one that is missing and `required`, or is not of its
//       type. The refusal points at the place (RFC 6901).
//   (2) Money is a decimal string, an id a text with its prefix, an instant RFC 3339 in UTC; far_past and far_future
//       are null.
//   (3) What is written reads back equal.
//
// A struct that is read names what it cannot do without: `static constexpr std::array required{"agent", "cost"}`.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <boost/describe/enum_from_string.hpp>
#include <boost/describe/enum_to_string.hpp>
#include <boost/describe/enumerators.hpp>
#include <boost/describe/members.hpp>
#include <boost/json.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/calendar.h"
#include "base/codec.h"
#include "base/id.h"
#include "base/instant.h"
#include "base/money.h"
#include "base/result.h"
#include "core/rows.h"

namespace interlock::api {

namespace json = boost::json;

// Text that is a JSON object already, such as a message's metadata.
struct JsonText {
    std::string text = "{}";
    friend bool operator==(const JsonText&, const JsonText&) = default;
};

// An amount in a budget's own metric, as the client wrote it: dollars or a count.
struct AmountText {
    std::string text;
    friend bool operator==(const AmountText&, const AmountText&) = default;
};

template <class T>
constexpr std::string_view id_prefix = "";
template <>
inline constexpr std::string_view id_prefix<core::RunId> = "run";
template <>
inline constexpr std::string_view id_prefix<core::SessionId> = "ses";
template <>
inline constexpr std::string_view id_prefix<core::HoldId> = "hold";
template <>
inline constexpr std::string_view id_prefix<core::MessageId> = "msg";

template <>
inline constexpr std::string_view id_prefix<core::CallId> = "call";

template <class T>
constexpr bool is_wire_id = !id_prefix<T>.empty();

template <class T>
std::string id_text(T id) {
    return to_text(id_prefix<T>, id.value);
}

struct BadMember {
    std::string pointer;
    std::string detail;
};

namespace wire_detail {
template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_map = false;
template <class T>
constexpr bool is_map<std::map<std::string, T>> = true;
template <class T>
using Members = boost::describe::describe_members<T, boost::describe::mod_public | boost::describe::mod_inherited>;

template <class T>
bool is_required(std::string_view name) {
    if constexpr (requires { T::required; }) {
        return std::ranges::find(T::required, name) != T::required.end();
    } else {
        return false;
    }
}

template <class T>
std::string enumerator_list() {
    std::string all;
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>(
        [&](auto each) { all += (all.empty() ? "" : ", ") + std::string(each.name); });
    return all;
}

template <class T>
std::string member_list() {
    std::string all;
    boost::mp11::mp_for_each<Members<T>>([&](auto each) { all += (all.empty() ? "" : ", ") + std::string(each.name); });
    return all;
}
}  // namespace wire_detail

// ---- reading ------------------------------------------------------------------------------------------------------

class WireReader {
 public:
    // False when the value is not a T; problem() says where and why.
    template <class T>
    bool get(const json::value& from, T& into);
    const BadMember& problem() const { return problem_; }

 private:
    bool refuse(std::string detail) {
        problem_ = {pointer_, std::move(detail)};
        return false;
    }
    template <class Read>
    bool inside(std::string_view step, Read read);
    bool get_text(const json::value& from, std::string& into);
    bool get_money(const json::value& from, Money& into);
    bool get_amount(const json::value& from, AmountText& into);
    bool get_object_text(const json::value& from, JsonText& into);
    bool get_integer(const json::value& from, std::int64_t min, std::int64_t max, std::int64_t& into);
    template <class T>
    bool get_struct(const json::value& from, T& into);

    std::string pointer_;
    BadMember problem_;
};

template <class Read>
bool WireReader::inside(std::string_view step, Read read) {
    const std::size_t before = pointer_.size();
    pointer_ += '/';
    for (const char c : step)
        pointer_ += c == '~' ? std::string("~0") : c == '/' ? std::string("~1") : std::string(1, c);
    const bool good = read();
    pointer_.resize(before);
    return good;
}

template <class T>
bool WireReader::get(const json::value& from, T& into) {
    using namespace wire_detail;
    if constexpr (is_optional<T>) {
        if (from.is_null()) {
            into.reset();
            return true;
        }
        return get(from, into.emplace());
    } else if constexpr (std::is_same_v<T, bool>) {
        if (!from.is_bool()) return refuse("must be true or false");
        into = from.get_bool();
        return true;
    } else if constexpr (std::is_same_v<T, std::string>) {
        return get_text(from, into);
    } else if constexpr (std::is_same_v<T, Money>) {
        return get_money(from, into);
    } else if constexpr (std::is_same_v<T, AmountText>) {
        return get_amount(from, into);
    } else if constexpr (std::is_same_v<T, JsonText>) {
        return get_object_text(from, into);
    } else if constexpr (is_wire_id<T>) {
        if (!from.is_string()) return refuse("must be an id, which is a string");
        const auto id = id_from_text(id_prefix<T>, from.get_string());
        if (!id || id->empty()) return refuse("must be an id such as " + to_text(id_prefix<T>, Id{1, 1}));
        into = T(*id);
        return true;
    } else if constexpr (std::is_same_v<T, core::Fence>) {
        return get_integer(from, 0, INT64_MAX, into.value);
    } else if constexpr (std::is_enum_v<T>) {
        std::string name;
        if (!get_text(from, name)) return false;
        if (boost::describe::enum_from_string(name.c_str(), into)) return true;
        return refuse("'" + name + "' is not one of: " + enumerator_list<T>());
    } else if constexpr (std::is_integral_v<T>) {
        std::int64_t number = 0;
        if (!get_integer(from, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), number)) return false;
        into = static_cast<T>(number);
        return true;
    } else if constexpr (is_map<T>) {
        if (!from.is_object()) {
            return refuse(std::is_integral_v<typename T::mapped_type> ? "must be an object of numbers"
                                                                      : "must be an object of strings");
        }
        for (const auto& [name, value] : from.get_object()) {
            if (!inside(name, [&] { return get(value, into[std::string(name)]); })) return false;
        }
        return true;
    } else if constexpr (codec_detail::IsVector<T>::value) {
        if (!from.is_array()) return refuse("must be an array");
        std::size_t index = 0;
        for (const json::value& element : from.get_array()) {
            if (!inside(std::to_string(index++), [&] { return get(element, into.emplace_back()); })) return false;
        }
        return true;
    } else {
        return get_struct(from, into);
    }
}

template <class T>
bool WireReader::get_struct(const json::value& from, T& into) {
    using namespace wire_detail;
    if (!from.is_object()) return refuse("must be an object");
    const json::object& object = from.get_object();
    std::size_t known = 0;
    bool good = true;
    boost::mp11::mp_for_each<Members<T>>([&](auto member) {
        if (!good) return;
        const json::value* found = object.if_contains(member.name);
        const bool required = is_required<T>(member.name);
        if (found != nullptr) {
            ++known;
            if (found->is_null() && !required) return;  // As if it were not there.
            good = inside(member.name, [&] { return get(*found, into.*member.pointer); });
        } else if (required) {
            good = inside(member.name, [&] { return refuse("is required"); });
        }
    });
    if (!good || known == object.size()) return good;
    for (const auto& [name, _] : object) {
        bool described = false;
        boost::mp11::mp_for_each<Members<T>>(
            [&, key = std::string_view(name)](auto member) { described |= key == member.name; });
        if (!described) {
            return inside(name, [&] { return refuse("is not known here; known are: " + member_list<T>()); });
        }
    }
    return true;
}

template <class T>
Result<T, BadMember> from_json(const json::value& from) {
    WireReader reader;
    T into{};
    if (!reader.get(from, into)) return fail(reader.problem());
    return into;
}

// ---- writing ------------------------------------------------------------------------------------------------------

void put_text(std::string& out, std::string_view text);

template <class T>
void put_json(std::string& out, const T& value) {
    using namespace wire_detail;
    if constexpr (is_optional<T>) {
        value ? put_json(out, *value) : void(out += "null");
    } else if constexpr (std::is_same_v<T, bool>) {
        out += value ? "true" : "false";
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
        put_text(out, value);
    } else if constexpr (std::is_same_v<T, Money>) {
        put_text(out, to_text(value));
    } else if constexpr (std::is_same_v<T, AmountText>) {
        put_text(out, value.text);
    } else if constexpr (std::is_same_v<T, JsonText>) {
        out += value.text.empty() ? "{}" : value.text;
    } else if constexpr (std::is_same_v<T, Instant>) {
        value == far_past || value == far_future ? void(out += "null") : put_text(out, to_iso8601(value));
    } else if constexpr (is_wire_id<T>) {
        value.value.empty() ? void(out += "null") : put_text(out, id_text(value));
    } else if constexpr (codec_detail::IsStrong<T>::value) {
        put_json(out, value.value);
    } else if constexpr (std::is_enum_v<T>) {
        put_text(out, boost::describe::enum_to_string(value, ""));
    } else if constexpr (std::is_integral_v<T>) {
        char digits[24];
        out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    } else if constexpr (is_map<T>) {
        out += '{';
        for (const auto& [name, mapped] : value) {
            if (out.back() != '{') out += ',';
            put_text(out, name);
            out += ':';
            put_json(out, mapped);
        }
        out += '}';
    } else if constexpr (codec_detail::IsVector<T>::value) {
        out += '[';
        bool first = true;
        for (const auto& element : value) {
            if (!std::exchange(first, false)) out += ',';
            put_json(out, element);
        }
        out += ']';
    } else {
        char before = '{';
        boost::mp11::mp_for_each<Members<T>>([&](auto member) {
            out += before;
            out += '"';
            out += member.name;
            out += "\":";
            put_json(out, value.*member.pointer);
            before = ',';
        });
        out += before == '{' ? "{}" : "}";
    }
}

template <class T>
std::string to_json(const T& value) {
    std::string out;
    put_json(out, value);
    return out;
}

// ---- schema -------------------------------------------------------------------------------------------------------

// JSON Schema as OpenAPI 3.1 has it.
template <class T>
json::value schema_of() {
    using namespace wire_detail;
    if constexpr (is_optional<T>) {
        json::value schema = schema_of<typename T::value_type>();
        if (json::value* type = schema.as_object().if_contains("type")) *type = json::array{*type, "null"};
        return schema;
    } else if constexpr (std::is_same_v<T, bool>) {
        return {{"type", "boolean"}};
    } else if constexpr (std::is_same_v<T, Money>) {
        return {{"type", "string"}, {"pattern", "^-?[0-9]+(\\.[0-9]{1,9})?$"}, {"examples", {"0.00075"}}};
    } else if constexpr (std::is_same_v<T, AmountText>) {
        return {{"type", {"string", "integer"}}, {"examples", {"10.00", "1000"}}};
    } else if constexpr (std::is_same_v<T, JsonText>) {
        return {{"type", "object"}};
    } else if constexpr (std::is_same_v<T, Instant>) {
        return {{"type", {"string", "null"}}, {"format", "date-time"}};
    } else if constexpr (is_wire_id<T>) {
        return {{"type", {"string", "null"}}, {"pattern", "^" + std::string(id_prefix<T>) + "_[0-9a-z]{26}$"}};
    } else if constexpr (codec_detail::IsStrong<T>::value || std::is_integral_v<T>) {
        return {{"type", "integer"}};
    } else if constexpr (std::is_enum_v<T>) {
        json::array names;
        boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>(
            [&](auto each) { names.emplace_back(each.name); });
        return {{"type", "string"}, {"enum", std::move(names)}};
    } else if constexpr (std::is_same_v<T, std::string>) {
        return {{"type", "string"}};
    } else if constexpr (is_map<T>) {
        return {{"type", "object"}, {"additionalProperties", schema_of<typename T::mapped_type>()}};
    } else if constexpr (codec_detail::IsVector<T>::value) {
        return {{"type", "array"}, {"items", schema_of<typename T::value_type>()}};
    } else {
        json::object properties;
        json::array required;
        boost::mp11::mp_for_each<Members<T>>([&](auto member) {
            properties[member.name] = schema_of<std::remove_cvref_t<decltype(std::declval<T&>().*member.pointer)>>();
            if (is_required<T>(member.name)) required.emplace_back(member.name);
        });
        json::object schema{{"type", "object"}, {"properties", std::move(properties)}};
        if (!required.empty()) schema["required"] = std::move(required);
        return schema;
    }
}

}  // namespace interlock::api
