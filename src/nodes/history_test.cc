#include "nodes/history.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "engine/engine.h"
#include "engine/id_source.h"
#include "nodes/guarded_store.h"
#include "nodes/nodes_test_support.h"
#include "store/memory_store.h"
#include "store/temporary_directory.h"

namespace interlock::nodes {
namespace {

class HistoryTest : public testing::Test {
 protected:
    std::unique_ptr<History> open() {
        auto opened = History::open(path);
        EXPECT_TRUE(opened);
        return opened ? std::move(*opened) : nullptr;
    }
    std::unique_ptr<History> open_on(const store::StoreIdentity& store) {
        auto history = open();
        history->check(store);
        return history;
    }
    static History::Page page(std::int64_t seq, char digit) { return {core::Seq(seq), std::string(64, digit)}; }
    static Result<std::optional<std::string>, store::ReadError> no_such_page(core::Seq) {
        return std::optional<std::string>();
    }

    const store::StoreIdentity here{"7001", 1};
    store::TemporaryDirectory directory;
    std::string path = directory.path() + "/history";
};

TEST_F(HistoryTest, a_page_is_remembered_by_the_next_process) {
    open_on(here)->remember(test_org, page(10, 'a'));

    const auto memory = open()->memory();

    EXPECT_EQ(memory.store, here);
    EXPECT_EQ(memory.pages.at(test_org), page(10, 'a'));
}

TEST_F(HistoryTest, the_latest_page_counts_whatever_the_order_they_are_heard_in) {
    const auto history = open_on(here);

    history->remember(test_org, page(20, 'b'));
    history->remember(test_org, page(10, 'a'));

    EXPECT_EQ(history->memory().pages.at(test_org), page(20, 'b'));
}

TEST_F(HistoryTest, a_store_that_went_on_is_served) {
    const auto history = open_on(here);
    history->remember(test_org, page(10, 'a'));

    const auto checked = history->check(test_org, page(10, 'a'), page(30, 'c'),
                                        [](core::Seq) { return std::optional(std::string(64, 'a')); });

    EXPECT_TRUE(checked);
    EXPECT_FALSE(history->block_reason());
    EXPECT_EQ(history->memory().pages.at(test_org), page(30, 'c'));
}

TEST_F(HistoryTest, a_store_that_lost_pages_is_not_served_until_somebody_accepts_it) {
    const auto history = open_on(here);
    history->remember(test_org, page(10, 'a'));

    EXPECT_FALSE(history->check(test_org, page(10, 'a'), page(7, '7'), no_such_page));

    ASSERT_TRUE(history->block_reason());
    EXPECT_NE(history->block_reason()->find("event 10"), std::string::npos) << *history->block_reason();
    EXPECT_NE(history->block_reason()->find("interlock accept-history"), std::string::npos);
    ::unlink(path.c_str());
    EXPECT_FALSE(history->block_reason()) << "the memory was taken away";
    EXPECT_TRUE(history->memory().pages.empty());
}

TEST_F(HistoryTest, a_memory_that_was_taken_away_begins_anew_also_when_nobody_objects) {
    const auto history = open_on(here);
    history->remember(test_org, page(10, 'a'));
    ::unlink(path.c_str());

    history->check(here);
    history->remember(test_org, page(11, 'b'));

    EXPECT_EQ(open()->memory().pages.at(test_org), page(11, 'b'));
}

TEST_F(HistoryTest, a_store_that_went_another_way_is_not_served) {
    const auto history = open_on(here);
    history->remember(test_org, page(10, 'a'));

    EXPECT_FALSE(history->check(test_org, page(10, 'a'), page(30, 'c'),
                                [](core::Seq) { return std::optional(std::string(64, 'x')); }));

    EXPECT_TRUE(history->block_reason());
}

TEST_F(HistoryTest, another_store_or_an_earlier_timeline_is_not_served_and_a_later_one_is) {
    open_on({"7001", 3});

    ASSERT_TRUE(open_on({"7002", 3})->own_objection());
    EXPECT_FALSE(open_on({"7002", 3})->own_objection()->of_the_store) << "its own nodes should go on";
    EXPECT_TRUE(open_on({"7001", 2})->block_reason());
    EXPECT_FALSE(open_on({"7001", 4})->block_reason());
    EXPECT_EQ(open()->memory().store, (store::StoreIdentity{"7001", 4}));
}

TEST_F(HistoryTest, an_objection_is_taken_back_when_the_store_has_everything_again) {
    const auto history = open_on(here);
    history->remember(test_org, page(10, 'a'));

    history->conclude({.store = here, .block_reason = "event 10 is missing"});
    ASSERT_TRUE(history->own_objection());
    EXPECT_NE(history->own_objection()->why.find("event 10 is missing"), std::string::npos);

    history->conclude({.store = {"7001", 2}, .heads = {{test_org, page(12, 'c')}}});
    EXPECT_FALSE(history->block_reason());
    EXPECT_EQ(history->memory().pages.at(test_org), page(12, 'c'));
    EXPECT_EQ(history->memory().store->timeline, 2);
}

TEST_F(HistoryTest, what_a_power_loss_left_of_the_file_is_less_memory_and_no_error) {
    const std::string store = "store s 1" + std::string(118, ' ') + "\n";
    const std::string org_line = "org 1 5 aa" + std::string(117, ' ') + "\n";
    const std::string zeros(128, '\0');
    const auto read = [&](const std::string& text) {
        std::ofstream(path, std::ios::trunc) << text;
        const auto history = History::open(path);
        EXPECT_TRUE(history);
        return history ? (*history)->memory() : History::Memory();
    };

    EXPECT_EQ(read(store + org_line).pages.size(), 1u);
    EXPECT_EQ(read(store + zeros).pages.size(), 0u);
    EXPECT_EQ(read(zeros + org_line).pages.size(), 1u);
    EXPECT_EQ(read(zeros + org_line).store, std::nullopt);
    EXPECT_EQ(read(store + org_line.substr(0, 50)).pages.size(), 0u);
    EXPECT_EQ(read("").pages.size(), 0u);
}

TEST_F(HistoryTest, a_file_that_makes_no_sense_is_an_error_and_stays) {
    std::ofstream(path) << "not a history\n";

    EXPECT_FALSE(History::open(path));

    EXPECT_EQ(::access(path.c_str(), F_OK), 0);
}

// An engine on a store that is put back to an earlier state, as a restored backup or a failover would.
TEST_F(HistoryTest, an_engine_does_not_open_a_store_that_forgot_what_it_committed) {
    engine::IdSource ids(1);
    const auto history = open_on(here);
    const auto database = std::make_shared<store::MemoryDatabase>();
    const auto guarded = [&](const std::shared_ptr<store::MemoryDatabase>& on) {
        return std::make_unique<GuardedStore>(std::make_unique<store::MemoryStore>(on), *history);
    };
    const auto tell = [&](engine::Engine& engine, core::CommandBody body) {
        engine.submit({.command = {.org = test_org, .key = core::CommandKey(ids.next(noon)), .body = std::move(body)},
                       .on_answer = [](engine::SubmitResult answer) { EXPECT_TRUE(answer); }});
        engine.step(noon);
    };
    const auto store = guarded(database);
    engine::Engine engine(*store, {});
    ASSERT_TRUE(engine.open(noon));
    tell(engine, core::CreateOrg{"default"});
    const auto backup = std::make_shared<store::MemoryDatabase>(*database);
    tell(engine, core::PutAgent{.name = "writer", .command = {}, .max_concurrent_runs = 1, .tags = {}});

    const auto same = guarded(database);
    EXPECT_TRUE(engine::Engine(*same, {}).open(noon)) << "as far as it is known";
    const auto restored = guarded(backup);
    EXPECT_FALSE(engine::Engine(*restored, {}).open(noon));
    EXPECT_TRUE(history->block_reason());
}

}  // namespace
}  // namespace interlock::nodes
