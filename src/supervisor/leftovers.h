// What is left of a run whose shim is dead, frozen or not to be trusted: found, killed, and shown to be gone.
//
//   (1) A process belongs to the run if it is below the shim or the run's main process, if it is in the run's control
//       group, if it is in the process group or session of the run's main process while that is there, or if it was
//       started with the run's id in its environment.
//   (2) end_leftovers() says yes only after nothing of that was found alive.
//
//   (3) Children that a shim had before it was one are not the run's: a shell that becomes `interlock run` keeps its
//   jobs.
//
// Where there are no control groups, a process that has cleared its environment and has lost its shim and the run's
// main process is not found: a number alone could by now be a stranger's. While the shim lives, it is found: orphans
// come to the shim.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "shim/state.h"
#include "supervisor/watch.h"

namespace interlock::supervisor {

// Whether that very shim is alive, frozen or not.
bool shim_is_alive(const shim::ShimState& state);

// A process that the living shim of a run still holds, for people: "process 12 (sh)". Asks only for the main process,
// the control group and, where the kernel lists them, the shim's children: orphans come to the shim, so while it lives
// nothing else can descend from it.
std::optional<std::string> still_held(const shim::ShimState& state, const std::string& run);

// Kills and looks until nothing is left, for at most this long.
bool end_leftovers(const shim::ShimState& state, const std::string& run, ItsShim its_shim,
                   std::chrono::milliseconds timeout);

}  // namespace interlock::supervisor
