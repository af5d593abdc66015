// The commands that this program carries out itself, such as `up` and `migrate`, as tables for cli::CommandLine.
#pragma once

#include <vector>

#include "cli/client.h"
#include "cli/command.h"

namespace interlock::program {

// `argc` and `argv` as main got them: `up --detach` starts the same program with the same words.
std::vector<cli::CliCommand> local_commands(int argc, char** argv);

// `interlock verify` with --data-dir, --store or --head (cli::Platform::verify_store).
cli::ExitCode verify_store(const cli::Platform::StoreToVerify& store, const cli::CliOutput& output);

}  // namespace interlock::program
