#include "supervisor/watch.h"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

// ---- a run, and what can happen to it ------------------------------------------------------------------------------

const core::RunId run(Id{1, 2});
const Moment begin = Moment(1000h);
const Guest guest(7), other_guest(8);

shim::State shim_state(shim::Phase phase, pid_t child = 0) {
    shim::State state;
    state.pid = 100;
    state.start = "1000";
    state.boot = "boot";
    state.phase = phase;
    state.child_pid = child;
    state.child_start = child == 0 ? "" : "1010";
    state.how = phase == shim::Phase::ended ? shim::How::exited : shim::How::none;
    return state;
}

event::Found found(core::RunState state = core::RunState::starting) {
    core::Place place;
    place.path = "/src";
    return {.order = {.id = run, .fence = core::Fence(1), .places = {place}, .lease_s = 60, .ends_within = 100s},
            .state = state};
}

event::Found found_in_terminal(core::RunState state) {
    event::Found in_terminal = found(state);
    in_terminal.order.foreground = true;
    if (state == core::RunState::queued) in_terminal.order.fence = {};
    return in_terminal;
}

event::Found with_file(event::Found found, shim::State state, Span main_age = 10s) {
    found.file = {.state = std::move(state), .this_boot = true, .shim_alive = true, .main_age = main_age};
    return found;
}

event::Greeted greeted(shim::Phase phase, pid_t pid = 100) {
    const pid_t child = phase == shim::Phase::waiting ? 0 : 101;
    return {.guest = pid == 100 ? guest : other_guest,
            .peer = {.pid = pid, .start = "1000", .boot = "boot"},
            .hello = {.pid = pid, .phase = phase, .child_pid = child, .child_start = child == 0 ? "" : "1010"},
            .proof = Proof::proven};
}

event::Greeted without_secret(event::Greeted greeted, int version = shim::protocol_version) {
    greeted.proof = Proof::refused;
    greeted.hello.version = version;
    return greeted;
}

const event::Prepared prepared{.launch = {{"launch", "arg", "agent"}}};
const event::HasStarted has_started{{.child_pid = 101, .child_start = "1010", .level = "guarded"}};
const event::HasEnded has_ended{{.how = shim::How::exited}, Proof::proven};

event::Answered answer(Question question, core::RunStatus status, std::string stop = {}) {
    core::RunReply reply;
    reply.status = status;
    reply.stop_requested = std::move(stop);
    return {question, reply};
}
event::Answered no_answer(Question question) { return {question, std::nullopt}; }

// One run from event to event. Time passes only where a test says so.
class Life {
 public:
    explicit Life(const event::Found& found) { take(first_step(found, now_)); }

    std::vector<Action> happens(const Event& event, Span after = 0s) {
        now_ += after;
        return take(next_step(std::move(watch_), event, now_));
    }
    template <class P>
    const P* in() const {
        return std::get_if<P>(&watch_.phase);
    }
    const Watch& watch() const { return watch_; }
    const std::vector<Action>& actions() const { return actions_; }
    Moment now() const { return now_; }

 private:
    std::vector<Action> take(Step step) {
        watch_ = std::move(step.watch);
        return actions_ = std::move(step.actions);
    }

    Moment now_ = begin;
    Watch watch_;
    std::vector<Action> actions_;
};

const std::vector<std::pair<std::string, std::function<Life()>>> lives{
    {"InLine",
     [] {
         Life life(found_in_terminal(core::RunState::queued));
         life.happens(greeted(shim::Phase::waiting));
         return life;
     }},
    {"HeldBack", [] { return Life(found()); }},
    {"Preparing",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         return life;
     }},
    {"Ready",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(prepared);
         return life;
     }},
    {"Launched",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(prepared);
         life.happens(greeted(shim::Phase::waiting));
         return life;
     }},
    {"Starting",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(prepared);
         life.happens(greeted(shim::Phase::waiting));
         life.happens(has_started);
         return life;
     }},
    {"Running",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(prepared);
         life.happens(greeted(shim::Phase::waiting));
         life.happens(has_started);
         life.happens(answer(Question::start, core::RunStatus::done));
         return life;
     }},
    {"Returning",
     [] { return Life(with_file(found(core::RunState::running), shim_state(shim::Phase::running, 101))); }},
    {"Checking",
     [] {
         Life life(with_file(found(core::RunState::running), shim_state(shim::Phase::running, 101)));
         life.happens(greeted(shim::Phase::running));
         life.happens(has_ended);
         return life;
     }},
    {"Reaping",
     [] {
         Life life(with_file(found(core::RunState::running), shim_state(shim::Phase::running, 101)));
         life.happens(greeted(shim::Phase::running));
         life.happens(event::GuestLeft{});
         return life;
     }},
    {"Ending",
     [] {
         Life life(with_file(found(core::RunState::running), shim_state(shim::Phase::running, 101)));
         life.happens(greeted(shim::Phase::running));
         life.happens(has_ended);
         life.happens(event::EndLooked{.shim = ShimNow::alive});
         return life;
     }},
};

