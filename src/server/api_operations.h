// The server as a whole, for the API: its orgs, its checks, its backups and whether it is ready.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "api/ports.h"
#include "server/backend.h"
#include "server/engine_watch.h"
#include "server/gateway_host.h"
#include "server/sandbox_rules.h"
#include "store/read_pool.h"
#include "supervisor/supervisor.h"

namespace interlock::server {

class ApiOperations final : public api::Operations {
 public:
    struct Options {
        core::OrgId home;
        Instant started_at;
        std::string data_dir;
        bool embedded = true;  // The store is in the data directory, not in PostgreSQL.
        double memory_pressure_max = 0;
        Backend& backend;
        store::ReadPool& reads;
        EngineWatch& engine;
        SandboxRules& sandbox;
        GatewayHost& gateway;
        const std::atomic<supervisor::Supervisor*>& supervisor;  // Null until it has started.
    };
    explicit ApiOperations(Options options) : options_(std::move(options)) {}

    Result<std::vector<api::OrgFacts>, std::string> orgs() override;
    Result<std::string, std::string> verify() override;
    api::LastVerify last_verify() override;
    std::vector<api::SelfFinding> self_check() override;
    Result<std::string, std::string> back_up(const std::string& to) override;
    std::optional<std::string> why_not_ready() override;
    engine::EngineStats engine_stats() override { return options_.engine.stats(); }
    void write_engine_histograms(std::string& out) override { options_.engine.write(out); }

 private:
    const Options options_;
    std::mutex mutex_;
    api::LastVerify last_verify_;  // If two checks overlap, the one that ends last.
};

}  // namespace interlock::server
