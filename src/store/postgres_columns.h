// The columns of a row (columns.h) in and out of PostgreSQL.
//
//   1. What is written reads back equal.
//
// Rows go out as arrays, one for each column: a batch is one statement, however many rows it has.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <libpq-fe.h>

#include "store/column_values.h"
#include "store/postgres_connection.h"
#include "store/read_rows.h"
#include "store/read_value.h"
#include "store/table_shape.h"

namespace interlock::store {

// The server's numbers for its types (catalog/pg_type.dat), which never change.
constexpr Oid postgres_bytea = 17;
constexpr Oid postgres_int8 = 20;
constexpr Oid postgres_text = 25;

// ---- writing ------------------------------------------------------------------------------------------------------

// Which columns a statement takes.
using WantedColumn = bool (*)(std::string_view name);
inline bool any_column(std::string_view) { return true; }

// An array of one dimension in the form in which the server sends and takes it: a head, then each element after its
// length, high ends first. A sink of write_column.
class PostgresArray {
 public:
    PostgresArray(ColumnForm form, std::size_t count);
    void integer(std::int64_t value);
    void text(std::string_view value);
    void bytes(std::string_view value);
    void null();

    std::string take() { return std::move(bytes_); }

 private:
    void append(std::uint32_t word);
    std::string bytes_;
};

struct ArraySink {
    PostgresArray& array;
    void integer(std::int64_t value) { array.integer(value); }
    void text(std::string_view value) { array.text(value); }
    void bytes(std::string_view value) { array.bytes(value); }
    void null() { array.null(); }
};

// Arrays of the first `columns` columns for which `wanted(name)`; the others are empty.
using ColumnArrays = std::vector<std::optional<PostgresArray>>;
ColumnArrays arrays_for(const TableShape& shape, std::size_t columns, std::size_t rows, WantedColumn wanted);
void add_arrays(PostgresParameters& parameters, ColumnArrays& arrays);

template <class Row, std::size_t Count>
void append_row(ColumnArrays& arrays, const Row& row) {
    Scratch scratch;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        ((arrays[I] ? write_column<Row, I>(ArraySink{*arrays[I]}, row, scratch) : void()), ...);
    }(std::make_index_sequence<Count>{});
}

template <class Row>
void add_columns(PostgresParameters& parameters, std::span<const Row* const> rows, WantedColumn wanted) {
    ColumnArrays arrays = arrays_for(shape_of<Row>(), column_count<Row>, rows.size(), wanted);
    for (const Row* row : rows) append_row<Row, column_count<Row>>(arrays, *row);
    add_arrays(parameters, arrays);
}

template <class Row>
void add_keys(PostgresParameters& parameters, std::span<const Row* const> rows) {
    ColumnArrays arrays = arrays_for(shape_of<Row>(), Row::key_columns, rows.size(), any_column);
    for (const Row* row : rows) append_row<Row, Row::key_columns>(arrays, *row);
    add_arrays(parameters, arrays);
}

// ---- reading ------------------------------------------------------------------------------------------------------

// A value of a result. False when its type is none that our tables and questions have, or a number does not fit.
bool read_value(const PGresult& result, int row, int column, Value& value);

// All values of a row of a result. False as above.
bool read_values(const PGresult& result, int row, std::vector<Value>& values);

// The org and the columns of a row, as column_list() names them. `values` is room for them, to be used again.
template <class Row>
bool read_row(const PGresult& result, int index, std::vector<Value>& values, core::OrgId& org, Row& row) {
    return read_values(result, index, values) && read_value(values.front(), org) && row_from_values(values, row);
}

}  // namespace interlock::store
