#include "supervisor/supervisor.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "core/feed.h"
#include "shim/process.h"
#include "store/read_rows.h"
#include "supervisor/host_facts.h"
#include "supervisor/launching.h"
#include "supervisor/leftovers.h"
#include "supervisor/place_check.h"
#include "supervisor/run_end.h"
#include "supervisor/spawn_shim.h"
#include "supervisor/waiting.h"

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto look_every = 250ms;
// Most of what is committed is money, and none of the supervisor's business: it reads the feed in pieces of this length
// at least. Whoever comes after a pause is not kept waiting.
constexpr auto follow_every = 2ms;
constexpr auto shim_comes_within = 30s;  // Of being started.
constexpr auto terminal_back_within = 10s;
constexpr auto shim_back_within = 5s;  // It tries every second.
constexpr auto tell_waiting_every = 1s;
constexpr auto reap_patience = 10s;
constexpr auto follow_places_every = 5s;  // Besides when something is admitted or begins.
constexpr std::size_t pages_per_read = 256;

shim::Ended end_in(const shim::State& state) { return {.how = state.how, .code = state.code, .detail = state.detail}; }

}  // namespace

// ---- the thread ---------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Supervisor>, std::string> Supervisor::start(Options options) {
    std::unique_ptr<Supervisor> supervisor(new Supervisor(std::move(options)));
    const std::string& data_dir = supervisor->options_.data_dir;
    ::mkdir((data_dir + "/runs").c_str(), 0700);
    auto door = ShimDoor::open(data_dir);
    if (!door) return fail(door.error());
    supervisor->door_ = std::move(*door);
    supervisor->cgroups_ = make_cgroup_parent(cgroup_name(data_dir));
    supervisor->inbox_->open([door = supervisor->door_.get()] { door->wake(); });
    supervisor->thread_ = std::thread([self = supervisor.get()] { self->run(); });
    return supervisor;
}

Supervisor::~Supervisor() { close(); }

void Supervisor::close() {
    if (stopping_.exchange(true)) return;
    inbox_->close();
    if (door_) door_->wake();
    if (thread_.joinable()) thread_.join();
    if (!cgroups_.empty()) ::rmdir(cgroups_.c_str());  // Only if no run is in it.
}

void Supervisor::news() {
    if (!news_.exchange(true)) door_->wake();
}

void Supervisor::run() {
    while (!stopping_ && !read_everything()) std::this_thread::sleep_for(look_every);
    while (!stopping_) {
        // 1. Wait for shims, commits, answers and time.
        const auto now = Clock::now();
        auto until = std::max(now, looked_ + look_every);
        if (!timers_.empty()) until = std::min(until, std::max(now, timers_.begin()->first));
        if (news_) until = std::min(until, std::max(now, followed_ + follow_every));
        const auto timeout = std::chrono::ceil<std::chrono::milliseconds>(until - now);
        door_->set_live_runs(runs_.size());
        for (const ShimDoor::Heard& heard : door_->wait(timeout)) hear(heard);

        // 2. What others left to do, and what is due.
        for (const Inbox::Job& job : inbox_->take()) job();
        while (!timers_.empty() && timers_.begin()->first <= Clock::now()) {
            const auto due = timers_.extract(timers_.begin());
            due.mapped()();
        }

        // 3. What was committed.
        if (Clock::now() >= followed_ + follow_every && news_.exchange(false)) {
            follow_feed();
            followed_ = Clock::now();
        }

        // 4. What time alone brings.
        if (Clock::now() >= looked_ + look_every) look_after();
    }
}

void Supervisor::ask(core::CommandBody body, core::CommandKey key, std::function<void(const engine::Answer&)> then) {
    engine::Submission submission;
    submission.command = {.org = options_.org, .key = key, .body = std::move(body)};
    submission.on_answer = [inbox = inbox_, then = std::move(then)](engine::Answer answer) {
        inbox->post([then, answer = std::move(answer)] { then(answer); });
    };
    std::vector<engine::Submission> one;
    one.push_back(std::move(submission));
    options_.submit(std::move(one));
}

void Supervisor::later(Clock::duration delay, std::function<void()> what) {
    timers_.emplace(Clock::now() + delay, std::move(what));
}

Supervisor::Watched* Supervisor::find(core::RunId id) {
    const auto found = runs_.find(id.value);
    return found == runs_.end() ? nullptr : &found->second;
}

// ---- what the rows say --------------------------------------------------------------------------------------------

