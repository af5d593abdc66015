// A command that a server has carried out for a run that is over, such as the teardown of its worktree: held like a
// run, with the same sandbox, limits and timeout, and over only when no process of it is left.
//
// The launch comes on standard input, as in the message to a shim. What the command prints is in the file `output` of
// its home. If the server dies, the command is stopped.
#pragma once

namespace interlock::shim {

constexpr const char* task_option = "--task";

// The program `shim --task`. Its standard output is a sentence about what went wrong, or empty. The exit code is 0 if
// the command was started.
int run_task();

}  // namespace interlock::shim
