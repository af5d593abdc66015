// Who may start: places, the line, caps and budgets, decided in one step.
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

class AdmissionTest : public RunsTest {
 protected:
    AdmissionTest() { make_agent("ada"); }
};

// ---- one place, one run ---------------------------------------------------------------------------------------------

TEST_F(AdmissionTest, of_two_starts_on_one_directory_one_wins_whether_the_first_is_starting_running_or_paused) {
    const Owned first = admit(asking("ada", {workspace("/repo")}));
    const auto second_is_refused_while = [&](RunState state) {
        const auto reply = apply(asking("ada", {workspace("/repo")}));
        EXPECT_EQ(reply.status, AdmitStatus::workspace_busy);
        EXPECT_EQ(reply.waits_for, WaitsFor::workspace);
        ASSERT_TRUE(reply.holder.has_value());
        EXPECT_EQ(reply.holder->run, first.run);
        EXPECT_EQ(reply.holder->agent, "ada");
        EXPECT_EQ(reply.holder->state, state);
        EXPECT_EQ(reply.holder->place, workspace("/repo"));
        EXPECT_EQ(reply.holder->since, get<Run>(first.run).admitted_at);
    };

    second_is_refused_while(RunState::starting);
    start(first);
    second_is_refused_while(RunState::running);
    pause(first);
    second_is_refused_while(RunState::paused);

    finish(first);
    admit(asking("ada", {workspace("/repo")}));
}

TEST_F(AdmissionTest, an_admitted_run_has_its_claims_its_fence_and_its_lease) {
    AdmitRun command = asking("ada", {workspace("/repo"), resource("deploy", ClaimMode::read)});
    command.lease_s = 30;
    const auto reply = apply(command);

    EXPECT_EQ(reply.status, AdmitStatus::admitted);
    EXPECT_EQ(reply.lease_until, now + seconds(30));
    EXPECT_EQ(reply.waits_for, WaitsFor::nothing);
    EXPECT_EQ(reply.place_in_line, 0);
    EXPECT_FALSE(reply.isolated);
    EXPECT_EQ(get<Claim>({command.run, 0}).place, workspace("/repo"));
    EXPECT_EQ(get<Claim>({command.run, 0}).fence, reply.fence);
    EXPECT_EQ(get<Claim>({command.run, 1}).place, resource("deploy", ClaimMode::read));
    EXPECT_EQ(claims_of(command.run), 2u);
    EXPECT_EQ(state_of(command.run), RunState::starting);
    EXPECT_EQ(get<Run>(command.run).who.run, command.run);
}

TEST_F(AdmissionTest, every_admission_has_a_greater_fence_than_all_before_it) {
    const Owned first = admit(asking("ada"));
    const Owned second = admit(asking("ada"));
    finish(first);
    lose(second);
    const Owned third = admit(asking("ada"));

    EXPECT_GT(first.fence, Fence());
    EXPECT_GT(second.fence, first.fence);
    EXPECT_GT(third.fence, second.fence);
    EXPECT_GT(third.fence, get<Run>(second.run).fence);
}

TEST_F(AdmissionTest, nested_and_aliased_directories_are_one_place) {
    Place repo = workspace("/repos/ada");
    repo.chain = {"8:7", "8:3", "8:2"};
    Place bind_mount = workspace("/mnt/work");
    bind_mount.chain = {"8:7", "8:4", "8:2"};
    Place inside_bind_mount = workspace("/mnt/work/src");
    inside_bind_mount.chain = {"8:9", "8:7", "8:4", "8:2"};
    Place made_again = repo;
    made_again.chain = {"8:77", "8:3", "8:2"};
    Place other_host = repo;
    other_host.host = "other";
    Place sibling = workspace("/repos/ada2");
    sibling.chain = {"8:8", "8:3", "8:2"};
    admit(asking("ada", {repo}));

    for (const Place& place : {repo, workspace("/repos/ada/src"), workspace("/repos"), workspace("/"), bind_mount,
                               inside_bind_mount, made_again, workspace("/repos/ada", ClaimMode::read)}) {
        EXPECT_EQ(apply(asking("ada", {place})).status, AdmitStatus::workspace_busy) << place.path;
    }
    admit(asking("ada", {other_host}));
    admit(asking("ada", {sibling}));
}

