#include "supervisor/supervisor.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "shim/process.h"
#include "supervisor/host_facts.h"
#include "supervisor/leftovers.h"
#include "supervisor/observed.h"
#include "supervisor/run_end.h"
#include "supervisor/turn_away.h"
#include "supervisor/waiting.h"

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

constexpr auto look_every = 250ms;
// Most of what is committed is money, and none of the supervisor's business: it reads the feed in pieces of this length
// at least. Whoever comes after a pause is not kept waiting.
constexpr auto follow_every = 2ms;
constexpr auto clear_up_every = 1h;
constexpr auto kill_timeout = 10s;

Departure departure_in(const Watch& watch, const shim::ShimState& shim) {
    return departure_of(to_text("run", watch.order.id.value), shim, watch.order.places);
}

}  // namespace

// ---- the thread ---------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Supervisor>, std::string> Supervisor::start(Options options) {
    std::unique_ptr<Supervisor> supervisor(new Supervisor(std::move(options)));
    const std::string& data_dir = supervisor->options_.data_dir;
    ::mkdir((data_dir + "/runs").c_str(), 0700);
    auto door = ShimListener::open(data_dir);
    if (!door) return fail(door.error());
    supervisor->door_ = std::move(*door);
    supervisor->cgroups_ = make_cgroup_parent(cgroup_name(data_dir));
    supervisor->launches_.use_cgroups(supervisor->cgroups_);
    supervisor->orders_.use_cgroups(supervisor->cgroups_);
    supervisor->task_queue_->open([door = supervisor->door_.get()] { door->wake(); });
    supervisor->thread_ = std::thread([self = supervisor.get()] { self->run(); });
    return supervisor;
}

Supervisor::~Supervisor() { close(); }

void Supervisor::close() {
    if (stopping_.exchange(true)) return;
    task_queue_->close();
    if (door_) door_->wake();
    if (thread_.joinable()) thread_.join();
    if (!cgroups_.empty()) ::rmdir(cgroups_.c_str());  // Only if no run is in it.
}

void Supervisor::on_commit() {
    if (!committed_.exchange(true)) door_->wake();
}

void Supervisor::run() {
    while (!stopping_ && !orders_.read_everything(directories_)) std::this_thread::sleep_for(look_every);
    while (!stopping_) {
        // 1. Wait for shims, commits, answers and time.
        const auto now = Clock::now();
        auto until = std::min(looked_ + look_every, timers_.next());
        if (committed_) until = std::min(until, followed_ + follow_every);
        const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(std::max(now, until) - now);
        door_->set_live_runs(watches_.size());
        for (ShimListener::Heard& heard : door_->wait(timeout)) on_shim_message(heard);

        // 2. What others left to do, and what is due.
        for (const TaskQueue::Job& job : task_queue_->take()) {
            job();
            settle();
        }
        timers_.run_due();
        settle();

        // 3. What was committed.
        if (Clock::now() >= followed_ + follow_every && committed_.exchange(false)) {
            follow_feed();
            followed_ = Clock::now();
        }

        // 4. What time alone brings.
        if (Clock::now() >= looked_ + look_every) check_runs();
    }
}

// ---- what happens to a run, and what follows ------------------------------------------------------------------------

Watch* Supervisor::find(core::RunId id) {
    const auto found = watches_.find(id.value);
    return found == watches_.end() ? nullptr : &found->second;
}

std::optional<core::Fence> Supervisor::fence_of(core::RunId id) {
    const Watch* watch = find(id);
    return watch == nullptr ? std::nullopt : std::optional(watch->order.fence);
}

void Supervisor::happens(core::RunId id, WatchEvent event) { happened_.push_back({id, std::move(event)}); }

// For results of what was asked under this fence.
std::function<void(WatchEvent)> Supervisor::hears_of(const Watch& watch) {
    return [this, id = watch.order.id, fence = watch.order.fence](WatchEvent event) {
        if (fence_of(id) == fence) happens(id, std::move(event));
    };
}

// Actions whose results are there at once add to what has happened, so these are carried out here too, in order.
void Supervisor::settle() {
    while (!happened_.empty()) {
        const Happened next = std::move(happened_.front());
        happened_.pop_front();
        Watch* watch = find(next.run);
        if (watch == nullptr) continue;
        const std::optional<ConnectionId> connection = watch->connection;
        Step step = next_step(std::move(*watch), next.event, Clock::now());
        if (connection != step.watch.connection) {
            if (connection) by_connection_.erase(connection->value);
            if (step.watch.connection) by_connection_[step.watch.connection->value] = next.run;
        }
        apply(*watch, std::move(step));
    }
}

void Supervisor::apply(Watch& watch, Step step) {
    watch = std::move(step.watch);
    // The last action may be to forget it.
    for (const Action& action : step.actions) {
        std::visit([&](const auto& each) { carry_out(watch, each); }, action);
    }
}

