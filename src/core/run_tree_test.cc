// Runs that programs of runs have started.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

class RunTreeTest : public RunsTest {
 protected:
    RunTreeTest() {
        make_agent("ada");
        make_agent("bob");
    }

    void make_agent(const std::string& name, std::int32_t runs_max = 100, std::vector<std::string> child_agents = {}) {
        PutAgent command{.name = name, .command = {}, .max_concurrent_runs = runs_max, .tags = {}};
        command.child_agents = std::move(child_agents);
        apply(command);
    }
    AdmitRun below(RunId parent, std::vector<Place> places = {}, OnConflict on_conflict = OnConflict::refuse) {
        AdmitRun command = asking("ada", std::move(places), on_conflict);
        command.parent = parent;
        command.by = {.kind = ActorKind::key, .key = "r" + to_text("", parent.value), .agent = "ada"};
        return command;
    }
    static AdmitRun with_budget(AdmitRun command, Money budget) {
        command.ceiling = budget;
        command.hold = usd(budget);
        return command;
    }
    Owned parent_in(const std::string& path, ClaimMode mode = ClaimMode::write) {
        return admit(asking("ada", {workspace(path, mode)}));
    }
    ChargeReply charge_to(RunId run, Money cost) {
        Charge command;
        command.who.run = run;
        command.cost = cost;
        return apply(command);
    }
    ReserveReply reserve_for(RunId run, Money bound) {
        Reserve command;
        command.hold = HoldId(fresh_id());
        command.who.run = run;
        command.bound = usd(bound);
        return apply(command);
    }
    Money left_of(const std::string& budget) {
        const auto window = get<Window>({budget, span_of(budget)});
        return Money::nanos(window.limit_units - window.settled - window.held);
    }
    Instant span_of(const std::string& budget) {
        for (const auto& [key, window] : rows().of<Window>()) {
            if (window.budget == budget) return window.start_at;
        }
        return {};
    }
};

// ---- what a child may have ----------------------------------------------------------------------------------------

TEST_F(RunTreeTest, a_child_works_inside_of_what_its_parent_claims) {
    const Owned parent = parent_in("/srv/a");

    EXPECT_EQ(apply(below(parent.run, {workspace("/srv/a/sub")})).status, AdmitStatus::admitted);
    EXPECT_EQ(apply(below(parent.run)).status, AdmitStatus::admitted) << "and needs no place";
    EXPECT_EQ(apply(below(parent.run, {resource("deploy")})).status, AdmitStatus::admitted);
    for (const char* path : {"/", "/srv", "/srv/b", "/srv/ab"}) {
        const AdmitReply refused = apply(below(parent.run, {workspace(path, ClaimMode::read)}));
        EXPECT_EQ(refused.status, AdmitStatus::beyond_parent) << path;
        EXPECT_NE(refused.detail.find("'/srv/a'"), std::string::npos) << refused.detail;
    }
    AdmitRun elsewhere = below(parent.run, {workspace("/srv/a")}, OnConflict::isolate);
    elsewhere.isolate_into = workspace("/srv/b");
    EXPECT_EQ(apply(elsewhere).status, AdmitStatus::beyond_parent);
    AdmitRun copy = below(parent.run, {workspace("/srv/a")});
    copy.isolate = true;
    copy.worktrees = workspace("/data/worktrees");
    copy.repository = {"/srv/a", "/srv/secret/.git"};
    EXPECT_EQ(apply(copy).status, AdmitStatus::beyond_parent);
    copy.repository = {"/srv/a", "/srv/a/.git"};
    EXPECT_EQ(apply(copy).status, AdmitStatus::admitted);
}

TEST_F(RunTreeTest, a_parent_that_only_reads_gives_only_reading_away) {
    const Owned parent = parent_in("/srv/a", ClaimMode::read);

    EXPECT_EQ(apply(below(parent.run, {workspace("/srv/a")})).status, AdmitStatus::beyond_parent);
    EXPECT_EQ(apply(below(parent.run, {workspace("/srv/a", ClaimMode::read)})).status, AdmitStatus::admitted);
}

TEST_F(RunTreeTest, roots_that_an_operator_set_bound_a_child_too) {
    PutAgent command{.name = "ada", .command = {}, .max_concurrent_runs = 100, .tags = {}};
    command.process.directory = "/srv/a/src";
    apply(command);
    const Owned parent = parent_in("/srv/a");

    EXPECT_EQ(apply(below(parent.run, {workspace("/srv/a/doc")})).status, AdmitStatus::outside_roots);
    EXPECT_EQ(apply(below(parent.run, {workspace("/srv/a/src/x")})).status, AdmitStatus::admitted);
}

