// A second look at the directories that a run claims, before it begins there.
//
//   (1) The run begins in a directory that was opened after its places were granted to it. What was done to the name
//       between its admission and the look is in `change`, and what is done after it does not lead the run elsewhere.
//   (2) The worktree that is to be made for the run is left out: it is not there yet.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "core/rows.h"
#include "supervisor/place.h"

namespace interlock::supervisor {

struct PlaceCheck {
    std::vector<OpenPlace> places;  // What the claimed paths lead to now, in the order of the claims.
    std::string change;             // What is not as it was claimed, as a sentence; empty: nothing.
    std::string mounts;             // What was mounted before the look.
};
// Reads file systems, which may take as long as they like.
Result<PlaceCheck, PlaceError> check_places(core::RunId run, const std::vector<core::Place>& claimed);

// Why a run cannot be isolated from this directory, which was canonical when the run was admitted. Empty: it can.
std::string moved_repository(const std::string& directory);

// The directories of a run that began before this server, in the order of the claims: by their paths, or as where the
// run's process is. What is not found has no descriptor.
std::vector<OpenPlace> reopen_places(core::RunId run, const std::vector<core::Place>& claimed, pid_t process);

std::vector<core::Place> places_of(const std::vector<OpenPlace>& open);

// Whether this place stands for a worktree that was not there when it was claimed.
bool is_worktree_of(core::RunId run, const core::Place& place);

}  // namespace interlock::supervisor
