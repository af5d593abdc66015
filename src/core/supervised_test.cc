// What the rules know of processes: launches, tries, ceilings, isolation, pauses by people, worktrees and their ports.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/core_runs_support.h"
#include "core/limits.h"
#include "core/runs.h"

namespace interlock::core {
namespace {

class SupervisedTest : public RunsTest {
 protected:
    SupervisedTest() { make_agent("ada"); }

    AdmitRun launching(std::int32_t tries = 1) {
        AdmitRun command = asking("ada");
        command.node = "here";
        command.process = ProcessSpec{};
        command.process->command = {"true"};
        command.retry = {.tries = tries, .backoff_s = 10, .backoff_max_s = 15};
        return command;
    }
    // The unfinished try that came after this run, if there is one.
    std::optional<Run> next_try_of(RunId run) {
        const OrgRows all = rows();
        for (const auto& [id, row] : all.of<Run>()) {
            if (row.retry_of == run) return row;
        }
        return std::nullopt;
    }
    static constexpr Money cents(std::int64_t count) { return Money::nanos(count * 10'000'000); }
    static Place root() { return workspace("/data/worktrees"); }
};

// ---- launches -----------------------------------------------------------------------------------------------------

TEST_F(SupervisedTest, what_a_run_starts_is_written_with_its_admission) {
    const Owned owned = admit(launching());

    EXPECT_TRUE(get<Run>(owned.run).supervised);
    EXPECT_EQ(get<Launch>(owned.run).process.command, std::vector<std::string>{"true"});
}

TEST_F(SupervisedTest, a_refused_run_starts_nothing) {
    AdmitRun command = launching();
    command.process->command.clear();
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);
    command = launching();
    command.node.clear();
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);
    command = launching();
    command.process->env["INTERLOCK_KEY"] = "mine";
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);
    command = launching();
    command.process->limits["threads"] = 1;
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);
    for (const char* bound : {"memory", "pids", "cpu_percent"}) {
        command = launching();
        command.process->limits[bound] = 0;
        EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request) << bound;
    }
    command = launching();
    command.process->allowed_hosts = {"10.0.0.1"};
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);
    command = launching();
    command.process->timeout_s = -1;
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);

    EXPECT_TRUE(rows().of<Launch>().empty());
}

TEST_F(SupervisedTest, the_exit_code_is_kept) {
    const Owned owned = admit(launching());
    FinishRun finish{owned.run, owned.fence, RunState::failed, "exit code 3", {}};
    finish.exit_code = 3;
    EXPECT_EQ(apply(finish).status, RunStatus::done);

    EXPECT_EQ(get<Run>(owned.run).exit_code, 3);
}

// The process has the fence and a key, and is still there when it says so.
TEST_F(SupervisedTest, a_client_does_not_end_what_a_supervisor_watches) {
    const Owned owned = admit(launching());
    FinishRun finish{owned.run, owned.fence, RunState::succeeded, "done", {}};
    finish.by_client = true;
    EXPECT_EQ(apply(finish).status, RunStatus::wrong_state);
    CancelRun cancel{owned.run, owned.fence, "enough", costing(cents(1))};
    cancel.by_client = true;
    EXPECT_EQ(apply(cancel).status, RunStatus::wrong_state);
    EXPECT_EQ(get<Run>(owned.run).stop_requested, "");

    cancel.charge.reset();
    EXPECT_EQ(apply(cancel).status, RunStatus::stop_requested);
    EXPECT_EQ(state_of(owned.run), RunState::starting);
    EXPECT_EQ(get<Run>(owned.run).stop_requested, "enough");
    cancel.fence = Fence(owned.fence.value + 1);
    EXPECT_EQ(apply(cancel).status, RunStatus::stale_fence);

    const Owned own = admit(asking("ada"));
    finish.run = own.run;
    finish.fence = own.fence;
    EXPECT_EQ(apply(finish).status, RunStatus::done) << "its own run a client ends itself";
}

// ---- tries --------------------------------------------------------------------------------------------------------

