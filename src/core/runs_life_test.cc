// From admission to the end: who may change a run, how long its lease lasts, and what its end frees and charges.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"
#include "core/runs.h"

namespace interlock::core {
namespace {

class RunLifeTest : public RunsTest {
 protected:
    RunLifeTest() { make_agent("ada"); }

    AdmitRun with_hold(Money amount) {
        AdmitRun command = asking("ada");
        command.hold = usd(amount);
        return command;
    }
    ChargeReply charge_run(Owned owned, Money cost) {
        Charge command;
        command.who.run = owned.run;
        command.fence = owned.fence;
        command.cost = cost;
        return apply(command);
    }
    Reserve reserving(Owned owned, Money bound, bool dispatched) {
        Reserve command;
        command.hold = fresh_hold();
        command.who.run = owned.run;
        command.fence = owned.fence;
        command.bound = usd(bound);
        command.dispatched = dispatched;
        return command;
    }
    Append appending(SessionId session, Owned owned) {
        Append command;
        command.session = session;
        command.messages.emplace_back();
        command.messages.back().id = fresh_message();
        command.messages.back().role = "user";
        command.run = owned.run;
        command.fence = owned.fence;
        return command;
    }
    Money settled(RunId run) { return Money::nanos(get<Run>(run).settled); }
    Money unknown(RunId run) { return Money::nanos(get<Run>(run).unknown); }

    // A run in this state, made by commands, and the fence of its last owner.
    Owned in_state(RunState state) {
        const Place place = workspace("/made/" + std::to_string(++made_));
        if (state == RunState::queued) {
            admit(asking("ada", {place}));
            return {enqueue(asking("ada", {place})), {}};
        }
        const Owned owned = admit(asking("ada", {place}));
        switch (state) {
            case RunState::queued:
            case RunState::starting:
                break;
            case RunState::running:
                start(owned);
                break;
            case RunState::paused:
                start(owned);
                pause(owned);
                break;
            case RunState::succeeded:
            case RunState::failed:
            case RunState::timed_out:
                finish(owned, state);
                break;
            case RunState::cancelled:
                cancel(owned);
                break;
            case RunState::lost:
                lose(owned);
                break;
        }
        EXPECT_EQ(state_of(owned.run), state);
        return owned;
    }

