// What a program of a run may state of a run that it starts. The core bounds places, money and account
// (core/run_tree.h); here is what a process is made of.
//
//   1. A child of the same agent is bounded as its parent is: its sandbox level, its limits and its nice value are at
//      least as strict, and at level files it reaches no path that its parent does not.
//   2. A child of another agent is started as that agent is set up, at least at the parent's level.
//   3. Nothing comes from the server's environment.
#pragma once

#include <optional>
#include <string_view>

#include "api/problem.h"
#include "api/run_view.h"
#include "core/rows.h"

namespace interlock::api {

// The level in force, as the step of its start says; none where that is not known.
std::optional<core::SandboxLevel> level_in(std::string_view sandbox);

// What the request states of the process, for a sentence that points at it.
struct StatedOfChild {
    bool level = false;
    bool nice = false;
    bool limits = false;
    bool hosts = false;
    bool other_agent = false;  // Than the parent's.
};

// Makes the process no less bounded than its parent's. A statement that asks for more is refused.
std::optional<Problem> bound_child(core::ProcessSpec& process, const StoredRun& parent,
                                   core::SandboxLevel parents_level, StatedOfChild stated);

}  // namespace interlock::api
