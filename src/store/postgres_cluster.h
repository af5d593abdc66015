// Nodes, leases, lanes and hints in a PostgreSQL database. It has a connection of its own, which is made when it is
// needed. Whoever listens all the time has one of these for that alone.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "store/cluster.h"
#include "store/postgres_connection.h"

namespace interlock::store {

class PostgresCluster final : public Cluster {
 public:
    explicit PostgresCluster(PostgresOptions options) : options_(std::move(options)) {}

    Result<Instant, ReadError> renew(const Node& me, Duration lease) override;
    Result<void, ReadError> leave(Id boot) override;
    Result<std::vector<Node>, ReadError> nodes() override;

    Result<std::vector<LaneHolder>, ReadError> lanes() override;
    Result<LaneHolder, ReadError> lane_of(core::OrgId org) override;

    Result<StoreIdentity, ReadError> identity() override;
    Result<std::string, ReadError> secret() override;

    Result<std::string, ReadError> block_reason() override;
    Result<void, ReadError> set_block_reason(const std::string& why) override;

    Result<void, ReadError> tell(const std::vector<core::OrgId>& orgs) override;
    Result<std::vector<core::OrgId>, ReadError> listen(Duration timeout) override;

 private:
    Result<void, ReadError> connect();
    Result<std::vector<PostgresResult>, ReadError> ask(const std::vector<PostgresRequest>& requests);

    const PostgresOptions options_;
    std::atomic<std::int64_t> round_trips_ = 0;
    std::unique_ptr<PostgresConnection> connection_;
    bool schema_found_ = false;
    bool listening_ = false;
};

// Which database a snapshot is of, and on which timeline: from the connection that its rows come from.
Result<StoreIdentity, ReadError> read_identity(Snapshot& snapshot);

}  // namespace interlock::store
