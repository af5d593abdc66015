#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance,
                         testing::Values(StoreFactory{"memory", [] { return std::make_unique<MemoryUnderTest>(); }}));
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance,
                         testing::Values(StoreFactory{"sqlite", [] { return std::make_unique<SqliteUnderTest>(); }}));

}  // namespace
}  // namespace interlock::store