 private:
    int made_ = 0;
};

// ---- transitions ----------------------------------------------------------------------------------------------------

TEST_F(RunLifeTest, every_command_does_in_every_state_what_the_table_says) {
    using enum RunState;
    const std::vector<std::pair<std::string, std::function<RunReply(Owned)>>> commands = {
        {"start", [&](Owned run) { return start(run); }},
        {"heartbeat", [&](Owned run) { return heartbeat(run); }},
        {"pause", [&](Owned run) { return pause(run); }},
        {"resume", [&](Owned run) { return resume(run); }},
        {"finish", [&](Owned run) { return finish(run, failed); }},
        {"cancel as its owner", [&](Owned run) { return cancel(run); }},
        {"cancel from outside", [&](Owned run) { return ask_to_stop(run.run); }},
        {"lose", [&](Owned run) { return lose(run); }},
    };
    struct Outcome {
        RunStatus status;
        RunState state;
    };
    const auto done = [](RunState state) { return Outcome{RunStatus::done, state}; };
    const auto no = [](RunStatus status, RunState state) { return Outcome{status, state}; };
    const RunStatus stale = RunStatus::stale_fence;
    const RunStatus ended = RunStatus::run_ended;
    const RunStatus wrong = RunStatus::wrong_state;
    const RunStatus asked = RunStatus::stop_requested;
    const std::vector<std::pair<RunState, std::vector<Outcome>>> table = {
        {queued,
         {no(stale, queued), no(stale, queued), no(stale, queued), no(stale, queued), no(stale, queued),
          done(cancelled), done(cancelled), no(stale, queued)}},
        {starting,
         {done(running), done(running), no(wrong, starting), no(wrong, starting), done(failed), done(cancelled),
          no(asked, starting), done(lost)}},
        {running,
         {done(running), done(running), done(paused), done(running), done(failed), done(cancelled), no(asked, running),
          done(lost)}},
        {paused,
         {no(wrong, paused), done(paused), done(paused), done(running), done(failed), done(cancelled),
          no(asked, paused), done(lost)}},
        {succeeded, std::vector(8, no(ended, succeeded))},
        {failed, std::vector(8, no(ended, failed))},
        {cancelled, std::vector(8, no(ended, cancelled))},
        {timed_out, std::vector(8, no(ended, timed_out))},
        {lost,
         {no(stale, lost), no(stale, lost), no(stale, lost), no(stale, lost), no(stale, lost), no(stale, lost),
          no(ended, lost), no(stale, lost)}},
    };
    ASSERT_EQ(table.size(), static_cast<std::size_t>(lost) + 1);

    for (const auto& [state, outcomes] : table) {
        for (std::size_t i = 0; i < commands.size(); ++i) {
            const Owned owned = in_state(state);
            const auto reply = commands[i].second(owned);

            const std::string what = commands[i].first + " in state " + std::to_string(static_cast<int>(state));
            EXPECT_EQ(reply.status, outcomes[i].status) << what << ": " << reply.detail;
            EXPECT_EQ(reply.state, outcomes[i].state) << what;
            EXPECT_EQ(state_of(owned.run), outcomes[i].state) << what;
            EXPECT_EQ(claims_of(owned.run), is_live(outcomes[i].state) ? 1u : 0u) << what;
        }
    }
}

TEST_F(RunLifeTest, a_cancelled_run_cannot_be_revived_by_a_late_start) {
    const Owned owned = admit(asking("ada", {workspace("/repo")}));
    cancel(owned);

    EXPECT_EQ(start(owned).status, RunStatus::run_ended);
    EXPECT_EQ(heartbeat(owned).status, RunStatus::run_ended);

    EXPECT_EQ(state_of(owned.run), RunState::cancelled);
    admit(asking("ada", {workspace("/repo")}));
}

TEST_F(RunLifeTest, a_run_that_timed_out_in_line_has_no_owner_and_has_ended) {
    admit(asking("ada", {workspace("/repo")}));
    AdmitRun command = asking("ada", {workspace("/repo")});
    command.queue_s = 5;
    enqueue(command);
    advance(seconds(5));

    EXPECT_EQ(start({command.run, Fence()}).status, RunStatus::stale_fence);
    EXPECT_EQ(ask_to_stop(command.run).status, RunStatus::run_ended);
    EXPECT_EQ(state_of(command.run), RunState::timed_out);
}

TEST_F(RunLifeTest, a_run_remembers_when_things_happened) {
    const Instant created = now;
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    const RunId run = enqueue(asking("ada", {workspace("/repo")}));
    advance(seconds(10));
    finish(holder);
    const Instant admitted = now;
    advance(seconds(10));
    start(owner_of(run));
    const Instant started = now;
    advance(seconds(10));
    finish(owner_of(run), RunState::failed);

    const Run row = get<Run>(run);
    EXPECT_EQ(row.created_at, created);
    EXPECT_EQ(row.admitted_at, admitted);
    EXPECT_EQ(row.started_at, started);
    EXPECT_EQ(row.ended_at, now);
    EXPECT_EQ(row.reason, "as it goes");
}

TEST_F(RunLifeTest, the_feed_tells_every_transition_once) {
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    const RunId run = enqueue(asking("ada", {workspace("/repo")}));
    finish(holder);
    const Owned owned = owner_of(run);
    heartbeat(owned);
    start(owned);
    heartbeat(owned);
    pause(owned);
    pause(owned);
    resume(owned);
    resume(owned);
    finish(owned, RunState::failed);

    std::vector<RunState> seen;
    for (const Event& event : feed()) {
        if (const auto* changed = std::get_if<RunChanged>(&event); changed != nullptr && changed->run == run) {
            seen.push_back(changed->state);
        }
        if (const auto* end = std::get_if<RunEnded>(&event); end != nullptr && end->run == run)
            seen.push_back(end->state);
    }
    EXPECT_EQ(seen, (std::vector{RunState::queued, RunState::starting, RunState::running, RunState::paused,
                                 RunState::running, RunState::failed}));
}

// ---- refusals -------------------------------------------------------------------------------------------------------

TEST_F(RunLifeTest, finish_refuses_in_the_order_of_its_status) {
    const Owned owned = admit(asking("ada"));
    FinishRun command;
    command.run = fresh_run();
    command.fence = Fence(owned.fence.value + 100);
    command.outcome = RunState::lost;
    command.charge = costing(Money::max());

    EXPECT_EQ(apply(command).status, RunStatus::invalid_request);
    command.outcome = RunState::succeeded;
    EXPECT_EQ(apply(command).status, RunStatus::run_not_found);
    command.run = owned.run;
    EXPECT_EQ(apply(command).status, RunStatus::stale_fence);
    const Owned ended = admit(asking("ada"));
    finish(ended);
    EXPECT_EQ(apply(FinishRun{ended.run, owned.fence, RunState::failed, "", costing(Money::max())}).status,
              RunStatus::stale_fence);
    EXPECT_EQ(apply(FinishRun{ended.run, ended.fence, RunState::failed, "", costing(Money::max())}).status,
              RunStatus::run_ended);
    command.fence = owned.fence;
    EXPECT_EQ(apply(command).status, RunStatus::amount_too_large);
    EXPECT_EQ(state_of(owned.run), RunState::starting);
    command.charge.reset();
    EXPECT_EQ(apply(command).status, RunStatus::done);
}

TEST_F(RunLifeTest, cancel_refuses_in_the_order_of_its_status) {
    const Owned owned = admit(asking("ada"));
    CancelRun command;
    command.run = fresh_run();
    command.fence = Fence(owned.fence.value + 100);
    command.reason = std::string(limits::text_bytes_max + 1, 'x');
    command.charge = costing(Money::max());

    EXPECT_EQ(apply(command).status, RunStatus::invalid_request);
    command.reason = "enough";
    EXPECT_EQ(apply(command).status, RunStatus::run_not_found);
    command.run = owned.run;
    EXPECT_EQ(apply(command).status, RunStatus::stale_fence);
    command.fence = owned.fence;
    EXPECT_EQ(apply(command).status, RunStatus::amount_too_large);
    command.charge.reset();
    EXPECT_EQ(apply(command).status, RunStatus::done);
    EXPECT_EQ(apply(command).status, RunStatus::run_ended);
}

TEST_F(RunLifeTest, the_other_commands_refuse_in_the_order_of_their_status) {
    const Owned starting = admit(asking("ada"));
    const Owned paused = in_state(RunState::paused);
    const Owned nobody{fresh_run(), starting.fence};
    const Owned stale{starting.run, paused.fence};
    const Owned unstated{starting.run, Fence()};
    const std::vector<std::function<RunStatus(Owned)>> commands = {
        [&](Owned run) { return start(run).status; }, [&](Owned run) { return heartbeat(run).status; },
        [&](Owned run) { return pause(run).status; }, [&](Owned run) { return resume(run).status; },
        [&](Owned run) { return lose(run).status; },
    };
    for (const auto& command : commands) {
        EXPECT_EQ(command(nobody), RunStatus::run_not_found);
        EXPECT_EQ(command(stale), RunStatus::stale_fence);
        EXPECT_EQ(command(unstated), RunStatus::stale_fence);
    }
    EXPECT_EQ(pause(starting).status, RunStatus::wrong_state);
    EXPECT_EQ(resume(starting).status, RunStatus::wrong_state);
    EXPECT_EQ(start(paused).status, RunStatus::wrong_state);
    EXPECT_EQ(start({paused.run, starting.fence}).status, RunStatus::stale_fence);
    EXPECT_EQ(apply(LoseRun{fresh_run(), {}, std::string(limits::text_bytes_max + 1, 'x')}).status,
              RunStatus::invalid_request);
}

TEST_F(RunLifeTest, an_end_that_cannot_be_meant_is_refused) {
    const Owned owned = admit(asking("ada"));
    const auto refused = [&](const std::function<void(FinishRun&)>& spoil) {
        FinishRun command{owned.run, owned.fence, RunState::succeeded, "", costing(Money::nanos(1))};
        spoil(command);
        return apply(command).status == RunStatus::invalid_request;
    };
    for (const RunState outcome : {RunState::queued, RunState::starting, RunState::running, RunState::paused,
                                   RunState::cancelled, RunState::lost}) {
        EXPECT_TRUE(refused([&](FinishRun& command) { command.outcome = outcome; }));
    }
    EXPECT_TRUE(refused([](FinishRun& command) { command.reason = std::string(limits::text_bytes_max + 1, 'x'); }));
    EXPECT_TRUE(refused([](FinishRun& command) { command.charge->cost = Money::nanos(-1); }));
    EXPECT_TRUE(refused([](FinishRun& command) { command.charge->usage.output_tokens = -1; }));
    EXPECT_TRUE(refused([](FinishRun& command) { command.charge->calls = -1; }));
    EXPECT_TRUE(refused([](FinishRun& command) { command.charge->model = "a\nb"; }));
    EXPECT_TRUE(
        refused([](FinishRun& command) { command.charge->price = std::string(limits::name_bytes_max + 1, 'p'); }));
    EXPECT_EQ(state_of(owned.run), RunState::starting);
}

// ---- fences ---------------------------------------------------------------------------------------------------------

TEST_F(RunLifeTest, a_stale_fence_is_refused_by_everything_that_speaks_for_a_run) {
    const SessionId session = make_session("ada");
    const Owned owned = admit(with_hold(Money::dollars(5)));
    start(owned);
    const Owned other = admit(asking("ada"));
    for (const Fence fence : {other.fence, Fence(owned.fence.value + 50), Fence(-1)}) {
        const Owned stale{owned.run, fence};
        EXPECT_EQ(start(stale).status, RunStatus::stale_fence);
        EXPECT_EQ(heartbeat(stale).status, RunStatus::stale_fence);
        EXPECT_EQ(pause(stale).status, RunStatus::stale_fence);
        EXPECT_EQ(resume(stale).status, RunStatus::stale_fence);
        EXPECT_EQ(finish(stale).status, RunStatus::stale_fence);
        EXPECT_EQ(cancel(stale).status, RunStatus::stale_fence);
        EXPECT_EQ(lose(stale).status, RunStatus::stale_fence);
        EXPECT_EQ(charge_run(stale, Money::nanos(1)).status, ChargeStatus::stale_fence);
        EXPECT_EQ(apply(reserving(stale, Money::nanos(1), false)).status, ReserveStatus::stale_fence);
        EXPECT_EQ(apply(appending(session, stale)).status, AppendStatus::stale_fence);
    }
    EXPECT_EQ(charge_run(owned, Money::nanos(1)).status, ChargeStatus::charged);
    EXPECT_EQ(apply(reserving(owned, Money::nanos(1), false)).status, ReserveStatus::held);
    EXPECT_EQ(apply(appending(session, owned)).status, AppendStatus::appended);
    EXPECT_EQ(heartbeat(owned).status, RunStatus::done);
}

TEST_F(RunLifeTest, the_owner_of_a_lost_run_can_change_nothing_any_more) {
    const SessionId session = make_session("ada");
    AdmitRun command = asking("ada", {workspace("/repo")});
    command.hold = usd(Money::dollars(5));
    const Owned owned = admit(command);
    start(owned);
    const Reserve call = reserving(owned, Money::dollars(1), true);
    EXPECT_EQ(apply(call).status, ReserveStatus::held);
    const RunId successor = enqueue(asking("ada", {workspace("/repo")}));

    advance(seconds(60));

    EXPECT_EQ(state_of(owned.run), RunState::lost);
    EXPECT_EQ(state_of(successor), RunState::starting);
    const auto nothing_works = [&](Owned old) {
        EXPECT_NE(start(old).status, RunStatus::done);
        EXPECT_NE(heartbeat(old).status, RunStatus::done);
        EXPECT_NE(pause(old).status, RunStatus::done);
        EXPECT_NE(resume(old).status, RunStatus::done);
        EXPECT_NE(finish(old, RunState::succeeded, costing(Money::nanos(1))).status, RunStatus::done);
        EXPECT_NE(cancel(old, costing(Money::nanos(1))).status, RunStatus::done);
        EXPECT_NE(lose(old).status, RunStatus::done);
        EXPECT_NE(charge_run(old, Money::nanos(1)).status, ChargeStatus::charged);
        EXPECT_NE(apply(reserving(old, Money::nanos(1), false)).status, ReserveStatus::held);
        EXPECT_NE(apply(appending(session, old)).status, AppendStatus::appended);
    };
    nothing_works(owned);
    nothing_works(owner_of(owned.run));
    EXPECT_EQ(charge_run({owned.run, {}}, Money::nanos(1)).status, ChargeStatus::run_ended);
    EXPECT_EQ(apply(reserving({owned.run, {}}, Money::nanos(1), false)).status, ReserveStatus::run_ended);
    EXPECT_EQ(apply(appending(session, {owned.run, {}})).status, AppendStatus::run_ended);
    EXPECT_EQ(ask_to_stop(owned.run).status, RunStatus::run_ended);
    SettleHold settle;
    settle.hold = call.hold;
    EXPECT_EQ(apply(settle).status, HoldStatus::hold_closed);
    EXPECT_EQ(apply(ReleaseHold{call.hold}).status, HoldStatus::hold_closed);
    EXPECT_EQ(apply(ExtendHold{call.hold, 60, true}).status, HoldStatus::hold_closed);
    EXPECT_EQ(claims_of(successor), 1u);
    EXPECT_EQ(apply(asking("ada", {workspace("/repo")})).holder->run, successor);
}

TEST_F(RunLifeTest, the_end_of_an_earlier_run_does_not_free_its_successors_place) {
    const Owned first = admit(asking("ada", {workspace("/repo")}));
    finish(first);
    const Owned second = admit(asking("ada", {workspace("/repo")}));

    EXPECT_EQ(finish(first).status, RunStatus::run_ended);
    EXPECT_EQ(cancel(first).status, RunStatus::run_ended);

    EXPECT_EQ(apply(asking("ada", {workspace("/repo")})).holder->run, second.run);
}

TEST_F(RunLifeTest, losing_a_run_gives_it_a_fence_that_is_nobodys) {
    const Owned owned = admit(asking("ada"));
    lose(owned);
    const Owned next = admit(asking("ada"));

    EXPECT_GT(get<Run>(owned.run).fence, owned.fence);
    EXPECT_LT(get<Run>(owned.run).fence, next.fence);
}

// ---- leases ---------------------------------------------------------------------------------------------------------

TEST_F(RunLifeTest, a_lease_ends_exactly) {
    AdmitRun command = asking("ada", {workspace("/repo")});
    command.lease_s = 7;
    const Owned owned = admit(command);

    EXPECT_EQ(advance(seconds(7) - moment).lost_runs, 0);
    EXPECT_EQ(state_of(owned.run), RunState::starting);
    EXPECT_EQ(advance(moment).lost_runs, 1);

    EXPECT_EQ(state_of(owned.run), RunState::lost);
    EXPECT_EQ(get<Run>(owned.run).ended_at, CoreTest::start + seconds(7));
}

TEST_F(RunLifeTest, a_slow_owner_that_is_heard_before_its_lease_ends_is_not_robbed) {
    const Owned owned = admit(asking("ada", {workspace("/repo")}));
    const RunId waiting = enqueue(asking("ada", {workspace("/repo")}));
    for (int i = 0; i < 5; ++i) {
        advance(seconds(60) - moment);
        const auto reply = heartbeat(owned);
        EXPECT_EQ(reply.status, RunStatus::done);
        EXPECT_EQ(reply.lease_until, now + seconds(60));
    }
    EXPECT_EQ(state_of(waiting), RunState::queued);

    advance(seconds(60));

    EXPECT_EQ(state_of(owned.run), RunState::lost);
    EXPECT_EQ(state_of(waiting), RunState::starting);
}

TEST_F(RunLifeTest, a_starting_and_a_paused_run_need_heartbeats_too) {
    const Owned starting = in_state(RunState::starting);
    const Owned paused = in_state(RunState::paused);
    advance(seconds(59));
    heartbeat(paused);
    advance(seconds(1));

    EXPECT_EQ(state_of(starting.run), RunState::lost);
    EXPECT_EQ(state_of(paused.run), RunState::paused);
    advance(seconds(59));
    EXPECT_EQ(state_of(paused.run), RunState::lost);
}

TEST_F(RunLifeTest, the_first_heartbeat_starts_a_run_and_start_renews_the_lease) {
    const Owned by_heartbeat = admit(asking("ada"));
    const Owned by_start = admit(asking("ada"));
    advance(seconds(50));

    EXPECT_EQ(heartbeat(by_heartbeat).state, RunState::running);
    EXPECT_EQ(start(by_start).lease_until, now + seconds(60));

    EXPECT_EQ(get<Run>(by_heartbeat.run).started_at, now);
    advance(seconds(59));
    EXPECT_EQ(state_of(by_heartbeat.run), RunState::running);
    EXPECT_EQ(state_of(by_start.run), RunState::running);
}

TEST_F(RunLifeTest, when_the_server_was_away_every_lease_starts_anew) {
    const Owned owned = admit(asking("ada", {workspace("/repo")}));
    start(owned);
    const RunId waiting = enqueue(asking("ada", {workspace("/repo")}));
    commit();

    // Nobody could be heard for an hour. Reopened comes before any tick.
    now += std::chrono::hours(1);
    reload();
    machine.apply({now}, command_of({}, Reopened{}));
    commit();

    EXPECT_EQ(get<Run>(owned.run).lease_until, now + seconds(60));
    EXPECT_EQ(advance(seconds(60) - moment).lost_runs, 0);
    EXPECT_EQ(heartbeat(owned).status, RunStatus::done);
    EXPECT_EQ(advance(seconds(60)).lost_runs, 1);
    EXPECT_EQ(state_of(waiting), RunState::starting);
}

TEST_F(RunLifeTest, reopening_shortens_no_lease) {
    const Owned owned = admit(asking("ada"));
    machine.apply({now - std::chrono::hours(1)}, command_of({}, Reopened{}));
    commit();

    EXPECT_EQ(get<Run>(owned.run).lease_until, now + seconds(60));
}

// ---- what the end frees and charges ---------------------------------------------------------------------------------

TEST_F(RunLifeTest, every_end_frees_everything_and_charges_what_was_used) {
    struct End {
        std::string what;
        std::function<void(Owned)> end;
        Money settled;  // Of a hold of 10, with 3 charged and a call of 1 that may have left.
        Money unknown;
        bool metered = false;
    };
    const Money three = Money::dollars(3);
    const Money one = Money::dollars(1);
    const Money four = Money::dollars(4);
    const Money all = Money::dollars(10);
    const std::vector<End> ends = {
        {"succeeded", [&](Owned run) { finish(run, RunState::succeeded); }, four, one},
        {"failed", [&](Owned run) { finish(run, RunState::failed); }, four, one},
        {"timed out", [&](Owned run) { finish(run, RunState::timed_out); }, four, one},
        {"cancelled", [&](Owned run) { cancel(run); }, four, one},
        {"succeeded with a last charge",
         [&](Owned run) { finish(run, RunState::succeeded, costing(Money::dollars(2))); }, Money::dollars(6), one},
        {"cancelled with a last charge", [&](Owned run) { cancel(run, costing(Money::dollars(2))); }, Money::dollars(6),
         one},
        {"seen to be gone", [&](Owned run) { lose(run); }, all, Money::dollars(7)},
        {"not heard of", [&](Owned) { advance(seconds(60)); }, all, Money::dollars(7)},
        {"metered and seen to be gone", [&](Owned run) { lose(run); }, four, one, true},
        {"metered and not heard of", [&](Owned) { advance(seconds(60)); }, four, one, true},
    };
    PutBudget total = budget_of("total", Money::dollars(1000));
    total.window = WindowKind::total;
    put(total);
    std::int64_t all_settled = 0;
    for (const End& end : ends) {
        AdmitRun command = asking("ada", {workspace("/repo"), resource("deploy")});
        command.hold = usd(all);
        command.metered = end.metered;
        const Owned owned = admit(command);
        charge_run(owned, three);
        EXPECT_EQ(apply(reserving(owned, one, true)).status, ReserveStatus::held);
        EXPECT_EQ(apply(reserving(owned, one, false)).status, ReserveStatus::held);
        EXPECT_EQ(apply(total).held, Money::dollars(7).nanos());

        end.end(owned);

        EXPECT_EQ(settled(owned.run), end.settled) << end.what;
        EXPECT_EQ(unknown(owned.run), end.unknown) << end.what;
        EXPECT_EQ(claims_of(owned.run), 0u) << end.what;
        all_settled += end.settled.nanos();
        const auto budget = apply(total);
        EXPECT_EQ(budget.held, 0) << end.what;
        EXPECT_EQ(budget.settled, all_settled) << end.what;
        const auto told_end = told<RunEnded>().back();
        EXPECT_EQ(told_end.run, owned.run);
        EXPECT_EQ(told_end.settled, end.settled.nanos()) << end.what;
        EXPECT_EQ(told_end.unknown, end.unknown.nanos()) << end.what;
    }
}

TEST_F(RunLifeTest, a_lost_run_that_had_used_up_its_hold_leaves_nothing_unknown) {
    const Owned owned = admit(with_hold(Money::dollars(2)));
    charge_run(owned, Money::dollars(2));

    lose(owned);

    EXPECT_EQ(settled(owned.run), Money::dollars(2));
    EXPECT_EQ(unknown(owned.run), Money());
    EXPECT_EQ(get<Run>(owned.run).events, 1);
}

TEST_F(RunLifeTest, a_lost_run_without_a_hold_is_charged_for_what_was_charged) {
    const Owned owned = admit(asking("ada"));
    charge_run(owned, Money::dollars(2));

    advance(seconds(60));

    EXPECT_EQ(settled(owned.run), Money::dollars(2));
    EXPECT_EQ(unknown(owned.run), Money());
}

TEST_F(RunLifeTest, the_last_charge_is_on_the_runs_account_and_has_a_number_in_the_feed) {
    AdmitRun command = with_hold(Money::dollars(5));
    command.who.provider = "acme-llm";
    command.who.model = "small";
    command.who.tags = {{"team", "red"}};
    const Owned owned = admit(command);
    FinalCharge charge = costing(Money::dollars(1));
    charge.model = "large";
    charge.usage.output_tokens = 40;
    charge.calls = 3;
    charge.price = "acme@1";

    const auto reply = finish(owned, RunState::succeeded, charge);

    EXPECT_GT(reply.seq, Seq());
    const auto all = rows();
    ASSERT_EQ(all.of<CostEvent>().size(), 1u);
    const CostEvent event = all.of<CostEvent>().begin()->second;
    EXPECT_EQ(event.seq, reply.seq);
    EXPECT_EQ(event.who.run, owned.run);
    EXPECT_EQ(event.who.agent, "ada");
    EXPECT_EQ(event.who.provider, "acme-llm");
    EXPECT_EQ(event.who.model, "large");
    EXPECT_EQ(event.who.tags, (Tags{{"team", "red"}}));
    EXPECT_EQ(event.cost, Money::dollars(1).nanos());
    EXPECT_EQ(event.usage.output_tokens, 40);
    EXPECT_EQ(event.calls, 3);
    EXPECT_EQ(event.price, "acme@1");
    EXPECT_FALSE(event.estimated);
    EXPECT_EQ(get<Run>(owned.run).tokens, 40);
}

TEST_F(RunLifeTest, the_last_charge_is_recorded_even_past_its_hold_and_every_limit) {
    put(budget_of("all", Money::dollars(5)));
    const Owned owned = admit(with_hold(Money::dollars(2)));

    EXPECT_EQ(finish(owned, RunState::failed, costing(Money::dollars(9))).status, RunStatus::done);

    EXPECT_EQ(settled(owned.run), Money::dollars(9));
    const auto budget = apply(budget_of("all", Money::dollars(5)));
    EXPECT_EQ(budget.settled, Money::dollars(9).nanos());
    EXPECT_EQ(apply(asking("ada")).status, AdmitStatus::budget_frozen);
}

TEST_F(RunLifeTest, a_repeated_finish_charges_once) {
    const Owned owned = admit(asking("ada"));
    const FinishRun command{owned.run, owned.fence, RunState::succeeded, "", costing(Money::dollars(1))};
    const CommandKey key = fresh_key();
    const auto first = std::get<RunReply>(apply_with(key, command).reply);

    const Applied again = apply_with(key, command);

    EXPECT_TRUE(again.repeated);
    EXPECT_EQ(std::get<RunReply>(again.reply).seq, first.seq);
    EXPECT_EQ(settled(owned.run), Money::dollars(1));
    EXPECT_EQ(finish(owned, RunState::succeeded, costing(Money::dollars(1))).status, RunStatus::run_ended);
    EXPECT_EQ(settled(owned.run), Money::dollars(1));
}

TEST_F(RunLifeTest, a_queued_run_that_ends_costs_nothing) {
    put(budget_of("all", Money::dollars(5)));
    admit(asking("ada", {workspace("/repo")}));
    AdmitRun command = asking("ada", {workspace("/repo")});
    command.hold = usd(Money::dollars(5));
    const RunId waiting = enqueue(command);

    EXPECT_EQ(ask_to_stop(waiting).state, RunState::cancelled);

    EXPECT_EQ(settled(waiting), Money());
    EXPECT_EQ(get<Run>(waiting).reason, "please");
    EXPECT_TRUE(rows().of<CostEvent>().empty());
}

TEST_F(RunLifeTest, finish_charge_verdict_release_and_the_next_start_are_one_step) {
    PutBudget budget = budget_of("all", Money::dollars(10));
    budget.warn = {50};
    put(budget);
    AdmitRun command = asking("ada", {workspace("/repo")});
    command.hold = usd(Money::dollars(10));
    const Owned owned = admit(command);
    command.run = fresh_run();
    command.hold = {};
    command.on_conflict = OnConflict::queue;
    // Nothing is left while the first run holds all of it, so the second must come to the line before.
    put(budget_of("all", Money::dollars(11)));
    EXPECT_EQ(apply(command).status, AdmitStatus::queued);
    batching = true;

    finish(owned, RunState::succeeded, costing(Money::dollars(6)));

    EXPECT_EQ(state_of(owned.run), RunState::succeeded);
    EXPECT_EQ(settled(owned.run), Money::dollars(6));
    EXPECT_EQ(get<AgentTotals>("ada").settled, Money::dollars(6).nanos());
    EXPECT_EQ(state_of(command.run), RunState::starting);
    commit();
}

// ---- being asked to stop --------------------------------------------------------------------------------------------

TEST_F(RunLifeTest, a_live_run_is_asked_to_stop_and_its_heartbeat_brings_the_reason_home) {
    for (const RunState state : {RunState::starting, RunState::running, RunState::paused}) {
        const Owned owned = in_state(state);

        const auto reply = ask_to_stop(owned.run, "out of time");
        EXPECT_EQ(reply.status, RunStatus::stop_requested);
        EXPECT_EQ(reply.stop_requested, "out of time");
        EXPECT_EQ(state_of(owned.run), state);

        EXPECT_EQ(heartbeat(owned).stop_requested, "out of time");
        EXPECT_EQ(ask_to_stop(owned.run, "again").stop_requested, "out of time");
        EXPECT_EQ(heartbeat(owned).stop_requested, "out of time");
        EXPECT_EQ(cancel(owned).state, RunState::cancelled);
    }
    EXPECT_EQ(told<RunStopRequested>().size(), 3u);
}

TEST_F(RunLifeTest, a_request_to_stop_without_a_reason_still_says_something) {
    const Owned owned = admit(asking("ada"));

    EXPECT_EQ(ask_to_stop(owned.run, "").stop_requested, "cancelled");
}

TEST_F(RunLifeTest, who_does_not_own_a_run_cannot_charge_it_while_cancelling) {
    const Owned owned = admit(asking("ada"));

    EXPECT_EQ(apply(CancelRun{owned.run, {}, "", costing(Money::dollars(1))}).status, RunStatus::invalid_request);

    EXPECT_EQ(heartbeat(owned).stop_requested, "");
}

TEST_F(RunLifeTest, a_budget_that_stops_runs_asks_those_that_it_covers) {
    make_agent("bob");
    PutBudget budget = budget_of("adas", Money::dollars(5));
    budget.scope.agent = "ada";
    budget.on_exhausted = OnExhausted::stop_runs;
    put(budget);
    const Owned adas = admit(asking("ada"));
    const Owned paused = in_state(RunState::paused);
    const Owned bobs = admit(asking("bob"));

    charge_run(adas, Money::dollars(5));

    EXPECT_NE(heartbeat(adas).stop_requested.find("adas"), std::string::npos);
    EXPECT_NE(heartbeat(paused).stop_requested, "");
    EXPECT_EQ(heartbeat(bobs).stop_requested, "");
}

TEST_F(RunLifeTest, a_request_to_stop_survives_a_restart) {
    const Owned owned = admit(asking("ada"));
    ask_to_stop(owned.run);

    reload();

    EXPECT_EQ(heartbeat(owned).stop_requested, "please");
}

// ---- in memory and in the store -------------------------------------------------------------------------------------

TEST_F(RunLifeTest, a_run_that_ended_long_ago_is_still_known) {
    const AdmitRun command = asking("ada");
    const Owned owned = admit(command);
    finish(owned);
    reload();

    EXPECT_EQ(apply(command).status, AdmitStatus::run_exists);
    EXPECT_EQ(heartbeat(owned).status, RunStatus::run_ended);
    EXPECT_EQ(charge_run(owned, Money::nanos(1)).status, ChargeStatus::run_ended);
}

TEST_F(RunLifeTest, a_live_run_goes_on_after_a_restart_with_everything_it_held) {
    put(budget_of("all", Money::dollars(10)));
    AdmitRun command = asking("ada", {workspace("/repo")});
    command.hold = usd(Money::dollars(6));
    command.node = "n1";
    const Owned owned = admit(command);
    cap(CapKind::node, "n1", 1);

    reload();
    apply(Reopened{});

    EXPECT_EQ(apply(asking("ada", {workspace("/repo/x")})).holder->run, owned.run);
    AdmitRun on_node = asking("ada");
    on_node.node = "n1";
    EXPECT_EQ(apply(on_node).waits_for, WaitsFor::node_cap);
    AdmitRun expensive = asking("ada");
    expensive.hold = usd(Money::dollars(5));
    EXPECT_EQ(apply(expensive).status, AdmitStatus::budget_exceeded);
    EXPECT_EQ(charge_run(owned, Money::dollars(6)).status, ChargeStatus::charged);
    EXPECT_EQ(finish(owned).status, RunStatus::done);
    EXPECT_EQ(settled(owned.run), Money::dollars(6));
    admit(on_node);
}

}  // namespace
}  // namespace interlock::core
