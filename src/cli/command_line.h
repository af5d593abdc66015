// The command line: parses what was typed by the tables of all commands, and runs the command.
//
//     cli::CommandLine commands(local_commands, version);
//     if (const auto ended = commands.parse(argc, argv, output)) return *ended;
//     return commands.run(environment, output);
//
// `local_commands` are those that main brings, such as `up`: their tables have a function and no request.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/find_server.h"
#include "cli/output.h"

namespace interlock::cli {

class CommandLine {
 public:
    CommandLine(std::vector<CliCommand> local_commands, std::string version);
    ~CommandLine();

    // The exit code, if the program ends here: help was asked for, or the arguments are wrong.
    std::optional<int> parse(int argc, const char* const* argv, const CliOutput& output);
    int run(const Environment& environment, CliOutput output, Platform world = real_world());

    // The command that was typed, with its arguments and flags.
    struct Chosen {
        const CliCommand& command;
        Invocation invocation;
    };
    std::optional<Chosen> chosen() const;

    // The values of the global flags: --url, --data-dir and so on.
    const Settings& settings() const;

 private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace interlock::cli