TEST_F(AdmissionTest, readers_share_a_place_and_keep_writers_out) {
    const Owned first = admit(asking("ada", {workspace("/repo", ClaimMode::read)}));
    const Owned second = admit(asking("ada", {workspace("/repo/src", ClaimMode::read)}));

    EXPECT_EQ(apply(asking("ada", {workspace("/repo/src")})).holder->run, first.run);
    EXPECT_EQ(apply(asking("ada", {workspace("/repo")})).status, AdmitStatus::workspace_busy);

    finish(first);
    finish(second);
    admit(asking("ada", {workspace("/repo")}));
    EXPECT_EQ(apply(asking("ada", {workspace("/repo", ClaimMode::read)})).status, AdmitStatus::workspace_busy);
}

TEST_F(AdmissionTest, a_named_resource_is_claimed_like_a_place) {
    const Owned first = admit(asking("ada", {workspace("/a"), resource("deploy-prod")}));

    const auto reply = apply(asking("ada", {workspace("/b"), resource("deploy-prod")}));

    EXPECT_EQ(reply.status, AdmitStatus::workspace_busy);
    EXPECT_EQ(reply.holder->place, resource("deploy-prod"));
    finish(first);
    admit(asking("ada", {workspace("/b"), resource("deploy-prod")}));
}

TEST_F(AdmissionTest, a_run_is_never_in_its_own_way) {
    const Owned run = admit(asking("ada", {workspace("/repo"), workspace("/repo/src"), workspace("/")}));
    EXPECT_EQ(claims_of(run.run), 3u);
    finish(run);

    admit(asking("ada", {workspace("/repo")}));
}

TEST_F(AdmissionTest, a_run_without_places_is_in_nobodys_way) {
    admit(asking("ada"));
    admit(asking("ada"));
    admit(asking("ada", {workspace("/repo")}));
}

// ---- policies -------------------------------------------------------------------------------------------------------

TEST_F(AdmissionTest, a_queued_run_holds_nothing) {
    make_agent("bob", 1);
    put(budget_of("all", Money::dollars(10)));
    cap(CapKind::node, "n1", 2);
    const Owned holder = admit(asking("ada", {resource("deploy")}));
    AdmitRun waiting = asking("bob", {resource("deploy"), workspace("/free", ClaimMode::read)}, OnConflict::queue);
    waiting.hold = usd(Money::dollars(10));
    waiting.node = "n1";
    waiting.who.provider = "acme-llm";

    const auto reply = apply(waiting);

    EXPECT_EQ(reply.status, AdmitStatus::queued);
    EXPECT_EQ(reply.waits_for, WaitsFor::workspace);
    EXPECT_EQ(reply.holder->run, holder.run);
    EXPECT_EQ(reply.place_in_line, 1);
    EXPECT_EQ(claims_of(waiting.run), 0u);
    EXPECT_EQ(state_of(waiting.run), RunState::queued);
    EXPECT_EQ(get<Run>(waiting.run).fence, Fence());
    EXPECT_EQ(apply(budget_of("all", Money::dollars(10))).held, 0);
    AdmitRun on_node = asking("ada", {workspace("/free", ClaimMode::read)});
    on_node.node = "n1";
    on_node.hold = usd(Money::dollars(10));
    const Owned one = admit(on_node);
    finish(one);
    admit(asking("bob"));
    cap(CapKind::node, "n1", 1);
    AdmitRun again = asking("ada");
    again.node = "n1";
    admit(again);
}

TEST_F(AdmissionTest, isolate_takes_the_place_it_brought_and_only_when_its_own_is_taken) {
    AdmitRun first = asking("ada", {workspace("/repo"), resource("deploy", ClaimMode::read)}, OnConflict::isolate);
    first.isolate_into = workspace("/trees/1");
    AdmitRun second = asking("ada", {workspace("/repo"), workspace("/doc"), resource("deploy", ClaimMode::read)},
                             OnConflict::isolate);
    second.isolate_into = workspace("/trees/2");

    EXPECT_FALSE(apply(first).isolated);
    const auto reply = apply(second);

    EXPECT_EQ(reply.status, AdmitStatus::admitted);
    EXPECT_TRUE(reply.isolated);
    EXPECT_EQ(claims_of(second.run), 2u);
    EXPECT_EQ(get<Claim>({second.run, 0}).place, workspace("/trees/2"));
    EXPECT_EQ(get<Claim>({second.run, 1}).place, resource("deploy", ClaimMode::read));
    admit(asking("ada", {workspace("/doc")}));
    EXPECT_EQ(apply(asking("ada", {workspace("/trees/2/x")})).status, AdmitStatus::workspace_busy);
}