// At the start: every run of this node that has not ended, and how far the feed goes.
bool Supervisor::read_everything() {
    std::vector<core::Run> unfinished;
    const auto head = options_.reads.with([&](store::Snapshot& snapshot) -> Result<std::int64_t, store::ReadError> {
        auto runs = store::read_rows<core::Run>(
            snapshot, options_.org,
            "and state in ('queued', 'starting', 'running', 'paused') and (supervised = 1 and node = $2 or "
            "supervised = 0 and state <> 'queued')",
            {options_.node});
        if (!runs) return fail(runs.error());
        unfinished = std::move(*runs);
        return store::read_number(snapshot, options_.org, "select max(last_seq) from feed_pages where org = $1");
    });
    if (!head) return false;
    cursor_ = core::Seq(*head);

    // What an earlier server, or another node, gave up while nobody was here to end it. Who only waits comes by itself,
    // and is told.
    std::set<std::string> known;
    for (const core::Run& run : unfinished) known.insert(to_text("run", run.id.value));
    for (const auto& [name, state] : directories_.unfinished_but(known)) {
        const auto id = id_from_text("run", name);
        if (!id) continue;
        const auto row = read_run(core::RunId(*id));
        if (!row) return false;
        options_.log.warn("run_left_over", {{"run", name}});
        left_.keep(core::RunId(*id), *row ? (*row)->wanted : std::vector<core::Place>());
        left_.see_gone(core::RunId(*id), state, ItsShim::spared);
    }
    for (const core::Run& run : unfinished) {
        if (!run.supervised) follow_clients_run(run);
        if (!run.supervised) continue;
        unfinished_at_start_.insert(run.id.value);
        take_on(run);
    }
    options_.held.all_are_expected();
    return true;
}

void Supervisor::follow_feed() {
    while (!stopping_) {
        const auto pages = options_.reads.with([&](store::Snapshot& snapshot) {
            return store::read_rows<core::FeedPage>(snapshot, options_.org,
                                                    "and last_seq > $2 order by last_seq limit $3",
                                                    {cursor_.value, static_cast<std::int64_t>(pages_per_read)});
        });
        if (!pages) return later(100ms, [this] { news_ = true; });
        for (const core::FeedPage& page : *pages) {
            const auto events = core::events_of(page);
            for (const core::Event& event : events.value_or(std::vector<core::Event>())) on_event(event);
            cursor_ = page.last_seq;
        }
        if (pages->size() < pages_per_read) return;
    }
}

void Supervisor::on_event(const core::Event& event) {
    if (const auto* changed = std::get_if<core::RunChanged>(&event)) {
        Watched* run = find(changed->run);
        if (changed->state == core::RunState::starting) {
            look_up(changed->run);
        } else if (run != nullptr && changed->state == core::RunState::queued) {
            const auto row = run->phase == Phase::in_line ? std::nullopt : read_run(run->id).value_or(std::nullopt);
            if (row && row->fence != run->fence) back_in_line(*run);
        } else if (run != nullptr && changed->state != core::RunState::queued) {
            const bool pauses = changed->state == core::RunState::paused;
            // What its terminal did is told back to us, and is done already.
            if (std::erase(run->echoes, changed->state) > 0 || run->away) return;
            if (pauses != run->paused && run->guest) {
                pauses ? door_->send(*run->guest, shim::Pause{}) : door_->send(*run->guest, shim::Resume{});
            }
            run->paused = pauses;
        }
    } else if (const auto* stopped = std::get_if<core::RunStopRequested>(&event)) {
        Watched* run = find(stopped->run);
        if (run == nullptr) return;
        run->stop = stopped->reason;
        stop(*run);
    } else if (const auto* ended = std::get_if<core::RunEnded>(&event)) {
        Watched* run = find(ended->run);
        if (run == nullptr) options_.held.give_up(ended->run);
        if (run == nullptr) return options_.secrets.forget(ended->run);
        if (run->phase == Phase::ending || run->phase == Phase::reaping) return;
        if (run->phase == Phase::in_line) {
            if (run->guest) door_->send(*run->guest, shim::Refused{.why = "the run has ended: " + ended->reason});
            return forget(ended->run);
        }
        fence_off(ended->run, ended->reason);
    }
}

Result<std::optional<core::Run>, store::ReadError> Supervisor::read_run(core::RunId id) {
    return options_.reads.with(
        [&](store::Snapshot& snapshot) { return store::read_row<core::Run>(snapshot, options_.org, id.value); });
}

std::optional<core::Launch> Supervisor::read_launch(core::RunId id) {
    auto row = options_.reads.with(
        [&](store::Snapshot& snapshot) { return store::read_row<core::Launch>(snapshot, options_.org, id.value); });
    return row ? std::move(*row) : std::nullopt;
}

// Until its rows can be read: an order that is not heard is not carried out.
void Supervisor::look_up(core::RunId id) {
    const auto row = read_run(id);
    if (!row) return later(200ms, [this, id] { look_up(id); });
    if (*row) (*row)->supervised ? take_on(**row) : follow_clients_run(**row);
}

