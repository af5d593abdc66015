#include "core/agents.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

class AgentsTest : public RunsTest {
 protected:
    static PutAgent agent(std::string name) {
        PutAgent command;
        command.name = std::move(name);
        return command;
    }
    static CreateKey key(std::string id) {
        CreateKey command;
        command.id = std::move(id);
        command.hash = "c0ffee";
        command.scopes = {"agent"};
        return command;
    }
    static constexpr std::string_view wrong_names[] = {"", "-a", ".a", "_a", "a b", "a/b", "a\n", "\xC3\xA4", "a:b"};
};

// ---- orgs -----------------------------------------------------------------------------------------------------------

TEST_F(AgentsTest, an_org_is_made_once) {
    EXPECT_EQ(apply(CreateOrg{"acme"}).status, OrgStatus::already_there);
    EXPECT_EQ(get<Org>({}).name, "acme");
    EXPECT_EQ(told<OrgCreated>().size(), 1u);
}

TEST_F(AgentsTest, an_org_refuses_in_the_order_of_its_status) {
    EXPECT_EQ(apply(CreateOrg{"not a name"}).status, OrgStatus::invalid_request);
    EXPECT_EQ(apply(CreateOrg{"other"}).status, OrgStatus::name_taken);

    const auto create = [&](std::uint32_t id, const std::string& name) {
        const CommandBody body = CreateOrg{name};
        return std::get<OrgReply>(machine.apply({now}, {OrgId(id), {}, body, fingerprint_of(body)}).reply).status;
    };
    for (std::uint32_t id = 2; id <= limits::orgs_max; ++id) {
        EXPECT_EQ(create(id + 100'000, ""), OrgStatus::invalid_request);
        ASSERT_EQ(create(id, "o" + std::to_string(id)), OrgStatus::created) << id;
    }
    EXPECT_EQ(create(1'000'000, ""), OrgStatus::invalid_request);
    EXPECT_EQ(create(1'000'000, "fine"), OrgStatus::too_many);
    EXPECT_EQ(create(2, "fine"), OrgStatus::name_taken);
    EXPECT_EQ(create(2, "o2"), OrgStatus::already_there);
}

TEST_F(AgentsTest, an_org_that_does_not_exist_has_no_rules) {
    const CommandBody body = agent("ada");
    const auto applied = machine.apply({now}, {OrgId(77), CommandKey(fresh_id()), body, fingerprint_of(body)});

    EXPECT_TRUE(std::holds_alternative<NoSuchOrg>(applied.reply));
}

// ---- agents ---------------------------------------------------------------------------------------------------------

TEST_F(AgentsTest, an_agent_is_put_changed_and_left_alone) {
    PutAgent command = agent("ada");
    command.command = {"claude", "-p"};
    command.tags = {{"team", "red"}};
    EXPECT_EQ(apply(command).status, AgentStatus::done);
    EXPECT_EQ(apply(command).status, AgentStatus::unchanged);
    const Instant created = now;
    advance(seconds(5));
    command.max_concurrent_runs = 3;
    EXPECT_EQ(apply(command).status, AgentStatus::done);

    const Agent row = get<Agent>("ada");
    EXPECT_EQ(row.command, (std::vector<std::string>{"claude", "-p"}));
    EXPECT_EQ(row.max_concurrent_runs, 3);
    EXPECT_EQ(row.tags, (Tags{{"team", "red"}}));
    EXPECT_EQ(row.created_at, created);
    EXPECT_EQ(get<AgentTotals>("ada").events, 0);
    EXPECT_EQ(told<AgentChanged>().size(), 2u);
}

TEST_F(AgentsTest, an_agent_that_cannot_be_one_is_refused) {
    for (const std::string_view name : wrong_names) {
        EXPECT_EQ(apply(agent(std::string(name))).status, AgentStatus::invalid_request) << name;
    }
    const std::vector<std::function<void(PutAgent&)>> spoil = {
        [](PutAgent& command) { command.name = std::string(limits::name_bytes_max + 1, 'a'); },
        [](PutAgent& command) { command.max_concurrent_runs = -1; },
        [](PutAgent& command) { command.max_concurrent_runs = limits::concurrent_runs_max + 1; },
        [](PutAgent& command) { command.command.assign(limits::command_words_max + 1, "x"); },
        [](PutAgent& command) { command.command = {std::string(limits::text_bytes_max + 1, 'x')}; },
        [](PutAgent& command) { command.tags = {{"", "x"}}; },
        [](PutAgent& command) { command.tags = {{"a", "x\n"}}; },
    };
    for (std::size_t i = 0; i < spoil.size(); ++i) {
        PutAgent command = agent("ada");
        spoil[i](command);
        EXPECT_EQ(apply(command).status, AgentStatus::invalid_request) << "case " << i;
    }
    PutAgent most = agent(std::string(limits::name_bytes_max, 'a'));
    most.max_concurrent_runs = limits::concurrent_runs_max;
    most.command.assign(limits::command_words_max, std::string(16, 'x'));
    EXPECT_EQ(apply(most).status, AgentStatus::done);
}

TEST_F(AgentsTest, an_agent_paused_by_a_person_starts_nothing_until_it_is_resumed) {
    make_agent("ada");
    const Owned going = admit(asking("ada"));

    EXPECT_EQ(apply(PauseAgent{"ada", "lunch"}).status, AgentStatus::done);
    EXPECT_EQ(apply(PauseAgent{"ada", "again"}).status, AgentStatus::unchanged);

    const auto refused = apply(asking("ada"));
    EXPECT_EQ(refused.status, AdmitStatus::agent_paused);
    EXPECT_NE(refused.detail.find("lunch"), std::string::npos);
    EXPECT_EQ(heartbeat(going).status, RunStatus::done);
    EXPECT_EQ(spend("ada", Money::nanos(1)).status, ChargeStatus::charged);
    advance(std::chrono::hours(24 * 400));
    EXPECT_EQ(apply(asking("ada")).status, AdmitStatus::agent_paused);
    EXPECT_EQ(apply(ResumeAgent{"ada"}).status, AgentStatus::done);
    EXPECT_EQ(apply(ResumeAgent{"ada"}).status, AgentStatus::unchanged);
    admit(asking("ada"));
}

TEST_F(AgentsTest, a_pause_survives_being_put_again_and_a_restart) {
    make_agent("ada");
    apply(PauseAgent{"ada", "lunch"});
    make_agent("ada", 7);

    reload();

    EXPECT_EQ(apply(asking("ada")).status, AdmitStatus::agent_paused);
}

TEST_F(AgentsTest, a_person_lifts_every_pause_and_a_budget_only_its_own) {
    make_agent("ada");
    PutBudget budget = budget_of("adas", Money::dollars(1));
    budget.window = WindowKind::day;
    budget.on_exhausted = OnExhausted::pause_agent;
    put(budget);
    spend("ada", Money::dollars(1));
    apply(PauseAgent{"ada", "lunch"});
    EXPECT_EQ(get<Agent>("ada").pauses.size(), 2u);
    const Instant midnight = std::chrono::floor<std::chrono::days>(now) + std::chrono::days(1);

    EXPECT_EQ(at(midnight).resumed_agents, 1);
    EXPECT_EQ(get<Agent>("ada").pauses.size(), 1u);
    EXPECT_EQ(apply(asking("ada")).status, AdmitStatus::agent_paused);
    spend("ada", Money::dollars(1));
    EXPECT_EQ(get<Agent>("ada").pauses.size(), 2u);

    EXPECT_EQ(apply(ResumeAgent{"ada"}).status, AgentStatus::done);

    EXPECT_TRUE(get<Agent>("ada").pauses.empty());
}

TEST_F(AgentsTest, two_budgets_that_turn_together_both_lift_their_pause) {
    make_agent("ada");
    for (const std::string name : {"one", "two"}) {
        PutBudget budget = budget_of(name, Money::dollars(1));
        budget.window = WindowKind::day;
        budget.on_exhausted = OnExhausted::pause_agent;
        put(budget);
    }
    spend("ada", Money::dollars(1));
    EXPECT_EQ(get<Agent>("ada").pauses.size(), 2u);

    at(std::chrono::floor<std::chrono::days>(now) + std::chrono::days(1));

    EXPECT_TRUE(get<Agent>("ada").pauses.empty());
    admit(asking("ada"));
}

TEST_F(AgentsTest, an_archived_agent_is_gone_until_it_is_put_again_and_keeps_its_history) {
    make_agent("ada");
    spend("ada", Money::dollars(1));
    apply(PauseAgent{"ada", "lunch"});

    EXPECT_EQ(apply(ArchiveAgent{"ada"}).status, AgentStatus::done);

    EXPECT_EQ(apply(ArchiveAgent{"ada"}).status, AgentStatus::agent_not_found);
    EXPECT_EQ(apply(PauseAgent{"ada", ""}).status, AgentStatus::agent_not_found);
    EXPECT_EQ(apply(ResumeAgent{"ada"}).status, AgentStatus::agent_not_found);
    EXPECT_EQ(spend("ada", Money::nanos(1)).status, ChargeStatus::agent_not_found);
    make_agent("ada", 1);
    EXPECT_EQ(get<AgentTotals>("ada").settled, Money::dollars(1).nanos());
    admit(asking("ada"));
}

TEST_F(AgentsTest, an_agent_with_unfinished_runs_is_not_archived) {
    make_agent("ada");
    const Owned live = admit(asking("ada", {workspace("/repo")}));
    const RunId waiting = enqueue(asking("ada", {workspace("/repo")}));

    EXPECT_EQ(apply(ArchiveAgent{"ada"}).status, AgentStatus::has_unfinished_runs);
    ask_to_stop(waiting);
    EXPECT_EQ(apply(ArchiveAgent{"ada"}).status, AgentStatus::has_unfinished_runs);
    finish(live);

    EXPECT_EQ(apply(ArchiveAgent{"ada"}).status, AgentStatus::done);
}

TEST_F(AgentsTest, agents_refuse_in_the_order_of_their_status) {
    EXPECT_EQ(apply(PauseAgent{"nobody", std::string(limits::text_bytes_max + 1, 'x')}).status,
              AgentStatus::invalid_request);
    EXPECT_EQ(apply(PauseAgent{"nobody", "x"}).status, AgentStatus::agent_not_found);
    EXPECT_EQ(apply(ResumeAgent{"nobody"}).status, AgentStatus::agent_not_found);
    EXPECT_EQ(apply(ArchiveAgent{"nobody"}).status, AgentStatus::agent_not_found);

    EXPECT_EQ(apply(agent("a0")).status, AgentStatus::done);
    fill<Agent>(limits::agents_per_org_max, get<Agent>("a0"),
                [](Agent& one, std::size_t i) { one.name = "a" + std::to_string(i); });
    EXPECT_EQ(unwatched(agent("not a name")).status, AgentStatus::invalid_request);
    EXPECT_EQ(unwatched(agent("one-more")).status, AgentStatus::too_many);
    EXPECT_EQ(unwatched(agent("a0")).status, AgentStatus::unchanged);
    EXPECT_EQ(unwatched(ArchiveAgent{"a0"}).status, AgentStatus::done);
    EXPECT_EQ(unwatched(agent("one-more")).status, AgentStatus::too_many) << "names are never freed";
    EXPECT_EQ(unwatched(agent("a0")).status, AgentStatus::done);
}

// ---- keys -----------------------------------------------------------------------------------------------------------

TEST_F(AgentsTest, a_key_is_made_once_and_a_revoked_one_stays_revoked) {
    make_agent("ada");
    put(budget_of("all", Money::dollars(1)));
    CreateKey command = key("k1");
    command.agent = "ada";
    command.budget = "all";
    command.note = "for the laptop";
    EXPECT_EQ(apply(command).status, KeyStatus::done);
    const Instant created = now;
    advance(seconds(5));

    EXPECT_EQ(apply(RevokeKey{"k1"}).status, KeyStatus::done);
    const Instant revoked = now;
    advance(seconds(5));
    EXPECT_EQ(apply(RevokeKey{"k1"}).status, KeyStatus::unchanged);
    EXPECT_EQ(apply(command).status, KeyStatus::key_exists);

    const ApiKey row = get<ApiKey>("k1");
    EXPECT_EQ(row.hash, "c0ffee");
    EXPECT_EQ(row.agent, "ada");
    EXPECT_EQ(row.budget, "all");
    EXPECT_EQ(row.note, "for the laptop");
    EXPECT_EQ(row.created_at, created);
    EXPECT_EQ(row.revoked_at, revoked);
    EXPECT_EQ(told<KeyCreated>().size(), 1u);
    EXPECT_EQ(told<KeyRevoked>().size(), 1u);
}

TEST_F(AgentsTest, keys_refuse_in_the_order_of_their_status) {
    make_agent("ada");
    EXPECT_EQ(apply(key("taken")).status, KeyStatus::done);
    CreateKey command = key("taken");
    command.scopes = {"agent", "root"};
    command.agent = "nobody";
    command.budget = "none";

    EXPECT_EQ(apply(command).status, KeyStatus::invalid_request);
    command.scopes = {"admin", "operator", "agent", "read"};
    EXPECT_EQ(apply(command).status, KeyStatus::key_exists);
    command.id = "free";
    EXPECT_EQ(apply(command).status, KeyStatus::agent_not_found);
    command.agent = "ada";
    EXPECT_EQ(apply(command).status, KeyStatus::budget_not_found);
    put(budget_of("none", Money::dollars(1)));
    apply(DeleteBudget{"none"});
    EXPECT_EQ(apply(command).status, KeyStatus::budget_not_found);
    put(budget_of("none", Money::dollars(1)));
    EXPECT_EQ(apply(command).status, KeyStatus::done);
    EXPECT_EQ(apply(RevokeKey{"nothing"}).status, KeyStatus::key_not_found);

    fill<ApiKey>(limits::keys_per_org_max, get<ApiKey>("free"),
                 [](ApiKey& one, std::size_t i) { one.id = "k" + std::to_string(i); });
    command = key("one-more");
    command.budget = "unknown";
    EXPECT_EQ(unwatched(command).status, KeyStatus::budget_not_found);
    command.budget = "";
    EXPECT_EQ(unwatched(command).status, KeyStatus::too_many);
}

TEST_F(AgentsTest, a_key_that_cannot_be_one_is_refused) {
    const std::vector<std::function<void(CreateKey&)>> spoil = {
        [](CreateKey& command) { command.id = ""; },
        [](CreateKey& command) { command.id = "a b"; },
        [](CreateKey& command) { command.hash = ""; },
        [](CreateKey& command) { command.scopes = {}; },
        [](CreateKey& command) { command.scopes = {"Admin"}; },
        [](CreateKey& command) { command.note = std::string(limits::text_bytes_max + 1, 'x'); },
    };
    for (std::size_t i = 0; i < spoil.size(); ++i) {
        CreateKey command = key("k1");
        spoil[i](command);
        EXPECT_EQ(apply(command).status, KeyStatus::invalid_request) << "case " << i;
    }
}

// ---- caps -----------------------------------------------------------------------------------------------------------

TEST_F(AgentsTest, a_cap_is_set_changed_and_lifted) {
    const auto set = [&](CapKind kind, const std::string& name, std::optional<std::int32_t> max) {
        return apply(SetCap{kind, name, max}).status;
    };
    EXPECT_EQ(set(CapKind::provider, "acme-llm", std::nullopt), CapStatus::unchanged);
    EXPECT_EQ(set(CapKind::provider, "acme-llm", 2), CapStatus::done);
    EXPECT_EQ(set(CapKind::provider, "acme-llm", 2), CapStatus::unchanged);
    EXPECT_EQ(set(CapKind::provider, "acme-llm", 0), CapStatus::done);
    EXPECT_EQ(get<Cap>({CapKind::provider, "acme-llm"}).max_live, 0);
    EXPECT_EQ(set(CapKind::provider, "acme-llm", std::nullopt), CapStatus::done);
    EXPECT_FALSE(find<Cap>({CapKind::provider, "acme-llm"}).has_value());
    EXPECT_EQ(set(CapKind::node, "acme-llm", 1), CapStatus::done);
    EXPECT_EQ(told<CapChanged>()[2].max_live, -1);
}

TEST_F(AgentsTest, caps_refuse_in_the_order_of_their_status) {
    const auto set = [&](CapKind kind, const std::string& name, std::optional<std::int32_t> max) {
        return unwatched(SetCap{kind, name, max}).status;
    };
    const auto all_wrong = [&] {
        EXPECT_EQ(set(CapKind::org, "named", 1), CapStatus::invalid_request);
        EXPECT_EQ(set(CapKind::node, "", 1), CapStatus::invalid_request);
        EXPECT_EQ(set(CapKind::node, "a\nb", 1), CapStatus::invalid_request);
        EXPECT_EQ(set(CapKind::node, "n", -1), CapStatus::invalid_request);
        EXPECT_EQ(set(CapKind::node, "n", limits::concurrent_runs_max + 1), CapStatus::invalid_request);
        EXPECT_EQ(set(CapKind::node, std::string(limits::name_bytes_max + 1, 'n'), 1), CapStatus::invalid_request);
    };
    all_wrong();
    for (std::size_t i = 0; i < limits::caps_per_org_max; ++i) {
        ASSERT_EQ(set(CapKind::node, "n" + std::to_string(i), 1), CapStatus::done) << i;
    }
    all_wrong();
    EXPECT_EQ(set(CapKind::org, "", 1), CapStatus::too_many);
    EXPECT_EQ(set(CapKind::node, "n0", 2), CapStatus::done);
    EXPECT_EQ(set(CapKind::node, "none", std::nullopt), CapStatus::unchanged);
}

}  // namespace
}  // namespace interlock::core
