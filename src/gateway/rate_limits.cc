#include "gateway/rate_limits.h"

#include <algorithm>
#include <cmath>

namespace interlock::gateway {
namespace {

// How long until a bucket that fills in a minute has `wanted`.
std::int64_t seconds_until(double level, double wanted, std::int64_t per_minute) {
    if (level >= wanted) return 0;
    return static_cast<std::int64_t>(std::ceil((wanted - level) * 60.0 / static_cast<double>(per_minute)));
}

RateState state_of(double level, std::int64_t per_minute) {
    return {.limit = per_minute,
            .remaining = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(level))),
            .reset_s = seconds_until(level, static_cast<double>(per_minute), per_minute)};
}

void keep_tightest(std::optional<RateState>& tightest, const RateState& state) {
    if (!tightest || state.remaining < tightest->remaining) tightest = state;
}

}  // namespace

RateVerdict RateLimits::ask(const std::vector<RateLimit>& limits, const Who& who, net::SteadyTime now) {
    RateVerdict verdict;
    std::vector<Bucket*> to_take;
    const std::lock_guard lock(mutex_);
    for (const RateLimit& limit : limits) {
        if (!limit.applies(who.key, who.agent, who.model, who.provider)) continue;
        const auto look = [&](std::string_view what, std::int64_t per_minute, std::optional<RateState>& tightest) {
            Bucket& its = bucket(who.org, limit.name, what, per_minute, now);
            const std::int64_t wait_s = seconds_until(its.level, 1.0, per_minute);
            if (wait_s > verdict.retry_after_s) {
                verdict.retry_after_s = wait_s;
                verdict.refused_by = limit.name;
            }
            keep_tightest(tightest, state_of(its.level, per_minute));
            return &its;
        };
        if (limit.requests_per_minute) {
            to_take.push_back(look("requests", *limit.requests_per_minute, verdict.requests));
        }
        if (limit.tokens_per_minute) look("tokens", *limit.tokens_per_minute, verdict.tokens);
    }
    if (verdict.refused_by) return verdict;
    for (Bucket* its : to_take) its->level -= 1;
    if (verdict.requests) verdict.requests->remaining = std::max<std::int64_t>(0, verdict.requests->remaining - 1);
    return verdict;
}

void RateLimits::used(const std::vector<RateLimit>& limits, const Who& who, std::int64_t tokens, net::SteadyTime now) {
    const std::lock_guard lock(mutex_);
    for (const RateLimit& limit : limits) {
        if (!limit.tokens_per_minute || !limit.applies(who.key, who.agent, who.model, who.provider)) continue;
        bucket(who.org, limit.name, "tokens", *limit.tokens_per_minute, now).level -= static_cast<double>(tokens);
    }
}

RateLimits::Bucket& RateLimits::bucket(core::OrgId org, const std::string& name, std::string_view what,
                                       std::int64_t per_minute, net::SteadyTime now) {
    Bucket& its = buckets_[{org, name + ":" + std::string(what)}];
    const auto most = static_cast<double>(per_minute);
    const double minutes = std::chrono::duration<double>(now - its.filled_at).count() / 60.0;
    its.level = its.begun ? std::min(most, its.level + most * minutes) : most;
    its.filled_at = now;
    its.begun = true;
    return its;
}

void add_rate_headers(std::vector<net::Header>& headers, const RateVerdict& verdict) {
    const auto add = [&](const std::string& what, const std::optional<RateState>& state) {
        if (!state) return;
        headers.push_back({"x-ratelimit-limit-" + what, std::to_string(state->limit)});
        headers.push_back({"x-ratelimit-remaining-" + what, std::to_string(state->remaining)});
        headers.push_back({"x-ratelimit-reset-" + what, std::to_string(state->reset_s) + "s"});
    };
    add("requests", verdict.requests);
    add("tokens", verdict.tokens);
}

}  // namespace interlock::gateway
