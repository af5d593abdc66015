// What clients know of the world, because they named it, were told of it, or have read it.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "core/command.h"
#include "sim/random.h"

namespace interlock::sim {

struct KnownRun {
    core::RunId id;
    core::Fence fence;                             // Of its admission; 0: in line, or not known.
    core::RunState seen = core::RunState::queued;  // By those who follow what is committed.
    bool over = false;                             // Somebody has been told that it has ended. It must stay so.
};

struct KnownHold {
    core::HoldId id;
    std::int64_t bound = 0;   // Nano-dollars.
    bool over = false;        // Likewise.
    bool by_gateway = false;  // Who opened it.
    std::string api_key = {};
};

// A cost event that a client was told of.
struct KnownCharge {
    core::CommandKey key;
    std::int64_t cost = 0;  // Nano-dollars, as the client stated them.
};

struct KnownBudget {
    core::PutBudget put;  // As last asked for.
    // Made before anything was spent, and nobody ever changes or deletes it: what was asked for is what holds.
    bool strict = false;
};

// The clients of one org.
struct KnownOrg {
    core::OrgId id;
    std::vector<std::string> agents;
    std::vector<core::SessionId> sessions;
    std::vector<KnownRun> runs;
    std::vector<KnownHold> holds;
    std::vector<KnownBudget> budgets;
    std::vector<KnownCharge> charges;

    std::vector<core::RunId> fired;  // By schedules: live, and nobody has taken care of them yet.

    KnownRun* find_run(core::RunId run);
    KnownRun& add_run(core::RunId run);  // Or the one that is there.
    KnownHold* find_hold(core::HoldId hold);
    void add_charge(KnownCharge charge);

 private:
    std::unordered_map<core::RunId, std::size_t> run_index_;
};

struct Known {
    std::vector<KnownOrg> orgs;

    KnownOrg& of(core::OrgId org) { return orgs[org.value - 1]; }
};

// Somebody's account: a known agent, and whatever else a request may state.
core::Attribution some_account(Random& random, const KnownOrg& org);
Usage some_usage(Random& random);

// Names that everybody uses.
inline const std::vector<std::string> provider_names = {"anthropic", "google", "openai"};
inline const std::vector<std::string> model_names = {"large", "medium", "small", "tiny"};
inline const std::vector<std::string> workflow_names = {"", "", "nightly", "review"};
inline const std::vector<std::string> api_key_names = {"", "", "key-1", "key-2"};
inline const std::vector<std::string> team_names = {"blue", "green", "red"};
inline const std::vector<std::string> node_names = {"", "node-1", "node-2"};
// Where midnight is skipped, comes twice, is not on the hour or falls on another date.
inline const std::vector<std::string> zone_names = {
    "UTC",          "America/New_York",    "America/Santiago", "Asia/Kathmandu",
    "Africa/Cairo", "Australia/Lord_Howe", "Pacific/Apia",     "Pacific/Chatham"};

}  // namespace interlock::sim
