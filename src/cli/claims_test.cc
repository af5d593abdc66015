#include "cli/cli_test_support.h"

namespace interlock::cli {
namespace {

class ClaimsTest : public CliTest {
 protected:
    void answers_with_claims() {
        server.answers(200, R"({"items":[{"kind":"workspace","path":"/src/app","mode":"write","agent":"coder",
            "run":"run_1","status":"running","since":"2026-11-15T11:00:00Z"}],"next":null})");
        server.answers(200, R"({"items":[{"run":"run_2","path":"/data/worktrees/run_2","state":"open","agent":"coder",
            "status":"succeeded","branch":"interlock/run_2","created_at":"2026-11-15T11:00:00Z"}],"next":null})");
    }
};

TEST_F(ClaimsTest, claims_and_worktrees_are_two_tables) {
    answers_with_claims();

    EXPECT_EQ(run({"claims", "ls"}), ExitCode::ok);

    EXPECT_TRUE(out.text().starts_with("CLAIM")) << out.text();
    EXPECT_NE(out.text().find("\n\nWORKTREE"), std::string::npos) << out.text();
}

TEST_F(ClaimsTest, as_json_both_are_one_document) {
    context.settings.json = true;
    answers_with_claims();

    EXPECT_EQ(run({"claims", "ls"}), ExitCode::ok);

    const auto document = boost::json::parse(out.text()).as_object();
    EXPECT_EQ(document.at("items").as_array().size(), 1u);
    EXPECT_EQ(document.at("worktrees").as_array().size(), 1u);
}

TEST_F(ClaimsTest, without_claims_the_hint_says_how_to_get_one) {
    server.answers(200, R"({"items":[],"next":null})");

    EXPECT_EQ(run({"claims", "ls"}), ExitCode::ok);

    EXPECT_EQ(out.text(), "");
    EXPECT_NE(err.text().find("No claims."), std::string::npos);
}

TEST_F(ClaimsTest, why_shows_the_reasons_that_keep_the_worktree_of_a_run) {
    answers_with_claims();
    server.answers(200, R"({"run":"run_2","path":"/data/worktrees/run_2","bytes":2048,"removable":false,
        "reasons":[{"keeps":"modified","detail":"a.txt differs from HEAD"}]})");

    EXPECT_EQ(run({"claims", "why"}, {.arguments = {"run_2"}}), ExitCode::ok);

    EXPECT_EQ(server.seen.at(2).target, "/v1/worktrees/run_2");
    EXPECT_NE(out.text().find("a.txt differs from HEAD"), std::string::npos) << out.text();
    EXPECT_EQ(out.text().find("/src/app"), std::string::npos) << "that is another run's";
}

TEST_F(ClaimsTest, why_shows_claims_above_and_below_a_path) {
    for (const char* path : {"/src", "/src/app", "/src/app/pages", "/"}) {
        server.replies.clear();
        answers_with_claims();
        server.answers(200, R"({"run":"run_2"})");
        EXPECT_EQ(run({"claims", "why"}, {.arguments = {path}}), ExitCode::ok) << path;
    }
    server.replies.clear();
    answers_with_claims();
    EXPECT_EQ(run({"claims", "why"}, {.arguments = {"/src/application"}}), ExitCode::not_found);
}

TEST_F(ClaimsTest, gc_removes_nothing_without_remove) {
    server.answers(200, R"({"items":[{"run":"run_2","path":"/w","action":"would_remove","reasons":[]},
        {"run":"run_3","path":"/v","action":"kept","reasons":[{"keeps":"untracked","detail":"b.txt is new"}]}]})");

    EXPECT_EQ(run({"claims", "gc"}), ExitCode::ok);

    EXPECT_EQ(server.seen.at(0).body, R"({"remove":false,"force":false,"runs":[]})");
    EXPECT_NE(out.text().find("b.txt is new"), std::string::npos) << out.text();
    EXPECT_NE(err.text().find("1 worktree removable; add --remove to remove it"), std::string::npos);
}

TEST_F(ClaimsTest, force_needs_the_names_of_runs) {
    EXPECT_EQ(run({"claims", "gc"}, {.flags = {{"force", {"true"}}, {"remove", {"true"}}}}), ExitCode::bad_usage);
    EXPECT_TRUE(server.seen.empty());

    server.answers(200, R"({"items":[{"run":"run_2","path":"/w","action":"failed","detail":"git said no"}]})");
    EXPECT_EQ(run({"claims", "gc"}, {.arguments = {"run_2"}, .flags = {{"force", {"true"}}, {"remove", {"true"}}}}),
              ExitCode::refused);
    EXPECT_EQ(server.seen.at(0).body, R"({"remove":true,"force":true,"runs":["run_2"]})");
}

}  // namespace
}  // namespace interlock::cli
