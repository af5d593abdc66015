#include "supervisor/held_places.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/text.h"
#include "core/limits.h"
#include "core/places.h"
#include "supervisor/place_check.h"

namespace interlock::supervisor {
namespace {

// A file system that does not answer holds up what is admitted for no longer than this.
constexpr std::chrono::seconds answer_within{2};

bool knows(const core::Place& claimed, const core::Place& now) {
    return std::ranges::all_of(
        now.chain, [&](const std::string& id) { return std::ranges::find(claimed.chain, id) != claimed.chain.end(); });
}

}  // namespace

void HeldPlaces::expect(core::RunId run, core::Fence fence, Its its) {
    const std::lock_guard lock(mutex_);
    Held& held = held_[run];
    if (held.fence == fence) return;
    held = {.fence = fence};
    held.awaited = its == Its::work;
}

void HeldPlaces::all_are_expected() {
    const std::lock_guard lock(mutex_);
    all_expected_ = true;
    looked_.notify_all();
}

void HeldPlaces::hold(core::RunId run, core::Fence fence, std::vector<OpenPlace> places, std::string mounts) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(run);
    if (found == held_.end() || found->second.fence != fence) return;
    Held& held = found->second = {.fence = fence, .places = std::move(places)};
    if (!mounts.empty()) watch(held, std::move(mounts), held.places);
    looked_.notify_all();
}

void HeldPlaces::give_up(core::RunId run) {
    const std::lock_guard lock(mutex_);
    held_.erase(run);
    std::erase_if(above_, [](const auto& each) { return each.second.expired(); });
    looked_.notify_all();
}

std::size_t HeldPlaces::size() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
}

void HeldPlaces::take_up(const core::Run& run) {
    expect(run.id, run.fence, Its::work);
    const auto is_awaited = [&] {
        const auto found = held_.find(run.id);
        return found != held_.end() && found->second.fence == run.fence && found->second.awaited;
    };
    {
        const std::lock_guard lock(mutex_);
        if (!is_awaited()) return;
    }
    look_at(run);
    const std::lock_guard lock(mutex_);
    if (is_awaited()) held_[run.id].awaited = false;  // It could not be looked at, and is not held.
    looked_.notify_all();
}

void HeldPlaces::look_at(const core::Run& run) {
    static const std::string here = this_host();
    const auto is_elsewhere = [&](const core::Place& place) {
        return place.kind == core::ClaimKind::workspace && place.host != here;
    };
    if (std::ranges::any_of(run.wanted, is_elsewhere)) return;
    auto check = check_places(run.id, run.wanted);
    if (!check || check->places.empty()) return;  // What is not there cannot be moved.
    if (!check->change.empty()) {
        const auto reply = hooks_.restate({run.id, run.fence, places_of(check->places), check->change});
        if (!reply || reply->status != core::RunStatus::done) return;
    }
    hold(run.id, run.fence, std::move(check->places), std::move(check->mounts));
}

void HeldPlaces::settle() {
    {
        std::unique_lock lock(mutex_);
        const auto is_awaited = [](const auto& each) { return each.second.awaited; };
        if (!looked_.wait_for(lock, answer_within,
                              [&] { return all_expected_ && std::ranges::none_of(held_, is_awaited); })) {
            all_expected_ = true;
            for (auto& [run, held] : held_) held.awaited = false;
        }
    }
    follow();
}

void HeldPlaces::follow() {
    std::unique_lock lock(mutex_);
    if (held_.empty()) return;

    // 1. Whose places may be elsewhere, as far as that can be known without asking a file system.
    const auto mounts = MountTable::read();
    const Moved moved = this->moved();
    const auto has_moved = [&](const auto& above) { return moved.contains(above.get()); };
    std::vector<core::RunId> asked;
    for (auto& [run, held] : held_) {
        const bool same = held.watched && mounts && held.mounts == mounts->text() &&
                          (moved.empty() || std::ranges::none_of(held.above, has_moved));
        if (same || held.places.empty() || held.silent) continue;
        asked.push_back(run);
        if (held.looking) continue;
        held.looking = hooks_.elsewhere([this, id = run, fence = held.fence] { look(id, fence); });
    }

    // 2. Others look. The lock is free meanwhile.
    const auto is_looked_for = [&](core::RunId run) {
        const auto found = held_.find(run);
        return found != held_.end() && found->second.looking;
    };
    looked_.wait_for(lock, answer_within, [&] { return std::ranges::none_of(asked, is_looked_for); });
    for (const core::RunId run : asked) {
        if (is_looked_for(run)) held_[run].silent = true;
    }
}

