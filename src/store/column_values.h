// The columns of a row (columns.h) as the values that every database takes: integers, text, bytes and null.
//
// An id that is empty is null, but never in a key.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <boost/mp11/algorithm.hpp>

#include "base/codec.h"
#include "base/enum_names.h"
#include "store/columns.h"
#include "store/row_json.h"
#include "store/table_shape.h"

namespace interlock::store {

// Where a column's bytes stand while a database looks at them.
struct Scratch {
    std::array<char, 16> id;
    std::string json;
};

inline std::string_view id_bytes(Id id, Scratch& scratch) {
    const std::uint64_t halves[2] = {__builtin_bswap64(id.high), __builtin_bswap64(id.low)};  // Sorts as the id does.
    std::memcpy(scratch.id.data(), halves, sizeof halves);
    return {scratch.id.data(), scratch.id.size()};
}

template <class Row, class Column>
constexpr ColumnForm column_form() {
    using T = std::remove_cvref_t<decltype(Column::in(std::declval<Row&>()))>;
    if constexpr (is_id<T> || (std::is_same_v<T, std::string> && strings_are_bytes<Row>)) {
        return ColumnForm::bytes;
    } else if constexpr (std::is_same_v<T, Instant> || codec_detail::IsStrong<T>::value || std::is_integral_v<T>) {
        return ColumnForm::integer;
    } else {
        return ColumnForm::text;
    }
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
        sink.text(enum_name(value));
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

}  // namespace interlock::store
