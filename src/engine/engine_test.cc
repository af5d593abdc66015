#include "engine/engine.h"

#include <future>

#include <gtest/gtest.h>

#include "engine/clock.h"
#include "engine/engine_test_support.h"
#include "engine/id_source.h"
#include "engine/lane.h"
#include "store/memory_store.h"

namespace interlock::engine {
namespace {

using core::ChargeStatus;
using store::CommitFault;

class EngineTest : public testing::Test {
 protected:
    void SetUp() override {
        ASSERT_TRUE(engine.open(noon));
        (void)tell(core::CreateOrg{"default"});
        (void)tell(core::PutAgent{.name = "writer", .command = {}, .max_concurrent_runs = 2, .tags = {}});
    }

    core::CommandKey fresh_key() { return core::CommandKey(ids.next(noon)); }

    static core::Charge charge_of(std::int64_t nanos) {
        core::Charge charge;
        charge.who.agent = "writer";
        charge.cost = Money::nanos(nanos);
        return charge;
    }

    // Queues a command; its answer appears in `answers` once a step has carried it out.
    std::size_t queue(core::CommandBody body, core::CommandKey key, Instant deadline = far_future) {
        const std::size_t slot = answers.size();
        answers.emplace_back();
        engine.submit(Submission{.command = {.org = org, .key = key, .body = std::move(body)},
                                 .on_answer =
                                     [this, slot](SubmitResult answer) {
                                         ASSERT_FALSE(answers[slot]) << "a command is answered once";
                                         answers[slot] = std::move(answer);
                                     },
                                 .deadline = deadline});
        return slot;
    }

    SubmitResult tell(core::CommandBody body) { return tell(std::move(body), fresh_key()); }
    SubmitResult tell(core::CommandBody body, core::CommandKey key) {
        const std::size_t slot = queue(std::move(body), key);
        engine.step(noon);
        return *answers[slot];
    }

    static ChargeStatus status_of(const SubmitResult& answer) {
        return answer ? std::get<core::ChargeReply>(answer->reply).status : ChargeStatus::invalid_request;
    }

    std::int64_t stored_total() const {
        std::int64_t total = 0;
        for (const auto& [_, event] : memory.rows<core::CostEvent>()) total += event.cost;
        return total;
    }