TEST_F(SupervisedTest, a_failed_run_is_tried_again_after_a_while_and_no_more_often_than_allowed) {
    Owned owned = admit(launching(3));
    for (std::int32_t attempt = 2; attempt <= 3; ++attempt) {
        const Instant ended = now;
        finish(owned, RunState::failed);
        const auto next = next_try_of(owned.run);
        ASSERT_TRUE(next.has_value());
        EXPECT_EQ(next->state, RunState::queued);
        EXPECT_EQ(next->attempt, attempt);
        const seconds longest = attempt == 2 ? seconds(10) : seconds(15);
        EXPECT_GE(next->not_before - ended, longest / 2);
        EXPECT_LE(next->not_before - ended, longest);
        EXPECT_EQ(get<Launch>(next->id).process.command, std::vector<std::string>{"true"});

        now = next->not_before - moment;
        apply(Tick{});
        EXPECT_EQ(state_of(next->id), RunState::queued);
        now = next->not_before;
        apply(Tick{});
        EXPECT_EQ(state_of(next->id), RunState::starting);
        owned = owner_of(next->id);
    }

    finish(owned, RunState::failed);
    EXPECT_FALSE(next_try_of(owned.run).has_value());
}

TEST_F(SupervisedTest, a_try_waits_for_its_time_after_a_restart_too) {
    const Owned owned = admit(launching(2));
    lose(owned);
    const auto next = next_try_of(owned.run);
    ASSERT_TRUE(next.has_value());
    reload();

    now = next->not_before;
    apply(Tick{});

    EXPECT_EQ(state_of(next->id), RunState::starting);
}

TEST_F(SupervisedTest, only_what_went_wrong_is_tried_again) {
    const Owned succeeded = admit(launching(5));
    finish(succeeded);
    EXPECT_FALSE(next_try_of(succeeded.run).has_value());

    make_agent("ada", 10);
    const Owned cancelled = admit(launching(5));
    cancel(cancelled);
    EXPECT_FALSE(next_try_of(cancelled.run).has_value());

    const Owned stopped = admit(launching(5));
    ask_to_stop(stopped.run);
    finish(stopped, RunState::failed);
    EXPECT_FALSE(next_try_of(stopped.run).has_value()) << "somebody wanted it to end";

    const Owned timed_out = admit(launching(5));
    finish(timed_out, RunState::timed_out);
    EXPECT_TRUE(next_try_of(timed_out.run).has_value());
}

TEST_F(SupervisedTest, a_try_that_waits_for_its_time_keeps_nobody_from_its_place) {
    AdmitRun command = launching(2);
    command.places = {workspace("/src")};
    const Owned first = admit(command);
    finish(first, RunState::failed);

    const Owned other = admit(asking("ada", {workspace("/src")}));

    const auto next = next_try_of(first.run);
    now = next->not_before;
    apply(Tick{});
    EXPECT_EQ(state_of(next->id), RunState::queued) << "the place is taken now";
    finish(other);
    EXPECT_EQ(state_of(next->id), RunState::starting);
}

// ---- ceilings -----------------------------------------------------------------------------------------------------

TEST_F(SupervisedTest, a_run_spends_no_more_than_its_ceiling) {
    AdmitRun command = launching();
    command.ceiling = Money::dollars(1);
    const Owned owned = admit(command);
    const auto charge = [&](Money cost, bool incurred = false) {
        Charge body;
        body.who.run = owned.run;
        body.fence = owned.fence;
        body.cost = cost;
        body.incurred = incurred;
        return apply(body);
    };
    const auto reserve = [&](Money bound) {
        Reserve body;
        body.hold = fresh_hold();
        body.who.run = owned.run;
        body.fence = owned.fence;
        body.bound = usd(bound);
        return apply(body).status;
    };

    EXPECT_EQ(charge(cents(60)).status, ChargeStatus::charged);
    EXPECT_EQ(reserve(cents(30)), ReserveStatus::held);
    EXPECT_EQ(reserve(cents(11)), ReserveStatus::budget_exceeded);
    const auto refused = charge(cents(11));
    EXPECT_EQ(refused.status, ChargeStatus::budget_exceeded);
    ASSERT_TRUE(refused.budget.has_value());
    EXPECT_EQ(refused.budget->free, cents(10).nanos());
    EXPECT_EQ(refused.budget->held, cents(30).nanos());
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(charge(cents(5), true).status, ChargeStatus::charged) << "what is spent is recorded";
}

TEST_F(SupervisedTest, what_costs_nothing_passes_a_ceiling_that_is_passed_already) {
    AdmitRun command = asking("ada");
    command.ceiling = Money::dollars(1);
    const Owned run = admit(command);
    Charge charge;
    charge.who.agent = "ada";
    charge.who.run = run.run;
    charge.cost = Money::dollars(3);
    charge.incurred = true;
    EXPECT_EQ(apply(charge).status, ChargeStatus::charged);
    charge.incurred = false;
    charge.cost = Money::nanos(1);
    EXPECT_EQ(apply(charge).status, ChargeStatus::budget_exceeded);

    charge.cost = Money();

    EXPECT_EQ(apply(charge).status, ChargeStatus::charged);
}