event::Found with_fence(event::Found found, std::int64_t fence) {
    found.order.fence = core::Fence(fence);
    return found;
}

const std::vector<std::pair<std::string, Event>> events{
    {"Found with another fence", with_fence(found(), 9)},
    {"Greeted, waiting", greeted(shim::Phase::waiting)},
    {"Greeted, running", greeted(shim::Phase::running)},
    {"Greeted, ended", greeted(shim::Phase::ended)},
    {"Greeted by another process", greeted(shim::Phase::running, 200)},
    {"Greeted without a secret", without_secret(greeted(shim::Phase::running))},
    {"HasStarted", has_started},
    {"HasBeaten", event::HasBeaten{}},
    {"HasPaused", event::HasPaused{}},
    {"HasResumed", event::HasResumed{}},
    {"HasEnded", has_ended},
    {"HasEnded, not proven", event::HasEnded{{.how = shim::How::exited}, Proof::refused}},
    {"GuestLeft, alive", event::GuestLeft{{.alive = true}}},
    {"GuestLeft, dead", event::GuestLeft{}},
    {"GuestLeft, dead while it ran", event::GuestLeft{{.file = shim_state(shim::Phase::running, 101)}}},
    {"GuestLeft, dead after the end", event::GuestLeft{{.file = shim_state(shim::Phase::ended, 101)}}},
    {"ChildEnded", event::ChildEnded{}},
    {"ChildEnded beside another", event::ChildEnded{true}},
    {"StopRequested", event::StopRequested{"enough"}},
    {"StateChanged to paused", event::StateChanged{core::RunState::paused}},
    {"StateChanged to running", event::StateChanged{core::RunState::running}},
    {"RunIsOver", event::RunIsOver{"lost"}},
    {"PlacesFreed", event::PlacesFreed{}},
    {"RoomLooked", event::RoomLooked{}},
    {"RoomLooked, none", event::RoomLooked{Obstacle::memory, 50}},
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
    {"Answered start, done", answer(Question::start, core::RunStatus::done)},
    {"Answered start, refused", answer(Question::start, core::RunStatus::stale_fence)},
    {"Answered start, not known", no_answer(Question::start)},
    {"Answered beat, done", answer(Question::beat, core::RunStatus::done)},
    {"Answered beat, refused", answer(Question::beat, core::RunStatus::run_ended)},
    {"Answered beat, not known", no_answer(Question::beat)},
    {"Answered pause, refused", answer(Question::pause, core::RunStatus::wrong_state)},
    {"Answered resume, refused", answer(Question::resume, core::RunStatus::wrong_state)},
    {"Answered cancel, done", answer(Question::cancel, core::RunStatus::done)},
    {"Answered end, done", answer(Question::end, core::RunStatus::done)},
    {"Answered end, refused", answer(Question::end, core::RunStatus::run_ended)},
    {"Answered end, not known", no_answer(Question::end)},
    {"TimePassed, 1 s", event::TimePassed{.shim = {.alive = true}}},
    {"TimePassed, 25 s", event::TimePassed{.shim = {.alive = true}}},
    {"TimePassed, 35 s", event::TimePassed{.shim = {.alive = true}}},
    {"TimePassed, 65 s", event::TimePassed{.shim = {.alive = true}}},
    {"TimePassed, shim dead", event::TimePassed{}},
};

Span time_before(const std::string& event) {
    if (event.ends_with("1 s")) return 1s;
    if (event.ends_with("25 s")) return 25s;
    if (event.ends_with("35 s")) return 35s;
    return event.ends_with("65 s") ? 65s : 0s;
}

// ---- in words ------------------------------------------------------------------------------------------------------

std::string words_of(const shim::FromServer& message) { return shim::to_message(message).front(); }

