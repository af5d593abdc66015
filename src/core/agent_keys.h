// What an API key below operator may state for a run. Such keys are with agents, which read what strangers wrote.
//
// They are refused, and not cut down to what is allowed: a client that believes in its lease of a day would lose its
// run. See ADR 23.
#pragma once

#include "core/check.h"
#include "core/command.h"
#include "core/org_state.h"

namespace interlock::core {

// A priority, a lease or a node that is not for such a key.
Complaint beyond_key(const AdmitRun& command);

// A directory, or a repository for a worktree, that is not the agent's. Goes by the paths that directories were
// resolved to. Named resources are names that agents agree on, and are free.
Complaint outside_roots(OrgState& state, const Agent& agent, const AdmitRun& command);
Complaint outside_roots(OrgState& state, const Agent& agent, const std::vector<Place>& places);
// Moving directories gives a child and an API key below operator no place that they could not have asked for.
Complaint beyond_bounds(OrgState& state, const Run& run);

}  // namespace interlock::core
