// A supervised story: users start runs on one or several machines, whose servers supervise them with the real machine
// of supervisor/watch.h. Shims die, come back, lie, stand still and are impersonated. Servers die between any two
// actions.
//
//   (1) Everything follows from the seed, as in a story (story.h).
//   (2) What is checked is what processes do, not what rows say: which processes are in a place, from their begin to
//       their end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/findings.h"
#include "sim/supervising.h"

namespace interlock::sim {

struct SupervisedOptions {
    std::uint64_t seed = 1;
    std::uint64_t runs = 12;  // That users ask for.
    bool trace = false;
    SupervisorFault fault = SupervisorFault::none;
};

struct SupervisedResult {
    std::uint64_t seed = 0;
    std::uint64_t commands = 0;
    std::uint64_t steps = 0;
    std::uint64_t hash = 0;  // Over everything that was traced: two tellings of one seed give the same.
    std::uint64_t violation_count = 0;
    std::vector<Violation> violations;
    std::uint64_t began = 0;       // Main processes.
    std::uint64_t restarts = 0;    // Of servers.
    std::uint64_t mishaps = 0;     // Runs that were not to go well.
    std::uint64_t told_truly = 0;  // Runs of which the end is known beforehand, and was said so.
};

SupervisedResult tell_supervised_story(const SupervisedOptions& options);

std::string describe_violations(const SupervisedResult& result);

}  // namespace interlock::sim