TEST_F(SupervisedTest, what_was_set_aside_for_the_run_does_not_count_against_its_ceiling) {
    AdmitRun command = launching();
    command.ceiling = Money::dollars(1);
    command.hold = usd(Money::dollars(1));
    const Owned owned = admit(command);
    Charge body;
    body.who.run = owned.run;
    body.fence = owned.fence;
    body.cost = Money::dollars(1);

    EXPECT_EQ(apply(body).status, ChargeStatus::charged);
}

// ---- budgets ------------------------------------------------------------------------------------------------------

TEST_F(SupervisedTest, a_limit_that_is_put_below_what_is_spent_stops_the_runs_it_covers) {
    make_agent("bob");
    PutBudget budget = budget_of("adas", Money::dollars(10));
    budget.scope.agent = "ada";
    budget.on_exhausted = OnExhausted::stop_runs;
    put(budget);
    const Owned covered = admit(launching());
    const Owned other = admit(asking("bob"));
    spend("ada", Money::dollars(1));

    budget.limit_units = Money::dollars(2).nanos();
    put(budget);
    EXPECT_EQ(get<Run>(covered.run).stop_requested, "") << "there is some left";
    budget.limit_units = Money::dollars(1).nanos();
    put(budget);

    EXPECT_EQ(get<Run>(covered.run).stop_requested, "budget 'adas' is exhausted");
    EXPECT_EQ(get<Run>(other.run).stop_requested, "");
}

// ---- isolation ----------------------------------------------------------------------------------------------------

TEST_F(SupervisedTest, a_run_that_is_always_isolated_works_beside_others) {
    make_agent("ada", 10);
    std::set<std::string> paths;
    for (int i = 0; i < 3; ++i) {
        AdmitRun command = launching();
        command.places = {workspace("/src"), resource("deploy" + std::to_string(i))};
        command.isolate = true;
        command.worktrees = root();
        const Owned owned = admit(command);
        const Run run = get<Run>(owned.run);
        EXPECT_TRUE(run.isolated);
        ASSERT_EQ(run.wanted.size(), 2u);
        EXPECT_EQ(run.wanted[0].path, "/data/worktrees/" + to_text("run", owned.run.value));
        paths.insert(run.wanted[0].path);
    }
    EXPECT_EQ(paths.size(), 3u);
    EXPECT_EQ(apply(asking("ada", {workspace(*paths.begin())})).status, AdmitStatus::workspace_busy)
        << "a worktree is a place like any other";
    EXPECT_EQ(apply(asking("ada", {workspace("/data")})).status, AdmitStatus::workspace_busy);
}

TEST_F(SupervisedTest, where_the_place_is_taken_a_worktree_is_made_and_nowhere_else) {
    make_agent("ada", 10);
    AdmitRun command = launching();
    command.places = {workspace("/src")};
    command.on_conflict = OnConflict::isolate;
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request) << "nobody said where";
    command.worktrees = root();

    EXPECT_FALSE(get<Run>(admit(command).run).isolated);
    command.run = fresh_run();
    EXPECT_TRUE(get<Run>(admit(command).run).isolated);
}

// ---- pauses by people ---------------------------------------------------------------------------------------------

TEST_F(SupervisedTest, a_person_pauses_a_supervised_run_without_its_fence) {
    const Owned owned = admit(launching());
    EXPECT_EQ(apply(PauseRun{owned.run, {}}).status, RunStatus::wrong_state) << "it has not started";
    start(owned);

    EXPECT_EQ(apply(PauseRun{owned.run, {}}).status, RunStatus::done);
    EXPECT_EQ(state_of(owned.run), RunState::paused);
    EXPECT_EQ(apply(ResumeRun{owned.run, {}}).status, RunStatus::done);
    EXPECT_EQ(state_of(owned.run), RunState::running);
    EXPECT_EQ(apply(PauseRun{owned.run, Fence(owned.fence.value + 1)}).status, RunStatus::stale_fence);

    finish(owned);
    EXPECT_EQ(apply(PauseRun{owned.run, {}}).status, RunStatus::run_ended);
}

TEST_F(SupervisedTest, whoever_owns_a_run_is_the_only_one_to_pause_it) {
    const Owned owned = admit(asking("ada"));
    start(owned);

    EXPECT_EQ(apply(PauseRun{owned.run, {}}).status, RunStatus::stale_fence);
}

// ---- schedules ----------------------------------------------------------------------------------------------------

