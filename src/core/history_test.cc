// What is written down of the past: marks of what was settled when, the steps of runs, what became of ticks.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"
#include "core/money_test_support.h"

namespace interlock::core {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// ---- marks --------------------------------------------------------------------------------------------------------

class MarksTest : public MoneyTest {
 protected:
    // The marks of a budget, or of the org, oldest first: when, and what was settled.
    std::vector<std::pair<Instant, std::int64_t>> marks(const std::string& budget = "") {
        std::vector<std::pair<Instant, std::int64_t>> found;
        const OrgRows all = rows();
        for (const auto& [key, mark] : all.of<SpendMark>()) {
            if (mark.budget == budget) found.emplace_back(mark.at, mark.settled);
        }
        return found;
    }
    Instant midnight() const { return std::chrono::floor<std::chrono::days>(now); }
};

TEST_F(MarksTest, the_first_charge_of_a_minute_says_what_was_settled_before_it) {
    const Instant minute = std::chrono::floor<minutes>(now) + hours(1);

    at(minute + seconds(5));
    charge(cents(1));
    charge(cents(2));
    at(minute + seconds(59));
    charge(cents(3));
    at(minute + minutes(1));
    charge(cents(4));
    at(minute + minutes(7));
    charge(cents(0));
    at(minute + minutes(8));
    charge(cents(5));

    EXPECT_EQ(marks(), (std::vector<std::pair<Instant, std::int64_t>>{
                           {minute, 0}, {minute + minutes(1), nanos(6)}, {minute + minutes(8), nanos(10)}}));
}

TEST_F(MarksTest, a_refused_charge_leaves_no_mark) {
    make_budget("day", cents(1));

    EXPECT_EQ(charge(cents(2)).status, ChargeStatus::budget_exceeded);

    EXPECT_TRUE(marks().empty());
    EXPECT_TRUE(marks("day").empty());
}

TEST_F(MarksTest, the_buckets_of_a_budget_are_counted_from_its_windows_start) {
    make_budget("day", cents(1000));
    make_budget("week", cents(1000), [](PutBudget& body) { body.window = WindowKind::week; });
    make_budget("month", cents(1000), [](PutBudget& body) { body.window = WindowKind::month; });
    make_budget("total", cents(1000), [](PutBudget& body) { body.window = WindowKind::total; });
    make_budget("calls", cents(0), [](PutBudget& body) {
        body.metric = Metric::calls;
        body.limit_units = 100;
    });
    const Instant day = midnight() + hours(24);

    for (const Duration later : {Duration(minutes(7)), Duration(minutes(16)), Duration(hours(9)), Duration(hours(9))}) {
        at(day + later);
        charge(cents(1));
    }

    using Marks = std::vector<std::pair<Instant, std::int64_t>>;
    EXPECT_EQ(marks("day"), (Marks{{day, 0}, {day + minutes(15), nanos(1)}, {day + hours(9), nanos(2)}}));
    EXPECT_EQ(marks("calls"), (Marks{{day, 0}, {day + minutes(15), 1}, {day + hours(9), 2}}));
    EXPECT_EQ(marks("week"), (Marks{{day, 0}, {day + hours(8), nanos(2)}}));
    EXPECT_EQ(marks("month"), (Marks{{day, 0}, {day + hours(8), nanos(2)}}));
    EXPECT_EQ(marks("total"), (Marks{{day, 0}}));
}

TEST_F(MarksTest, what_settles_after_its_window_counts_in_the_windows_last_bucket) {
    make_budget("day", cents(1000));
    const Instant day = midnight() + hours(24);
    at(day + hours(23));
    charge(cents(1));
    const HoldId late = hold(cents(5), [](Reserve& body) { body.ttl_s = 86'400; });
    at(day + hours(26));

    settle(late, cents(5));

    EXPECT_EQ(marks("day"), (std::vector<std::pair<Instant, std::int64_t>>{{day + hours(23), 0},
                                                                           {day + hours(24) - minutes(15), nanos(1)}}));
    EXPECT_EQ(window_at_time("day", day).settled, nanos(6));
}

TEST_F(MarksTest, a_hold_that_is_charged_at_its_bound_leaves_a_mark_too) {
    make_budget("day", cents(1000));
    hold(cents(5), [](Reserve& body) {
        body.ttl_s = 60;
        body.dispatched = true;
    });

    at(now + hours(1));

    EXPECT_EQ(marks().size(), 1u);
    EXPECT_EQ(marks("day").size(), 1u);
}

TEST_F(MarksTest, a_budget_that_is_made_again_in_its_window_goes_on_marking) {
    make_budget("day", cents(1000));
    charge(cents(1));
    apply(DeleteBudget{"day"});
    charge(cents(2));
    commit();
    make_budget("day", cents(1000));
    charge(cents(3));
    EXPECT_EQ(marks("day").size(), 1u) << "its bucket had its mark already";

    at(now + minutes(15));
    charge(cents(4));

    EXPECT_EQ(marks("day").back().second, nanos(6));
}

TEST_F(MarksTest, marks_go_on_after_a_restart) {
    make_budget("day", cents(1000));
    charge(cents(1));
    commit();

    reload();
    charge(cents(2));

    EXPECT_EQ(marks().size(), 1u);
    EXPECT_EQ(marks("day").size(), 1u);
}

// ---- steps --------------------------------------------------------------------------------------------------------

class StepsTest : public RunsTest {
 protected:
    StepsTest() { make_agent("ada"); }

    std::vector<RunStep> steps(RunId run) {
        std::vector<RunStep> found;
        const OrgRows all = rows();
        for (const auto& [key, step] : all.of<RunStep>()) {
            if (step.run == run) found.push_back(step);
        }
        return found;
    }
    std::vector<RunState> states(RunId run) {
        std::vector<RunState> found;
        for (const RunStep& step : steps(run)) found.push_back(step.state);
        return found;
    }
};

TEST_F(StepsTest, each_change_of_a_runs_state_is_a_step) {
    using enum RunState;
    const Owned first = admit(asking("ada", {workspace("/repo")}));
    const RunId second = enqueue(asking("ada", {workspace("/repo")}));

    apply(StartRun{first.run, first.fence});
    apply(PauseRun{first.run, first.fence});
    apply(PauseRun{first.run, first.fence});
    apply(ResumeRun{first.run, first.fence});
    FinishRun finish;
    finish.run = first.run;
    finish.fence = first.fence;
    finish.outcome = failed;
    finish.reason = "it broke";
    apply(finish);

    EXPECT_EQ(states(first.run), (std::vector{starting, running, paused, running, failed}));
    EXPECT_EQ(steps(first.run).back().reason, "it broke");
    EXPECT_EQ(steps(first.run)[3].reason, "resumed");
    EXPECT_EQ(states(second), (std::vector{queued, starting}));
    EXPECT_EQ(steps(second).front().waits_for, WaitsFor::workspace);
    EXPECT_EQ(steps(second).back().waits_for, WaitsFor::nothing);
}

TEST_F(StepsTest, being_asked_to_stop_is_a_step_once) {
    const Owned run = admit(asking("ada"));

    apply(CancelRun{.run = run.run, .fence = {}, .reason = "enough", .charge = {}});
    apply(CancelRun{.run = run.run, .fence = {}, .reason = "really", .charge = {}});

    ASSERT_EQ(steps(run.run).size(), 2u);
    EXPECT_EQ(steps(run.run).back().state, RunState::starting);
    EXPECT_EQ(steps(run.run).back().reason, "asked to stop: enough");
}

TEST_F(StepsTest, a_run_whose_end_exhausts_the_budget_that_stops_it_numbers_both_steps) {
    PutBudget budget;
    budget.name = "day";
    budget.window = WindowKind::day;
    budget.limit_units = Money::dollars(5).nanos();
    budget.on_exhausted = OnExhausted::stop_runs;
    apply(budget);
    AdmitRun asked = asking("ada");
    asked.hold = usd(Money::dollars(5));
    const Owned run = admit(asked);

    apply(LoseRun{run.run, run.fence, "gone"});

    EXPECT_EQ(states(run.run), (std::vector{RunState::starting, RunState::starting, RunState::lost}));
}

TEST_F(StepsTest, a_lease_that_ends_is_a_step) {
    const Owned run = admit(asking("ada"));

    at(now + hours(1));

    EXPECT_EQ(states(run.run), (std::vector{RunState::starting, RunState::lost}));
}

// ---- ticks --------------------------------------------------------------------------------------------------------

class TicksTest : public StepsTest {
 protected:
    std::vector<ScheduleTick> ticks() {
        std::vector<ScheduleTick> found;
        const OrgRows all = rows();
        for (const auto& [key, tick] : all.of<ScheduleTick>()) found.push_back(tick);
        return found;
    }
    void put(Overlap overlap, Missed missed = Missed::one) {
        PutSchedule schedule;
        schedule.name = "nightly";
        schedule.agent = "ada";
        schedule.every_s = 60;
        schedule.overlap = overlap;
        schedule.missed = missed;
        schedule.lease_s = limits::lease_s_max;
        apply(schedule);
    }
};

TEST_F(TicksTest, what_became_of_each_tick_and_wake_is_written_down) {
    put(Overlap::skip);
    const Instant made = now;

    at(made + minutes(1));
    at(made + minutes(2) + seconds(3));
    const auto woken = apply(Wake{"nightly", fresh_run()});
    const auto joined = apply(Wake{"nightly", fresh_run()});

    const auto all = ticks();
    ASSERT_EQ(all.size(), 4u);
    EXPECT_EQ(all[0].outcome, TickOutcome::fired);
    EXPECT_EQ(all[0].tick, made + minutes(1));
    EXPECT_FALSE(all[0].run.value.empty());
    EXPECT_EQ(all[1].outcome, TickOutcome::skipped);
    EXPECT_EQ(all[1].tick, made + minutes(2));
    EXPECT_EQ(all[1].at, made + minutes(2) + seconds(3));
    EXPECT_EQ(all[1].reason, "the previous run has not ended");
    EXPECT_EQ(all[2].outcome, TickOutcome::fired);
    EXPECT_EQ(all[2].run, woken.run);
    EXPECT_EQ(all[3].outcome, TickOutcome::coalesced);
    EXPECT_EQ(all[3].run, joined.run);
    EXPECT_EQ(all[3].number, 4);
}

TEST_F(TicksTest, ticks_that_were_missed_together_are_one_row) {
    put(Overlap::allow);
    const Instant made = now;

    at(made + minutes(10));

    const auto all = ticks();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].number, 9);
    EXPECT_EQ(all[0].tick, made + minutes(1));
    EXPECT_EQ(all[0].reason, "missed, with 8 after it");
    EXPECT_EQ(all[1].number, 10);
    EXPECT_EQ(all[1].outcome, TickOutcome::fired);
}

TEST_F(TicksTest, a_schedule_that_is_made_again_goes_on_counting) {
    put(Overlap::allow);
    apply(Wake{"nightly", fresh_run()});
    apply(DeleteSchedule{"nightly"});
    put(Overlap::allow);

    apply(Wake{"nightly", fresh_run()});

    ASSERT_EQ(ticks().size(), 2u);
    EXPECT_EQ(ticks().back().number, 2);
}

}  // namespace
}  // namespace interlock::core