std::string words_of(const core::CommandBody& body) {
    if (std::holds_alternative<core::StartRun>(body)) return "StartRun";
    if (std::holds_alternative<core::HeartbeatRun>(body)) return "HeartbeatRun";
    if (std::holds_alternative<core::PauseRun>(body)) return "PauseRun";
    if (std::holds_alternative<core::ResumeRun>(body)) return "ResumeRun";
    if (std::holds_alternative<core::CancelRun>(body)) return "CancelRun";
    if (std::holds_alternative<core::LoseRun>(body)) return "LoseRun";
    const auto* finish = std::get_if<core::FinishRun>(&body);
    if (finish == nullptr) return "?";
    return finish->outcome == core::RunState::succeeded   ? "FinishRun(succeeded)"
           : finish->outcome == core::RunState::timed_out ? "FinishRun(timed_out)"
                                                          : "FinishRun(failed)";
}

struct InWords {
    std::string operator()(const action::LookForRoom&) const { return "look for room"; }
    std::string operator()(const action::LookAtLine&) const { return "look at line"; }
    std::string operator()(const action::Prepare&) const { return "prepare"; }
    std::string operator()(const action::Spawn&) const { return "spawn"; }
    std::string operator()(const action::LookAtEnd&) const { return "look at end"; }
    std::string operator()(const action::EndLeftovers& end) const {
        return std::string("end leftovers") + (end.its_shim == ItsShim::killed ? " and shim" : "") +
               (end.looks_for_daemons ? ", look for daemons" : "");
    }
    std::string operator()(const action::LookAgain&) const { return "look again"; }
    std::string operator()(const action::Submit& submit) const { return "submit " + words_of(submit.body); }
    std::string operator()(const action::Tell& tell) const { return "tell " + words_of(tell.message); }
    std::string operator()(const action::TellEnd& tell) const { return tell.has_run ? "tell done" : "tell refused"; }
    std::string operator()(const action::Admit&) const { return "admit"; }
    std::string operator()(const action::ShowOut&) const { return "show out"; }
    std::string operator()(const action::WakeShim&) const { return "wake shim"; }
    std::string operator()(const action::KeepPlaces&) const { return "keep places"; }
    std::string operator()(const action::LookForRemains&) const { return "look for remains"; }
    std::string operator()(const action::SeeGone& see) const {
        return see.its_shim == ItsShim::killed ? "see gone, shim too" : "see gone";
    }
    std::string operator()(const action::PublishKeeper& keeper) const {
        return keeper.process.empty() ? "publish no keeper" : "publish keeper";
    }
    std::string operator()(const action::LogLine& line) const { return "log " + line.event; }
    std::string operator()(const action::Forget&) const { return "forget"; }
};

std::string words_of(const std::vector<Action>& actions) {
    std::string words;
    for (const Action& action : actions) words += (words.empty() ? "" : "; ") + std::visit(InWords{}, action);
    return words.empty() ? "-" : words;
}

struct NameOfPhase {
    std::string operator()(const phase::InLine&) const { return "InLine"; }
    std::string operator()(const phase::HeldBack&) const { return "HeldBack"; }
    std::string operator()(const phase::Preparing&) const { return "Preparing"; }
    std::string operator()(const phase::Ready&) const { return "Ready"; }
    std::string operator()(const phase::Launched&) const { return "Launched"; }
    std::string operator()(const phase::Starting&) const { return "Starting"; }
    std::string operator()(const phase::Running&) const { return "Running"; }
    std::string operator()(const phase::Returning&) const { return "Returning"; }
    std::string operator()(const phase::Checking&) const { return "Checking"; }
    std::string operator()(const phase::Reaping&) const { return "Reaping"; }
    std::string operator()(const phase::Ending&) const { return "Ending"; }
    std::string operator()(const phase::Over&) const { return "Over"; }
};

std::string phase_of(const Watch& watch) { return std::visit(NameOfPhase{}, watch.phase); }

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
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; PlacesFreed;
    RoomLooked; RoomLooked, none; Prepared; NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held;
    EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot; LeftoversLooked, none;
    LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, refused; Answered beat, not known;
    Answered pause, refused; Answered resume, refused; Answered cancel, done; Answered end, done;
    Answered end, refused; Answered end, not known; TimePassed, shim dead;
