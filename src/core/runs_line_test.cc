// The line: who waits, who goes next, and everything that lets it move.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"
#include "core/runs.h"

namespace interlock::core {
namespace {

class LineTest : public RunsTest {
 protected:
    LineTest() { make_agent("ada"); }

    // All of the org's money is tied up in one hold.
    HoldId tie_up(Money amount, std::int64_t ttl_s = 3600, bool dispatched = false) {
        Reserve command;
        command.hold = fresh_hold();
        command.who.agent = "ada";
        command.bound = usd(amount);
        command.ttl_s = ttl_s;
        command.dispatched = dispatched;
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, ReserveStatus::held) << reply.detail;
        return command.hold;
    }
};

// ---- the line -------------------------------------------------------------------------------------------------------

TEST_F(LineTest, the_line_goes_by_priority_and_then_by_who_came_first) {
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    const auto in_line = [&](std::int32_t priority, std::int64_t place) {
        AdmitRun command = asking("ada", {workspace("/repo")}, OnConflict::queue);
        command.priority = priority;
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, AdmitStatus::queued);
        EXPECT_EQ(reply.place_in_line, place);
        return command.run;
    };
    const RunId first = in_line(0, 1);
    const RunId second = in_line(0, 2);
    const RunId low = in_line(-1, 3);
    const RunId high = in_line(1, 1);
    const RunId second_high = in_line(1, 2);
    const RunId third = in_line(0, 5);

    finish(holder);
    for (const RunId next : {high, second_high, first, second, third, low}) {
        ASSERT_EQ(state_of(next), RunState::starting);
        EXPECT_EQ(apply(asking("ada", {workspace("/repo")})).holder->run, next);
        finish(owner_of(next));
    }
    admit(asking("ada", {workspace("/repo")}));
}

TEST_F(LineTest, readers_that_come_later_do_not_starve_a_waiting_writer) {
    const Owned reader = admit(asking("ada", {workspace("/repo", ClaimMode::read)}));
    const RunId writer = enqueue(asking("ada", {workspace("/repo")}));

    const auto reply = apply(asking("ada", {workspace("/repo", ClaimMode::read)}));
    EXPECT_EQ(reply.status, AdmitStatus::workspace_busy);
    EXPECT_EQ(reply.holder->run, writer);
    EXPECT_EQ(reply.holder->state, RunState::queued);
    const RunId late_reader = enqueue(asking("ada", {workspace("/repo", ClaimMode::read)}));
    const RunId later_reader = enqueue(asking("ada", {workspace("/repo/x", ClaimMode::read)}));

    finish(reader);
    EXPECT_EQ(state_of(writer), RunState::starting);
    EXPECT_EQ(state_of(late_reader), RunState::queued);
    finish(owner_of(writer));
    EXPECT_EQ(state_of(late_reader), RunState::starting);
    EXPECT_EQ(state_of(later_reader), RunState::starting);
}

TEST_F(LineTest, nobody_overtakes_a_waiting_run_by_taking_a_part_of_its_place) {
    const Owned inside = admit(asking("ada", {workspace("/repo/a")}));
    const RunId whole = enqueue(asking("ada", {workspace("/repo")}));

    const auto reply = apply(asking("ada", {workspace("/repo/b")}));
    EXPECT_EQ(reply.status, AdmitStatus::workspace_busy);
    EXPECT_EQ(reply.holder->run, whole);
    const RunId part = enqueue(asking("ada", {workspace("/repo/b")}));
    admit(asking("ada", {workspace("/elsewhere")}));

    finish(inside);
    EXPECT_EQ(state_of(whole), RunState::starting);
    EXPECT_EQ(state_of(part), RunState::queued);
}

TEST_F(LineTest, a_run_that_waits_for_one_place_keeps_its_turn_at_its_other_places_too) {
    const Owned in_a = admit(asking("ada", {workspace("/a")}));
    const RunId both = enqueue(asking("ada", {workspace("/a"), workspace("/b")}));

    EXPECT_EQ(apply(asking("ada", {workspace("/b")})).status, AdmitStatus::workspace_busy);

    finish(in_a);
    EXPECT_EQ(state_of(both), RunState::starting);
}

