// The statements of the PostgreSQL store, made from the columns of the rows (columns.h). The org is always $1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/rows.h"
#include "store/columns.h"
#include "store/ledger_tables.h"
#include "store/postgres_columns.h"

namespace interlock::store {

// "insert into agents(org, name, …) select $1, unnest($2::text[]), …" for the columns that are wanted.
template <class Row, class Wanted>
std::string insert_arrays(std::string_view table, Wanted wanted) {
    std::string columns = "org";
    std::string values = "$1::bigint";
    const std::vector<std::string> types = array_types<Row>();
    int parameter = 1;
    for (std::size_t i = 0; i < column_count<Row>; ++i) {
        const std::string& name = column_names<Row>()[i];
        if (!wanted(name)) continue;
        columns += ", " + quoted(name);
        values += fmt::format(", unnest(${}::{})", ++parameter, types[i]);
    }
    return fmt::format("insert into {}({}) select {}", table, columns, values);
}

inline bool any_column(std::string_view) { return true; }

// Not for cost events.
template <class Row>
const PostgresStatement& put_rows() {
    static const PostgresStatement statement = [] {
        std::string sql = insert_arrays<Row>(Row::table, any_column);
        if constexpr (Row::life != core::Life::appended) {
            std::vector<std::string> settings;
            for (std::size_t i = Row::key_columns; i < column_count<Row>; ++i) {
                settings.push_back(fmt::format("{0} = excluded.{0}", quoted(column_names<Row>()[i])));
            }
            sql += fmt::format(" on conflict ({}) do update set {}", joined(key_names<Row>(), ", "),
                               joined(settings, ", "));
        }
        return PostgresStatement{sql};
    }();
    return statement;
}

template <LedgerTable Table>
const PostgresStatement& put_into_ledger() {
    static const PostgresStatement statement{
        insert_arrays<core::CostEvent>(ledger_table(Table), [](std::string_view name) { return is_in(Table, name); })};
    return statement;
}

// "unnest($2::text[], $3::bigint[]) as wanted(budget, start_at)"
template <class Row>
std::string wanted_keys() {
    std::vector<std::string> arrays;
    for (const std::string& type : array_types<Row, Row::key_columns>()) {
        arrays.push_back(fmt::format("${}::{}", arrays.size() + 2, type));
    }
    std::vector<std::string> names = key_names<Row>();
    names.erase(names.begin());  // The org.
    return fmt::format("unnest({}) as wanted({})", joined(arrays, ", "), joined(names, ", "));
}

// "this.org = $1 and this.name = wanted.name"
template <class Row>
std::string where_wanted() {
    std::string sql = "this.org = $1";
    for (std::size_t i = 0; i < Row::key_columns; ++i) {
        sql += fmt::format(" and this.{0} = wanted.{0}", column_names<Row>()[i]);
    }
    return sql;
}

template <class Row>
const PostgresStatement& erase_rows() {
    static const PostgresStatement statement = [] {
        if constexpr (Row::key_columns == 0) return PostgresStatement{"delete from orgs where org = $1"};
        return PostgresStatement{fmt::format("delete from {} as this using {} where {}", Row::table, wanted_keys<Row>(),
                                             where_wanted<Row>())};
    }();
    return statement;
}

template <class Row>
const PostgresStatement& find_rows() {
    static const PostgresStatement statement = [] {
        // One look into the index for each key, whatever the planner believes of a table that was empty when it was
        // asked: a join could begin with the table.
        return PostgresStatement{fmt::format(
            "select found.* from {} cross join lateral (select {} from {} as this where {} limit 1) as found",
            wanted_keys<Row>(), column_list<Row>(), Row::table, where_wanted<Row>())};
    }();
    return statement;
}

// Which rows of a kind live in memory.
enum class OfOrgs { one, all };

template <class Row, OfOrgs Which>
const PostgresStatement& live_rows() {
    static const PostgresStatement statement = [] {
        std::string where = Which == OfOrgs::one ? "org = $1" : "true";
        if constexpr (std::is_same_v<Row, core::FeedPage>) {
            return PostgresStatement{fmt::format(
                "select page.* from orgs cross join lateral (select {} from feed_pages where feed_pages.org = orgs.org "
                "order by last_seq desc limit 1) as page where orgs.{}",
                column_list<Row>(), Which == OfOrgs::one ? where : "org >= 0")};
        }
        if constexpr (std::is_same_v<Row, core::Run>) {
            where += " and state in ('queued', 'starting', 'running', 'paused')";
        }
        if constexpr (std::is_same_v<Row, core::Hold>) where += " and state = 'open'";
        return PostgresStatement{select_rows<Row>() + "where " + where};
    }();
    return statement;
}

}  // namespace interlock::store
