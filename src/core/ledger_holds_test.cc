#include "core/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/limits.h"
#include "core/money_test_support.h"

namespace interlock::core {
namespace {

using namespace std::chrono_literals;

using LedgerHoldsTest = MoneyTest;

// ---- holds --------------------------------------------------------------------------------------------------------

TEST_F(LedgerHoldsTest, a_hold_is_written_as_it_was_asked_for) {
    make_budget("day", cents(10));
    make_budget("tokens", Money::nanos(1000), [](PutBudget& body) { body.metric = Metric::tokens; });
    make_budget("calls", Money::nanos(1000), [](PutBudget& body) { body.metric = Metric::calls; });

    const auto reply = reserve(cents(3), [](Reserve& body) {
        body.bound.tokens = 50;
        body.ttl_s = 90;
        body.dispatched = true;
    });

    EXPECT_EQ(reply.expires_at, now + 90s);
    const Hold row = get<Hold>(reply.hold);
    EXPECT_EQ(row.bound, (Amounts{nanos(3), 50, 0, 0}));
    EXPECT_EQ(row.drawn, Amounts{});
    EXPECT_TRUE(row.dispatched);
    EXPECT_FALSE(row.for_run());
    EXPECT_EQ(row.state, HoldState::open);
    EXPECT_EQ(row.created_at, now);
    EXPECT_EQ(row.expires_at, now + 90s);
    const Instant midnight = utc_time("2026-03-02T00:00:00Z");
    EXPECT_EQ(row.parts, (std::vector<HoldPart>{{"day", midnight, nanos(3), 0}, {"tokens", midnight, 50, 0}}));
    const auto held = told<Held>();
    ASSERT_EQ(held.size(), 1u);
    EXPECT_EQ(held[0].hold, reply.hold);
    EXPECT_EQ(held[0].agent, "ada");
    EXPECT_EQ(held[0].expires_at, now + 90s);
}

TEST_F(LedgerHoldsTest, a_settle_below_the_bound_gives_the_rest_back) {
    make_budget("day", cents(10));
    const HoldId id = hold(cents(10));

    const auto reply = settle(id, cents(4), [](SettleHold& body) {
        body.usage.output_tokens = 12;
        body.calls = 3;
        body.price = "m1@2";
        body.unpriced = true;
    });

    EXPECT_EQ(reply.status, HoldStatus::done);
    EXPECT_EQ(reply.cost, cents(4));
    EXPECT_EQ(reply.overage, Money());
    EXPECT_EQ(window("day").settled, nanos(4));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(get<Hold>(id).state, HoldState::settled);
    EXPECT_EQ(get<Hold>(id).closed_at, now);
    const CostEvent event = last_event();
    EXPECT_EQ(event.hold, id);
    EXPECT_EQ(event.seq, reply.seq);
    EXPECT_EQ(event.usage.output_tokens, 12);
    EXPECT_EQ(event.calls, 3);
    EXPECT_EQ(event.price, "m1@2");
    EXPECT_TRUE(event.unpriced);
    EXPECT_FALSE(event.estimated);
    EXPECT_FALSE(event.over_limit);
    EXPECT_EQ(charge(cents(6)).status, ChargeStatus::charged);
}

TEST_F(LedgerHoldsTest, a_settle_at_the_bound_is_no_overage) {
    make_budget("day", cents(10));
    const HoldId id = hold(cents(10));

    EXPECT_EQ(settle(id, cents(10)).overage, Money());

    EXPECT_FALSE(last_event().over_limit);
    EXPECT_EQ(get<Budget>("day").frozen, "");
    EXPECT_EQ(window("day").settled, nanos(10));
}

TEST_F(LedgerHoldsTest, a_settle_above_the_bound_is_recorded_as_overage_and_freezes_what_it_hurt_until_a_person_looks) {
    make_budget("ada", cents(100), [](PutBudget& body) { body.scope.agent = "ada"; });
    make_budget("org", cents(100));
    make_budget("soft", cents(100), [](PutBudget& body) { body.hard = false; });
    make_budget("tokens", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::tokens; });
    const HoldId id = hold(cents(10), [](Reserve& body) { body.bound.tokens = 5; });

    const auto reply = settle(id, cents(13), [](SettleHold& body) { body.usage.input_tokens = 5; });

