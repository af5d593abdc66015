// What an API key below operator may ask for when it admits a run.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

class AgentKeysTest : public RunsTest {
 protected:
    AgentKeysTest() {
        make_agent("good");
        put_agent("ada", "/srv/ada", {}, {});
    }

    AgentReply put_agent(const std::string& name, const std::string& workspace, std::vector<std::string> roots,
                         std::vector<std::string> resolved) {
        PutAgent command{.name = name, .command = {}, .max_concurrent_runs = 100, .tags = {}};
        command.process.directory = workspace;
        command.roots = std::move(roots);
        command.resolved_roots = std::move(resolved);
        return apply(command);
    }
    AdmitRun by_key(std::vector<Place> places = {}, OnConflict on_conflict = OnConflict::refuse) {
        AdmitRun command = asking("ada", std::move(places), on_conflict);
        command.by = {.kind = ActorKind::key, .key = "k1", .agent = "ada"};
        return command;
    }
    AdmitStatus status_at(const std::string& path) {
        const AdmitReply reply = apply(by_key({workspace(path, ClaimMode::read)}));
        EXPECT_TRUE(reply.status == AdmitStatus::admitted || reply.status == AdmitStatus::outside_roots)
            << reply.detail;
        return reply.status;
    }
};

// ---- places ---------------------------------------------------------------------------------------------------------

TEST_F(AgentKeysTest, without_roots_the_agents_workspace_bounds_what_its_keys_claim) {
    EXPECT_EQ(status_at("/srv/ada"), AdmitStatus::admitted);
    EXPECT_EQ(status_at("/srv/ada/src/deep"), AdmitStatus::admitted);
    for (const char* path : {"/", "/srv", "/srv/adams", "/srv/ad", "/srv/bob", "/srv/bob/srv/ada"}) {
        EXPECT_EQ(status_at(path), AdmitStatus::outside_roots) << path;
    }
    AdmitRun trusted = asking("ada", {workspace("/", ClaimMode::read)});
    EXPECT_EQ(apply(trusted).status, AdmitStatus::admitted) << "an operator claims what it likes";
}

TEST_F(AgentKeysTest, roots_come_on_top_of_the_workspace) {
    put_agent("ada", "/srv/ada", {"/data/a", "/data/b"}, {});

    for (const char* path : {"/srv/ada/x", "/data/a", "/data/b/x"}) {
        EXPECT_EQ(status_at(path), AdmitStatus::admitted) << path;
    }
    EXPECT_EQ(status_at("/data"), AdmitStatus::outside_roots);
    put_agent("ada", "", {"/"}, {});
    EXPECT_EQ(status_at("/"), AdmitStatus::admitted);
    EXPECT_EQ(status_at("/etc"), AdmitStatus::admitted);
}

TEST_F(AgentKeysTest, where_roots_led_when_they_were_set_counts_and_not_how_they_are_written) {
    put_agent("ada", "/srv/link", {"/data/link"}, {"/real/data", "/real/ada"});

    EXPECT_EQ(status_at("/real/data/x"), AdmitStatus::admitted);
    EXPECT_EQ(status_at("/real/ada"), AdmitStatus::admitted);
    EXPECT_EQ(status_at("/srv/link"), AdmitStatus::outside_roots);
    EXPECT_EQ(status_at("/data/link/x"), AdmitStatus::outside_roots);
}

TEST_F(AgentKeysTest, an_agent_without_workspace_and_roots_claims_no_directory_by_its_keys) {
    put_agent("ada", "", {}, {});

    const AdmitReply refused = apply(by_key({workspace("/srv/ada")}));
    EXPECT_EQ(refused.status, AdmitStatus::outside_roots);
    EXPECT_EQ(refused.detail,
              "'/srv/ada' is outside the directories that agent 'ada' may claim with an API key below operator: it has "
              "neither workspace nor roots; an operator adds one with: interlock agents put ada --root DIR");
    EXPECT_EQ(apply(by_key()).status, AdmitStatus::admitted) << "a run without a place is free";
    EXPECT_EQ(apply(by_key({resource("deploy")})).status, AdmitStatus::admitted) << "a name is no directory";
}

