// `interlock simulate-upstream`: the simulated model provider (simulated/upstream.h) as a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cli/output.h"

namespace interlock::server {

struct SimulateOptions {
    std::string listen = "127.0.0.1:0";
    std::int64_t delay_ms = 0;
    std::int64_t chunk_delay_ms = 0;
    std::int64_t chunks = 4;
    std::string key = {};
    std::string log = {};  // A file that gets one JSON line per request.
    std::string tls_cert = {};
    std::string tls_key = {};
    std::size_t threads = 0;
};

// Runs until it is told to end (SIGTERM, SIGINT). 0: ended in order; 1: could not start; 2: bad usage.
int simulate_command(const SimulateOptions& options, const cli::CliOutput& output);

}  // namespace interlock::server
