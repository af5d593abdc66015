// What a command runs in.
#pragma once

#include <string>
#include <vector>

#include "cli/cli_output.h"
#include "cli/client.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/failure.h"
#include "cli/find_server.h"

namespace interlock::cli {

struct Context {
    CliOutput terminal;
    Environment environment;
    Settings settings;
    Platform world;
    std::string version;
    std::vector<CliCommand> others = {};  // Commands of this program that live elsewhere; for help and completion.

    Outcome<ApiClient> connect() const;
    std::chrono::milliseconds timeout() const {
        return std::chrono::milliseconds(static_cast<std::int64_t>(settings.timeout_s * 1000));
    }

    // The failure as people or programs want it, on the error stream. Returns how the process ends.
    ExitCode report(const Failure& failure) const;
    // For people only: not with --quiet, not with --json.
    void remark(std::string_view line) const;
};

// What --limit says; 0 when it was not given.
Outcome<std::size_t> limit_of(const Invocation& invocation);
// The key a change is made under: the one that was given, or a fresh one.
std::string key_of(const Context& context, const Invocation& invocation);

// Runs a command that is one request: asks, and shows the answer.
ExitCode run_request(Context& context, const CliCommand& command, const Invocation& invocation);
ExitCode run(Context& context, const CliCommand& command, const Invocation& invocation);

// Shows an answer as the settings want it. `invocation` is what was asked: a list that is empty because of a filter
// says something else than one of which there is nothing yet.
void show(const Context& context, const CliCommand& command, const Invocation& invocation, const ApiResponse& answer);

}  // namespace interlock::cli
