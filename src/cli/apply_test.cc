#include "cli/apply.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cli/apply_plan.h"
#include "cli/cli_test_support.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

// ---- the plan -----------------------------------------------------------------------------------------------------

class ApplyPlanTest : public testing::Test {
 protected:
    ApplyPlanTest() { files.set = "shop"; }

    Wanted& want(Kind kind, const std::string& name, const std::string& agent = "coder") {
        Wanted wanted{.kind = kind, .name = name, .body = defaults_of(kind), .agent = agent, .file = "f.yaml"};
        if (kind == Kind::budget) wanted.body["scope"] = {{"agent", agent}};
        if (kind == Kind::schedule) {
            wanted.body["agent"] = agent;
            wanted.body["every_s"] = 60;
        }
        return files.wanted.emplace_back(std::move(wanted));
    }
    Plan plan(Prune prune = Prune::no) { return make_plan(files, state, prune); }
    // What the server has once a plan was carried out.
    void carry_out(const Plan& plan) {
        for (const PlannedRequest& request : plan.requests) {
            const std::string noun = request.target.substr(4, request.target.find('/', 4) - 4);
            const std::string name = request.target.substr(request.target.rfind('/') + 1);
            json::array& items = noun == "agents" ? state.agents : noun == "budgets" ? state.budgets : state.schedules;
            const auto is_it = [&](const json::value& item) { return text_of(item.at("name")) == name; };
            items.erase(std::remove_if(items.begin(), items.end(), is_it), items.end());
            if (request.method == "DELETE") continue;
            json::object item = json::parse(request.body).get_object();
            item["name"] = name;
            if (noun == "budgets") item["window"] = {{"kind", item["window"]}};
            items.emplace_back(std::move(item));
        }
    }
    // "+ agent coder", …
    static std::string steps(const Plan& plan) {
        std::string all;
        for (const PlanStep& step : plan.steps) {
            all += std::string(1, "+~=-."[static_cast<std::size_t>(step.action)]) + " " +
                   std::string(name_of(step.kind)) + " " + step.name;
            for (const FieldChange& change : step.fields) {
                if (step.action != PlanAction::change) continue;
                all += " " + change.field + ":" + json::serialize(change.from) + ">" + json::serialize(change.to);
            }
            all += "\n";
        }
        return all;
    }
    static std::string requests(const Plan& plan) {
        std::string all;
        for (const PlannedRequest& request : plan.requests) all += request.method + " " + request.target + "\n";
        return all;
    }

    ApplyFiles files;
    ServerLists state;
};

TEST_F(ApplyPlanTest, what_is_not_there_is_made_and_then_nothing_is_left_to_do) {
    want(Kind::agent, "coder");
    want(Kind::budget, "coder").body["limit"] = "5.00";
    want(Kind::schedule, "nightly");

    const Plan first = plan();
    carry_out(first);

    EXPECT_EQ(steps(first), "+ agent coder\n+ budget coder\n+ schedule nightly\n");
    EXPECT_EQ(requests(first), "PUT /v1/agents/coder\nPUT /v1/budgets/coder\nPUT /v1/schedules/nightly\n");
    EXPECT_EQ(steps(plan()), "= agent coder\n= budget coder\n= schedule nightly\n");
    EXPECT_TRUE(plan().requests.empty());
}

TEST_F(ApplyPlanTest, what_differs_is_shown_member_by_member) {
    want(Kind::agent, "coder").body["tags"] = {{"team", "a"}};
    want(Kind::schedule, "nightly");
    carry_out(plan());
    files.wanted[0].body["tags"] = {{"team", "b"}};
    files.wanted[0].body["timeout_s"] = 60;
    files.wanted[1].body["every_s"] = nullptr;
    files.wanted[1].body["cron"] = "0 9 * * *";

    EXPECT_EQ(steps(plan()),
              "~ agent coder tags.team:\"a\">\"b\" timeout_s:0>60\n"
              "~ schedule nightly every_s:60>null cron:null>\"0 9 * * *\"\n");
}

TEST_F(ApplyPlanTest, what_a_person_paused_stays_paused_unless_the_file_says_otherwise) {
    want(Kind::agent, "coder");
    want(Kind::schedule, "nightly");
    carry_out(plan());
    state.schedules[0].as_object()["enabled"] = false;

    EXPECT_EQ(steps(plan()), "= agent coder\n= schedule nightly\n");
    files.wanted[1].body["enabled"] = true;
    EXPECT_EQ(steps(plan()), "= agent coder\n~ schedule nightly enabled:false>true\n");
}

