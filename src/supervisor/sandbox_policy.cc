#include "supervisor/sandbox_policy.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/describe/enum_from_string.hpp>
#include <boost/describe/enum_to_string.hpp>

#include "supervisor/subprocess.h"

namespace interlock::supervisor {
namespace {

using core::SandboxLevel;

const std::string& why_not(SandboxLevel level, const SandboxPolicy& policy) {
    static const std::string nothing;
    return level == SandboxLevel::sealed    ? policy.no_sealed
           : level == SandboxLevel::files   ? policy.no_files
           : level == SandboxLevel::guarded ? policy.no_guarded
                                            : nothing;
}

// Empty when runs can have the level.
std::string probe(SandboxLevel level, const std::string& data_dir) {
    // The file in memory is closed in programs that are waited for; this program does the same.
    const std::vector<std::string> words{"/proc/self/exe", "shim", "--probe", std::string(name_of(level)), data_dir};
    const auto finished = run_program(words, {.timeout = std::chrono::seconds(10)});
    if (!finished) return finished.error();
    if (finished->exit_code == 0) return {};
    return finished->out.empty() ? fmt::format("the attempt ended with code {}", finished->exit_code) : finished->out;
}

}  // namespace

std::optional<SandboxLevel> sandbox_level_from(std::string_view name) {
    SandboxLevel level{};
    if (!boost::describe::enum_from_string(std::string(name).c_str(), level)) return std::nullopt;
    return level == SandboxLevel::server_default ? std::nullopt : std::optional(level);
}

std::string_view name_of(SandboxLevel level) { return boost::describe::enum_to_string(level, "off"); }

Result<SandboxDecision, std::string> decide_sandbox(const core::ProcessSpec& process, const SandboxPolicy& policy) {
    const SandboxLevel asked = process.asked_level();
    const bool is_default = asked == SandboxLevel::server_default;
    if (!is_default && asked < policy.minimum) {
        return fail(
            fmt::format("the run asks for the sandbox level {}, and this server's minimum is {}; ask for {} or "
                        "a higher level",
                        name_of(asked), name_of(policy.minimum), name_of(policy.minimum)));
    }
    const SandboxLevel standard = policy.standard.value_or(SandboxLevel::guarded);
    const SandboxLevel wanted = is_default ? std::max(standard, policy.minimum) : asked;
    // Otherwise a run whose hosts were stated would reach all of them.
    if (!process.allowed_hosts.empty() && wanted != SandboxLevel::sealed) {
        return fail(
            fmt::format("allowed_hosts is for runs at the sandbox level sealed, and this run would have {}; ask for "
                        "sealed, or leave the hosts out",
                        name_of(wanted)));
    }
    const std::string& why = why_not(wanted, policy);
    if (why.empty()) return SandboxDecision{.level = wanted};
    if (is_default && !policy.standard && policy.minimum == SandboxLevel::off) {
        return SandboxDecision{.level = SandboxLevel::off,
                               .note = "no sandbox, so the run can do what its user can: " + why};
    }
    return fail(fmt::format("this machine does not allow the sandbox level {}: {}", name_of(wanted), why));
}

void look_at_machine(SandboxPolicy& policy, const std::string& data_dir) {
    policy.no_guarded = probe(SandboxLevel::guarded, data_dir);
    // Each level has all parts of the one before it.
    policy.no_files = policy.no_guarded.empty() ? probe(SandboxLevel::files, data_dir) : policy.no_guarded;
    policy.no_sealed = policy.no_files.empty() ? probe(SandboxLevel::sealed, data_dir) : policy.no_files;
}

}  // namespace interlock::supervisor
