// From what was typed to what is asked of the server. Refuses what cannot be meant before anything is sent.
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

// `in` is read where a value is "-" and may be.
Outcome<Built> build_request(const CliCommand& command, const Invocation& invocation, Instant now, std::FILE* in);

// "2026-11-01", "2026-11-01T09:00:00Z", or how long before now: "90m", "24h", "7d".
std::optional<Instant> instant_from_text(std::string_view text, Instant now);

}  // namespace interlock::cli