TEST_F(ApplyPlanTest, only_what_apply_made_is_removed_and_only_if_asked) {
    want(Kind::agent, "coder");
    want(Kind::budget, "coder");
    want(Kind::budget, "coder-day");
    want(Kind::agent, "old");
    want(Kind::schedule, "old", "old");
    carry_out(plan());
    state.agents.push_back({{"name", "by-hand"}, {"tags", json::object()}});
    state.agents.push_back({{"name", "of-another-set"}, {"tags", {{"interlock.apply", "other"}}}});
    state.budgets.push_back({{"name", "by-hand"}, {"scope", {{"agent", "coder"}}}});
    files.wanted.erase(files.wanted.begin() + 2, files.wanted.end());

    const Plan without = plan();
    EXPECT_EQ(steps(without), "= agent coder\n= budget coder\n. schedule old\n. budget coder-day\n. agent old\n");
    EXPECT_TRUE(without.requests.empty());

    const Plan pruned = plan(Prune::yes);
    EXPECT_EQ(steps(pruned), "= agent coder\n= budget coder\n- schedule old\n- budget coder-day\n- agent old\n");
    EXPECT_EQ(requests(pruned),
              "DELETE /v1/schedules/old\nDELETE /v1/budgets/coder-day\nPUT /v1/agents/coder\nDELETE /v1/agents/old\n");
    carry_out(pruned);
    EXPECT_TRUE(plan(Prune::yes).requests.empty()) << steps(plan(Prune::yes));
}

TEST_F(ApplyPlanTest, what_somebody_else_has_removed_is_not_removed_again) {
    want(Kind::agent, "coder");
    want(Kind::budget, "gone");
    carry_out(plan());
    files.wanted.pop_back();
    state.budgets.clear();

    const Plan pruned = plan(Prune::yes);

    EXPECT_EQ(requests(pruned), "PUT /v1/agents/coder\n") << "only the mark goes";
    carry_out(pruned);
    EXPECT_TRUE(plan(Prune::yes).requests.empty());
}

TEST_F(ApplyPlanTest, something_new_is_there_before_what_it_replaces_goes) {
    want(Kind::agent, "coder");
    want(Kind::budget, "old");
    carry_out(plan());
    files.wanted[1].name = "new";

    EXPECT_EQ(requests(plan(Prune::yes)),
              "PUT /v1/agents/coder\nPUT /v1/budgets/new\nDELETE /v1/budgets/old\nPUT /v1/agents/coder\n");
}

TEST_F(ApplyPlanTest, what_a_budget_counts_cannot_change) {
    want(Kind::agent, "coder");
    want(Kind::budget, "coder");
    carry_out(plan());
    files.wanted[1].body["window"] = "day";
    files.wanted[1].at = {7, 3};

    const Plan changed = plan();

    ASSERT_EQ(changed.mistakes.size(), 1u);
    EXPECT_EQ(changed.mistakes[0].at, (Spot{7, 3}));
    EXPECT_EQ(changed.mistakes[0].what, "the window of budget 'coder' cannot change from month to day");
}

