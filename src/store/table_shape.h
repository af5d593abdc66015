// The shape of a row's table: its name and columns, which is all that the text of a statement is made from.
//
//   1. The shape of each kind of core::AllRows is built once, in table_shape.cc. Code that only needs names and forms
//      is an ordinary function of a shape, so the compiler sees it once and not once per kind.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/rows.h"

namespace interlock::store {

// The type of a column in a database.
enum class ColumnForm { integer, text, bytes };

struct TableShape {
    std::string_view table;
    std::vector<std::string> columns;  // Without the org.
    std::vector<ColumnForm> forms;     // Of each column.
    std::size_t key_columns = 0;       // The first columns are the key.
    core::Life life = core::Life::appended;
};

// "bound_usd", or the member's name alone if there is no prefix (columns.h).
std::string column_name(std::string_view prefix, std::string_view member);

// For every kind of core::AllRows.
template <class Row>
const TableShape& shape_of();

// Whether each row of the kind is chained to the one before it, by its key. Of those only the last is live.
bool is_chain(const TableShape& shape);

// The name as SQL takes it: "window" is a reserved word.
std::string quoted(const std::string& name);
// "a, b, c"
std::string joined(const std::vector<std::string>& words, std::string_view between);

// "org, key, …"
std::string column_list(const TableShape& shape);
// {"name"}: the columns of the key, without the org.
std::vector<std::string> key_columns(const TableShape& shape);
// "org, name": the primary key.
std::string primary_key(const TableShape& shape);
// "where org = ? and name = ?"
std::string where_key(const TableShape& shape);
// "select org, name, … from agents "
std::string select_rows(const TableShape& shape);
// "limit_units = excluded.limit_units": what an upsert overwrites.
std::string assignment(const std::string& column);

}  // namespace interlock::store
