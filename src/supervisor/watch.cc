#include "supervisor/watch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/ensure.h"
#include "supervisor/run_end.h"

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;
using phase::Work;

constexpr SteadyDuration shim_comes_within = 30s;  // Of being started.
constexpr SteadyDuration terminal_back_within = 10s;
constexpr SteadyDuration shim_back_within = 5s;  // It tries every second.
constexpr SteadyDuration line_looked_every = 1s;
constexpr SteadyDuration asked_again_after = 200ms;
constexpr SteadyDuration no_time_then = 100ms;  // Until what others had no time for is tried again.
constexpr SteadyDuration leftovers_looked_every = 1s;
constexpr int version_with_secret = 2;

template <class... Visitors>
struct Overloaded : Visitors... {
    using Visitors::operator()...;
};

shim::Ended end_in(const shim::ShimState& state) {
    return {.how = state.how, .code = state.code, .detail = state.detail, .code_is = state.code_is};
}

bool is_done(const event::Answered& answer) { return answer.reply && answer.reply->status == core::RunStatus::done; }

// The core had put the run back in line before this command came.
bool lost_its_turn(const event::Answered& answer) {
    return answer.reply && answer.reply->status == core::RunStatus::stale_fence &&
           answer.reply->state == core::RunState::queued;
}

class Machine {
 public:
    Machine(Watch watch, Moment now) : w_(std::move(watch)), now_(now) {}

    void take_on(const event::Found& found);
    Step take_step() { return {std::move(w_), std::move(actions_)}; }

    void on(const event::Found& found);
    void on(const event::Greeted& greeted);
    void on(const event::HasStarted& event);
    void on(const event::HasBeaten&) { w_.heard = now_; }
    void on(const event::HasPaused&) { put_away(true); }
    void on(const event::HasResumed&) { put_away(false); }
    void on(const event::HasEnded& event);
    void on(const event::ConnectionClosed& event);
    void on(const event::ChildEnded& event);
    void on(const event::StopRequested& event) { stop(event.reason); }
    void on(const event::StateChanged& event);
    void on(const event::BackInLine&) { go_back_in_line(); }
    void on(const event::RunIsOver& event);
    void on(const event::PlacesFreed&);
    void on(const event::RoomLooked& event);
    void on(const event::PlaceSeen& event);
    void on(const event::PlaceLater&);
    void on(const event::LineLooked& event);
    void on(const event::Prepared& event);
    void on(const event::NotPrepared& event);
    void on(const event::PrepareLater&);
    void on(const event::NotSpawned& event);
    void on(const event::EndLooked& event);
    void on(const event::LeftoversLooked& event);
    void on(const event::LeftoversLater&);
    void on(const event::Answered& event);
    void on(const event::TimePassed& event);

 private:
    template <class P>
    P* in() {
        return std::get_if<P>(&w_.phase);
    }
    bool before_launch() const;
    bool before_shim() const;
    // Of a launched run that has not said how it ended; null: it is in none of these phases.
    Work* work();
    bool was_given_up() const;
    bool core_knows() const;
    SteadyDuration silence_timeout() const;
    ItsShim its_shim() const;

    void act(Action action) { actions_.push_back(std::move(action)); }
    void tell(shim::FromServer message) {
        if (w_.connection) act(action::Tell{*w_.connection, std::move(message)});
    }
    void log(LogLevel level, std::string event, std::string field = {},
             std::variant<std::string, std::int64_t> value = {}) {
        act(action::LogLine{level, std::move(event), std::move(field), std::move(value)});
    }
    void ask_core(RunCommandKind question, core::CommandBody body) { act(action::Submit{question, std::move(body)}); }

    void begin();
    void look_at_place();
    void restated(const event::Answered& answer);
    void go_back_in_line();
    void withdraw();
    void hand_over();
    void cancel_in_line(const std::string& why);

    bool may_speak(const event::Greeted& greeted);
    void greeted_waiting();
    void greeted_running();
    void has_come_back();
    void start(Work work, std::string sandbox);
    void put_away(bool away);
    void stop(const std::string& reason);
    void shim_is_gone(const std::optional<shim::ShimState>& file);