    EXPECT_EQ(reply.status, HoldStatus::done);
    EXPECT_EQ(reply.cost, cents(13));
    EXPECT_EQ(reply.overage, cents(3));
    EXPECT_TRUE(last_event().over_limit);
    EXPECT_EQ(last_event().overage, nanos(3));
    EXPECT_EQ(window("org").settled, nanos(13));
    EXPECT_NE(get<Budget>("ada").frozen, "");
    EXPECT_NE(get<Budget>("org").frozen, "");
    EXPECT_EQ(get<Budget>("soft").frozen, "") << "a soft budget holds nobody back";
    EXPECT_EQ(get<Budget>("tokens").frozen, "") << "its tokens were as many as reserved";
    EXPECT_EQ(told<BudgetFroze>().size(), 2u);

    // Nothing passes, however small, whoever asks, until it is thawed.
    const auto refused = charge(Money());
    EXPECT_EQ(refused.status, ChargeStatus::budget_frozen);
    EXPECT_EQ(refused.budget->budget, "ada");
    EXPECT_EQ(refused.budget->frozen, get<Budget>("ada").frozen);
    EXPECT_EQ(reserve(Money::nanos(1)).status, ReserveStatus::budget_frozen);
    EXPECT_EQ(admit().status, AdmitStatus::budget_frozen);
    advance(48h);
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::budget_frozen) << "time does not look";
    EXPECT_EQ(apply(UnfreezeBudget{"ada"}).status, BudgetStatus::done);
    EXPECT_EQ(charge(Money::nanos(1)).budget->budget, "org");
    EXPECT_EQ(apply(UnfreezeBudget{"org"}).status, BudgetStatus::done);
    EXPECT_EQ(apply(UnfreezeBudget{"org"}).status, BudgetStatus::unchanged);
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::charged);
    EXPECT_EQ(told<BudgetThawed>().size(), 2u);
}

TEST_F(LedgerHoldsTest, an_open_hold_can_be_settled_while_its_budget_is_frozen) {
    make_budget("day", cents(100));
    const HoldId first = hold(cents(10));
    const HoldId second = hold(cents(10));
    EXPECT_EQ(settle(first, cents(11)).status, HoldStatus::done);

    EXPECT_EQ(settle(second, cents(10)).status, HoldStatus::done);

    EXPECT_EQ(window("day").settled, nanos(21));
    EXPECT_EQ(told<BudgetFroze>().size(), 1u) << "frozen is frozen";
}

TEST_F(LedgerHoldsTest, a_settle_above_the_bound_in_tokens_or_calls_freezes_the_budgets_of_that_metric) {
    make_budget("calls", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::calls; });
    make_budget("tokens", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::tokens; });
    make_budget("usd", cents(100));
    const HoldId id = hold(cents(10), [](Reserve& body) { body.bound.tokens = 20, body.bound.calls = 1; });

    const auto reply = settle(id, cents(10), [](SettleHold& body) {
        body.usage = {20, 1, 0, 0, 0, 0};
        body.calls = 1;
    });

    EXPECT_EQ(reply.overage, Money()) << "overage is money";
    EXPECT_TRUE(last_event().over_limit);
    EXPECT_NE(get<Budget>("tokens").frozen, "");
    EXPECT_EQ(get<Budget>("calls").frozen, "");
    EXPECT_EQ(get<Budget>("usd").frozen, "");
}

TEST_F(LedgerHoldsTest, a_settle_past_the_limit_of_a_metric_without_a_bound_is_overage) {
    make_budget("usd", cents(10));
    charge(cents(8));
    const HoldId id = hold(Money(), [](Reserve& body) { body.bound.tokens = 100; });

    const auto reply = settle(id, cents(5));

    EXPECT_EQ(reply.overage, cents(3));
    EXPECT_NE(get<Budget>("usd").frozen, "");
}

TEST_F(LedgerHoldsTest, a_settle_within_its_bound_is_no_overage_although_the_limit_was_lowered_under_it) {
    make_budget("day", cents(100));
    charge(cents(50));
    const HoldId first = hold(cents(20));
    const HoldId second = hold(cents(30));
    put_budget("day", cents(40));

    EXPECT_EQ(settle(first, cents(20)).overage, Money());
    EXPECT_EQ(settle(second, cents(35)).overage, cents(5)) << "only what goes past the bound";

    EXPECT_EQ(window("day").settled, nanos(105));
    EXPECT_EQ(window("day").grace, nanos(60));
}

