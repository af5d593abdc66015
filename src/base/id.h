// Ids: 128 bits, sortable by the millisecond they were made in, with a text form that says what they name.
//
//     run_01jcq3w8y5e9m8t2k4x6v0a1bc      prefix, underscore, 26 characters of base 32 (Crockford, lower case)
//
// The bits are those of a UUID of version 7: 48 bits of milliseconds, the version, 12 + 62 bits that make it unique.
// Version 8 marks ids that are a hash of something else: they are not ordered by time, and is_time_ordered() says so.
// Nothing here reads a clock or a random source: whoever makes an id brings both.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/instant.h"
#include "base/keyed_hash.h"

namespace interlock {

struct Id {
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    friend constexpr auto operator<=>(const Id&, const Id&) = default;
    friend constexpr bool operator==(const Id&, const Id&) = default;
    constexpr bool empty() const { return high == 0 && low == 0; }
};

// `entropy_high` gives 12 bits and `entropy_low` 62: random, or a counter where the order inside a millisecond matters.
Id time_ordered_id(Instant at, std::uint64_t entropy_high, std::uint64_t entropy_low);

// The same text always gives the same id.
Id id_from_hash(std::string_view text);

// Ids that outsiders name are a space of their own: a bit that is clear in every other id is set in theirs. Within it,
// each `space` is apart from the others, as far as SHA-256 keeps them. A text that is an id ordered by time, as
// "<prefix>_…" or as a UUID, gives one that is ordered by the same time.
Id chosen_id(std::string_view space, std::string_view prefix, std::string_view text);
constexpr bool is_chosen(Id id) { return (id.low & 0x4000'0000'0000'0000ull) != 0; }

// Past the year 2100 an id does not count as ordered by time: so the ordered ones are a narrow range of all there are.
constexpr Id time_ordered_end = {.high = 0x0400'0000'0000'0000ull, .low = 0};
bool is_time_ordered(Id id);
Instant made_at(Id id);  // Only for time-ordered ids.

std::string to_text(std::string_view prefix, Id id);
// Empty unless the text is exactly this prefix, an underscore and 26 characters of the alphabet.
std::optional<Id> id_from_text(std::string_view prefix, std::string_view text);
// A UUID in its usual spelling (36 characters, hyphens). Empty for anything else.
std::optional<Id> id_from_uuid(std::string_view text);

}  // namespace interlock

// Clients choose ids, for example as keys of commands.
template <>
struct std::hash<interlock::Id> {
    std::size_t operator()(const interlock::Id& id) const noexcept { return interlock::keyed_hash(id.high, id.low); }
};
