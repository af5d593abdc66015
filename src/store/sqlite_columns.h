// Rows as columns: a row's described members are its columns, in order, after the org.
//
//   (1) One description serves writing, reading, the text of every statement and the comparison with the schema: a
//       member that is added to a row is a column everywhere, or the schema test fails.
//   (2) What is written reads back equal.
//
// A member of a flat struct type becomes that struct's columns, under their own names; amounts are the exception, since
// a row may have several: they take the member's name in front (bound_usd). An id that is empty is null, but never in
// a key.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/describe/enum_from_string.hpp>
#include <boost/describe/enum_to_string.hpp>
#include <boost/mp11/algorithm.hpp>
#include <boost/mp11/list.hpp>

#include "core/key_of.h"
#include "core/rows.h"
#include "store/sqlite_db.h"
#include "store/sqlite_json.h"

namespace interlock::store {

// ---- which columns a row has --------------------------------------------------------------------------------------

template <class Descriptor>
struct DirectColumn {
    static std::string name() { return Descriptor::name; }
    template <class Row>
    static auto& in(Row& row) {
        return row.*Descriptor::pointer;
    }
};

template <class Outer, class Inner>
struct NestedColumn {
    template <class Row>
    static auto& in(Row& row) {
        return row.*Outer::pointer.*Inner::pointer;
    }
    static std::string name() {
        constexpr bool amounts =
            std::is_same_v<decltype(core::Amounts::usd) core::Amounts::*, std::remove_cv_t<decltype(Inner::pointer)>>;
        return amounts ? std::string(Outer::name) + "_" + Inner::name : Inner::name;
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

template <class Row>
const std::vector<std::string>& column_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        boost::mp11::mp_for_each<Columns<Row>>([&](auto column) { all.push_back(column.name()); });
        return all;
    }();
    return names;
}

// Bytes that are not text. Every other string is.
template <class Row>
constexpr bool strings_are_bytes = std::is_same_v<Row, core::FeedPage> || std::is_same_v<Row, core::Answer>;

// A hold's agent may be left out. It is null then, because what is there must be an agent (a foreign key).
template <class Row, class Column>
constexpr bool null_when_empty = false;
template <class Outer, class Inner>
constexpr bool null_when_empty<core::Hold, NestedColumn<Outer, Inner>> =
    std::string_view(Inner::name) == std::string_view("agent");

// ---- writing ------------------------------------------------------------------------------------------------------

// Where a column's bytes stand while SQLite looks at them.
struct Scratch {
    std::array<char, 16> id;
    std::string json;
};

template <class T>
constexpr bool is_id = false;
template <class Tag>
constexpr bool is_id<Strong<Tag, Id>> = true;

inline std::string_view id_bytes(Id id, Scratch& scratch) {
    const std::uint64_t halves[2] = {__builtin_bswap64(id.high), __builtin_bswap64(id.low)};  // Sorts as the id does.
    std::memcpy(scratch.id.data(), halves, sizeof halves);
    return {scratch.id.data(), scratch.id.size()};
}

// Sink: integer(int64), text(string_view), bytes(string_view), null().
template <class Row, std::size_t I, class Sink>
void write_column(Sink sink, const Row& row, Scratch& scratch) {
    using Column = boost::mp11::mp_at_c<Columns<Row>, I>;
    using T = std::remove_cvref_t<decltype(Column::in(row))>;
    constexpr bool in_key = I < Row::key_columns;
    const T& value = Column::in(row);
    if constexpr (is_id<T>) {
        if (!in_key && value.value.empty()) return sink.null();
        sink.bytes(id_bytes(value.value, scratch));
    } else if constexpr (std::is_same_v<T, std::string>) {
        if (null_when_empty<Row, Column> && value.empty()) return sink.null();
        if constexpr (strings_are_bytes<Row>) {
            sink.bytes(value);
        } else {
            sink.text(value);
        }
    } else if constexpr (std::is_same_v<T, Instant>) {
        sink.integer(micros(value));
    } else if constexpr (codec_detail::IsStrong<T>::value) {
        sink.integer(static_cast<std::int64_t>(value.value));
    } else if constexpr (std::is_enum_v<T>) {
        sink.text(boost::describe::enum_to_string(value, ""));
    } else if constexpr (std::is_integral_v<T>) {
        sink.integer(static_cast<std::int64_t>(value));
    } else if constexpr (codec_detail::IsMap<T>::value || codec_detail::IsVector<T>::value) {
        if (value.empty()) return sink.text(codec_detail::IsMap<T>::value ? "{}" : "[]");
        scratch.json.clear();
        write_json(scratch.json, value);
        sink.text(scratch.json);
    } else {
        scratch.json.clear();
        write_json(scratch.json, value);
        sink.text(scratch.json);
    }
}

// Parameters of a statement. The bytes must stay where they are until it has run.
struct BindSink {
    sqlite3_stmt* statement;
    int index;
    void integer(std::int64_t value) { sqlite3_bind_int64(statement, index, value); }
    void text(std::string_view value) {
        sqlite3_bind_text64(statement, index, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8);
    }
    void bytes(std::string_view value) {
        // A null pointer would bind null instead of no bytes.
        sqlite3_bind_blob64(statement, index, value.empty() ? "" : value.data(), value.size(), SQLITE_STATIC);
    }
    void null() { sqlite3_bind_null(statement, index); }
};

// Binds the org to the first parameter and the key to those after it.
template <class Row>
void bind_key(sqlite3_stmt* statement, core::OrgId org, const Row& row,
              std::array<Scratch, Row::key_columns>& scratch) {
    sqlite3_bind_int64(statement, 1, org.value);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        (write_column<Row, I>(BindSink{statement, static_cast<int>(I) + 2}, row, scratch[I]), ...);
    }(std::make_index_sequence<Row::key_columns>{});
}

