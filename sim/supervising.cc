#include "sim/supervising.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include <boost/core/demangle.hpp>

#include "base/id.h"
#include "core/places.h"
#include "supervisor/run_end.h"

namespace interlock::sim {
namespace {

using namespace std::chrono_literals;
using namespace supervisor;

constexpr SteadyDuration look_every = 250ms;

// "Spawn" for action::Spawn.
template <class Variant>
std::string name_of(const Variant& variant) {
    const std::string name =
        std::visit([]<class Kind>(const Kind&) { return boost::core::demangle(typeid(Kind).name()); }, variant);
    return name.substr(name.rfind(':') + 1);
}

}  // namespace

// ---- the server's life ---------------------------------------------------------------------------------------------

void Supervising::start() {
    up_ = true;
    ++life_;
    looked_ = {};
    cursor_ = hooks_.feed().size();
    std::set<core::RunId> known;
    const std::vector<core::Run> unfinished = hooks_.unfinished();
    for (const core::Run& run : unfinished) known.insert(run.id);
    machine_.excuse_jobs(known);
    // What was given up while no server was here.
    for (const auto& [run, file] : machine_.files) {
        if (known.contains(run) || file.phase != shim::ShimPhase::running) continue;
        const auto row = hooks_.run(run);
        kept_[run] = row ? row->wanted : std::vector<core::Place>();
        see_gone(run, file, ItsShim::spared);
    }
    for (const core::Run& run : unfinished) take_on(run);
    settle();
}

void Supervising::die() {
    if (!up_) return;
    up_ = false;
    ++life_;
    watches_.clear();
    by_connection_.clear();
    kept_.clear();
    happened_.clear();
    heard_.clear();
    unknown_ends_.clear();
    machine_.server_died();
    hooks_.died();
}

void Supervising::step() {
    if (!up_ || stands_still()) return;
    while (up_ && !heard_.empty()) {
        const Heard heard = std::move(heard_.front());
        heard_.pop_front();
        take(heard);
        settle();
    }
    if (up_) follow();
    if (!up_ || hooks_.now() < looked_ + look_every) return;
    const SteadyDuration missed =
        looked_ == Moment() ? SteadyDuration(0) : std::max(SteadyDuration(0), hooks_.now() - looked_ - look_every);
    looked_ = hooks_.now();
    for (const auto& [run, watch] : watches_) happens(run, event::TimePassed{look_at(watch), missed});
    settle();
}

void Supervising::settle() {
    while (up_ && !happened_.empty()) {
        const Happened next = std::move(happened_.front());
        happened_.pop_front();
        const auto found = watches_.find(next.run);
        if (found == watches_.end()) continue;
        const std::optional<ConnectionId> connection = found->second.connection;
        hooks_.note(to_text("run", next.run.value) + " <- " + name_of(next.event));
        Step step = next_step(std::move(found->second), next.event, hooks_.now());
        if (connection != step.watch.connection) {
            if (connection) by_connection_.erase(connection->value);
            if (step.watch.connection) by_connection_[step.watch.connection->value] = next.run;
        }
        apply(next.run, std::move(step));
    }
}

void Supervising::apply(core::RunId run, Step step) {
    watches_[run] = std::move(step.watch);
    for (const Action& action : step.actions) {
        if (hooks_.dies()) return die();
        hooks_.note(to_text("run", run.value) + ": " + name_of(action));
        std::visit([&](const auto& each) { carry_out(watches_.at(run), each); }, action);
    }
}

void Supervising::alive_after(SteadyDuration after, std::function<void()> what) {
    hooks_.after(after, [this, life = life_, what = std::move(what)] {
        if (!up_ || life != life_) return;
        // A thread that stands still does it afterwards.
        if (stands_still()) return alive_after(stands_until_ - hooks_.now(), what);
        what();
        settle();
    });
}

void Supervising::later(core::RunId run, core::Fence fence, SteadyDuration after,
                        std::function<supervisor::WatchEvent()> event) {
    alive_after(after, [this, run, fence, event = std::move(event)] {
        const auto found = watches_.find(run);
        if (found != watches_.end() && found->second.order.fence == fence) happens(run, event());
    });
}

// ---- what the rows say ---------------------------------------------------------------------------------------------

void Supervising::follow() {
    while (up_ && !is_cut_off() && cursor_ < hooks_.feed().size()) {
        const core::Event event = hooks_.feed()[cursor_++];
        if (const auto* changed = std::get_if<core::RunChanged>(&event)) {
            if (changed->state == core::RunState::starting) {
                look_up(changed->run);
            } else if (changed->state == core::RunState::queued) {
                look_whether_back_in_line(changed->run);
            } else {
                happens(changed->run, event::StateChanged{changed->state});
            }
        } else if (const auto* stopped = std::get_if<core::RunStopRequested>(&event)) {
            happens(stopped->run, event::StopRequested{stopped->reason});
        } else if (const auto* ended = std::get_if<core::RunEnded>(&event)) {
            happens(ended->run, event::RunIsOver{ended->reason});
        }
        settle();
    }
}

void Supervising::look_up(core::RunId run) {
    if (const auto row = hooks_.run(run)) take_on(*row);
}

void Supervising::look_whether_back_in_line(core::RunId run) {
    const auto row = hooks_.run(run);
    const auto known = watches_.find(run);
    if (row && known != watches_.end() && row->fence != known->second.order.fence) happens(run, event::BackInLine{});
}

void Supervising::take_on(const core::Run& row) {
    const auto launch = hooks_.launch(row.id);
    const bool mine = row.supervised && row.node == node_;
    if (!mine || !launch || core::has_ended(row.state)) return;
    const auto known = watches_.find(row.id);
    if (known != watches_.end() && known->second.order.fence == row.fence) return;
    const bool queued = row.state == core::RunState::queued;
    const auto file = machine_.files.find(row.id);
    const bool has_file = file != machine_.files.end();
    const bool was_launched = has_file && ShimFile{.state = file->second}.of_another_turn(row.fence);
    if (queued && !launch->process.foreground && !was_launched) return;
    event::Found found{.order = {.id = row.id,
                                 .parent = row.parent,
                                 .fence = row.fence,
                                 .places = row.wanted,
                                 .lease_s = row.lease_s,
                                 .foreground = launch->process.foreground,
                                 .ends_within = ends_within(launch->process)},
                       .state = row.state,
                       .stop = row.stop_requested};
    if (has_file) {
        const SteadyDuration age =
            fault_ == SupervisorFault::forgets_timeouts ? SteadyDuration(0) : machine_.age_of_main(row.id);
        found.file = ShimFile{.state = file->second,
                              .this_boot = true,
                              .shim_alive = machine_.shim_is_alive(file->second.pid),
                              .shim_stopped = machine_.shim_is_stopped(file->second.pid),
                              .main_age = age};
    }
    if (known != watches_.end()) return happens(row.id, found);
    apply(row.id, first_step(found, hooks_.now()));
}

// ---- what shims say ------------------------------------------------------------------------------------------------

void Supervising::hear(ConnectionId connection, pid_t pid, const std::optional<shim::FromShim>& message) {
    if (up_) heard_.push_back({connection, pid, message});
}

void Supervising::child_ended(core::RunId run, bool another_has_it) {
    if (!up_) return;
    alive_after(0ms, [this, run, another_has_it] { happens(run, event::ChildEnded{another_has_it}); });
}

ShimSeen Supervising::look_at(const Watch& watch) const {
    if (watch.connection) return {.alive = true};
    if (watch.shim.pid == 0) return {};
    if (machine_.shim_is_alive(watch.shim.pid)) return {.alive = true};
    const auto file = machine_.files.find(watch.order.id);
    return {.alive = false,
            .file = file == machine_.files.end() ? std::nullopt : std::optional<shim::ShimState>(file->second)};
}

Proof Supervising::prove(core::RunId run, const std::string& secret) const {
    if (fault_ == SupervisorFault::believes_second_shim) return Proof::proven;
    const auto issued = machine_.secrets.find(run);
    if (issued == machine_.secrets.end()) return Proof::none_issued;
    return issued->second.contains(secret) ? Proof::proven : Proof::refused;
}

std::string Supervising::issue(core::RunId run) {
    const std::string secret = "secret " + std::to_string(++secrets_) + " of life " + std::to_string(life_);
    machine_.secrets[run].insert(secret);
    return secret;
}

void Supervising::take(const Heard& heard) {
    const auto whose = by_connection_.find(heard.connection.value);
    const auto watch = whose == by_connection_.end() ? watches_.end() : watches_.find(whose->second);
    if (heard.message && std::holds_alternative<shim::Hello>(*heard.message)) {
        return greet(heard, std::get<shim::Hello>(*heard.message));
    }
    if (watch == watches_.end()) {
        if (heard.message && !std::holds_alternative<shim::Ended>(*heard.message)) {
            machine_.to_shim(heard.connection, shim::Fenced{"the run is over"});
        }
        return;
    }
    const core::RunId run = watch->first;
    if (!heard.message)
        return happens(run, event::ConnectionClosed{look_at([&] {
                           Watch without = watch->second;
                           without.connection.reset();
                           return without;
                       }())});
    if (const auto* ended = std::get_if<shim::Ended>(&*heard.message)) {
        happens(run, event::HasEnded{*ended, prove(run, ended->secret)});
    } else if (const auto* started = std::get_if<shim::Started>(&*heard.message)) {
        happens(run, event::HasStarted{*started});
    } else if (std::holds_alternative<shim::Paused>(*heard.message)) {
        happens(run, event::HasPaused{});
    } else if (std::holds_alternative<shim::Resumed>(*heard.message)) {
        happens(run, event::HasResumed{});
    } else {
        happens(run, event::HasBeaten{});
    }
}

void Supervising::greet(const Heard& heard, const shim::Hello& hello) {
    const core::RunId run(*id_from_text("run", hello.run));
    if (!watches_.contains(run)) {
        if (is_cut_off()) return machine_.show_out(heard.connection);
        const auto row = hooks_.run(run);
        if (row) take_on(*row);
        settle();
        if (!up_) return;
        if (!watches_.contains(run)) {
            if (row && !core::has_ended(row->state)) return machine_.show_out(heard.connection);
            return machine_.to_shim(heard.connection, hello.phase == shim::ShimPhase::waiting
                                                          ? shim::FromServer(shim::Refused{"the run has ended"})
                                                      : hello.phase == shim::ShimPhase::ended
                                                          ? shim::FromServer(shim::Done{})
                                                          : shim::FromServer(shim::Fenced{"the run is over"}));
        }
    }
    const shim::ShimState& known = watches_.at(run).shim;
    event::Greeted greeted{.connection = heard.connection,
                           .peer = {.pid = heard.pid, .start = hello.start, .boot = hello.boot},
                           .hello = hello,
                           .proof = prove(run, hello.secret),
                           .known_shim_alive = known.pid != 0 && machine_.shim_is_alive(known.pid)};
    // The kernel says whose connection it is. What the process says of itself does not count.
    greeted.peer.start = "start-" + std::to_string(heard.pid);
    if (fault_ == SupervisorFault::believes_second_shim && known.pid != 0) {
        greeted.peer = {.pid = known.pid, .start = known.start, .boot = known.boot};
    }
    happens(run, greeted);
}

// ---- places that are kept ------------------------------------------------------------------------------------------

bool Supervising::is_kept(const std::vector<core::Place>& places) const {
    return std::ranges::any_of(kept_, [&](const auto& kept) {
        return std::ranges::any_of(kept.second, [&](const core::Place& place) {
            return std::ranges::any_of(places, [&](const core::Place& other) { return core::collide(place, other); });
        });
    });
}

void Supervising::see_gone(core::RunId run, const shim::ShimState& shim, ItsShim its_shim) {
    alive_after(moment(), [this, run, shim, its_shim] {
        if (!machine_.end_leftovers(run, shim, its_shim)) return see_gone(run, shim, its_shim);
        if (!machine_.shim_is_alive(shim.pid)) {
            if (const auto file = machine_.files.find(run); file != machine_.files.end()) {
                file->second.phase = shim::ShimPhase::ended;
            }
        }
        free(run);
    });
}

void Supervising::free(core::RunId run) {
    if (kept_.erase(run) == 0) return;
    for (const auto& [id, watch] : watches_) happens(id, event::PlacesFreed{});
}

// ---- actions -------------------------------------------------------------------------------------------------------

void Supervising::carry_out(const Watch& watch, const action::LookForRoom&) {
    event::RoomLooked looked;
    if (is_kept(watch.order.places) || others_have_room_in_places_of(watch, watches_))
        looked.obstacle = Obstacle::place;
    if (random_.percent(2)) looked = {Obstacle::memory, 50};
    happens(watch.order.id, looked);
}

// Now and then a path leads to another directory by now. It is one for all, so runs meet in it.
void Supervising::carry_out(const Watch& watch, const action::LookAtPlace&) {
    later(watch.order.id, watch.order.fence, moment(),
          [this, places = watch.order.places]() mutable -> supervisor::WatchEvent {
              if (random_.percent(3)) return event::PlaceLater{};
              if (random_.percent(75)) return event::PlaceSeen{};
              for (core::Place& place : places) place.chain = {"another directory"};
              return event::PlaceSeen{.change = "it is another directory", .places = places};
          });
}

void Supervising::carry_out(const Watch& watch, const action::DropShims&) { machine_.drop(watch.order.id); }

void Supervising::carry_out(const Watch& watch, const action::LookAtLine&) {
    happens(watch.order.id, event::LineLooked{"next in line"});
}

void Supervising::carry_out(const Watch& watch, const action::Prepare&) {
    later(watch.order.id, watch.order.fence, moment(), [this]() -> supervisor::WatchEvent {
        if (random_.percent(5)) return event::PrepareLater{};
        return event::Prepared{.launch = {{"launch"}}};
    });
}

void Supervising::carry_out(const Watch& watch, const action::Spawn&) {
    hooks_.spawn(watch.order.id, issue(watch.order.id));
}

void Supervising::carry_out(const Watch& watch, const action::LookAtEnd& look) {
    event::EndLooked looked{.shim = ShimNow::gone};
    if (machine_.shim_is_alive(look.shim.pid)) {
        looked.shim = ShimNow::alive;
        if (const std::string held = machine_.held(watch.order.id, look.shim); !held.empty()) looked.held = held;
    }
    if (fault_ == SupervisorFault::frees_places_early) looked.held.reset();
    happens(watch.order.id, looked);
}

void Supervising::carry_out(const Watch& watch, const action::EndLeftovers& end) {
    if (random_.percent(5)) return happens(watch.order.id, event::LeftoversLater{});
    later(watch.order.id, watch.order.fence, moment(),
          [this, end, run = watch.order.id, places = watch.order.places]() -> supervisor::WatchEvent {
              if (fault_ == SupervisorFault::frees_places_early) return event::LeftoversLooked{};
              if (!machine_.end_leftovers(run, end.shim, end.its_shim)) return event::LeftoversLooked{"stuck"};
              const bool daemon = end.looks_for_daemons && std::ranges::any_of(places, [&](const core::Place& place) {
                                      return machine_.has_daemon_of(run, place.path);
                                  });
              return event::LeftoversLooked{daemon ? "a daemon" : ""};
          });
}

void Supervising::carry_out(const Watch& watch, const action::LookAgain& look) {
    later(watch.order.id, watch.order.fence, look.after, [this, run = watch.order.id]() -> supervisor::WatchEvent {
        return event::TimePassed{look_at(watches_.at(run)), {}};
    });
}

void Supervising::carry_out(const Watch& watch, const action::Submit& submit) {
    const core::RunId run = watch.order.id;
    const int times = fault_ == SupervisorFault::reports_end_twice && submit.question == RunCommandKind::end ? 2 : 1;
    if (is_cut_off()) {
        if (submit.question == RunCommandKind::end) unknown_ends_.insert(run);
        return later(run, watch.order.fence, moment(), [question = submit.question]() -> supervisor::WatchEvent {
            return event::Answered{question, std::nullopt};
        });
    }
    for (int i = 0; i < times; ++i) {
        engine::Submission submission;
        submission.command.org = core::OrgId(1);
        submission.command.body = submit.body;
        if (submit.question == RunCommandKind::end) {
            submission.command.key = key_of_end(run, watch.order.fence, submit.body);
            hooks_.says_end(run, watch.order.fence, unknown_ends_.erase(run) > 0);
        }
        submission.on_answer = [this, run, fence = watch.order.fence, question = submit.question,
                                life = life_](const engine::SubmitResult& answer) {
            if (life != life_) return;
            event::Answered answered{question, std::nullopt};
            if (const auto* reply = answer ? std::get_if<core::RunReply>(&answer->reply) : nullptr) {
                answered.reply = *reply;
            } else if (answer || answer.error() == engine::SubmitError::key_reused) {
                answered.reply.emplace();
                answered.reply->status = core::RunStatus::run_ended;
            }
            if (random_.percent(hooks_.lost_answers())) answered.reply.reset();
            if (!answered.reply && question == RunCommandKind::end) unknown_ends_.insert(run);
            later(run, fence, moment(), [answered]() -> supervisor::WatchEvent { return answered; });
        };
        alive_after(moment(), [this, submission] { hooks_.submit(submission); });
    }
}

void Supervising::carry_out(const Watch& watch, const action::Tell& tell) {
    const auto file = machine_.files.find(watch.order.id);
    if (std::holds_alternative<shim::LaunchOrder>(tell.message) && file != machine_.files.end()) {
        file->second.fence = watch.order.fence.value;
    }
    machine_.to_shim(tell.connection, tell.message);
}

void Supervising::carry_out(const Watch&, const action::TellEnd& tell) {
    machine_.to_shim(tell.connection,
                     tell.has_run ? shim::FromServer(shim::Done{}) : shim::FromServer(shim::Refused{"it has ended"}));
}

void Supervising::carry_out(const Watch&, const action::ShowOut& out) { machine_.show_out(out.connection); }

void Supervising::carry_out(const Watch&, const action::WakeShim& wake) { machine_.wake(wake.shim.pid); }

void Supervising::carry_out(const Watch& watch, const action::KeepPlaces& keep) {
    if (fault_ != SupervisorFault::frees_places_early) kept_[watch.order.id] = keep.places;
}

void Supervising::carry_out(const Watch& watch, const action::LookForRemains& look) {
    alive_after(moment(), [this, run = watch.order.id, shim = look.shim] {
        machine_.has_marked(run) ? see_gone(run, shim, ItsShim::spared) : free(run);
    });
}

void Supervising::carry_out(const Watch& watch, const action::SeeGone& see) {
    see_gone(watch.order.id, see.shim, see.its_shim);
}

void Supervising::carry_out(const Watch& watch, const action::Forget&) {
    const core::RunId run = watch.order.id;
    watches_.erase(run);
    machine_.secrets.erase(run);
}

}  // namespace interlock::sim
