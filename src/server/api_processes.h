// The processes of this machine's runs, for the API: their logs, the secrets of their shims and their sandboxes.
#pragma once

#include <string>

#include "api/ports.h"
#include "server/gateway_host.h"
#include "server/sandbox_rules.h"
#include "supervisor/shim_secrets.h"

namespace interlock::server {

class ApiProcesses final : public api::Processes {
 public:
    struct Options {
        core::OrgId home;
        std::string data_dir;
        supervisor::ShimSecrets& shim_secrets;
        SandboxRules& sandbox;
        GatewayHost& gateway;
    };
    explicit ApiProcesses(Options options) : options_(std::move(options)) {}

    Result<api::LogPiece, std::string> read_log(core::RunId run, std::int64_t offset, std::int64_t limit) override;
    std::string issue_shim_secret(core::RunId run) override;
    std::optional<std::string> sandbox_refusal(const core::ProcessSpec& process) override;
    core::SandboxLevel sandbox_level(const core::ProcessSpec& process) override;

 private:
    const Options options_;
};

}  // namespace interlock::server
