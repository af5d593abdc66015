// A correction (repair.h) as a statement. Its parameters are $1, $2, … in the order of `values`, which is the order in
// which they stand in the text: so SQLite numbers them alike.
#pragma once

#include <string>
#include <vector>

#include "store/repair.h"

namespace interlock::store {

struct RepairEdit {
    std::string sql;
    std::vector<const StoredValue*> values;  // Of the repair, which must outlive it.
};

// Touches exactly one row if the row still says what it is corrected from, and none otherwise.
RepairEdit edit_for(const Repair& repair);

}  // namespace interlock::store
