// Variants with many alternatives, whose constructors, assignments and destructors are compiled in one file.
//
// Those of a std::variant are inline templates with a table of functions for each operation, and every file that makes
// or passes on a command, a reply or an event compiles them again. (A constructor needs the table of the destructor.) A
// type that is derived from the variant declares them only:
//
//     #define EVENT_KINDS Charged, Held
//     struct Event : std::variant<EVENT_KINDS> {
//         INTERLOCK_VARIANT(Event)
//     };
//
// and one .cc file compiles them with INTERLOCK_VARIANT_MEMBERS(Event, EVENT_KINDS). std::visit, std::get and the like
// take it as they take the variant. `Kinds` is the variant itself.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include <boost/preprocessor/seq/for_each.hpp>
#include <boost/preprocessor/variadic/to_seq.hpp>

namespace interlock {

template <class Kind, class Variant>
constexpr bool is_kind_of = false;
template <class Kind, class... Kinds>
constexpr bool is_kind_of<Kind, std::variant<Kinds...>> = (std::same_as<Kind, Kinds> || ...);

template <class... Kinds>
std::variant<Kinds...> kinds_of(const std::variant<Kinds...>&);
// The std::variant that T is, or is derived from.
template <class T>
using KindsOf = decltype(kinds_of(std::declval<const T&>()));
template <class T>
concept IsVariant = requires { typename KindsOf<T>; };

}  // namespace interlock

#define INTERLOCK_VARIANT(Name)                        \
    using Kinds = variant;                             \
    Name();                                            \
    Name(const Name& other);                           \
    Name(Name&& other) noexcept;                       \
    Name& operator=(const Name& other);                \
    Name& operator=(Name&& other) noexcept;            \
    ~Name();                                           \
    template <class Kind>                              \
        requires(interlock::is_kind_of<Kind, variant>) \
    Name(const Kind& kind);                            \
    template <class Kind>                              \
        requires(interlock::is_kind_of<Kind, variant>) \
    Name(Kind&& kind);                                 \
    template <std::size_t index>                       \
    explicit Name(std::in_place_index_t<index> which) : variant(which) {}

#define INTERLOCK_VARIANT_CONSTRUCTORS(r, Name, Kind) \
    template Name::Name(const Kind& kind);            \
    template Name::Name(Kind&& kind);

#define INTERLOCK_VARIANT_MEMBERS(Name, ...)                                                 \
    Name::Name() = default;                                                                  \
    Name::Name(const Name& other) = default;                                                 \
    Name::Name(Name&& other) noexcept = default;                                             \
    Name& Name::operator=(const Name&) = default;                                            \
    Name& Name::operator=(Name&&) noexcept = default;                                        \
    Name::~Name() = default;                                                                 \
    template <class Kind>                                                                    \
        requires(interlock::is_kind_of<Kind, Name::variant>)                                 \
    Name::Name(const Kind& kind) : variant(std::in_place_type<Kind>, kind) {}                \
    template <class Kind>                                                                    \
        requires(interlock::is_kind_of<Kind, Name::variant>)                                 \
    Name::Name(Kind&& kind) : variant(std::in_place_type<Kind>, std::forward<Kind>(kind)) {} \
    BOOST_PP_SEQ_FOR_EACH(INTERLOCK_VARIANT_CONSTRUCTORS, Name, BOOST_PP_VARIADIC_TO_SEQ(__VA_ARGS__))
