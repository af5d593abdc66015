#include "api/wire.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace interlock::api {
namespace {

// What is beyond a double has been read as infinity, for which JSON has no word.
bool is_finite(const json::value& value) {
    if (const double* number = value.if_double()) return std::isfinite(*number);
    if (const json::array* array = value.if_array()) return std::ranges::all_of(*array, is_finite);
    if (const json::object* object = value.if_object()) {
        return std::ranges::all_of(*object, [](const auto& member) { return is_finite(member.value()); });
    }
    return true;
}

}  // namespace

bool WireReader::get_text(const json::value& from, std::string& into) {
    if (!from.is_string()) return refuse("must be a string");
    into.assign(from.get_string().data(), from.get_string().size());
    return true;
}

bool WireReader::get_money(const json::value& from, Money& into) {
    if (from.is_number()) return refuse("must be a string, so that no digit is lost: \"0.25\"");
    std::string text;
    if (!get_text(from, text)) return false;
    const auto money = money_from_text(text);
    if (!money)
        return refuse("'" + text + "' is not an amount of dollars such as \"0.00075\", with at most nine decimals");
    into = *money;
    return true;
}

bool WireReader::get_amount(const json::value& from, AmountText& into) {
    if (from.is_string()) return get_text(from, into.text);
    std::int64_t count = 0;
    if (from.is_double()) return refuse("must be a string, so that no digit is lost: \"0.25\"");
    if (!get_integer(from, INT64_MIN, INT64_MAX, count)) return false;
    into.text = std::to_string(count);
    return true;
}

bool WireReader::get_object_text(const json::value& from, JsonText& into) {
    if (!from.is_object()) return refuse("must be an object");
    if (!is_finite(from)) return refuse("has a number that is too large to be kept");
    into.text = json::serialize(from);
    return true;
}

bool WireReader::get_integer(const json::value& from, std::int64_t min, std::int64_t max, std::int64_t& into) {
    const bool fits = from.is_int64() || (from.is_uint64() && from.get_uint64() <= INT64_MAX);
    if (!fits) return refuse("must be a whole number");
    into = from.is_int64() ? from.get_int64() : static_cast<std::int64_t>(from.get_uint64());
    if (into >= min && into <= max) return true;
    return refuse(fmt::format("is {}; it must be from {} to {}", into, min, max));
}

void put_text(std::string& out, std::string_view text) {
    constexpr std::string_view hex = "0123456789abcdef";
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

}  // namespace interlock::api
