#include "server/api_processes.h"

#include <fmt/format.h>

#include "core/hosts.h"
#include "supervisor/run_log.h"
#include "supervisor/sandbox_policy.h"

namespace interlock::server {

Result<api::LogPiece, std::string> ApiProcesses::read_log(core::RunId run, std::int64_t offset, std::int64_t limit) {
    auto part = supervisor::read_log(options_.data_dir + "/runs/" + to_text("run", run.value), offset, limit);
    if (!part) return fail(part.error());
    if (!*part) return api::LogPiece{};
    supervisor::LogPart& log_part = **part;
    const auto next = log_part.offset + static_cast<std::int64_t>(log_part.bytes.size());
    return api::LogPiece{.bytes = std::move(log_part.bytes),
                         .offset = log_part.offset,
                         .next = next,
                         .end = log_part.end,
                         .hole_begin = log_part.hole_begin,
                         .hole_end = log_part.hole_end,
                         .kept = true};
}

std::string ApiProcesses::issue_shim_secret(core::RunId run) { return options_.shim_secrets.issue(run); }

std::optional<std::string> ApiProcesses::sandbox_refusal(const core::ProcessSpec& process) {
    for (const std::string& text : process.allowed_hosts) {
        const auto rule = core::host_rule_from(text);
        if (!rule || rule->is_pattern()) continue;
        if (!options_.gateway.answers_calls(options_.home, rule->name, rule->port.value_or(443))) continue;
        return fmt::format(
            "{} is a model provider, which sealed runs reach through the gateway; add it as an upstream and remove it "
            "from allowed_hosts",
            text);
    }
    const auto decided = supervisor::decide_sandbox(process, options_.sandbox.policy());
    return decided ? std::nullopt : std::optional(decided.error());
}

core::SandboxLevel ApiProcesses::sandbox_level(const core::ProcessSpec& process) {
    const auto decided = supervisor::decide_sandbox(process, options_.sandbox.policy());
    return decided ? decided->level : process.asked_level();
}

}  // namespace interlock::server