TEST_F(LineTest, nobody_overtakes_a_run_that_waits_behind_a_waiting_run) {
    const Owned deploys = admit(asking("ada", {resource("deploy")}));
    const RunId first = enqueue(asking("ada", {workspace("/repo/a"), resource("deploy")}));
    const RunId second = enqueue(asking("ada", {workspace("/repo")}));

    const auto reply = apply(asking("ada", {workspace("/repo/b")}));
    EXPECT_EQ(reply.status, AdmitStatus::workspace_busy);
    EXPECT_EQ(reply.holder->run, second);
    const RunId third = enqueue(asking("ada", {workspace("/repo/b")}));

    finish(deploys);
    EXPECT_EQ(state_of(first), RunState::starting);
    EXPECT_EQ(state_of(second), RunState::queued);
    EXPECT_EQ(state_of(third), RunState::queued);
    finish(owner_of(first));
    EXPECT_EQ(state_of(second), RunState::starting);
    EXPECT_EQ(state_of(third), RunState::queued);
}

TEST_F(LineTest, a_higher_priority_does_overtake) {
    const Owned inside = admit(asking("ada", {workspace("/repo/a")}));
    const RunId whole = enqueue(asking("ada", {workspace("/repo")}));
    AdmitRun urgent = asking("ada", {workspace("/repo/b")});
    urgent.priority = 1;

    const Owned overtaker = admit(urgent);

    finish(inside);
    EXPECT_EQ(state_of(whole), RunState::queued);
    finish(overtaker);
    EXPECT_EQ(state_of(whole), RunState::starting);
}

TEST_F(LineTest, a_run_that_waits_for_a_cap_keeps_nobody_from_a_free_place) {
    make_agent("bob", 1);
    const Owned bobs = admit(asking("bob"));
    const RunId waits_for_cap = enqueue(asking("bob", {workspace("/repo")}));
    EXPECT_EQ(get<Run>(waits_for_cap).state, RunState::queued);

    const Owned other = admit(asking("ada", {workspace("/repo")}));

    finish(bobs);
    EXPECT_EQ(state_of(waits_for_cap), RunState::queued);
    finish(other);
    EXPECT_EQ(state_of(waits_for_cap), RunState::starting);
}

TEST_F(LineTest, whoever_was_passed_at_one_place_from_then_on_keeps_its_turn_at_the_others) {
    make_agent("bob", 1);
    const Owned bobs = admit(asking("bob"));
    const RunId passed = enqueue(asking("bob", {workspace("/a"), workspace("/b")}));
    admit(asking("ada", {workspace("/a")}));

    const auto reply = apply(asking("ada", {workspace("/b")}));

    EXPECT_EQ(reply.status, AdmitStatus::workspace_busy);
    EXPECT_EQ(reply.holder->run, passed);
    finish(bobs);
    EXPECT_EQ(state_of(passed), RunState::queued);
}

TEST_F(LineTest, the_line_is_walked_past_those_who_cannot_start) {
    const Owned holder = admit(asking("ada", {resource("x")}));
    const Owned in_a = admit(asking("ada", {workspace("/a")}));
    const RunId wants_x = enqueue(asking("ada", {resource("x")}));
    const RunId wants_a = enqueue(asking("ada", {workspace("/a")}));

    finish(in_a);

    EXPECT_EQ(state_of(wants_x), RunState::queued);
    EXPECT_EQ(state_of(wants_a), RunState::starting);
    finish(holder);
    EXPECT_EQ(state_of(wants_x), RunState::starting);
}

TEST_F(LineTest, one_release_starts_everybody_who_fits_side_by_side) {
    const Owned whole = admit(asking("ada", {workspace("/repo")}));
    const RunId a = enqueue(asking("ada", {workspace("/repo/a")}));
    const RunId b = enqueue(asking("ada", {workspace("/repo/b")}));
    const RunId inside_a = enqueue(asking("ada", {workspace("/repo/a/x")}));
    const RunId c = enqueue(asking("ada", {workspace("/repo/c")}));

    finish(whole);

    EXPECT_EQ(state_of(a), RunState::starting);
    EXPECT_EQ(state_of(b), RunState::starting);
    EXPECT_EQ(state_of(inside_a), RunState::queued);
    EXPECT_EQ(state_of(c), RunState::starting);
}

TEST_F(LineTest, a_run_that_leaves_the_line_lets_those_behind_it_go_on) {
    admit(asking("ada", {workspace("/repo", ClaimMode::read)}));
    const RunId writer = enqueue(asking("ada", {workspace("/repo")}));
    const RunId reader = enqueue(asking("ada", {workspace("/repo", ClaimMode::read)}));

    EXPECT_EQ(ask_to_stop(writer).status, RunStatus::done);

    EXPECT_EQ(state_of(writer), RunState::cancelled);
    EXPECT_EQ(state_of(reader), RunState::starting);
}

