// The teardown of a worktree, carried out as the run was: under a shim, with the run's sandbox, limits and environment,
// for at most a minute, and with all of its processes ended afterwards.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "core/rows.h"
#include "supervisor/sandbox_policy.h"

namespace interlock::supervisor {

struct Teardown {
    const core::Run& run;
    const core::ProcessSpec& process;      // Of the run.
    std::string text;                      // For /bin/sh.
    std::string directory;                 // Where it works.
    std::string home;                      // For its output and its TMPDIR.
    std::vector<std::string> environment;  // That of the server, from which little is taken.
    std::vector<std::string> writable;     // In the sandbox, beside what the run named.
    std::vector<std::string> readable;     // Likewise.
    std::int32_t port_base = 0;
    SandboxDecision sandbox = {};
    std::vector<std::string> hidden = {};  // From level guarded on.
};

// What went wrong with it; empty: nothing. An error says why it was not started.
Result<std::string, std::string> carry_out(const Teardown& teardown);

}  // namespace interlock::supervisor
