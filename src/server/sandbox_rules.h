// The sandbox levels that runs get: what the machine allows, how the server was started, and what operators have set.
//
//   (1) What operators set holds for every run that starts after the answer. The minimum is the higher one of theirs
//       and that of the start; their default replaces that of the start.
//   (2) A setting that cannot be read changes nothing, so no bound gets lower by it.
//
// For all threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "gateway/settings.h"
#include "supervisor/sandbox_policy.h"

namespace interlock::server {

class SandboxRules {
 public:
    // Looks at the machine, which blocks for some milliseconds. Names of levels; empty: none was said.
    void start(const std::string& standard, const std::string& minimum, const std::string& data_dir);
    void set(gateway::SandboxSettings settings);

    supervisor::SandboxPolicy policy() const;
    // Whether sealed runs that may reach the host reach it at an address of this machine or a private network, too.
    bool may_be_private(std::string_view host, std::uint16_t port) const;

 private:
    mutable std::mutex mutex_;
    supervisor::SandboxPolicy started_;
    gateway::SandboxSettings settings_;
};

}  // namespace interlock::server
