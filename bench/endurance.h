// What only shows in a large store: whether a command still costs the same, how much memory that takes, and how long a
// store that was killed needs to open again.
//
// Each part runs in a process of its own: memory is then its own, and kill -9 is a real one. A child writes what it
// found to standard output, a name and a number per line; the parent reads it.
#pragma once

#include <string>

#include "bench/measure.h"
#include "bench/report.h"

namespace interlock::bench {

void measure_flat_cost(Report& report, Progress& progress, const Settings& settings);
void measure_open_after_kill(Report& report, Progress& progress, const Settings& settings);

// The children's side: carries out the part of this name and returns the exit code.
int run_child(const std::string& part, const Settings& settings);

}  // namespace interlock::bench