// From now on this run is looked after, from wherever it stands.
void Supervisor::take_on(const core::Run& row) {
    if (!row.supervised || row.node != options_.node || core::has_ended(row.state)) return;
    Watched* known = find(row.id);
    if (known != nullptr && known->fence == row.fence) return;
    const auto launch = read_launch(row.id);
    if (!launch) return later(200ms, [this, id = row.id] { look_up(id); });
    const bool queued = row.state == core::RunState::queued;
    if (queued && !launch->process.foreground) return;

    Watched& run = runs_[row.id.value];
    run.id = row.id;
    run.text = to_text("run", row.id.value);
    run.fence = row.fence;
    run.places = row.wanted;
    run.lease_s = row.lease_s;
    run.foreground = launch->process.foreground;
    run.running = row.state == core::RunState::running || row.state == core::RunState::paused;
    run.paused = row.state == core::RunState::paused;
    run.stop = row.stop_requested;
    run.ends_within = ends_within(launch->process);
    run.heard = run.renewed = run.spawned = Clock::now();
    run.phase = queued ? Phase::in_line : Phase::expected;
    if (queued) return;

    (void)options_.open_key(row);  // The process of an earlier server's run has it already.
    const auto state = shim::read_state(home_of(run.text));
    if (state && state->phase == shim::Phase::ended) {
        run.shim = *state;
        run.ended = end_in(*state);
        return has_ended(run);
    }
    const bool this_boot = state && state->boot == shim::boot_id();
    if (state && state->phase == shim::Phase::running && !this_boot) {
        run.phase = Phase::ending;
        return finish(row.id, core::LoseRun{row.id, row.fence, "the machine was restarted while it ran"});
    }
    if (this_boot && run.shim.pid == 0) run.shim = *state;
    if (this_boot && state->phase == shim::Phase::running) {
        if (!shim_is_alive(*state)) return has_gone(run);
        if (run.ends_within) run.deadline = Clock::now() - age_of_process(state->child_start) + *run.ends_within;
        hold_again(run);
        const auto shim = shim::look_at(state->pid);
        run.away = run.foreground && run.paused && shim && shim->state == 'T';
        return;  // It will come by itself.
    }
    if (run.running) return reap(run, "nothing is known of its process");
    begin(run);
}

// ---- starting -----------------------------------------------------------------------------------------------------

void Supervisor::begin(Watched& run) {
    if (!run.stop.empty()) {
        run.phase = Phase::preparing;  // There is no shim that could hear of it.
        return stop(run);
    }
    if (left_.include(run.places)) {
        run.phase = Phase::held_back;
        return;
    }
    const auto pressure = options_.memory_pressure_max > 0 ? memory_pressure() : std::nullopt;
    if (pressure && *pressure > options_.memory_pressure_max) {
        if (run.phase != Phase::held_back) {
            options_.log.warn("run_held_back", {{"run", run.text}, {"memory_pressure", std::int64_t(*pressure)}});
        }
        run.phase = Phase::held_back;
        return;
    }
    look_at_place(run);
}

void Supervisor::prepare(Watched& run) {
    run.phase = Phase::preparing;
    const auto found = read_run(run.id);
    auto row = found ? *found : std::nullopt;
    auto launch = read_launch(run.id);
    if (!row || !launch) {
        return later(100ms, [this, id = run.id] {
            if (Watched* again = find(id); again != nullptr && again->phase == Phase::preparing) prepare(*again);
        });
    }
    core::Process& process = launch->process;
    if (!row->isolated) {
        WorktreeKeeper::Made made;
        const auto place = std::ranges::find(run.places, core::ClaimKind::workspace, &core::Place::kind);
        made.directory = place != run.places.end() ? place->path : process.directory;
        return prepared(run.id, run.fence, std::move(*row), std::move(process), std::move(made));
    }
    const core::RunId id = run.id;
    const core::Fence fence = run.fence;
    const bool taken = options_.elsewhere(
        [this, inbox = inbox_, &keeper = options_.worktrees, id, fence, row = *row, process = process] {
            const std::string moved = moved_repository(process.directory);
            auto made = moved.empty() ? keeper.make(id, process.directory) : fail(moved);
            inbox->post(
                [this, id, fence, row, process, made = std::move(made)] { prepared(id, fence, row, process, made); });
        });
    if (taken) return;
    later(100ms, [this, id] {
        if (Watched* again = find(id); again != nullptr && again->phase == Phase::preparing) prepare(*again);
    });
}

