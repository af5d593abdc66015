// What `interlock run` needs of the whole program: a server where there is none, and the shim in its own place.
#pragma once

#include <string>

#include "cli/client.h"

namespace interlock::server {

// Returns when it is up. Takes another port where the usual one is taken.
cli::Outcome<void> start_server(const std::string& data_dir);

// This process becomes the shim. Returns only if it cannot.
cli::Failure become_shim(const cli::Platform::Shim& shim);

}  // namespace interlock::server
