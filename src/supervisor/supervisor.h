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
// It has a thread of its own, which waits for shims, commits and time, and for nothing else: what blocks is done
// elsewhere.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "core/event.h"
#include "engine/engine.h"
#include "shim/state.h"
#include "store/read_pool.h"
#include "supervisor/held_places.h"
#include "supervisor/inbox.h"
#include "supervisor/kept_places.h"
#include "supervisor/left_places.h"
#include "supervisor/run_directories.h"
#include "supervisor/seen_place.h"
#include "supervisor/shim_door.h"
#include "supervisor/shim_secrets.h"
#include "supervisor/worktree_keeper.h"

namespace interlock::supervisor {

class Supervisor {
 public:
    struct Options {
        core::OrgId org;
        std::string node;
        std::string data_dir;
        std::function<std::string()> url;  // Where runs reach the server.
        std::vector<std::string> environment;
        std::function<void(std::vector<engine::Submission>)> submit;
        store::ReadPool& reads;
        WorktreeKeeper& worktrees;
        ShimSecrets& secrets;
        HeldPlaces& held;
        // Runs what blocks, on another thread; false when there is no room now.
        std::function<bool(std::function<void()>)> elsewhere;
        // The same for looks at directories of users, whose file systems may never answer.
        std::function<bool(std::function<void()>)> look;
        std::function<std::string(const core::Run&)> open_key;  // A key that is good for this run.
        std::function<void(core::RunId)> close_key;
        Log& log;
        // By the wall clock, between the last commit before the start and the start. No server ran during that time.
        std::chrono::microseconds off_for{0};
        std::int64_t log_bytes_max = std::int64_t{256} << 20;  // Of a run's output.
        double memory_pressure_max = 40;                       // Percent; above it nothing is started. 0: never mind.
        std::chrono::hours logs_kept{14 * 24};
        // Whether programs that speak this dialect reach their models through us. Empty: none does.
        std::function<bool(std::string_view dialect)> gateway = {};
        SandboxPolicy sandbox = {};
        std::string socket = {};  // Of the API. Runs have TCP and a key of their own.
        // How much output at a time the run's budgets afford; 0: nothing limits it. Blocks for a read.
        std::function<std::int64_t(const core::Run&)> output_tokens = {};
    };

    // The error is a sentence.
    static Result<std::unique_ptr<Supervisor>, std::string> start(Options options);
    ~Supervisor();
    // Ends its thread. The runs go on.
    void close();

    // Something about runs was committed. From any thread, and cheap; also after close().
    void news();
    // Runs that have no process of their own any more and keep their places, and why. From any thread.
    std::map<std::string, std::string> kept_places() const { return kept_.all(); }

 private:
    using Clock = std::chrono::steady_clock;
    enum class Phase {
        in_line,    // A terminal waits for its run to be admitted.
        held_back,  // The machine is short of memory, or its place is being left.
        preparing,  // Its worktree is being made.
        expected,   // Its shim was started, or is to come back.
        present,    // Its shim is here.
        ending,     // Its end is on the way to the core.
        reaping,    // Its processes are being killed.
    };
    struct Watched {
        core::RunId id;
        std::string text = {};  // The id.
        core::Fence fence = {};
        std::vector<core::Place> places = {};
        shim::Fd directory = {};  // Where it works, once that was looked at and until its shim has it.
        std::int32_t lease_s = 60;
        bool foreground = false;
        bool running = false;  // The core knows that it has started.
        bool paused = false;
        bool launched = false;                    // Its shim was told what to start.
        bool away = false;                        // Stopped in its terminal, with its shim.
        std::vector<core::RunState> echoes = {};  // What its terminal did, and the feed is going to say.
        Phase phase = Phase::expected;
        std::optional<Guest> guest = {};
        shim::State shim = {};
        Clock::time_point heard = {};    // From its shim.
        Clock::time_point renewed = {};  // Its lease.
        Clock::time_point spawned = {};
        Clock::time_point told = {};  // What it waits for.
        // When its shim must have ended it at the latest. A shim that the run stopped does not.
        Clock::time_point deadline = Clock::time_point::max();
        std::optional<Clock::duration> ends_within = {};  // From its start to the deadline; none: it has no timeout.
        std::string stop = {};                            // Why it is to end; empty: it is not.
        bool stop_sent = false;
        std::optional<shim::Message> launch = {};  // Made ready before its shim is here.
        std::optional<shim::Ended> ended = {};     // What its shim said at the end.
        std::string waits = {};                    // What its terminal was told last.
        std::string note = {};                     // Why it has no sandbox, where that was not asked for.
        std::string sandbox = {};                  // The level in force, as its shim says it, and the note.
    };
    explicit Supervisor(Options options) : options_(std::move(options)) {}
    void run();