HeldBack
  Found with another fence -> HeldBack: look for room
  Greeted, waiting -> HeldBack: admit
  Greeted, running -> Starting: admit; submit StartRun
  Greeted, ended -> HeldBack: admit
  Greeted by another process -> Starting: admit; submit StartRun
  Greeted without a secret -> HeldBack: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> HeldBack: log end_refused
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  StopRequested -> Ending: submit CancelRun
  RunIsOver -> Over: keep places; see gone; forget
  PlacesFreed -> HeldBack: look for room
  RoomLooked -> Preparing: prepare
  RoomLooked, none -> HeldBack: log run_held_back
  Answered beat, refused -> Over: keep places; see gone; forget
  TimePassed, 1 s -> HeldBack: look for room
  TimePassed, 25 s -> HeldBack: submit HeartbeatRun; look for room
  TimePassed, 35 s -> HeldBack: submit HeartbeatRun; look for room
  TimePassed, 65 s -> HeldBack: submit HeartbeatRun; look for room
  TimePassed, shim dead -> HeldBack: look for room
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; GuestLeft, dead; ChildEnded;
    ChildEnded beside another; StateChanged to paused; StateChanged to running; LineLooked; Prepared;
    NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held; EndLooked, held; EndLooked, shim gone;
    EndLooked, earlier boot; LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done;
    Answered start, refused; Answered start, not known; Answered beat, done; Answered beat, not known;
    Answered pause, refused; Answered resume, refused; Answered cancel, done; Answered end, done;
    Answered end, refused; Answered end, not known;
Preparing
  Found with another fence -> HeldBack: look for room
  Greeted, waiting -> Preparing: admit
  Greeted, running -> Starting: admit; submit StartRun
  Greeted, ended -> Preparing: admit
  Greeted by another process -> Starting: admit; submit StartRun
  Greeted without a secret -> Preparing: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> Preparing: log end_refused
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  StopRequested -> Ending: submit CancelRun
  RunIsOver -> Over: keep places; see gone; forget
  Prepared -> Ready: spawn
  NotPrepared -> Ending: submit FinishRun(failed)
  PrepareLater -> Preparing: look again
  Answered beat, refused -> Over: keep places; see gone; forget
  TimePassed, 25 s -> Preparing: submit HeartbeatRun
  TimePassed, 35 s -> Preparing: submit HeartbeatRun
  TimePassed, 65 s -> Preparing: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; GuestLeft, dead; ChildEnded;
    ChildEnded beside another; StateChanged to paused; StateChanged to running; PlacesFreed; RoomLooked;
    RoomLooked, none; LineLooked; NotSpawned; EndLooked, nothing held; EndLooked, held; EndLooked, shim gone;
    EndLooked, earlier boot; LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done;
    Answered start, refused; Answered start, not known; Answered beat, done; Answered beat, not known;
    Answered pause, refused; Answered resume, refused; Answered cancel, done; Answered end, done;
    Answered end, refused; Answered end, not known; TimePassed, 1 s; TimePassed, shim dead;
