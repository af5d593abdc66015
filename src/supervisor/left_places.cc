#include "supervisor/left_places.h"

#include <algorithm>
#include <ranges>

#include "base/id.h"
#include "core/places.h"

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

constexpr auto kill_timeout = 10s;
constexpr std::size_t processes_logged_max = 3;
// The looks take at most this part of a processor.
constexpr int looks_part = 20;

}  // namespace

bool LeftPlaces::include(const std::vector<core::Place>& places) const {
    return std::ranges::any_of(places_, [&](const auto& left) {
        return std::ranges::any_of(left.second, [&](const core::Place& place) {
            return std::ranges::any_of(places, [&](const core::Place& other) { return core::collide(place, other); });
        });
    });
}

// A shim that was told to go may not hear it.
void LeftPlaces::see_gone(core::RunId run, const shim::ShimState& state, ItsShim its_shim) {
    const auto again = [this, run, state, its_shim] { see_gone(run, state, its_shim); };
    const std::string text = to_text("run", run.value);
    const bool taken = hooks_.elsewhere([this, task_queue = hooks_.task_queue, state, run, its_shim, again, text,
                                         home = hooks_.data_dir + "/runs/" + text] {
        const bool gone = end_leftovers(state, text, its_shim, kill_timeout);
        shim::ShimState over = shim::read_state(home).value_or(state);
        if (gone && over.phase != shim::ShimPhase::ended && !shim_is_alive(state)) {  // It is not looked for again.
            over.phase = shim::ShimPhase::ended;
            over.how = shim::How::stopped;
            shim::write_state(home, over);
        }
        task_queue->post([this, run, gone, again] { gone ? free(run) : hooks_.later(1s, again); });
    });
    if (!taken) hooks_.later(100ms, again);
}

void LeftPlaces::depart(core::RunId run, const shim::ShimState& state, Departure departure) {
    if (departure.began.empty() || departure.directories.empty()) return free(run);
    departed_.push_back({run, state, std::move(departure)});
    look();
}

void LeftPlaces::look() {
    if (looking_ || departed_.empty()) return;
    looking_ = true;
    const auto next = [this] {
        looking_ = false;
        look();
    };
    const bool taken =
        hooks_.elsewhere([this, task_queue = hooks_.task_queue, batch = departed_, shims = hooks_.shims(), next] {
            std::vector<Departure> departures;
            for (const Departed& each : batch) departures.push_back(each.departure);
            const auto began = std::chrono::steady_clock::now();
            const std::vector<Remains> remains = look_for_remains(departures, shims);
            const auto took = std::chrono::steady_clock::now() - began;
            task_queue->post([this, batch, remains, next, took] {
                for (std::size_t i = 0; i < batch.size(); ++i) was_looked_at(batch[i], remains[i]);
                hooks_.later(looks_part * took, next);
            });
        });
    if (!taken) return hooks_.later(100ms, next);
    departed_.clear();
}

void LeftPlaces::was_looked_at(const Departed& departed, const Remains& remains) {
    std::vector<ProcessInside> inside = remains.orphans;
    inside.insert(inside.end(), remains.others.begin(), remains.others.end());
    const std::string& run = departed.departure.run;
    for (const ProcessInside& process : inside | std::views::take(processes_logged_max)) {
        hooks_.log.warn("process_in_workspace", {{"run", run}, {"process", sentence_of(process)}});
    }
    if (remains.own.empty()) return free(departed.id);
    hooks_.log.warn("run_left_process", {{"run", run}, {"process", sentence_of(remains.own.front())}});
    see_gone(departed.id, departed.shim, ItsShim::spared);
}

void LeftPlaces::free(core::RunId run) {
    if (places_.erase(run.value) > 0) hooks_.on_free();
}

}  // namespace interlock::supervisor