    // What the rows say.
    bool read_everything();
    void follow_feed();
    void on_event(const core::Event& event);
    void look_up(core::RunId id);
    void take_on(const core::Run& run);
    Result<std::optional<core::Run>, store::ReadError> read_run(core::RunId id);
    std::optional<core::Launch> read_launch(core::RunId id);

    // Directories (supervisor_places.cc).
    void look_at_place(Watched& run);
    void seen_place(core::RunId id, core::Fence fence, SeenPlace& seen);
    void restated(Watched& run, const std::vector<core::Place>& places, const core::RunReply& reply);
    void back_in_line(Watched& run);
    void hold_again(const Watched& run);
    void follow_clients_run(const core::Run& run);
    void follow_places();

    // Starting.
    void begin(Watched& run);
    void begin_held_back();
    void prepare(Watched& run);
    void prepared(core::RunId id, core::Fence fence, core::Run row, core::Process process,
                  Result<WorktreeKeeper::Made, std::string> made);
    void spawn(Watched& run);
    void hand_over(Watched& run);

    // What shims say.
    void hear(const ShimDoor::Heard& heard);
    void greet(const ShimDoor::Heard& heard, const shim::Hello& hello);
    bool is_its_shim(const Watched& run, const ShimDoor::Heard& heard, const shim::Hello& hello);
    void turn_away(Guest guest, shim::Phase phase, const std::optional<core::Run>& row);
    void has_started(Watched& run);
    void put_away(Watched& run, bool away);
    void has_ended(Watched& run);
    void has_left(Guest guest);
    void has_gone(Watched& run);

    // Ending.
    void stop(Watched& run);
    void wake(const Watched& run);
    void finish(core::RunId id, core::CommandBody body);
    void finished(core::RunId id, const engine::Answer& answer, core::CommandBody body);
    void fence_off(core::RunId id, const std::string& why);
    ItsShim its_shim(const Watched& run) const;
    void reap(Watched& run, std::string why, core::RunState outcome = core::RunState::lost);
    void end_rest_and_finish(Watched& run, core::CommandBody end);
    std::set<pid_t> known_shims() const;
    void forget(core::RunId id);

    // Time.
    void look_after();
    void look_after(Watched& run, Clock::time_point now);
    void renew(Watched& run, Clock::time_point now);
    void bury();
    void tell_waiting(Watched& run, Clock::time_point now);
    static Clock::duration patience_with(const Watched& run);
    void clear_up();

    void ask(core::CommandBody body, core::CommandKey key, std::function<void(const engine::Answer&)> then);
    void later(Clock::duration delay, std::function<void()> what);
    Watched* find(core::RunId id);
    std::string home_of(const std::string& run) const { return options_.data_dir + "/runs/" + run; }
    core::CommandKey key_of_end(const Watched& run) const;
    std::string receipt(core::RunId id);

    const Options options_;
    std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
    std::unique_ptr<ShimDoor> door_;
    std::string cgroups_;  // Where groups can be made; empty: nowhere.
    core::Seq cursor_{0};  // Of the feed.
    std::unordered_map<Id, Watched> runs_;
    const RunDirectories directories_{options_.data_dir, options_.logs_kept, options_.off_for};
    LeftPlaces left_{{.elsewhere = options_.elsewhere,
                      .later = [this](auto delay, auto what) { later(delay, std::move(what)); },
                      .shims = [this] { return known_shims(); },
                      .on_free = [this] { begin_held_back(); },
                      .inbox = inbox_,
                      .data_dir = options_.data_dir,
                      .log = options_.log}};
    KeptPlaces kept_;
    std::unordered_set<Id> unfinished_at_start_;
    std::unordered_map<std::uint64_t, core::RunId> by_guest_;
    std::map<pid_t, core::RunId> children_;  // Shims that this process started and has to bury.
    std::multimap<Clock::time_point, std::function<void()>> timers_;
    Clock::time_point looked_ = {};
    Clock::time_point followed_ = {};  // When the feed was read last.
    Clock::time_point cleared_ = {};
    Clock::time_point followed_places_ = {};
    std::atomic<bool> news_ = true;
    std::atomic<bool> stopping_ = false;
    std::thread thread_;
};

}  // namespace interlock::supervisor
