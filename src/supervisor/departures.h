// A look at the processes of this machine after runs have ended, for what is left in their directories.
//
//   (1) Only processes that began after the run's main process are looked at. The user's programs that were there
//   before
//       are none of the run's.
//   (2) `own` carry the run's id in their environment or are children of its shim, so the run started them. They can be
//       ended.
//   (3) `orphans` use something in a directory of the run, have no terminal, and lost the process that started them,
//       which began after the run did. Very likely they are daemons of the run.
//   (4) `others` use something in a directory of the run. They may be windows that the run opened in the user's tmux,
//   or
//       programs that the user has started since. Nothing tells them apart.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "core/rows.h"
#include "shim/state.h"
#include "supervisor/processes_inside.h"
#include "supervisor/watch.h"

namespace interlock::supervisor {

struct Departure {
    std::string run;    // The id's text.
    std::string began;  // Start time of its main process; empty: not known, and nothing is looked for.
    std::vector<std::string> directories;  // That it had for itself.
    pid_t shim = 0;                        // 0: it has ended.
};

Departure departure_of(const std::string& run, const shim::ShimState& state, const std::vector<core::Place>& places);

struct Remains {
    std::vector<ProcessInside> own, orphans, others;
};

// In the order of the departures, with one look for all. `shims` are never among the remains.
std::vector<Remains> look_for_remains(const std::vector<Departure>& departures, const std::set<pid_t>& shims);

// Ends what is found of the run, and returns what keeps its place. Empty: nothing does.
std::string end_and_find_keeper(const action::EndLeftovers& end, const Departure& departure,
                                const std::set<pid_t>& shims, std::chrono::milliseconds timeout);

// "process 12 (sh): its working directory is /a", for people.
std::string sentence_of(const ProcessInside& process);

}  // namespace interlock::supervisor
