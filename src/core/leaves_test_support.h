// Looks into described structs from outside: every value that is not made of others is a leaf, numbered in order.
// Shares the descriptions with base/codec.h, and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <boost/describe/enumerators.hpp>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/id.h"
#include "base/instant.h"
#include "base/money.h"
#include "base/strong.h"

namespace interlock::core {

template <class T, class Visit>
void each_leaf(T& value, Visit& visit);

namespace leaves_detail {

template <class T>
constexpr bool is_strong = false;
template <class Tag, class V>
constexpr bool is_strong<Strong<Tag, V>> = true;
template <class T>
constexpr bool is_optional = false;
template <class V>
constexpr bool is_optional<std::optional<V>> = true;
template <class T>
constexpr bool is_vector = false;
template <class V>
constexpr bool is_vector<std::vector<V>> = true;
template <class T>
constexpr bool is_map = false;
template <class K, class V>
constexpr bool is_map<std::map<K, V>> = true;

template <class T>
T nth_enumerator(std::uint64_t n) {
    std::vector<T> all;
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>([&](auto each) { all.push_back(each.value); });
    return all[n % all.size()];
}

}  // namespace leaves_detail

// Gives the leaf a value of its own: another for each number.
template <class Leaf>
void set_leaf(Leaf& leaf, std::uint64_t number) {
    const auto count = static_cast<std::int64_t>(number);
    if constexpr (std::is_same_v<Leaf, bool>)
        leaf = !leaf;
    else if constexpr (std::is_enum_v<Leaf>) {
        const Leaf before = leaf;
        leaf = leaves_detail::nth_enumerator<Leaf>(number);
        if (leaf == before) leaf = leaves_detail::nth_enumerator<Leaf>(number + 1);
    } else if constexpr (std::is_integral_v<Leaf>)
        leaf = static_cast<Leaf>(1000 + count);
    else if constexpr (std::is_same_v<Leaf, std::string>)
        leaf = "leaf-" + std::to_string(number);
    else if constexpr (std::is_same_v<Leaf, Instant>)
        leaf = from_micros(1'000'000 + count);
    else if constexpr (std::is_same_v<Leaf, Money>)
        leaf = Money::nanos(1'000 + count);
    else
        leaf = Id{.high = number + 1, .low = ~number};
}

template <class Leaf>
std::string leaf_text(const Leaf& leaf) {
    if constexpr (std::is_same_v<Leaf, std::string>)
        return leaf;
    else if constexpr (std::is_enum_v<Leaf>)
        return std::to_string(static_cast<int>(leaf));
    else if constexpr (std::is_arithmetic_v<Leaf>)
        return std::to_string(leaf);
    else if constexpr (std::is_same_v<Leaf, Instant>)
        return std::to_string(micros(leaf));
    else if constexpr (std::is_same_v<Leaf, Money>)
        return std::to_string(leaf.nanos());
    else
        return fmt::format("{:x}:{:x}", leaf.high, leaf.low);
}

// Calls visit(leaf) for every leaf, in order. What may be empty has its size as a leaf of its own: see visit.size().
template <class T, class Visit>
void each_leaf(T& value, Visit& visit) {
    using namespace leaves_detail;
    using Plain = std::remove_const_t<T>;
    if constexpr (is_strong<Plain>) {
        each_leaf(value.value, visit);
    } else if constexpr (is_optional<Plain>) {
        visit.size(value);
        if (value) each_leaf(*value, visit);
    } else if constexpr (is_vector<Plain>) {
        visit.size(value);
        for (auto& element : value) each_leaf(element, visit);
    } else if constexpr (is_map<Plain>) {
        visit.size(value);
        for (auto& [key, mapped] : value) each_leaf(mapped, visit);
    } else if constexpr (IsVariant<Plain>) {
        std::visit([&](auto& alternative) { each_leaf(alternative, visit); }, value);
    } else if constexpr (std::is_class_v<Plain> && !std::is_same_v<Plain, std::string> &&
                         !std::is_same_v<Plain, Instant> && !std::is_same_v<Plain, Money> &&
                         !std::is_same_v<Plain, Id>) {
        boost::mp11::mp_for_each<boost::describe::describe_members<Plain, boost::describe::mod_any_access>>(
            [&](auto member) { each_leaf(value.*member.pointer, visit); });
    } else {
        visit(value);
    }
}

// All leaves as text, with the sizes of what may be empty.
struct LeafTexts {
    std::vector<std::string> texts;

    template <class Leaf>
    void operator()(const Leaf& leaf) {
        texts.push_back(leaf_text(leaf));
    }
    template <class T>
    void size(const std::optional<T>& value) {
        texts.push_back(value ? "there" : "empty");
    }
    template <class T>
    void size(const std::vector<T>& value) {
        texts.push_back("size " + std::to_string(value.size()));
    }
    template <class K, class V>
    void size(const std::map<K, V>& value) {
        std::string keys = "keys";
        for (const auto& [key, mapped] : value) keys += " " + key;
        texts.push_back(keys);
    }
};

template <class T>
std::vector<std::string> leaf_texts(const T& value) {
    LeafTexts visit;
    each_leaf(value, visit);
    return visit.texts;
}

// Gives every leaf a value of its own, and what is empty an element, so that its leaves are there too.
struct FillLeaves {
    std::uint64_t seen = 0;

    template <class Leaf>
    void operator()(Leaf& leaf) {
        set_leaf(leaf, seen++);
    }
    template <class T>
    void size(std::optional<T>& value) {
        value.emplace(), ++seen;
    }
    template <class T>
    void size(std::vector<T>& value) {
        value.emplace_back(), ++seen;
    }
    template <class K, class V>
    void size(std::map<K, V>& value) {
        value.emplace("key-" + std::to_string(seen), V{}), ++seen;
    }
};

// Changes one leaf. As a leaf of its own, a list becomes empty, or gets an element where it is empty.
struct ChangeLeaf {
    std::uint64_t number;
    std::uint64_t seen = 0;

    bool is_it() { return seen++ == number; }
    template <class Leaf>
    void operator()(Leaf& leaf) {
        if (is_it()) set_leaf(leaf, number + 5000);  // Another than FillLeaves gives.
    }
    template <class T>
    void size(std::optional<T>& value) {
        if (is_it()) value = value ? std::nullopt : std::optional<T>(T{});
    }
    template <class T>
    void size(std::vector<T>& value) {
        if (is_it()) value.resize(value.empty() ? 1 : 0);
    }
    template <class K, class V>
    void size(std::map<K, V>& value) {
        if (is_it()) value.empty() ? void(value.emplace("key", V{})) : value.clear();
    }
};

template <class T>
void fill_leaves(T& value) {
    FillLeaves visit;
    each_leaf(value, visit);
}

// False when there are not so many leaves.
template <class T>
bool change_leaf(T& value, std::uint64_t number) {
    ChangeLeaf visit{.number = number};
    each_leaf(value, visit);
    return number < visit.seen;
}

}  // namespace interlock::core
