// The context of a running command.
#pragma once

#include <string>
#include <vector>

#include "cli/client.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/failure.h"
#include "cli/find_server.h"
#include "cli/output.h"

namespace interlock::cli {

struct Context {
    CliOutput output;
    Environment environment;
    Settings settings;
    Platform world;
    std::string version;
    std::vector<CliCommand> local_commands = {};  // Those that main brought; for completion.

    Outcome<ApiClient> connect() const;
    std::chrono::milliseconds timeout() const {
        return std::chrono::milliseconds(static_cast<std::int64_t>(settings.request_timeout_s * 1000));
    }

    // Writes the failure to the error stream, as text or JSON. Returns the exit code.
    ExitCode report(const Failure& failure) const;
    // Writes a line to the error stream, unless --quiet or --json is set.
    void remark(std::string_view line) const;
};

// The value of --limit; 0 if missing.
Outcome<std::size_t> limit_of(const Invocation& invocation);
// The idempotency key: the value of --idempotency-key, or a fresh one.
std::string key_of(const Context& context, const Invocation& invocation);

// Runs a command that is one request, and shows the response.
ExitCode run_request(Context& context, const CliCommand& command, const Invocation& invocation);
ExitCode run(Context& context, const CliCommand& command, const Invocation& invocation);

// Shows a response as table, JSON or names. `invocation` tells if an empty list had a filter.
void show(const Context& context, const CliCommand& command, const Invocation& invocation, const ApiResponse& answer);

}  // namespace interlock::cli