TEST_F(LineTest, patience_in_line_ends_exactly_and_lets_those_behind_go_on) {
    AdmitRun reading = asking("ada", {workspace("/repo", ClaimMode::read)});
    reading.lease_s = limits::lease_s_max;
    admit(reading);
    AdmitRun impatient = asking("ada", {workspace("/repo")});
    impatient.queue_s = 100;
    enqueue(impatient);
    const RunId reader = enqueue(asking("ada", {workspace("/repo", ClaimMode::read)}));

    advance(seconds(100) - moment);
    EXPECT_EQ(state_of(impatient.run), RunState::queued);
    advance(moment);

    EXPECT_EQ(state_of(impatient.run), RunState::timed_out);
    EXPECT_NE(get<Run>(impatient.run).reason, "");
    EXPECT_EQ(state_of(reader), RunState::starting);
}

TEST_F(LineTest, a_run_without_a_limit_of_patience_waits_for_ever) {
    AdmitRun holder = asking("ada", {workspace("/repo")});
    holder.lease_s = limits::lease_s_max;
    Owned owned = admit(holder);
    const RunId patient = enqueue(asking("ada", {workspace("/repo")}));

    for (int day = 0; day < 40; ++day) {
        advance(std::chrono::hours(23));
        EXPECT_EQ(heartbeat(owned).status, RunStatus::done);
    }

    EXPECT_EQ(state_of(patient), RunState::queued);
}

TEST_F(LineTest, the_line_is_the_same_after_a_restart) {
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    const RunId first = enqueue(asking("ada", {workspace("/repo")}));
    AdmitRun urgent = asking("ada", {workspace("/repo/x")});
    urgent.priority = 1;
    enqueue(urgent);
    const AdmitRun replacer = asking("ada", {workspace("/repo")}, OnConflict::replace);
    apply(replacer);

    reload();
    apply(Reopened{});

    EXPECT_EQ(apply(asking("ada", {workspace("/repo/y")})).holder->run, holder.run);
    EXPECT_NE(heartbeat(holder).stop_requested, "");
    finish(holder);
    for (const RunId next : {urgent.run, replacer.run, first}) {
        ASSERT_EQ(state_of(next), RunState::starting);
        finish(owner_of(next));
    }
}

// ---- promotion ------------------------------------------------------------------------------------------------------

TEST_F(LineTest, every_end_of_a_run_starts_the_next_in_the_same_step) {
    const std::vector<std::pair<RunState, std::function<void(Owned)>>> ends = {
        {RunState::succeeded, [&](Owned run) { finish(run, RunState::succeeded); }},
        {RunState::failed, [&](Owned run) { finish(run, RunState::failed); }},
        {RunState::timed_out, [&](Owned run) { finish(run, RunState::timed_out); }},
        {RunState::cancelled, [&](Owned run) { cancel(run); }},
        {RunState::lost, [&](Owned run) { lose(run); }},
        {RunState::lost, [&](Owned) { advance(seconds(60)); }},
    };
    for (const auto& [outcome, end] : ends) {
        for (const bool started : {false, true}) {
            const Owned holder = admit(asking("ada", {workspace("/repo")}));
            if (started) start(holder);
            const RunId next = enqueue(asking("ada", {workspace("/repo")}));

            end(holder);

            EXPECT_EQ(state_of(holder.run), outcome);
            EXPECT_EQ(claims_of(holder.run), 0u);
            EXPECT_EQ(state_of(next), RunState::starting);
            EXPECT_EQ(claims_of(next), 1u);
            EXPECT_GT(get<Run>(next).fence, holder.fence);
            EXPECT_EQ(get<Run>(next).lease_until, now + seconds(60));
            finish(owner_of(next));
        }
    }
}

TEST_F(LineTest, a_raised_cap_starts_who_waited_for_it) {
    const auto waits_until = [&](const AdmitRun& command, WaitsFor why, const std::function<void()>& raise) {
        AdmitRun waiting = command;
        waiting.on_conflict = OnConflict::queue;
        EXPECT_EQ(apply(waiting).waits_for, why);
        raise();
        EXPECT_EQ(state_of(waiting.run), RunState::starting);
        finish(owner_of(waiting.run));
    };
    make_agent("bob", 0);
    waits_until(asking("bob"), WaitsFor::agent_cap, [&] { make_agent("bob", 1); });

    AdmitRun with_provider = asking("ada");
    with_provider.who.provider = "acme-llm";
    cap(CapKind::provider, "acme-llm", 0);
    waits_until(with_provider, WaitsFor::provider_cap, [&] { cap(CapKind::provider, "acme-llm", 1); });

    AdmitRun on_node = asking("ada");
    on_node.node = "n1";
    cap(CapKind::node, "n1", 0);
    waits_until(on_node, WaitsFor::node_cap, [&] { cap(CapKind::node, "n1", std::nullopt); });

    cap(CapKind::org, "", 0);
    waits_until(asking("ada"), WaitsFor::org_cap, [&] { cap(CapKind::org, "", 1); });
    cap(CapKind::org, "", 0);
    waits_until(asking("ada"), WaitsFor::org_cap, [&] { cap(CapKind::org, "", std::nullopt); });
}

