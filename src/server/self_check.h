// The server's look at itself: what keeps it from working well, and what to do about it.
//
// Only what the server alone can tell, or can tell better than a command beside it. Everything is read at the moment
// of the question, and blocks.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/parts.h"
#include "engine/engine.h"
#include "store/cluster.h"
#include "supervisor/sandbox_policy.h"

namespace interlock::server {

struct SelfFacts {
    std::string version;
    std::string data_dir;
    Instant now;
    Instant wall_clock;
    Instant started_at;
    std::optional<std::string> not_ready;  // Why.
    engine::EngineStats engine;
    std::string price_list;
    std::string price_list_date;  // "2026-11-01"
    std::vector<api::UpstreamFacts> upstreams;
    api::LastVerify last_verify;
    std::optional<double> memory_pressure;  // Percent; nothing where the kernel does not say.
    double memory_pressure_max = 0;
    supervisor::SandboxPolicy sandbox;
    std::vector<store::Node> nodes;
    std::map<std::string, std::string> kept_places = {};  // Runs, and the processes for which they keep their places.
};

std::vector<api::SelfFinding> run_self_check(const SelfFacts& facts);

}  // namespace interlock::server
