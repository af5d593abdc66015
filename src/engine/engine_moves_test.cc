// An engine whose store is written by somebody else now, and one whose store is a journey away.
#include <gtest/gtest.h>

#include <set>

#include "engine/engine.h"
#include "engine/engine_test_support.h"
#include "engine/id_source.h"
#include "store/memory_store.h"

namespace interlock::engine {
namespace {

using store::CommitFault;

core::Charge charge_of(std::int64_t nanos) {
    core::Charge charge;
    charge.who.agent = "writer";
    charge.cost = Money::nanos(nanos);
    return charge;
}

class EngineMoves : public testing::Test {
 protected:
    void SetUp() override {
        ASSERT_TRUE(engine.open(noon));
        tell(core::CreateOrg{"default"});
        tell(core::PutAgent{.name = "writer", .command = {}, .max_concurrent_runs = 2, .tags = {}});
    }

    void submit(core::CommandBody body, core::CommandKey key) {
        engine.submit(Submission{.command = {.org = org, .key = key, .body = std::move(body)},
                                 .on_answer = [this](SubmitResult answer) { answers.push_back(std::move(answer)); }});
    }
    void tell(core::CommandBody body) {
        submit(std::move(body), core::CommandKey(ids.next(noon)));
        engine.step(noon);
        ASSERT_TRUE(answers.back());
        answers.clear();
    }
    void take_away(CommitFault fault) {
        memory.fail_next_commit(fault);
        store::MemoryStore::Faults faults;
        faults.at_open = [] { return store::OpenError{store::OpenError::Kind::in_use, "another node writes it"}; };
        memory.set_faults(std::move(faults));
    }

    IdSource ids{1};
    store::MemoryStore memory;
    std::vector<Submission> handed_back;
    std::vector<SubmitResult> answers;
    Engine engine{memory, {.on_moved = [this](std::vector<Submission> batch) {
                      std::ranges::move(batch, std::back_inserter(handed_back));
                  }}};
};

TEST_F(EngineMoves, hands_back_what_it_cannot_answer_with_its_keys) {
    const core::CommandKey first(ids.next(noon));
    const core::CommandKey second(ids.next(noon));
    submit(charge_of(1), first);
    submit(charge_of(2), second);
    take_away(CommitFault::fail_before);

    engine.step(noon);

    EXPECT_TRUE(engine.moved());
    EXPECT_TRUE(answers.empty()) << "who writes now will answer";
    ASSERT_EQ(handed_back.size(), 2u);
    EXPECT_EQ(handed_back[0].command.key, first);
    EXPECT_EQ(handed_back[1].command.key, second);
}

TEST_F(EngineMoves, a_command_without_a_key_is_not_asked_twice_when_its_outcome_is_unknown) {
    submit(core::PauseAgent{"writer", "lunch"}, core::CommandKey());
    take_away(CommitFault::lose_answer);

    engine.step(noon);

    EXPECT_TRUE(handed_back.empty());
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers.front().error(), SubmitError::outcome_unknown);
}

TEST_F(EngineMoves, has_moved_for_good) {
    submit(charge_of(1), core::CommandKey(ids.next(noon)));
    take_away(CommitFault::fail_before);
    engine.step(noon);
    memory.set_faults({});

    submit(charge_of(2), core::CommandKey(ids.next(noon)));
    engine.step(noon);

    EXPECT_TRUE(engine.moved());
    EXPECT_EQ(handed_back.size(), 2u) << "the store would open, but others may have written since";
    EXPECT_FALSE(engine.next_deadline());
}

// Counts what is asked for without having been announced.
class FarStore final : public store::Store {
 public:
    explicit FarStore(store::MemoryStore& near_one) : near_(near_one) {}

