// The columns of a row (columns.h) in and out of SQLite.
//
//   (1) What is written reads back equal.
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
#include <vector>

#include <boost/mp11/algorithm.hpp>

#include "store/column_values.h"
#include "store/columns.h"
#include "store/row_json.h"
#include "store/sqlite_db.h"

namespace interlock::store {

// ---- writing ------------------------------------------------------------------------------------------------------

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
        return enum_from_name(column_bytes(statement, index), value);
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

}  // namespace interlock::store
