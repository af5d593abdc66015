// A mark on every process of a run that nothing in the run can take off: a lower hard limit of RLIMIT_LOCKS.
//
//   (1) Children inherit the mark, also if they clear or leave environment, session and parents.
//   (2) Only a process that may raise hard limits (CAP_SYS_RESOURCE) can remove it.
//   (3) A run that is started inside of a run has a deeper mark.
//
// The kernel has not used this limit since version 2.4, and shows it to all users in /proc/PID/limits.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace interlock::shim {

// Of this process and of those that it starts from now on.
void mark_as_run();

// How many runs a process is inside of, by its mark; 0 also when there is no such process.
int run_depth(pid_t process);

}  // namespace interlock::shim