// The place is ready, or cannot be made.
void Supervisor::prepared(core::RunId id, core::Fence fence, core::Run row, core::Process process,
                          Result<WorktreeKeeper::Made, std::string> made) {
    Watched* run = find(id);
    if (run == nullptr || run->fence != fence || run->phase != Phase::preparing) return;
    if (!made) {
        run->phase = Phase::ending;
        return finish(
            id, core::FinishRun{id, fence, core::RunState::failed, "no worktree could be made: " + made.error(), {}});
    }
    const std::string home = home_of(run->text);
    std::error_code error;
    fs::create_directory(home, error);
    ::chmod(home.c_str(), 0700);
    if (made->directory.empty()) {
        made->directory = home + "/work";
        fs::create_directory(made->directory, error);
    }
    if (row.isolated) run->directory = hold_worktree(options_.held, id, fence, run->places, made->directory);
    const auto sandbox = decide_sandbox(process, options_.sandbox);
    if (!sandbox) {
        run->phase = Phase::ending;
        return finish(id, core::FinishRun{id, fence, core::RunState::failed, sandbox.error(), {}});
    }
    run->note = sandbox->note;
    const std::int64_t lease_ms = std::int64_t{run->lease_s} * 1000;
    const shim::Adapter* adapter = adapter_of(process);
    const bool gateway = adapter != nullptr && options_.gateway && options_.gateway(adapter->dialect);
    if (gateway && !adapter->gateway_file_name.empty()) {
        const fs::path file = fs::path(home) / adapter->gateway_file_name;
        fs::create_directories(file.parent_path(), error);
        std::ofstream(file) << adapter->gateway_file;
    }
    run->launch =
        launch_message(row, process,
                       {.home = home,
                        .directory = made->directory,
                        .directory_is_held = static_cast<bool>(run->directory),
                        .environment = options_.environment,
                        .url = options_.url(),
                        .key = options_.open_key(row),
                        .port_base = made->port_base,
                        .sandbox = *sandbox,
                        .hidden = {options_.data_dir, options_.socket},
                        .writable = made->writable,
                        .readable = made->readable,
                        .in_worktree = row.isolated,
                        .cgroup = cgroups_.empty() ? "" : cgroups_ + "/" + run->text,
                        .log_bytes_max = options_.log_bytes_max,
                        .beat_ms = std::clamp<std::int64_t>(lease_ms / 6, 100, 5'000),
                        .gateway = gateway,
                        .output_tokens = gateway && options_.output_tokens ? options_.output_tokens(row) : 0});
    if (shim::encode(*run->launch).size() > shim::message_bytes_max) {
        run->phase = Phase::ending;
        return finish(
            id, core::FinishRun{id, fence, core::RunState::failed, "its command and environment are too large", {}});
    }
    run->phase = Phase::expected;
    run->heard = run->spawned = Clock::now();  // To make its place may have taken a while.
    if (run->guest) return hand_over(*run);
    if (!run->foreground) spawn(*run);
}

void Supervisor::spawn(Watched& run) {
    run.spawned = Clock::now();
    const auto child = spawn_shim(options_.data_dir, run.text, options_.secrets.issue(run.id));
    if (child) {
        children_.emplace(*child, run.id);
        return;
    }
    options_.log.error("shim_not_started", {{"run", run.text}, {"why", child.error()}});
    run.phase = Phase::ending;
    finish(run.id,
           core::FinishRun{
               run.id, run.fence, core::RunState::failed, "its shim could not be started: " + child.error(), {}});
}

void Supervisor::hand_over(Watched& run) {
    door_->send(*run.guest, shim::LaunchOrder{*run.launch}, run.directory);
    run.directory.reset();  // The shim has it, and `held`.
    run.launch.reset();     // The key is in it.
    run.launched = true;
    if (run.ends_within) run.deadline = Clock::now() + *run.ends_within;
    run.phase = Phase::present;
}

// ---- what shims say -----------------------------------------------------------------------------------------------

void Supervisor::hear(const ShimDoor::Heard& heard) {
    if (!heard.message) return has_left(heard.guest);
    if (const auto* hello = std::get_if<shim::Hello>(&*heard.message)) return greet(heard, *hello);
    const auto whose = by_guest_.find(heard.guest.value);
    Watched* run = whose == by_guest_.end() ? nullptr : find(whose->second);
    if (run == nullptr) {
        // Who greets with an end has been answered.
        if (!std::holds_alternative<shim::Ended>(*heard.message))
            door_->send(heard.guest, shim::Fenced{"the run is over"});
        return;
    }
    run->heard = Clock::now();
    if (const auto* started = std::get_if<shim::Started>(&*heard.message)) {
        run->shim.child_pid = started->child_pid;
        run->shim.child_start = started->child_start;
        if (!started->note.empty()) options_.log.info("run_note", {{"run", run->text}, {"note", started->note}});
        // A shim from before the levels does not say one.
        run->sandbox = started->level.empty() ? "unknown: the shim is of an older version" : started->level;
        if (!run->note.empty()) run->sandbox += ": " + run->note;
        has_started(*run);
    } else if (run->foreground && std::holds_alternative<shim::Paused>(*heard.message)) {
        put_away(*run, true);
    } else if (run->foreground && std::holds_alternative<shim::Resumed>(*heard.message)) {
        put_away(*run, false);
    } else if (const auto* ended = std::get_if<shim::Ended>(&*heard.message)) {
        if (run->phase == Phase::reaping || run->phase == Phase::ending) return;
        // A process may have taken a descriptor of its shim's connection.
        if (options_.secrets.check(run->id, ended->secret) == ShimSecrets::Verdict::refused) {
            return options_.log.warn("end_refused", {{"run", run->text}});
        }
        run->ended = *ended;
        has_ended(*run);
    }
}

void Supervisor::greet(const ShimDoor::Heard& heard, const shim::Hello& hello) {
    const auto id = id_from_text("run", hello.run);
    if (!id || hello.pid != heard.process) return door_->show_out(heard.guest);
    const core::RunId run_id(*id);
    Watched* run = find(run_id);
    if (run == nullptr) {
        const auto row = read_run(run_id);
        if (!row) return door_->show_out(heard.guest);  // Not to be known now. It comes back.
        if (*row) take_on(**row);
        run = find(run_id);
        if (run == nullptr) return turn_away(heard.guest, hello.phase, *row);
    }
    if (!is_its_shim(*run, heard, hello)) return door_->show_out(heard.guest);
    if (run->phase == Phase::reaping) return door_->send(heard.guest, shim::Fenced{"the run was given up"});
    door_->admit(heard.guest);
    if (run->guest && *run->guest != heard.guest) {
        by_guest_.erase(run->guest->value);
        door_->show_out(*run->guest);
    }
    run->guest = heard.guest;
    by_guest_[heard.guest.value] = run_id;
    run->heard = Clock::now();
    run->shim.pid = heard.process;
    run->shim.start = shim::start_time(heard.process);
    run->shim.boot = shim::boot_id();
    run->shim.run = run->text;
    run->shim.child_pid = hello.child_pid;
    run->shim.child_start = hello.child_start;
    if (!cgroups_.empty()) run->shim.cgroup = cgroups_ + "/" + run->text;

    if (hello.phase == shim::Phase::waiting) {
        if (run->phase == Phase::in_line) return tell_waiting(*run, run->heard);
        if (run->running) return fence_off(run_id, "the run is already running elsewhere");
        if (!run->stop.empty()) return stop(*run);
        if (run->launch) return hand_over(*run);
        // The server was away between starting it and now, or the launch did not reach it.
        if (run->phase == Phase::expected || run->phase == Phase::present) begin(*run);
        return;
    }
    if (run->phase == Phase::ending) return;
    run->phase = Phase::present;
    if (hello.phase == shim::Phase::running && !run->running) has_started(*run);
    if (run->away) put_away(*run, false);
    run->stop_sent = false;
    if (!run->stop.empty()) stop(*run);
    if (run->paused) door_->send(heard.guest, shim::Pause{});
}

bool Supervisor::is_its_shim(const Watched& run, const ShimDoor::Heard& heard, const shim::Hello& hello) {
    const bool known = run.shim.pid == heard.process && run.shim.start == shim::start_time(heard.process);
    const auto verdict = options_.secrets.check(run.id, hello.secret);
    // Only a run that an earlier server has begun may have a shim without a secret.
    const bool of_earlier_release = verdict == ShimSecrets::Verdict::none_issued &&
                                    unfinished_at_start_.contains(run.id.value) && (known || run.foreground);
    if (verdict != ShimSecrets::Verdict::proven && !of_earlier_release) {
        options_.log.warn("shim_refused", {{"run", run.text}, {"process", std::int64_t{heard.process}}});
        if (hello.version < shim::protocol_version && hello.phase == shim::Phase::waiting) {
            door_->send(
                heard.guest,
                shim::Refused{.why = "the run cannot be held here: this program is of an older release than the "
                                     "server; start the run with the server's release"});
        }
        return false;
    }
    // A run has one shim, and as long as that lives no other process speaks for the run.
    return known || !shim_is_alive(run.shim);
}

// Nothing is to be done for this run, so its shim is not needed.
void Supervisor::turn_away(Guest guest, shim::Phase phase, const std::optional<core::Run>& row) {
    const bool ours = row && row->supervised && row->node == options_.node;
    if (ours && !core::has_ended(row->state)) return door_->show_out(guest);  // Its launch could not be read.
    if (phase == shim::Phase::waiting) {
        const std::string why = row && !row->reason.empty() ? ": " + row->reason : "";
        return door_->send(guest, shim::Refused{.why = "the run has ended" + why});
    }
    if (phase == shim::Phase::ended && row) return door_->send(guest, shim::Done{receipt_of(*row, options_.url())});
    door_->send(guest, shim::Fenced{"the run is over"});
}

void Supervisor::has_started(Watched& run) {
    ask(core::StartRun{run.id, run.fence, bounded(run.sandbox)}, {},
        [this, id = run.id, fence = run.fence](const engine::Answer& answer) {
            Watched* run = find(id);
            if (run == nullptr || run->fence != fence || run->phase != Phase::present) return;
            if (!answer) {
                return later(200ms, [this, id] {
                    if (Watched* again = find(id); again != nullptr && !again->running) has_started(*again);
                });
            }
            const auto* reply = std::get_if<core::RunReply>(&answer->reply);
            // Paused is what has been started.
            const bool started = reply != nullptr && (reply->status == core::RunStatus::done ||
                                                      reply->status == core::RunStatus::wrong_state);
            if (!started) return fence_off(id, "the run is over");
            run->running = true;
            if (!reply->stop_requested.empty() && run->stop.empty()) {
                run->stop = reply->stop_requested;
                stop(*run);
            }
        });
}

// Somebody has stopped the job in its terminal, shim and all: it says nothing until it is brought back.
void Supervisor::put_away(Watched& run, bool away) {
    if (run.paused == away) return;
    run.paused = run.away = away;
    const core::RunState becomes = away ? core::RunState::paused : core::RunState::running;
    run.echoes.push_back(becomes);
    const auto heard = [this, id = run.id, becomes](const engine::Answer& answer) {
        const auto* reply = answer ? std::get_if<core::RunReply>(&answer->reply) : nullptr;
        Watched* found = find(id);
        if (found != nullptr && (reply == nullptr || reply->status != core::RunStatus::done)) {
            std::erase(found->echoes, becomes);  // Nothing will be told.
        }
    };
    if (away) {
        ask(core::PauseRun{run.id, run.fence}, {}, heard);
    } else {
        ask(core::ResumeRun{run.id, run.fence}, {}, heard);
    }
}

// Its place is given on only after this server has seen for itself that nothing of it is left, whatever was said.
void Supervisor::has_ended(Watched& run) {
    const core::CommandBody end = end_of(run.id, run.fence, run.foreground, run.stop, *run.ended);
    const bool this_boot = run.shim.boot == shim::boot_id();
    if (this_boot && !shim_is_alive(run.shim)) return end_rest_and_finish(run, end);
    const auto held = this_boot ? still_held(run.shim, run.text) : std::nullopt;
    if (held) {
        return reap(run, fmt::format("its shim said that it had ended, but {} was still there", *held),
                    core::RunState::failed);
    }
    run.phase = Phase::ending;
    finish(run.id, end);
}

// A connection has ended. A shim that lives comes back; a terminal that waited has been closed.
void Supervisor::has_left(Guest guest) {
    const auto whose = by_guest_.find(guest.value);
    Watched* run = whose == by_guest_.end() ? nullptr : find(whose->second);
    if (whose != by_guest_.end()) by_guest_.erase(whose);
    if (run == nullptr || run->guest != guest) return bury();
    run->guest.reset();
    if (run->phase == Phase::in_line) {
        ask(core::CancelRun{run->id, {}, "its terminal was closed", {}}, {}, [](const engine::Answer&) {});
        return forget(run->id);
    }
    if (run->phase == Phase::ending || run->phase == Phase::reaping || shim_is_alive(run->shim)) return;
    has_gone(*run);
}

// Its shim is dead.
void Supervisor::has_gone(Watched& run) {
    const auto state = shim::read_state(home_of(run.text));
    if (state && state->phase == shim::Phase::ended) {
        run.ended = end_in(*state);
        return has_ended(run);
    }
    const bool began = state && state->phase == shim::Phase::running;
    if (began && run.shim.child_pid == 0) {  // It was killed before it could say so.
        run.shim.child_pid = state->child_pid;
        run.shim.child_start = state->child_start;
    }
    if (run.running || run.launched || began) {
        return reap(run, fmt::format("its shim (process {}) was killed", run.shim.pid));
    }
    if (run.foreground) {
        run.phase = Phase::ending;
        return finish(run.id, core::CancelRun{run.id, run.fence, "its terminal was closed", {}});
    }
    // Nothing was started, so another can.
    run.shim = {};
    if (run.phase == Phase::expected && run.launch) spawn(run);
}

// ---- ending -------------------------------------------------------------------------------------------------------

void Supervisor::stop(Watched& run) {
    switch (run.phase) {
        case Phase::in_line:
        case Phase::ending:
        case Phase::reaping:
            return;
        case Phase::present:
            if (run.guest && !run.stop_sent) door_->send(*run.guest, shim::Stop{run.stop});
            run.stop_sent = run.guest.has_value();
            wake(run);
            return;
        case Phase::expected:
            wake(run);
            // It hears of it when it comes.
            if (run.running || run.shim.child_pid != 0 || (!run.guest && !run.foreground)) return;
            [[fallthrough]];
        case Phase::held_back:
        case Phase::preparing:
            // There is no process yet, and there will be none.
            if (run.guest) door_->send(*run.guest, shim::Refused{.why = "the run was stopped: " + run.stop});
            run.phase = Phase::ending;
            finish(run.id, core::CancelRun{run.id, run.fence, run.stop, {}});
            return;
    }
}

// What stands still in its terminal hears nothing.
void Supervisor::wake(const Watched& run) {
    if (run.away) shim::send_signal({.pid = run.shim.pid, .start = run.shim.start}, SIGCONT);
}

core::CommandKey Supervisor::key_of_end(const Watched& run) const {
    return core::CommandKey(id_from_hash(fmt::format("end of {} {}", run.text, run.fence.value)));
}

void Supervisor::finish(core::RunId id, core::CommandBody body) {
    Watched* run = find(id);
    if (run == nullptr) return;
    const bool lost = std::holds_alternative<core::LoseRun>(body);
    // Before the commit: the next run in its place must not begin before the look at what it left.
    if (run->shim.child_pid != 0 && !departure_of(run->text, run->shim, run->places).directories.empty())
        left_.keep(id, run->places);
    bound_reason(body);
    // Losing has no key: somebody else may have said how it ended under the one there is.
    ask(body, lost ? core::CommandKey() : key_of_end(*run),
        [this, id, body](const engine::Answer& answer) { finished(id, answer, body); });
}

void Supervisor::finished(core::RunId id, const engine::Answer& answer, core::CommandBody body) {
    Watched* run = find(id);
    if (run == nullptr) return;
    if (!answer && answer.error() != engine::SubmitError::key_reused) {
        return later(200ms, [this, id, body = std::move(body)] { finish(id, body); });
    }
    const auto* reply = answer ? std::get_if<core::RunReply>(&answer->reply) : nullptr;
    const bool done = reply != nullptr && reply->status == core::RunStatus::done;
    if (run->phase == Phase::reaping || std::holds_alternative<core::LoseRun>(body) || (!done && run->ended)) {
        // Nothing is left of it.
        if (run->guest) door_->send(*run->guest, shim::Fenced{"the run is over"});
        // The run had stopped its shim: it goes on, hears that, and ends.
        if (!std::holds_alternative<core::LoseRun>(body)) {
            shim::send_signal({.pid = run->shim.pid, .start = run->shim.start}, SIGCONT);
        }
        left_.depart(id, run->shim, departure_of(run->text, run->shim, run->places));
        return forget(id);
    }
    if (!done) return fence_off(id, "the run is over");
    // Who has not said that it has ended has not begun.
    if (run->guest && run->ended) door_->send(*run->guest, shim::Done{receipt(id)});
    if (run->guest && !run->ended) door_->send(*run->guest, shim::Refused{.why = receipt(id)});
    left_.depart(id, run->shim, departure_of(run->text, run->shim, run->places));
    forget(id);
}

// The run is not ours any more, whatever its shim believes.
void Supervisor::fence_off(core::RunId id, const std::string& why) {
    Watched* run = find(id);
    if (run == nullptr) return;
    if (run->guest) door_->send(*run->guest, shim::Fenced{why});
    left_.keep(id, std::move(run->places));
    left_.see_gone(id, run->shim, its_shim(*run));
    forget(id);
}

// A shim that has a launch and may not have read it could begin at any time.
ItsShim Supervisor::its_shim(const Watched& run) const {
    return run.launched && run.shim.child_pid == 0 ? ItsShim::killed : ItsShim::spared;
}

void Supervisor::reap(Watched& run, std::string why, core::RunState outcome) {
    options_.log.warn("run_reaped", {{"run", run.text}, {"why", why}});
    if (outcome == core::RunState::lost) return end_rest_and_finish(run, core::LoseRun{run.id, run.fence, why});
    end_rest_and_finish(run, core::FinishRun{run.id, run.fence, outcome, why, {}});
}

// The run keeps its place until nothing of it is left.
void Supervisor::end_rest_and_finish(Watched& run, core::CommandBody end) {
    run.phase = Phase::reaping;
    const core::RunId id = run.id;
    const auto again = [this, id, end] {
        if (Watched* found = find(id); found != nullptr && found->phase == Phase::reaping) {
            end_rest_and_finish(*found, end);
        }
    };
    const bool taken =
        options_.elsewhere([this, inbox = inbox_, state = run.shim, its_shim = its_shim(run), id, end, again,
                            departure = departure_of(run.text, run.shim, run.places), shims = known_shims()] {
            std::string keeper;
            if (!end_leftovers(state, departure.run, its_shim, reap_patience))
                keeper = "a process that cannot be killed";
            // A shim that was killed has not proven that nothing is left.
            if (keeper.empty() && std::holds_alternative<core::LoseRun>(end)) {
                const Remains remains = look_for_remains({departure}, shims).front();
                if (!remains.orphans.empty()) keeper = sentence_of(remains.orphans.front());
            }
            inbox->post([this, id, run = departure.run, end, again, keeper] {
                if (keeper.empty()) return finish(id, with_keeper(end, kept_.give_up(run)));
                if (kept_.keep(run, keeper)) options_.log.warn("place_kept", {{"run", run}, {"by", keeper}});
                later(1s, again);
            });
        });
    if (!taken) later(100ms, again);
}

void Supervisor::forget(core::RunId id) {
    const auto found = runs_.find(id.value);
    if (found == runs_.end()) return;
    if (found->second.guest) by_guest_.erase(found->second.guest->value);
    options_.held.give_up(id);
    (void)kept_.give_up(found->second.text);
    runs_.erase(found);
    options_.secrets.forget(id);
    options_.close_key(id);
}

std::string Supervisor::receipt(core::RunId id) {
    const auto row = read_run(id);
    if (!row || !*row) return to_text("run", id.value) + " has ended";
    const Watched* run = find(id);
    return receipt_of(**row, options_.url()) + (run != nullptr && !run->note.empty() ? "; " + run->note : "");
}

// ---- time ---------------------------------------------------------------------------------------------------------

void Supervisor::look_after() {
    const auto now = Clock::now();
    // For how long this thread stood still, or the machine: who was not listening has not heard silence.
    const auto missed =
        looked_ == Clock::time_point() ? 0ns : std::max<Clock::duration>(0ns, now - looked_ - look_every);
    looked_ = now;
    std::vector<core::RunId> ids;
    for (auto& [id, run] : runs_) {
        ids.emplace_back(id);
        run.heard = std::min(now, run.heard + missed);
        run.spawned = std::min(now, run.spawned + missed);
    }
    for (const core::RunId id : ids) {
        if (Watched* run = find(id)) look_after(*run, now);
    }
    bury();
    if (now >= followed_places_ + follow_places_every) {
        followed_places_ = now;
        follow_places();
    }
    if (now >= cleared_ + 1h) clear_up();
}

void Supervisor::look_after(Watched& run, Clock::time_point now) {
    const auto silent = now - run.heard;
    switch (run.phase) {
        case Phase::in_line:
            if (run.guest) return tell_waiting(run, now);
            if (silent < terminal_back_within) return;
            ask(core::CancelRun{run.id, {}, "its terminal is gone", {}}, {}, [](const engine::Answer&) {});
            return forget(run.id);
        case Phase::ending:
            return;
        case Phase::held_back:
            renew(run, now);
            return begin(run);
        case Phase::preparing:
        case Phase::reaping:
            return renew(run, now);
        case Phase::expected:
            if (!run.running && now - run.spawned > shim_comes_within) {
                return reap(run, "its shim did not come");
            }
            [[fallthrough]];
        case Phase::present:
            if (now > run.deadline && !run.away) {
                return reap(run, "it ran for longer than it may, and its shim did not end it",
                            core::RunState::timed_out);
            }
            // Its connection ends a moment before the process does, so it is looked at again.
            if (!run.guest && run.shim.pid != 0 && !shim_is_alive(run.shim)) return has_gone(run);
            if (silent > patience_with(run) && !run.away) {
                return reap(run, fmt::format("its shim was not heard of for {} s", run.lease_s));
            }
            return renew(run, now);
    }
}

// How long it may say nothing. One that is to come back is given the time that this takes.
Supervisor::Clock::duration Supervisor::patience_with(const Watched& run) {
    const Clock::duration lease = std::chrono::seconds(run.lease_s);
    if (run.guest) return lease;
    return std::max<Clock::duration>(lease, run.running ? shim_back_within : shim_comes_within);
}

void Supervisor::renew(Watched& run, Clock::time_point now) {
    if (now - run.renewed < std::chrono::milliseconds(std::int64_t{run.lease_s} * 1000 / 3)) return;
    run.renewed = now;
    ask(core::HeartbeatRun{run.id, run.fence}, {},
        [this, id = run.id, fence = run.fence](const engine::Answer& answer) {
            Watched* run = find(id);
            if (run == nullptr || run->fence != fence) return;
            const auto* reply = answer ? std::get_if<core::RunReply>(&answer->reply) : nullptr;
            if (reply == nullptr)
                return run->renewed -= std::chrono::seconds(run->lease_s), void();  // At the next look.
            if (reply->status == core::RunStatus::done || run->phase == Phase::ending) return;
            reply->state == core::RunState::queued ? back_in_line(*run) : fence_off(id, "the run is over");
        });
}

// Shims that this process started are its to bury.
void Supervisor::bury() {
    for (auto it = children_.begin(); it != children_.end();) {
        int status = 0;
        if (::waitpid(it->first, &status, WNOHANG) == 0) {
            ++it;
            continue;
        }
        // One that finds another at work for the run goes without a word: that one comes.
        const bool another_has_it = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        Watched* run = find(it->second);
        if (run != nullptr && run->phase == Phase::expected && !run->guest && !run->running && !another_has_it) {
            reap(*run, "its shim ended before it began");
        }
        it = children_.erase(it);
    }
}

void Supervisor::tell_waiting(Watched& run, Clock::time_point now) {
    if (now < run.told + tell_waiting_every) return;
    run.told = now;
    const auto text = waiting_text(options_.reads, options_.org, run.id);
    if (!text || *text == run.waits) return;
    run.waits = *text;
    door_->send(*run.guest, shim::Wait{*text});
}

void Supervisor::clear_up() {
    cleared_ = Clock::now();
    std::set<std::string> unfinished;
    for (const auto& [id, run] : runs_) unfinished.insert(run.text);
    (void)options_.elsewhere(directories_.removal_of_old(std::move(unfinished)));
}

}  // namespace interlock::supervisor
