// A story: one world from its seed to its end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/world.h"

namespace interlock::sim {

struct StoryOptions {
    std::uint64_t seed = 1;
    std::uint64_t commands = 3'000;
    bool trace = false;
    std::uint32_t nodes = 0;  // 0: as many as the seed says.
    store::MemoryDatabase::Lies lies = {};
    // Called once the story is half told: where tests put in what the checkers must notice.
    std::function<void(World&)> halfway;
};

struct StoryResult {
    std::uint64_t seed = 0;
    std::uint64_t commands_wanted = 0;
    std::uint32_t nodes_wanted = 0;
    std::uint64_t commands = 0;
    std::uint64_t steps = 0;
    std::uint64_t hash = 0;  // Over every answer: two tellings of one seed give the same.
    std::uint64_t violation_count = 0;
    std::vector<Violation> violations;  // The first ones.
    Troubles troubles;
    OutcomeCounts outcomes{};
    std::string profile;
};

StoryResult tell_story(const StoryOptions& options);

// What was broken, where, and how to see it again.
std::string describe_violations(const StoryResult& result);

}  // namespace interlock::sim
