// The checker: re-derives every promise from the stored rows of one snapshot.
//
//   (1) It shares no code with core/, or it would share its mistakes. It reads SQL and the bytes of the feed, and knows
//       the rules only from their description.
//   (2) It only reads. What could be put right without guessing is handed back as repairs: the counters, which are sums
//       over the ledger. The ledger, messages, claims, holds and the feed are ground: nothing here can rebuild them.
//   (3) One pass over the cost events and one over each other table, org by org. In memory at once, for one org: its
//       budgets and windows, what has not ended, one sum per agent, run, session, roll-up and minute, eight bytes
//       for each event of the feed, and 32 bytes for each row.
//
// P10, honest answers, is about what was said to clients. Nothing that is stored can show it, so it is not here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/repair.h"
#include "store/seals.h"
#include "store/store.h"

namespace interlock::verify {

// The promises, in the order of the report.
enum class Promise {
    exact_ledger,
    hard_ceiling,
    nothing_twice,
    one_order,
    one_worker_per_place,
    caps,
    fenced,
    one_tick,
    nobody_forgotten,
    unbroken_feed,
    sealed_rows,
};

struct Finding {
    Promise promise;
    std::string row;   // Table and key, written so that they can be put into a query.
    std::string what;  // What it says, and what it should say.
};

struct PromiseReport {
    Promise promise;
    std::string id;            // "P1" … "P9", "feed", "rows".
    std::string title;         // "exact ledger"
    std::string checked_what;  // Of what `checked` is the number: "counters".
    std::int64_t checked = 0;
    std::int64_t violations = 0;
    std::vector<Finding> examples;   // The first few.
    std::vector<std::string> notes;  // Worth knowing, not wrong.
};

struct Report {
    std::vector<PromiseReport> promises;
    std::vector<store::Repair> repairs;  // Whatever of the violations can be repaired.
    std::int64_t orgs = 0;
    std::int64_t cost_events = 0;
    std::int64_t violations() const;
};

// Told now and then what is being read, and how many of its rows have been.
using Progress = std::function<void(std::string_view what, std::int64_t rows)>;

struct Options {
    std::size_t examples_max = 5;  // For each promise.
    Progress progress;
    // Keys that seals may have been made with. Rows of other keys are not compared.
    std::vector<store::SealKey> seal_keys = {};
};

// An error says that the rows could not be read, which is neither a yes nor a no.
Result<Report, store::ReadError> verify(store::Snapshot& snapshot, const Options& options);

// "budget_windows: org=1 and budget='daily' and start_at=1793491200000000"
std::string to_text(const store::RowName& row);
// A value as SQL writes it: 7, 'it''s', x'01ff'.
std::string to_text(const store::StoredValue& value);

}  // namespace interlock::verify
