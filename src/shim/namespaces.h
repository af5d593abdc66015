// Puts the run's main process into namespaces of its own, so that it cannot name processes that are not of the run.
//
//   (1) Without root, and at level sealed, there is a user namespace too. In it the user and the group keep their
//   numbers,
//       and root's are those of all users.
//   (2) The process that returns from separate() is a child of the shim, though it is in another pid namespace: its
//       signals, its stops and its end arrive as those of any child.
//   (3) The first process of the pid namespace takes the orphans. When it ends, the kernel ends all others in there.
#pragma once

#include <sys/types.h>

#include "shim/launch.h"

namespace interlock::shim {

enum class Part : unsigned char {
    user_namespace,
    namespaces,
    first_process,
    main_process,
    system_files,
    data,
    files,
    capabilities,
    landlock,
    network,
    entrance,
    filter,
    sockets
};
const char* name_of(Part part);

// What the process that separates tells the shim. Zeros when it failed.
struct Separated {
    pid_t first = 0;  // Of the pid namespace.
    pid_t main = 0;
};

// In a fresh child of the shim, with one thread. Returns in the main process, and false with errno in the caller itself
// when `part` could not be had. `tell` is a Unix socket, which gets a Separated, with the entrance of a sealed run.
bool separate(const LaunchRequest& launch, pid_t shim_pid, int tell, Part& part);

// Gives up what leads out of a level. For the main process, when its mounts are made.
bool drop_capabilities(AppliedSandboxLevel level);

}  // namespace interlock::shim
