#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "supervisor/watch.h"
#include "supervisor/watch_test_support.h"

namespace interlock::supervisor::watch_test {
namespace {

event::Found with_fence(event::Found found, std::int64_t fence) {
    found.order.fence = core::Fence(fence);
    return found;
}

const std::vector<std::pair<std::string, WatchEvent>> events{
    {"Found with another fence", with_fence(found(), 9)},
    {"Greeted, waiting", greeted(shim::ShimPhase::waiting)},
    {"Greeted, running", greeted(shim::ShimPhase::running)},
    {"Greeted, ended", greeted(shim::ShimPhase::ended)},
    {"Greeted by another process", greeted(shim::ShimPhase::running, 200)},
    {"Greeted without a secret", without_secret(greeted(shim::ShimPhase::running))},
    {"HasStarted", has_started},
    {"HasBeaten", event::HasBeaten{}},
    {"HasPaused", event::HasPaused{}},
    {"HasResumed", event::HasResumed{}},
    {"HasEnded", has_ended},
    {"HasEnded, not proven", event::HasEnded{{.how = shim::How::exited}, Proof::refused}},
    {"GuestLeft, alive", event::ConnectionClosed{{.alive = true}}},
    {"GuestLeft, dead", event::ConnectionClosed{}},
    {"GuestLeft, dead while it ran", event::ConnectionClosed{{.file = shim_state(shim::ShimPhase::running, 101)}}},
    {"GuestLeft, dead after the end", event::ConnectionClosed{{.file = shim_state(shim::ShimPhase::ended, 101)}}},
    {"ChildEnded", event::ChildEnded{}},
    {"ChildEnded beside another", event::ChildEnded{true}},
    {"StopRequested", event::StopRequested{"enough"}},
    {"StateChanged to paused", event::StateChanged{core::RunState::paused}},
    {"StateChanged to running", event::StateChanged{core::RunState::running}},
    {"BackInLine", event::BackInLine{}},
    {"RunIsOver", event::RunIsOver{"lost"}},
    {"PlacesFreed", event::PlacesFreed{}},
    {"RoomLooked", event::RoomLooked{}},
    {"RoomLooked, none", event::RoomLooked{Obstacle::memory, 50}},
    {"PlaceSeen", event::PlaceSeen{}},
    {"PlaceSeen, a problem", event::PlaceSeen{.problem = "'/src' is not there"}},
    {"PlaceSeen, changed", changed},
    {"PlaceLater", event::PlaceLater{}},
    {"LineLooked", event::LineLooked{"next in line"}},
    {"Prepared", prepared},
    {"NotPrepared", event::NotPrepared{"no worktree"}},
    {"PrepareLater", event::PrepareLater{}},
    {"NotSpawned", event::NotSpawned{"no memory"}},
    {"EndLooked, nothing held", event::EndLooked{.shim = ShimNow::alive}},
    {"EndLooked, held", event::EndLooked{.shim = ShimNow::alive, .held = "process 12 (sh)"}},
    {"EndLooked, shim gone", event::EndLooked{.shim = ShimNow::gone}},
    {"EndLooked, earlier boot", event::EndLooked{.shim = ShimNow::of_earlier_boot}},
    {"LeftoversLooked, none", event::LeftoversLooked{}},
    {"LeftoversLooked, kept", event::LeftoversLooked{"process 12 (sh)"}},
    {"LeftoversLater", event::LeftoversLater{}},
    {"Answered start, done", answer(RunCommandKind::start, core::RunStatus::done)},
    {"Answered start, refused", answer(RunCommandKind::start, core::RunStatus::stale_fence)},
    {"Answered start, not known", no_answer(RunCommandKind::start)},
    {"Answered beat, done", answer(RunCommandKind::beat, core::RunStatus::done)},
    {"Answered beat, refused", answer(RunCommandKind::beat, core::RunStatus::run_ended)},
    {"Answered beat, in line", answer_in(core::RunState::queued, RunCommandKind::beat, core::RunStatus::stale_fence)},
    {"Answered beat, not known", no_answer(RunCommandKind::beat)},
    {"Answered pause, refused", answer(RunCommandKind::pause, core::RunStatus::wrong_state)},
    {"Answered resume, refused", answer(RunCommandKind::resume, core::RunStatus::wrong_state)},
    {"Answered restate, done", answer(RunCommandKind::restate, core::RunStatus::done)},
    {"Answered restate, put back", answer_in(core::RunState::queued, RunCommandKind::restate, core::RunStatus::done)},
    {"Answered restate, in line",
     answer_in(core::RunState::queued, RunCommandKind::restate, core::RunStatus::stale_fence)},
    {"Answered restate, failed", answer_in(core::RunState::failed, RunCommandKind::restate, core::RunStatus::done)},
    {"Answered restate, to stop", answer(RunCommandKind::restate, core::RunStatus::wrong_state)},
    {"Answered restate, invalid", answer(RunCommandKind::restate, core::RunStatus::invalid_request)},
    {"Answered restate, not known", no_answer(RunCommandKind::restate)},
    {"Answered cancel, done", answer(RunCommandKind::cancel, core::RunStatus::done)},
    {"Answered end, done", answer(RunCommandKind::end, core::RunStatus::done)},
    {"Answered end, refused", answer(RunCommandKind::end, core::RunStatus::run_ended)},
    {"Answered end, not known", no_answer(RunCommandKind::end)},
    {"TimePassed, 1 s", event::TimePassed{.shim = {.alive = true}}},
    {"TimePassed, 25 s", event::TimePassed{.shim = {.alive = true}}},
    {"TimePassed, 35 s", event::TimePassed{.shim = {.alive = true}}},
    {"TimePassed, 65 s", event::TimePassed{.shim = {.alive = true}}},
    {"TimePassed, shim dead", event::TimePassed{}},
};

SteadyDuration time_before(const std::string& event) {
    if (event.ends_with("1 s")) return 1s;
    if (event.ends_with("25 s")) return 25s;
    if (event.ends_with("35 s")) return 35s;
    return event.ends_with("65 s") ? 65s : 0s;
}
std::string in_lines(const std::vector<std::string>& names) {
    constexpr std::size_t line_max = 110;
    std::string text, line = "  nothing:";
    for (const std::string& name : names) {
        if (line.size() + name.size() > line_max) {
            text += line + "\n";
            line = "   ";
        }
        line += " " + name + ";";
    }
    return text + line + "\n";
}

// Every phase in which something happens, with every event. What changes neither the phase nor calls for an action is
// at the end of the phase's part.
const std::string table = R"(
InLine
  Found with another fence -> HeldBack: look for room
  Greeted, waiting -> InLine: admit; look at line
  Greeted, running -> InLine: admit; tell fenced
  Greeted, ended -> InLine: admit
  Greeted by another process -> InLine: admit; show out; tell fenced
  Greeted without a secret -> InLine: log shim_refused; show out
  GuestLeft, alive -> Over: submit CancelRun; forget
  GuestLeft, dead -> Over: submit CancelRun; forget
  GuestLeft, dead while it ran -> Over: submit CancelRun; forget
  GuestLeft, dead after the end -> Over: submit CancelRun; forget
  RunIsOver -> Over: tell refused; forget
  LineLooked -> InLine: tell wait
  TimePassed, 1 s -> InLine: look at line
  TimePassed, 25 s -> InLine: look at line
  TimePassed, 35 s -> InLine: look at line
  TimePassed, 65 s -> InLine: look at line
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; HasEnded; HasEnded, not proven; ChildEnded;
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; BackInLine;
    PlacesFreed; RoomLooked; RoomLooked, none; PlaceSeen; PlaceSeen, a problem; PlaceSeen, changed; PlaceLater;
    Prepared; NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held; EndLooked, held;
    EndLooked, shim gone; EndLooked, earlier boot; LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater;
    Answered start, done; Answered start, refused; Answered start, not known; Answered beat, done;
    Answered beat, refused; Answered beat, in line; Answered beat, not known; Answered pause, refused;
    Answered resume, refused; Answered restate, done; Answered restate, put back; Answered restate, in line;
    Answered restate, failed; Answered restate, to stop; Answered restate, invalid; Answered restate, not known;
    Answered cancel, done; Answered end, done; Answered end, refused; Answered end, not known;
    TimePassed, shim dead;
HeldBack
  Found with another fence -> HeldBack: look for room
  Greeted, waiting -> HeldBack: admit
  Greeted, running -> Starting: admit; submit StartRun; hold again
  Greeted, ended -> HeldBack: admit
  Greeted by another process -> Starting: admit; submit StartRun; hold again
  Greeted without a secret -> HeldBack: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> HeldBack: log end_refused
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  StopRequested -> Ending: submit CancelRun
  BackInLine -> Over: drop shims; forget
  RunIsOver -> Over: keep places; see gone; forget
  PlacesFreed -> HeldBack: look for room
  RoomLooked -> LookingAtPlace: look at place
  RoomLooked, none -> HeldBack: log run_held_back
  Answered beat, refused -> Over: keep places; see gone; forget
  Answered beat, in line -> Over: drop shims; forget
  TimePassed, 1 s -> HeldBack: look for room
  TimePassed, 25 s -> HeldBack: submit HeartbeatRun; look for room
  TimePassed, 35 s -> HeldBack: submit HeartbeatRun; look for room
  TimePassed, 65 s -> HeldBack: submit HeartbeatRun; look for room
  TimePassed, shim dead -> HeldBack: look for room
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; GuestLeft, dead; ChildEnded;
    ChildEnded beside another; StateChanged to paused; StateChanged to running; PlaceSeen; PlaceSeen, a problem;
    PlaceSeen, changed; PlaceLater; LineLooked; Prepared; NotPrepared; PrepareLater; NotSpawned;
    EndLooked, nothing held; EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot;
    LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, not known; Answered pause, refused;
    Answered resume, refused; Answered restate, done; Answered restate, put back; Answered restate, in line;
    Answered restate, failed; Answered restate, to stop; Answered restate, invalid; Answered restate, not known;
    Answered cancel, done; Answered end, done; Answered end, refused; Answered end, not known;
LookingAtPlace
  Found with another fence -> HeldBack: look for room
  Greeted, waiting -> LookingAtPlace: admit
  Greeted, running -> Starting: admit; submit StartRun; hold again
  Greeted, ended -> LookingAtPlace: admit
  Greeted by another process -> Starting: admit; submit StartRun; hold again
  Greeted without a secret -> LookingAtPlace: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> LookingAtPlace: log end_refused
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  StopRequested -> Ending: submit CancelRun
  BackInLine -> Over: drop shims; forget
  RunIsOver -> Over: keep places; see gone; forget
  PlaceSeen -> Preparing: prepare
  PlaceSeen, a problem -> Ending: submit FinishRun(failed)
  PlaceSeen, changed -> Restating: log run_place_changed; submit RestatePlaces
  PlaceLater -> LookingAtPlace: look again
  Answered beat, refused -> Over: keep places; see gone; forget
  Answered beat, in line -> Over: drop shims; forget
  TimePassed, 25 s -> LookingAtPlace: submit HeartbeatRun
  TimePassed, 35 s -> LookingAtPlace: submit HeartbeatRun
  TimePassed, 65 s -> LookingAtPlace: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; GuestLeft, dead; ChildEnded;
    ChildEnded beside another; StateChanged to paused; StateChanged to running; PlacesFreed; RoomLooked;
    RoomLooked, none; LineLooked; Prepared; NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held;
    EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot; LeftoversLooked, none;
    LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, not known; Answered pause, refused;
    Answered resume, refused; Answered restate, done; Answered restate, put back; Answered restate, in line;
    Answered restate, failed; Answered restate, to stop; Answered restate, invalid; Answered restate, not known;
    Answered cancel, done; Answered end, done; Answered end, refused; Answered end, not known; TimePassed, 1 s;
    TimePassed, shim dead;
Restating
  Found with another fence -> HeldBack: look for room
  Greeted, waiting -> Restating: admit
  Greeted, running -> Starting: admit; submit StartRun; hold again
  Greeted, ended -> Restating: admit
  Greeted by another process -> Starting: admit; submit StartRun; hold again
  Greeted without a secret -> Restating: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> Restating: log end_refused
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  StopRequested -> Ending: submit CancelRun
  BackInLine -> Over: drop shims; forget
  RunIsOver -> Over: keep places; see gone; forget
  Answered beat, refused -> Over: keep places; see gone; forget
  Answered beat, in line -> Over: drop shims; forget
  Answered restate, done -> HeldBack: look for room
  Answered restate, put back -> Over: drop shims; forget
  Answered restate, in line -> Over: drop shims; forget
  Answered restate, failed -> Over: forget
  Answered restate, to stop -> Restating: look again
  Answered restate, invalid -> Ending: submit FinishRun(failed)
  Answered restate, not known -> Restating: look again
  TimePassed, 25 s -> Restating: submit HeartbeatRun
  TimePassed, 35 s -> Restating: submit HeartbeatRun
  TimePassed, 65 s -> Restating: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; GuestLeft, dead; ChildEnded;
    ChildEnded beside another; StateChanged to paused; StateChanged to running; PlacesFreed; RoomLooked;
    RoomLooked, none; PlaceSeen; PlaceSeen, a problem; PlaceSeen, changed; PlaceLater; LineLooked; Prepared;
    NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held; EndLooked, held; EndLooked, shim gone;
    EndLooked, earlier boot; LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done;
    Answered start, refused; Answered start, not known; Answered beat, done; Answered beat, not known;
    Answered pause, refused; Answered resume, refused; Answered cancel, done; Answered end, done;
    Answered end, refused; Answered end, not known; TimePassed, 1 s; TimePassed, shim dead;
Preparing
  Found with another fence -> HeldBack: look for room
  Greeted, waiting -> Preparing: admit
  Greeted, running -> Starting: admit; submit StartRun; hold again
  Greeted, ended -> Preparing: admit
  Greeted by another process -> Starting: admit; submit StartRun; hold again
  Greeted without a secret -> Preparing: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> Preparing: log end_refused
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  StopRequested -> Ending: submit CancelRun
  BackInLine -> Over: drop shims; forget
  RunIsOver -> Over: keep places; see gone; forget
  Prepared -> Ready: spawn
  NotPrepared -> Ending: submit FinishRun(failed)
  PrepareLater -> Preparing: look again
  Answered beat, refused -> Over: keep places; see gone; forget
  Answered beat, in line -> Over: drop shims; forget
  TimePassed, 25 s -> Preparing: submit HeartbeatRun
  TimePassed, 35 s -> Preparing: submit HeartbeatRun
  TimePassed, 65 s -> Preparing: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; GuestLeft, dead; ChildEnded;
    ChildEnded beside another; StateChanged to paused; StateChanged to running; PlacesFreed; RoomLooked;
    RoomLooked, none; PlaceSeen; PlaceSeen, a problem; PlaceSeen, changed; PlaceLater; LineLooked; NotSpawned;
    EndLooked, nothing held; EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot;
    LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, not known; Answered pause, refused;
    Answered resume, refused; Answered restate, done; Answered restate, put back; Answered restate, in line;
    Answered restate, failed; Answered restate, to stop; Answered restate, invalid; Answered restate, not known;
    Answered cancel, done; Answered end, done; Answered end, refused; Answered end, not known; TimePassed, 1 s;
    TimePassed, shim dead;
Ready
  Found with another fence -> HeldBack: look for room
  Greeted, waiting -> Launched: admit; tell launch
  Greeted, running -> Starting: admit; submit StartRun; hold again
  Greeted, ended -> Ready: admit
  Greeted by another process -> Starting: admit; submit StartRun; hold again
  Greeted without a secret -> Ready: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> Ready: log end_refused
  GuestLeft, dead -> Ready: spawn
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  ChildEnded -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  BackInLine -> Over: drop shims; forget
  RunIsOver -> Over: keep places; see gone; forget
  NotSpawned -> Ending: log shim_not_started; submit FinishRun(failed)
  Answered beat, refused -> Over: keep places; see gone; forget
  Answered beat, in line -> Over: drop shims; forget
  TimePassed, 25 s -> Ready: submit HeartbeatRun
  TimePassed, 35 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded beside another;
    StopRequested; StateChanged to paused; StateChanged to running; PlacesFreed; RoomLooked; RoomLooked, none;
    PlaceSeen; PlaceSeen, a problem; PlaceSeen, changed; PlaceLater; LineLooked; Prepared; NotPrepared;
    PrepareLater; EndLooked, nothing held; EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot;
    LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, not known; Answered pause, refused;
    Answered resume, refused; Answered restate, done; Answered restate, put back; Answered restate, in line;
    Answered restate, failed; Answered restate, to stop; Answered restate, invalid; Answered restate, not known;
    Answered cancel, done; Answered end, done; Answered end, refused; Answered end, not known; TimePassed, 1 s;
    TimePassed, shim dead;
Launched
  Found with another fence -> HeldBack: tell fenced; keep places; see gone, shim too; look for room
  Greeted, waiting -> HeldBack: admit; look for room
  Greeted, running -> Starting: admit; submit StartRun
  Greeted, ended -> Launched: admit
  Greeted by another process -> Launched: log shim_refused; show out
  Greeted without a secret -> Launched: log shim_refused; show out
  HasStarted -> Starting: submit StartRun
  HasEnded -> Checking: look at end
  HasEnded, not proven -> Launched: log end_refused
  GuestLeft, dead -> Reaping: log run_reaped; keep places; end leftovers and shim, look for daemons
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers and shim
  StopRequested -> Launched: tell stop
  StateChanged to paused -> Launched: tell pause
  BackInLine -> Over: tell fenced; keep places; see gone, shim too; forget
  RunIsOver -> Over: tell fenced; keep places; see gone, shim too; forget
  Answered beat, refused -> Over: tell fenced; keep places; see gone, shim too; forget
  Answered beat, in line -> Over: tell fenced; keep places; see gone, shim too; forget
  TimePassed, 25 s -> Launched: submit HeartbeatRun
  TimePassed, 35 s -> Launched: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers and shim, look for daemons
  nothing: HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded; ChildEnded beside another;
    StateChanged to running; PlacesFreed; RoomLooked; RoomLooked, none; PlaceSeen; PlaceSeen, a problem;
    PlaceSeen, changed; PlaceLater; LineLooked; Prepared; NotPrepared; PrepareLater; NotSpawned;
    EndLooked, nothing held; EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot;
    LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, not known; Answered pause, refused;
    Answered resume, refused; Answered restate, done; Answered restate, put back; Answered restate, in line;
    Answered restate, failed; Answered restate, to stop; Answered restate, invalid; Answered restate, not known;
    Answered cancel, done; Answered end, done; Answered end, refused; Answered end, not known; TimePassed, 1 s;
    TimePassed, shim dead;
Starting
  Found with another fence -> HeldBack: tell fenced; keep places; see gone; look for room
  Greeted, waiting -> Over: admit; tell fenced; keep places; see gone; forget
  Greeted, running -> Starting: admit
  Greeted, ended -> Starting: admit
  Greeted by another process -> Starting: log shim_refused; show out
  Greeted without a secret -> Starting: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> Starting: log end_refused
  GuestLeft, dead -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  StopRequested -> Starting: tell stop
  StateChanged to paused -> Starting: tell pause
  BackInLine -> Over: tell fenced; keep places; see gone; forget
  RunIsOver -> Over: tell fenced; keep places; see gone; forget
  Answered start, done -> Running: -
  Answered start, refused -> Over: tell fenced; keep places; see gone; forget
  Answered start, not known -> Starting: look again
  Answered beat, refused -> Over: tell fenced; keep places; see gone; forget
  Answered beat, in line -> Over: tell fenced; keep places; see gone; forget
  TimePassed, 25 s -> Starting: submit HeartbeatRun
  TimePassed, 35 s -> Starting: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded;
    ChildEnded beside another; StateChanged to running; PlacesFreed; RoomLooked; RoomLooked, none; PlaceSeen;
    PlaceSeen, a problem; PlaceSeen, changed; PlaceLater; LineLooked; Prepared; NotPrepared; PrepareLater;
    NotSpawned; EndLooked, nothing held; EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot;
    LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered beat, done; Answered beat, not known;
    Answered pause, refused; Answered resume, refused; Answered restate, done; Answered restate, put back;
    Answered restate, in line; Answered restate, failed; Answered restate, to stop; Answered restate, invalid;
    Answered restate, not known; Answered cancel, done; Answered end, done; Answered end, refused;
    Answered end, not known; TimePassed, 1 s; TimePassed, shim dead;
Running
  Found with another fence -> HeldBack: tell fenced; keep places; see gone; look for room
  Greeted, waiting -> Over: admit; tell fenced; keep places; see gone; forget
  Greeted, running -> Running: admit
  Greeted, ended -> Running: admit
  Greeted by another process -> Running: log shim_refused; show out
  Greeted without a secret -> Running: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> Running: log end_refused
  GuestLeft, dead -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  StopRequested -> Running: tell stop
  StateChanged to paused -> Running: tell pause
  BackInLine -> Over: tell fenced; keep places; see gone; forget
  RunIsOver -> Over: tell fenced; keep places; see gone; forget
  Answered beat, refused -> Over: tell fenced; keep places; see gone; forget
  Answered beat, in line -> Over: tell fenced; keep places; see gone; forget
  TimePassed, 25 s -> Running: submit HeartbeatRun
  TimePassed, 35 s -> Running: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded;
    ChildEnded beside another; StateChanged to running; PlacesFreed; RoomLooked; RoomLooked, none; PlaceSeen;
    PlaceSeen, a problem; PlaceSeen, changed; PlaceLater; LineLooked; Prepared; NotPrepared; PrepareLater;
    NotSpawned; EndLooked, nothing held; EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot;
    LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, not known; Answered pause, refused;
    Answered resume, refused; Answered restate, done; Answered restate, put back; Answered restate, in line;
    Answered restate, failed; Answered restate, to stop; Answered restate, invalid; Answered restate, not known;
    Answered cancel, done; Answered end, done; Answered end, refused; Answered end, not known; TimePassed, 1 s;
    TimePassed, shim dead;
Returning
  Found with another fence -> HeldBack: keep places; see gone; look for room
  Greeted, waiting -> Over: admit; tell fenced; keep places; see gone; forget
  Greeted, running -> Running: admit
  Greeted, ended -> Returning: admit
  Greeted by another process -> Returning: log shim_refused; show out
  Greeted without a secret -> Returning: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> Returning: log end_refused
  GuestLeft, dead -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  BackInLine -> Over: keep places; see gone; forget
  RunIsOver -> Over: keep places; see gone; forget
  Answered beat, refused -> Over: keep places; see gone; forget
  Answered beat, in line -> Over: keep places; see gone; forget
  TimePassed, 1 s -> Returning: submit HeartbeatRun
  TimePassed, 25 s -> Returning: submit HeartbeatRun
  TimePassed, 35 s -> Returning: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  TimePassed, shim dead -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded;
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; PlacesFreed;
    RoomLooked; RoomLooked, none; PlaceSeen; PlaceSeen, a problem; PlaceSeen, changed; PlaceLater; LineLooked;
    Prepared; NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held; EndLooked, held;
    EndLooked, shim gone; EndLooked, earlier boot; LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater;
    Answered start, done; Answered start, refused; Answered start, not known; Answered beat, done;
    Answered beat, not known; Answered pause, refused; Answered resume, refused; Answered restate, done;
    Answered restate, put back; Answered restate, in line; Answered restate, failed; Answered restate, to stop;
    Answered restate, invalid; Answered restate, not known; Answered cancel, done; Answered end, done;
    Answered end, refused; Answered end, not known;
Checking
  Found with another fence -> HeldBack: tell fenced; keep places; see gone; look for room
  Greeted, waiting -> Checking: admit
  Greeted, running -> Checking: admit
  Greeted, ended -> Checking: admit
  Greeted by another process -> Checking: log shim_refused; show out
  Greeted without a secret -> Checking: log shim_refused; show out
  BackInLine -> Over: tell fenced; keep places; see gone; forget
  RunIsOver -> Over: tell fenced; keep places; see gone; forget
  EndLooked, nothing held -> Ending: keep places; submit FinishRun(succeeded)
  EndLooked, held -> Reaping: log run_reaped; keep places; end leftovers
  EndLooked, shim gone -> Reaping: keep places; end leftovers
  EndLooked, earlier boot -> Ending: keep places; submit FinishRun(succeeded)
  Answered beat, refused -> Over: tell fenced; keep places; see gone; forget
  Answered beat, in line -> Over: tell fenced; keep places; see gone; forget
  TimePassed, 1 s -> Checking: submit HeartbeatRun
  TimePassed, 25 s -> Checking: submit HeartbeatRun
  TimePassed, 35 s -> Checking: submit HeartbeatRun
  TimePassed, 65 s -> Checking: submit HeartbeatRun
  TimePassed, shim dead -> Checking: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; HasEnded; HasEnded, not proven; GuestLeft, alive;
    GuestLeft, dead; GuestLeft, dead while it ran; GuestLeft, dead after the end; ChildEnded;
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; PlacesFreed;
    RoomLooked; RoomLooked, none; PlaceSeen; PlaceSeen, a problem; PlaceSeen, changed; PlaceLater; LineLooked;
    Prepared; NotPrepared; PrepareLater; NotSpawned; LeftoversLooked, none; LeftoversLooked, kept;
    LeftoversLater; Answered start, done; Answered start, refused; Answered start, not known;
    Answered beat, done; Answered beat, not known; Answered pause, refused; Answered resume, refused;
    Answered restate, done; Answered restate, put back; Answered restate, in line; Answered restate, failed;
    Answered restate, to stop; Answered restate, invalid; Answered restate, not known; Answered cancel, done;
    Answered end, done; Answered end, refused; Answered end, not known;
Reaping
  Found with another fence -> HeldBack: keep places; see gone; look for room
  Greeted, waiting -> Reaping: tell fenced
  Greeted, running -> Reaping: tell fenced
  Greeted, ended -> Reaping: tell fenced
  Greeted by another process -> Reaping: tell fenced
  Greeted without a secret -> Reaping: log shim_refused; show out
  LeftoversLooked, none -> Ending: submit LoseRun
  LeftoversLooked, kept -> Reaping: log place_kept; publish keeper; look again
  LeftoversLater -> Reaping: look again
  Answered beat, refused -> Over: keep places; see gone; forget
  TimePassed, 1 s -> Reaping: submit HeartbeatRun
  TimePassed, 25 s -> Reaping: submit HeartbeatRun
  TimePassed, 35 s -> Reaping: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun
  TimePassed, shim dead -> Reaping: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; HasEnded; HasEnded, not proven; GuestLeft, alive;
    GuestLeft, dead; GuestLeft, dead while it ran; GuestLeft, dead after the end; ChildEnded;
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; BackInLine;
    RunIsOver; PlacesFreed; RoomLooked; RoomLooked, none; PlaceSeen; PlaceSeen, a problem; PlaceSeen, changed;
    PlaceLater; LineLooked; Prepared; NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held;
    EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot; Answered start, done;
    Answered start, refused; Answered start, not known; Answered beat, done; Answered beat, in line;
    Answered beat, not known; Answered pause, refused; Answered resume, refused; Answered restate, done;
    Answered restate, put back; Answered restate, in line; Answered restate, failed; Answered restate, to stop;
    Answered restate, invalid; Answered restate, not known; Answered cancel, done; Answered end, done;
    Answered end, refused; Answered end, not known;
Ending
  Found with another fence -> HeldBack: tell fenced; keep places; see gone; look for room
  Greeted, waiting -> Ending: admit
  Greeted, running -> Ending: admit
  Greeted, ended -> Ending: admit
  Greeted by another process -> Ending: log shim_refused; show out
  Greeted without a secret -> Ending: log shim_refused; show out
  Answered end, done -> Over: tell done; look for remains; forget
  Answered end, refused -> Over: tell fenced; wake shim; look for remains; forget
  Answered end, not known -> Ending: look again
  TimePassed, 1 s -> Ending: submit HeartbeatRun
  TimePassed, 25 s -> Ending: submit HeartbeatRun
  TimePassed, 35 s -> Ending: submit HeartbeatRun
  TimePassed, 65 s -> Ending: submit HeartbeatRun
  TimePassed, shim dead -> Ending: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; HasEnded; HasEnded, not proven; GuestLeft, alive;
    GuestLeft, dead; GuestLeft, dead while it ran; GuestLeft, dead after the end; ChildEnded;
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; BackInLine;
    RunIsOver; PlacesFreed; RoomLooked; RoomLooked, none; PlaceSeen; PlaceSeen, a problem; PlaceSeen, changed;
    PlaceLater; LineLooked; Prepared; NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held;
    EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot; LeftoversLooked, none;
    LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, refused; Answered beat, in line;
    Answered beat, not known; Answered pause, refused; Answered resume, refused; Answered restate, done;
    Answered restate, put back; Answered restate, in line; Answered restate, failed; Answered restate, to stop;
    Answered restate, invalid; Answered restate, not known; Answered cancel, done;
)";

TEST(Watch, table_of_every_phase_and_event) {
    EXPECT_EQ(lives.size() + 1, std::variant_size_v<Phase>);
    std::map<std::size_t, std::string> kinds;
    for (const auto& [name, event] : events) kinds[event.index()] = name;
    EXPECT_EQ(kinds.size(), std::variant_size_v<WatchEvent>);

    std::string actual = "\n";
    for (const auto& [phase, make] : lives) {
        actual += phase + "\n";
        std::vector<std::string> nothing;
        for (const auto& [name, event] : events) {
            Life life = make();
            ASSERT_EQ(phase_of(life.watch()), phase);
            const auto actions = life.happens(event, time_before(name));
            const std::string after = phase_of(life.watch());
            if (after == phase && actions.empty()) {
                nothing.push_back(name);
            } else {
                actual += "  " + name + " -> " + after + ": " + words_of(actions) + "\n";
            }
        }
        actual += in_lines(nothing);
    }
    EXPECT_EQ(actual, table);
}

}  // namespace
}  // namespace interlock::supervisor::watch_test
