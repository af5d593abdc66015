// One run of the machine from event to event for tests: events to tell it, a life in each phase, and phases and actions
// in words.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "supervisor/watch.h"

namespace interlock::supervisor::watch_test {

using namespace std::chrono_literals;

// ---- a run, and what can happen to it ------------------------------------------------------------------------------

inline const core::RunId run(Id{1, 2});
inline const Moment begin = Moment(1000h);
inline const ConnectionId connection(7), other_connection(8);

inline shim::ShimState shim_state(shim::ShimPhase phase, pid_t child = 0) {
    shim::ShimState state;
    state.pid = 100;
    state.start = "1000";
    state.boot = "boot";
    state.phase = phase;
    state.child_pid = child;
    state.child_start = child == 0 ? "" : "1010";
    state.how = phase == shim::ShimPhase::ended ? shim::How::exited : shim::How::none;
    return state;
}

inline core::Place place_at(const std::string& path) {
    core::Place place;
    place.path = path;
    return place;
}

inline event::Found found(core::RunState state = core::RunState::starting) {
    return {
        .order = {.id = run, .fence = core::Fence(1), .places = {place_at("/src")}, .lease_s = 60, .ends_within = 100s},
        .state = state};
}

inline event::Found found_in_terminal(core::RunState state) {
    event::Found in_terminal = found(state);
    in_terminal.order.foreground = true;
    if (state == core::RunState::queued) in_terminal.order.fence = {};
    return in_terminal;
}

inline event::Found with_file(event::Found found, shim::ShimState state, SteadyDuration main_age = 10s) {
    found.file = {.state = std::move(state), .this_boot = true, .shim_alive = true, .main_age = main_age};
    return found;
}

inline event::Greeted greeted(shim::ShimPhase phase, pid_t pid = 100) {
    const pid_t child = phase == shim::ShimPhase::waiting ? 0 : 101;
    return {.connection = pid == 100 ? connection : other_connection,
            .peer = {.pid = pid, .start = "1000", .boot = "boot"},
            .hello = {.pid = pid, .phase = phase, .child_pid = child, .child_start = child == 0 ? "" : "1010"},
            .proof = Proof::proven};
}

inline event::Greeted without_secret(event::Greeted greeted, int version = shim::protocol_version) {
    greeted.proof = Proof::refused;
    greeted.hello.version = version;
    return greeted;
}

inline const event::PlaceSeen changed{.change = "'/src' leads to '/other' by now", .places = {place_at("/other")}};
inline const event::Prepared prepared{.launch = {{"launch", "arg", "agent"}}};
inline const event::HasStarted has_started{{.child_pid = 101, .child_start = "1010", .level = "guarded"}};
inline const event::HasEnded has_ended{{.how = shim::How::exited}, Proof::proven};

inline event::Answered answer(RunCommandKind question, core::RunStatus status, std::string stop = {}) {
    core::RunReply reply;
    reply.status = status;
    reply.state = core::RunState::starting;
    reply.stop_requested = std::move(stop);
    return {question, reply};
}
inline event::Answered answer_in(core::RunState state, RunCommandKind question, core::RunStatus status) {
    event::Answered answered = answer(question, status);
    answered.reply->state = state;
    return answered;
}
inline event::Answered no_answer(RunCommandKind question) { return {question, std::nullopt}; }

// One run from event to event. Time passes only where a test says so.
class Life {
 public:
    explicit Life(const event::Found& found) { take(first_step(found, now_)); }

