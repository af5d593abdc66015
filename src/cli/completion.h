// Completion scripts for shells, generated from the command tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"

namespace interlock::cli {

// Empty for other shells than bash, zsh and fish.
std::optional<std::string> completion_script(const std::string& shell, const std::vector<CliCommand>& local_commands);

// Prints names for the scripts, one per line; nothing without a server.
ExitCode complete_names(Context& context, const Invocation& invocation);

}  // namespace interlock::cli
