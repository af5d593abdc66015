// The text of the statements of the PostgreSQL store, made from the shapes of the tables. The org is always $1.
#pragma once

#include <string>
#include <string_view>

#include "store/ledger_tables.h"
#include "store/postgres_columns.h"
#include "store/postgres_connection.h"
#include "store/table_shape.h"

namespace interlock::store {

// "insert into agents(org, name, …) select $1, unnest($2::text[]), … on conflict (org, name) do update set …". Not for
// cost events.
std::string put_rows_sql(const TableShape& shape);
// The same for the columns of a table of the ledger, without a conflict.
std::string put_into_ledger_sql(std::string_view table, WantedColumn wanted);
std::string erase_rows_sql(const TableShape& shape);
std::string find_rows_sql(const TableShape& shape);

// Which rows of a kind live in memory.
enum class OfOrgs { one, all };
std::string live_rows_sql(const TableShape& shape, OfOrgs which);

// Each statement is one object, because a connection prepares it once and knows it by its address.
template <class Row>
const PostgresStatement& put_rows() {
    static const PostgresStatement statement{put_rows_sql(shape_of<Row>())};
    return statement;
}
template <class Row>
const PostgresStatement& erase_rows() {
    static const PostgresStatement statement{erase_rows_sql(shape_of<Row>())};
    return statement;
}
template <class Row>
const PostgresStatement& find_rows() {
    static const PostgresStatement statement{find_rows_sql(shape_of<Row>())};
    return statement;
}
template <class Row, OfOrgs Which>
const PostgresStatement& live_rows() {
    static const PostgresStatement statement{live_rows_sql(shape_of<Row>(), Which)};
    return statement;
}
template <LedgerTable Table>
bool is_column_of(std::string_view name) {
    return is_in(Table, name);
}
template <LedgerTable Table>
const PostgresStatement& put_into_ledger() {
    static const PostgresStatement statement{put_into_ledger_sql(ledger_table(Table), is_column_of<Table>)};
    return statement;
}

}  // namespace interlock::store
