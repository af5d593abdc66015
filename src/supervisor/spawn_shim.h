// Starts a shim: the small program that the binary carries, in a session of its own, with nothing of this process.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "shim/fd.h"

namespace interlock::supervisor {

// The process, which the caller has to wait for. It reads the secret from a pipe. The error is a sentence.
Result<pid_t, std::string> spawn_shim(const std::string& data_dir, const std::string& run, const std::string& secret);

// The read end of a pipe that holds this text and whose write end is closed.
Result<shim::Fd, std::string> pipe_with(const std::string& text);

}  // namespace interlock::supervisor
