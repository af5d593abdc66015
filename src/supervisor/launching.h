// From what is stored of a run to what its shim is told: the command, the environment, the bounds.
//
//   (1) A run's environment is what every program needs, what the run or its agent names, and what Interlock says to
//       it. Nothing else of the server's environment reaches it.
//   (2) The run's key is in its environment and nowhere else. A sealed run has none.
//
// Pure: no file is read and no process started here.
#pragma once

#include <string>
#include <vector>

#include "core/rows.h"
#include "shim/adapters.h"
#include "shim/message.h"
#include "supervisor/sandbox_policy.h"

namespace interlock::supervisor {

// What the supervisor knows about a run beside its rows.
struct LaunchContext {
    std::string home;                      // The run's directory among the server's data.
    std::string directory;                 // Where it works: the workspace, or the worktree made for it.
    bool directory_is_held = false;        // An open descriptor of it goes with the message.
    std::vector<std::string> environment;  // That of the server, "NAME=value".
    std::string url;
    std::string key;
    std::int32_t port_base = 0;  // 0: it has none.
    SandboxDecision sandbox = {};
    std::vector<std::string> hidden = {};    // Directories and sockets of the server's that are not there for runs.
    std::vector<std::string> writable;       // At level files, beside what the run names.
    std::vector<std::string> readable = {};  // Likewise.
    bool in_worktree = false;                // Not in the workspace itself.
    std::string cgroup;                      // Empty: none is to be had.
    std::int64_t log_bytes_max = 0;
    std::int64_t beat_ms = 1'000;
    bool gateway = false;            // Its models are reached through ours.
    std::int64_t output_tokens = 0;  // What its budgets afford at a time; 0: as much as it likes.
};

// What is known of the run's program; null: nothing.
const shim::Adapter* adapter_of(const core::ProcessSpec& process);

// What a sealed run has as its key. It is good nowhere: its connections say whose they are.
constexpr std::string_view key_of_sealed_runs = "ilk_sealed_run";

shim::ShimMessage launch_message(const core::Run& run, const core::ProcessSpec& process, const LaunchContext& around);

}  // namespace interlock::supervisor
