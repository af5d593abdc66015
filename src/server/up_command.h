// `interlock up` and `down`: the server as a process.
#pragma once

#include <string>

#include "cli/output.h"
#include "server/server.h"

namespace interlock::server {

struct UpOptions {
    ServerOptions server;
    std::string listen = "127.0.0.1:4100";
    bool detach = false;
    std::string log_format = "text";
    std::string log_level = "info";
    std::string program = "interlock";  // argv[0], for suggested commands.
    std::string run;                    // The run that this process belongs to, or empty.
    int ready_fd = -1;                  // The detached server writes here when it is up.
};

// Runs until SIGTERM or SIGINT. Returns 0: stopped; 1: could not start; 2: wrong usage.
int up_command(UpOptions options, int argc, char** argv, const cli::CliOutput& output);

// Stops the server of a data directory and waits. Returns 0: stopped; 1: still running; 5: no server.
int down_command(const std::string& data_dir, double timeout_s, const cli::CliOutput& output);

}  // namespace interlock::server
