// What the supervisor does about the directories of runs: it has them looked at before a run begins and held open
// afterwards, and carries out what the core makes of changes.
#include <signal.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/places.h"
#include "shim/process.h"
#include "supervisor/place_check.h"
#include "supervisor/supervisor.h"

namespace interlock::supervisor {

using namespace std::chrono_literals;

// ---- before a run begins ------------------------------------------------------------------------------------------

// It may have waited for long since its places were looked at. What has moved among the places of others is known
// first.
void Supervisor::look_at_place(Watched& run) {
    run.phase = Phase::preparing;
    const core::RunId id = run.id;
    const core::Fence fence = run.fence;
    options_.held.expect(id, fence, HeldPlaces::Its::turn);
    const bool taken = options_.look([this, inbox = inbox_, id, fence, places = run.places] {
        options_.held.follow();
        inbox->post([this, id, fence, seen = std::make_shared<SeenPlace>(see_place(options_.held, id, fence, places))] {
            seen_place(id, fence, *seen);
        });
    });
    if (taken) return;
    later(100ms, [this, id, fence] {
        Watched* again = find(id);
        if (again != nullptr && again->fence == fence && again->phase == Phase::preparing) look_at_place(*again);
    });
}

void Supervisor::seen_place(core::RunId id, core::Fence fence, SeenPlace& seen) {
    Watched* run = find(id);
    if (run == nullptr || run->fence != fence || run->phase != Phase::preparing) return;
    if (!seen.problem.empty()) {
        run->phase = Phase::ending;
        return finish(id, core::FinishRun{id, fence, core::RunState::failed, seen.problem, {}});
    }
    if (seen.change.empty()) {
        run->directory = std::move(seen.directory);
        return prepare(*run);
    }
    options_.log.warn("run_place_changed", {{"run", run->text}, {"what", seen.change}});
    ask(core::RestatePlaces{id, fence, seen.places, seen.change}, {},
        [this, id, fence, places = seen.places](const engine::Answer& answer) {
            Watched* found = find(id);
            if (found == nullptr || found->fence != fence || found->phase != Phase::preparing) return;
            const auto* reply = answer ? std::get_if<core::RunReply>(&answer->reply) : nullptr;
            if (reply != nullptr) return restated(*found, places, *reply);
            later(200ms, [this, id, fence] {
                Watched* again = find(id);
                if (again != nullptr && again->fence == fence && again->phase == Phase::preparing) begin(*again);
            });
        });
}

// What the core made of places that are not what they were.
void Supervisor::restated(Watched& run, const std::vector<core::Place>& places, const core::RunReply& reply) {
    if (reply.status == core::RunStatus::wrong_state) return;  // It is to stop, and the feed says so.
    if (reply.status == core::RunStatus::done && reply.state == core::RunState::queued) return back_in_line(run);
    if (reply.status != core::RunStatus::done || reply.state != core::RunState::starting) {
        if (run.guest) door_->send(*run.guest, shim::Refused{.why = "the run was not started: " + reply.detail});
        return forget(run.id);
    }
    run.places = core::with_workspaces(std::move(run.places), places, core::Restated::instead).value();
    begin(run);
}

// Its place was taken from it before it began.
void Supervisor::back_in_line(Watched& run) {
    if (run.phase == Phase::ending || run.phase == Phase::reaping) return;
    if (run.launched) return fence_off(run.id, "the run has lost its place to another run");
    options_.held.give_up(run.id);
    run.launch.reset();
    run.directory.reset();
    run.fence = {};
    if (run.foreground) {
        run.phase = Phase::in_line;
        run.heard = Clock::now();  // Its terminal may still be on the way.
        run.waits.clear();
        if (run.guest) tell_waiting(run, run.heard);
        return;
    }
    // A shim that waits for a launch holds nothing, and must not write down that the run has ended.
    for (auto& [pid, whose] : children_) {
        if (whose != run.id) continue;
        shim::send_signal({.pid = pid, .start = shim::start_time(pid)}, SIGKILL);
        whose = {};  // Its end says nothing of the run's next turn.
    }
    forget(run.id);
}

// The places that other runs have left can be worked in.
void Supervisor::begin_held_back() {
    std::vector<core::RunId> waiting;
    for (const auto& [id, run] : runs_) {
        if (run.phase == Phase::held_back) waiting.emplace_back(id);
    }
    for (const core::RunId id : waiting) {
        if (Watched* run = find(id); run != nullptr && run->phase == Phase::held_back) begin(*run);
    }
}

std::set<pid_t> Supervisor::known_shims() const {
    std::set<pid_t> shims;
    for (const auto& [id, run] : runs_) shims.insert(run.shim.pid);
    for (const auto& [pid, run] : children_) shims.insert(pid);
    return shims;
}

// ---- held directories ---------------------------------------------------------------------------------------------

// An earlier server held its places.
void Supervisor::hold_again(const Watched& run) {
    options_.held.expect(run.id, run.fence, HeldPlaces::Its::work);
    (void)options_.look(
        [&held = options_.held, id = run.id, fence = run.fence, places = run.places, process = run.shim.child_pid] {
            held.hold(id, fence, reopen_places(id, places, process), {});
        });
}

// Its client starts and ends it. All that is done here is to know where its directories are.
void Supervisor::follow_clients_run(const core::Run& row) {
    const auto is_workspace = [](const core::Place& place) { return place.kind == core::ClaimKind::workspace; };
    if (!core::is_live(row.state) || std::ranges::none_of(row.wanted, is_workspace)) return;
    options_.held.expect(row.id, row.fence, HeldPlaces::Its::work);
    (void)options_.look([&held = options_.held, row] { held.take_up(row); });
}

void Supervisor::follow_places() {
    (void)options_.look([&held = options_.held] { held.follow(); });
}

}  // namespace interlock::supervisor