TEST_F(LedgerHoldsTest, a_hold_ends_once) {
    make_budget("day", cents(100));
    const HoldId settled = hold(cents(1));
    const HoldId released = hold(cents(1));
    const HoldId expired = hold(cents(1), [](Reserve& body) { body.ttl_s = 1; });
    settle(settled, cents(1));
    release(released);
    advance(1s);

    for (const HoldId id : {settled, released, expired}) {
        EXPECT_EQ(settle(id, cents(1)).status, HoldStatus::hold_closed);
        EXPECT_EQ(release(id).status, HoldStatus::hold_closed);
        EXPECT_EQ(extend(id, 60).status, HoldStatus::hold_closed);
    }

    EXPECT_EQ(window("day").settled, nanos(1));
    EXPECT_EQ(advance(48h).expired_holds, 0);
}

TEST_F(LedgerHoldsTest, an_expired_hold_that_never_left_is_released) {
    make_budget("day", cents(10));
    const HoldId id = hold(cents(10), [](Reserve& body) { body.ttl_s = 60; });

    EXPECT_EQ(advance(60s - 1us).expired_holds, 0);
    EXPECT_EQ(get<Hold>(id).state, HoldState::open);
    EXPECT_EQ(advance(1us).expired_holds, 1);

    EXPECT_EQ(get<Hold>(id).state, HoldState::released);
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(window("day").settled, 0);
    const auto releases = told<HoldReleased>();
    ASSERT_EQ(releases.size(), 1u);
    EXPECT_TRUE(releases[0].expired);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
}

TEST_F(LedgerHoldsTest, a_release_by_its_owner_is_not_told_as_an_expiry) {
    const HoldId id = hold(cents(10));

    release(id);

    const auto releases = told<HoldReleased>();
    ASSERT_EQ(releases.size(), 1u);
    EXPECT_EQ(releases[0].hold, id);
    EXPECT_FALSE(releases[0].expired);
}

TEST_F(LedgerHoldsTest, an_expired_hold_that_may_have_reached_a_provider_is_charged_at_its_bound_and_marked) {
    make_budget("day", cents(100));
    make_budget("tokens", Money::nanos(1000), [](PutBudget& body) { body.metric = Metric::tokens; });
    make_budget("calls", Money::nanos(1000), [](PutBudget& body) { body.metric = Metric::calls; });
    const AdmitReply run = admit();
    const HoldId id = hold(cents(10), [&](Reserve& body) {
        body.bound.tokens = 70;
        body.bound.calls = 2;
        body.dispatched = true;
        body.who.run = run.run;
    });

    EXPECT_EQ(advance(60s).expired_holds, 1);

    EXPECT_EQ(get<Hold>(id).state, HoldState::settled);
    EXPECT_EQ(window("day").settled, nanos(10));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(window("tokens").settled, 70);
    EXPECT_EQ(window("calls").settled, 2);
    EXPECT_EQ(last_event().cost, nanos(10));
    EXPECT_TRUE(last_event().estimated);
    EXPECT_FALSE(last_event().over_limit);
    EXPECT_EQ(last_event().hold, id);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(10));
    EXPECT_EQ(get<Run>(run.run).unknown, nanos(10));
    EXPECT_TRUE(told<Charged>().back().estimated);
}

TEST_F(LedgerHoldsTest, an_extension_moves_the_lease_on_and_never_back) {
    const HoldId id = hold(cents(1), [](Reserve& body) { body.ttl_s = 60; });
    advance(30s);

    EXPECT_EQ(extend(id, 10).expires_at, start + 60s) << "it had longer already";
    EXPECT_EQ(extend(id, 60).expires_at, start + 90s);
    EXPECT_EQ(get<Hold>(id).expires_at, start + 90s);

    EXPECT_EQ(at(start + 89s).expired_holds, 0);
    EXPECT_EQ(at(start + 90s).expired_holds, 1);
}

