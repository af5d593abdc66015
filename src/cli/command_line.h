// The command line: hangs every command into a CLI::App beside those of the server, parses, and runs what was chosen.
//
//     cli::CommandLine commands(app, version);   // before main adds its own subcommands
//     …
//     if (const auto ended = commands.parse(argc, argv, terminal)) return *ended;
//     if (up->parsed()) return …;
//     return commands.run(environment, terminal);
//
// A command of ours can be given more options by main, which finds it with app.get_subcommand().
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/cli_output.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/find_server.h"

namespace CLI {
class App;
}

namespace interlock::cli {

class CommandLine {
 public:
    CommandLine(CLI::App& app, std::string version);
    ~CommandLine();

    // How the process ends if it ends here: help was asked for, or what was typed cannot be meant.
    std::optional<int> parse(int argc, const char* const* argv, const CliOutput& terminal);
    int run(const Environment& environment, CliOutput terminal, Platform world = real_world());

    // Which of our commands it is, and what it was given; nothing if it is one of main's.
    struct Chosen {
        const CliCommand& command;
        Invocation invocation;
    };
    std::optional<Chosen> chosen() const;

    // --url, --data-dir and the others that every command takes, also those that are not ours.
    const Settings& settings() const;

 private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace interlock::cli