Ready
  Found with another fence -> HeldBack: look for room
  Greeted, waiting -> Launched: admit; tell launch
  Greeted, running -> Starting: admit; submit StartRun
  Greeted, ended -> Ready: admit
  Greeted by another process -> Starting: admit; submit StartRun
  Greeted without a secret -> Ready: log shim_refused; show out
  HasEnded -> Checking: look at end
  HasEnded, not proven -> Ready: log end_refused
  GuestLeft, dead -> Ready: spawn
  GuestLeft, dead while it ran -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  GuestLeft, dead after the end -> Reaping: keep places; end leftovers
  ChildEnded -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  RunIsOver -> Over: keep places; see gone; forget
  NotSpawned -> Ending: log shim_not_started; submit FinishRun(failed)
  Answered beat, refused -> Over: keep places; see gone; forget
  TimePassed, 25 s -> Ready: submit HeartbeatRun
  TimePassed, 35 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded beside another;
    StopRequested; StateChanged to paused; StateChanged to running; PlacesFreed; RoomLooked; RoomLooked, none;
    LineLooked; Prepared; NotPrepared; PrepareLater; EndLooked, nothing held; EndLooked, held;
    EndLooked, shim gone; EndLooked, earlier boot; LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater;
    Answered start, done; Answered start, refused; Answered start, not known; Answered beat, done;
    Answered beat, not known; Answered pause, refused; Answered resume, refused; Answered cancel, done;
    Answered end, done; Answered end, refused; Answered end, not known; TimePassed, 1 s; TimePassed, shim dead;
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
  RunIsOver -> Over: tell fenced; keep places; see gone, shim too; forget
  Answered beat, refused -> Over: tell fenced; keep places; see gone, shim too; forget
  TimePassed, 25 s -> Launched: submit HeartbeatRun
  TimePassed, 35 s -> Launched: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers and shim, look for daemons
  nothing: HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded; ChildEnded beside another;
    StateChanged to running; PlacesFreed; RoomLooked; RoomLooked, none; LineLooked; Prepared; NotPrepared;
    PrepareLater; NotSpawned; EndLooked, nothing held; EndLooked, held; EndLooked, shim gone;
    EndLooked, earlier boot; LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done;
    Answered start, refused; Answered start, not known; Answered beat, done; Answered beat, not known;
    Answered pause, refused; Answered resume, refused; Answered cancel, done; Answered end, done;
    Answered end, refused; Answered end, not known; TimePassed, 1 s; TimePassed, shim dead;
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
  RunIsOver -> Over: tell fenced; keep places; see gone; forget
  Answered start, done -> Running: -
  Answered start, refused -> Over: tell fenced; keep places; see gone; forget
  Answered start, not known -> Starting: look again
  Answered beat, refused -> Over: tell fenced; keep places; see gone; forget
  TimePassed, 25 s -> Starting: submit HeartbeatRun
  TimePassed, 35 s -> Starting: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded;
    ChildEnded beside another; StateChanged to running; PlacesFreed; RoomLooked; RoomLooked, none; LineLooked;
    Prepared; NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held; EndLooked, held;
    EndLooked, shim gone; EndLooked, earlier boot; LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater;
    Answered beat, done; Answered beat, not known; Answered pause, refused; Answered resume, refused;
    Answered cancel, done; Answered end, done; Answered end, refused; Answered end, not known; TimePassed, 1 s;
    TimePassed, shim dead;
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
  RunIsOver -> Over: tell fenced; keep places; see gone; forget
  Answered beat, refused -> Over: tell fenced; keep places; see gone; forget
  TimePassed, 25 s -> Running: submit HeartbeatRun
  TimePassed, 35 s -> Running: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded;
    ChildEnded beside another; StateChanged to running; PlacesFreed; RoomLooked; RoomLooked, none; LineLooked;
    Prepared; NotPrepared; PrepareLater; NotSpawned; EndLooked, nothing held; EndLooked, held;
    EndLooked, shim gone; EndLooked, earlier boot; LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater;
    Answered start, done; Answered start, refused; Answered start, not known; Answered beat, done;
    Answered beat, not known; Answered pause, refused; Answered resume, refused; Answered cancel, done;
    Answered end, done; Answered end, refused; Answered end, not known; TimePassed, 1 s; TimePassed, shim dead;
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
  RunIsOver -> Over: keep places; see gone; forget
  Answered beat, refused -> Over: keep places; see gone; forget
  TimePassed, 25 s -> Returning: submit HeartbeatRun
  TimePassed, 35 s -> Returning: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun; log run_reaped; keep places; end leftovers, look for daemons
  TimePassed, shim dead -> Reaping: log run_reaped; keep places; end leftovers, look for daemons
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; GuestLeft, alive; ChildEnded;
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; PlacesFreed;
    RoomLooked; RoomLooked, none; LineLooked; Prepared; NotPrepared; PrepareLater; NotSpawned;
    EndLooked, nothing held; EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot;
    LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, not known; Answered pause, refused;
    Answered resume, refused; Answered cancel, done; Answered end, done; Answered end, refused;
    Answered end, not known; TimePassed, 1 s;
