#include "gateway/upstream_selector.h"

#include <algorithm>
#include <tuple>

namespace interlock::gateway {

std::vector<const Upstream*> UpstreamSelector::order(core::OrgId org, const Config& config, ApiFormat format,
                                                     std::string_view model, net::SteadyTime now) {
    struct Candidate {
        const Upstream* upstream;
        bool cooling;
    };
    std::vector<Candidate> candidates;
    const std::lock_guard lock(mutex_);
    for (const Upstream& upstream : config.upstreams) {
        if (!upstream.enabled || upstream.format != format || (!model.empty() && !upstream.takes(model))) continue;
        const auto known = health_.find({org, upstream.name});
        candidates.push_back({&upstream, known != health_.end() && known->second.cooling_until > now});
    }
    std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
        return std::tuple(a.cooling, a.upstream->priority, std::string_view(a.upstream->name)) <
               std::tuple(b.cooling, b.upstream->priority, std::string_view(b.upstream->name));
    });

    // Each place among equals goes to one of those that are left, by weight.
    std::vector<const Upstream*> order;
    for (std::size_t at = 0; at < candidates.size(); ++at) {
        std::size_t end = at + 1;
        std::int64_t weights = candidates[at].upstream->weight;
        const auto is_equal = [&](const Candidate& other) {
            return other.cooling == candidates[at].cooling &&
                   other.upstream->priority == candidates[at].upstream->priority;
        };
        for (; end < candidates.size() && is_equal(candidates[end]); ++end) weights += candidates[end].upstream->weight;
        auto left = end - at > 1 ? static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(weights)) : 0;
        std::size_t chosen = at;
        while (left >= candidates[chosen].upstream->weight) left -= candidates[chosen++].upstream->weight;
        std::swap(candidates[at], candidates[chosen]);
        order.push_back(candidates[at].upstream);
    }
    return order;
}

void UpstreamSelector::succeeded(core::OrgId org, const Upstream& upstream, Instant at, CallLatency took) {
    const std::lock_guard lock(mutex_);
    Health& health = health_[{org, upstream.name}];
    ++health.requests;
    health.failures_in_a_row = 0;
    health.cooling_until = {};
    health.failing_since = far_past;
    hour_of({org, upstream.name}).succeeded(at, took);
}

void UpstreamSelector::failed(core::OrgId org, const Upstream& upstream, std::string why, net::SteadyTime now,
                              Instant at) {
    const std::lock_guard lock(mutex_);
    Health& health = health_[{org, upstream.name}];
    ++health.requests;
    ++health.failures;
    if (++health.failures_in_a_row == 1) health.failing_since = at;
    health.last_failure = std::move(why);
    if (upstream.cooldown_after > 0 && health.failures_in_a_row >= upstream.cooldown_after) {
        health.cooling_until = now + std::chrono::seconds(upstream.cooldown_s);
    }
    hour_of({org, upstream.name}).failed(at);
}

std::map<std::string, UpstreamSelector::Health> UpstreamSelector::health(core::OrgId org) const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, Health> found;
    for (auto it = health_.lower_bound({org, ""}); it != health_.end() && it->first.first == org; ++it) {
        found[it->first.second] = it->second;
    }
    return found;
}

std::map<std::string, LastHour::Sums> UpstreamSelector::last_hour(core::OrgId org, Instant now) const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, LastHour::Sums> found;
    for (auto it = hours_.lower_bound({org, ""}); it != hours_.end() && it->first.first == org; ++it) {
        found.emplace(it->first.second, it->second->sums(now));
    }
    return found;
}

LastHour& UpstreamSelector::hour_of(const Name& name) {
    if (const auto known = hours_.find(name); known != hours_.end()) return *known->second;
    if (hours_.size() >= watched_max) {
        hours_.erase(std::ranges::min_element(hours_, {}, [](const auto& each) { return each.second->last_at(); }));
    }
    return *hours_.emplace(name, std::make_unique<LastHour>()).first->second;
}

// Only has to be even: no secret hangs on it.
std::uint64_t UpstreamSelector::draw() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
}

}  // namespace interlock::gateway
