#include "base/strict_json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace interlock {
namespace {

namespace json = boost::json;

// Follows a text and keeps nothing of it but where it is and the names of the objects that are open.
class FlawFinder {
 public:
    using error_code = json::error_code;
    using string_view = json::string_view;
    static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

    std::optional<JsonFlaw> flaw;
    bool is_object = false;

    bool on_document_begin(error_code&) { return true; }
    bool on_document_end(error_code&) { return true; }
    bool on_array_begin(error_code&) { return begin(false); }
    bool on_array_end(std::size_t, error_code&) { return end(); }
    bool on_object_begin(error_code&) {
        is_object |= levels_.empty();
        return begin(true);
    }
    bool on_object_end(std::size_t, error_code& error) {
        std::vector<std::string> names = levels_.back().names;
        std::ranges::sort(names);
        const auto twice = std::ranges::adjacent_find(names);
        if (twice == names.end()) return end();
        levels_.pop_back();
        return refuse(pointer() + pointer_step(*twice), "is there twice", error);
    }
    bool on_key_part(string_view part, std::size_t, error_code&) {
        key_.append(part.data(), part.size());
        return true;
    }
    bool on_key(string_view part, std::size_t, error_code& error) {
        key_.append(part.data(), part.size());
        std::vector<std::string>& names = levels_.back().names;
        if (names.size() == json_members_max) {
            levels_.pop_back();
            return refuse(pointer(), fmt::format("has more than {} members", json_members_max), error);
        }
        names.push_back(std::exchange(key_, {}));
        return true;
    }
    bool on_string_part(string_view, std::size_t, error_code&) { return true; }
    bool on_string(string_view, std::size_t, error_code&) { return value(); }
    bool on_number_part(string_view, error_code&) { return true; }
    bool on_int64(std::int64_t, string_view, error_code&) { return value(); }
    bool on_uint64(std::uint64_t, string_view, error_code&) { return value(); }
    bool on_double(double number, string_view, error_code& error) {
        if (std::isfinite(number)) return value();
        return refuse(pointer(), "has a number that is too large to be kept", error);
    }
    bool on_bool(bool, error_code&) { return value(); }
    bool on_null(error_code&) { return value(); }
    bool on_comment_part(string_view, error_code&) { return true; }
    bool on_comment(string_view, error_code&) { return true; }

 private:
    struct Level {
        bool object = false;
        std::size_t index = 0;  // Of an array: the element that comes next or is being read.
        std::vector<std::string> names = {};
    };

    bool begin(bool object) {
        levels_.push_back({.object = object});
        return true;
    }
    bool end() {
        levels_.pop_back();
        return value();
    }
    bool value() {
        if (!levels_.empty() && !levels_.back().object) ++levels_.back().index;
        return true;
    }
    // The place of the value that is being read.
    std::string pointer() const {
        std::string all;
        for (const Level& level : levels_) {
            if (level.object && level.names.empty()) continue;
            all += level.object ? pointer_step(level.names.back()) : fmt::format("/{}", level.index);
        }
        return all;
    }
    bool refuse(std::string where, std::string what, error_code& error) {
        flaw = {std::move(where), std::move(what)};
        error = json::error::exception;
        return false;
    }

    std::vector<Level> levels_;
    std::string key_;
};

json::parse_options options() {
    json::parse_options options;
    options.max_depth = json_depth_max;
    return options;
}

std::optional<JsonFlaw> find_flaw(std::string_view text, bool must_be_object) {
    json::basic_parser<FlawFinder> parser(options());
    json::error_code error;
    const std::size_t used = parser.write_some(false, text.data(), text.size(), error);
    if (parser.handler().flaw) return parser.handler().flaw;
    if (!error && used < text.size()) error = json::error::extra_data;
    if (error) return JsonFlaw{"", "is not JSON: " + error.message()};
    if (must_be_object && !parser.handler().is_object) return JsonFlaw{"", "must be an object"};
    return std::nullopt;
}

// How many members a text has that is JSON: each has one colon outside of strings.
std::size_t colons_in(std::string_view text) {
    std::size_t colons = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == ':') ++colons;
        if (text[at] != '"') continue;
        for (++at; at < text.size() && text[at] != '"'; ++at) {
            if (text[at] == '\\') ++at;
        }
    }
    return colons;
}

// How many members the value has; more than any text where it has a number that is too large.
std::size_t members_of(const json::value& value) {
    if (const double* number = value.if_double(); number != nullptr && !std::isfinite(*number)) return SIZE_MAX / 2;
    std::size_t members = 0;
    if (const json::object* object = value.if_object()) {
        members = object->size();
        for (const auto& member : *object) members += members_of(member.value());
    } else if (const json::array* array = value.if_array()) {
        for (const json::value& element : *array) members += members_of(element);
    }
    return members;
}

// Up to so many members a text is parsed first, because building its objects is cheap with any names.
constexpr std::size_t members_few = 64;

}  // namespace

std::string pointer_step(std::string_view name) {
    std::string step = "/";
    for (const char c : name) {
        if (c == '~') {
            step += "~0";
        } else if (c == '/') {
            step += "~1";
        } else {
            step += c;
        }
    }
    return step;
}

std::optional<JsonFlaw> flaw_of_json(std::string_view text) { return find_flaw(text, false); }

std::optional<JsonFlaw> flaw_of_json_object(std::string_view text) {
    if (text == "{}") return std::nullopt;
    return find_flaw(text, true);
}

Result<json::value, JsonFlaw> parse_strict_json(std::string_view text, json::storage_ptr storage) {
    const std::size_t colons = colons_in(text);
    if (colons > members_few) {
        if (auto flaw = find_flaw(text, false)) return fail(std::move(*flaw));
    }
    json::error_code error;
    json::value parsed = json::parse(json::string_view(text.data(), text.size()), error, std::move(storage), options());
    if (error) return fail(JsonFlaw{"", "is not JSON: " + error.message()});
    // An object keeps the last of two members with one name, so that one is missing in the count.
    if (members_of(parsed) == colons) return parsed;
    auto flaw = find_flaw(text, false);
    return fail(flaw ? std::move(*flaw) : JsonFlaw{"", "has a member twice"});
}

}  // namespace interlock
