// Rows of every org at once, for the server itself: its ring of keys, its list of orgs.
//
// What answers a caller goes through read_rows.h, where no question can be asked about more than the caller's org.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/read_rows.h"

namespace interlock::store {

template <class Row>
struct OfOrg {
    core::OrgId org;
    Row row;
};

// In any order unless `rest` says one: "where created_at > $1 order by org".
template <class Row>
Result<std::vector<OfOrg<Row>>, ReadError> read_every_org(Snapshot& snapshot, std::string_view rest = {},
                                                          const std::vector<Parameter>& parameters = {}) {
    std::vector<OfOrg<Row>> rows;
    bool good = true;
    const auto read =
        snapshot.query(select_rows<Row>() + std::string(rest), parameters, [&](const std::vector<Value>& values) {
            OfOrg<Row>& found = rows.emplace_back();
            good = read_value(values.front(), found.org) && good;
            std::size_t index = 1;  // The org is the first.
            boost::mp11::mp_for_each<Columns<Row>>(
                [&](auto column) { good = read_value(values[index++], column.in(found.row)) && good; });
        });
    if (!read) return fail(read.error());
    if (!good) return fail(ReadError{"a row of " + std::string(Row::table) + " makes no sense"});
    return rows;
}

}  // namespace interlock::store
