// The process that the demo kills: an engine on a data directory, asked through a socket.
//
// It answers what comes in on standard input, which is a socket, in the frames of demo/wire.h. When the other end is
// closed, also because its process died, it finishes what is queued, closes the store and ends.
#pragma once

#include <string>

namespace interlock::demo {

// Returns the exit code.
int worker(const std::string& directory);

}  // namespace interlock::demo
