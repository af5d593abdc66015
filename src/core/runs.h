// Runs: admission, life and end.
//
//   (1) Admission is one step: the agent's state, every budget, every place and every cap are asked together, and what
//       is granted is taken in the same step. The second run finds it taken, whether the first is starting, running
//       or paused.
//   (2) A queued run holds nothing: no claim, no money, no place under a cap.
//   (3) Every end frees everything the run held, charges what it used, and lets the next in line start: one step.
//   (4) A run is changed only by whoever shows its fence. Losing a run gives it another fence, so that the one who lost
//       it can change nothing any more.
//   (5) Each change of a run's state is a step of its own, numbered without a gap, and the last one's state is the
//       run's.
//   (6) The line is FIFO within a priority. No run overtakes a run that waits for a place by taking a place it wants.
#pragma once

#include <string>

#include "core/command.h"
#include "core/org_state.h"
#include "core/reply.h"

namespace interlock::core {

AdmitReply admit_run(OrgState& state, Stamp stamp, const AdmitRun& command);
RunReply start_run(OrgState& state, Stamp stamp, const StartRun& command);
RunReply heartbeat_run(OrgState& state, Stamp stamp, const HeartbeatRun& command);
RunReply pause_run(OrgState& state, Stamp stamp, const PauseRun& command);
RunReply resume_run(OrgState& state, Stamp stamp, const ResumeRun& command);
RunReply finish_run(OrgState& state, Stamp stamp, const FinishRun& command);
RunReply cancel_run(OrgState& state, Stamp stamp, const CancelRun& command);
RunReply lose_run(OrgState& state, Stamp stamp, const LoseRun& command);

// The server has seen that the directories of a run are not what they were.
// A run that has not begun takes the new ones if they are free, else goes back in line for them. It fails if it asked
// not to wait, or if the API key that admitted it may not claim them. A run at work keeps what it has and takes the new
// ones too: other runs that have not begun there go back in line, and if one is at work there, this run is asked to
// stop.
RunReply restate_places(OrgState& state, Stamp stamp, const RestatePlaces& command);

// Admits from the line whoever can start now, in order. Called after every command that may have made room.
void promote(OrgState& state, Stamp stamp);

// Time has run out for a run: its lease, or its patience in line.
void end_lease(OrgState& state, Stamp stamp, RunId id);
void end_queueing(OrgState& state, Stamp stamp, RunId id);

// Asks the owners of all live runs in this scope to end them.
void request_stop_where(OrgState& state, Stamp stamp, const Scope& scope, const std::string& reason);
void request_stop(OrgState& state, Stamp stamp, RunId id, const std::string& reason);

// What a schedule starts: an admission that also says where it comes from. What it asks for was checked when the
// schedule was put.
AdmitReply admit_for_schedule(OrgState& state, Stamp stamp, const AdmitRun& command, const std::string& schedule);

// Every lease starts anew: nobody could be heard for a while.
void restart_leases(OrgState& state, Stamp stamp);

}  // namespace interlock::core
