// The supervisor: starts, watches and ends the processes of this node's runs. It carries out what was committed, and
// says to the core what became of it; it decides nothing about who may run.
//
//   (1) The rows are the orders. A run of this node that is starting gets a shim; one that was asked to stop is
//       stopped; one that has ended has no process any more. Whatever is interrupted is found again in the rows.
//   (2) Every live run of this node keeps its lease by the supervisor's heartbeats. A shim that is dead, or silent for
//       as long as the lease, is not trusted: the run's processes are killed, seen to be gone, and only then is the
//       run said to be lost, which gives its place to the next. A run that its shim does not end at its timeout is
//       ended the same way.
//   (3) A run is started once: its shim holds a lock for as long as it lives.
//   (4) A shim whose run is over, or another's, is told so and kills what it holds.
//   (5) A run's end is committed after this server has seen that its shim holds no process, whatever the shim said.
//       Nothing is begun in a place where a process of an earlier run may still be.
//   (6) A run begins in the directory that it claims. It is looked at after the run was granted its place, and goes to
//       the shim as an open descriptor. If the place is another one by now, the core is told so first.
//   (7) A restart of the server ends nothing: shims go on without it and come back to it. A process speaks for a run
//       only with the secret of one of its shims, and only while no other shim of the run lives. The shim of an earlier
//       release has no secret, and is known by process id, start time and boot.
//
// watch.h decides what is done for each run, from what happened to it. This class tells it what happened, and carries
// out what it decided. It has a thread of its own, which waits for shims, commits and time, and for nothing else: what
// blocks is done elsewhere.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "supervisor/kept_places.h"
#include "supervisor/launch_maker.h"
#include "supervisor/left_places.h"
#include "supervisor/options.h"
#include "supervisor/run_directories.h"
#include "supervisor/run_orders.h"
#include "supervisor/run_places.h"
#include "supervisor/run_rows.h"
#include "supervisor/shim_children.h"
#include "supervisor/shim_listener.h"
#include "supervisor/task_queue.h"
#include "supervisor/timers.h"
#include "supervisor/watch.h"

namespace interlock::supervisor {

class Supervisor {
 public:
    using Options = SupervisorOptions;

    // The error is a sentence.
    static Result<std::unique_ptr<Supervisor>, std::string> start(Options options);
    ~Supervisor();
    // Ends its thread. The runs go on.
    void close();

    // Something about runs was committed. From any thread, and cheap; also after close().
    void on_commit();
    // Runs that have no process of their own any more and keep their places, and why. From any thread.
    std::map<std::string, std::string> kept_places() const { return kept_.all(); }

 private:
    using Clock = Timers::Clock;

    explicit Supervisor(Options options) : options_(std::move(options)) {}
    void run();

    // What the rows, shims and time say.
    void found(const event::Found& found);
    void left_over(core::RunId run, const shim::ShimState& shim, std::vector<core::Place> places);
    void follow_feed();
    void on_shim_message(ShimListener::Heard& heard);
    void on_hello(const ShimListener::Heard& heard, const shim::Hello& hello);
    void reap_children();
    void check_runs();

    // What happened to a run that is watched, and what follows from it. settle() carries out what it decided.
    void happens(core::RunId id, WatchEvent event);
    std::function<void(WatchEvent)> hears_of(const Watch& watch);
    void settle();
    void apply(Watch& watch, Step step);