TEST_F(AdmissionTest, isolate_is_refused_when_the_place_it_brought_is_taken_too) {
    admit(asking("ada", {workspace("/repo")}));
    const Owned in_tree = admit(asking("ada", {workspace("/trees/1")}));
    AdmitRun command = asking("ada", {workspace("/repo")}, OnConflict::isolate);
    command.isolate_into = workspace("/trees/1");

    const auto reply = apply(command);

    EXPECT_EQ(reply.status, AdmitStatus::workspace_busy);
    EXPECT_EQ(reply.holder->run, in_tree.run);
}

TEST_F(AdmissionTest, isolate_does_not_help_against_a_taken_resource_or_a_cap) {
    admit(asking("ada", {resource("deploy")}));
    AdmitRun command = asking("ada", {workspace("/repo"), resource("deploy")}, OnConflict::isolate);
    command.isolate_into = workspace("/trees/1");
    EXPECT_EQ(apply(command).status, AdmitStatus::workspace_busy);

    make_agent("bob", 0);
    command = asking("bob", {workspace("/repo")}, OnConflict::isolate);
    command.isolate_into = workspace("/trees/1");
    EXPECT_EQ(apply(command).status, AdmitStatus::concurrency_limit);
}

TEST_F(AdmissionTest, isolate_needs_a_workspace_to_isolate_into) {
    AdmitRun command = asking("ada", {workspace("/repo")}, OnConflict::isolate);
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);

    command.isolate_into = resource("deploy");
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);

    command.isolate_into = workspace("not/absolute");
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);
}

TEST_F(AdmissionTest, replace_asks_everybody_in_the_way_to_stop_and_takes_over_when_they_have) {
    const Owned in_a = admit(asking("ada", {workspace("/a")}));
    const Owned in_b = admit(asking("ada", {workspace("/b/deep")}));
    const Owned elsewhere = admit(asking("ada", {workspace("/c")}));
    const AdmitRun command = asking("ada", {workspace("/a"), workspace("/b")}, OnConflict::replace);

    const auto reply = apply(command);

    EXPECT_EQ(reply.status, AdmitStatus::queued);
    EXPECT_EQ(reply.holder->run, in_a.run);
    EXPECT_NE(heartbeat(in_a).stop_requested, "");
    EXPECT_NE(heartbeat(in_b).stop_requested, "");
    EXPECT_EQ(heartbeat(elsewhere).stop_requested, "");
    cancel(in_a);
    EXPECT_EQ(state_of(command.run), RunState::queued);
    cancel(in_b);
    EXPECT_EQ(state_of(command.run), RunState::starting);
}

TEST_F(AdmissionTest, who_replaces_goes_before_everybody_of_its_priority_but_not_before_a_higher_one) {
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    const RunId waiting = enqueue(asking("ada", {workspace("/repo")}));
    AdmitRun urgent = asking("ada", {workspace("/repo")});
    urgent.priority = 5;
    enqueue(urgent);
    const AdmitRun replacer = asking("ada", {workspace("/repo")}, OnConflict::replace);

    EXPECT_EQ(apply(replacer).place_in_line, 2);

    finish(holder);
    EXPECT_EQ(state_of(urgent.run), RunState::starting);
    finish(owner_of(urgent.run));
    EXPECT_EQ(state_of(replacer.run), RunState::starting);
    EXPECT_EQ(state_of(waiting), RunState::queued);
}