// ---- what the rows say --------------------------------------------------------------------------------------------

void Supervisor::found(const event::Found& found) {
    if (find(found.order.id) != nullptr) return happens(found.order.id, found);
    apply(watches_[found.order.id.value], first_step(found, Clock::now()));
}

void Supervisor::left_over(core::RunId run, const shim::ShimState& shim, std::vector<core::Place> places) {
    options_.log.warn("run_left_over", {{"run", to_text("run", run.value)}});
    left_.keep(run, std::move(places));
    left_.see_gone(run, shim, ItsShim::spared);
}

void Supervisor::follow_feed() {
    if (!orders_.follow()) timers_.after(100ms, [this] { committed_ = true; });
}

// ---- what shims say -----------------------------------------------------------------------------------------------

void Supervisor::on_shim_message(ShimListener::Heard& heard) {
    const auto whose = by_connection_.find(heard.connection.value);
    Watch* watch = whose == by_connection_.end() ? nullptr : find(whose->second);
    if (!heard.message) {
        if (watch == nullptr) return reap_children();
        happens(watch->order.id, event::ConnectionClosed{look_at_shim(watch->shim, home_of(watch->order.id))});
    } else if (const auto* hello = std::get_if<shim::Hello>(&*heard.message)) {
        on_hello(heard, *hello);
    } else if (watch == nullptr) {
        // A shim that reported `ended` in its hello has its answer.
        if (!std::holds_alternative<shim::Ended>(*heard.message))
            door_->send(heard.connection, shim::Fenced{"the run is over"});
    } else if (std::holds_alternative<shim::Entrance>(*heard.message)) {
        if (heard.entrance && options_.open_entrance) options_.open_entrance(whose->second, std::move(heard.entrance));
    } else {
        happens(watch->order.id, event_of(*heard.message, [&](const std::string& secret) {
                    return proof_of(options_.secrets.check(watch->order.id, secret));
                }));
    }
    settle();
}

void Supervisor::on_hello(const ShimListener::Heard& heard, const shim::Hello& hello) {
    const auto text = id_from_text("run", hello.run);
    if (!text || hello.pid != heard.process) return door_->show_out(heard.connection);
    const core::RunId id(*text);
    if (find(id) == nullptr) {
        const auto row = rows_.run(id);
        if (!row) return door_->show_out(heard.connection);  // Not to be known now. It comes back.
        if (*row) orders_.take_on(**row);
        settle();
        if (find(id) == nullptr) {
            const auto word = word_for_stranger(hello.phase, *row, options_.node, options_.url());
            return word ? door_->send(heard.connection, *word) : door_->show_out(heard.connection);
        }
    }
    happens(id, event::Greeted{
                    .connection = heard.connection,
                    .peer = {.pid = heard.process, .start = shim::start_time(heard.process), .boot = shim::boot_id()},
                    .hello = hello,
                    .proof = proof_of(options_.secrets.check(id, hello.secret)),
                    .known_shim_alive = shim_is_alive(find(id)->shim)});
}

// A shim that has a connection is heard. It needs no look.
ShimSeen Supervisor::shim_of(const Watch& watch) const {
    return watch.connection ? ShimSeen{.alive = true} : look_at_shim(watch.shim, home_of(watch.order.id));
}

void Supervisor::reap_children() {
    for (const ShimChildren::Ended& child : children_.bury()) {
        happens(child.run, event::ChildEnded{child.another_has_the_run});
    }
    settle();
}

// ---- time ---------------------------------------------------------------------------------------------------------

void Supervisor::check_runs() {
    const auto now = Clock::now();
    // For how long this thread stood still, or the machine.
    const auto missed =
        looked_ == Clock::time_point() ? 0ns : std::max<Clock::duration>(0ns, now - looked_ - look_every);
    looked_ = now;
    for (const auto& [id, watch] : watches_) {
        happens(watch.order.id, event::TimePassed{.shim = shim_of(watch), .missed = missed});
    }
    settle();
    reap_children();
    places_.follow(now);
    if (now < cleared_ + clear_up_every) return;
    cleared_ = now;
    std::set<std::string> unfinished;
    for (const auto& [id, watch] : watches_) unfinished.insert(to_text("run", id));
    (void)options_.elsewhere(directories_.removal_of_old(std::move(unfinished)));
}

// ---- actions ------------------------------------------------------------------------------------------------------

void Supervisor::carry_out(const Watch& watch, const action::LookForRoom&) {
    event::RoomLooked looked;
    const auto pressure = options_.memory_pressure_max > 0 ? memory_pressure() : std::nullopt;
    if (left_.include(watch.order.places) || others_have_room_in_places_of(watch, watches_)) {
        looked.obstacle = Obstacle::place;
    } else if (pressure && *pressure > options_.memory_pressure_max) {
        looked = {Obstacle::memory, static_cast<std::int64_t>(*pressure)};
    }
    happens(watch.order.id, looked);
}

