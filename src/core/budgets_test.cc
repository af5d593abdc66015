#include "core/budgets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/limits.h"
#include "core/money_test_support.h"

namespace interlock::core {
namespace {

using namespace std::chrono_literals;

class BudgetsTest : public MoneyTest {
 protected:
    static const Change<PutBudget> pausing;
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");

    std::vector<std::string> pauses_of(const std::string& agent) {
        std::vector<std::string> by;
        for (const AgentPause& pause : get<Agent>(agent).pauses) by.push_back(pause.by);
        return by;
    }
    std::vector<std::int32_t> warned(const std::string& budget) {
        std::vector<std::int32_t> percents;
        for (const BudgetWarned& event : told<BudgetWarned>()) {
            if (event.budget == budget) percents.push_back(event.percent);
        }
        return percents;
    }
    std::string stop_of(RunId run) { return get<Run>(run).stop_requested; }
};

const MoneyTest::Change<PutBudget> BudgetsTest::pausing = [](PutBudget& body) {
    body.on_exhausted = OnExhausted::pause_agent;
};

using Percents = std::vector<std::int32_t>;
using Names = std::vector<std::string>;

// ---- refusals -----------------------------------------------------------------------------------------------------

TEST_F(BudgetsTest, a_budget_is_refused_for_the_first_reason_in_the_order_of_its_status) {
    make_budget("day", cents(10));
    PutBudget body;
    body.name = "day";
    body.window = WindowKind::month;
    body.limit_units = -1;

    EXPECT_EQ(apply(body).status, BudgetStatus::invalid_request);
    body.limit_units = 1;
    EXPECT_EQ(apply(body).status, BudgetStatus::shape_is_fixed);
    EXPECT_EQ(apply(DeleteBudget{"nothing"}).status, BudgetStatus::budget_not_found);
    EXPECT_EQ(apply(UnfreezeBudget{"nothing"}).status, BudgetStatus::budget_not_found);
}

TEST_F(BudgetsTest, an_org_has_only_so_many_budgets) {
    make_budget("first", cents(10));
    Budget row = get<Budget>("first");
    for (std::size_t i = 1; i < limits::budgets_per_org_max; ++i) {
        row.name = "b" + std::to_string(i);
        row.scope.agent = row.name;  // So that each stands in a bucket of its own.
        row.deleted = i % 2 == 0;    // The deleted ones count: their names are not freed.
        machine.org(org).adopt(row);
    }
    PutBudget body;
    body.name = "one-more";
    body.window = WindowKind::day;

    // Past the fixture, which would look through all of them each time.
    const auto put = [&] {
        return std::get<BudgetReply>(machine.apply({now}, command_of(fresh_key(), body)).reply).status;
    };
    EXPECT_EQ(put(), BudgetStatus::too_many);
    body.limit_units = -1;
    EXPECT_EQ(put(), BudgetStatus::invalid_request);
    body.name = "first";
    body.limit_units = 5;
    EXPECT_EQ(put(), BudgetStatus::done) << "one that is there can still change";
}

TEST_F(BudgetsTest, nonsense_is_an_invalid_request) {
    const std::string long_label(limits::name_bytes_max + 1, 'x');
    const std::vector<Change<PutBudget>> changes{
        [](PutBudget& body) { body.name = ""; },
        [](PutBudget& body) { body.name = "two words"; },
        [&](PutBudget& body) { body.name = long_label; },
        [&](PutBudget& body) { body.scope.agent = long_label; },
        [&](PutBudget& body) { body.scope.workflow = long_label; },
        [&](PutBudget& body) { body.scope.provider = long_label; },
        [&](PutBudget& body) { body.scope.model = long_label; },
        [&](PutBudget& body) { body.scope.api_key = "a\x01"; },
        [](PutBudget& body) { body.scope.tags = {{"", "x"}}; },
        [](PutBudget& body) { body.limit_units = -1; },
        [](PutBudget& body) { body.zone = "Mars/Olympus"; },
        [](PutBudget& body) { body.zone = ""; },
        [](PutBudget& body) { body.zone = "localtime"; },
        [](PutBudget& body) { body.warn = {0}; },
        [](PutBudget& body) { body.warn = {50, 50}; },
        [](PutBudget& body) { body.warn = {80, 50}; },
        [](PutBudget& body) { body.warn = {1001}; },
        [](PutBudget& body) {
            for (std::int32_t i = 1; i <= static_cast<std::int32_t>(limits::warn_thresholds_max) + 1; ++i)
                body.warn.push_back(i);
        },
    };

    for (std::size_t i = 0; i < changes.size(); ++i) {
        const auto reply = put_budget("day", cents(10), changes[i]);
        EXPECT_EQ(reply.status, BudgetStatus::invalid_request) << i;
        EXPECT_NE(reply.detail, "") << i;
    }
    EXPECT_TRUE(rows().of<Budget>().empty());
}

TEST_F(BudgetsTest, scope_metric_window_and_zone_are_fixed_also_for_a_deleted_budget) {
    const std::vector<Change<PutBudget>> changes{
        [](PutBudget& body) { body.scope.agent = "ada"; },
        [](PutBudget& body) { body.scope.tags = {{"team", "red"}}; },
        [](PutBudget& body) { body.metric = Metric::tokens; },
        [](PutBudget& body) { body.window = WindowKind::week; },
        [](PutBudget& body) { body.zone = "Europe/Berlin"; },
    };
    make_budget("day", cents(10));

    for (const auto& change : changes)
        EXPECT_EQ(put_budget("day", cents(10), change).status, BudgetStatus::shape_is_fixed);
    EXPECT_EQ(apply(DeleteBudget{"day"}).status, BudgetStatus::done);
    for (const auto& change : changes)
        EXPECT_EQ(put_budget("day", cents(10), change).status, BudgetStatus::shape_is_fixed);
    EXPECT_EQ(put_budget("day", cents(10)).status, BudgetStatus::done);
}

TEST_F(BudgetsTest, putting_the_same_again_changes_nothing) {
    make_budget("day", cents(10), [](PutBudget& body) { body.warn = {50}; });
    charge(cents(6));
    hold(cents(1));

    const auto reply = put_budget("day", cents(10), [](PutBudget& body) { body.warn = {50}; });

    EXPECT_EQ(reply.status, BudgetStatus::unchanged);
    EXPECT_EQ(reply.settled, nanos(6));
    EXPECT_EQ(reply.held, nanos(1));
    EXPECT_EQ(told<BudgetChanged>().size(), 1u);
}

// ---- a new budget meets an old ledger -----------------------------------------------------------------------------

TEST_F(BudgetsTest, a_new_budget_starts_from_what_its_window_has_seen) {
    make_agent("bob");
    const SessionId session = make_session("ada");
    charge(cents(1));  // Monday noon.
    advance(24h);
    charge(cents(2), [&](Charge& body) {
        body.usage = {1, 2, 3, 4, 5, 6};
        body.calls = 3;
        body.who.session = session;
        body.who.tags = {{"team", "red"}};
    });
    charge(cents(4), [](Charge& body) { body.who.agent = "bob"; });
    const HoldId open = hold(cents(8), [](Reserve& body) { body.bound.tokens = 9, body.ttl_s = 3600; });
    release(hold(cents(16)));
    admit();
    admit_with(cents(32));

    EXPECT_EQ(put_budget("day", cents(1000)).settled, nanos(6));
    EXPECT_EQ(window("day").held, nanos(40));
    EXPECT_EQ(put_budget("week", cents(1000), [](PutBudget& body) { body.window = WindowKind::week; }).settled,
              nanos(7));
    EXPECT_EQ(put_budget("month", cents(1000), [](PutBudget& body) { body.window = WindowKind::month; }).settled,
              nanos(7));
    EXPECT_EQ(put_budget("total", cents(1000), [](PutBudget& body) { body.window = WindowKind::total; }).settled,
              nanos(7));
    EXPECT_EQ(put_budget("bob", cents(1000), [](PutBudget& body) { body.scope.agent = "bob"; }).settled, nanos(4));
    EXPECT_EQ(put_budget("session", cents(1000), [&](PutBudget& body) { body.scope.session = session; }).settled,
              nanos(2));
    EXPECT_EQ(put_budget("red", cents(1000), [](PutBudget& body) { body.scope.tags = {{"team", "red"}}; }).settled,
              nanos(2));
    const auto tokens = put_budget("tokens", cents(1), [](PutBudget& body) { body.metric = Metric::tokens; });
    EXPECT_EQ(tokens.settled, 21);
    EXPECT_EQ(tokens.held, 9);
    EXPECT_EQ(put_budget("calls", cents(1), [](PutBudget& body) { body.metric = Metric::calls; }).settled, 4);
    EXPECT_EQ(put_budget("runs", cents(1), [](PutBudget& body) { body.metric = Metric::runs; }).settled, 2);

    // The hold that was there before is now everybody's.
    settle(open, cents(5), [](SettleHold& body) { body.usage.input_tokens = 1; });
    EXPECT_EQ(window("day").settled, nanos(11));
    EXPECT_EQ(window("day").held, nanos(32));
    EXPECT_EQ(window("tokens").settled, 22);
    EXPECT_EQ(window("tokens").held, 0);
}

TEST_F(BudgetsTest, a_new_budget_counts_runs_holds_and_what_was_drawn_from_them_once) {
    const AdmitReply run = admit_with(cents(60));
    const HoldId sub = hold(cents(40), of_run(run.run));
    charge(cents(5), of_run(run.run));

    EXPECT_EQ(put_budget("day", cents(100)).held, nanos(55));
    EXPECT_EQ(window("day").settled, nanos(5));
    settle(sub, cents(10));

    EXPECT_EQ(window("day").settled, nanos(15));
    EXPECT_EQ(window("day").held, nanos(45)) << "30 came back to the run's own";
    EXPECT_EQ(charge(cents(45), of_run(run.run)).status, ChargeStatus::charged);
    EXPECT_EQ(window("day").held, 0);
}

TEST_F(BudgetsTest, a_late_budget_that_is_passed_already_refuses_and_freezes_nobody) {
    charge(cents(30));
    const HoldId open = hold(cents(20));

    make_budget("day", cents(10));

    EXPECT_EQ(window("day").grace, nanos(40));
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(settle(open, cents(20)).overage, Money()) << "it was admitted when there was no limit";
    EXPECT_EQ(get<Budget>("day").frozen, "");
    at(midnight);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
}

TEST_F(BudgetsTest, a_new_budget_counts_holds_as_large_as_can_be) {
    constexpr Amounts most{limits::nanos_per_event_max, limits::tokens_per_event_max, limits::calls_per_event_max, 0};
    const auto huge = [&](Reserve& body) { body.bound = most; };
    hold(Money(), huge);
    hold(Money(), huge);

    EXPECT_EQ(put_budget("usd", cents(1)).held, 2 * most.usd);
    EXPECT_EQ(window("usd").grace, 2 * most.usd - nanos(1));
    const auto of_tokens = [](PutBudget& body) { body.metric = Metric::tokens; };
    EXPECT_EQ(put_budget("tokens", Money::nanos(1), of_tokens).held, 2 * most.tokens);
}

// ---- metrics ------------------------------------------------------------------------------------------------------

TEST_F(BudgetsTest, tokens_are_limited_whatever_their_kind) {
    make_budget("tokens", Money::nanos(21), [](PutBudget& body) { body.metric = Metric::tokens; });

    EXPECT_EQ(charge(cents(1), [](Charge& body) { body.usage = {2, 2, 3, 4, 5, 6}; }).status,
              ChargeStatus::budget_exceeded);
    const auto reply = charge(cents(1), [](Charge& body) { body.usage = {1, 2, 3, 4, 5, 6}; });
    EXPECT_EQ(reply.status, ChargeStatus::charged);

    EXPECT_EQ(window("tokens").settled, 21);
    EXPECT_EQ(charge(cents(1), [](Charge& body) { body.usage.cache_read_tokens = 1; }).status,
              ChargeStatus::budget_exceeded);
    EXPECT_EQ(reserve(cents(1), [](Reserve& body) { body.bound.tokens = 1; }).status, ReserveStatus::budget_exceeded);
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::charged) << "without tokens";
}

TEST_F(BudgetsTest, calls_are_limited) {
    make_budget("calls", Money::nanos(3), [](PutBudget& body) { body.metric = Metric::calls; });

    EXPECT_EQ(charge(cents(1), [](Charge& body) { body.calls = 2; }).status, ChargeStatus::charged);
    EXPECT_EQ(charge(cents(1), [](Charge& body) { body.calls = 2; }).status, ChargeStatus::budget_exceeded);
    const HoldId id = hold(cents(1), [](Reserve& body) { body.bound.calls = 1; });
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(settle(id, cents(1)).status, HoldStatus::done);

    EXPECT_EQ(window("calls").settled, 3);
}

TEST_F(BudgetsTest, runs_are_limited_and_counted_by_their_admission) {
    make_budget("runs", Money::nanos(2), [](PutBudget& body) { body.metric = Metric::runs; });
    const AdmitReply first = admit();
    EXPECT_EQ(admit().status, AdmitStatus::admitted);

    const auto third = admit();
    EXPECT_EQ(third.status, AdmitStatus::budget_exceeded);
    EXPECT_EQ(third.budget->metric, Metric::runs);
    finish(first);
    EXPECT_EQ(admit().status, AdmitStatus::budget_exceeded) << "an ended run was a run";
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::charged) << "money is no run";