TEST_F(AdmissionTest, replace_starts_at_once_when_nobody_is_there_and_stops_nobody_for_a_cap) {
    const Owned other = admit(asking("ada", {workspace("/b")}));
    const AdmitRun free = asking("ada", {workspace("/a")}, OnConflict::replace);
    admit(free);

    cap(CapKind::org, "", 2);
    const auto reply = apply(asking("ada", {workspace("/c")}, OnConflict::replace));

    EXPECT_EQ(reply.status, AdmitStatus::queued);
    EXPECT_EQ(reply.waits_for, WaitsFor::org_cap);
    EXPECT_FALSE(reply.holder.has_value());
    EXPECT_EQ(heartbeat(other).stop_requested, "");
}

TEST_F(AdmissionTest, a_refused_replacement_stops_nobody) {
    put(budget_of("all", Money::dollars(1)));
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    AdmitRun command = asking("ada", {workspace("/repo")}, OnConflict::replace);
    command.hold = usd(Money::dollars(2));

    EXPECT_EQ(apply(command).status, AdmitStatus::budget_exceeded);

    EXPECT_EQ(heartbeat(holder).stop_requested, "");
}

TEST_F(AdmissionTest, a_repeated_admission_gets_its_first_answer_although_the_run_has_gone_on) {
    const AdmitRun command = asking("ada", {workspace("/repo")});
    const CommandKey key = fresh_key();
    const auto first = std::get<AdmitReply>(apply_with(key, command).reply);
    finish({command.run, first.fence});

    const Applied again = apply_with(key, command);

    EXPECT_TRUE(again.repeated);
    EXPECT_EQ(std::get<AdmitReply>(again.reply).status, AdmitStatus::admitted);
    EXPECT_EQ(std::get<AdmitReply>(again.reply).fence, first.fence);
    EXPECT_TRUE(apply_with(key, asking("ada", {workspace("/other")})).key_reused);
}

// ---- caps and budgets -----------------------------------------------------------------------------------------------

TEST_F(AdmissionTest, caps_on_agent_provider_node_and_org_each_count_live_runs_only) {
    make_agent("bob", 2);
    cap(CapKind::provider, "acme-llm", 2);
    cap(CapKind::node, "n1", 2);
    cap(CapKind::org, "", 7);
    const auto two_fit = [&](const std::function<AdmitRun()>& ask, WaitsFor why) {
        const Owned first = admit(ask());
        admit(ask());
        const auto reply = apply(ask());
        EXPECT_EQ(reply.status, AdmitStatus::concurrency_limit);
        EXPECT_EQ(reply.waits_for, why);
        EXPECT_NE(reply.detail, "");
        start(first);
        pause(first);
        EXPECT_EQ(apply(ask()).waits_for, why);
        finish(first);
        admit(ask());
        EXPECT_EQ(apply(ask()).waits_for, why);
    };

    two_fit([&] { return asking("bob"); }, WaitsFor::agent_cap);
    two_fit(
        [&] {
            AdmitRun command = asking("ada");
            command.who.provider = "acme-llm";
            return command;
        },
        WaitsFor::provider_cap);
    two_fit(
        [&] {
            AdmitRun command = asking("ada");
            command.node = "n1";
            return command;
        },
        WaitsFor::node_cap);
    admit(asking("ada"));
    EXPECT_EQ(apply(asking("ada")).waits_for, WaitsFor::org_cap);
}

TEST_F(AdmissionTest, when_several_caps_are_full_the_first_of_agent_provider_node_and_org_is_named) {
    make_agent("bob", 1);
    cap(CapKind::provider, "acme-llm", 1);
    cap(CapKind::node, "n1", 1);
    cap(CapKind::org, "", 1);
    const auto ask = [&] {
        AdmitRun command = asking("bob");
        command.who.provider = "acme-llm";
        command.node = "n1";
        return command;
    };
    admit(ask());

    EXPECT_EQ(apply(ask()).waits_for, WaitsFor::agent_cap);
    make_agent("bob", 9);
    EXPECT_EQ(apply(ask()).waits_for, WaitsFor::provider_cap);
    cap(CapKind::provider, "acme-llm", 9);
    EXPECT_EQ(apply(ask()).waits_for, WaitsFor::node_cap);
    cap(CapKind::node, "n1", 9);
    EXPECT_EQ(apply(ask()).waits_for, WaitsFor::org_cap);
    cap(CapKind::org, "", 9);
    admit(ask());
}

