// At which level a run's processes are confined: what was asked for, what the operator demands, what the machine can.
//
//   (1) Only the default that no person chose falls back to off, and the decision says why.
//   (2) Anything else that cannot be had refuses the run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/rows.h"

namespace interlock::supervisor {

struct SandboxPolicy {
    std::optional<core::SandboxLevel> standard = {};  // For runs that ask for none. Not set: guarded where possible.
    core::SandboxLevel minimum = core::SandboxLevel::off;
    // Why the machine does not allow these levels; empty: it does.
    std::string no_guarded = {};
    std::string no_files = {};
    std::string no_sealed = {};
};

struct SandboxDecision {
    core::SandboxLevel level = core::SandboxLevel::off;
    std::string note = {};  // A sentence for people, where the run is not as well confined as they would think.
};

std::optional<core::SandboxLevel> sandbox_level_from(std::string_view name);
std::string_view name_of(core::SandboxLevel level);

// The error is a sentence that says what to do.
Result<SandboxDecision, std::string> decide_sandbox(const core::ProcessSpec& process, const SandboxPolicy& policy);

// Finds out by confining a process at each level. Blocks for some milliseconds.
void look_at_machine(SandboxPolicy& policy, const std::string& data_dir);

}  // namespace interlock::supervisor
