// Help, made from the description of the commands.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace interlock::cli {

// Everything at a glance. `others` are the commands of this program that are described elsewhere.
std::string overview(const std::vector<CliCommand>& others);
std::string help_of(const Noun& noun);
std::string help_of(const CliCommand& command);
std::string exit_codes_help();

// "agents put NAME [COMMAND…]"
std::string usage_of(const CliCommand& command);

// What is missing in what was typed; empty when nothing is.
std::string complaint_about(const CliCommand& command, const Invocation& invocation);

}  // namespace interlock::cli