    void look_at_end(shim::Ended ended);
    void finish(core::CommandBody end, phase::Ending::After after);
    void fail_before_launch(std::string why);
    void finished(const event::Answered& answer);
    void started(const event::Answered& answer);
    void reap(const std::string& why, core::RunState outcome = core::RunState::lost);
    void reap_and_finish(core::CommandBody end);
    void end_leftovers(phase::Reaping& reaping);
    void give_away(const std::string& why);
    void revoke(const std::string& why);
    void forget();

    void renew();
    bool is_due(std::optional<Moment>& again);
    void look_after(const ShimSeen& shim);
    void look_after_shim(const ShimSeen& shim);

    Watch w_;
    const Moment now_;
    std::vector<Action> actions_;
};

// ---- questions about the phase -------------------------------------------------------------------------------------

bool Machine::before_launch() const {
    return before_shim() || std::holds_alternative<phase::InLine>(w_.phase) ||
           std::holds_alternative<phase::Ready>(w_.phase);
}

// It was granted its places, and no shim is needed yet.
bool Machine::before_shim() const {
    return std::visit(
        []<class P>(const P&) {
            return std::is_same_v<P, phase::HeldBack> || std::is_same_v<P, phase::LookingAtPlace> ||
                   std::is_same_v<P, phase::Restating> || std::is_same_v<P, phase::Preparing>;
        },
        w_.phase);
}

Work* Machine::work() {
    return std::visit(
        []<class P>(P& phase) -> Work* {
            if constexpr (requires { phase.work; }) return &phase.work;
            return nullptr;
        },
        w_.phase);
}

bool Machine::was_given_up() const {
    const auto* ending = std::get_if<phase::Ending>(&w_.phase);
    return std::holds_alternative<phase::Reaping>(w_.phase) ||
           (ending != nullptr && ending->after == phase::Ending::After::reaping);
}

bool Machine::core_knows() const {
    const auto* returning = std::get_if<phase::Returning>(&w_.phase);
    return std::holds_alternative<phase::Running>(w_.phase) || (returning != nullptr && returning->core_knows);
}

// How long its shim may say nothing. One that is to come back is given the time that this takes.
SteadyDuration Machine::silence_timeout() const {
    const SteadyDuration lease = std::chrono::seconds(w_.order.lease_s);
    if (w_.connection) return lease;
    return std::max(lease, core_knows() ? shim_back_within : shim_comes_within);
}

// A shim that has a launch and may not have read it could begin at any time.
ItsShim Machine::its_shim() const {
    if (const auto* checking = std::get_if<phase::Checking>(&w_.phase)) return checking->its_shim;
    if (const auto* reaping = std::get_if<phase::Reaping>(&w_.phase)) return reaping->its_shim;
    const bool may_begin = std::holds_alternative<phase::Launched>(w_.phase) && w_.shim.child_pid == 0;
    return may_begin ? ItsShim::killed : ItsShim::spared;
}

// ---- what the rows say ---------------------------------------------------------------------------------------------

void Machine::on(const event::Found& found) {
    if (found.order.fence == w_.order.fence) return;
    // With another fence the run is another one. What goes on under this fence has lost its places.
    if (!before_launch()) {
        give_away("the run has lost its places");
        w_.connection.reset();
        w_.shim = {};
    }
    take_on(found);
}

void Machine::take_on(const event::Found& found) {
    w_.order = found.order;
    w_.stop = found.stop;
    w_.heard = w_.renewed = now_;
    if (found.state == core::RunState::queued) {
        w_.phase = phase::InLine{};
        return;
    }
    const bool paused = found.state == core::RunState::paused;
    const bool core_knows = paused || found.state == core::RunState::running;
    // What an earlier server began is renewed at the first look: its lease has been running while no server was here.
    if (core_knows || found.file) w_.renewed -= std::chrono::seconds(w_.order.lease_s);
    w_.phase = phase::HeldBack{};
    if (!found.file) return core_knows ? reap("nothing is known of its process") : begin();
    const shim::ShimState& file = found.file->state;
    if (file.phase == shim::ShimPhase::ended) {
        w_.shim = file;
        return look_at_end(end_in(file));
    }
    if (file.phase == shim::ShimPhase::running && !found.file->this_boot) {
        return finish(core::LoseRun{w_.order.id, w_.order.fence, "the machine was restarted while it ran"},
                      phase::Ending::After::reaping);
    }
    if (found.file->this_boot && w_.shim.pid == 0) w_.shim = file;
    if (file.phase != shim::ShimPhase::running) {
        return core_knows ? reap("nothing is known of its process") : begin();
    }
    Work work;
    if (w_.order.ends_within) work.deadline = now_ - found.file->main_age + *w_.order.ends_within;
    // A run that has stopped its shim itself gets no time by that.
    const bool away = paused && w_.order.foreground && found.file->shim_stopped && file.suspended != 0;
    if (paused) work.motion = away ? Work::Motion::away : Work::Motion::paused;
    w_.phase = phase::Returning{.work = work, .core_knows = core_knows, .since = now_};
    if (!found.file->shim_alive) return shim_is_gone(file);
    act(action::HoldAgain{file.child_pid});
}

