// What the files about sessions share.
#pragma once

#include "api/call.h"

namespace interlock::api {

// Whether the caller may see the session and act in it: those of its agent; for a run's key, its run's and the forks of
// that.
Result<bool, store::ReadError> may_reach(store::Snapshot& snapshot, const Principal& caller,
                                         const core::Session& session);

// The session of the path, if it is there and the caller may reach it.
net::Task<Result<core::Session, Problem>> find_session(Call& call);
ResponseTask show_session(Call& call, core::SessionId id, int status, bool repeated);

}  // namespace interlock::api