TEST_F(LineTest, a_raised_cap_starts_as_many_as_fit_and_in_order) {
    cap(CapKind::org, "", 0);
    std::vector<RunId> line;
    for (int i = 0; i < 4; ++i) line.push_back(enqueue(asking("ada")));

    cap(CapKind::org, "", 2);

    EXPECT_EQ(state_of(line[0]), RunState::starting);
    EXPECT_EQ(state_of(line[1]), RunState::starting);
    EXPECT_EQ(state_of(line[2]), RunState::queued);
    EXPECT_EQ(state_of(line[3]), RunState::queued);
    finish(owner_of(line[1]));
    EXPECT_EQ(state_of(line[2]), RunState::starting);
    EXPECT_EQ(state_of(line[3]), RunState::queued);
}

TEST_F(LineTest, a_resumed_agent_starts_what_waited_for_it) {
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    const RunId waiting = enqueue(asking("ada", {workspace("/repo")}));
    apply(PauseAgent{"ada", "lunch"});
    finish(holder);
    EXPECT_EQ(state_of(waiting), RunState::queued);

    apply(ResumeAgent{"ada"});

    EXPECT_EQ(state_of(waiting), RunState::starting);
}

TEST_F(LineTest, a_queued_run_of_a_paused_agent_keeps_nobody_from_a_free_place) {
    make_agent("bob");
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    const RunId paused = enqueue(asking("bob", {workspace("/repo")}));
    const RunId behind = enqueue(asking("ada", {workspace("/repo")}));
    apply(PauseAgent{"bob", "lunch"});

    finish(holder);

    EXPECT_EQ(state_of(paused), RunState::queued);
    EXPECT_EQ(state_of(behind), RunState::starting);
}

// A run in line for a place; when it is its turn, the budget has nothing left.
class WaitsForMoney : public LineTest {
 protected:
    static constexpr Money all = Money::dollars(10);

    RunId wait_for_money(const PutBudget& budget, const std::function<void()>& use_up) {
        put(budget);
        const Owned holder = admit(asking("ada", {workspace("/repo")}));
        AdmitRun command = asking("ada", {workspace("/repo")});
        command.hold = usd(Money::dollars(4));
        const RunId waiting = enqueue(command);
        use_up();
        finish(holder);
        EXPECT_EQ(state_of(waiting), RunState::queued);
        return waiting;
    }
};

TEST_F(WaitsForMoney, until_the_limit_is_raised) {
    const RunId run = wait_for_money(budget_of("all", all), [&] { spend("ada", Money::dollars(8)); });

    put(budget_of("all", Money::dollars(11)));
    EXPECT_EQ(state_of(run), RunState::queued);
    put(budget_of("all", Money::dollars(12)));

    EXPECT_EQ(state_of(run), RunState::starting);
    EXPECT_EQ(get<Hold>(get<Run>(run).hold).bound, usd(Money::dollars(4)));
}

TEST_F(WaitsForMoney, until_the_budget_is_thawed) {
    const RunId run = wait_for_money(budget_of("all", all), [&] {
        EXPECT_EQ(spend("ada", Money::dollars(11), true).status, ChargeStatus::charged);
    });
    put(budget_of("all", Money::dollars(100)));
    EXPECT_EQ(state_of(run), RunState::queued);

    EXPECT_EQ(apply(UnfreezeBudget{"all"}).status, BudgetStatus::done);

    EXPECT_EQ(state_of(run), RunState::starting);
}

TEST_F(WaitsForMoney, until_the_budget_is_deleted) {
    const RunId run = wait_for_money(budget_of("all", all), [&] { spend("ada", Money::dollars(8)); });

    EXPECT_EQ(apply(DeleteBudget{"all"}).status, BudgetStatus::done);

    EXPECT_EQ(state_of(run), RunState::starting);
}