TEST_F(RunTreeTest, a_child_is_of_the_same_agent_or_of_one_that_an_operator_allowed) {
    const Owned parent = parent_in("/srv/a");
    AdmitRun of_bob = below(parent.run);
    of_bob.who.agent = "bob";

    EXPECT_EQ(apply(of_bob).status, AdmitStatus::beyond_parent);
    make_agent("ada", 100, {"bob"});
    EXPECT_EQ(apply(of_bob).status, AdmitStatus::admitted);
    AdmitRun of_ada = below(of_bob.run);
    EXPECT_EQ(apply(of_ada).status, AdmitStatus::beyond_parent) << "the other way takes a permission of its own";
}

TEST_F(RunTreeTest, workflow_session_and_tags_of_the_parent_win) {
    AdmitRun command = asking("ada");
    command.who.workflow = "nightly";
    command.who.tags = {{"team", "web"}};
    const Owned parent = admit(command);
    AdmitRun child = below(parent.run);
    child.who.workflow = "mine";
    child.who.tags = {{"team", "other"}, {"more", "yes"}};

    admit(child);

    const Run run = get<Run>(child.run);
    EXPECT_EQ(run.who.workflow, "nightly");
    EXPECT_EQ(run.who.tags, (Tags{{"more", "yes"}, {"team", "web"}}));
    EXPECT_EQ(run.parent, parent.run);
    EXPECT_EQ(run.root, parent.run);
}

TEST_F(RunTreeTest, only_a_live_run_that_may_go_on_has_children) {
    const Owned parent = parent_in("/srv/a");
    EXPECT_EQ(apply(below(fresh_run())).status, AdmitStatus::parent_not_live);
    ask_to_stop(parent.run);
    EXPECT_EQ(apply(below(parent.run)).status, AdmitStatus::parent_not_live);
    finish(parent);
    EXPECT_EQ(apply(below(parent.run)).status, AdmitStatus::parent_not_live);
    const RunId queued = enqueue([&] {
        admit(asking("ada", {workspace("/srv/b")}));
        return asking("ada", {workspace("/srv/b")});
    }());
    EXPECT_EQ(apply(below(queued)).status, AdmitStatus::parent_not_live);
}

TEST_F(RunTreeTest, depth_and_number_are_bounded) {
    RunId at = admit(asking("ada")).run;
    const RunId root = at;
    for (std::size_t depth = 0; depth < limits::run_depth_max; ++depth) at = admit(below(at)).run;
    EXPECT_EQ(apply(below(at)).status, AdmitStatus::beyond_parent);

    make_agent("ada", 1000);
    for (std::size_t n = limits::run_depth_max; n < limits::unfinished_runs_per_tree_max; ++n) admit(below(root));
    EXPECT_EQ(apply(below(root)).status, AdmitStatus::too_many);
    EXPECT_EQ(apply(asking("ada")).status, AdmitStatus::admitted);
    finish(owner_of(at));
    EXPECT_EQ(apply(below(root)).status, AdmitStatus::admitted);
}

TEST_F(RunTreeTest, a_budget_on_a_run_alone_cannot_be_left_by_a_child) {
    const Owned parent = admit(asking("ada"));
    PutBudget budget = budget_of("its", Money::dollars(1));
    budget.window = WindowKind::total;
    budget.scope.run = parent.run;
    put(budget);

    EXPECT_EQ(apply(below(parent.run)).status, AdmitStatus::beyond_parent);
    apply(DeleteBudget{"its"});
    EXPECT_EQ(apply(below(parent.run)).status, AdmitStatus::admitted);
}

// ---- places -------------------------------------------------------------------------------------------------------

TEST_F(RunTreeTest, a_claim_covers_the_runs_below_it_and_excludes_siblings_and_others) {
    const Owned parent = parent_in("/srv/a");
    const Owned child = admit(below(parent.run, {workspace("/srv/a")}));

    const Owned grandchild = admit(below(child.run, {workspace("/srv/a/x")}));
    const AdmitReply sibling = apply(below(parent.run, {workspace("/srv/a/x/y")}));
    EXPECT_EQ(sibling.status, AdmitStatus::workspace_busy);
    EXPECT_EQ(apply(asking("ada", {workspace("/srv/a/x")})).status, AdmitStatus::workspace_busy);

    const RunId waiting = enqueue(below(parent.run, {workspace("/srv/a/y")}));
    finish(grandchild);
    EXPECT_EQ(state_of(waiting), RunState::queued);
    finish(child);
    EXPECT_EQ(state_of(waiting), RunState::starting);
    EXPECT_EQ(state_of(parent.run), RunState::starting);
}