    at(midnight);
    EXPECT_EQ(admit().status, AdmitStatus::admitted);
    EXPECT_EQ(window("runs").settled, 1);
}

TEST_F(BudgetsTest, a_soft_budget_counts_warns_and_refuses_nobody) {
    make_budget("soft", cents(10), [](PutBudget& body) {
        body.hard = false;
        body.warn = {100, 200};
    });

    EXPECT_EQ(charge(cents(15)).status, ChargeStatus::charged);
    EXPECT_EQ(settle(hold(cents(15)), cents(20)).status, HoldStatus::done);

    EXPECT_EQ(window("soft").settled, nanos(35));
    EXPECT_FALSE(window("soft").hard);
    EXPECT_EQ(warned("soft"), (Percents{100, 200}));
    EXPECT_EQ(get<Budget>("soft").frozen, "");
    EXPECT_EQ(told<BudgetExhausted>().size(), 1u);
}

TEST_F(BudgetsTest, a_soft_budget_that_becomes_hard_refuses_from_then_on) {
    make_budget("day", cents(10), [](PutBudget& body) { body.hard = false; });
    charge(cents(15));

    make_budget("day", cents(10));

    EXPECT_EQ(window("day").grace, nanos(5));
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::budget_exceeded);
    make_budget("day", cents(10), [](PutBudget& body) { body.hard = false; });
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::charged);
}

