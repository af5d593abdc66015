// The program that Interlock is measured against: what a careful developer writes who has no engine.
//
// Every charge is one transaction of its own with the three writes that belong together: the cost event, the agent's
// runtime state and the month's spend. SQLite with WAL and synchronous=FULL, one connection, prepared statements, no
// index but the primary keys. With one writer, clients would only queue for the connection, so there is one, and
// nothing between it and the database: this is the fastest this design gets, however many clients there are.
#pragma once

#include <cstdint>
#include <string>

#include "bench/histogram.h"

namespace interlock::bench {

struct NaiveResult {
    std::uint64_t charges = 0;
    double seconds = 0;
    Histogram latency;
    std::string problem;  // Empty: none.

    double rate() const { return seconds > 0 ? static_cast<double>(charges) / seconds : 0; }
};

// Charges in the file for this long. The file may be there from an earlier call.
NaiveResult run_naive(const std::string& file, double seconds);

}  // namespace interlock::bench