TEST_F(RunTreeTest, a_run_in_line_for_the_parents_place_does_not_keep_a_child_back) {
    const Owned parent = parent_in("/srv/a");
    const RunId other = enqueue(asking("bob", {workspace("/srv/a")}));

    const Owned child = admit(below(parent.run, {workspace("/srv/a/sub")}));
    const RunId second = enqueue(below(parent.run, {workspace("/srv/a/sub")}));
    EXPECT_EQ(apply(below(parent.run, {workspace("/srv/a/sub")})).status, AdmitStatus::workspace_busy);
    finish(child);
    EXPECT_EQ(state_of(second), RunState::starting);
    EXPECT_EQ(state_of(other), RunState::queued);

    finish(owner_of(second));
    finish(parent);
    EXPECT_EQ(state_of(other), RunState::starting);
}

TEST_F(RunTreeTest, siblings_keep_their_turns_at_a_place) {
    const Owned parent = parent_in("/srv/a");
    const Owned first = admit(below(parent.run, {workspace("/srv/a/x")}));
    const RunId second = enqueue(below(parent.run, {workspace("/srv/a")}));

    EXPECT_EQ(apply(below(parent.run, {workspace("/srv/a/y")})).status, AdmitStatus::workspace_busy);
    finish(first);
    EXPECT_EQ(state_of(second), RunState::starting);
}

TEST_F(RunTreeTest, what_another_mount_shows_of_a_strangers_place_stays_the_strangers) {
    Place theirs = workspace("/srv/b");
    theirs.chain = {"b"};
    admit(asking("bob", {theirs}));
    const Owned parent = parent_in("/srv/a");
    Place bound = workspace("/srv/a/mnt");
    bound.chain = {"b"};

    EXPECT_EQ(apply(below(parent.run, {bound})).status, AdmitStatus::workspace_busy);
}

TEST_F(RunTreeTest, a_child_replaces_only_what_its_own_parent_has_started) {
    const Owned parent = parent_in("/srv/a");
    const Owned child = admit(below(parent.run, {resource("r")}));
    const Owned other = admit(asking("ada", {resource("s")}));

    EXPECT_EQ(apply(below(parent.run, {resource("s")}, OnConflict::replace)).status, AdmitStatus::not_your_run);
    EXPECT_TRUE(get<Run>(other.run).stop_requested.empty());
    EXPECT_EQ(apply(below(parent.run, {resource("r")}, OnConflict::replace)).status, AdmitStatus::queued);
    EXPECT_FALSE(get<Run>(child.run).stop_requested.empty());
}

// ---- money --------------------------------------------------------------------------------------------------------

TEST_F(RunTreeTest, a_parents_ceiling_bounds_all_runs_below_it) {
    AdmitRun command = asking("ada");
    command.ceiling = Money::dollars(10);
    const Owned parent = admit(command);
    const Owned child = admit(below(parent.run));
    const Owned grandchild = admit(below(child.run));
    charge_to(parent.run, Money::dollars(2));
    charge_to(child.run, Money::dollars(3));
    EXPECT_EQ(reserve_for(grandchild.run, Money::dollars(4)).status, ReserveStatus::held);

    EXPECT_EQ(charge_to(child.run, Money::dollars(2)).status, ChargeStatus::budget_exceeded);
    const ReserveReply no = reserve_for(parent.run, Money::dollars(2));
    EXPECT_EQ(no.status, ReserveStatus::budget_exceeded);
    EXPECT_EQ(no.budget->settled, Money::dollars(5).nanos());
    EXPECT_EQ(no.budget->held, Money::dollars(4).nanos());
    EXPECT_EQ(no.budget->budget, to_text("run", parent.run.value));
    EXPECT_EQ(charge_to(grandchild.run, Money::dollars(1)).status, ChargeStatus::charged);
    EXPECT_EQ(charge_to(grandchild.run, Money::nanos(1)).status, ChargeStatus::budget_exceeded);

    EXPECT_EQ(get<Run>(parent.run).settled_below, Money::dollars(4).nanos());
    EXPECT_EQ(get<Run>(child.run).settled_below, Money::dollars(1).nanos());
}