void Machine::on(const event::StateChanged& event) {
    Work* work = this->work();
    if (work == nullptr) return;
    // What its terminal did is told back to us, and is done already.
    if (std::erase(work->echoes, event.to) > 0 || work->motion == Work::Motion::away) return;
    const auto motion = event.to == core::RunState::paused ? Work::Motion::paused : Work::Motion::going;
    if (motion == std::exchange(work->motion, motion)) return;
    motion == Work::Motion::paused ? tell(shim::Pause{}) : tell(shim::Resume{});
}

void Machine::on(const event::RunIsOver& event) {
    if (in<phase::Ending>() != nullptr || in<phase::Reaping>() != nullptr) return;
    if (in<phase::InLine>() == nullptr) return revoke(event.reason);
    tell(shim::Refused{.why = "the run has ended: " + event.reason});
    forget();
}

void Machine::stop(const std::string& reason) {
    if (!w_.stop.empty() || reason.empty()) return;  // The first reason stands.
    w_.stop = reason;
    if (before_shim()) return withdraw();
    // The shim that was started for it hears of it when it comes.
    if (in<phase::Ready>() != nullptr && (w_.connection || w_.order.foreground)) return withdraw();
    const Work* work = this->work();
    if (work == nullptr) return;
    if (in<phase::Returning>() == nullptr) tell(shim::Stop{reason});
    if (work->motion == Work::Motion::away) act(action::WakeShim{w_.shim});
}

// ---- starting ------------------------------------------------------------------------------------------------------

void Machine::begin() {
    w_.phase = phase::HeldBack{};
    if (!w_.stop.empty()) return withdraw();
    act(action::LookForRoom{});
}

void Machine::on(const event::PlacesFreed&) {
    if (in<phase::HeldBack>() != nullptr) act(action::LookForRoom{});
}

void Machine::on(const event::RoomLooked& event) {
    auto* held = in<phase::HeldBack>();
    if (held == nullptr) return;
    if (event.obstacle == Obstacle::memory && held->obstacle == Obstacle::none) {
        log(LogLevel::warn, "run_held_back", "memory_pressure", event.memory_pressure);
    }
    held->obstacle = event.obstacle;
    if (event.obstacle == Obstacle::none) look_at_place();
}

// The run may have waited for long since its places were looked at. Invariant (7).
void Machine::look_at_place() {
    w_.phase = phase::LookingAtPlace{};
    act(action::LookAtPlace{});
}

void Machine::on(const event::PlaceLater&) {
    auto* looking = in<phase::LookingAtPlace>();
    if (looking == nullptr) return;
    looking->again = now_ + no_time_then;
    act(action::LookAgain{no_time_then});
}

void Machine::on(const event::PlaceSeen& event) {
    if (in<phase::LookingAtPlace>() == nullptr) return;
    if (!event.problem.empty()) return fail_before_launch(event.problem);
    if (event.change.empty()) {
        w_.phase = phase::Preparing{};
        return act(action::Prepare{});
    }
    log(LogLevel::warn, "run_place_changed", "what", event.change);
    w_.phase = phase::Restating{.places = event.places};
    ask_core(RunCommandKind::restate, core::RestatePlaces{w_.order.id, w_.order.fence, event.places, event.change});
}

