// Schedules: runs that start by themselves.
//
//   (1) A tick fires once: firing it and moving on to the next are one step, and its run's id is a function of the
//       schedule and the tick.
//   (2) At most one run of a schedule waits in line, whatever the policies: schedules do not pile up.
//   (3) A wake gets a run of its own, or the one that is already waiting to start; it is never lost.
#pragma once

#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

ScheduleReply put_schedule(OrgState& state, Stamp stamp, const PutSchedule& command);
ScheduleReply delete_schedule(OrgState& state, Stamp stamp, const DeleteSchedule& command);
ScheduleReply enable_schedule(OrgState& state, Stamp stamp, const EnableSchedule& command);
WakeReply wake(OrgState& state, Stamp stamp, const Wake& command);

// Fires what is due of a schedule and moves it on. Returns how many runs it started or put in line.
std::int64_t fire(OrgState& state, Stamp stamp, const std::string& name);

// The ticks to come, without jitter, the next one first: at most `count`, and none of a schedule that rests.
std::vector<Instant> next_ticks(const Schedule& schedule, std::size_t count);

}  // namespace interlock::core