TEST_F(RunTreeTest, what_an_ended_child_has_spent_counts_on) {
    AdmitRun command = asking("ada");
    command.ceiling = Money::dollars(10);
    const Owned parent = admit(command);
    const Owned child = admit(below(parent.run));
    finish(child, RunState::succeeded, costing(Money::dollars(9)));

    EXPECT_EQ(apply(with_budget(below(parent.run), Money::dollars(2))).status, AdmitStatus::budget_exceeded);
    EXPECT_EQ(charge_to(parent.run, Money::dollars(2)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(charge_to(parent.run, Money::dollars(1)).status, ChargeStatus::charged);
    EXPECT_EQ(apply(below(parent.run)).status, AdmitStatus::budget_exceeded) << "there is nothing left to spend";
}

TEST_F(RunTreeTest, a_childs_budget_is_set_aside_from_its_parents) {
    put(budget_of("all", Money::dollars(10)));
    const Owned parent = admit(with_budget(asking("ada"), Money::dollars(10)));
    EXPECT_EQ(left_of("all"), Money::dollars(0));

    const Owned child = admit(with_budget(below(parent.run), Money::dollars(6)));
    EXPECT_EQ(left_of("all"), Money::dollars(0)) << "it is held once";
    const AdmitReply second = apply(with_budget(below(parent.run), Money::dollars(5)));
    EXPECT_EQ(second.status, AdmitStatus::budget_exceeded);
    EXPECT_EQ(second.budget->free, Money::dollars(4).nanos());
    EXPECT_EQ(charge_to(parent.run, Money::dollars(5)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(charge_to(parent.run, Money::dollars(4)).status, ChargeStatus::charged);
    EXPECT_EQ(charge_to(child.run, Money::dollars(2)).status, ChargeStatus::charged);
    const ReserveReply held = reserve_for(child.run, Money::dollars(3));
    EXPECT_EQ(held.status, ReserveStatus::held);
    EXPECT_EQ(charge_to(child.run, Money::dollars(2)).status, ChargeStatus::budget_exceeded);

    apply(ReleaseHold{held.hold});
    finish(child);
    EXPECT_EQ(left_of("all"), Money::dollars(0)) << "what it did not use is its parent's again";
    EXPECT_EQ(charge_to(parent.run, Money::dollars(4)).status, ChargeStatus::charged);
    EXPECT_EQ(charge_to(parent.run, Money::nanos(1)).status, ChargeStatus::budget_exceeded);
    finish(parent);
    EXPECT_EQ(left_of("all"), Money::dollars(0));
}

TEST_F(RunTreeTest, a_child_without_a_budget_draws_on_what_its_parent_holds) {
    put(budget_of("all", Money::dollars(10)));
    const Owned parent = admit(with_budget(asking("ada"), Money::dollars(10)));
    const Owned child = admit(below(parent.run));

    const ReserveReply held = reserve_for(child.run, Money::dollars(7));
    EXPECT_EQ(held.status, ReserveStatus::held) << held.detail;
    EXPECT_EQ(reserve_for(child.run, Money::dollars(4)).status, ReserveStatus::budget_exceeded);
    SettleHold settle;
    settle.hold = held.hold;
    settle.cost = Money::dollars(1);
    apply(settle);
    EXPECT_EQ(left_of("all"), Money::dollars(0));
    EXPECT_EQ(charge_to(parent.run, Money::dollars(9)).status, ChargeStatus::charged);
}

TEST_F(RunTreeTest, a_child_that_outlives_its_parent_returns_nothing_to_it) {
    put(budget_of("all", Money::dollars(10)));
    const Owned parent = admit(with_budget(asking("ada"), Money::dollars(10)));
    const Owned child = admit(with_budget(below(parent.run), Money::dollars(6)));
    finish(parent);
    EXPECT_EQ(left_of("all"), Money::dollars(4));

    finish(child, RunState::failed, costing(Money::dollars(1)));
    EXPECT_EQ(left_of("all"), Money::dollars(9));
    EXPECT_EQ(get<Run>(parent.run).settled_below, Money::dollars(1).nanos());
}

TEST_F(RunTreeTest, a_lost_child_is_charged_its_bound_below_its_parent) {
    put(budget_of("all", Money::dollars(10)));
    const Owned parent = admit(with_budget(asking("ada"), Money::dollars(10)));
    const Owned child = admit(with_budget(below(parent.run), Money::dollars(6)));
    charge_to(child.run, Money::dollars(1));

    lose(child);

    EXPECT_EQ(get<Run>(parent.run).settled_below, Money::dollars(6).nanos());
    EXPECT_EQ(charge_to(parent.run, Money::dollars(5)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(charge_to(parent.run, Money::dollars(4)).status, ChargeStatus::charged);
}

// ---- ends ---------------------------------------------------------------------------------------------------------

TEST_F(RunTreeTest, the_end_of_a_run_stops_all_runs_below_it) {
    const Owned parent = parent_in("/srv/a");
    const Owned child = admit(below(parent.run, {workspace("/srv/a/x")}));
    const Owned grandchild = admit(below(child.run));
    const RunId waiting = enqueue(below(parent.run, {workspace("/srv/a/x")}));

    finish(parent);

    EXPECT_EQ(state_of(waiting), RunState::cancelled);
    for (const RunId run : {child.run, grandchild.run}) {
        EXPECT_EQ(get<Run>(run).stop_requested, "its parent " + to_text("run", parent.run.value) + " has ended");
    }
    EXPECT_EQ(apply(asking("bob", {workspace("/srv/a")})).status, AdmitStatus::workspace_busy) << "until they are gone";
    const RunId next = enqueue(asking("bob", {workspace("/srv/a")}));
    finish(child);
    finish(grandchild);
    EXPECT_EQ(state_of(next), RunState::starting);
}

TEST_F(RunTreeTest, a_lease_that_runs_out_takes_the_runs_below_with_it) {
    const Owned parent = parent_in("/srv/a");
    const Owned child = admit(below(parent.run, {workspace("/srv/a")}));
    const Owned grandchild = admit(below(child.run));
    now += seconds(50);
    heartbeat(child);
    heartbeat(grandchild);
    now += seconds(15);

    apply(Tick{});

    EXPECT_EQ(state_of(parent.run), RunState::lost);
    EXPECT_EQ(state_of(child.run), RunState::lost);
    EXPECT_EQ(state_of(grandchild.run), RunState::lost);
    EXPECT_EQ(get<Run>(child.run).reason, "its parent " + to_text("run", parent.run.value) + " was lost");
    EXPECT_EQ(heartbeat(child).status, RunStatus::stale_fence);
}

TEST_F(RunTreeTest, a_clients_run_below_an_ended_one_keeps_its_lease_no_longer) {
    const Owned parent = admit(asking("ada"));
    const Owned child = admit(below(parent.run));
    const Instant lease_until = get<Run>(child.run).lease_until;
    finish(parent);
    now += seconds(30);

    EXPECT_FALSE(heartbeat(child).stop_requested.empty());

    EXPECT_EQ(get<Run>(child.run).lease_until, lease_until);
}

// ---- caps ---------------------------------------------------------------------------------------------------------

TEST_F(RunTreeTest, a_child_does_not_wait_for_a_cap_that_its_own_parents_fill) {
    make_agent("ada", 1);
    const Owned parent = admit(asking("ada"));

    const AdmitReply refused = apply(below(parent.run, {}, OnConflict::queue));
    EXPECT_EQ(refused.status, AdmitStatus::concurrency_limit);
    EXPECT_NE(refused.detail.find("agent 'ada' has 1 of 1 runs"), std::string::npos) << refused.detail;

    make_agent("ada", 2);
    const Owned other = admit(asking("ada"));
    const RunId waiting = enqueue(below(parent.run));
    EXPECT_EQ(apply(below(other.run, {}, OnConflict::queue)).status, AdmitStatus::concurrency_limit)
        << "each would wait for the other's parent";
    finish(other);
    EXPECT_EQ(state_of(waiting), RunState::starting);
}

TEST_F(RunTreeTest, children_do_not_wait_for_each_others_parents) {
    const Owned a = admit(asking("ada", {resource("a")}));
    const Owned b = admit(asking("ada", {resource("b")}));
    enqueue(below(a.run, {resource("b")}));

    const AdmitReply refused = apply(below(b.run, {resource("a")}, OnConflict::queue));

    EXPECT_EQ(refused.status, AdmitStatus::workspace_busy);
    EXPECT_EQ(refused.holder->run, a.run);
}

// ---- tries --------------------------------------------------------------------------------------------------------

TEST_F(RunTreeTest, another_try_of_a_child_is_a_child) {
    const Owned parent = parent_in("/srv/a");
    AdmitRun command = below(parent.run, {workspace("/srv/a")});
    command.node = "n";
    command.process = ProcessSpec{};
    command.process->command = {"true"};
    command.retry = {.tries = 2, .backoff_s = 1, .backoff_max_s = 1};
    const Owned child = admit(command);
    start(child);

    finish(child, RunState::failed);

    RunId again;
    for (const auto& [id, run] : rows().of<Run>()) {
        if (run.retry_of == child.run) again = id;
    }
    EXPECT_EQ(get<Run>(again).parent, parent.run);
    finish(parent);
    EXPECT_EQ(state_of(again), RunState::cancelled);
}

}  // namespace
}  // namespace interlock::core
