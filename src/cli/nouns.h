// The commands of each noun, and flags that several of them share. commands.cc joins them.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace interlock::cli {

std::vector<CliCommand> agent_commands();
std::vector<CliCommand> budget_commands();
std::vector<CliCommand> charge_commands();
std::vector<CliCommand> hold_commands();
std::vector<CliCommand> session_commands();
std::vector<CliCommand> launch_commands();  // run
std::vector<CliCommand> run_commands();
std::vector<CliCommand> log_commands();              // runs logs, attach and, for old scripts, stop
CliCommand cancel_command(std::vector<Flag> flags);  // runs cancel, with the flags of its request
std::vector<CliCommand> claim_commands();
std::vector<CliCommand> schedule_commands();
std::vector<CliCommand> cap_commands();
std::vector<CliCommand> key_commands();
std::vector<CliCommand> user_commands();
std::vector<CliCommand> org_commands();
std::vector<CliCommand> upstream_commands();
std::vector<CliCommand> limit_commands();
std::vector<CliCommand> secret_commands();
std::vector<CliCommand> gateway_commands();
std::vector<CliCommand> sandbox_commands();
std::vector<CliCommand> price_commands();
std::vector<CliCommand> call_commands();
std::vector<CliCommand> node_commands();
std::vector<CliCommand> feed_commands();  // events, spend
std::vector<CliCommand>
system_commands();  // status, verify, doctor, backup, export, import, bench, completion, version

// The attribution of a charge or hold, besides its agent.
std::vector<Flag> attribution_flags();
// The usage of a model call; members of "usage" below `prefix`.
std::vector<Flag> usage_flags(const std::string& prefix);
Flag agent_flag(std::string help);
Argument run_argument();
Flag fence_flag();
Flag tag_flag(std::string member);
Flag sandbox_flag(std::string help);
Flag allow_host_flag();

std::vector<Flag> joined(std::vector<Flag> first, const std::vector<std::vector<Flag>>& others);

}  // namespace interlock::cli
