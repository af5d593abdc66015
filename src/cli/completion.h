// Completion scripts for shells, made from the description of the commands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"

namespace interlock::cli {

// Nothing for a shell that is not bash, zsh or fish.
std::optional<std::string> completion_script(const std::string& shell, const std::vector<CliCommand>& others);

// What the scripts ask for names: one a line, and silence when there is no server.
ExitCode complete_names(Context& context, const Invocation& invocation);

}  // namespace interlock::cli