TEST_F(AdmissionTest, a_lowered_cap_ends_nobody_and_holds_back_the_next) {
    const Owned first = admit(asking("ada"));
    const Owned second = admit(asking("ada"));

    cap(CapKind::org, "", 1);

    EXPECT_EQ(heartbeat(first).status, RunStatus::done);
    EXPECT_EQ(apply(asking("ada")).status, AdmitStatus::concurrency_limit);
    finish(first);
    EXPECT_EQ(apply(asking("ada")).status, AdmitStatus::concurrency_limit);
    finish(second);
    admit(asking("ada"));
}

TEST_F(AdmissionTest, a_run_that_one_of_budget_place_and_cap_refuses_takes_nothing_of_the_others) {
    put(budget_of("all", Money::dollars(10)));
    make_agent("bob", 1);
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    AdmitRun command = asking("bob", {workspace("/repo")});
    command.hold = usd(Money::dollars(10));
    EXPECT_EQ(apply(command).status, AdmitStatus::workspace_busy);
    command.places = {workspace("/free")};
    command.hold = usd(Money::dollars(11));
    EXPECT_EQ(apply(command).status, AdmitStatus::budget_exceeded);
    finish(holder);

    command.places = {workspace("/repo"), workspace("/free")};
    command.hold = usd(Money::dollars(10));
    const Owned bobs = admit(command);
    EXPECT_EQ(apply(budget_of("all", Money::dollars(10))).held, Money::dollars(10).nanos());
    finish(bobs);
}

TEST_F(AdmissionTest, the_hold_of_a_run_is_set_aside_in_every_budget_that_covers_it) {
    put(budget_of("all", Money::dollars(10)));
    PutBudget tokens = budget_of("tokens", {});
    tokens.metric = Metric::tokens;
    tokens.limit_units = 1000;
    tokens.scope.agent = "ada";
    put(tokens);
    AdmitRun command = asking("ada");
    command.hold = usd(Money::dollars(6));
    command.hold.tokens = 400;

    const Owned first = admit(command);

    EXPECT_EQ(apply(budget_of("all", Money::dollars(10))).held, Money::dollars(6).nanos());
    EXPECT_EQ(apply(tokens).held, 400);
    command.run = fresh_run();
    const auto refused = apply(command);
    EXPECT_EQ(refused.status, AdmitStatus::budget_exceeded);
    ASSERT_TRUE(refused.budget.has_value());
    EXPECT_EQ(refused.budget->budget, "all");
    EXPECT_EQ(refused.budget->requested, Money::dollars(6).nanos());
    EXPECT_EQ(refused.budget->free, Money::dollars(4).nanos());
    EXPECT_EQ(refused.budget->open_holds, 1);
    finish(first);
    admit(command);
}

TEST_F(AdmissionTest, a_budget_of_runs_counts_admissions_and_gives_none_back) {
    PutBudget three = budget_of("three-a-day", {});
    three.metric = Metric::runs;
    three.window = WindowKind::day;
    three.limit_units = 3;
    put(three);
    for (int i = 0; i < 3; ++i) finish(admit(asking("ada")));

    const auto reply = apply(asking("ada", {}, OnConflict::queue));

    EXPECT_EQ(reply.status, AdmitStatus::budget_exceeded);
    EXPECT_EQ(reply.budget->settled, 3);
    at(reply.budget->window_end);
    admit(asking("ada"));
}

TEST_F(AdmissionTest, a_queued_run_counts_as_a_run_when_it_is_admitted) {
    PutBudget two = budget_of("two", {});
    two.metric = Metric::runs;
    two.limit_units = 2;
    put(two);
    const Owned first = admit(asking("ada", {workspace("/repo")}));
    const RunId second = enqueue(asking("ada", {workspace("/repo")}));
    const RunId third = enqueue(asking("ada", {workspace("/repo")}));
    EXPECT_EQ(apply(two).settled, 1);

    finish(first);
    EXPECT_EQ(apply(two).settled, 2);
    finish(owner_of(second));

    EXPECT_EQ(state_of(third), RunState::queued);
    two.limit_units = 3;
    put(two);
    EXPECT_EQ(state_of(third), RunState::starting);
}