TEST_F(LedgerHoldsTest, dispatched_is_set_by_an_extension_and_never_cleared) {
    const HoldId id = hold(cents(1));
    EXPECT_EQ(extend(id, 60, true).status, HoldStatus::done);
    EXPECT_EQ(extend(id, 60, false).status, HoldStatus::done);

    EXPECT_EQ(advance(60s).expired_holds, 1);

    EXPECT_EQ(get<Hold>(id).state, HoldState::settled);
    EXPECT_TRUE(last_event().estimated);
}

TEST_F(LedgerHoldsTest, holds_get_their_time_again_but_at_most_a_minute_after_the_server_was_away) {
    const HoldId soon = hold(cents(1), [](Reserve& body) { body.ttl_s = 10; });
    const HoldId long_one = hold(cents(1), [](Reserve& body) { body.ttl_s = 80; });
    const HoldId late = hold(cents(1), [](Reserve& body) { body.ttl_s = 3600; });
    now = start + 30s;
    reload();

    machine.apply({now}, command_of({}, Reopened{}));
    commit();

    EXPECT_EQ(get<Hold>(soon).expires_at, now + 10s);
    EXPECT_EQ(get<Hold>(long_one).expires_at, now + 60s);
    EXPECT_EQ(get<Hold>(late).expires_at, start + 3600s);
    EXPECT_EQ(advance(9s).expired_holds, 0);
    EXPECT_EQ(advance(1s).expired_holds, 1);
}

TEST_F(LedgerHoldsTest, a_tick_before_the_first_deadline_changes_nothing) {
    hold(cents(1));
    now += 59s;

    const auto reply = apply(Tick{});

    EXPECT_EQ(reply.expired_holds, 0);
    EXPECT_FALSE(has_changes());
    EXPECT_EQ(machine.next_deadline(), start + 60s);
}

// ---- windows ------------------------------------------------------------------------------------------------------

TEST_F(LedgerHoldsTest, charges_on_both_sides_of_midnight_count_on_their_own_days) {
    make_budget("day", cents(10));
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");

    at(midnight - 1us);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);
    at(midnight);
    EXPECT_EQ(charge(cents(9)).status, ChargeStatus::charged);

    EXPECT_EQ(window_at_time("day", midnight - 1us).settled, nanos(10));
    EXPECT_EQ(window_at_time("day", midnight).settled, nanos(9));
    EXPECT_EQ(get<Rollup>({utc_day(midnight) - 1, "ada", "", ""}).cost, nanos(10));
    EXPECT_EQ(get<Rollup>({utc_day(midnight), "ada", "", ""}).cost, nanos(9));
}

TEST_F(LedgerHoldsTest, a_settle_counts_in_the_window_its_hold_was_admitted_in) {
    make_budget("day", cents(10));
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");
    at(midnight - 1s);
    const HoldId id = hold(cents(10));
    at(midnight + 1s);
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged) << "today is untouched by yesterday's hold";

    EXPECT_EQ(settle(id, cents(8)).overage, Money());

    EXPECT_EQ(window_at_time("day", midnight - 1s).settled, nanos(8));
    EXPECT_EQ(window_at_time("day", midnight - 1s).held, 0);
    EXPECT_EQ(window_at_time("day", midnight).settled, nanos(10));
    EXPECT_EQ(last_event().at, now);
    EXPECT_EQ(last_event().counted_at, midnight - 1s);
    EXPECT_EQ(get<Rollup>({utc_day(midnight) - 1, "ada", "", ""}).cost, nanos(8));
}

TEST_F(LedgerHoldsTest, an_expiry_after_midnight_is_charged_to_the_day_of_admission) {
    make_budget("day", cents(10), [](PutBudget& body) { body.on_exhausted = OnExhausted::pause_agent; });
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");
    at(midnight - 30s);
    hold(cents(10), [](Reserve& body) { body.dispatched = true; });

    at(midnight + 30s);

    EXPECT_EQ(window_at_time("day", midnight - 1s).settled, nanos(10));
    EXPECT_TRUE(window_at_time("day", midnight - 1s).exhausted);
    EXPECT_EQ(get<Agent>("ada").pauses.size(), 0u) << "yesterday's exhaustion pauses nobody today";
}