// ---- changing the limit -------------------------------------------------------------------------------------------

TEST_F(BudgetsTest, a_limit_lowered_below_what_is_spent_refuses_and_a_raised_one_admits_again) {
    make_budget("day", cents(100));
    charge(cents(60));
    hold(cents(10));

    const auto lowered = put_budget("day", cents(50));
    EXPECT_EQ(lowered.status, BudgetStatus::done);
    EXPECT_EQ(lowered.settled, nanos(60));
    EXPECT_EQ(lowered.held, nanos(10));
    EXPECT_EQ(window("day").grace, nanos(20));
    EXPECT_EQ(window("day").limit_units, nanos(50));
    const auto refused = charge(Money::nanos(1));
    EXPECT_EQ(refused.status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(refused.budget->free, 0);

    put_budget("day", cents(80));
    EXPECT_EQ(window("day").grace, 0);
    EXPECT_EQ(charge(cents(11)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
}

TEST_F(BudgetsTest, a_past_window_keeps_the_limit_of_its_time) {
    make_budget("day", cents(10));
    charge(cents(1));
    at(midnight);
    charge(cents(1));

    put_budget("day", cents(20), [](PutBudget& body) { body.hard = false; });
    at(midnight + 24h);
    charge(cents(1));

    EXPECT_EQ(window_at_time("day", start).limit_units, nanos(10));
    EXPECT_TRUE(window_at_time("day", start).hard);
    EXPECT_EQ(window_at_time("day", midnight).limit_units, nanos(20));
    EXPECT_FALSE(window_at_time("day", midnight).hard);
    EXPECT_EQ(window("day").limit_units, nanos(20));
}

TEST_F(BudgetsTest, a_raised_limit_resumes_whom_the_budget_paused) {
    make_agent("bob");
    make_budget("day", cents(10), pausing);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
    EXPECT_EQ(charge(cents(1), [](Charge& body) { body.who.agent = "bob"; }).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(pauses_of("ada"), Names{"budget:day"});
    EXPECT_EQ(pauses_of("bob"), Names{"budget:day"});
    apply(PauseAgent{"bob", "lunch"});

    put_budget("day", cents(20), pausing);

    EXPECT_EQ(pauses_of("ada"), Names{});
    EXPECT_EQ(pauses_of("bob"), Names{"operator"});
    EXPECT_FALSE(window("day").exhausted);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
    EXPECT_EQ(pauses_of("ada"), Names{"budget:day"}) << "exhausted again";
}

TEST_F(BudgetsTest, a_change_that_makes_no_room_resumes_nobody) {
    make_budget("day", cents(10), pausing);
    charge(cents(7));
    EXPECT_EQ(charge(cents(5)).status, ChargeStatus::budget_exceeded);
    ASSERT_EQ(pauses_of("ada"), Names{"budget:day"});

    make_budget("day", cents(10), [](PutBudget& body) {
        pausing(body);
        body.warn = {90};
    });
    EXPECT_EQ(pauses_of("ada"), Names{"budget:day"});
    make_budget("day", cents(9), pausing);
    EXPECT_EQ(pauses_of("ada"), Names{"budget:day"});
    EXPECT_EQ(charge(cents(5)).status, ChargeStatus::budget_exceeded);

    EXPECT_EQ(told<BudgetExhausted>().size(), 1u) << "once per window";
    make_budget("day", cents(11), pausing);
    EXPECT_EQ(pauses_of("ada"), Names{});
}

TEST_F(BudgetsTest, a_raise_that_stays_below_what_is_spent_resumes_nobody) {
    make_budget("day", cents(100), pausing);
    charge(cents(60));
    make_budget("day", cents(50), pausing);
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);
    ASSERT_EQ(pauses_of("ada"), Names{"budget:day"});

    put_budget("day", cents(60), pausing);

    EXPECT_EQ(pauses_of("ada"), Names{"budget:day"});
    EXPECT_TRUE(window("day").exhausted);
}

// ---- delete, and put again ----------------------------------------------------------------------------------------

TEST_F(BudgetsTest, a_deleted_budget_refuses_nobody_and_holds_nothing) {
    make_budget("day", cents(10), pausing);
    make_budget("other", cents(100));
    const HoldId open = hold(cents(8));
    EXPECT_EQ(charge(cents(2)).status, ChargeStatus::charged);
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);

    EXPECT_EQ(apply(DeleteBudget{"day"}).status, BudgetStatus::done);

    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(window("other").held, nanos(8));
    EXPECT_EQ(charge(cents(5)).status, ChargeStatus::charged);
    EXPECT_EQ(settle(open, cents(8)).status, HoldStatus::done);
    EXPECT_EQ(window("day").settled, nanos(2)) << "the record of its time";
    EXPECT_EQ(window("other").settled, nanos(15));
    EXPECT_EQ(apply(DeleteBudget{"day"}).status, BudgetStatus::budget_not_found);
    EXPECT_EQ(apply(UnfreezeBudget{"day"}).status, BudgetStatus::budget_not_found);
    EXPECT_EQ(told<BudgetDeleted>().size(), 1u);
}

TEST_F(BudgetsTest, deleting_a_budget_resumes_whom_it_paused) {
    make_budget("day", cents(10), pausing);
    charge(cents(10));
    ASSERT_EQ(pauses_of("ada"), Names{"budget:day"});

    apply(DeleteBudget{"day"});

    EXPECT_EQ(pauses_of("ada"), Names{});
    EXPECT_EQ(reserve(cents(1)).status, ReserveStatus::held);
}

TEST_F(BudgetsTest, a_budget_put_again_knows_what_happened_while_it_was_gone) {
    make_budget("day", cents(100), [](PutBudget& body) { body.warn = {10}; });
    charge(cents(20));
    const AdmitReply run = admit_with(cents(30));
    const HoldId sub = hold(cents(10), of_run(run.run));
    apply(DeleteBudget{"day"});
    charge(cents(5));
    const HoldId meanwhile = hold(cents(7));
    charge(cents(3), of_run(run.run));

    const auto reply = put_budget("day", cents(100));

    EXPECT_EQ(reply.status, BudgetStatus::done);
    EXPECT_EQ(reply.settled, nanos(28));
    EXPECT_EQ(reply.held, nanos(34)) << "17 of the run's own, 10 drawn from it, 7 of another";
    settle(sub, cents(1));
    settle(meanwhile, cents(7));
    EXPECT_EQ(window("day").settled, nanos(36));
    EXPECT_EQ(window("day").held, nanos(26));
    finish(run);
    EXPECT_EQ(window("day").held, 0);
}

TEST_F(BudgetsTest, a_budget_put_again_later_leaves_the_windows_of_its_first_life_alone) {
    make_budget("day", cents(100));
    charge(cents(20));
    const HoldId old = hold(cents(10), [](Reserve& body) { body.ttl_s = 24 * 3600; });
    apply(DeleteBudget{"day"});
    charge(cents(5));
    at(midnight);
    make_budget("day", cents(100));

    settle(old, cents(10));

    EXPECT_EQ(window_at_time("day", start).settled, nanos(20));
    EXPECT_EQ(window("day").settled, 0);
    EXPECT_EQ(window("day").held, 0);
}

TEST_F(BudgetsTest, a_budget_put_again_is_not_frozen_any_more) {
    make_budget("day", cents(10));
    charge(cents(11), [](Charge& body) { body.incurred = true; });
    ASSERT_NE(get<Budget>("day").frozen, "");
    EXPECT_EQ(put_budget("day", cents(20)).status, BudgetStatus::done);
    EXPECT_EQ(charge(Money()).status, ChargeStatus::budget_frozen) << "a new limit is no look at the overage";

    apply(DeleteBudget{"day"});
    put_budget("day", cents(20));

    EXPECT_EQ(charge(cents(9)).status, ChargeStatus::charged);
}

// ---- thresholds ---------------------------------------------------------------------------------------------------

TEST_F(BudgetsTest, each_threshold_fires_once_per_window) {
    make_budget("day", cents(100), [](PutBudget& body) { body.warn = {50, 80, 100}; });

    charge(Money::nanos(nanos(50) - 1));
    EXPECT_EQ(warned("day"), Percents{});
    charge(Money::nanos(1));
    EXPECT_EQ(warned("day"), Percents{50});
    const BudgetWarned first = told<BudgetWarned>()[0];
    EXPECT_EQ(first.settled, nanos(50));
    EXPECT_EQ(first.limit_units, nanos(100));
    EXPECT_EQ(first.window, window("day").start_at);
    charge(cents(1));
    EXPECT_EQ(warned("day"), Percents{50});
    reload();
    charge(cents(1));
    EXPECT_EQ(warned("day"), Percents{50}) << "also after a restart";
    charge(cents(48));
    EXPECT_EQ(warned("day"), (Percents{50, 80, 100}));

    at(midnight);
    charge(cents(49));
    EXPECT_EQ(warned("day").size(), 3u);
    charge(cents(1));
    EXPECT_EQ(warned("day"), (Percents{50, 80, 100, 50})) << "a new window";
}

TEST_F(BudgetsTest, one_charge_can_pass_several_thresholds_and_they_are_told_in_order) {
    make_budget("day", cents(100), [](PutBudget& body) { body.warn = {1, 25, 50, 75, 100}; });

    charge(cents(80));

    EXPECT_EQ(warned("day"), (Percents{1, 25, 50, 75}));
    EXPECT_EQ(window("day").warned, 75);
}

TEST_F(BudgetsTest, money_that_is_only_held_warns_nobody) {
    make_budget("day", cents(100), [](PutBudget& body) { body.warn = {50}; });
    const HoldId id = hold(cents(90));

    EXPECT_EQ(warned("day"), Percents{});
    settle(id, cents(49));
    EXPECT_EQ(warned("day"), Percents{});
    charge(cents(1));
    EXPECT_EQ(warned("day"), Percents{50});
}

TEST_F(BudgetsTest, a_late_settle_warns_for_its_own_window) {
    make_budget("day", cents(100), [](PutBudget& body) { body.warn = {50}; });
    at(midnight - 1s);
    const HoldId id = hold(cents(60));
    at(midnight + 1s);

    settle(id, cents(60));

    ASSERT_EQ(warned("day"), Percents{50});
    EXPECT_EQ(told<BudgetWarned>()[0].window, midnight - 24h);
    EXPECT_EQ(window("day").warned, 0);
}

TEST_F(BudgetsTest, thresholds_of_large_limits_do_not_overflow) {
    make_budget("day", Money::nanos(2 * limits::nanos_per_event_max), [](PutBudget& body) { body.warn = {50, 99}; });

    charge(Money::nanos(limits::nanos_per_event_max - 1));
    EXPECT_EQ(warned("day"), Percents{});
    charge(Money::nanos(1));

    EXPECT_EQ(warned("day"), Percents{50});
}

// ---- exhaustion ---------------------------------------------------------------------------------------------------

TEST_F(BudgetsTest, a_window_is_exhausted_when_its_events_have_reached_the_limit) {
    make_budget("day", cents(10), pausing);

    charge(cents(9));
    EXPECT_EQ(told<BudgetExhausted>().size(), 0u);
    EXPECT_EQ(pauses_of("ada"), Names{});
    charge(cents(1));

    EXPECT_TRUE(window("day").exhausted);
    ASSERT_EQ(told<BudgetExhausted>().size(), 1u);
    EXPECT_EQ(told<BudgetExhausted>()[0].budget, "day");
    EXPECT_EQ(told<BudgetExhausted>()[0].window, midnight - 24h);
    const Agent ada = get<Agent>("ada");
    ASSERT_EQ(ada.pauses.size(), 1u);
    EXPECT_EQ(ada.pauses[0].by, "budget:day");
    EXPECT_EQ(ada.pauses[0].since, now);
    EXPECT_EQ(ada.pauses[0].until, midnight);
    EXPECT_EQ(reserve(Money()).status, ReserveStatus::agent_paused);
    EXPECT_EQ(admit().status, AdmitStatus::agent_paused);
}

TEST_F(BudgetsTest, a_window_is_exhausted_when_what_an_empty_one_would_take_no_longer_fits) {
    make_budget("day", cents(10), pausing);
    charge(cents(6));

    EXPECT_EQ(charge(cents(5)).status, ChargeStatus::budget_exceeded);

    EXPECT_TRUE(window("day").exhausted);
    EXPECT_EQ(pauses_of("ada"), Names{"budget:day"});
    EXPECT_EQ(window("day").settled, nanos(6)) << "the charge itself left nothing behind";
    EXPECT_EQ(rows().of<CostEvent>().size(), 1u);
}

TEST_F(BudgetsTest, a_hold_and_a_run_that_no_longer_fit_exhaust_as_a_charge_does) {
    make_agent("bob");
    make_budget("day", cents(10), pausing);
    charge(cents(6));

    EXPECT_EQ(reserve(cents(5), [](Reserve& body) { body.who.agent = "bob"; }).status, ReserveStatus::budget_exceeded);
    EXPECT_EQ(pauses_of("bob"), Names{"budget:day"});
    EXPECT_EQ(pauses_of("ada"), Names{}) << "only who ran into it";
    EXPECT_EQ(admit([](AdmitRun& body) { body.hold.usd = nanos(5); }).status, AdmitStatus::budget_exceeded);
    EXPECT_EQ(pauses_of("ada"), Names{"budget:day"});

    EXPECT_EQ(told<BudgetExhausted>().size(), 1u) << "once per window";
}

TEST_F(BudgetsTest, money_that_is_merely_held_does_not_exhaust) {
    make_budget("day", cents(10), pausing);
    charge(cents(1));
    hold(cents(9));

    EXPECT_EQ(charge(cents(9)).status, ChargeStatus::budget_exceeded);

    EXPECT_FALSE(window("day").exhausted);
    EXPECT_EQ(pauses_of("ada"), Names{});
}

TEST_F(BudgetsTest, what_no_window_could_ever_take_does_not_exhaust) {
    make_budget("day", cents(10), pausing);
    charge(cents(9));

    EXPECT_EQ(charge(cents(11)).status, ChargeStatus::budget_exceeded);

    EXPECT_FALSE(window("day").exhausted);
    EXPECT_EQ(pauses_of("ada"), Names{});
}

TEST_F(BudgetsTest, a_frozen_budget_pauses_nobody) {
    make_budget("day", cents(10), pausing);
    settle(hold(cents(5)), cents(6));
    ASSERT_NE(get<Budget>("day").frozen, "");

    EXPECT_EQ(charge(cents(5)).status, ChargeStatus::budget_frozen);

    EXPECT_EQ(pauses_of("ada"), Names{});
}

TEST_F(BudgetsTest, a_budget_that_only_refuses_does_only_that) {
    make_budget("day", cents(10));
    const AdmitReply run = admit();

    charge(cents(10));
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);

    EXPECT_EQ(told<BudgetExhausted>().size(), 1u);
    EXPECT_EQ(pauses_of("ada"), Names{});
    EXPECT_EQ(stop_of(run.run), "");
}

TEST_F(BudgetsTest, stop_runs_asks_the_runs_in_its_scope_to_end) {
    make_agent("bob");
    make_budget("ada", cents(10), [](PutBudget& body) {
        body.scope.agent = "ada";
        body.on_exhausted = OnExhausted::stop_runs;
    });
    const AdmitReply first = admit();
    const AdmitReply second = admit();
    const AdmitReply other = admit([](AdmitRun& body) { body.who.agent = "bob"; });

    charge(cents(10));

    EXPECT_EQ(stop_of(first.run), "budget 'ada' is exhausted");
    EXPECT_EQ(stop_of(second.run), "budget 'ada' is exhausted");
    EXPECT_EQ(stop_of(other.run), "");
    EXPECT_EQ(told<RunStopRequested>().size(), 2u);
    EXPECT_EQ(pauses_of("ada"), Names{});
    EXPECT_EQ(apply(HeartbeatRun{first.run, first.fence}).stop_requested, "budget 'ada' is exhausted");
}

TEST_F(BudgetsTest, a_run_that_started_after_the_exhaustion_is_asked_to_end_when_it_runs_into_it) {
    make_budget("day", cents(10), [](PutBudget& body) { body.on_exhausted = OnExhausted::stop_runs; });
    charge(cents(8));
    EXPECT_EQ(charge(cents(5)).status, ChargeStatus::budget_exceeded);
    ASSERT_TRUE(window("day").exhausted);
    const AdmitReply run = admit();
    ASSERT_EQ(run.status, AdmitStatus::admitted) << "there is something left";
    EXPECT_EQ(stop_of(run.run), "");

    EXPECT_EQ(charge(cents(3), of_run(run.run)).status, ChargeStatus::budget_exceeded);

    EXPECT_EQ(stop_of(run.run), "budget 'day' is exhausted");
    EXPECT_EQ(told<BudgetExhausted>().size(), 1u);
}

TEST_F(BudgetsTest, a_run_that_sets_nothing_aside_is_refused_where_nothing_is_left) {
    make_budget("usd", cents(10));
    charge(cents(10));

    const auto reply = admit();

    EXPECT_EQ(reply.status, AdmitStatus::budget_exceeded);
    EXPECT_EQ(reply.budget->budget, "usd");
}

TEST_F(BudgetsTest, a_budget_of_runs_is_exhausted_by_the_first_run_that_it_refuses) {
    make_budget("runs", Money::nanos(1), [](PutBudget& body) {
        body.metric = Metric::runs;
        body.on_exhausted = OnExhausted::pause_agent;
        body.warn = {100};
    });

    EXPECT_EQ(admit().status, AdmitStatus::admitted);
    EXPECT_EQ(warned("runs"), Percents{100});
    EXPECT_EQ(pauses_of("ada"), Names{}) << "the last one that it admits has done nothing wrong";
    EXPECT_EQ(admit().status, AdmitStatus::budget_exceeded);

    EXPECT_EQ(pauses_of("ada"), Names{"budget:runs"});
    EXPECT_EQ(admit().status, AdmitStatus::agent_paused);
}

TEST_F(BudgetsTest, a_budget_of_runs_never_stops_the_runs_it_has_admitted) {
    make_budget("runs", Money::nanos(1), [](PutBudget& body) {
        body.metric = Metric::runs;
        body.on_exhausted = OnExhausted::stop_runs;
    });
    const AdmitReply run = admit();
    ASSERT_EQ(run.status, AdmitStatus::admitted);

    EXPECT_EQ(admit().status, AdmitStatus::budget_exceeded);

    EXPECT_EQ(stop_of(run.run), "");
    EXPECT_EQ(told<BudgetExhausted>().size(), 1u);
}

// ---- the turn of the window ---------------------------------------------------------------------------------------

TEST_F(BudgetsTest, the_turn_of_the_window_resumes_exactly_what_the_budget_paused) {
    make_agent("bob");
    make_agent("eve");
    make_budget("ada-day", cents(10), [](PutBudget& body) {
        body.scope.agent = "ada";
        body.on_exhausted = OnExhausted::pause_agent;
    });
    make_budget("bob-day", cents(10), [](PutBudget& body) {
        body.scope.agent = "bob";
        body.on_exhausted = OnExhausted::pause_agent;
    });
    make_budget("bob-month", cents(10), [](PutBudget& body) {
        body.scope.agent = "bob";
        body.window = WindowKind::month;
        body.on_exhausted = OnExhausted::pause_agent;
    });
    charge(cents(10));
    charge(cents(10), [](Charge& body) { body.who.agent = "bob"; });
    apply(PauseAgent{"ada", "lunch"});
    apply(PauseAgent{"eve", "lunch"});
    EXPECT_EQ(pauses_of("ada"), (Names{"budget:ada-day", "operator"}));
    EXPECT_EQ(pauses_of("bob"), (Names{"budget:bob-day", "budget:bob-month"}));

    EXPECT_EQ(at(midnight - 1us).resumed_agents, 0);
    at(midnight);

    EXPECT_EQ(pauses_of("ada"), Names{"operator"});
    EXPECT_EQ(pauses_of("bob"), Names{"budget:bob-month"});
    EXPECT_EQ(pauses_of("eve"), Names{"operator"});
    std::vector<std::string> resumed;
    for (const AgentResumed& event : told<AgentResumed>()) resumed.push_back(event.agent + " by " + event.by);
    EXPECT_EQ(resumed, (Names{"ada by budget:ada-day", "bob by budget:bob-day"}));
    at(utc_time("2026-04-01T00:00:00Z"));
    EXPECT_EQ(pauses_of("bob"), Names{});
    EXPECT_EQ(pauses_of("eve"), Names{"operator"});
}

TEST_F(BudgetsTest, a_full_budgets_window_that_turns_under_load_resumes_once_and_warns_once) {
    make_budget("day", cents(10), [](PutBudget& body) {
        body.warn = {50, 100};
        body.on_exhausted = OnExhausted::pause_agent;
    });
    const auto hammer = [&] {
        batching = true;
        for (int i = 0; i < 30; ++i) charge(cents(1));
        batching = false;
        commit();
    };

    at(midnight - 1s);
    hammer();
    at(midnight);
    hammer();
    hammer();

    EXPECT_EQ(window_at_time("day", midnight - 1s).settled, nanos(10));
    EXPECT_EQ(window("day").settled, nanos(10));
    EXPECT_EQ(warned("day"), (Percents{50, 100, 50, 100}));
    EXPECT_EQ(told<BudgetExhausted>().size(), 2u);
    EXPECT_EQ(told<AgentPaused>().size(), 2u);
    EXPECT_EQ(told<AgentResumed>().size(), 1u);
    EXPECT_EQ(pauses_of("ada"), Names{"budget:day"});
}

TEST_F(BudgetsTest, a_day_turns_at_the_zones_own_midnight) {
    // The clocks of New York go forward on 2026-03-08, so this day ends an hour earlier than a plain sum would say.
    at(utc_time("2026-03-08T12:00:00Z"));
    make_budget("ny", cents(10), [](PutBudget& body) {
        body.zone = "America/New_York";
        body.on_exhausted = OnExhausted::pause_agent;
    });
    charge(cents(10));

    at(utc_time("2026-03-09T03:59:59Z"));
    EXPECT_EQ(pauses_of("ada"), Names{"budget:ny"});
    at(utc_time("2026-03-09T04:00:00Z"));

    EXPECT_EQ(pauses_of("ada"), Names{});
    EXPECT_EQ(window_at_time("ny", now - 1us).end_at, now);
}

TEST_F(BudgetsTest, weeks_start_on_monday_and_a_total_never_turns) {
    make_budget("week", cents(10), [](PutBudget& body) { body.window = WindowKind::week; });
    make_budget("total", cents(100), [](PutBudget& body) {
        body.window = WindowKind::total;
        body.on_exhausted = OnExhausted::pause_agent;
    });
    charge(cents(10));

    at(utc_time("2026-03-08T23:59:59Z"));
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);
    at(utc_time("2026-03-09T00:00:00Z"));
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
    for (int week = 0; week < 8; ++week) {
        advance(7 * 24h);
        charge(cents(10));
    }
    EXPECT_EQ(window("total").settled, nanos(100));
    EXPECT_EQ(window("total").end_at, far_future);
    EXPECT_EQ(get<Agent>("ada").pauses.at(0).until, far_future);
    advance(366 * 24h);
    EXPECT_EQ(pauses_of("ada"), Names{"budget:total"});
}