TEST_F(WaitsForMoney, until_the_window_turns) {
    PutBudget daily = budget_of("daily", all);
    daily.window = WindowKind::day;
    const RunId run = wait_for_money(daily, [&] { spend("ada", Money::dollars(8)); });
    const Instant midnight = std::chrono::floor<std::chrono::days>(now) + std::chrono::days(1);

    at(midnight - moment);
    EXPECT_EQ(state_of(run), RunState::queued);
    at(midnight);

    EXPECT_EQ(state_of(run), RunState::starting);
}

TEST_F(WaitsForMoney, until_the_window_turns_also_after_a_restart) {
    PutBudget daily = budget_of("daily", all);
    daily.window = WindowKind::day;
    const RunId run = wait_for_money(daily, [&] { spend("ada", Money::dollars(8)); });

    reload();
    apply(Reopened{});
    at(std::chrono::floor<std::chrono::days>(now) + std::chrono::days(1));

    EXPECT_EQ(state_of(run), RunState::starting);
}

TEST_F(WaitsForMoney, until_a_hold_is_released) {
    HoldId hold;
    const RunId run = wait_for_money(budget_of("all", all), [&] { hold = tie_up(Money::dollars(7)); });

    EXPECT_EQ(apply(ReleaseHold{hold}).status, HoldStatus::done);

    EXPECT_EQ(state_of(run), RunState::starting);
}

TEST_F(WaitsForMoney, until_a_hold_is_settled_for_less) {
    HoldId hold;
    const RunId run = wait_for_money(budget_of("all", all), [&] { hold = tie_up(Money::dollars(7)); });

    SettleHold settle;
    settle.hold = hold;
    settle.cost = Money::dollars(6);
    EXPECT_EQ(apply(settle).status, HoldStatus::done);

    EXPECT_EQ(state_of(run), RunState::starting);
}

TEST_F(WaitsForMoney, until_a_hold_that_never_left_expires) {
    const RunId run = wait_for_money(budget_of("all", all), [&] { tie_up(Money::dollars(7), 30); });

    EXPECT_EQ(advance(seconds(30)).expired_holds, 1);

    EXPECT_EQ(state_of(run), RunState::starting);
}

TEST_F(WaitsForMoney, until_another_run_gives_back_what_it_did_not_use) {
    Owned other;
    const RunId run = wait_for_money(budget_of("all", all), [&] {
        AdmitRun command = asking("ada", {workspace("/other")});
        command.hold = usd(Money::dollars(7));
        other = admit(command);
    });

    finish(other, RunState::succeeded, costing(Money::dollars(6)));

    EXPECT_EQ(state_of(run), RunState::starting);
}

TEST_F(WaitsForMoney, until_its_agent_holds_less_than_its_share) {
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    AdmitRun command = asking("ada", {workspace("/repo")});
    command.hold = usd(Money::nanos(100));
    const RunId run = enqueue(command);
    Hold huge;
    huge.id = HoldId(fresh_id());
    huge.who.agent = "ada";
    huge.bound.usd = limits::held_per_agent_max - 99;
    huge.expires_at = far_future;
    const HoldId hold = huge.id;
    machine.org(org).adopt(huge);

    finish(holder);
    EXPECT_EQ(state_of(run), RunState::queued);
    EXPECT_EQ(apply(ReleaseHold{hold}).status, HoldStatus::done);

    EXPECT_EQ(state_of(run), RunState::starting);
}

TEST_F(WaitsForMoney, and_keeps_nobody_from_the_free_place_meanwhile) {
    const RunId run = wait_for_money(budget_of("all", all), [&] { tie_up(Money::dollars(7)); });

    const Owned other = admit(asking("ada", {workspace("/repo")}));

    EXPECT_EQ(state_of(run), RunState::queued);
    EXPECT_EQ(state_of(other.run), RunState::starting);
}

TEST_F(WaitsForMoney, until_the_budget_that_paused_its_agent_turns) {
    PutBudget daily = budget_of("daily", all);
    daily.window = WindowKind::day;
    daily.on_exhausted = OnExhausted::pause_agent;
    const RunId run = wait_for_money(daily, [&] { spend("ada", all); });
    EXPECT_EQ(get<Agent>("ada").pauses.size(), 1u);

    const auto ticked = at(std::chrono::floor<std::chrono::days>(now) + std::chrono::days(1));

    EXPECT_EQ(ticked.resumed_agents, 1);
    EXPECT_EQ(state_of(run), RunState::starting);
}

}  // namespace
}  // namespace interlock::core