HeldPlaces::Moved HeldPlaces::moved() const {
    Moved moved;
    for (const auto& [key, known] : above_) {
        const auto above = known.lock();
        if (above && path_of(above->directory) != above->path) moved.insert(above.get());
    }
    return moved;
}

void HeldPlaces::look(core::RunId run, core::Fence fence) {
    // 1. What is held. The descriptors are copied: the run may be given up meanwhile.
    std::vector<OpenPlace> held;
    {
        const std::lock_guard lock(mutex_);
        const auto found = held_.find(run);
        if (found == held_.end() || found->second.fence != fence) return;
        for (const OpenPlace& each : found->second.places) {
            held.push_back({each.place, each.directory.duplicate(), each.through_overlay});
        }
    }

    // 2. Where it is. This may block.
    const auto mounts = MountTable::read();
    std::vector<OpenPlace> seen;
    std::string change;
    for (const OpenPlace& each : held) {
        auto now = each.directory ? look_again(each) : fail(PlaceError{});
        if (!now) now = OpenPlace{each.place, {}, false};  // It was removed, or cannot be reached: it stays claimed.
        if (change.empty() && !knows(each.place, now->place)) {
            change = now->place.path == each.place.path
                         ? fmt::format("the directories that '{}' lies in have changed", each.place.path)
                         : fmt::format("'{}' was moved to '{}'", each.place.path, now->place.path);
        }
        seen.push_back(std::move(*now));
    }

    // 3. What is new is said, and kept as the core keeps it.
    std::optional<core::RunReply> reply;
    if (!change.empty()) {
        change = cut_text(as_line(change), core::limits::text_bytes_max);
        reply = hooks_.restate({.run = run, .fence = fence, .workspaces = places_of(seen), .reason = change});
    }
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(run);
    if (found != held_.end() && found->second.fence == fence && found->second.places.size() == seen.size()) {
        Held& kept = found->second;
        kept.looking = kept.silent = false;
        // Where the core keeps another run's place instead, it is told again until that run has ended.
        const bool is_kept = reply && reply->status == core::RunStatus::done && reply->stop_requested.empty();
        if (change.empty() || is_kept) {
            for (std::size_t i = 0; i < seen.size(); ++i) {
                core::Place& place = kept.places[i].place;
                place = core::with_workspaces({place}, {seen[i].place}, core::Restated::beside)->front();
            }
            watch(kept, mounts ? mounts->text() : std::string(), seen);
        }
    }
    looked_.notify_all();
}

void HeldPlaces::watch(Held& held, std::string mounts, const std::vector<OpenPlace>& seen) {
    held.above.clear();
    held.watched = true;
    held.mounts = std::move(mounts);
    for (const OpenPlace& each : seen) {
        if (!each.directory) continue;
        held.watched &= !each.through_overlay;
        // The chain begins with the identities along the path, from its end to the root.
        std::string path = each.place.path;
        for (const std::string& identity : each.place.chain) {
            auto above = above_at(path, identity);
            if (!above) held.watched = false;
            if (!above) break;
            held.above.push_back(std::move(above));
            if (path == "/") break;
            const std::size_t slash = path.rfind('/');
            path.resize(slash == 0 ? 1 : slash);
        }
    }
}

std::shared_ptr<const HeldPlaces::Above> HeldPlaces::above_at(const std::string& path, const std::string& identity) {
    std::weak_ptr<const Above>& known = above_[{path, identity}];
    if (auto found = known.lock()) return found;
    shim::Fd directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory || identity_of(directory) != identity) return nullptr;
    auto above = std::make_shared<const Above>(Above{path, identity, std::move(directory)});
    known = above;
    return above;
}

}  // namespace interlock::supervisor
