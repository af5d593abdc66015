// What the checks have found so far: counts for each promise, the first few violations in full, and the repairs.
#pragma once

#include <initializer_list>
#include <string>

#include "base/id.h"
#include "store/repair.h"
#include "verify/verify.h"

namespace interlock::verify {

class Findings {
 public:
    explicit Findings(std::size_t examples_max);

    void checked(Promise promise, std::int64_t count = 1) { of(promise).checked += count; }
    void violated(Promise promise, const store::RowName& row, std::string what);
    void note(Promise promise, std::string text);
    // Compares each counter with what it counts; one that is off is a violation and a repair.
    struct Counter {
        std::string_view column;
        std::int64_t stored;
        __int128 derived;
    };
    void counters(Promise promise, const store::RowName& row, std::initializer_list<Counter> counters,
                  std::string_view counted);  // "its cost events"
    void repair(store::Repair repair) { report_.repairs.push_back(std::move(repair)); }

    Report take() { return std::move(report_); }
    Report& report() { return report_; }

 private:
    PromiseReport& of(Promise promise) { return report_.promises[static_cast<std::size_t>(promise)]; }

    Report report_;
    std::size_t examples_max_;
};

// A row of an org, named by the rest of its key.
store::RowName row_of(std::string table, std::int64_t org, std::vector<store::Cell> key);
store::StoredValue stored(Id id);  // Sixteen bytes, high end first.

}  // namespace interlock::verify