TEST_F(AdmissionTest, a_run_that_sets_nothing_aside_is_refused_by_a_budget_with_nothing_left) {
    put(budget_of("all", Money::dollars(1)));
    finish(admit(asking("ada")));
    spend("ada", Money::dollars(1));

    EXPECT_EQ(apply(asking("ada")).status, AdmitStatus::budget_exceeded);
}

// ---- refusals -------------------------------------------------------------------------------------------------------

// Everything is wrong with this admission. Each step puts the first thing right that was complained about; so each
// refusal is seen while all the later ones apply too.
TEST_F(AdmissionTest, refuses_in_the_order_of_its_status) {
    make_agent("paused");
    make_agent("busy", 0);
    const Owned holder = admit(asking("ada", {workspace("/repo")}));
    put(budget_of("a-full", Money::dollars(1)));
    put(budget_of("b-frozen", Money::dollars(2)));
    spend("ada", Money::nanos(1));
    spend("ada", Money::dollars(3), true);
    EXPECT_EQ(apply(UnfreezeBudget{"a-full"}).status, BudgetStatus::done);
    apply(PauseAgent{"paused", "lunch"});
    AdmitRun command = asking("nobody", {workspace("/repo")}, OnConflict::refuse);
    command.run = holder.run;
    command.lease_s = 0;
    command.who.session = SessionId(fresh_id());
    command.hold = usd(Money::max());

    command.priority = limits::priority_below_operator_max + 1;
    command.by.kind = ActorKind::key;
    EXPECT_EQ(apply(command).status, AdmitStatus::invalid_request);
    command.lease_s = 60;
    EXPECT_EQ(apply(command).status, AdmitStatus::beyond_key);
    command.priority = 0;
    EXPECT_EQ(apply(command).status, AdmitStatus::run_exists);
    command.run = fresh_run();
    EXPECT_EQ(apply(command).status, AdmitStatus::agent_not_found);
    command.who.agent = "paused";
    EXPECT_EQ(apply(command).status, AdmitStatus::outside_roots);
    command.by.kind = ActorKind::trusted;
    EXPECT_EQ(apply(command).status, AdmitStatus::agent_paused);
    command.who.agent = "busy";
    EXPECT_EQ(apply(command).status, AdmitStatus::session_not_found);
    command.who.session = make_session("busy");
    EXPECT_EQ(apply(command).status, AdmitStatus::amount_too_large);
    command.hold = usd(Money::dollars(1));
    const auto frozen = apply(command);
    EXPECT_EQ(frozen.status, AdmitStatus::budget_frozen);
    EXPECT_EQ(frozen.budget->budget, "b-frozen");
    EXPECT_NE(frozen.budget->frozen, "");
    EXPECT_EQ(apply(UnfreezeBudget{"b-frozen"}).status, BudgetStatus::done);
    const auto exceeded = apply(command);
    EXPECT_EQ(exceeded.status, AdmitStatus::budget_exceeded);
    EXPECT_EQ(exceeded.budget->budget, "a-full");
    put(budget_of("a-full", Money::dollars(100)));
    EXPECT_EQ(apply(command).budget->budget, "b-frozen");
    put(budget_of("b-frozen", Money::dollars(100)));
    PutAgent with_root{.name = "busy", .command = {}, .max_concurrent_runs = 0, .tags = {}};
    with_root.roots = {"/repo"};
    EXPECT_EQ(apply(with_root).status, AgentStatus::done);
    command.by.kind = ActorKind::key;
    command.on_conflict = OnConflict::replace;
    EXPECT_EQ(apply(command).status, AdmitStatus::not_your_run);
    command.on_conflict = OnConflict::refuse;
    command.by.kind = ActorKind::trusted;
    EXPECT_EQ(apply(command).status, AdmitStatus::workspace_busy);
    finish(holder);
    EXPECT_EQ(apply(command).status, AdmitStatus::concurrency_limit);
    make_agent("busy", 1);
    EXPECT_EQ(apply(command).status, AdmitStatus::admitted);
}

