#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "store/lane_conformance.h"
#include "store/memory_store.h"
#include "store/sqlite_store.h"
#include "store/store_conformance.h"
#include "store/temporary_directory.h"

namespace interlock::store {
namespace {

class MemoryUnderTest final : public StoreUnderTest {
 public:
    Store& store() override { return *store_; }
    void restart() override {
        store_->close();
        store_ = std::make_unique<MemoryStore>(*store_);
    }

 private:
    std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>();
};

class SqliteUnderTest final : public StoreUnderTest {
 public:
    Store& store() override { return *store_; }
    void restart() override {
        store_.reset();
        store_ = make();
    }

 private:
    std::unique_ptr<SqliteStore> make() {
        return std::make_unique<SqliteStore>(SqliteStore::Options{.directory = directory_.path()});
    }

    TemporaryDirectory directory_;
    std::unique_ptr<SqliteStore> store_ = make();
};

class MemoryLanes final : public LanesUnderTest {
 public:
    std::unique_ptr<Store> make_store(const LaneHolder& taker) override {
        return std::make_unique<MemoryStore>(database_, taker);
    }
    LaneHolder lane_of(core::OrgId org) override { return database_->lane_of(org); }
    std::vector<LoseNextCommit> ways_to_lose_a_commit() override {
        std::vector<LoseNextCommit> ways;
        for (const CommitFault fault : {CommitFault::lose_answer, CommitFault::lose_write,
                                        CommitFault::late_on_the_wire, CommitFault::late_in_the_database}) {
            ways.emplace_back([fault](Store& store) { dynamic_cast<MemoryStore&>(store).fail_next_commit(fault); });
        }
        return ways;
    }
    void let_everything_arrive() override {
        while (database_->late_commits() > 0) database_->deliver_late(0);
    }

 private:
    std::shared_ptr<MemoryDatabase> database_ = std::make_shared<MemoryDatabase>();
};

INSTANTIATE_TEST_SUITE_P(Memory, LaneConformance,
                         testing::Values(LanesFactory{"memory", [] { return std::make_unique<MemoryLanes>(); }}));
INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance,
                         testing::Values(StoreFactory{"memory", [] { return std::make_unique<MemoryUnderTest>(); }}));
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance,
                         testing::Values(StoreFactory{"sqlite", [] { return std::make_unique<SqliteUnderTest>(); }}));

}  // namespace
}  // namespace interlock::store
