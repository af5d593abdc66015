// The columns of a row (columns.h) in and out of PostgreSQL.
//
//   (1) What is written reads back equal.
//
// Rows go out as arrays, one for each column: a batch is one statement, however many rows it has.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <libpq-fe.h>

#include "store/column_values.h"
#include "store/postgres_connection.h"
#include "store/postgres_text.h"
#include "store/read_rows.h"

namespace interlock::store {

// The server's numbers for its types (catalog/pg_type.dat), which never change.
constexpr Oid postgres_bytea = 17;
constexpr Oid postgres_int8 = 20;
constexpr Oid postgres_text = 25;

// ---- writing ------------------------------------------------------------------------------------------------------

constexpr Oid type_of(ColumnForm form) {
    constexpr std::array types{postgres_int8, postgres_text, postgres_bytea};
    return types[static_cast<std::size_t>(form)];
}
constexpr std::string_view array_name_of(ColumnForm form) {
    constexpr std::array<std::string_view, 3> names{"bigint[]", "text[]", "bytea[]"};
    return names[static_cast<std::size_t>(form)];
}

// An array of one dimension in the form in which the server sends and takes it: a head, then each element after its
// length, high ends first.
class PostgresArray {
 public:
    PostgresArray(Oid type, std::size_t count) {
        bytes_.reserve(20 + count * 20);
        for (const std::uint32_t word : {std::uint32_t{1}, std::uint32_t{1}, std::uint32_t{type},
                                         static_cast<std::uint32_t>(count), std::uint32_t{1}}) {
            append(word);
        }
    }
    // What write_column writes to.
    void integer(std::int64_t value) {
        append(std::uint32_t{sizeof value});
        const std::uint64_t bits = __builtin_bswap64(static_cast<std::uint64_t>(value));
        bytes_.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    }
    void bytes(std::string_view value) {
        append(static_cast<std::uint32_t>(value.size()));
        bytes_.append(value);
    }
    void text(std::string_view value) {
        if (is_plain_text(value)) return bytes(value);
        const std::size_t head = bytes_.size();
        append(std::uint32_t{0});
        append_escaped(bytes_, value);
        const std::uint32_t length = __builtin_bswap32(static_cast<std::uint32_t>(bytes_.size() - head - 4));
        std::memcpy(bytes_.data() + head, &length, sizeof length);
    }
    void null() { append(std::uint32_t{0xFFFF'FFFF}); }

    std::string take() { return std::move(bytes_); }

 private:
    void append(std::uint32_t word) {
        word = __builtin_bswap32(word);
        bytes_.append(reinterpret_cast<const char*>(&word), sizeof word);
    }
    std::string bytes_;
};

struct ArraySink {
    PostgresArray& array;
    void integer(std::int64_t value) { array.integer(value); }
    void text(std::string_view value) { array.text(value); }
    void bytes(std::string_view value) { array.bytes(value); }
    void null() { array.null(); }
};

template <class Row, std::size_t I>
std::string column_array(std::span<const Row* const> rows) {
    PostgresArray array(type_of(column_form<Row, I>()), rows.size());
    Scratch scratch;
    for (const Row* row : rows) write_column<Row, I>(ArraySink{array}, *row, scratch);
    return array.take();
}

// Adds the first `Count` columns of the rows for which `wanted(name)`, as arrays.
template <class Row, std::size_t Count = column_count<Row>, class Wanted>
void add_columns(PostgresParameters& parameters, std::span<const Row* const> rows, Wanted wanted) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((wanted(column_names<Row>()[I]) ? void(parameters.array(column_array<Row, I>(rows))) : void()), ...);
    }(std::make_index_sequence<Count>{});
}

template <class Row>
void add_keys(PostgresParameters& parameters, std::span<const Row* const> rows) {
    add_columns<Row, Row::key_columns>(parameters, rows, [](std::string_view) { return true; });
}

// "$2::text[], $3::bigint[]" for the first `Count` columns; the org is $1.
template <class Row, std::size_t Count = column_count<Row>>
std::vector<std::string> array_types() {
    return []<std::size_t... I>(std::index_sequence<I...>) {
        return std::vector<std::string>{std::string(array_name_of(column_form<Row, I>()))...};
    }(std::make_index_sequence<Count>{});
}

// ---- reading ------------------------------------------------------------------------------------------------------

// A value of a result. False when its type is none that our tables and questions have, or a number does not fit.
bool read_value(const PGresult& result, int row, int column, Value& value);

// The org and the columns of a row, as column_list<Row>() names them.
template <class Row>
bool read_row(const PGresult& result, int index, core::OrgId& org, Row& row) {
    Value value;
    int column = 0;
    bool good = read_value(result, index, column++, value) && read_value(value, org);
    boost::mp11::mp_for_each<Columns<Row>>([&](auto member) {
        good = good && read_value(result, index, column++, value) && read_value(value, member.in(row));
    });
    return good;
}

}  // namespace interlock::store
