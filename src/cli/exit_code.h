// How the process ends. Scripts branch on these, so a number never changes its meaning; `interlock help exit-codes`
// prints the same list.
#pragma once

namespace interlock::cli {

enum class ExitCode : int {
    ok = 0,
    refused = 1,    // The rules say no, or a check found something broken.
    bad_usage = 2,  // The command line or the request is wrong.
    not_found = 3,
    not_permitted = 4,    // No key, a wrong one, or one whose scopes do not reach.
    not_reachable = 5,    // There is no server to talk to. Nothing was done.
    outcome_unknown = 6,  // It may have happened. The same key again gives the true answer.
    busy = 7,             // The server is there but cannot do it now. Nothing was done.
};

}  // namespace interlock::cli
