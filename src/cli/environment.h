// The environment variables that the command line uses. main() fills it; cli/ never reads the environment.
#pragma once

#include <string>
#include <vector>

namespace interlock::cli {

struct Environment {
    std::string url = {};                     // INTERLOCK_URL
    std::string key = {};                     // INTERLOCK_KEY
    std::string run = {};                     // INTERLOCK_RUN: this process belongs to it.
    std::string data_dir = {};                // INTERLOCK_DATA
    std::string socket = {};                  // INTERLOCK_SOCKET
    std::string store = {};                   // INTERLOCK_STORE
    std::string xdg_data_home = {};           // XDG_DATA_HOME
    std::string home = {};                    // HOME
    std::string columns = {};                 // COLUMNS
    std::string no_color = {};                // NO_COLOR
    std::string term = {};                    // TERM
    std::vector<std::string> variables = {};  // All of them, "NAME=value", for a run in the foreground.
};

}  // namespace interlock::cli
