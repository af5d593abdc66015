// The end of a run as its shim reports it, and as the core is told.
#pragma once

#include <string>

#include "core/command.h"
#include "shim/protocol.h"

namespace interlock::supervisor {

// The command that ends the run, for the message "ended" of its shim. `stop` is why the run was asked to end, or empty.
core::CommandBody end_of(core::RunId run, core::Fence fence, bool foreground, const std::string& stop,
                         const shim::Ended& ended);

// A reason as one line of UTF-8 and within its limit, because reasons come from systems, shims and files.
std::string bounded(const std::string& reason);

}  // namespace interlock::supervisor