void Machine::restated(const event::Answered& answer) {
    auto* restating = in<phase::Restating>();
    if (restating == nullptr) return;
    // A run that is to stop is not restated. The feed brings the stop.
    if (!answer.reply || answer.reply->status == core::RunStatus::wrong_state) {
        restating->again = now_ + asked_again_after;
        return act(action::LookAgain{asked_again_after});
    }
    const bool was_put_back = is_done(answer) && answer.reply->state == core::RunState::queued;
    if (was_put_back || lost_its_turn(answer)) return go_back_in_line();
    if (answer.reply->status == core::RunStatus::invalid_request) {
        return fail_before_launch("its place has changed: " + answer.reply->detail);
    }
    if (!is_done(answer) || answer.reply->state != core::RunState::starting) {
        tell(shim::Refused{.why = "the run was not started: " + answer.reply->detail});
        return forget();
    }
    auto places = core::with_workspaces(std::move(w_.order.places), restating->places, core::Restated::instead);
    ensure(places.has_value(), "the core has restated the same places");
    w_.order.places = std::move(*places);
    begin();
}

// Its places were taken from it before its process began.
void Machine::go_back_in_line() {
    if (in<phase::InLine>() != nullptr || in<phase::Ending>() != nullptr || in<phase::Reaping>() != nullptr) return;
    if (!before_launch()) return revoke("the run has lost its place to another run");
    if (!w_.order.foreground) {
        // A shim that waits for its launch holds nothing, and must not write down that the run has ended.
        act(action::DropShims{w_.connection ? w_.shim : shim::ShimState()});
        return forget();
    }
    act(action::GiveUpPlace{});
    w_.order.fence = {};
    w_.heard = now_;  // Its terminal may still be on the way.
    w_.note.clear();
    w_.phase = phase::InLine{.looked = now_};
    if (w_.connection) act(action::LookAtLine{});
}

void Machine::on(const event::Prepared& event) {
    if (in<phase::Preparing>() == nullptr) return;
    w_.note = event.note;
    w_.heard = now_;  // To make its place may have taken a while.
    w_.phase = phase::Ready{.launch = event.launch, .since = now_};
    if (w_.connection) return hand_over();
    if (!w_.order.foreground) act(action::Spawn{});
}

void Machine::on(const event::NotPrepared& event) {
    if (in<phase::Preparing>() != nullptr) fail_before_launch(event.why);
}

void Machine::on(const event::PrepareLater&) {
    auto* preparing = in<phase::Preparing>();
    if (preparing == nullptr) return;
    preparing->again = now_ + no_time_then;
    act(action::LookAgain{no_time_then});
}

void Machine::on(const event::NotSpawned& event) {
    if (in<phase::Ready>() == nullptr) return;
    log(LogLevel::error, "shim_not_started", "why", event.why);
    fail_before_launch("its shim could not be started: " + event.why);
}

// A shim that finds another at work for the run goes without a word: that one comes.
void Machine::on(const event::ChildEnded& event) {
    if (in<phase::Ready>() == nullptr || w_.connection || event.another_has_the_run) return;
    reap("its shim ended before it began");
}

void Machine::hand_over() {
    shim::LaunchOrder launch = std::move(in<phase::Ready>()->launch);
    Work work;
    if (w_.order.ends_within) work.deadline = now_ + *w_.order.ends_within;
    w_.phase = phase::Launched{work};
    tell(std::move(launch));
}

// There is no process yet, and there will be none.
void Machine::withdraw() {
    tell(shim::Refused{.why = "the run was stopped: " + w_.stop});
    finish(core::CancelRun{w_.order.id, w_.order.fence, w_.stop, {}}, phase::Ending::After::never_began);
}

void Machine::fail_before_launch(std::string why) {
    finish(core::FinishRun{w_.order.id, w_.order.fence, core::RunState::failed, std::move(why), {}},
           phase::Ending::After::never_began);
}

// Its terminal is gone. No answer changes that there is nothing left to do.
void Machine::cancel_in_line(const std::string& why) {
    ask_core(RunCommandKind::cancel, core::CancelRun{w_.order.id, {}, why, {}});
    forget();
}

void Machine::on(const event::LineLooked& event) {
    auto* in_line = in<phase::InLine>();
    if (in_line == nullptr || !event.text || *event.text == in_line->told) return;
    in_line->told = *event.text;
    tell(shim::Wait{*event.text});
}

// ---- what shims say ------------------------------------------------------------------------------------------------

