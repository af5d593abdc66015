// A workload: clients of one kind, and what they want.
#pragma once

#include "sim/world.h"

namespace interlock::sim {

class Workload {
 public:
    virtual ~Workload() = default;

    virtual void setup(World&) {}
    // One of its clients does its next thing.
    virtual void start(World& world) = 0;
    // A client has got an answer. The same call may be answered several times, also refused first and done later.
    virtual void heard(World&, const Call&, const engine::SubmitResult&) {}
};

std::unique_ptr<Workload> make_admin();      // Agents, keys, caps and budgets come, change and go.
std::unique_ptr<Workload> make_money();      // Charges and holds.
std::unique_ptr<Workload> make_runs();       // Owners who ask for places, work, die and come back too late.
std::unique_ptr<Workload> make_sessions();   // Many writers per session, forks.
std::unique_ptr<Workload> make_schedules();  // Intervals, crons, wakes.
std::unique_ptr<Workload> make_worktrees();  // Planned, made and dropped.
std::unique_ptr<Workload> make_settings();   // Set, set again and dropped; calls that are recorded.
std::unique_ptr<Workload> make_echo();       // Old calls asked again, old keys with other content.
std::unique_ptr<Workload> make_nonsense();   // What must be refused, and must leave no trace.

}  // namespace interlock::sim