TEST_F(AdmissionTest, a_queueing_run_is_refused_all_the_same_for_what_waiting_does_not_cure) {
    put(budget_of("all", Money::dollars(1)));
    admit(asking("ada", {workspace("/repo")}));
    AdmitRun command = asking("ada", {workspace("/repo")}, OnConflict::queue);
    command.hold = usd(Money::dollars(2));

    EXPECT_EQ(apply(command).status, AdmitStatus::budget_exceeded);

    apply(PauseAgent{"ada", "lunch"});
    EXPECT_EQ(apply(asking("ada", {workspace("/repo")}, OnConflict::queue)).status, AdmitStatus::agent_paused);
}

TEST_F(AdmissionTest, an_admission_that_cannot_be_meant_is_refused) {
    const std::vector<std::function<void(AdmitRun&)>> spoil = {
        [](AdmitRun& command) { command.run = {}; },
        [](AdmitRun& command) { command.lease_s = 0; },
        [](AdmitRun& command) { command.lease_s = -1; },
        [](AdmitRun& command) { command.lease_s = limits::lease_s_max + 1; },
        [](AdmitRun& command) { command.queue_s = -1; },
        [](AdmitRun& command) { command.queue_s = limits::queue_s_max + 1; },
        [](AdmitRun& command) { command.priority = 1'000'001; },
        [](AdmitRun& command) { command.priority = -1'000'001; },
        [](AdmitRun& command) { command.hold.usd = -1; },
        [](AdmitRun& command) { command.hold.tokens = -1; },
        [](AdmitRun& command) { command.hold.calls = -1; },
        [](AdmitRun& command) { command.hold.runs = 1; },
        [](AdmitRun& command) { command.node = "n\n1"; },
        [](AdmitRun& command) { command.node = std::string(limits::name_bytes_max + 1, 'n'); },
        [](AdmitRun& command) { command.who.provider = "a\tb"; },
        [](AdmitRun& command) { command.who.model = std::string(limits::name_bytes_max + 1, 'm'); },
        [](AdmitRun& command) { command.who.tags = {{"not a name", "x"}}; },
        [](AdmitRun& command) {
            for (std::size_t i = 0; i <= limits::tags_max; ++i) command.who.tags["t" + std::to_string(i)] = "x";
        },
    };
    for (std::size_t i = 0; i < spoil.size(); ++i) {
        AdmitRun command = asking("ada");
        spoil[i](command);
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, AdmitStatus::invalid_request) << "case " << i;
        EXPECT_NE(reply.detail, "") << "case " << i;
    }

    AdmitRun most = asking("ada");
    most.lease_s = limits::lease_s_max;
    most.queue_s = limits::queue_s_max;
    most.priority = 1'000'000;
    most.node = std::string(limits::name_bytes_max, 'n');
    admit(most);
}

TEST_F(AdmissionTest, an_admission_without_an_agent_or_of_an_archived_one_is_refused) {
    EXPECT_EQ(apply(asking("")).status, AdmitStatus::agent_not_found);

    make_agent("old");
    apply(ArchiveAgent{"old"});
    EXPECT_EQ(apply(asking("old")).status, AdmitStatus::agent_not_found);
    make_agent("old");
    admit(asking("old"));
}

TEST_F(AdmissionTest, an_org_has_a_limit_of_unfinished_runs) {
    make_agent("crowd", limits::concurrent_runs_max);
    const Owned first = admit(asking("crowd"));
    fill<Run>(limits::unfinished_runs_per_org_max, get<Run>(first.run), [&](Run& one, std::size_t i) {
        if (i > 0) one.id = fresh_run();
        one.who.run = one.id;
    });

    AdmitRun one_more = asking("crowd", {}, OnConflict::queue);
    EXPECT_EQ(unwatched(one_more).status, AdmitStatus::too_many);
    one_more.hold = usd(Money::max());
    EXPECT_EQ(unwatched(one_more).status, AdmitStatus::too_many);
    one_more.who.session = SessionId(fresh_id());
    EXPECT_EQ(unwatched(one_more).status, AdmitStatus::session_not_found);

    EXPECT_EQ(unwatched(FinishRun{first.run, first.fence, RunState::failed, "", {}}).status, RunStatus::done);
    EXPECT_EQ(unwatched(asking("ada")).status, AdmitStatus::admitted);
}

}  // namespace
}  // namespace interlock::core