void Machine::on(const event::Greeted& greeted) {
    if (!may_speak(greeted)) return act(action::ShowOut{greeted.connection});
    if (was_given_up()) {
        return act(action::Tell{greeted.connection, shim::Fenced{"the run was given up"}});
    }
    act(action::Admit{greeted.connection});
    if (w_.connection && *w_.connection != greeted.connection) act(action::ShowOut{*w_.connection});
    w_.connection = greeted.connection;
    w_.heard = now_;
    w_.shim.pid = greeted.peer.pid;
    w_.shim.start = greeted.peer.start;
    w_.shim.boot = greeted.peer.boot;
    if (before_launch() || greeted.hello.child_pid != 0) {
        w_.shim.child_pid = greeted.hello.child_pid;
        w_.shim.child_start = greeted.hello.child_start;
    }
    if (!w_.order.cgroup.empty()) w_.shim.cgroup = w_.order.cgroup;

    switch (greeted.hello.phase) {
        case shim::ShimPhase::waiting:
            return greeted_waiting();
        case shim::ShimPhase::running:
            return greeted_running();
        case shim::ShimPhase::ended:
            return;  // How it ended is its next message.
    }
}

bool Machine::may_speak(const event::Greeted& greeted) {
    const shim::Hello& hello = greeted.hello;
    const bool known = w_.shim.pid == greeted.peer.pid && w_.shim.start == greeted.peer.start;
    // Only a run that an earlier server has begun may have a shim without a secret.
    const bool of_earlier_release =
        greeted.proof == Proof::none_issued && w_.order.of_earlier_server && (known || w_.order.foreground);
    // Invariant (2). A process that comes after the run was given up is told so.
    const bool may_be_another = before_launch() || was_given_up();
    const bool is_its_shim = known || (!greeted.known_shim_alive && may_be_another);
    const bool proven = greeted.proof == Proof::proven || of_earlier_release;
    if (proven && is_its_shim) return true;
    log(LogLevel::warn, "shim_refused", "process", std::int64_t{greeted.peer.pid});
    if (!proven && hello.version < version_with_secret && hello.phase == shim::ShimPhase::waiting) {
        act(action::Tell{greeted.connection,
                         shim::Refused{.why = "the run cannot be held here: this program is of an older release than "
                                              "the server; start the run with the server's release"}});
    }
    return false;
}

void Machine::greeted_waiting() {
    if (auto* in_line = in<phase::InLine>()) {
        in_line->looked = now_;
        return act(action::LookAtLine{});
    }
    if (in<phase::Ready>() != nullptr) return w_.stop.empty() ? hand_over() : withdraw();
    if (in<phase::Launched>() != nullptr) return begin();  // The launch did not reach it.
    if (work() != nullptr) revoke("the run is already running elsewhere");
}

void Machine::greeted_running() {
    if (in<phase::InLine>() != nullptr) return tell(shim::Fenced{"the run waits in line"});
    const auto* returning = in<phase::Returning>();
    if (before_launch()) {
        Work work;
        if (w_.order.ends_within) work.deadline = now_ + *w_.order.ends_within;
        start(work, {});
        act(action::HoldAgain{w_.shim.child_pid});
    } else if (in<phase::Launched>() != nullptr || (returning != nullptr && !returning->core_knows)) {
        start(*work(), {});
    } else if (returning != nullptr) {
        w_.phase = phase::Running{returning->work};
    }
    has_come_back();
}

void Machine::has_come_back() {
    if (work() == nullptr) return;
    if (work()->motion == Work::Motion::away) put_away(false);
    if (!w_.stop.empty()) tell(shim::Stop{w_.stop});
    if (work()->motion == Work::Motion::paused) tell(shim::Pause{});
}

void Machine::on(const event::HasStarted& event) {
    w_.heard = now_;
    if (in<phase::Launched>() == nullptr) return;
    const shim::Started& message = event.message;
    w_.shim.child_pid = message.child_pid;
    w_.shim.child_start = message.child_start;
    if (!message.note.empty()) log(LogLevel::info, "run_note", "note", message.note);
    // A shim from before the levels does not say one.
    std::string sandbox = message.level.empty() ? "unknown: the shim is of an older version" : message.level;
    if (!w_.note.empty()) sandbox += ": " + w_.note;
    start(*work(), bounded(sandbox));
}

void Machine::start(Work work, std::string sandbox) {
    ask_core(RunCommandKind::start, core::StartRun{w_.order.id, w_.order.fence, sandbox});
    w_.phase = phase::Starting{.work = std::move(work), .sandbox = std::move(sandbox)};
}

