// The key of a row: its first `key_columns` members, as one value. Nothing, one member, or a tuple.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "base/instant.h"
#include "base/keyed_hash.h"
#include "base/strong.h"

namespace interlock::core {

template <class Row>
using ColumnsOf = boost::describe::describe_members<Row, boost::describe::mod_any_access>;

namespace key_detail {
template <class Row, std::size_t I>
using ColumnType = std::remove_cvref_t<decltype(std::declval<Row>().*boost::mp11::mp_at_c<ColumnsOf<Row>, I>::pointer)>;

template <class Row, std::size_t... I>
auto tuple_of(std::index_sequence<I...>) -> std::tuple<ColumnType<Row, I>...>;

template <class Row, std::size_t Count = Row::key_columns>
struct KeyType {
    using type = decltype(tuple_of<Row>(std::make_index_sequence<Count>{}));
};
template <class Row>
struct KeyType<Row, 1> {
    using type = ColumnType<Row, 0>;
};
}  // namespace key_detail

template <class Row>
using KeyOf = typename key_detail::KeyType<Row>::type;

template <class Row>
KeyOf<Row> key_of(const Row& row) {
    if constexpr (Row::key_columns == 1) {
        return row.*boost::mp11::mp_front<ColumnsOf<Row>>::pointer;
    } else {
        return [&row]<std::size_t... I>(std::index_sequence<I...>) {
            return KeyOf<Row>(row.*boost::mp11::mp_at_c<ColumnsOf<Row>, I>::pointer...);
        }(std::make_index_sequence<Row::key_columns>{});
    }
}

// A row that is nothing but its key: what a load is asked with.
template <class Row>
Row with_key(const KeyOf<Row>& key) {
    Row row{};
    if constexpr (Row::key_columns == 1) {
        row.*boost::mp11::mp_front<ColumnsOf<Row>>::pointer = key;
    } else {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            ((row.*boost::mp11::mp_at_c<ColumnsOf<Row>, I>::pointer = std::get<I>(key)), ...);
        }(std::make_index_sequence<Row::key_columns>{});
    }
    return row;
}

// With a key where clients choose the value: texts and ids (base/keyed_hash.h).
struct KeyHash {
    template <class T>
    std::size_t operator()(const T& value) const {
        if constexpr (std::is_same_v<T, Instant>) {
            return std::hash<std::int64_t>{}(micros(value));
        } else if constexpr (std::is_same_v<T, std::string>) {
            return keyed_hash(value);
        } else {
            return std::hash<T>{}(value);
        }
    }
    template <class... T>
    std::size_t operator()(const std::tuple<T...>& key) const {
        std::size_t seed = 0;
        std::apply([&](const auto&... part) { ((seed = (seed ^ (*this)(part)) * 0x9E3779B97F4A7C15ull), ...); }, key);
        return seed;
    }
};

}  // namespace interlock::core