    std::vector<Action> happens(const WatchEvent& event, SteadyDuration after = 0s) {
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

inline const std::vector<std::pair<std::string, std::function<Life()>>> lives{
    {"InLine",
     [] {
         Life life(found_in_terminal(core::RunState::queued));
         life.happens(greeted(shim::ShimPhase::waiting));
         return life;
     }},
    {"HeldBack", [] { return Life(found()); }},
    {"LookingAtPlace",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         return life;
     }},
    {"Restating",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(changed);
         return life;
     }},
    {"Preparing",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(event::PlaceSeen{});
         return life;
     }},
    {"Ready",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(event::PlaceSeen{});
         life.happens(prepared);
         return life;
     }},
    {"Launched",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(event::PlaceSeen{});
         life.happens(prepared);
         life.happens(greeted(shim::ShimPhase::waiting));
         return life;
     }},
    {"Starting",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(event::PlaceSeen{});
         life.happens(prepared);
         life.happens(greeted(shim::ShimPhase::waiting));
         life.happens(has_started);
         return life;
     }},
    {"Running",
     [] {
         Life life(found());
         life.happens(event::RoomLooked{});
         life.happens(event::PlaceSeen{});
         life.happens(prepared);
         life.happens(greeted(shim::ShimPhase::waiting));
         life.happens(has_started);
         life.happens(answer(RunCommandKind::start, core::RunStatus::done));
         return life;
     }},
    {"Returning",
     [] { return Life(with_file(found(core::RunState::running), shim_state(shim::ShimPhase::running, 101))); }},
    {"Checking",
     [] {
         Life life(with_file(found(core::RunState::running), shim_state(shim::ShimPhase::running, 101)));
         life.happens(greeted(shim::ShimPhase::running));
         life.happens(has_ended);
         return life;
     }},
    {"Reaping",
     [] {
         Life life(with_file(found(core::RunState::running), shim_state(shim::ShimPhase::running, 101)));
         life.happens(greeted(shim::ShimPhase::running));
         life.happens(event::ConnectionClosed{});
         return life;
     }},
    {"Ending",
     [] {
         Life life(with_file(found(core::RunState::running), shim_state(shim::ShimPhase::running, 101)));
         life.happens(greeted(shim::ShimPhase::running));
         life.happens(has_ended);
         life.happens(event::EndLooked{.shim = ShimNow::alive});
         return life;
     }},
};
// ---- in words ------------------------------------------------------------------------------------------------------

inline std::string words_of(const shim::FromServer& message) { return shim::to_message(message).front(); }

inline std::string words_of(const core::CommandBody& body) {
    if (std::holds_alternative<core::StartRun>(body)) return "StartRun";
    if (std::holds_alternative<core::HeartbeatRun>(body)) return "HeartbeatRun";
    if (std::holds_alternative<core::PauseRun>(body)) return "PauseRun";
    if (std::holds_alternative<core::ResumeRun>(body)) return "ResumeRun";
    if (std::holds_alternative<core::CancelRun>(body)) return "CancelRun";
    if (std::holds_alternative<core::LoseRun>(body)) return "LoseRun";
    if (std::holds_alternative<core::RestatePlaces>(body)) return "RestatePlaces";
    const auto* finish = std::get_if<core::FinishRun>(&body);
    if (finish == nullptr) return "?";
    return finish->outcome == core::RunState::succeeded   ? "FinishRun(succeeded)"
           : finish->outcome == core::RunState::timed_out ? "FinishRun(timed_out)"
                                                          : "FinishRun(failed)";
}

struct InWords {
    std::string operator()(const action::LookForRoom&) const { return "look for room"; }
    std::string operator()(const action::LookAtLine&) const { return "look at line"; }
    std::string operator()(const action::LookAtPlace&) const { return "look at place"; }
    std::string operator()(const action::Prepare&) const { return "prepare"; }
    std::string operator()(const action::Spawn&) const { return "spawn"; }
    std::string operator()(const action::HoldAgain&) const { return "hold again"; }
    std::string operator()(const action::GiveUpPlace&) const { return "give up place"; }
    std::string operator()(const action::DropShims&) const { return "drop shims"; }
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

inline std::string words_of(const std::vector<Action>& actions) {
    std::string words;
    for (const Action& action : actions) words += (words.empty() ? "" : "; ") + std::visit(InWords{}, action);
    return words.empty() ? "-" : words;
}

struct NameOfPhase {
    std::string operator()(const phase::InLine&) const { return "InLine"; }
    std::string operator()(const phase::HeldBack&) const { return "HeldBack"; }
    std::string operator()(const phase::LookingAtPlace&) const { return "LookingAtPlace"; }
    std::string operator()(const phase::Restating&) const { return "Restating"; }
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

inline std::string phase_of(const Watch& watch) { return std::visit(NameOfPhase{}, watch.phase); }

inline Life life_in(const std::string& phase) {
    for (const auto& [name, make] : lives) {
        if (name == phase) return make();
    }
    ADD_FAILURE() << "no such phase: " << phase;
    return Life(found());
}

}  // namespace interlock::supervisor::watch_test
