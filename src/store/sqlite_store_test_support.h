// What the tests of the SQLite store have in common: a store in a directory of its own, and ways to fill and read it.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "store/sample_rows.h"
#include "store/sqlite_store.h"
#include "store/temporary_directory.h"

namespace interlock::store {

inline std::string bytes_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

class SqliteStoreTest : public testing::Test {
 protected:
    SqliteStoreTest() { make_store({}); }

    void make_store(SqliteStore::Options options) {
        store_.reset();
        options.directory = directory_.path();
        store_ = std::make_unique<SqliteStore>(std::move(options));
    }
    void open() {
        const auto opened = store_->open();
        ASSERT_TRUE(opened) << opened.error().detail;
    }
    void open_with_org() {
        open();
        put(sample::org());
    }
    template <class... Row>
    void put(const Row&... row) {
        const auto done = store_->commit(write_set(row...));
        ASSERT_TRUE(done) << done.error().detail;
    }
    template <class... Row>
    WriteSet write_set(const Row&... row) const {
        WriteSet writes;
        OrgWrites& of_org = writes.orgs.emplace_back();
        of_org.org = org_;
        (of_org.template of<Row>().put.push_back(&row), ...);
        return writes;
    }
    void put_answers(std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t number = from; number < to; ++number) put(sample::answer(number));
    }
    bool has(const core::StoredReply& answer) {
        core::ColdRow row = answer;
        return store_->load(org_, row);
    }
    OpenError::Kind open_error_of(Store& store, std::string* detail = nullptr) {
        const auto opened = store.open();
        EXPECT_FALSE(opened);
        if (opened) return OpenError::Kind::unavailable;
        EXPECT_NE(opened.error().detail, "");
        if (detail != nullptr) *detail = opened.error().detail;
        return opened.error().kind;
    }
    std::string file() const { return directory_.path() + "/interlock.db"; }
    // What a killed process leaves behind, in another directory.
    void copy_files_to(const TemporaryDirectory& other) const {
        for (const char* name : {"/interlock.db", "/interlock.db-wal"}) {
            std::filesystem::copy_file(directory_.path() + name, other.path() + name,
                                       std::filesystem::copy_options::overwrite_existing);
        }
    }

    const core::OrgId org_{1};
    TemporaryDirectory directory_;
    std::unique_ptr<SqliteStore> store_;
};

}  // namespace interlock::store
