// Rows for people: whole rows out of a snapshot, always of one org.
//
//   1. Every question is asked about one org: there is no way to leave it out.
//   2. Nothing read here decides anything; the rules load their rows through Store.
//
// The templates are compiled for every kind of core::AllRows in read_rows.cc, and nowhere else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/store.h"

namespace interlock::store {

// Reads the columns of a row from `values`, of which the first is the org. False when a value does not fit its column.
template <class Row>
bool row_from_values(const std::vector<Value>& values, Row& row);

// The error of a query of which a row did not fit its columns.
ReadError unreadable_row(std::string_view table);

// The rows of a kind in an org, in any order unless `rest` says one: "and agent = $2 order by id limit $3". The org is
// $1, the parameters come after it.
template <class Row>
Result<std::vector<Row>, ReadError> read_rows(Snapshot& snapshot, core::OrgId org, std::string_view rest = {},
                                              std::vector<Parameter> parameters = {});

// The row under a key, if there is one.
template <class Row>
Result<std::optional<Row>, ReadError> read_row(Snapshot& snapshot, core::OrgId org, Parameter key);

template <class Row>
Result<std::optional<Row>, ReadError> first_of(Result<std::vector<Row>, ReadError> rows) {
    if (!rows) return fail(rows.error());
    return rows->empty() ? std::optional<Row>() : std::optional<Row>(std::move(rows->front()));
}

// A number that a query gives: count, sum or max; 0 where it gives none. The org is $1, as above.
Result<std::int64_t, ReadError> read_number(Snapshot& snapshot, core::OrgId org, std::string_view sql,
                                            std::vector<Parameter> parameters = {});

}  // namespace interlock::store
