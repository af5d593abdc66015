// What a store holds, for comparing: a digest of every table, and which commands it remembers.
//
// Two stores with equal digests hold the same rows, so an image that equals a state the living store once had needs no
// further proof: whatever was true of that state is true of the image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "store/store.h"

namespace interlock::crash {

struct TableState {
    std::string name;
    std::int64_t rows = 0;
    std::uint64_t digest = 0;
    friend bool operator==(const TableState&, const TableState&) = default;
};

struct StoredState {
    std::vector<TableState> tables;
    std::vector<Id> keys;  // Of the commands that were carried out, sorted.

    bool remembers(Id key) const;
    friend bool operator==(const StoredState&, const StoredState&) = default;
};

Result<StoredState, std::string> read_state(store::Snapshot& snapshot);
Result<StoredState, std::string> read_state(store::Store& store);

// In which tables they differ, for people.
std::string difference(const StoredState& is, const StoredState& should_be);

// Adds the counters up again with a few sums in SQL: agents, roll-ups, the workload's own budgets, sessions, claims.
// The empty text when they agree. verify() does all of that and more, but takes longer.
std::string counters_that_disagree(store::Snapshot& snapshot);

// verify() with the first violation as text; empty when there is none.
std::string verify_text(store::Snapshot& snapshot);
std::string verify_text(store::Store& store);

}  // namespace interlock::crash