Checking
  Found with another fence -> HeldBack: tell fenced; keep places; see gone; look for room
  Greeted, waiting -> Checking: admit
  Greeted, running -> Checking: admit
  Greeted, ended -> Checking: admit
  Greeted by another process -> Checking: log shim_refused; show out
  Greeted without a secret -> Checking: log shim_refused; show out
  RunIsOver -> Over: tell fenced; keep places; see gone; forget
  EndLooked, nothing held -> Ending: keep places; submit FinishRun(succeeded)
  EndLooked, held -> Reaping: log run_reaped; keep places; end leftovers
  EndLooked, shim gone -> Reaping: keep places; end leftovers
  EndLooked, earlier boot -> Ending: keep places; submit FinishRun(succeeded)
  Answered beat, refused -> Over: tell fenced; keep places; see gone; forget
  TimePassed, 25 s -> Checking: submit HeartbeatRun
  TimePassed, 35 s -> Checking: submit HeartbeatRun
  TimePassed, 65 s -> Checking: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; HasEnded; HasEnded, not proven; GuestLeft, alive;
    GuestLeft, dead; GuestLeft, dead while it ran; GuestLeft, dead after the end; ChildEnded;
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; PlacesFreed;
    RoomLooked; RoomLooked, none; LineLooked; Prepared; NotPrepared; PrepareLater; NotSpawned;
    LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, not known; Answered pause, refused;
    Answered resume, refused; Answered cancel, done; Answered end, done; Answered end, refused;
    Answered end, not known; TimePassed, 1 s; TimePassed, shim dead;
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
  TimePassed, 25 s -> Reaping: submit HeartbeatRun
  TimePassed, 35 s -> Reaping: submit HeartbeatRun
  TimePassed, 65 s -> Reaping: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; HasEnded; HasEnded, not proven; GuestLeft, alive;
    GuestLeft, dead; GuestLeft, dead while it ran; GuestLeft, dead after the end; ChildEnded;
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; RunIsOver;
    PlacesFreed; RoomLooked; RoomLooked, none; LineLooked; Prepared; NotPrepared; PrepareLater; NotSpawned;
    EndLooked, nothing held; EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot;
    Answered start, done; Answered start, refused; Answered start, not known; Answered beat, done;
    Answered beat, not known; Answered pause, refused; Answered resume, refused; Answered cancel, done;
    Answered end, done; Answered end, refused; Answered end, not known; TimePassed, 1 s; TimePassed, shim dead;
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
  TimePassed, 25 s -> Ending: submit HeartbeatRun
  TimePassed, 35 s -> Ending: submit HeartbeatRun
  TimePassed, 65 s -> Ending: submit HeartbeatRun
  nothing: HasStarted; HasBeaten; HasPaused; HasResumed; HasEnded; HasEnded, not proven; GuestLeft, alive;
    GuestLeft, dead; GuestLeft, dead while it ran; GuestLeft, dead after the end; ChildEnded;
    ChildEnded beside another; StopRequested; StateChanged to paused; StateChanged to running; RunIsOver;
    PlacesFreed; RoomLooked; RoomLooked, none; LineLooked; Prepared; NotPrepared; PrepareLater; NotSpawned;
    EndLooked, nothing held; EndLooked, held; EndLooked, shim gone; EndLooked, earlier boot;
    LeftoversLooked, none; LeftoversLooked, kept; LeftoversLater; Answered start, done; Answered start, refused;
    Answered start, not known; Answered beat, done; Answered beat, refused; Answered beat, not known;
    Answered pause, refused; Answered resume, refused; Answered cancel, done; TimePassed, 1 s;
    TimePassed, shim dead;
)";

