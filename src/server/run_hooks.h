// For `interlock run`: starts a missing server, and replaces this process by the shim.
#pragma once

#include <string>

#include "cli/client.h"

namespace interlock::server {

// Returns when the server is up. Uses a free port if the default port is in use.
cli::Outcome<void> start_server(const std::string& data_dir, const cli::CliOutput& output);

// This process becomes the shim. Returns only if it cannot.
cli::Failure become_shim(const cli::Platform::Shim& shim);

}  // namespace interlock::server
