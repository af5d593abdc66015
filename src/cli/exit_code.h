// Exit codes. Scripts depend on them, so a number never changes its meaning. `interlock help exit-codes` lists them.
// Some local commands have further codes, which their help lists.
#pragma once

namespace interlock::cli {

enum class ExitCode : int {
    ok = 0,
    refused = 1,    // A rule refused, or a check found a violation.
    bad_usage = 2,  // The command line or the request is invalid.
    not_found = 3,
    not_permitted = 4,    // The API key is missing, wrong or lacks the scope.
    not_reachable = 5,    // No server could be reached. Nothing changed.
    outcome_unknown = 6,  // The change may have happened. A retry with the same idempotency key tells.
    busy = 7,             // The server is busy or cannot write to its store. Nothing changed.
};

}  // namespace interlock::cli