void Machine::started(const event::Answered& answer) {
    auto* starting = in<phase::Starting>();
    if (starting == nullptr) return;
    if (!answer.reply) {
        starting->again = now_ + asked_again_after;
        return act(action::LookAgain{asked_again_after});
    }
    // Paused is what has been started.
    if (!is_done(answer) && answer.reply->status != core::RunStatus::wrong_state) return revoke("the run is over");
    w_.phase = phase::Running{std::move(starting->work)};
    stop(answer.reply->stop_requested);
}

// A person has stopped the job in its terminal, shim and all: it says nothing until it is brought back.
void Machine::put_away(bool away) {
    w_.heard = now_;
    Work* work = this->work();
    if (!w_.order.foreground || work == nullptr || (work->motion != Work::Motion::going) == away) return;
    work->motion = away ? Work::Motion::away : Work::Motion::going;
    work->echoes.push_back(away ? core::RunState::paused : core::RunState::running);
    if (away) {
        ask_core(RunCommandKind::pause, core::PauseRun{w_.order.id, w_.order.fence});
    } else {
        ask_core(RunCommandKind::resume, core::ResumeRun{w_.order.id, w_.order.fence});
    }
}

void Machine::on(const event::HasEnded& event) {
    w_.heard = now_;
    if (in<phase::InLine>() != nullptr || (work() == nullptr && !before_launch())) return;
    // A process may have taken a descriptor of its shim's connection.
    if (event.proof == Proof::refused) return log(LogLevel::warn, "end_refused");
    look_at_end(event.message);
}

// A shim that lives comes back. A terminal that waited has been closed.
void Machine::on(const event::ConnectionClosed& event) {
    w_.connection.reset();
    if (in<phase::InLine>() != nullptr) {
        return cancel_in_line("its terminal was closed");
    }
    if (!event.shim.alive) shim_is_gone(event.shim.file);
}

void Machine::shim_is_gone(const std::optional<shim::ShimState>& file) {
    if (work() == nullptr && !before_launch()) return;
    if (file && file->phase == shim::ShimPhase::ended) {
        return reap_and_finish(end_of(w_.order.id, w_.order.fence, w_.order.foreground, w_.stop, end_in(*file)));
    }
    const bool began = file && file->phase == shim::ShimPhase::running;
    if (began && w_.shim.child_pid == 0) {  // It was killed before it could say so.
        w_.shim.child_pid = file->child_pid;
        w_.shim.child_start = file->child_start;
    }
    if (began || work() != nullptr) return reap(fmt::format("its shim (process {}) was killed", w_.shim.pid));
    if (w_.order.foreground) {
        return finish(core::CancelRun{w_.order.id, w_.order.fence, "its terminal was closed", {}},
                      phase::Ending::After::never_began);
    }
    // Nothing was started, so another shim can be.
    w_.shim = {};
    if (auto* ready = in<phase::Ready>()) {
        ready->since = now_;
        act(action::Spawn{});
    }
}

// ---- ending --------------------------------------------------------------------------------------------------------

// Its place is given on only after this server has seen for itself that nothing of it is left.
void Machine::look_at_end(shim::Ended ended) {
    w_.phase = phase::Checking{.ended = std::move(ended), .its_shim = its_shim()};
    act(action::LookAtEnd{w_.shim});
}

void Machine::on(const event::EndLooked& event) {
    const auto* checking = in<phase::Checking>();
    if (checking == nullptr) return;
    core::CommandBody end = end_of(w_.order.id, w_.order.fence, w_.order.foreground, w_.stop, checking->ended);
    if (event.shim == ShimNow::gone) return reap_and_finish(std::move(end));
    if (!event.held) return finish(std::move(end), phase::Ending::After::its_word);
    reap(fmt::format("its shim said that it had ended, but {} was still there", *event.held), core::RunState::failed);
}

void Machine::reap(const std::string& why, core::RunState outcome) {
    log(LogLevel::warn, "run_reaped", "why", why);
    if (outcome == core::RunState::lost) {
        reap_and_finish(core::LoseRun{w_.order.id, w_.order.fence, why});
    } else {
        reap_and_finish(core::FinishRun{w_.order.id, w_.order.fence, outcome, why, {}});
    }
}

