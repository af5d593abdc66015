// Most of what Strong promises is what does not compile, so most of this is checked when it is compiled.
#include "base/strong.h"

#include <gtest/gtest.h>

#include <compare>
#include <cstdint>
#include <string>
#include <type_traits>
#include <unordered_set>

#include "base/id.h"

namespace interlock {
namespace {

using Apples = Strong<struct ApplesTag, std::int64_t>;
using Pears = Strong<struct PearsTag, std::int64_t>;
using Name = Strong<struct NameTag, std::string>;
using Key = Strong<struct KeyTag, Id>;

template <class A, class B>
concept Comparable = requires(A a, B b) { a == b; } || requires(A a, B b) { a < b; };
template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };

// One meaning does not become another.
static_assert(!std::is_constructible_v<Apples, Pears> && !std::is_constructible_v<Pears, Apples>);
static_assert(!std::is_assignable_v<Apples&, Pears> && !std::is_assignable_v<Apples&, std::int64_t>);
static_assert(!Comparable<Apples, Pears> && Comparable<Apples, Apples>);
static_assert(!Addable<Apples, Apples> && !Addable<Apples, Pears>);
// A bare value becomes one only when that is said, and it does not become a bare value again.
static_assert(std::is_constructible_v<Apples, std::int64_t> && !std::is_convertible_v<std::int64_t, Apples>);
static_assert(std::is_constructible_v<Name, std::string> && !std::is_convertible_v<std::string, Name>);
static_assert(!std::is_convertible_v<Apples, std::int64_t> && !std::is_convertible_v<Apples, bool>);
static_assert(!std::is_convertible_v<Name, std::string> && !std::is_convertible_v<Key, Id>);
static_assert(!Comparable<Apples, std::int64_t> && !Comparable<Name, std::string>);
// It costs nothing.
static_assert(sizeof(Apples) == sizeof(std::int64_t) && std::is_trivially_copyable_v<Apples>);
static_assert(Apples().value == 0 && Apples(1) < Apples(2) && Apples(2) == Apples(2));

TEST(Strong, is_ordered_and_hashed_as_its_value_is) {
    EXPECT_EQ(Name("b") <=> Name("a"), std::strong_ordering::greater);
    EXPECT_EQ(Key(Id{.high = 1, .low = 2}) <=> Key(Id{.high = 1, .low = 3}), std::strong_ordering::less);

    const std::unordered_set<Name> names = {Name("a"), Name("b"), Name("a")};
    EXPECT_EQ(names.size(), 2u);
    EXPECT_EQ(std::hash<Apples>{}(Apples(7)), std::hash<std::int64_t>{}(7));
}

}  // namespace
}  // namespace interlock
