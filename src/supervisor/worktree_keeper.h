// The worktrees of this node: made for runs, looked at, removed and brought back. The rows are the core's, the disk is
// git's; this keeps them together.
//
//   (1) A row is there before the directory and until after it, so that a crash leaves nothing unknown.
//   (2) What a live run works in is never removed.
//
// Everything blocks: for worker threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/rows.h"
#include "engine/engine.h"
#include "store/read_pool.h"
#include "supervisor/sandbox_policy.h"
#include "supervisor/worktrees.h"

namespace interlock::supervisor {

class WorktreeKeeper {
 public:
    struct Options {
        core::OrgId org;
        std::string node;
        std::string lock_dir;  // For one change at a time per repository.
        std::string data_dir;
        std::vector<std::string> environment;    // That of the server, "NAME=value".
        std::function<SandboxPolicy()> sandbox;  // As it is now.
        std::vector<std::string> hidden;         // From the programs of teardowns, as from runs.
        store::ReadPool& reads;
        std::function<engine::SubmitResult(core::CommandBody)> ask;
    };
    explicit WorktreeKeeper(Options options) : options_(std::move(options)) {}

    struct Made {
        std::string directory;  // Where the run works.
        std::int32_t port_base = 0;
        std::vector<std::string> writable;       // What git writes to outside of it.
        std::vector<std::string> readable = {};  // And what it reads there: the repository's git directory.
    };
    // At the place that the isolated run has claimed, from the repository that `workspace` is in. Called again, for
    // the same run or for a further try of it, it gives the same.
    Result<Made, std::string> make(core::RunId run, const std::string& workspace);

    struct Kept {
        std::vector<Reason> reasons;
        std::uint64_t bytes = 0;
    };
    Result<Kept, std::string> why(core::RunId run);
    // The ref that its work is under; empty when all of it is elsewhere.
    Result<std::string, std::string> remove(core::RunId run, Force force);
    Result<void, std::string> restore(core::RunId run);

 private:
    Result<core::WorktreeReply, std::string> tell(core::CommandBody body);
    Result<core::Worktree, std::string> find(core::RunId run);
    Result<std::string, std::string> tear_down(const core::Worktree& worktree, const std::string& directory);
    bool in_use(const core::Worktree& worktree);

    const Options options_;
};

}  // namespace interlock::supervisor
