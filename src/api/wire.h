// JSON on the wire: one description of a struct gives its reader, its writer and its schema.
//
//   1. A member that is not described is refused by name; so is one that is missing and `required`, or is not of its
//      type. The refusal points at the place (RFC 6901).
//   2. Money is a decimal string, an id a text with its prefix, an instant RFC 3339 in UTC; far_past and far_future
//      are null.
//   3. What is written reads back equal.
//
// A struct that is read names its required members: `static constexpr std::array required{"agent", "cost"}`. A member
// that has been renamed has both names until 1.0: requests may use either of them, responses carry both.
//
//     static constexpr std::array new_names{NewName{.name = "queue_timeout_s", .member = "queue_s"}};
//
// The compiler makes of each type a constant table (WireType): the names, places and types of its members. wire.cc has
// the functions that walk such a table, once for all structs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/describe/members.hpp>
#include <boost/json.hpp>
#include <boost/mp11/list.hpp>

#include "base/calendar.h"
#include "base/codec.h"
#include "base/enum_names.h"
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

// What a reader refused, and where. The place is put together on the way back, so that reading what is right costs
// nothing for it.
class WireReader {
 public:
    const BadMember& problem() const { return problem_; }

    // Both return false.
    bool refuse(std::string detail);
    bool refused_in(std::string_view step);  // The refusal was in this member or element.

 private:
    BadMember problem_;
};

// ---- what a type is on the wire -----------------------------------------------------------------------------------

struct WireType;

struct NewName {
    std::string_view name;
    std::string_view member;
};

struct WireMember {
    std::string_view name;
    void* (*in)(void* object);
    const WireType* type;
    bool required;
    std::string_view new_name_of = {};  // The member that has this second name.
};

struct WireType {
    // False when the value is not of the type; the reader says where and why.
    bool (*read)(const WireType& type, WireReader& reader, const json::value& from, void* into);
    void (*write)(const WireType& type, std::string& out, const void* value);
    json::value (*schema)(const WireType& type);

    std::span<const WireMember> members = {};    // Of a struct.
    std::span<const EnumName> enumerators = {};  // Of an enum.
    const WireType* element = nullptr;           // Of an optional, a list or a map.
    std::string_view id_prefix = {};             // Of an id.
    std::int64_t min = 0;                        // Of a number.
    std::int64_t max = 0;
};

// "queued, running"
std::string enumerator_list(const WireType& type);

namespace wire_detail {

bool read_bool(const WireType&, WireReader&, const json::value&, void*);
bool read_text(const WireType&, WireReader&, const json::value&, void*);
bool read_money(const WireType&, WireReader&, const json::value&, void*);
bool read_amount(const WireType&, WireReader&, const json::value&, void*);
bool read_object_text(const WireType&, WireReader&, const json::value&, void*);
bool read_id(const WireType&, WireReader&, const json::value&, void*);
bool read_struct(const WireType&, WireReader&, const json::value&, void*);
bool read_nothing(const WireType&, WireReader&, const json::value&, void*);  // Of types that are only written.
bool read_number(const WireType&, WireReader&, const json::value&, std::int64_t& into);
bool read_enumerator(const WireType&, WireReader&, const json::value&, std::int64_t& into);

void write_bool(const WireType&, std::string&, const void*);
void write_text(const WireType&, std::string&, const void*);
void write_money(const WireType&, std::string&, const void*);
void write_amount(const WireType&, std::string&, const void*);
void write_object_text(const WireType&, std::string&, const void*);
void write_instant(const WireType&, std::string&, const void*);
void write_id(const WireType&, std::string&, const void*);
void write_struct(const WireType&, std::string&, const void*);
void write_number(std::string& out, std::int64_t value);
void write_unsigned(std::string& out, std::uint64_t value);
void write_enumerator(const WireType&, std::string& out, std::int64_t value);

json::value bool_schema(const WireType&);
json::value text_schema(const WireType&);
json::value money_schema(const WireType&);
json::value amount_schema(const WireType&);
json::value object_schema(const WireType&);
json::value instant_schema(const WireType&);
json::value id_schema(const WireType&);
json::value number_schema(const WireType&);
json::value enum_schema(const WireType&);
json::value optional_schema(const WireType&);
json::value list_schema(const WireType&);
json::value map_schema(const WireType&);
json::value struct_schema(const WireType&);

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_map = false;
template <class T>
constexpr bool is_map<std::map<std::string, T>> = true;
template <class T>
using DescribedMembers =
    boost::describe::describe_members<T, boost::describe::mod_public | boost::describe::mod_inherited>;

template <class T>
constexpr bool is_required(std::string_view name) {
    if constexpr (requires { T::required; }) {
        return std::ranges::find(T::required, name) != T::required.end();
    } else {
        return false;
    }
}

template <class T>
constexpr WireType make_wire_type();

}  // namespace wire_detail