TEST_F(BudgetsTest, a_person_may_resume_whom_a_budget_paused_and_the_budget_may_pause_it_again) {
    make_budget("day", cents(10), pausing);
    charge(cents(10));

    EXPECT_EQ(apply(ResumeAgent{"ada"}).status, AgentStatus::done);
    EXPECT_EQ(pauses_of("ada"), Names{});
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);

    EXPECT_EQ(pauses_of("ada"), Names{"budget:day"});
    EXPECT_EQ(told<BudgetExhausted>().size(), 1u);
}

TEST_F(BudgetsTest, pauses_survive_a_restart_and_end_in_time) {
    make_budget("day", cents(10), pausing);
    charge(cents(10));

    reload();
    EXPECT_EQ(machine.next_deadline(), midnight);
    EXPECT_EQ(at(midnight).resumed_agents, 1);

    EXPECT_EQ(pauses_of("ada"), Names{});
}

// ---- who says no first --------------------------------------------------------------------------------------------

TEST_F(BudgetsTest, the_first_budget_by_name_that_says_no_is_named_and_a_frozen_one_before_a_full_one) {
    make_budget("b", cents(10));
    make_budget("a", cents(10), [](PutBudget& body) { body.scope.agent = "ada"; });
    make_budget("c", cents(10), [](PutBudget& body) { body.scope.model = "m1"; });
    charge(cents(10));

    EXPECT_EQ(charge(cents(1)).budget->budget, "a");
    EXPECT_EQ(charge(cents(20),
                     [](Charge& body) {
                         body.who.model = "m1";
                         body.incurred = true;
                     })
                  .status,
              ChargeStatus::charged);
    apply(UnfreezeBudget{"a"});
    apply(UnfreezeBudget{"b"});

    const auto reply = charge(cents(1), [](Charge& body) { body.who.model = "m1"; });

    EXPECT_EQ(reply.status, ChargeStatus::budget_frozen);
    EXPECT_EQ(reply.budget->budget, "c");
    EXPECT_NE(reply.detail.find("budget 'c' is frozen"), std::string::npos);
}

TEST_F(BudgetsTest, everything_about_budgets_survives_a_restart) {
    make_budget("day", cents(100), [](PutBudget& body) { body.warn = {50}; });
    make_budget("frozen", cents(100), [](PutBudget& body) { body.scope.model = "m1"; });
    const AdmitReply run = admit_with(cents(30));
    const HoldId sub = hold(cents(20), of_run(run.run));
    settle(hold(cents(1), [](Reserve& body) { body.who.model = "m1"; }), cents(2));

    reload();

    EXPECT_EQ(charge(cents(1), [](Charge& body) { body.who.model = "m1"; }).status, ChargeStatus::budget_frozen);
    apply(UnfreezeBudget{"day"});
    const auto refused = charge(cents(69));
    EXPECT_EQ(refused.status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(refused.budget->open_holds, 2);
    EXPECT_EQ(settle(sub, cents(5)).status, HoldStatus::done);
    EXPECT_EQ(charge(cents(25), of_run(run.run)).status, ChargeStatus::charged);
    EXPECT_EQ(window("day").settled, nanos(32));
    EXPECT_EQ(window("day").held, 0);
}

}  // namespace
}  // namespace interlock::core
