// JSON that has one meaning: RFC 8259, UTF-8, no member twice, no number that a double cannot hold.
//
// The bounds are part of it, because a client chooses the names: an object of Boost.JSON finds its members by a hash
// whose seed is known.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace interlock {

constexpr std::size_t json_members_max = 1'000;  // Of one object.
constexpr std::size_t json_depth_max = 32;

struct JsonFlaw {
    std::string pointer;  // RFC 6901. Empty: the text as a whole.
    std::string detail;   // Goes on where the place's name ends: "is there twice".
};

// "/name", with what a pointer must escape.
std::string pointer_step(std::string_view name);

// Why the text is not strict JSON; nothing where it is.
std::optional<JsonFlaw> flaw_of_json(std::string_view text);
// The same, for text that must be an object.
std::optional<JsonFlaw> flaw_of_json_object(std::string_view text);

// The value is kept in `storage`. With one that frees all at once, a large value costs nothing to destroy.
Result<boost::json::value, JsonFlaw> parse_strict_json(std::string_view text, boost::json::storage_ptr storage = {});

}  // namespace interlock