// ---- reading ------------------------------------------------------------------------------------------------------

// False when what stands there is not a value of the member's type: the file was changed by somebody else.
template <class T>
bool read_column(sqlite3_stmt* statement, int index, T& value) {
    if constexpr (is_id<T>) {
        const std::string_view bytes = column_bytes(statement, index);
        value = T{};
        if (bytes.empty()) return true;
        if (bytes.size() != 16) return false;
        std::uint64_t halves[2];
        std::memcpy(halves, bytes.data(), sizeof halves);
        value = T(Id{__builtin_bswap64(halves[0]), __builtin_bswap64(halves[1])});
        return true;
    } else if constexpr (std::is_same_v<T, std::string>) {
        value.assign(column_bytes(statement, index));
        return true;
    } else if constexpr (std::is_same_v<T, Instant>) {
        value = from_micros(sqlite3_column_int64(statement, index));
        return true;
    } else if constexpr (codec_detail::IsStrong<T>::value) {
        return read_column(statement, index, value.value);
    } else if constexpr (std::is_enum_v<T>) {
        const std::string name(column_bytes(statement, index));
        return boost::describe::enum_from_string(name.c_str(), value);
    } else if constexpr (std::is_integral_v<T>) {
        const std::int64_t number = sqlite3_column_int64(statement, index);
        value = static_cast<T>(number);
        return static_cast<std::int64_t>(value) == number;
    } else {
        return read_json(column_bytes(statement, index), value);
    }
}

// The columns of a row from `index` on, all of them, in order.
template <class Row>
bool read_row(sqlite3_stmt* statement, int index, Row& row) {
    bool good = true;
    boost::mp11::mp_for_each<Columns<Row>>(
        [&](auto column) { good = read_column(statement, index++, column.in(row)) && good; });
    return good;
}

// ---- statements ---------------------------------------------------------------------------------------------------

// "org, key, …"
template <class Row>
std::string column_list() {
    return "org, " + joined(column_names<Row>(), ", ");
}

template <class Row>
std::vector<std::string> key_names() {
    std::vector<std::string> names{"org"};
    for (std::size_t i = 0; i < Row::key_columns; ++i) names.push_back(column_names<Row>()[i]);
    return names;
}

// "where org = ? and key = ?"
template <class Row>
std::string where_key() {
    return "where " + joined(key_names<Row>(), " = ? and ") + " = ?";
}

template <class Row>
std::string select_rows() {
    return "select " + column_list<Row>() + " from " + std::string(Row::table) + " ";
}

}  // namespace interlock::store
