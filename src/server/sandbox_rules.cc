#include "server/sandbox_rules.h"

#include <algorithm>

#include "core/hosts.h"

namespace interlock::server {

using core::SandboxLevel;

void SandboxRules::start(const std::string& standard, const std::string& minimum, const std::string& data_dir) {
    supervisor::SandboxPolicy policy;
    policy.standard = supervisor::sandbox_level_from(standard);
    policy.minimum = supervisor::sandbox_level_from(minimum).value_or(SandboxLevel::off);
    supervisor::look_at_machine(policy, data_dir);
    const std::lock_guard lock(mutex_);
    started_ = std::move(policy);
}

void SandboxRules::set(gateway::SandboxSettings settings) {
    const std::lock_guard lock(mutex_);
    settings_ = std::move(settings);
}

supervisor::SandboxPolicy SandboxRules::policy() const {
    const std::lock_guard lock(mutex_);
    supervisor::SandboxPolicy policy = started_;
    if (settings_.standard != SandboxLevel::server_default) policy.standard = settings_.standard;
    if (settings_.minimum != SandboxLevel::server_default) policy.minimum = std::max(policy.minimum, settings_.minimum);
    return policy;
}

bool SandboxRules::may_be_private(std::string_view host, std::uint16_t port) const {
    const std::lock_guard lock(mutex_);
    return core::is_allowed(settings_.private_hosts, host, port);
}

}  // namespace interlock::server
