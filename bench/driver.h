// Many clients on one thread, in a closed loop: each has one command on its way and asks the next when it is answered.
//
// A client is a few bytes of state, so a thousand of them do not cost a thousand threads, and what is measured is the
// target. Answers are collected under a lock and taken all at once; what follows from them is submitted all at once.
//
//   (1) A latency runs from the submit to the moment at which the client could go on.
//   (2) When run_loop() returns, everything submitted has been answered.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/histogram.h"
#include "bench/workload.h"
#include "engine/engine.h"

namespace interlock::bench {

// Whatever commands are sent to.
class Target {
 public:
    virtual ~Target() = default;
    virtual void submit(std::vector<engine::Submission> submissions) = 0;
    // False for one that only writes commands down: its answers say nothing.
    virtual bool decides() const = 0;
    virtual std::uint64_t batches() const = 0;  // So far; read while nothing is on its way.
};

struct LoopOptions {
    std::size_t clients = 1;
    double warm_up_seconds = 0.1;
    double seconds = 1;
    std::uint64_t commands_max = UINT64_MAX;  // Ends earlier, when this many were answered.
    bool in_step = false;  // Each client waits for the others' answers, so that every batch has a command of each.
    core::OrgId org{1};
};

struct LoopResult {
    std::uint64_t commands = 0;  // Answered in the measured time.
    double seconds = 0;
    Histogram latency;
    double cpu_us = 0;         // Of the whole process, in the measured time.
    double driver_cpu_us = 0;  // Of it, the clients' thread.
    double batch_mean = 0;
    std::uint64_t answered = 0;  // In all, warm-up and the end included.
    std::uint64_t refused = 0;   // Of those.

    double rate() const { return seconds > 0 ? static_cast<double>(commands) / seconds : 0; }
};

// Carries out commands that no client waits for. Returns how many were refused.
std::uint64_t run_once(Target& target, std::vector<core::CommandBody> commands, Ids& ids,
                       core::OrgId org = core::OrgId(1));

LoopResult run_loop(Target& target, Workload& workload, Ids& ids, LoopOptions options);

}  // namespace interlock::bench
