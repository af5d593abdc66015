// The end of a run as its shim reports it, and as the core is told.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/command.h"
#include "shim/protocol.h"

namespace interlock::supervisor {

// The command that ends the run, for the message "ended" of its shim. `stop` is why the run was asked to end, or empty.
core::CommandBody end_of(core::RunId run, core::Fence fence, bool foreground, const std::string& stop,
                         const shim::Ended& ended);

// Under which the end is asked for, however often. Losing a run has none: another end may have been said under the one
// there is.
core::CommandKey key_of_end(core::RunId run, core::Fence fence, const core::CommandBody& end);

// The end of a run that kept its place for this process; none if it is empty.
core::CommandBody with_keeper(core::CommandBody end, const std::string& process);

// From the start of a run to its end at the latest if its shim does not end it; nothing if the run has no timeout.
std::optional<std::chrono::seconds> ends_within(const core::ProcessSpec& process);

// One line of UTF-8 within the limit of a reason.
std::string bounded(const std::string& reason);
// Makes the reason one line of UTF-8 within its limit, because reasons come from systems, shims and files.
void bound_reason(core::CommandBody& end);

}  // namespace interlock::supervisor