TEST(Watch, table_of_every_phase_and_event) {
    EXPECT_EQ(lives.size() + 1, std::variant_size_v<Phase>);
    std::map<std::size_t, std::string> kinds;
    for (const auto& [name, event] : events) kinds[event.index()] = name;
    EXPECT_EQ(kinds.size(), std::variant_size_v<Event>);

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

// ---- what one state of a phase does not show ------------------------------------------------------------------------

Life life_in(const std::string& phase) {
    for (const auto& [name, make] : lives) {
        if (name == phase) return make();
    }
    ADD_FAILURE() << "no such phase: " << phase;
    return Life(found());
}

Life running_in_terminal() {
    Life life(found_in_terminal(core::RunState::starting));
    life.happens(event::RoomLooked{});
    life.happens(prepared);
    life.happens(greeted(shim::Phase::waiting));
    life.happens(has_started);
    life.happens(answer(Question::start, core::RunStatus::done));
    return life;
}

template <class Command>
const Command* submitted(const Life& life) {
    for (const Action& action : life.actions()) {
        const auto* submit = std::get_if<action::Submit>(&action);
        if (submit == nullptr) continue;
        if (const auto* body = std::get_if<Command>(&submit->body)) return body;
    }
    return nullptr;
}

TEST(Watch, the_deadline_of_a_run_found_running_counts_from_the_start_of_its_main_process) {
    Life life(with_file(found(core::RunState::running), shim_state(shim::Phase::running, 101), 90s));
    life.happens(greeted(shim::Phase::running));

    life.happens(event::HasBeaten{}, 9s);
    EXPECT_EQ(words_of(life.happens(event::TimePassed{})), "-");
    life.happens(event::TimePassed{}, 2s);

    const auto* reaping = life.in<phase::Reaping>();
    ASSERT_NE(reaping, nullptr);
    EXPECT_EQ(words_of(reaping->end), "FinishRun(timed_out)");
}

TEST(Watch, a_run_of_which_the_core_does_not_know_that_it_started_says_so_when_its_shim_comes_back) {
    Life life(with_file(found(), shim_state(shim::Phase::running, 101)));

    EXPECT_EQ(words_of(life.happens(greeted(shim::Phase::running))), "admit; submit StartRun");
    EXPECT_NE(life.in<phase::Starting>(), nullptr);
}

TEST(Watch, a_dead_shim_that_was_found_running_is_reaped_at_once) {
    event::Found dead = with_file(found(core::RunState::running), shim_state(shim::Phase::running, 101));
    dead.file->shim_alive = false;
    const Life life(dead);

    EXPECT_EQ(phase_of(life.watch()), "Reaping");
    EXPECT_EQ(words_of(life.actions()), "log run_reaped; keep places; end leftovers, look for daemons");
}

TEST(Watch, an_end_that_was_found_in_the_file_is_looked_at_first) {
    const Life life(with_file(found(core::RunState::running), shim_state(shim::Phase::ended, 101)));

    EXPECT_EQ(phase_of(life.watch()), "Checking");
    EXPECT_EQ(words_of(life.actions()), "look at end");
}

TEST(Watch, a_run_that_ran_before_the_machine_was_restarted_is_lost) {
    event::Found earlier = with_file(found(core::RunState::running), shim_state(shim::Phase::running, 101));
    earlier.file->this_boot = false;
    const Life life(earlier);

    EXPECT_EQ(words_of(life.actions()), "submit LoseRun");
}

TEST(Watch, a_running_run_without_a_file_is_reaped) {
    EXPECT_EQ(phase_of(Life(found(core::RunState::running)).watch()), "Reaping");
}

TEST(Watch, a_run_that_is_to_stop_before_it_begins_is_cancelled) {
    event::Found to_stop = found();
    to_stop.stop = "enough";
    const Life life(to_stop);

    ASSERT_NE(submitted<core::CancelRun>(life), nullptr);
    EXPECT_EQ(submitted<core::CancelRun>(life)->reason, "enough");
}

TEST(Watch, a_shim_that_comes_to_a_run_that_is_to_stop_is_refused) {
    Life life = life_in("Ready");
    life.happens(event::StopRequested{"enough"});

    EXPECT_EQ(words_of(life.happens(greeted(shim::Phase::waiting))), "admit; tell refused; submit CancelRun");
}

TEST(Watch, a_stop_that_the_shim_did_not_hear_is_said_again_when_it_comes_back) {
    Life life = life_in("Running");
    life.happens(event::StopRequested{"enough"});
    life.happens(event::GuestLeft{{.alive = true}});

    EXPECT_EQ(words_of(life.happens(greeted(shim::Phase::running))), "admit; tell stop");
}

TEST(Watch, a_stop_that_comes_with_the_answer_to_the_start_is_passed_on) {
    Life life = life_in("Starting");

    EXPECT_EQ(words_of(life.happens(answer(Question::start, core::RunStatus::done, "enough"))), "tell stop");
    EXPECT_EQ(words_of(life.happens(event::StopRequested{"enough"})), "-");
}

TEST(Watch, a_run_in_a_terminal_that_ends_before_its_launch_is_cancelled) {
    Life life(found_in_terminal(core::RunState::starting));
    life.happens(greeted(shim::Phase::waiting));

    EXPECT_EQ(words_of(life.happens(event::GuestLeft{})), "submit CancelRun");
}

TEST(Watch, what_a_terminal_did_is_not_done_again_when_the_feed_says_it) {
    Life life = running_in_terminal();

    EXPECT_EQ(words_of(life.happens(event::HasPaused{})), "submit PauseRun");
    EXPECT_EQ(words_of(life.happens(event::StateChanged{core::RunState::paused})), "-");
    EXPECT_EQ(words_of(life.happens(event::HasResumed{})), "submit ResumeRun");
    EXPECT_EQ(words_of(life.happens(event::StateChanged{core::RunState::running})), "-");
    // This time a person paused it by a command.
    EXPECT_EQ(words_of(life.happens(event::StateChanged{core::RunState::paused})), "tell pause");
}

TEST(Watch, a_job_that_stands_still_in_its_terminal_may_be_silent_and_late) {
    Life life = running_in_terminal();
    life.happens(event::HasPaused{});

    EXPECT_EQ(words_of(life.happens(event::TimePassed{.shim = {.alive = true}}, 1000s)), "submit HeartbeatRun");
    EXPECT_EQ(words_of(life.happens(event::StopRequested{"enough"})), "tell stop; wake shim");
}

TEST(Watch, an_end_is_submitted_again_with_the_same_content_until_it_is_answered) {
    Life life = life_in("Checking");
    life.happens(event::EndLooked{.shim = ShimNow::alive});
    ASSERT_NE(submitted<core::FinishRun>(life), nullptr);
    const core::FinishRun first = *submitted<core::FinishRun>(life);

    life.happens(no_answer(Question::end));
    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 100ms)), "-");
    life.happens(event::TimePassed{}, 100ms);

    ASSERT_NE(submitted<core::FinishRun>(life), nullptr);
    EXPECT_EQ(submitted<core::FinishRun>(life)->exit_code, first.exit_code);
    EXPECT_EQ(submitted<core::FinishRun>(life)->outcome, first.outcome);
    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 1s)), "-");
}