template <class T>
inline constexpr WireType wire_type = wire_detail::make_wire_type<T>();

// ---- reading, writing, schema -------------------------------------------------------------------------------------

template <class T>
Result<T, BadMember> from_json(const json::value& from) {
    constexpr const WireType& type = wire_type<T>;
    WireReader reader;
    T into{};
    if (!type.read(type, reader, from, &into)) return fail(reader.problem());
    return into;
}

void put_text(std::string& out, std::string_view text);
// "2026-11-15", of a day since 1970 in UTC.
std::string day_text(std::int64_t day);

inline void put_json(std::string& out, std::string_view text) { put_text(out, text); }

template <class T>
    requires(!std::is_convertible_v<T, std::string_view>)
void put_json(std::string& out, const T& value) {
    constexpr const WireType& type = wire_type<T>;
    type.write(type, out, &value);
}

template <class T>
std::string to_json(const T& value) {
    std::string out;
    put_json(out, value);
    return out;
}

// JSON Schema as OpenAPI 3.1 has it.
template <class T>
json::value schema_of() {
    constexpr const WireType& type = wire_type<T>;
    return type.schema(type);
}

// ---- the table of a type ------------------------------------------------------------------------------------------

namespace wire_detail {

template <class T>
bool read_integer_as(const WireType& type, WireReader& reader, const json::value& from, void* into) {
    std::int64_t number = 0;
    if (!read_number(type, reader, from, number)) return false;
    *static_cast<T*>(into) = static_cast<T>(number);
    return true;
}
template <class T>
void write_integer_as(const WireType&, std::string& out, const void* value) {
    const T number = *static_cast<const T*>(value);
    if constexpr (std::is_unsigned_v<T>) {
        write_unsigned(out, number);
    } else {
        write_number(out, number);
    }
}

template <class T>
bool read_enum_as(const WireType& type, WireReader& reader, const json::value& from, void* into) {
    std::int64_t number = 0;
    if (!read_enumerator(type, reader, from, number)) return false;
    *static_cast<T*>(into) = static_cast<T>(number);
    return true;
}
template <class T>
void write_enum_as(const WireType& type, std::string& out, const void* value) {
    write_enumerator(type, out, static_cast<std::int64_t>(*static_cast<const T*>(value)));
}

// A strong type is written as what it wraps.
template <class T>
void write_strong_as(const WireType& type, std::string& out, const void* value) {
    type.element->write(*type.element, out, &static_cast<const T*>(value)->value);
}

template <class T>
bool read_optional_as(const WireType& type, WireReader& reader, const json::value& from, void* into) {
    auto& optional = *static_cast<std::optional<T>*>(into);
    optional.reset();
    return from.is_null() || type.element->read(*type.element, reader, from, &optional.emplace());
}
template <class T>
void write_optional_as(const WireType& type, std::string& out, const void* value) {
    const auto& optional = *static_cast<const std::optional<T>*>(value);
    optional ? type.element->write(*type.element, out, &*optional) : void(out += "null");
}

template <class T>
bool read_list_as(const WireType& type, WireReader& reader, const json::value& from, void* into) {
    if (!from.is_array()) return reader.refuse("must be an array");
    auto& list = *static_cast<std::vector<T>*>(into);
    for (const json::value& element : from.get_array()) {
        if (type.element->read(*type.element, reader, element, &list.emplace_back())) continue;
        return reader.refused_in(std::to_string(list.size() - 1));
    }
    return true;
}
template <class T>
void write_list_as(const WireType& type, std::string& out, const void* value) {
    char before = '[';
    for (const T& element : *static_cast<const std::vector<T>*>(value)) {
        out += before;
        type.element->write(*type.element, out, &element);
        before = ',';
    }
    out += before == '[' ? "[]" : "]";
}

template <class T>
bool read_map_as(const WireType& type, WireReader& reader, const json::value& from, void* into) {
    if (!from.is_object()) {
        return reader.refuse(std::is_integral_v<T> ? "must be an object of numbers" : "must be an object of strings");
    }
    auto& map = *static_cast<std::map<std::string, T>*>(into);
    for (const auto& [name, value] : from.get_object()) {
        if (!type.element->read(*type.element, reader, value, &map[std::string(name)])) return reader.refused_in(name);
    }
    return true;
}
template <class T>
void write_map_as(const WireType& type, std::string& out, const void* value) {
    char before = '{';
    for (const auto& [name, mapped] : *static_cast<const std::map<std::string, T>*>(value)) {
        out += before;
        put_text(out, name);
        out += ':';
        type.element->write(*type.element, out, &mapped);
        before = ',';
    }
    out += before == '{' ? "{}" : "}";
}

template <class T, class Member>
void* member_in(void* object) {
    return &(static_cast<T*>(object)->*Member::pointer);
}
template <class T, class Member>
using MemberType = std::remove_cvref_t<decltype(std::declval<T&>().*Member::pointer)>;

template <class T>
constexpr auto new_names_of() {
    if constexpr (requires { T::new_names; }) {
        return T::new_names;
    } else if constexpr (std::is_same_v<T, core::Retry>) {
        return std::array{NewName{.name = "max_attempts", .member = "tries"}};
    } else {
        return std::array<NewName, 0>();
    }
}

template <class T, std::size_t count>
constexpr auto with_new_names(const std::array<WireMember, count>& described) {
    constexpr auto new_names = new_names_of<T>();
    std::array<WireMember, count + new_names.size()> all{};
    auto next = std::ranges::copy(described, all.begin()).out;
    for (const NewName& each : new_names) {
        *next = *std::ranges::find(described, each.member, &WireMember::name);
        next->name = each.name;
        next->new_name_of = each.member;
        ++next;
    }
    return all;
}

template <class T, class DescribedMembers>
struct WireMembersOf;
template <class T, template <class...> class List, class... Member>
struct WireMembersOf<T, List<Member...>> {
    static constexpr auto all = with_new_names<T>(std::array<WireMember, sizeof...(Member)>{WireMember{
        Member::name, member_in<T, Member>, &wire_type<MemberType<T, Member>>, is_required<T>(Member::name)}...});
};

template <class T>
constexpr WireType make_wire_type() {
    if constexpr (is_optional<T>) {
        using Value = typename T::value_type;
        return {.read = read_optional_as<Value>,
                .write = write_optional_as<Value>,
                .schema = optional_schema,
                .element = &wire_type<Value>};
    } else if constexpr (std::is_same_v<T, bool>) {
        return {.read = read_bool, .write = write_bool, .schema = bool_schema};
    } else if constexpr (std::is_same_v<T, std::string>) {
        return {.read = read_text, .write = write_text, .schema = text_schema};
    } else if constexpr (std::is_same_v<T, Money>) {
        return {.read = read_money, .write = write_money, .schema = money_schema};
    } else if constexpr (std::is_same_v<T, AmountText>) {
        return {.read = read_amount, .write = write_amount, .schema = amount_schema};
    } else if constexpr (std::is_same_v<T, JsonText>) {
        return {.read = read_object_text, .write = write_object_text, .schema = object_schema};
    } else if constexpr (std::is_same_v<T, Instant>) {
        return {.read = read_nothing, .write = write_instant, .schema = instant_schema};
    } else if constexpr (is_wire_id<T>) {
        static_assert(sizeof(T) == sizeof(Id));  // read_id and write_id take it for one.
        return {.read = read_id, .write = write_id, .schema = id_schema, .id_prefix = id_prefix<T>};
    } else if constexpr (std::is_same_v<T, core::Fence>) {
        return {.read = read_integer_as<std::int64_t>,
                .write = write_integer_as<std::int64_t>,
                .schema = number_schema,
                .min = 0,
                .max = INT64_MAX};
    } else if constexpr (codec_detail::IsStrong<T>::value) {
        return {.read = read_nothing,
                .write = write_strong_as<T>,
                .schema = number_schema,
                .element = &wire_type<std::remove_cvref_t<decltype(T::value)>>};
    } else if constexpr (std::is_enum_v<T>) {
        return {
            .read = read_enum_as<T>, .write = write_enum_as<T>, .schema = enum_schema, .enumerators = enum_names<T>};
    } else if constexpr (std::is_integral_v<T>) {
        return {.read = read_integer_as<T>,
                .write = write_integer_as<T>,
                .schema = number_schema,
                .min = std::numeric_limits<T>::min(),
                .max = std::in_range<std::int64_t>(std::numeric_limits<T>::max())
                           ? static_cast<std::int64_t>(std::numeric_limits<T>::max())
                           : INT64_MAX};
    } else if constexpr (is_map<T>) {
        using Value = typename T::mapped_type;
        return {.read = read_map_as<Value>,
                .write = write_map_as<Value>,
                .schema = map_schema,
                .element = &wire_type<Value>};
    } else if constexpr (codec_detail::IsVector<T>::value) {
        using Value = typename T::value_type;
        return {.read = read_list_as<Value>,
                .write = write_list_as<Value>,
                .schema = list_schema,
                .element = &wire_type<Value>};
    } else {
        return {.read = read_struct,
                .write = write_struct,
                .schema = struct_schema,
                .members = WireMembersOf<T, DescribedMembers<T>>::all};
    }
}

}  // namespace wire_detail

}  // namespace interlock::api
