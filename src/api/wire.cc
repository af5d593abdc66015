#include "api/wire.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/strict_json.h"
#include "base/text.h"
#include "core/limits.h"

namespace interlock::api {

// ---- reading ------------------------------------------------------------------------------------------------------

bool WireReader::refuse(std::string detail) {
    problem_ = {"", std::move(detail)};
    return false;
}

bool WireReader::refused_in(std::string_view step) {
    problem_.pointer.insert(0, pointer_step(step));
    return false;
}

namespace {

// No member is longer than the content of a message. Refused before it is copied, hashed and sent to the engine.
bool get_text(WireReader& reader, const json::value& from, std::string& into,
              std::size_t bytes_max = core::limits::message_bytes_max) {
    if (!from.is_string()) return reader.refuse("must be a string");
    if (from.get_string().size() > bytes_max) {
        return reader.refuse(
            fmt::format("is {} bytes long; at most {} are allowed", from.get_string().size(), bytes_max));
    }
    into.assign(from.get_string().data(), from.get_string().size());
    return true;
}

bool get_integer(WireReader& reader, const json::value& from, std::int64_t min, std::int64_t max, std::int64_t& into) {
    const bool fits = from.is_int64() || (from.is_uint64() && from.get_uint64() <= INT64_MAX);
    if (!fits) return reader.refuse("must be a whole number");
    into = from.is_int64() ? from.get_int64() : static_cast<std::int64_t>(from.get_uint64());
    if (into >= min && into <= max) return true;
    return reader.refuse(fmt::format("is {}; it must be from {} to {}", into, min, max));
}

// "agent, cost"
template <class Named>
std::string name_list(std::span<const Named> all) {
    std::string list;
    for (const Named& each : all) list.append(list.empty() ? "" : ", ").append(each.name);
    return list;
}

}  // namespace

std::string enumerator_list(const WireType& type) { return name_list(type.enumerators); }

namespace wire_detail {

bool read_bool(const WireType&, WireReader& reader, const json::value& from, void* into) {
    if (!from.is_bool()) return reader.refuse("must be true or false");
    *static_cast<bool*>(into) = from.get_bool();
    return true;
}

bool read_text(const WireType&, WireReader& reader, const json::value& from, void* into) {
    return get_text(reader, from, *static_cast<std::string*>(into));
}

bool read_money(const WireType&, WireReader& reader, const json::value& from, void* into) {
    if (from.is_number()) return reader.refuse("must be a string, so that no digit is lost: \"0.25\"");
    std::string text;
    if (!get_text(reader, from, text, core::limits::name_bytes_max)) return false;  // The refusal repeats it.
    const auto money = money_from_text(text);
    if (!money) {
        return reader.refuse("'" + text +
                             "' is not an amount in dollars such as \"0.00075\", with at most nine decimals");
    }
    *static_cast<Money*>(into) = *money;
    return true;
}

bool read_amount(const WireType&, WireReader& reader, const json::value& from, void* into) {
    std::string& text = static_cast<AmountText*>(into)->text;
    if (from.is_string()) return get_text(reader, from, text);
    std::int64_t count = 0;
    if (from.is_double()) return reader.refuse("must be a string, so that no digit is lost: \"0.25\"");
    if (!get_integer(reader, from, INT64_MIN, INT64_MAX, count)) return false;
    text = std::to_string(count);
    return true;
}

// Far more than any bound of the rules, and written in no time: a body can have an object of 32 MiB.
constexpr std::size_t object_text_bytes_max = 1u << 20;

bool read_object_text(const WireType&, WireReader& reader, const json::value& from, void* into) {
    if (!from.is_object()) return reader.refuse("must be an object");
    std::string& text = static_cast<JsonText*>(into)->text;
    text.clear();
    json::serializer writer;
    writer.reset(&from);
    while (!writer.done()) {
        if (text.size() > object_text_bytes_max) return reader.refuse("is too large");
        char piece[4096];
        text.append(writer.read(piece));
    }
    return true;
}

bool read_id(const WireType& type, WireReader& reader, const json::value& from, void* into) {
    if (!from.is_string()) return reader.refuse("must be an id, which is a string");
    const auto id = id_from_text(type.id_prefix, from.get_string());
    if (!id || id->empty()) return reader.refuse("must be an id such as " + to_text(type.id_prefix, Id{1, 1}));
    *static_cast<Id*>(into) = *id;
    return true;
}

bool read_number(const WireType& type, WireReader& reader, const json::value& from, std::int64_t& into) {
    return get_integer(reader, from, type.min, type.max, into);
}

bool read_enumerator(const WireType& type, WireReader& reader, const json::value& from, std::int64_t& into) {
    std::string name;
    if (!get_text(reader, from, name, core::limits::name_bytes_max)) return false;  // The refusal repeats it.
    const EnumName* const found = find_enum_name(type.enumerators, name);
    if (found == nullptr) {
        return reader.refuse("'" + name + "' is not one of: " + enumerator_list(type));
    }
    into = found->value;
    return true;
}

bool read_struct(const WireType& type, WireReader& reader, const json::value& from, void* into) {
    if (!from.is_object()) return reader.refuse("must be an object");
    const json::object& object = from.get_object();
    std::size_t known = 0;
    for (const WireMember& member : type.members) {
        const json::value* found = object.if_contains(member.name);
        if (found != nullptr) ++known;
        const bool left_out = found == nullptr || (found->is_null() && !member.required);
        if (left_out && !member.required) continue;
        const json::value* other = member.new_name_of.empty() ? nullptr : object.if_contains(member.new_name_of);
        if (other != nullptr && !other->is_null() && *other != *found) {
            reader.refuse(
                fmt::format("differs from {}, its former name; send only {}", member.new_name_of, member.name));
            return reader.refused_in(member.name);
        }
        const bool good = found == nullptr ? reader.refuse("is required")
                                           : member.type->read(*member.type, reader, *found, member.in(into));
        if (!good) return reader.refused_in(member.name);
    }
    if (known == object.size()) return true;
    for (const auto& [name, _] : object) {
        if (std::ranges::find(type.members, std::string_view(name), &WireMember::name) != type.members.end()) continue;
        reader.refuse("is unknown; possible members: " + name_list(type.members));
        return reader.refused_in(name);
    }
    return true;
}

bool read_nothing(const WireType&, WireReader& reader, const json::value&, void*) {
    return reader.refuse("cannot be set");
}

// ---- writing ------------------------------------------------------------------------------------------------------

void write_bool(const WireType&, std::string& out, const void* value) {
    out += *static_cast<const bool*>(value) ? "true" : "false";
}

void write_text(const WireType&, std::string& out, const void* value) {
    put_text(out, *static_cast<const std::string*>(value));
}

void write_money(const WireType&, std::string& out, const void* value) {
    put_text(out, to_text(*static_cast<const Money*>(value)));
}

void write_amount(const WireType&, std::string& out, const void* value) {
    put_text(out, static_cast<const AmountText*>(value)->text);
}

void write_object_text(const WireType&, std::string& out, const void* value) {
    // Older versions stored text that is not JSON; what cannot be shown does not spoil what it stands in.
    const std::string& text = static_cast<const JsonText*>(value)->text;
    out += text.empty() || flaw_of_json_object(text) ? "{}" : text;
}

void write_instant(const WireType&, std::string& out, const void* value) {
    const Instant at = *static_cast<const Instant*>(value);
    at == far_past || at == far_future ? void(out += "null") : put_text(out, to_iso8601(at));
}

void write_id(const WireType& type, std::string& out, const void* value) {
    const Id id = *static_cast<const Id*>(value);
    id.empty() ? void(out += "null") : put_text(out, to_text(type.id_prefix, id));
}

void write_struct(const WireType& type, std::string& out, const void* value) {
    char before = '{';
    for (const WireMember& member : type.members) {
        out += before;
        out += '"';
        out += member.name;
        out += "\":";
        // A place in an object is the same whether it is read or written.
        member.type->write(*member.type, out, member.in(const_cast<void*>(value)));
        before = ',';
    }
    out += before == '{' ? "{}" : "}";
}

void write_number(std::string& out, std::int64_t value) {
    char digits[24];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void write_unsigned(std::string& out, std::uint64_t value) {
    char digits[24];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void write_enumerator(const WireType& type, std::string& out, std::int64_t value) {
    const EnumName* const found = find_enum_value(type.enumerators, value);
    put_text(out, found == nullptr ? "" : found->name);
}

// ---- schema -------------------------------------------------------------------------------------------------------

json::value bool_schema(const WireType&) { return {{"type", "boolean"}}; }
json::value text_schema(const WireType&) { return {{"type", "string"}}; }
json::value money_schema(const WireType&) {
    return {{"type", "string"}, {"pattern", "^-?[0-9]+(\\.[0-9]{1,9})?$"}, {"examples", {"0.00075"}}};
}
json::value amount_schema(const WireType&) {
    return {{"type", {"string", "integer"}}, {"examples", {"10.00", "1000"}}};
}
json::value object_schema(const WireType&) { return {{"type", "object"}}; }
json::value instant_schema(const WireType&) { return {{"type", {"string", "null"}}, {"format", "date-time"}}; }
json::value id_schema(const WireType& type) {
    return {{"type", {"string", "null"}}, {"pattern", "^" + std::string(type.id_prefix) + "_[0-9a-z]{26}$"}};
}
json::value number_schema(const WireType&) { return {{"type", "integer"}}; }

json::value enum_schema(const WireType& type) {
    json::array names;
    for (const EnumName& each : type.enumerators) names.emplace_back(each.name);
    return {{"type", "string"}, {"enum", std::move(names)}};
}

json::value optional_schema(const WireType& type) {
    json::value schema = type.element->schema(*type.element);
    if (json::value* kind = schema.as_object().if_contains("type")) *kind = json::array{*kind, "null"};
    return schema;
}

json::value list_schema(const WireType& type) {
    return {{"type", "array"}, {"items", type.element->schema(*type.element)}};
}

json::value map_schema(const WireType& type) {
    return {{"type", "object"}, {"additionalProperties", type.element->schema(*type.element)}};
}

json::value struct_schema(const WireType& type) {
    json::object properties;
    json::array required;
    for (const WireMember& member : type.members) {
        properties[member.name] = member.type->schema(*member.type);
        if (member.required) required.emplace_back(member.name);
    }
    json::object schema{{"type", "object"}, {"properties", std::move(properties)}};
    if (!required.empty()) schema["required"] = std::move(required);
    return schema;
}

}  // namespace wire_detail

// ---- text ---------------------------------------------------------------------------------------------------------

void put_text(std::string& out, std::string_view text) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string mended;  // Of what an older version stored.
    if (!is_utf8(text)) text = mended = as_utf8(text);
    out += '"';
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && c != '"' && c != '\\') {
            out += c;
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else {
            out += "\\u00";
            out += hex[byte >> 4];
            out += hex[byte & 15];
        }
    }
    out += '"';
}

std::string day_text(std::int64_t day) {
    return to_iso8601(Instant(std::chrono::duration_cast<Duration>(std::chrono::days(day)))).substr(0, 10);
}

}  // namespace interlock::api
