// Rows of every org at once, for the server itself: its ring of keys, its list of orgs.
//
// What answers a caller goes through read_rows.h, where no question can be asked about more than the caller's org.
#pragma once

#include <string_view>
#include <vector>

#include "store/store.h"

namespace interlock::store {

template <class Row>
struct OfOrg {
    core::OrgId org;
    Row row;
};

// In any order unless `rest` says one: "where created_at > $1 order by org". Compiled for orgs and API keys, in
// read_rows.cc.
template <class Row>
Result<std::vector<OfOrg<Row>>, ReadError> read_every_org(Snapshot& snapshot, std::string_view rest = {},
                                                          const std::vector<Parameter>& parameters = {});

}  // namespace interlock::store
