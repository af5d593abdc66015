// What kind of story a seed tells. Each story leaves some troubles out and has more of others: a world in which
// everything always goes wrong a little never gets far enough to go wrong in an interesting way.
#pragma once

#include <cstdint>
#include <string>

#include "base/instant.h"
#include "engine/engine.h"
#include "sim/random.h"

namespace interlock::sim {

// Rates are times out of a million: per commit, per answer, per copy of a request, or per step.
struct Profile {
    std::uint32_t orgs = 1;
    Instant begins;
    std::int64_t pace_s = 1;  // Between steps, on average. Leases and lifetimes are multiples of it.
    std::uint64_t burst = 4;  // Things begun per step, on average.
    engine::Engine::Options engine;

    std::uint32_t commit_faults = 0;
    std::uint32_t load_faults = 0;
    std::uint32_t lost_answers = 0;
    std::uint32_t late_answers = 0;
    std::uint32_t twin_requests = 0;
    std::uint32_t late_requests = 0;
    std::uint32_t dying_clients = 0;
    std::uint32_t crashes = 0;
    std::uint32_t long_downtimes = 0;  // Out of a million crashes.
    std::uint32_t clock_jumps = 0;
    std::uint32_t calls_without_key = 0;
    std::uint32_t tight_deadlines = 0;
    bool huge_amounts = false;  // Some ask for more than a counter can hold.

    std::uint32_t nodes = 1;  // More than one: they share a database.
    std::uint32_t freezes = 0;
    std::uint32_t false_suspicions = 0;
    std::uint32_t lost_between_nodes = 0;

    // How often each workload gets its turn, relative to the others.
    std::uint32_t money = 0;
    std::uint32_t runs = 0;
    std::uint32_t sessions = 0;
    std::uint32_t schedules = 0;
    std::uint32_t worktrees = 0;
    std::uint32_t settings = 0;
    std::uint32_t admin = 0;
    std::uint32_t echo = 0;
    std::uint32_t nonsense = 0;

    static Profile draw(Random& random);
    std::string to_text() const;
};

}  // namespace interlock::sim
