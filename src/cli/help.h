// Help, made from the description of the commands.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace interlock::cli {

// All commands, one line each. `local_commands` are those that main brings.
std::string overview(const std::vector<CliCommand>& local_commands);
std::string help_of(const Noun& noun);
std::string help_of(const CliCommand& command);
std::string exit_codes_help();

// "agents put NAME [COMMAND…]"
std::string usage_of(const CliCommand& command);

// The argument or flag that is required and missing, as a sentence; empty if there is none.
std::string complaint_about(const CliCommand& command, const Invocation& invocation);

}  // namespace interlock::cli
