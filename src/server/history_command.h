// `interlock accept-history`: shows a node's record of its store's history, and removes it after confirmation. A node
// that refused the store then serves it.
#pragma once

#include <string>

#include "cli/exit_code.h"
#include "cli/output.h"

namespace interlock::server {

struct AcceptHistoryOptions {
    std::string data_dir;
    std::string store;  // For the comparison; may be empty.
    bool yes = false;   // Do not ask.
};

cli::ExitCode accept_history_command(const AcceptHistoryOptions& options, const cli::CliOutput& output);

}  // namespace interlock::server