TEST(Watch, what_kept_a_place_is_looked_at_again_and_named_in_the_end) {
    Life life = life_in("Reaping");
    life.happens(event::LeftoversLooked{"process 12 (sh)"});

    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 1s)), "end leftovers, look for daemons");
    EXPECT_EQ(words_of(life.happens(event::LeftoversLooked{"process 12 (sh)"})), "look again");
    life.happens(event::LeftoversLooked{});

    ASSERT_NE(submitted<core::LoseRun>(life), nullptr);
    EXPECT_NE(submitted<core::LoseRun>(life)->reason.find("process 12 (sh)"), std::string::npos);
    EXPECT_EQ(words_of(life.actions()), "publish no keeper; submit LoseRun");
}

TEST(Watch, a_server_that_was_not_listening_does_not_count_that_as_silence) {
    Life life = life_in("Running");

    life.happens(event::TimePassed{.shim = {.alive = true}, .missed = 100s}, 90s);
    EXPECT_EQ(phase_of(life.watch()), "Running");
}

TEST(Watch, a_shim_of_an_earlier_release_needs_no_secret_if_the_run_is_as_old) {
    event::Found old = with_file(found(core::RunState::running), shim_state(shim::Phase::running, 101));
    event::Greeted unproven = greeted(shim::Phase::running);
    unproven.proof = Proof::none_issued;

    EXPECT_EQ(words_of(Life(old).happens(unproven)), "log shim_refused; show out");
    old.order.of_earlier_server = true;
    EXPECT_EQ(words_of(Life(old).happens(unproven)), "admit");
}

TEST(Watch, a_waiting_shim_of_an_earlier_release_is_told_what_to_do) {
    Life life = life_in("InLine");

    EXPECT_EQ(words_of(life.happens(without_secret(greeted(shim::Phase::waiting), 1))),
              "log shim_refused; tell refused; show out");
}

TEST(Watch, before_the_launch_a_second_shim_is_believed_only_when_the_first_is_dead) {
    Life life(found_in_terminal(core::RunState::starting));
    life.happens(greeted(shim::Phase::waiting));
    event::Greeted second = greeted(shim::Phase::waiting, 200);

    second.known_shim_alive = true;
    EXPECT_EQ(words_of(life.happens(second)), "log shim_refused; show out");
    second.known_shim_alive = false;
    EXPECT_EQ(words_of(life.happens(second)), "admit; show out");
}

TEST(Watch, the_end_of_a_run_that_the_core_had_given_up_frees_its_place_only_after_the_look) {
    Life life = life_in("Reaping");

    EXPECT_EQ(words_of(life.happens(event::RunIsOver{"lost"})), "-");
    life.happens(event::LeftoversLooked{});
    EXPECT_EQ(words_of(life.happens(answer(Question::end, core::RunStatus::run_ended))), "look for remains; forget");
}

}  // namespace
}  // namespace interlock::supervisor
