// `interlock demo`: a first taste, without keys and without network.
//
// Simulated agents in this process hammer a budget of ten dollars, one session and a few directories, all kept by an
// engine in a second process. Halfway that process is killed with kill -9 and started again on what it left behind; the
// agents send what they had no answer to once more. At the end the checker reads the store, and the agents' own books
// are held against it.
//
// Standard output gets the report; everything before it goes to standard error.
#pragma once

#include <string>

#include "cli/output.h"

namespace interlock::demo {

struct DemoOptions {
    std::string data_dir;  // Empty, or not there yet. Not stated: a temporary one that is removed afterwards.
    int agents = 100;
    double seconds = 8;
    bool no_kill = false;
    bool keep = false;     // The temporary directory. A stated one always stays.
    bool gateway = false;  // Agents call models through the gateway instead (demo/gateway_play.h).
    bool serve =
        false;  // A server and a fleet to look at instead (demo/fleet_play.h); seconds 0: until it is told to end.
    std::string listen = "127.0.0.1:0";  // With serve: where the page is,
    double pace = 1;                     // and how much quicker than people the fleet is.
};

// How the process ends.
enum class DemoExit : int {
    holds = 0,
    broken = 1,  // A promise; the report says which.
    could_not_run = 2,
    interrupted = 130,
};

DemoExit demo_command(const DemoOptions& options, const cli::CliOutput& terminal);

}  // namespace interlock::demo
