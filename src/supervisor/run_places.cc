#include "supervisor/run_places.h"

#include <algorithm>
#include <utility>

#include "core/runs.h"
#include "supervisor/place_check.h"
#include "supervisor/seen_place.h"

namespace interlock::supervisor {
namespace {

constexpr std::chrono::seconds followed_every{5};

}  // namespace

void RunPlaces::look(const Order& order, const Then& then) {
    const core::RunId id = order.id;
    const core::Fence fence = order.fence;
    options_.held.expect(id, fence, HeldPlaces::Its::turn);
    kept_[id.value] = {.fence = fence};
    const bool taken =
        options_.look([this, task_queue = task_queue_, &held = options_.held, id, fence, places = order.places, then] {
            // What has moved among the places of others is known first.
            held.follow();
            const auto seen = std::make_shared<SeenPlace>(see_place(held, id, fence, places));
            task_queue->post([this, id, fence, seen, then] {
                keep(id, fence, std::move(seen->directory));
                then(event::PlaceSeen{.problem = seen->problem, .change = seen->change, .places = seen->places});
            });
        });
    if (!taken) then(event::PlaceLater{});
}

void RunPlaces::hold_again(const Order& order, pid_t process) const {
    options_.held.expect(order.id, order.fence, HeldPlaces::Its::work);
    (void)options_.look([&held = options_.held, id = order.id, fence = order.fence, places = order.places, process] {
        held.hold(id, fence, reopen_places(id, places, process), {});
    });
}

void RunPlaces::take_up(const core::Run& row) const {
    const auto is_workspace = [](const core::Place& place) { return place.kind == core::ClaimKind::workspace; };
    if (!core::is_live(row.state) || std::ranges::none_of(row.wanted, is_workspace)) return;
    options_.held.expect(row.id, row.fence, HeldPlaces::Its::work);
    (void)options_.look([&held = options_.held, row] { held.take_up(row); });
}

void RunPlaces::follow(Moment now) {
    if (now < followed_ + followed_every) return;
    followed_ = now;
    (void)options_.look([&held = options_.held] { held.follow(); });
}

void RunPlaces::keep(core::RunId run, core::Fence fence, shim::Fd directory) {
    const auto found = kept_.find(run.value);
    if (found != kept_.end() && found->second.fence == fence) found->second.directory = std::move(directory);
}

bool RunPlaces::has(core::RunId run, core::Fence fence) const {
    const auto found = kept_.find(run.value);
    return found != kept_.end() && found->second.fence == fence && found->second.directory;
}

shim::Fd RunPlaces::take(core::RunId run, core::Fence fence) {
    return has(run, fence) ? std::move(kept_[run.value].directory) : shim::Fd();
}

void RunPlaces::give_up(core::RunId run) {
    kept_.erase(run.value);
    options_.held.give_up(run);
}

}  // namespace interlock::supervisor