    void carry_out(const Watch& watch, const action::LookForRoom&);
    void carry_out(const Watch& watch, const action::LookAtLine&);
    void carry_out(const Watch& watch, const action::LookAtPlace&) { places_.look(watch.order, hears_of(watch)); }
    void carry_out(const Watch& watch, const action::Prepare&) { launches_.make(watch.order, hears_of(watch)); }
    void carry_out(const Watch& watch, const action::Spawn&);
    void carry_out(const Watch& watch, const action::HoldAgain& hold) { places_.hold_again(watch.order, hold.process); }
    void carry_out(const Watch& watch, const action::GiveUpPlace&) { places_.give_up(watch.order.id); }
    void carry_out(const Watch& watch, const action::DropShims& drop) { children_.drop(watch.order.id, drop.waiting); }
    void carry_out(const Watch& watch, const action::LookAtEnd& look);
    void carry_out(const Watch& watch, const action::EndLeftovers& end);
    void carry_out(const Watch& watch, const action::LookAgain& look);
    void carry_out(const Watch& watch, const action::Submit& submit);
    void carry_out(const Watch& watch, const action::Tell& tell);
    void carry_out(const Watch& watch, const action::TellEnd& tell);
    void carry_out(const Watch&, const action::Admit& admit) { door_->admit(admit.connection); }
    void carry_out(const Watch&, const action::ShowOut& out) { door_->show_out(out.connection); }
    void carry_out(const Watch&, const action::WakeShim& wake);
    void carry_out(const Watch& watch, const action::KeepPlaces& keep) { left_.keep(watch.order.id, keep.places); }
    void carry_out(const Watch& watch, const action::LookForRemains& look);
    void carry_out(const Watch& watch, const action::SeeGone& see) {
        left_.see_gone(watch.order.id, see.shim, see.its_shim);
    }
    void carry_out(const Watch& watch, const action::PublishKeeper& publish);
    void carry_out(const Watch& watch, const action::LogLine& line);
    void carry_out(const Watch& watch, const action::Forget&);

    ShimSeen shim_of(const Watch& watch) const;
    Watch* find(core::RunId id);
    std::optional<core::Fence> fence_of(core::RunId id);
    std::set<pid_t> known_shims() const;
    std::string home_of(core::RunId run) const { return options_.data_dir + "/runs/" + to_text("run", run.value); }

    const Options options_;
    const RunRows rows_{options_.reads, options_.org, options_.node};
    std::shared_ptr<TaskQueue> task_queue_ = std::make_shared<TaskQueue>();
    std::unique_ptr<ShimListener> door_;
    std::string cgroups_;  // Where groups can be made; empty: nowhere.
    std::unordered_map<Id, Watch> watches_;
    struct Happened {
        core::RunId run;
        WatchEvent event;
    };
    std::deque<Happened> happened_;
    Timers timers_;
    const RunDirectories directories_{options_.data_dir, options_.logs_kept, options_.off_for};
    RunPlaces places_{options_, task_queue_};
    LaunchMaker launches_{options_, rows_, places_, task_queue_};
    ShimChildren children_{options_.data_dir};
    LeftPlaces left_{{.elsewhere = options_.elsewhere,
                      .later = [this](auto delay, auto what) { timers_.after(delay, std::move(what)); },
                      .shims = [this] { return known_shims(); },
                      .on_free =
                          [this] {
                              for (const auto& [id, watch] : watches_) happens(core::RunId(id), event::PlacesFreed{});
                          },
                      .task_queue = task_queue_,
                      .data_dir = options_.data_dir,
                      .log = options_.log}};
    RunOrders orders_{options_,
                      rows_,
                      {.watched = [this](core::RunId id) { return fence_of(id); },
                       .found = [this](const event::Found& each) { found(each); },
                       .happens = [this](core::RunId id, WatchEvent event) { happens(id, std::move(event)); },
                       .clients_run = [this](const core::Run& row) { places_.take_up(row); },
                       .settle = [this] { settle(); },
                       .left_over = [this](auto id, const auto& shim, auto places) { left_over(id, shim, places); },
                       .later = [this](auto delay, auto what) { timers_.after(delay, std::move(what)); }}};
    KeptPlaces kept_;
    std::unordered_map<std::uint64_t, core::RunId> by_connection_;
    Clock::time_point looked_ = {};
    Clock::time_point followed_ = {};  // When the feed was read last.
    Clock::time_point cleared_ = {};
    std::atomic<bool> committed_ = true;
    std::atomic<bool> stopping_ = false;
    std::thread thread_;
};

}  // namespace interlock::supervisor