    bool is_remote() const override { return true; }
    void prefetch(core::OrgId, std::vector<core::ColdRow> rows) override {
        ++journeys;
        for (const core::ColdRow& row : rows) announced_.insert(name_of(row));
    }
    bool load(core::OrgId its_org, core::ColdRow& row) override {
        if (!announced_.contains(name_of(row))) unannounced.push_back(name_of(row));
        return near_.load(its_org, row);
    }
    Result<void, store::CommitError> commit(const store::WriteSet& writes) override {
        announced_.clear();
        return near_.commit(writes);
    }
    core::Amounts sum(core::OrgId its_org, const core::Scope& scope, WindowSpan span) override {
        return near_.sum(its_org, scope, span);
    }
    std::vector<core::OpenSessions> open_sessions(core::OrgId its_org) override { return near_.open_sessions(its_org); }
    bool failed() const override { return near_.failed(); }
    Result<void, store::OpenError> open() override { return near_.open(); }
    void close() override { near_.close(); }
    Result<void, store::ReadError> load_live(const store::OnLiveRow& on_row) override {
        return near_.load_live(on_row);
    }
    Result<Id, store::ReadError> newest_key() override { return near_.newest_key(); }
    Result<std::unique_ptr<store::Snapshot>, store::ReadError> snapshot() override { return near_.snapshot(); }

    int journeys = 0;
    std::vector<std::string> unannounced;

 private:
    static std::string name_of(const core::ColdRow& row) {
        return std::visit(
            []<class Row>(const Row& kind) {
                const std::size_t hash = core::KeyHash{}(core::key_of(kind));
                return std::string(Row::table) + ' ' + std::to_string(hash);
            },
            row);
    }
    store::MemoryStore& near_;
    std::set<std::string> announced_;
};

TEST(FarStores, a_batch_announces_every_row_it_asks_for) {
    IdSource ids(1);
    store::MemoryStore memory;
    FarStore far(memory);
    Engine engine(far, {});
    ASSERT_TRUE(engine.open(noon));
    std::size_t answered = 0;
    const auto submit = [&](core::CommandBody body) {
        // A key that is a hash: whether it was used before, only the store knows.
        const core::CommandKey key(id_from_hash("key " + std::to_string(answered)));
        engine.submit(Submission{.command = {.org = org, .key = key, .body = std::move(body)},
                                 .on_answer = [&](SubmitResult answer) {
                                     ASSERT_TRUE(answer);
                                     EXPECT_TRUE(core::succeeded(answer->reply));
                                     ++answered;
                                 }});
        engine.step(noon);
    };
    submit(core::CreateOrg{"default"});
    submit(core::PutAgent{.name = "writer", .command = {}, .max_concurrent_runs = 2, .tags = {}});
    submit(core::PutBudget{.name = "month", .scope = {}, .limit_units = 1'000'000, .warn = {}});
    far.unannounced.clear();  // What makes an org or sums the ledger may take longer.

    core::SessionId session(ids.next(noon));
    submit(core::CreateSession{.session = session, .agent = "writer", .title = {}, .metadata = {}});
    core::Append append{.session = session, .messages = {}, .expected_seq = {}, .run = {}, .fence = {}};
    append.messages.push_back({.id = core::MessageId(ids.next(noon)), .role = "user", .content = "hi", .metadata = {}});
    submit(append);
    submit(core::ForkSession{
        .from = session, .at_seq = 0, .session = core::SessionId(ids.next(noon)), .title = "another"});
    submit(charge_of(5));
    core::Reserve reserve;
    reserve.hold = core::HoldId(ids.next(noon));
    reserve.who.agent = "writer";
    reserve.who.model = "another";
    reserve.bound.usd = 10;
    submit(reserve);
    core::SettleHold settle;
    settle.hold = reserve.hold;
    settle.cost = Money::nanos(3);
    submit(settle);
    core::AdmitRun admit;
    admit.run = core::RunId(ids.next(noon));
    admit.who.agent = "writer";
    admit.hold.usd = 100;
    submit(admit);
    submit(core::HeartbeatRun{admit.run, core::Fence(1)});
    core::FinishRun finish;
    finish.run = admit.run;
    finish.fence = core::Fence(1);
    finish.charge.emplace();
    finish.charge->model = "a third";
    finish.charge->cost = Money::nanos(7);
    submit(finish);

    EXPECT_EQ(answered, 12u);
    EXPECT_GT(far.journeys, 0);
    EXPECT_EQ(far.unannounced, std::vector<std::string>());
}

}  // namespace
}  // namespace interlock::engine