void Supervisor::carry_out(const Watch& watch, const action::LookAtLine&) {
    happens(watch.order.id, event::LineLooked{waiting_text(options_.reads, options_.org, watch.order.id)});
}

void Supervisor::carry_out(const Watch& watch, const action::Spawn&) {
    const auto spawned = children_.spawn(watch.order.id, options_.secrets.issue(watch.order.id));
    if (!spawned) happens(watch.order.id, event::NotSpawned{spawned.error()});
}

void Supervisor::carry_out(const Watch& watch, const action::LookAtEnd& look) {
    happens(watch.order.id, look_at_end(look.shim, to_text("run", watch.order.id.value)));
}

void Supervisor::carry_out(const Watch& watch, const action::EndLeftovers& end) {
    const auto tell = hears_of(watch);
    const bool taken = options_.elsewhere(
        [task_queue = task_queue_, end, tell, departure = departure_in(watch, end.shim), shims = known_shims()] {
            const std::string keeper = end_and_find_keeper(end, departure, shims, kill_timeout);
            task_queue->post([tell, keeper] { tell(event::LeftoversLooked{keeper}); });
        });
    if (!taken) tell(event::LeftoversLater{});
}

void Supervisor::carry_out(const Watch& watch, const action::LookAgain& look) {
    timers_.after(look.after, [this, id = watch.order.id] {
        if (const Watch* found = find(id)) happens(id, event::TimePassed{.shim = shim_of(*found)});
    });
}

void Supervisor::carry_out(const Watch& watch, const action::Submit& submit) {
    const core::RunId id = watch.order.id;
    engine::Submission submission;
    submission.command.org = options_.org;
    submission.command.body = submit.body;
    if (submit.question == RunCommandKind::end) submission.command.key = key_of_end(id, watch.order.fence, submit.body);
    submission.on_answer = [task_queue = task_queue_, tell = hears_of(watch),
                            question = submit.question](const engine::SubmitResult& answer) {
        task_queue->post([tell, answered = answered_with(question, answer)] { tell(answered); });
    };
    std::vector<engine::Submission> one;
    one.push_back(std::move(submission));
    options_.submit(std::move(one));
}

void Supervisor::carry_out(const Watch& watch, const action::Tell& tell) {
    const bool launches = std::holds_alternative<shim::LaunchOrder>(tell.message);
    door_->send(tell.connection, tell.message, launches ? places_.take(watch.order.id, watch.order.fence) : shim::Fd());
}

void Supervisor::carry_out(const Watch& watch, const action::TellEnd& tell) {
    const auto row = rows_.run(watch.order.id);
    std::string receipt =
        row && *row ? receipt_of(**row, options_.url()) : to_text("run", watch.order.id.value) + " has ended";
    if (!tell.note.empty()) receipt += "; " + tell.note;
    if (tell.has_run) return door_->send(tell.connection, shim::Done{receipt});
    door_->send(tell.connection, shim::Refused{.why = receipt});
}

void Supervisor::carry_out(const Watch&, const action::WakeShim& wake) {
    if (wake.shim.pid != 0) shim::send_signal({.pid = wake.shim.pid, .start = wake.shim.start}, SIGCONT);
}

void Supervisor::carry_out(const Watch& watch, const action::LookForRemains& look) {
    left_.depart(watch.order.id, look.shim, departure_in(watch, look.shim));
}

void Supervisor::carry_out(const Watch& watch, const action::PublishKeeper& publish) {
    kept_.set(to_text("run", watch.order.id.value), publish.process);
}

void Supervisor::carry_out(const Watch& watch, const action::LogLine& line) {
    const std::string run = to_text("run", watch.order.id.value);
    const auto* text = std::get_if<std::string>(&line.value);
    const LogField field{line.field, text != nullptr ? std::variant<std::int64_t, std::string_view>(*text)
                                                     : std::get<std::int64_t>(line.value)};
    line.field.empty() ? options_.log.line(line.level, line.event, {{"run", run}})
                       : options_.log.line(line.level, line.event, {{"run", run}, field});
}

void Supervisor::carry_out(const Watch& watch, const action::Forget&) {
    const core::RunId id = watch.order.id;
    kept_.set(to_text("run", id.value), "");
    watches_.erase(id.value);
    places_.give_up(id);
    options_.secrets.forget(id);
    options_.close_key(id);
}

std::set<pid_t> Supervisor::known_shims() const {
    std::set<pid_t> shims;
    for (const auto& [id, watch] : watches_) shims.insert(watch.shim.pid);
    for (const auto& [pid, run] : children_.all()) shims.insert(pid);
    return shims;
}

}  // namespace interlock::supervisor
