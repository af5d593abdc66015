// Which columns a row has: its described members, in order, after the org.
//
//   1. One description serves writing, reading, the text of every statement and the comparison with the schema: a
//      member that is added to a row is a column everywhere, or the schema test fails.
//
// A member of a flat struct type becomes that struct's columns, under their own names; amounts are the exception, since
// a row may have several: they take the member's name in front (bound_usd).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <boost/mp11/algorithm.hpp>
#include <boost/mp11/list.hpp>

#include "core/key_of.h"
#include "core/rows.h"

namespace interlock::store {

// A column's name is its member's, behind the name of the struct if `prefix` is not empty.
template <class Descriptor>
struct DirectColumn {
    static constexpr std::string_view prefix = {};
    static constexpr std::string_view member = Descriptor::name;
    template <class Row>
    static auto& in(Row& row) {
        return row.*Descriptor::pointer;
    }
};

template <class Outer, class Inner>
struct NestedColumn {
    static constexpr bool is_amount =
        std::is_same_v<decltype(core::Amounts::usd) core::Amounts::*, std::remove_cv_t<decltype(Inner::pointer)>>;
    static constexpr std::string_view prefix = is_amount ? Outer::name : "";
    static constexpr std::string_view member = Inner::name;
    template <class Row>
    static auto& in(Row& row) {
        return row.*Outer::pointer.*Inner::pointer;
    }
};

namespace columns_detail {
template <class Class, class T>
T member_type(T Class::*);
template <class Descriptor>
using TypeOf = decltype(member_type(Descriptor::pointer));

template <class T>
constexpr bool is_flat = requires { typename T::flat; } || std::is_same_v<T, Usage>;

template <class Outer, bool Flat = is_flat<TypeOf<Outer>>>
struct Expand {
    using type = boost::mp11::mp_list<DirectColumn<Outer>>;
};
template <class Outer>
struct Expand<Outer, true> {
    template <class Inner>
    using Nested = NestedColumn<Outer, Inner>;
    using type =
        boost::mp11::mp_transform<Nested, boost::mp11::mp_rename<core::ColumnsOf<TypeOf<Outer>>, boost::mp11::mp_list>>;
};
template <class Outer>
using ExpandT = typename Expand<Outer>::type;
}  // namespace columns_detail

// The columns of a row's table, without the org.
template <class Row>
using Columns = boost::mp11::mp_flatten<boost::mp11::mp_transform<
    columns_detail::ExpandT, boost::mp11::mp_rename<core::ColumnsOf<Row>, boost::mp11::mp_list>>>;

template <class Row>
constexpr std::size_t column_count = boost::mp11::mp_size<Columns<Row>>::value;

// Bytes that are not text. Every other string is.
template <class Row>
constexpr bool strings_are_bytes =
    std::is_same_v<Row, core::FeedPage> || std::is_same_v<Row, core::StoredReply> || std::is_same_v<Row, core::Seal>;

// A hold's agent may be left out. It is null then, because what is there must be an agent (a foreign key).
template <class Row, class Column>
constexpr bool null_when_empty = false;
template <class Outer, class Inner>
constexpr bool null_when_empty<core::Hold, NestedColumn<Outer, Inner>> = NestedColumn<Outer, Inner>::member == "agent";

template <class T>
constexpr bool is_id = false;
template <class Tag>
constexpr bool is_id<Strong<Tag, Id>> = true;

}  // namespace interlock::store
