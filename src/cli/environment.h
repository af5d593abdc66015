// What the process was started with, as far as the command line cares. main() fills it; nothing here reads it by
// itself.
#pragma once

#include <string>

namespace interlock::cli {

struct Environment {
    std::string url = {};            // INTERLOCK_URL
    std::string key = {};            // INTERLOCK_KEY
    std::string data_dir = {};       // INTERLOCK_DATA
    std::string xdg_data_home = {};  // XDG_DATA_HOME
    std::string home = {};           // HOME
    std::string columns = {};        // COLUMNS
    std::string no_color = {};       // NO_COLOR
    std::string term = {};           // TERM
};

}  // namespace interlock::cli
