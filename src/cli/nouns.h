// The commands of each noun, and flags that several of them share. commands.cc joins them.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace interlock::cli {

std::vector<Command> agent_commands();
std::vector<Command> budget_commands();
std::vector<Command> charge_commands();
std::vector<Command> hold_commands();
std::vector<Command> session_commands();
std::vector<Command> launch_commands();  // run
std::vector<Command> run_commands();
std::vector<Command> log_commands();              // runs logs, attach and, for old scripts, stop
Command cancel_command(std::vector<Flag> flags);  // runs cancel, with the flags of its request
std::vector<Command> claim_commands();
std::vector<Command> schedule_commands();
std::vector<Command> cap_commands();
std::vector<Command> key_commands();
std::vector<Command> user_commands();
std::vector<Command> org_commands();
std::vector<Command> upstream_commands();
std::vector<Command> limit_commands();
std::vector<Command> secret_commands();
std::vector<Command> gateway_commands();
std::vector<Command> sandbox_commands();
std::vector<Command> price_commands();
std::vector<Command> call_commands();
std::vector<Command> node_commands();
std::vector<Command> feed_commands();    // events, spend
std::vector<Command> system_commands();  // status, verify, doctor, backup, export, import, bench, completion, version

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