TEST_F(AgentKeysTest, the_place_to_isolate_into_and_every_further_place_is_bounded_too) {
    AdmitRun into = by_key({workspace("/srv/ada")}, OnConflict::isolate);
    into.isolate_into = workspace("/etc");
    EXPECT_EQ(apply(into).status, AdmitStatus::outside_roots);
    into.isolate_into = workspace("/srv/ada/2");
    EXPECT_EQ(apply(into).status, AdmitStatus::admitted);

    into = by_key({workspace("/srv/ada/4")}, OnConflict::isolate);
    into.isolate_into = resource("r");
    EXPECT_NE(apply(into).status, AdmitStatus::outside_roots) << "a name is no directory";

    EXPECT_EQ(apply(by_key({workspace("/srv/ada/3"), resource("r"), workspace("/etc")})).status,
              AdmitStatus::outside_roots);
}

TEST_F(AgentKeysTest, a_worktree_for_a_client_is_made_of_a_repository_inside_of_the_roots) {
    AdmitRun command = by_key({workspace("/srv/ada/src")});
    command.isolate = true;
    command.worktrees = workspace("/data/worktrees");
    command.repository = {"/srv/ada", "/srv/bob/.git"};
    EXPECT_EQ(apply(command).status, AdmitStatus::outside_roots) << "git's own directory is not the agent's";
    command.repository = {"/srv", "/srv/.git"};
    EXPECT_EQ(apply(command).status, AdmitStatus::outside_roots) << "the working tree is more than the agent's";
    command.repository = {"/srv/ada", "/srv/ada/.git"};
    EXPECT_EQ(apply(command).status, AdmitStatus::admitted);

    command = by_key({workspace("/srv/ada/src")});
    command.isolate = true;
    command.worktrees = workspace("/data/worktrees");
    command.repository = {"/srv", "/srv/.git"};
    command.process.emplace().command = {"true"};
    command.node = "vm";
    EXPECT_EQ(apply(command).status, AdmitStatus::admitted) << "an operator has set up what the server starts";
}

TEST_F(AgentKeysTest, an_agents_worktrees_are_its_own) {
    const auto make_worktree = [&](const std::string& agent, const std::string& path) {
        PutWorktree command;
        command.run = admit(asking(agent)).run;
        command.node = "vm";
        command.repository = "/srv/ada";
        command.path = path;
        EXPECT_EQ(apply(command).status, WorktreeStatus::done);
        return command.run;
    };
    const RunId mine = make_worktree("ada", "/data/worktrees/1");
    make_worktree("good", "/data/worktrees/2");

    EXPECT_EQ(status_at("/data/worktrees/1"), AdmitStatus::admitted);
    EXPECT_EQ(status_at("/data/worktrees/1/src"), AdmitStatus::admitted);
    for (const char* path : {"/data/worktrees", "/data/worktrees/2", "/data/worktrees/11"}) {
        EXPECT_EQ(status_at(path), AdmitStatus::outside_roots) << path;
    }
    reload();
    EXPECT_EQ(status_at("/data/worktrees/1"), AdmitStatus::admitted);
    apply(DropWorktree{mine, ""});
    EXPECT_EQ(status_at("/data/worktrees/1"), AdmitStatus::outside_roots) << "it is gone";
}

TEST_F(AgentKeysTest, roots_are_absolute_and_canonical_and_not_too_many) {
    for (const char* root : {"", "srv", "/srv/", "/srv/../etc", "/srv//x", "/srv/."}) {
        EXPECT_EQ(put_agent("eve", "", {root}, {}).status, AgentStatus::invalid_request) << root;
        EXPECT_EQ(put_agent("eve", "", {}, {root}).status, AgentStatus::invalid_request) << root;
    }
    const std::vector<std::string> most(limits::roots_per_agent_max, "/srv");
    EXPECT_EQ(put_agent("eve", "", most, {}).status, AgentStatus::done);
    std::vector<std::string> more = most;
    more.push_back("/srv");
    EXPECT_EQ(put_agent("eve", "", more, {}).status, AgentStatus::invalid_request);
    EXPECT_EQ(put_agent("eve", "", most, {}).status, AgentStatus::unchanged);
    EXPECT_EQ(put_agent("eve", "", most, {"/x"}).status, AgentStatus::done) << "they lead elsewhere now";
}