TEST_F(LedgerHoldsTest, days_follow_the_budgets_own_zone_through_the_changes_of_the_clock) {
    struct Case {
        const char* before_midnight;  // Half an hour before the day in New York ends.
        const char* midnight;
        int hours;  // Of the day that begins then.
    };
    // 2026-03-08 has 23 hours there, 2026-11-01 has 25.
    const std::vector<Case> cases{{"2026-03-08T04:30:00Z", "2026-03-08T05:00:00Z", 23},
                                  {"2026-11-01T03:30:00Z", "2026-11-01T04:00:00Z", 25}};
    make_budget("ny", cents(10), [](PutBudget& body) { body.zone = "America/New_York"; });

    for (const Case& day : cases) {
        const Instant midnight = utc_time(day.midnight);
        at(utc_time(day.before_midnight));
        EXPECT_EQ(charge(cents(4)).status, ChargeStatus::charged);
        const HoldId id = hold(cents(6), [](Reserve& body) { body.ttl_s = 7200; });
        at(midnight);
        EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged) << "a new day";
        EXPECT_EQ(settle(id, cents(6)).overage, Money());
        EXPECT_EQ(window_at_time("ny", midnight - 1us).settled, nanos(10));
        EXPECT_EQ(window_at_time("ny", midnight).settled, nanos(10));

        at(midnight + std::chrono::hours(day.hours) - 1us);
        EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded) << "the day has " << day.hours << " hours";
        at(midnight + std::chrono::hours(day.hours));
        EXPECT_EQ(charge(cents(1)).status, ChargeStatus::charged);
    }
}

TEST_F(LedgerHoldsTest, a_hold_older_than_a_budgets_first_window_is_not_that_budgets_business) {
    const HoldId old = hold(cents(50), [](Reserve& body) { body.ttl_s = 24 * 3600; });
    const HoldId lost = hold(cents(50), [](Reserve& body) { body.ttl_s = 24 * 3600, body.dispatched = true; });
    advance(23h);
    make_budget("late", cents(10));
    EXPECT_EQ(window("late").held, 0);

    EXPECT_EQ(settle(old, cents(50)).overage, Money());
    advance(1h);

    EXPECT_EQ(get<Hold>(lost).state, HoldState::settled);
    EXPECT_EQ(get<Budget>("late").frozen, "");
    EXPECT_FALSE(find<Window>({"late", utc_time("2026-03-02T00:00:00Z")}).has_value());
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
}

// ---- a run's own hold ---------------------------------------------------------------------------------------------

TEST_F(LedgerHoldsTest, a_runs_charges_draw_from_its_own_hold_first) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    const HoldId own = get<Run>(run.run).hold;
    hold(cents(40));
    EXPECT_EQ(window("day").held, nanos(100));

    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded) << "for others there is nothing left";
    EXPECT_EQ(charge(cents(50), of_run(run.run)).status, ChargeStatus::charged);

    EXPECT_EQ(window("day").settled, nanos(50));
    EXPECT_EQ(window("day").held, nanos(50));
    EXPECT_EQ(get<Hold>(own).bound.usd, nanos(10));
    const auto refused = charge(cents(11), of_run(run.run));
    EXPECT_EQ(refused.status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(refused.budget->free, nanos(10)) << "what the run has left is free for the run";
    EXPECT_EQ(charge(cents(10), of_run(run.run)).status, ChargeStatus::charged);
    EXPECT_EQ(get<Hold>(own).bound.usd, 0);
}

TEST_F(LedgerHoldsTest, a_charge_greater_than_the_rest_of_the_runs_hold_takes_what_is_missing_from_the_budget) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(10));

    EXPECT_EQ(charge(cents(25), of_run(run.run)).status, ChargeStatus::charged);

    EXPECT_EQ(window("day").settled, nanos(25));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(finish(run).status, RunStatus::done);
    EXPECT_EQ(window("day").settled, nanos(25));
}

