// Builds the request of a command. Refuses invalid values before anything is sent.
#pragma once

#include <cstdio>
#include <string>

#include "base/instant.h"
#include "cli/command.h"
#include "cli/failure.h"

namespace interlock::cli {

struct Built {
    std::string target;
    std::string body = {};  // Empty for GET and DELETE.
};

// `in` is read for a content value "-".
Outcome<Built> build_request(const CliCommand& command, const Invocation& invocation, Instant now, std::FILE* in);

// Refuses the value of a flag that is not one of the flag's choices or is out of its range. `help` is the hint: a
// command that explains the flags.
Outcome<void> check_values(const std::vector<Flag>& flags, const Invocation& invocation, const std::string& help);

// "2026-11-01", "2026-11-01T09:00:00Z", or a time ago: "90m", "24h", "7d".
std::optional<Instant> instant_from_text(std::string_view text, Instant now);

}  // namespace interlock::cli
