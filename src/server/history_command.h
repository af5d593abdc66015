// `interlock accept-history`: shows what a node remembers of its store's history, and takes the memory away if a person
// says so. A node that had objected notices, and serves again.
#pragma once

#include <string>

#include "cli/exit_code.h"
#include "server/terminal.h"

namespace interlock::server {

struct AcceptHistoryOptions {
    std::string data_dir;
    std::string store;  // To compare with; may be empty.
    bool yes = false;   // Asked and answered.
};

cli::ExitCode accept_history_command(const AcceptHistoryOptions& options, const Terminal& terminal);

}  // namespace interlock::server