TEST_F(LedgerHoldsTest, a_runs_holds_draw_from_its_own_and_return_what_they_did_not_use) {
    make_budget("day", cents(100));
    make_budget("tokens", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::tokens; });
    const AdmitReply run = admit_with(cents(100), [](AdmitRun& body) { body.hold.tokens = 100; });
    const HoldId own = get<Run>(run.run).hold;
    const auto of_30 = [&](Reserve& body) {
        body.who.run = run.run;
        body.bound.tokens = 30;
    };

    const HoldId settled = hold(cents(30), of_30);
    const HoldId released = hold(cents(30), of_30);
    const HoldId at_bound = hold(cents(30), of_30);
    EXPECT_EQ(get<Hold>(own).bound, (Amounts{nanos(10), 10, 0, 0}));
    EXPECT_EQ(get<Hold>(settled).drawn, (Amounts{nanos(30), 30, 0, 0}));
    EXPECT_EQ(window("day").held, nanos(100));
    EXPECT_EQ(reserve(cents(11), of_run(run.run)).status, ReserveStatus::budget_exceeded);

    settle(settled, cents(12), [](SettleHold& body) { body.usage.input_tokens = 5; });
    EXPECT_EQ(get<Hold>(own).bound, (Amounts{nanos(28), 35, 0, 0}));
    release(released);
    EXPECT_EQ(get<Hold>(own).bound, (Amounts{nanos(58), 65, 0, 0}));
    settle(at_bound, cents(30), [](SettleHold& body) { body.usage.input_tokens = 30; });
    EXPECT_EQ(get<Hold>(own).bound, (Amounts{nanos(58), 65, 0, 0}));
    EXPECT_EQ(window("day").settled, nanos(42));
    EXPECT_EQ(window("day").held, nanos(58));
    EXPECT_EQ(window("tokens").settled, 35);
    EXPECT_EQ(window("tokens").held, 65);

    EXPECT_EQ(finish(run).status, RunStatus::done);
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(window("day").settled, nanos(42));
}

TEST_F(LedgerHoldsTest, a_hold_that_drew_only_a_part_returns_at_most_that_part) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(10));
    const HoldId own = get<Run>(run.run).hold;
    const HoldId id = hold(cents(40), of_run(run.run));
    EXPECT_EQ(get<Hold>(id).drawn.usd, nanos(10));
    EXPECT_EQ(window("day").held, nanos(40));

    settle(id, cents(4));

    EXPECT_EQ(get<Hold>(own).bound.usd, nanos(6));
    EXPECT_EQ(window("day").held, nanos(6));
    EXPECT_EQ(window("day").settled, nanos(4));
}

TEST_F(LedgerHoldsTest, a_runs_own_hold_stays_in_its_window_when_the_window_turns) {
    make_budget("day", cents(100));
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");
    at(midnight - 1h);
    const AdmitReply run = admit_with(cents(60));
    const HoldId own = get<Run>(run.run).hold;
    const HoldId before = hold(cents(20), [&](Reserve& body) {
        body.who.run = run.run;
        body.ttl_s = 4 * 3600;
    });
    at(midnight + 1h);
    hold(cents(90));

    // What is spent today is today's, and must fit there.
    EXPECT_EQ(charge(cents(11), of_run(run.run)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(charge(cents(10), of_run(run.run)).status, ChargeStatus::charged);
    EXPECT_EQ(window("day").settled, nanos(10));
    EXPECT_EQ(window_at_time("day", midnight - 1s).held, nanos(60));
    // What was held yesterday settles there and returns there.
    settle(before, cents(5));
    EXPECT_EQ(window_at_time("day", midnight - 1s).settled, nanos(5));
    EXPECT_EQ(window_at_time("day", midnight - 1s).held, nanos(55));
    EXPECT_EQ(get<Hold>(own).bound.usd, nanos(45)) << "60, less 10 today, less 5 yesterday";

    EXPECT_EQ(lose(run).status, RunStatus::done);
    EXPECT_EQ(window_at_time("day", midnight - 1s).settled, nanos(50));
    EXPECT_EQ(window_at_time("day", midnight - 1s).held, 0);
    EXPECT_EQ(window("day").settled, nanos(10));
    EXPECT_EQ(get<Run>(run.run).settled, nanos(60));
}

TEST_F(LedgerHoldsTest, what_a_runs_own_hold_covers_is_not_refused_because_the_limit_was_lowered_since) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    put_budget("day", cents(20));

    EXPECT_EQ(charge(cents(30), of_run(run.run)).status, ChargeStatus::charged);
    EXPECT_FALSE(last_event().over_limit);
    const HoldId id = hold(cents(30), of_run(run.run));
    EXPECT_EQ(reserve(cents(1), of_run(run.run)).status, ReserveStatus::budget_exceeded) << "that would be new money";
    EXPECT_EQ(settle(id, cents(30)).overage, Money());

    EXPECT_EQ(window("day").settled, nanos(60));
    EXPECT_EQ(get<Budget>("day").frozen, "");
}

TEST_F(LedgerHoldsTest, a_run_that_finishes_gives_its_rest_back) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    charge(cents(10), of_run(run.run));

    FinishRun body;
    body.run = run.run;
    body.fence = run.fence;
    body.charge = FinalCharge{.provider = "acme-ai", .model = "m1", .cost = cents(5), .usage = {}, .price = {}};
    const auto reply = apply(body);

    EXPECT_EQ(reply.status, RunStatus::done);
    EXPECT_EQ(reply.seq, last_event().seq);
    EXPECT_EQ(last_event().who.provider, "acme-ai");
    EXPECT_EQ(window("day").settled, nanos(15));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(15));
    EXPECT_EQ(get<Run>(run.run).unknown, 0);
}

