#include "sim/known.h"

#include <algorithm>

namespace interlock::sim {

KnownRun* KnownOrg::find_run(core::RunId run) {
    const auto found = run_index_.find(run);
    return found == run_index_.end() ? nullptr : &runs[found->second];
}

KnownRun& KnownOrg::add_run(core::RunId run) {
    const auto [found, added] = run_index_.emplace(run, runs.size());
    if (added) runs.push_back({.id = run, .fence = {}});
    return runs[found->second];
}

void KnownOrg::add_charge(KnownCharge charge) {
    constexpr std::size_t remembered_max = 64;
    if (charges.size() == remembered_max) charges.erase(charges.begin());
    charges.push_back(charge);
}

KnownHold* KnownOrg::find_hold(core::HoldId hold) {
    const auto found =
        std::find_if(holds.rbegin(), holds.rend(), [&](const KnownHold& known) { return known.id == hold; });
    return found == holds.rend() ? nullptr : &*found;
}

core::Attribution some_account(Random& random, const KnownOrg& org) {
    core::Attribution who;
    who.agent = random.pick(org.agents);
    who.workflow = random.pick(workflow_names);
    who.api_key = random.pick(api_key_names);
    if (random.percent(80)) {
        who.provider = random.pick(provider_names);
        who.model = random.pick(model_names);
    }
    if (random.percent(30)) who.tags["team"] = random.pick(team_names);
    if (random.percent(10)) who.tags["env"] = random.percent(50) ? "live" : "test";
    return who;
}

Usage some_usage(Random& random) {
    Usage usage;
    usage.input_tokens = random.spread(300);
    usage.output_tokens = random.spread(100);
    if (random.percent(20)) usage.cache_read_tokens = random.spread(1'000);
    if (random.percent(5)) usage.cache_write_5m_tokens = random.spread(200);
    if (random.percent(5)) usage.cache_write_1h_tokens = random.spread(200);
    if (random.percent(10)) usage.reasoning_tokens = random.spread(500);
    return usage;
}

}  // namespace interlock::sim
