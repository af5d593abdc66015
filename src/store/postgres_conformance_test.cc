// PostgreSQL takes part in the suite that every store passes, and in that of databases which nodes share.
#include <memory>

#include <gtest/gtest.h>

#include "store/lane_conformance.h"
#include "store/postgres_cluster.h"
#include "store/postgres_store.h"
#include "store/postgres_test_database.h"
#include "store/store_conformance.h"

namespace interlock::store {
namespace {

class PostgresUnderTest final : public StoreUnderTest {
 public:
    Store& store() override { return *store_; }
    void restart() override {
        store_.reset();
        store_ = make();
    }

 private:
    std::unique_ptr<PostgresStore> make() {
        return std::make_unique<PostgresStore>(
            PostgresStore::Options{.server = {.uri = database_.uri()}, .node = Id{1, 1}, .boot = Id{1, ++boots_}});
    }

    PostgresTestDatabase database_;
    std::uint64_t boots_ = 0;
    std::unique_ptr<PostgresStore> store_ = make();
};

class PostgresLanes final : public LanesUnderTest {
 public:
    std::unique_ptr<Store> make_store(const LaneHolder& taker) override {
        return std::make_unique<PostgresStore>(PostgresStore::Options{.server = {.uri = database_.uri()},
                                                                      .org = taker.org,
                                                                      .node = taker.node,
                                                                      .boot = taker.boot,
                                                                      .from_epoch = taker.epoch});
    }
    LaneHolder lane_of(core::OrgId org) override {
        auto lane = cluster_.lane_of(org);
        EXPECT_TRUE(lane) << lane.error().detail;
        return lane ? *lane : LaneHolder{};
    }

 private:
    PostgresTestDatabase database_;
    PostgresCluster cluster_{{.uri = database_.uri()}};
};

INSTANTIATE_TEST_SUITE_P(Postgres, LaneConformance,
                         testing::Values(LanesFactory{"postgres", [] { return std::make_unique<PostgresLanes>(); }}));
INSTANTIATE_TEST_SUITE_P(Postgres, StoreConformance,
                         testing::Values(StoreFactory{"postgres",
                                                      [] { return std::make_unique<PostgresUnderTest>(); }}));

}  // namespace
}  // namespace interlock::store
