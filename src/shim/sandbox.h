// Confines a run with Landlock: it can read what it always could, and write only where it was allowed to. This is a
// second bound beside the run's view of the file system (shim/mounts.h). Where the kernel has the scopes (Linux 6.12),
// the run reaches no signal handler and no abstract socket from before it either.
#pragma once

#include <string>
#include <vector>

namespace interlock::shim {

// Confines the calling process for good. Beneath `writable` everything may be written; a path that is not there is an
// error, except for those that end with '?'. True on a kernel without Landlock; false with errno when it refuses.
bool enter_sandbox(const std::vector<std::string>& writable);

}  // namespace interlock::shim