// The run keeps its place until nothing of it is left, also if the core gives it to another run meanwhile.
void Machine::reap_and_finish(core::CommandBody end) {
    act(action::KeepPlaces{w_.order.places});
    w_.phase = phase::Reaping{.end = std::move(end), .its_shim = its_shim()};
    end_leftovers(*in<phase::Reaping>());
}

void Machine::end_leftovers(phase::Reaping& reaping) {
    act(action::EndLeftovers{w_.shim, reaping.its_shim, std::holds_alternative<core::LoseRun>(reaping.end)});
}

void Machine::on(const event::LeftoversLooked& event) {
    auto* reaping = in<phase::Reaping>();
    if (reaping == nullptr) return;
    if (event.keeper.empty()) {
        if (!reaping->keeper.empty()) act(action::PublishKeeper{});
        return finish(with_keeper(std::move(reaping->end), reaping->keeper), phase::Ending::After::reaping);
    }
    if (event.keeper != reaping->keeper) {
        log(LogLevel::warn, "place_kept", "by", event.keeper);
        act(action::PublishKeeper{event.keeper});
    }
    reaping->keeper = event.keeper;
    reaping->again = now_ + leftovers_looked_every;
    act(action::LookAgain{leftovers_looked_every});
}

void Machine::on(const event::LeftoversLater&) {
    auto* reaping = in<phase::Reaping>();
    if (reaping == nullptr) return;
    reaping->again = now_ + no_time_then;
    act(action::LookAgain{no_time_then});
}

void Machine::finish(core::CommandBody end, phase::Ending::After after) {
    using After = phase::Ending::After;
    ensure(after != After::never_began || before_launch(), "a launched run is not said to have never begun");
    ensure(after != After::its_word || in<phase::Checking>() != nullptr, "invariant (3)");
    bound_reason(end);
    // Before the commit: the next run in its place must not begin before the look at what it left.
    if (after == After::its_word && w_.shim.child_pid != 0) act(action::KeepPlaces{w_.order.places});
    ask_core(RunCommandKind::end, end);
    w_.phase = phase::Ending{.end = std::move(end), .after = after};
}

void Machine::finished(const event::Answered& answer) {
    using After = phase::Ending::After;
    auto* ending = in<phase::Ending>();
    if (ending == nullptr) return;
    if (!answer.reply) {
        ending->again = now_ + asked_again_after;
        return act(action::LookAgain{asked_again_after});
    }
    if (!is_done(answer) && ending->after == After::never_began) return revoke("the run is over");
    if (!is_done(answer) || ending->after == After::reaping) {
        tell(shim::Fenced{"the run is over"});
        // The run had stopped its shim: it goes on, hears that, and ends.
        if (!std::holds_alternative<core::LoseRun>(ending->end)) act(action::WakeShim{w_.shim});
    } else if (w_.connection) {
        act(action::TellEnd{*w_.connection, w_.note, ending->after == After::its_word});
    }
    act(action::LookForRemains{w_.shim});
    forget();
}

// The run is not ours any more. What its shim believes does not count.
void Machine::give_away(const std::string& why) {
    tell(shim::Fenced{why});
    act(action::KeepPlaces{w_.order.places});
    act(action::SeeGone{w_.shim, its_shim()});
}

void Machine::revoke(const std::string& why) {
    give_away(why);
    forget();
}

void Machine::forget() {
    w_.connection.reset();
    w_.phase = phase::Over{};
    act(action::Forget{});
}

// ---- answers of the core -------------------------------------------------------------------------------------------

void Machine::on(const event::Answered& answer) {
    switch (answer.question) {
        case RunCommandKind::start:
            return started(answer);
        case RunCommandKind::end:
            return finished(answer);
        case RunCommandKind::beat:
            if (!answer.reply) {
                w_.renewed -= std::chrono::seconds(w_.order.lease_s);  // At the next look.
            } else if (lost_its_turn(answer)) {
                go_back_in_line();
            } else if (!is_done(answer) && in<phase::Ending>() == nullptr && in<phase::InLine>() == nullptr) {
                revoke("the run is over");
            }
            return;
        case RunCommandKind::restate:
            return restated(answer);
        case RunCommandKind::cancel:
            return;
        case RunCommandKind::pause:
        case RunCommandKind::resume:
            if (Work* work = this->work(); work != nullptr && !is_done(answer)) {  // Nothing will be told.
                std::erase(work->echoes,
                           answer.question == RunCommandKind::pause ? core::RunState::paused : core::RunState::running);
            }
            return;
    }
}