    IdSource ids{1};
    store::MemoryStore memory;
    Engine engine{memory, {.queue_max = 8, .batch_max = 4, .batch_bytes_max = 1000}};
    std::vector<std::optional<SubmitResult>> answers;
};

TEST_F(EngineTest, commits_that_write_a_run_are_counted_apart) {
    const auto before = engine.stats().run_commits;
    (void)tell(charge_of(5));
    EXPECT_EQ(engine.stats().run_commits, before);

    core::AdmitRun run;
    run.run = core::RunId(ids.next(noon));
    run.who.agent = "writer";
    (void)tell(run);
    EXPECT_EQ(engine.stats().run_commits, before + 1);

    // Nobody knows what was in a commit that failed and may have come through all the same.
    memory.fail_next_commit(CommitFault::lose_answer);
    (void)tell(charge_of(5));
    EXPECT_EQ(engine.stats().run_commits, before + 2);
}

TEST_F(EngineTest, what_can_wait_waits_for_what_cannot_and_keeps_its_place) {
    std::vector<int> order;
    const auto submit = [&](int number, bool can_wait) {
        engine.submit(Submission{.command = {.org = org, .key = fresh_key(), .body = charge_of(5)},
                                 .on_answer = [&order, number](const SubmitResult&) { order.push_back(number); },
                                 .can_wait = can_wait});
    };
    EXPECT_FALSE(engine.can_wait()) << "there is nothing to wait with";

    submit(1, true);
    EXPECT_TRUE(engine.can_wait());
    EXPECT_TRUE(engine.has_work(noon));
    submit(2, false);
    submit(3, true);
    EXPECT_FALSE(engine.can_wait());

    const auto batches = engine.stats().batches;
    engine.step(noon);
    EXPECT_EQ(order, (std::vector{1, 2, 3}));
    EXPECT_EQ(engine.stats().batches, batches + 1);
    EXPECT_FALSE(engine.can_wait());
    submit(4, true);
    EXPECT_TRUE(engine.can_wait());
}

TEST_F(EngineTest, a_lane_carries_out_what_can_wait_though_nothing_else_comes) {
    std::promise<bool> told;
    {
        Lane lane(engine);
        lane.submit(Submission{.command = {.org = org, .key = fresh_key(), .body = charge_of(5)},
                               .on_answer = [&told](const SubmitResult& answer) { told.set_value(answer.has_value()); },
                               .can_wait = true});
        EXPECT_TRUE(told.get_future().get());
    }
    EXPECT_EQ(stored_total(), 5);
}

TEST_F(EngineTest, what_has_queued_up_is_one_batch_and_one_commit) {
    const auto batches = engine.stats().batches;
    for (int i = 0; i < 4; ++i) queue(charge_of(5), fresh_key());

    EXPECT_EQ(engine.step(noon), 4u);

    EXPECT_EQ(engine.stats().batches, batches + 1);
    EXPECT_EQ(stored_total(), 20);
    for (std::size_t i = 2; i < answers.size(); ++i) EXPECT_EQ(status_of(*answers[i]), ChargeStatus::charged);
}

TEST_F(EngineTest, after_a_standstill_every_lease_starts_anew) {
    const auto status_after = [&](bool stood_still, Instant now) {
        const core::RunId run(ids.next(noon));
        core::AdmitRun admit;
        admit.run = run;
        admit.who.agent = "writer";
        admit.lease_s = 60;
        const SubmitResult admitted = tell(admit);
        const core::Fence fence = std::get<core::AdmitReply>(admitted->reply).fence;
        if (stood_still) engine.stood_still();
        engine.step(now);
        const SubmitResult heard = tell(core::HeartbeatRun{run, fence});
        return std::get<core::RunReply>(heard->reply).status;
    };
    EXPECT_EQ(status_after(true, noon + std::chrono::minutes(2)), core::RunStatus::done);
    EXPECT_NE(status_after(false, noon + std::chrono::minutes(4)), core::RunStatus::done);
}

TEST_F(EngineTest, nobody_is_answered_before_the_batch_is_stored) {
    std::int64_t stored_when_answered = -1;
    engine.submit(Submission{.command = {.org = org, .key = fresh_key(), .body = charge_of(7)},
                             .on_answer = [&](SubmitResult) { stored_when_answered = stored_total(); }});

    engine.step(noon);

    EXPECT_EQ(stored_when_answered, 7);
}

TEST_F(EngineTest, a_full_queue_says_busy_and_forgets_nothing_it_took) {
    for (int i = 0; i < 8; ++i) queue(charge_of(1), fresh_key());

    const std::size_t refused = queue(charge_of(1), fresh_key());

    ASSERT_TRUE(answers[refused]);
    EXPECT_EQ(answers[refused]->error(), SubmitError::busy);
    while (engine.has_work(noon)) engine.step(noon);
    EXPECT_EQ(stored_total(), 8);
}

TEST_F(EngineTest, a_batch_is_bounded_in_commands_and_the_rest_keeps_its_order) {
    for (int i = 0; i < 7; ++i) queue(charge_of(1), fresh_key());

    EXPECT_EQ(engine.step(noon), 4u);
    EXPECT_EQ(engine.step(noon), 3u);

    std::int64_t seq_before = 0;
    for (std::size_t i = 2; i < answers.size(); ++i) {
        const auto seq = std::get<core::ChargeReply>((*answers[i])->reply).seq.value;
        EXPECT_GT(seq, seq_before);
        seq_before = seq;
    }
}

TEST_F(EngineTest, a_batch_is_bounded_in_bytes) {
    const core::SessionId session(ids.next(noon));
    (void)tell(core::CreateSession{session, "writer", "", ""});
    for (int i = 0; i < 3; ++i) {
        core::Append append{.session = session, .messages = {{}}, .expected_seq = {}, .run = {}, .fence = {}};
        append.messages[0].id = core::MessageId(ids.next(noon));
        append.messages[0].role = "user";
        append.messages[0].content.assign(600, 'x');
        queue(append, fresh_key());
    }

    EXPECT_EQ(engine.step(noon), 1u);
    EXPECT_EQ(engine.step(noon), 1u);
    EXPECT_EQ(engine.step(noon), 1u);
}

TEST_F(EngineTest, a_command_whose_deadline_has_passed_is_not_begun) {
    const std::size_t late = queue(charge_of(9), fresh_key(), noon - std::chrono::seconds(1));

    engine.step(noon);

    EXPECT_EQ(answers[late]->error(), SubmitError::too_late);
    EXPECT_EQ(stored_total(), 0);
}

TEST_F(EngineTest, a_retry_gets_the_first_answer_and_has_no_second_effect) {
    const auto key = fresh_key();
    const SubmitResult first = tell(charge_of(5), key);

    const SubmitResult second = tell(charge_of(5), key);

    ASSERT_TRUE(second);
    EXPECT_TRUE(second->repeated);
    EXPECT_EQ(std::get<core::ChargeReply>(first->reply).seq, std::get<core::ChargeReply>(second->reply).seq);
    EXPECT_EQ(stored_total(), 5);
}

TEST_F(EngineTest, a_retry_in_the_same_batch_gets_the_first_answer_too) {
    const auto key = fresh_key();
    const auto first = queue(charge_of(5), key);
    const auto second = queue(charge_of(5), key);

    engine.step(noon);

    EXPECT_FALSE((*answers[first])->repeated);
    EXPECT_TRUE((*answers[second])->repeated);
    EXPECT_EQ(stored_total(), 5);
}

TEST_F(EngineTest, a_key_with_other_content_is_refused) {
    const auto key = fresh_key();
    (void)tell(charge_of(5), key);

    const SubmitResult other = tell(charge_of(6), key);

    EXPECT_EQ(other.error(), SubmitError::key_reused);
    EXPECT_EQ(stored_total(), 5);
}

TEST_F(EngineTest, a_commit_that_was_rolled_back_is_told_and_can_be_tried_again) {
    const auto key = fresh_key();
    memory.fail_next_commit(CommitFault::fail_before);

    EXPECT_EQ(tell(charge_of(5), key).error(), SubmitError::not_committed);
    EXPECT_EQ(stored_total(), 0);

    EXPECT_EQ(status_of(tell(charge_of(5), key)), ChargeStatus::charged);
    EXPECT_EQ(stored_total(), 5);
}

TEST_F(EngineTest, a_lost_answer_is_settled_by_the_commands_key_before_anybody_is_answered) {
    memory.fail_next_commit(CommitFault::lose_answer);

    const SubmitResult answer = tell(charge_of(5));

    EXPECT_EQ(status_of(answer), ChargeStatus::charged);
    EXPECT_EQ(stored_total(), 5);
}

TEST_F(EngineTest, a_lost_write_is_settled_as_not_committed) {
    memory.fail_next_commit(CommitFault::lose_write);

    EXPECT_EQ(tell(charge_of(5)).error(), SubmitError::not_committed);
    EXPECT_EQ(stored_total(), 0);
}

TEST_F(EngineTest, a_command_without_a_key_is_told_that_nobody_knows) {
    memory.fail_next_commit(CommitFault::lose_answer);

    const SubmitResult answer =
        tell(core::PutAgent{.name = "other", .command = {}, .max_concurrent_runs = 1, .tags = {}}, {});

    EXPECT_EQ(answer.error(), SubmitError::outcome_unknown);
}

TEST_F(EngineTest, a_load_that_fails_voids_the_batch_that_asked) {
    const core::SessionId session(ids.next(noon));
    (void)tell(core::CreateSession{session, "writer", "", ""});
    memory.fail_next_commit(CommitFault::fail_before);
    (void)tell(charge_of(1));  // Memory is dropped: the session must be loaded again.
    memory.fail_next_load();
    core::Charge charge = charge_of(5);
    charge.who.session = session;
    const auto key = fresh_key();

    const SubmitResult answer = tell(charge, key);

    EXPECT_EQ(answer.error(), SubmitError::not_committed);
    EXPECT_EQ(status_of(tell(charge, key)), ChargeStatus::charged);
}

TEST_F(EngineTest, a_store_that_stays_away_is_told_and_the_engine_comes_back_by_itself) {
    bool away = false;
    memory.set_faults({.at_commit = {}, .at_load = {}, .at_open = [&]() -> std::optional<store::OpenError> {
                           if (!away) return std::nullopt;
                           return store::OpenError{store::OpenError::Kind::unavailable, "gone"};
                       }});
    away = true;
    memory.fail_next_commit(CommitFault::lose_answer);
    const auto key = fresh_key();

    EXPECT_EQ(tell(charge_of(5), key).error(), SubmitError::outcome_unknown);
    EXPECT_EQ(tell(charge_of(1)).error(), SubmitError::unavailable);

    away = false;
    const SubmitResult again = tell(charge_of(5), key);
    EXPECT_EQ(status_of(again), ChargeStatus::charged);
    EXPECT_TRUE(again->repeated);
    EXPECT_EQ(stored_total(), 5);
}

TEST_F(EngineTest, what_memory_believed_is_dropped_with_a_failed_commit) {
    core::PutBudget budget;
    budget.name = "month";
    budget.limit_units = 10;
    (void)tell(budget);
    memory.fail_next_commit(CommitFault::fail_before);
    (void)tell(charge_of(10));

    EXPECT_EQ(status_of(tell(charge_of(10))), ChargeStatus::charged);
    EXPECT_EQ(status_of(tell(charge_of(1))), ChargeStatus::budget_exceeded);
}

TEST_F(EngineTest, a_new_budget_in_a_busy_batch_starts_from_everything_before_it) {
    core::PutBudget budget;
    budget.name = "month";
    budget.limit_units = 100;
    queue(charge_of(30), fresh_key());
    queue(charge_of(30), fresh_key());
    const auto put = queue(budget, fresh_key());
    queue(charge_of(30), fresh_key());

    while (engine.has_work(noon)) engine.step(noon);

    EXPECT_EQ(std::get<core::BudgetReply>((*answers[put])->reply).settled, 60);
    EXPECT_EQ(status_of(tell(charge_of(11))), ChargeStatus::budget_exceeded);
    EXPECT_EQ(status_of(tell(charge_of(10))), ChargeStatus::charged);
}

TEST_F(EngineTest, time_alone_ends_a_hold) {
    core::Reserve reserve;
    reserve.hold = core::HoldId(ids.next(noon));
    reserve.who.agent = "writer";
    reserve.bound.usd = 40;
    reserve.ttl_s = 10;
    reserve.dispatched = true;
    (void)tell(reserve);
    ASSERT_EQ(engine.next_deadline(), noon + std::chrono::seconds(10));

    engine.step(noon + std::chrono::seconds(11));

    EXPECT_EQ(stored_total(), 40);
    EXPECT_FALSE(engine.next_deadline());
}

TEST_F(EngineTest, another_engine_on_the_same_rows_goes_on_where_the_first_stopped) {
    const auto key = fresh_key();
    (void)tell(charge_of(5), key);
    Engine second(memory, {});
    ASSERT_TRUE(second.open(noon));

    std::optional<SubmitResult> answer;
    second.submit(Submission{.command = {.org = org, .key = key, .body = charge_of(5)},
                             .on_answer = [&](SubmitResult given) { answer = std::move(given); }});
    second.step(noon);

    EXPECT_TRUE((*answer)->repeated);
    EXPECT_EQ(stored_total(), 5);
}

TEST_F(EngineTest, a_clock_that_is_set_back_does_not_take_time_back) {
    (void)tell(charge_of(1));
    const std::size_t slot = queue(charge_of(2), fresh_key());
    engine.step(noon - std::chrono::hours(24));

    EXPECT_EQ(status_of(*answers[slot]), ChargeStatus::charged);
    for (const auto& [_, event] : memory.rows<core::CostEvent>()) EXPECT_EQ(event.at, noon);
}

// ---- the clock ----------------------------------------------------------------------------------------------------

struct FakeClocks {
    Instant wall = noon;
    Duration monotonic = std::chrono::seconds(100);
    Clock clock() {
        return Clock([this] { return wall; }, [this] { return monotonic; });
    }
};

TEST(Clock, a_wall_clock_that_leaps_forward_is_followed_slowly) {
    FakeClocks fake;
    Clock clock = fake.clock();
    fake.wall += std::chrono::hours(1) + std::chrono::seconds(10);
    fake.monotonic += std::chrono::seconds(10);

    const Instant now = clock.now();

    EXPECT_GE(now, noon + std::chrono::seconds(10));
    EXPECT_LE(now, noon + std::chrono::seconds(11));
}

TEST(Clock, a_wall_clock_that_is_set_back_never_takes_time_back) {
    FakeClocks fake;
    Clock clock = fake.clock();
    fake.wall -= std::chrono::hours(1);
    Instant before = clock.now();
    for (int i = 0; i < 100; ++i) {
        fake.monotonic += std::chrono::milliseconds(10);
        const Instant now = clock.now();
        EXPECT_GT(now, before);
        before = now;
    }
}

TEST(Clock, agrees_with_a_wall_clock_that_behaves) {
    FakeClocks fake;
    Clock clock = fake.clock();
    fake.wall += std::chrono::seconds(60);
    fake.monotonic += std::chrono::seconds(60);

    EXPECT_EQ(clock.now(), fake.wall);
}

TEST(IdSource, gives_different_ids_that_grow_with_time) {
    IdSource ids(7);
    const Id early = ids.next(noon);
    const Id same_moment = ids.next(noon);
    const Id later = ids.next(noon + std::chrono::milliseconds(1));

    EXPECT_NE(early, same_moment);
    EXPECT_LT(early, later);
    EXPECT_LT(same_moment, later);
}

}  // namespace
}  // namespace interlock::engine
