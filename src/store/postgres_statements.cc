#include "store/postgres_statements.h"

#include <array>
#include <vector>

#include <fmt/format.h>

namespace interlock::store {
namespace {

std::string_view array_name_of(ColumnForm form) {
    constexpr std::array<std::string_view, 3> names{"bigint[]", "text[]", "bytea[]"};
    return names[static_cast<std::size_t>(form)];
}

std::string insert_arrays(const TableShape& shape, std::string_view table, WantedColumn wanted) {
    std::string columns = "org";
    std::string values = "$1::bigint";
    int parameter = 1;
    for (std::size_t i = 0; i < shape.columns.size(); ++i) {
        if (!wanted(shape.columns[i])) continue;
        columns += ", " + quoted(shape.columns[i]);
        values += fmt::format(", unnest(${}::{})", ++parameter, array_name_of(shape.forms[i]));
    }
    return fmt::format("insert into {}({}) select {}", table, columns, values);
}

// "unnest($2::text[], $3::bigint[]) as wanted(budget, start_at)"
std::string wanted_keys(const TableShape& shape) {
    std::vector<std::string> arrays;
    for (std::size_t i = 0; i < shape.key_columns; ++i) {
        arrays.push_back(fmt::format("${}::{}", i + 2, array_name_of(shape.forms[i])));
    }
    return fmt::format("unnest({}) as wanted({})", joined(arrays, ", "), joined(key_columns(shape), ", "));
}

// "this.org = $1 and this.name = wanted.name"
std::string where_wanted(const TableShape& shape) {
    std::string sql = "this.org = $1";
    for (const std::string& name : key_columns(shape)) sql += fmt::format(" and this.{0} = wanted.{0}", name);
    return sql;
}

}  // namespace

std::string put_rows_sql(const TableShape& shape) {
    std::string sql = insert_arrays(shape, shape.table, any_column);
    if (shape.life == core::Life::appended) return sql;
    std::vector<std::string> settings;
    for (std::size_t i = shape.key_columns; i < shape.columns.size(); ++i) {
        settings.push_back(assignment(shape.columns[i]));
    }
    return sql + fmt::format(" on conflict ({}) do update set {}", primary_key(shape), joined(settings, ", "));
}

std::string put_into_ledger_sql(std::string_view table, WantedColumn wanted) {
    return insert_arrays(shape_of<core::CostEvent>(), table, wanted);
}

std::string erase_rows_sql(const TableShape& shape) {
    if (shape.key_columns == 0) return "delete from orgs where org = $1";
    return fmt::format("delete from {} as this using {} where {}", shape.table, wanted_keys(shape),
                       where_wanted(shape));
}

std::string find_rows_sql(const TableShape& shape) {
    // One look into the index for each key, whatever the planner believes of a table that was empty when it was
    // asked: a join could begin with the table.
    return fmt::format(
        "select found.* from {} cross join lateral (select {} from {} as this where {} limit 1) as found",
        wanted_keys(shape), column_list(shape), shape.table, where_wanted(shape));
}

std::string live_rows_sql(const TableShape& shape, OfOrgs which) {
    if (is_chain(shape)) {
        return fmt::format(
            "select link.* from orgs cross join lateral (select {} from {} as this where this.org = orgs.org "
            "order by {} desc limit 1) as link where orgs.{}",
            column_list(shape), shape.table, shape.columns.front(), which == OfOrgs::one ? "org = $1" : "org >= 0");
    }
    std::string where = which == OfOrgs::one ? "org = $1" : "true";
    if (shape.table == core::Run::table) where += " and state in ('queued', 'starting', 'running', 'paused')";
    if (shape.table == core::Hold::table) where += " and state = 'open'";
    return select_rows(shape) + "where " + where;
}

}  // namespace interlock::store