TEST_F(LedgerHoldsTest, a_final_charge_past_what_was_held_and_left_is_recorded_as_overage) {
    make_budget("day", cents(20));
    const AdmitReply run = admit_with(cents(15));
    FinishRun body;
    body.run = run.run;
    body.fence = run.fence;
    body.charge = FinalCharge{.provider = {}, .model = {}, .cost = cents(23), .usage = {}, .price = {}};

    EXPECT_EQ(apply(body).status, RunStatus::done);

    EXPECT_EQ(last_event().overage, nanos(3));
    EXPECT_NE(get<Budget>("day").frozen, "");
    EXPECT_EQ(window("day").settled, nanos(23));
}

TEST_F(LedgerHoldsTest, a_lost_run_is_charged_for_all_that_it_may_have_spent_and_says_so) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    charge(cents(10), of_run(run.run));
    const HoldId dispatched = hold(cents(20), [&](Reserve& body) {
        body.who.run = run.run;
        body.dispatched = true;
    });
    const HoldId undispatched = hold(cents(5), of_run(run.run));

    EXPECT_EQ(lose(run).status, RunStatus::done);

    EXPECT_EQ(get<Hold>(dispatched).state, HoldState::settled);
    EXPECT_EQ(get<Hold>(undispatched).state, HoldState::released);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(60));
    EXPECT_EQ(get<Run>(run.run).unknown, nanos(50));
    EXPECT_EQ(window("day").settled, nanos(60));
    EXPECT_EQ(window("day").held, 0);
    const auto ended = told<RunEnded>();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].settled, nanos(60));
    EXPECT_EQ(ended[0].unknown, nanos(50));
}

TEST_F(LedgerHoldsTest, the_rest_of_a_metered_runs_hold_is_known_to_be_unspent) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60), [](AdmitRun& body) { body.metered = true; });
    charge(cents(10), of_run(run.run));

    EXPECT_EQ(lose(run).status, RunStatus::done);

    EXPECT_EQ(get<Run>(run.run).settled, nanos(10));
    EXPECT_EQ(get<Run>(run.run).unknown, 0);
    EXPECT_EQ(window("day").held, 0);
}

TEST_F(LedgerHoldsTest, a_cancelled_run_is_still_charged) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    CancelRun body;
    body.run = run.run;
    body.fence = run.fence;
    body.charge = FinalCharge{.provider = {}, .model = {}, .cost = cents(7), .usage = {}, .price = {}};

    EXPECT_EQ(apply(body).status, RunStatus::done);

    EXPECT_EQ(window("day").settled, nanos(7));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(7));
}

TEST_F(LedgerHoldsTest, a_run_that_lost_its_lease_can_charge_nothing_any_more) {
    const AdmitReply run = admit_with(cents(60), [](AdmitRun& body) { body.lease_s = 30, body.metered = true; });
    const HoldId id = hold(cents(5), of_run(run.run));
    EXPECT_EQ(advance(30s).lost_runs, 1);

    const auto with_fence = [&](auto& body) {
        body.who.run = run.run;
        body.fence = run.fence;
    };
    EXPECT_EQ(charge(cents(1), with_fence).status, ChargeStatus::stale_fence);
    EXPECT_EQ(reserve(cents(1), with_fence).status, ReserveStatus::stale_fence);
    EXPECT_EQ(charge(cents(1), of_run(run.run)).status, ChargeStatus::run_ended);
    EXPECT_EQ(charge(cents(1),
                     [&](Charge& body) {
                         with_fence(body);
                         body.incurred = true;
                     })
                  .status,
              ChargeStatus::stale_fence);
    EXPECT_EQ(settle(id, cents(1)).status, HoldStatus::hold_closed);
}

