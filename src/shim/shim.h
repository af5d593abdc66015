// The shim: one small process per run, which starts the run, holds it, and says how it ended. It outlives a restart of
// the server.
//
//   (1) A run has one shim: whoever does not get the lock in the run's directory goes away.
//   (2) Every process of the run is a descendant of the shim, whatever it does to hide: orphans come to the shim. If
//       the shim dies, the kernel kills the run's main process.
//   (3) `ended` is said, and written, only when no process of the run is left: the kernel says that we have no child,
//       and that the run's control group, if it has one, is empty.
//   (4) What the run prints is always taken from it. Nothing else the shim does waits for long.
//   (5) Nothing of the run's environment is written anywhere.
//
// It decides nothing: what to start, and when to stop, comes from the server.
#pragma once

namespace interlock::shim {

// The program. `shim DATA_DIR RUN [--foreground] [--quiet] [--secret-fd N]` or `shim --task` (see task.h), argv[0]
// being the name it was called by. The process must have one thread and is the shim's from now on: its signals, its
// children, its end.
int run_shim(int argc, char** argv);

}  // namespace interlock::shim
