// PostgreSQL takes part in the suite that every store passes.
#include <memory>

#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Postgres, StoreConformance,
                         testing::Values(StoreFactory{"postgres",
                                                      [] { return std::make_unique<PostgresUnderTest>(); }}));

}  // namespace
}  // namespace interlock::store