// ---- time ----------------------------------------------------------------------------------------------------------

void Machine::on(const event::TimePassed& event) {
    // A server that was not listening has not heard silence.
    const auto forgive = [&](Moment& since) { since = std::min(now_, since + event.missed); };
    forgive(w_.heard);
    if (auto* ready = in<phase::Ready>()) forgive(ready->since);
    if (auto* returning = in<phase::Returning>()) forgive(returning->since);
    look_after(event.shim);
}

void Machine::look_after(const ShimSeen& shim) {
    if (auto* in_line = in<phase::InLine>()) {
        if (!w_.connection) {
            if (now_ - w_.heard < terminal_back_within) return;
            return cancel_in_line("its terminal is gone");
        }
        if (now_ < in_line->looked + line_looked_every) return;
        in_line->looked = now_;
        return act(action::LookAtLine{});
    }
    renew();
    if (in<phase::HeldBack>() != nullptr) return act(action::LookForRoom{});
    if (auto* looking = in<phase::LookingAtPlace>(); looking != nullptr && is_due(looking->again)) {
        return act(action::LookAtPlace{});
    }
    if (auto* restating = in<phase::Restating>(); restating != nullptr && is_due(restating->again)) return begin();
    if (auto* preparing = in<phase::Preparing>(); preparing != nullptr && is_due(preparing->again)) {
        return act(action::Prepare{});
    }
    if (auto* reaping = in<phase::Reaping>(); reaping != nullptr && is_due(reaping->again)) {
        return end_leftovers(*reaping);
    }
    if (auto* ending = in<phase::Ending>(); ending != nullptr && is_due(ending->again)) {
        return ask_core(RunCommandKind::end, ending->end);
    }
    look_after_shim(shim);
}

// Invariant (5).
void Machine::look_after_shim(const ShimSeen& shim) {
    const Work* work = this->work();
    const auto* ready = in<phase::Ready>();
    if (work == nullptr && ready == nullptr) return;
    const auto* returning = in<phase::Returning>();
    const Moment expected_since = ready != nullptr                                 ? ready->since
                                  : returning != nullptr && !returning->core_knows ? returning->since
                                                                                   : now_;
    const bool away = work != nullptr && work->motion == Work::Motion::away;
    if (now_ - expected_since > shim_comes_within) return reap("its shim did not come");
    if (work != nullptr && now_ > work->deadline && !away) {
        return reap("it ran for longer than it may, and its shim did not end it", core::RunState::timed_out);
    }
    // Its connection ends a moment before the process does, so it is looked at again.
    if (!w_.connection && w_.shim.pid != 0 && !shim.alive) return shim_is_gone(shim.file);
    if (now_ - w_.heard > silence_timeout() && !away) {
        return reap(fmt::format("its shim was not heard of for {} s", w_.order.lease_s));
    }
    if (auto* starting = in<phase::Starting>(); starting != nullptr && is_due(starting->again)) {
        ask_core(RunCommandKind::start, core::StartRun{w_.order.id, w_.order.fence, starting->sandbox});
    }
}

bool Machine::is_due(std::optional<Moment>& again) {
    if (!again || now_ < *again) return false;
    again.reset();
    return true;
}

void Machine::renew() {
    if (now_ - w_.renewed < std::chrono::milliseconds(std::int64_t{w_.order.lease_s} * 1000 / 3)) return;
    w_.renewed = now_;
    ask_core(RunCommandKind::beat, core::HeartbeatRun{w_.order.id, w_.order.fence});
}

}  // namespace

bool has_room(const Watch& watch) {
    return !std::holds_alternative<phase::InLine>(watch.phase) &&
           !std::holds_alternative<phase::HeldBack>(watch.phase) && !std::holds_alternative<phase::Over>(watch.phase);
}

Step first_step(const event::Found& found, Moment now) {
    Machine machine({}, now);
    machine.take_on(found);
    return machine.take_step();
}

Step next_step(Watch watch, const WatchEvent& event, Moment now) {
    ensure(!std::holds_alternative<phase::Over>(watch.phase), "nothing happens to a run that is forgotten");
    Machine machine(std::move(watch), now);
    std::visit([&](const auto& each) { machine.on(each); }, event);
    return machine.take_step();
}

}  // namespace interlock::supervisor