TEST_F(SupervisedTest, a_schedule_starts_what_its_agent_is) {
    PutAgent agent;
    agent.name = "ada";
    agent.command = {"claude", "-p", "look"};
    agent.process.timeout_s = 60;
    agent.retry.tries = 2;
    agent.provider = "anthropic";
    apply(agent);
    PutSchedule schedule;
    schedule.name = "hourly";
    schedule.agent = "ada";
    schedule.every_s = 3600;
    schedule.places = {workspace("/src")};
    schedule.node = "here";
    schedule.worktrees = {root()};
    apply(schedule);

    const auto woken = apply(Wake{"hourly", fresh_run()});

    ASSERT_EQ(woken.status, WakeStatus::woken) << woken.detail;
    const Run run = get<Run>(woken.run);
    EXPECT_TRUE(run.supervised);
    EXPECT_TRUE(run.isolated);
    EXPECT_EQ(run.node, "here");
    EXPECT_EQ(run.who.provider, "anthropic");
    const Launch launch = get<Launch>(woken.run);
    EXPECT_EQ(launch.process.command, agent.command);
    EXPECT_EQ(launch.process.timeout_s, 60);
    EXPECT_EQ(launch.retry.tries, 2);
}

// ---- worktrees ----------------------------------------------------------------------------------------------------

class WorktreesTest : public SupervisedTest {
 protected:
    WorktreesTest() { make_agent("ada", 10'000); }

    WorktreeReply make(RunId run, const std::string& node = "here") {
        PutWorktree command;
        command.run = run;
        command.node = node;
        command.repository = "/src";
        command.path = "/data/worktrees/" + to_text("run", run.value);
        return apply(command);
    }
};

TEST_F(WorktreesTest, each_has_ports_of_its_own_and_gives_them_back) {
    const RunId one = admit(launching()).run;
    const RunId two = admit(launching()).run;
    const RunId three = admit(launching()).run;
    EXPECT_EQ(make(one).port_base, limits::ports_first);
    EXPECT_EQ(make(two).port_base, limits::ports_first + limits::ports_per_worktree);
    EXPECT_EQ(make(two).status, WorktreeStatus::unchanged);
    EXPECT_EQ(make(three, "elsewhere").port_base, limits::ports_first) << "another machine has ports of its own";

    EXPECT_EQ(apply(DropWorktree{one, {}}).status, WorktreeStatus::done);
    EXPECT_TRUE(rows().of<Worktree>().count(one) == 0);
    EXPECT_EQ(make(admit(launching()).run).port_base, limits::ports_first);
    reload();
    EXPECT_EQ(make(admit(launching()).run).port_base, limits::ports_first + 2 * limits::ports_per_worktree);
}

TEST_F(WorktreesTest, what_was_saved_is_remembered_and_can_come_back) {
    const RunId run = admit(launching()).run;
    make(run);
    apply(DropWorktree{run, "refs/interlock/kept/x"});
    EXPECT_EQ(get<Worktree>(run).state, WorktreeState::saved);
    EXPECT_EQ(apply(DropWorktree{run, {}}).status, WorktreeStatus::worktree_not_found);

    EXPECT_EQ(make(run).status, WorktreeStatus::done);
    EXPECT_EQ(get<Worktree>(run).state, WorktreeState::open);
}

TEST_F(WorktreesTest, refusals_come_in_order) {
    PutWorktree command;
    command.path = std::string(limits::text_bytes_max + 1, 'x');
    EXPECT_EQ(apply(command).status, WorktreeStatus::invalid_request);
    command.path = "/w";
    EXPECT_EQ(apply(command).status, WorktreeStatus::run_not_found);
    EXPECT_EQ(apply(DropWorktree{fresh_run(), {}}).status, WorktreeStatus::worktree_not_found);
}

TEST_F(WorktreesTest, when_all_ports_are_given_out_there_are_none) {
    std::int32_t last = 0;
    for (int i = 0; i < (limits::ports_end - limits::ports_first) / limits::ports_per_worktree; ++i) {
        AdmitRun command = launching();
        unwatched(command);
        PutWorktree worktree;
        worktree.run = command.run;
        worktree.path = "/w/" + std::to_string(i);
        last = unwatched(worktree).port_base;
    }
    EXPECT_EQ(last, limits::ports_end - limits::ports_per_worktree);
    AdmitRun command = launching();
    unwatched(command);
    PutWorktree worktree;
    worktree.run = command.run;
    worktree.path = "/w/last";
    EXPECT_EQ(unwatched(worktree).port_base, 0);
}

}  // namespace
}  // namespace interlock::core
