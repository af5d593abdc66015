// Starts a shim: the small program that the binary carries, in a session of its own, with nothing of this process.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace interlock::supervisor {

// The process; whoever started it waits for it. The error is a sentence.
Result<pid_t, std::string> spawn_shim(const std::string& data_dir, const std::string& run);

}  // namespace interlock::supervisor
