// The directory that a run was given: the server opened it when it looked at the run's claim, and passed the descriptor
// with the launch. A path can lead elsewhere by now.
//
//   (1) The run begins in the directory that was given, or not at all.
//   (2) What is mounted for the run, or allowed to it, in the name of that directory is that directory.
//
// A launch without a descriptor gives no directory: its path is taken as it is.
#pragma once

#include "shim/fd.h"
#include "shim/launch.h"

namespace interlock::shim {

// Whether this is the directory that was given. False with errno ESTALE when it is another one.
bool is_given(const LaunchRequest& launch, const Fd& directory);

// Makes the launch's directory the working directory of this process. False with errno: this process may be in another
// directory then, and must not become the run.
bool enter_given(const LaunchRequest& launch);

}  // namespace interlock::shim
