#include "core/line_walk.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "core/run_tree.h"

namespace interlock::core {
namespace {

// Invariant (1).
bool waits_for_place(OrgState& state, const Run& run, const PlaceIndex& kept) {
    return std::ranges::any_of(run.wanted, [&](const Place& place) {
        return is_in_the_way(state, state.claimed(), Standing::claimed, run, place) ||
               is_in_the_way(state, kept, Standing::kept, run, place);
    });
}

bool is_at_cap(OrgState& state, const std::string& agent_name) {
    const Agent* agent = state.agent(agent_name);
    return agent == nullptr || static_cast<std::int64_t>(state.live_of_agent(agent_name)) >= agent->max_concurrent_runs;
}

}  // namespace

bool collides_any(const PlaceIndex& places, const Run& run) {
    return std::ranges::any_of(run.wanted, [&](const Place& place) { return places.collides(place, run.id); });
}

LineWalk::LineWalk(OrgState& state, Stamp stamp, Of which) : state_(state), stamp_(stamp) {
    for (const auto& [name, group] : state.line_groups()) {
        const bool may_start = which == Of::all && !is_at_cap(state, group.agent);
        if (group.wants_places || may_start) heads_.emplace(*group.keys.begin(), &group);
    }
}

std::optional<LineKey> LineWalk::next() {
    if (behind_) heads_.insert(*std::exchange(behind_, std::nullopt));
    if (heads_.empty()) return std::nullopt;
    std::tie(key_, group_) = *heads_.begin();
    heads_.erase(heads_.begin());
    if (const auto after = group_->keys.upper_bound(key_); after != group_->keys.end()) behind_ = {*after, group_};
    return key_;
}

void LineWalk::stays(const Run& run, bool same_for_group) {
    const bool keeps = run.not_before <= stamp_.at && waits_for_place(state_, run, kept_);
    if (keeps) {
        for (const Place& place : run.wanted) kept_.add(run.id, place);
    }
    if (same_for_group && behind_) {
        // The next ones would keep the same places. Where this one keeps none, they may later.
        if (!keeps && group_->wants_places) left_.emplace_back(group_, run.id);
        behind_.reset();
    }
    if (keeps && collides_any(state_.wanted(), run)) come_back();
}

void LineWalk::started(const Run& run, PlaceIndex kept_ahead) {
    kept_ = std::move(kept_ahead);
    if (!run.wanted.empty()) come_back();
}

void LineWalk::come_back() {
    std::erase_if(left_, [&](const auto& left) {
        const auto& [group, asked] = left;
        if (!waits_for_place(state_, *state_.run(asked), kept_)) return false;
        if (const auto behind = group->keys.upper_bound(key_); behind != group->keys.end()) {
            heads_.emplace(*behind, group);
        }
        return true;
    });
}

// The places that are kept for the runs ahead of this place in line.
PlaceIndex kept_ahead_of(OrgState& state, Stamp stamp, const LineKey& mine) {
    LineWalk line(state, stamp, LineWalk::Of::those_that_want_places);
    for (auto key = line.next(); key && *key < mine; key = line.next()) {
        const Run& run = *state.run(key->run);
        line.stays(run, run.not_before <= stamp.at);
    }
    return line.kept();
}

}  // namespace interlock::core
