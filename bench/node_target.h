// A node on PostgreSQL as a target: its switchboard, and the door through which other nodes reach it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "bench/driver.h"
#include "net/http_server.h"
#include "nodes/command_router.h"
#include "nodes/inbound.h"
#include "store/postgres_store.h"

namespace interlock::bench {

class NodeTarget final : public Target {
 public:
    // Empty when that fails; `problem` says why.
    static std::unique_ptr<NodeTarget> open(const std::string& uri, std::string& problem);
    ~NodeTarget() override;

    void submit(std::vector<engine::Submission> submissions) override { router_->submit(std::move(submissions)); }
    bool decides() const override { return true; }
    std::uint64_t batches() const override { return batches_; }

    std::int64_t round_trips() const { return pool_->round_trips(); }
    store::Store& store() { return *reader_; }

 private:
    explicit NodeTarget(const std::string& uri);

    Log log_;
    std::atomic<std::uint64_t> batches_ = 0;
    store::PostgresOptions server_;
    std::shared_ptr<store::PostgresPool> pool_;
    std::unique_ptr<store::PostgresStore> reader_;
    std::unique_ptr<nodes::CommandRouter> router_;
    std::unique_ptr<nodes::Inbound> inbound_;
    std::unique_ptr<net::HttpServer> http_;
};

}  // namespace interlock::bench
