// What the files about sessions share.
#pragma once

#include "api/call.h"

namespace interlock::api {

// The session of the path, if it is there and the caller may see it.
net::Task<Result<core::Session, Problem>> find_session(Call& call);
Answered show_session(Call& call, core::SessionId id, int status, bool repeated);

}  // namespace interlock::api