TEST_F(ApplyPlanTest, the_values_of_an_environment_are_not_shown) {
    want(Kind::agent, "coder").body["env"] = {{"TOKEN", "hunter2"}};
    EXPECT_EQ(json::serialize(to_json(plan())).find("hunter2"), std::string::npos);
    carry_out(plan());
    files.wanted[0].body["env"] = {{"TOKEN", "hunter3"}};

    const std::string shown = json::serialize(to_json(plan()));
    EXPECT_NE(shown.find(R"({"field":"env.TOKEN","secret":true})"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("hunter"), std::string::npos);

    state.agents[0].as_object()["env"] = {{"TOKEN", nullptr}};
    EXPECT_EQ(steps(plan()), "= agent coder\n") << "a key that only reads sees no values";
}

TEST_F(ApplyPlanTest, caps_are_set_by_kind_and_name) {
    files.wanted.push_back({.kind = Kind::cap, .name = "org", .body = {{"max_live", 20}}});
    files.wanted.push_back({.kind = Kind::cap, .name = "provider/a b", .body = {{"max_live", 4}}});
    state.caps.push_back({{"kind", "org"}, {"name", ""}, {"max_live", 20}, {"live", 3}});

    EXPECT_EQ(steps(plan()), "= cap org\n+ cap provider/a b\n");
    EXPECT_EQ(requests(plan()), "PUT /v1/caps/provider/a%20b\n");
}

// ---- the command --------------------------------------------------------------------------------------------------

class ApplyTest : public CliTest {
 protected:
    ApplyTest() {
        context.output.in = std::tmpfile();  // No person to ask.
        std::ofstream(directory() + "/coder.yaml") << "command: claude -p\ntimeout: 30m\n";
        server.answers(200, R"({"items":[],"next":null})");
    }
    ~ApplyTest() override { std::fclose(context.output.in); }

    ExitCode apply(const std::vector<std::string>& flags) {
        Invocation invocation{.arguments = {directory()}};
        for (const std::string& flag : flags) invocation.flags[flag] = {"true"};
        return run({"apply"}, invocation);
    }
    std::string changes() const {
        std::string all;
        for (const HttpRequest& request : server.seen) {
            if (request.method != "GET") all += request.method + " " + request.target + "\n";
        }
        return all;
    }
};

TEST_F(ApplyTest, shows_the_plan_and_carries_it_out) {
    EXPECT_EQ(apply({"yes"}), ExitCode::ok);

    EXPECT_EQ(changes(), "PUT /v1/agents/coder\n");
    EXPECT_EQ(out.text(), "+ agent coder\n    command: claude -p\n    timeout_s: 1800\n");
    EXPECT_NE(err.text().find("applied: 1 created, 0 changed, 0 removed"), std::string::npos) << err.text();
}

TEST_F(ApplyTest, a_dry_run_changes_nothing) {
    EXPECT_EQ(apply({"dry-run"}), ExitCode::ok);

    EXPECT_EQ(changes(), "");
    EXPECT_NE(err.text().find("1 to create; nothing was applied"), std::string::npos) << err.text();
}

TEST_F(ApplyTest, where_nobody_can_be_asked_it_has_to_be_said) {
    EXPECT_EQ(apply({}), ExitCode::bad_usage);

    EXPECT_EQ(changes(), "");
    EXPECT_NE(err.text().find("pass --yes"), std::string::npos) << err.text();
}

TEST_F(ApplyTest, mistakes_are_shown_before_the_server_is_asked_anything) {
    std::ofstream(directory() + "/coder.yaml") << "comand: claude -p\ntimeout: soon\n";

    EXPECT_EQ(apply({"yes"}), ExitCode::bad_usage);

    EXPECT_TRUE(server.seen.empty());
    EXPECT_NE(err.text().find("/coder.yaml:1:1: an agent has no 'comand'\n    did you mean 'command'?\n"),
              std::string::npos)
        << err.text();
    EXPECT_NE(err.text().find("2 mistakes in 1 file; nothing was applied"), std::string::npos) << err.text();
}

TEST_F(ApplyTest, mistakes_and_plans_are_json_for_programs) {
    context.settings.json = true;
    EXPECT_EQ(apply({"dry-run"}), ExitCode::ok);
    const json::value plan = json::parse(out.text());
    EXPECT_EQ(plan.at("applied"), false);
    EXPECT_EQ(plan.at("counts").at("create"), 1);
    EXPECT_EQ(plan.at("steps").at(0).at("name"), "coder");

    std::ofstream(directory() + "/coder.yaml") << "comand: x\n";
    EXPECT_EQ(apply({"yes"}), ExitCode::bad_usage);
    const json::value wrong = json::parse(err.text());
    EXPECT_EQ(wrong.at("mistakes").at(0).at("line"), 1);
    EXPECT_EQ(wrong.at("mistakes").at(0).at("hint"), "did you mean 'command'?");
}

TEST_F(ApplyTest, a_failure_on_the_way_says_how_far_it_went) {
    std::ofstream(directory() + "/writer.yaml") << "command: y\n";
    server.replies.clear();
    for (int i = 0; i < 4; ++i) server.answers(200, R"({"items":[],"next":null})");
    server.answers(200, "{}");
    server.answers(422, R"({"code":"too_many","detail":"No more agents."})");

    EXPECT_EQ(apply({"yes"}), ExitCode::refused);

    EXPECT_NE(err.text().find("agent writer: No more agents."), std::string::npos) << err.text();
    EXPECT_NE(err.text().find("1 of 2 requests succeeded; apply again to continue"), std::string::npos);
}

TEST_F(ApplyTest, a_directory_without_agents_is_probably_the_wrong_one) {
    std::filesystem::remove(directory() + "/coder.yaml");
    EXPECT_EQ(apply({"yes"}), ExitCode::bad_usage);
    EXPECT_NE(err.text().find("no agents in"), std::string::npos);
    EXPECT_TRUE(server.seen.empty());

    Invocation elsewhere{.arguments = {directory() + "/nowhere"}};
    EXPECT_EQ(run({"apply"}, elsewhere), ExitCode::bad_usage);
}

}  // namespace
}  // namespace interlock::cli
