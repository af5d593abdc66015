// A stream of commands like those of a busy day, from a seed: charges on one hot budget and on many, holds and their
// settles, turns of conversations, runs that want the same places, schedules and their wakes, retries, refusals, and
// time that now and then jumps over midnight.
//
// It learns from the answers, as clients do: a fence comes back with an admission and goes out with what the run does
// next. The same seed and the same answers give the same commands.
#pragma once

#include <cstdint>
#include <vector>

#include "core/command.h"
#include "core/reply.h"
#include "crash/random.h"

namespace interlock::crash {

class Workload {
 public:
    static constexpr core::OrgId org{1};
    static constexpr std::size_t agents = 6;

    explicit Workload(std::uint64_t seed);

    // Everything the later commands are about. Goes first.
    std::vector<core::Command> setup();
    std::vector<core::Command> next_batch();
    void heard(const core::Command& command, const core::Reply& reply);

    Instant now() const { return now_; }

 private:
    struct LiveRun {
        core::RunId run;
        core::Fence fence;
    };

    core::Command command(core::CommandBody body);
    core::CommandBody some_body();
    core::CommandBody some_charge();
    core::CommandBody some_turn();
    core::CommandBody some_admission();
    core::CommandBody next_of_a_run();
    Id fresh_id();
    std::string some_agent();
    std::string some_text(std::size_t bytes_max);

    Random random_;
    Instant now_;
    std::uint64_t ids_ = 0;
    std::vector<core::SessionId> sessions_;
    std::vector<LiveRun> runs_;
    std::vector<core::HoldId> holds_;
    std::vector<core::Command> recent_;  // To be asked again.
};

// Whether the answer says that something was done, so that it must be there for ever.
bool says_done(const core::Reply& reply);

}  // namespace interlock::crash