TEST_F(LedgerHoldsTest, a_charge_in_the_name_of_a_run_that_has_not_started_is_refused) {
    make_agent("busy", 0);
    const auto queued = admit([](AdmitRun& body) {
        body.who.agent = "busy";
        body.on_conflict = OnConflict::queue;
        body.hold.usd = nanos(5);
    });
    ASSERT_EQ(queued.status, AdmitStatus::queued);

    Charge body = charge_of(cents(1));
    body.who.agent = "busy";
    body.who.run = queued.run;

    EXPECT_EQ(apply(body).status, ChargeStatus::run_ended) << "it is not live";
}

// ---- ids that are made of hashes ----------------------------------------------------------------------------------

TEST_F(LedgerHoldsTest, a_client_that_took_the_id_of_a_runs_own_hold_harms_nobody) {
    make_budget("day", cents(100));
    const RunId run = fresh_run();
    const HoldId taken(id_from_hash(to_text("run_hold", run.value)));
    hold(cents(10), [&](Reserve& body) { body.hold = taken; });

    admit_with(cents(20), [&](AdmitRun& body) { body.run = run; });

    EXPECT_NE(get<Run>(run).hold, taken);
    EXPECT_EQ(get<Hold>(taken).bound.usd, nanos(10));
    EXPECT_EQ(window("day").held, nanos(30));
}

TEST_F(LedgerHoldsTest, a_client_that_took_the_key_of_an_expiry_harms_nobody) {
    make_budget("day", cents(100));
    const HoldId id = hold(cents(10), [](Reserve& body) { body.dispatched = true; });
    const CommandKey taken(id_from_hash(to_text("hold_at_bound", id.value)));
    EXPECT_EQ(std::get<ChargeReply>(apply_with(taken, charge_of(cents(1))).reply).status, ChargeStatus::charged);
    const AdmitReply run = admit();
    const CommandKey of_run_end(id_from_hash(to_text("final_charge", run.run.value)));
    EXPECT_EQ(std::get<ChargeReply>(apply_with(of_run_end, charge_of(cents(1))).reply).status, ChargeStatus::charged);

    EXPECT_EQ(advance(60s).expired_holds, 1);
    FinishRun body;
    body.run = run.run;
    body.fence = run.fence;
    body.charge = FinalCharge{.provider = {}, .model = {}, .cost = cents(1), .usage = {}, .price = {}};
    EXPECT_EQ(apply(body).status, RunStatus::done);

    EXPECT_EQ(window("day").settled, nanos(13));
    EXPECT_EQ(rows().of<CostEvent>().size(), 4u);
}

TEST_F(LedgerHoldsTest, a_run_has_only_so_many_open_holds_so_that_its_end_is_bounded) {
    const AdmitReply run = admit();
    const AdmitReply other = admit();
    for (std::uint64_t i = 1; i < limits::open_holds_per_run_max; ++i) {
        Hold row;
        row.id = HoldId(Id{.high = 1, .low = i});
        row.who.agent = "ada";
        row.who.run = run.run;
        row.expires_at = far_future;
        machine.org(org).adopt(row);
    }
    const auto ask = [&](const AdmitReply& of) {
        Reserve body;
        body.hold = fresh_hold();
        body.who.agent = "ada";
        body.who.run = of.run;
        return std::get<ReserveReply>(machine.apply({now}, command_of(fresh_key(), body)).reply);
    };

    EXPECT_EQ(ask(run).status, ReserveStatus::held);
    const ReserveReply refused = ask(run);
    EXPECT_EQ(refused.status, ReserveStatus::too_many);
    EXPECT_EQ(refused.detail, to_text("run", run.run.value).insert(0, "run '") +
                                  "' has at most 10000 open holds; settle or release some of them");
    EXPECT_EQ(ask(other).status, ReserveStatus::held) << "another run's are its own";
    machine.apply({now}, command_of(fresh_key(), ReleaseHold{HoldId(Id{.high = 1, .low = 1})}));
    EXPECT_EQ(ask(run).status, ReserveStatus::held);
}

}  // namespace
}  // namespace interlock::core
