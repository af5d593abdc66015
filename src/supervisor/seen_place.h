// Where a run that was granted its places can begin, and the directories that are held for it from then on.
#pragma once

#include <string>
#include <vector>

#include "core/rows.h"
#include "shim/fd.h"
#include "supervisor/held_places.h"

namespace interlock::supervisor {

struct SeenPlace {
    std::string problem = {};              // Why the run cannot begin; empty: it can.
    std::string change = {};               // What is not as it was claimed. Then nothing is held.
    std::vector<core::Place> places = {};  // What the claimed workspaces are now.
    shim::Fd directory = {};               // The first of them.
};
// Blocks for as long as the file systems do.
SeenPlace see_place(HeldPlaces& held, core::RunId run, core::Fence fence, const std::vector<core::Place>& claimed);

// Opens the worktree that was made for the run, and holds it if the run claims it.
shim::Fd hold_worktree(HeldPlaces& held, core::RunId run, core::Fence fence, const std::vector<core::Place>& claimed,
                       const std::string& directory);

}  // namespace interlock::supervisor
