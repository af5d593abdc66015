// `interlock up`, `down` and `login`: the server as a process.
#pragma once

#include <string>

#include "server/server.h"
#include "server/terminal.h"

namespace interlock::server {

struct UpOptions {
    ServerOptions server;
    std::string listen = "127.0.0.1:4100";
    bool detach = false;
    std::string log_format = "text";
    std::string log_level = "info";
    std::string program = "interlock";  // As it was called, for the commands it suggests.
    std::string run;                    // The run in which it was called; empty: none.
    int ready_fd = -1;                  // Where the detached server says that it is up.
};

// Runs until it is told to end (SIGTERM, SIGINT). 0: ended in order; 1: could not start.
int up_command(UpOptions options, int argc, char** argv, const Terminal& terminal);

// Ends the server of a data directory and waits until it is gone. 0: it is; 5: there was none; 1: it did not end.
int down_command(const std::string& data_dir, double timeout_s, const Terminal& terminal);

}  // namespace interlock::server
