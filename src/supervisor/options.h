// What the supervisor is given: where it is, what it may use, and what it does not do itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "core/rows.h"
#include "engine/engine.h"
#include "shim/fd.h"
#include "store/read_pool.h"
#include "supervisor/held_places.h"
#include "supervisor/sandbox_policy.h"
#include "supervisor/shim_secrets.h"
#include "supervisor/worktree_keeper.h"

namespace interlock::supervisor {

struct SupervisorOptions {
    core::OrgId org;
    std::string node;
    std::string data_dir;
    std::function<std::string()> url;  // Where runs reach the server.
    std::vector<std::string> environment;
    std::function<void(std::vector<engine::Submission>)> submit;
    store::ReadPool& reads;
    WorktreeKeeper& worktrees;
    ShimSecrets& secrets;
    HeldPlaces& held;
    // Runs what blocks, on another thread; false when there is no room now.
    std::function<bool(std::function<void()>)> elsewhere;
    // The same for looks at directories of users, whose file systems may never answer.
    std::function<bool(std::function<void()>)> look;
    std::function<std::string(const core::Run&)> open_key;  // A key that is good for this run.
    std::function<void(core::RunId)> close_key;
    // A sealed run reaches the server by this listening socket alone, and no other process does.
    std::function<void(core::RunId, shim::Fd entrance)> open_entrance = {};
    Log& log;
    // By the wall clock, between the last commit before the start and the start. No server ran during that time.
    std::chrono::microseconds off_for{0};
    std::uint64_t open_files = 0;  // The soft limit that runs start with; 0: this process's own.
    std::int64_t log_bytes_max = std::int64_t{256} << 20;  // Of a run's output.
    double memory_pressure_max = 40;                       // Percent; above it nothing is started. 0: never mind.
    std::chrono::hours logs_kept{14 * 24};
    // Whether programs that speak this dialect reach their models through us. Empty: none does.
    std::function<bool(std::string_view dialect)> gateway = {};
    std::function<SandboxPolicy()> sandbox;  // As it is now.
    std::string socket = {};                 // Of the API. Runs have TCP and a key of their own.
    // How much output at a time the run's budgets afford; 0: nothing limits it. Blocks for a read.
    std::function<std::int64_t(const core::Run&)> output_tokens = {};
};

}  // namespace interlock::supervisor