// ---- replace --------------------------------------------------------------------------------------------------------

TEST_F(AgentKeysTest, replace_ends_runs_of_the_same_agent_only) {
    const Owned others = admit(asking("good", {workspace("/srv/ada/x")}));

    const AdmitReply refused = apply(by_key({workspace("/srv/ada")}, OnConflict::replace));
    EXPECT_EQ(refused.status, AdmitStatus::not_your_run);
    EXPECT_EQ(refused.holder->run, others.run);
    EXPECT_EQ(get<Run>(others.run).stop_requested, "");

    finish(others);
    const Owned own = admit(by_key({workspace("/srv/ada/x")}));
    EXPECT_EQ(apply(by_key({workspace("/srv/ada")}, OnConflict::replace)).status, AdmitStatus::queued);
    EXPECT_EQ(get<Run>(own.run).stop_requested, "replaced by another run");
}

TEST_F(AgentKeysTest, replace_of_a_mixed_crowd_ends_none_of_it) {
    const Owned own = admit(asking("ada", {workspace("/srv/ada/1")}));
    admit(asking("good", {workspace("/srv/ada/2")}));

    EXPECT_EQ(apply(by_key({workspace("/srv/ada")}, OnConflict::replace)).status, AdmitStatus::not_your_run);
    EXPECT_EQ(get<Run>(own.run).stop_requested, "");
}

TEST_F(AgentKeysTest, replace_passes_no_run_of_another_agent_in_line) {
    const Owned own = admit(by_key({workspace("/srv/ada")}));
    const RunId others = enqueue(asking("good", {workspace("/srv/ada")}));

    const AdmitReply reply = apply(by_key({workspace("/srv/ada")}, OnConflict::replace));
    EXPECT_EQ(reply.status, AdmitStatus::queued);
    EXPECT_EQ(reply.place_in_line, 2);
    finish(own);
    EXPECT_EQ(state_of(others), RunState::starting);
    EXPECT_EQ(state_of(reply.run), RunState::queued);
}

TEST_F(AgentKeysTest, replace_by_an_operator_is_as_it_was) {
    const Owned others = admit(asking("good", {workspace("/srv/ada")}));

    EXPECT_EQ(apply(asking("ada", {workspace("/srv/ada")}, OnConflict::replace)).status, AdmitStatus::queued);
    EXPECT_EQ(get<Run>(others.run).stop_requested, "replaced by another run");
}

// ---- numbers and names ----------------------------------------------------------------------------------------------

TEST_F(AgentKeysTest, priority_and_lease_are_bounded) {
    AdmitRun most = by_key();
    most.priority = limits::priority_below_operator_max;
    most.lease_s = limits::lease_s_below_operator_max;
    EXPECT_EQ(apply(most).status, AdmitStatus::admitted);
    most = by_key();
    most.priority = -limits::priority_below_operator_max;
    EXPECT_EQ(apply(most).status, AdmitStatus::admitted);

    for (const int direction : {1, -1}) {
        AdmitRun first = by_key();
        first.priority = direction * (limits::priority_below_operator_max + 1);
        EXPECT_EQ(apply(first).status, AdmitStatus::beyond_key);
        first.by = {};
        EXPECT_EQ(apply(first).status, AdmitStatus::admitted);
    }
    AdmitRun longest = by_key();
    longest.lease_s = limits::lease_s_below_operator_max + 1;
    const AdmitReply refused = apply(longest);
    EXPECT_EQ(refused.status, AdmitStatus::beyond_key);
    EXPECT_EQ(refused.detail,
              "lease_s is 3601; an API key below operator may state at most 3600; send heartbeats to keep a run for "
              "longer");
}

TEST_F(AgentKeysTest, a_run_of_a_client_takes_no_place_under_the_cap_of_a_server) {
    AdmitRun command = by_key();
    command.node = "vm";
    EXPECT_EQ(apply(command).status, AdmitStatus::admitted) << "a name that clients have agreed on";

    command = by_key();
    command.node = "vm";
    command.names_server = true;
    EXPECT_EQ(apply(command).status, AdmitStatus::beyond_key);
    command.by = {};
    EXPECT_EQ(apply(command).status, AdmitStatus::admitted);
}

}  // namespace
}  // namespace interlock::core
