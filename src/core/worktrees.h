// Worktrees: which copies of repositories there are, for whom they were made, and which ports are theirs.
//
//   (1) A worktree's row is there before its directory, and until after it: what is on a disk is known.
//   (2) No two open worktrees of a node have a port in common.
//
// Whether one may be removed is seen on the disk, not here (supervisor/worktrees.h).
#pragma once

#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

WorktreeReply put_worktree(OrgState& state, Stamp stamp, const PutWorktree& command);
WorktreeReply drop_worktree(OrgState& state, Stamp stamp, const DropWorktree& command);

}  // namespace interlock::core
