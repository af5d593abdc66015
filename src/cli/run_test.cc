
#include "cli/bench.h"
#include "cli/cli_test_support.h"

namespace interlock::cli {
namespace {

using RunTest = CliTest;

TEST_F(RunTest, a_list_is_a_table_on_the_output_and_nothing_else) {
    server.answers(200, R"({"items":[{"kind":"org","name":"default","max_live":20,"live":3}],"next":null})");

    EXPECT_EQ(run({"caps", "ls"}), ExitCode::ok);

    EXPECT_EQ(out.text(), "KIND  NAME     LIVE  MAX\norg   default     3   20\n");
    EXPECT_EQ(err.text(), "");
}

TEST_F(RunTest, an_empty_list_prints_no_data_and_says_what_to_do_next) {
    server.answers(200, R"({"items":[],"next":null})");

    EXPECT_EQ(run({"agents", "ls"}), ExitCode::ok);

    EXPECT_EQ(out.text(), "");
    EXPECT_NE(err.text().find("interlock agents put NAME"), std::string::npos);
}

TEST_F(RunTest, a_filter_that_matches_nothing_does_not_pretend_that_there_is_nothing) {
    server.answers(200, R"({"items":[],"next":null})");

    EXPECT_EQ(run({"runs", "ls"}, {.flags = {{"agent", {"coder"}}}}), ExitCode::ok);

    EXPECT_EQ(err.text(), "No matches.\n");
}

TEST_F(RunTest, an_empty_page_with_more_behind_it_says_so) {
    server.answers(200, R"({"items":[],"next":"ses_1"})");

    EXPECT_EQ(run({"sessions", "ls"}, {.flags = {{"search", {"x"}}}}), ExitCode::ok);

    EXPECT_EQ(server.seen.at(0).target, "/v1/sessions?q=x");
    EXPECT_NE(err.text().find("--all"), std::string::npos) << err.text();
}

TEST_F(RunTest, the_last_verification_is_shown_with_its_time) {
    server.answers(200, R"({"at":"2026-11-15T11:00:00Z","report":{"ok":false,"violations":1,"promises":[]}})");

    EXPECT_EQ(run({"verify"}, {.flags = {{"last", {}}}}), ExitCode::refused);

    EXPECT_EQ(server.seen.at(0).target, "/v1/verify/last");
    EXPECT_NE(err.text().find("1 violations (at 2026-11-15T11:00:00Z)"), std::string::npos) << err.text();
}

TEST_F(RunTest, a_page_with_more_behind_it_says_so) {
    server.answers(200, R"({"items":[{"kind":"org"}],"next":"c1"})");

    EXPECT_EQ(run({"caps", "ls"}), ExitCode::ok);

    EXPECT_NE(err.text().find("--all"), std::string::npos);
}

TEST_F(RunTest, json_is_what_the_server_said) {
    context.settings.json = true;
    server.answers(200, R"({"items": [ ],"next":null})");

    EXPECT_EQ(run({"agents", "ls"}), ExitCode::ok);

    EXPECT_EQ(out.text(), "{\"items\": [ ],\"next\":null}\n");
    EXPECT_EQ(err.text(), "");
}

TEST_F(RunTest, quiet_prints_names_alone) {
    context.settings.quiet = true;
    server.answers(200, R"({"items":[{"name":"coder"},{"name":"reviewer"}],"next":"more"})");

    EXPECT_EQ(run({"agents", "ls"}), ExitCode::ok);

    EXPECT_EQ(out.text(), "coder\nreviewer\n");
    EXPECT_EQ(err.text(), "");
}

TEST_F(RunTest, an_error_is_a_sentence_and_a_hint_on_the_error_stream) {
    server.answers(404, R"({"code":"not_found","detail":"There is no agent 'x'.","what":"agent"})");

    EXPECT_EQ(run({"agents", "show"}, {.arguments = {"x"}}), ExitCode::not_found);

    EXPECT_EQ(out.text(), "");
    EXPECT_EQ(err.text(), "error: There is no agent 'x'.\nhint: interlock agents ls\n");
}

TEST_F(RunTest, with_json_an_error_is_the_problem_document_on_the_error_stream) {
    context.settings.json = true;
    server.answers(409, R"({"code":"agent_paused","detail":"It is paused."})");

    EXPECT_EQ(run({"agents", "show"}, {.arguments = {"x"}}), ExitCode::refused);

    EXPECT_EQ(out.text(), "");
    EXPECT_TRUE(err.text().starts_with(R"({"code":"agent_paused","detail":"It is paused.")")) << err.text();
}

TEST_F(RunTest, a_change_is_made_under_the_key_that_was_given_or_a_fresh_one) {
    server.answers(200, R"({"name":"coder"})");

    run({"agents", "resume"}, {.arguments = {"coder"}, .flags = {{"idempotency-key", {"mine"}}}});
    run({"agents", "resume"}, {.arguments = {"coder"}});

    EXPECT_EQ(header_of(server.seen.at(0), "Idempotency-Key"), "mine");
    EXPECT_EQ(header_of(server.seen.at(1), "Idempotency-Key"), "key-1");
    EXPECT_EQ(server.seen.at(0).body, "{}");
}

TEST_F(RunTest, a_removal_says_what_was_removed) {
    server.answers(204, "");

    EXPECT_EQ(run({"budgets", "rm"}, {.arguments = {"daily"}}), ExitCode::ok);

    EXPECT_EQ(out.text(), "");
    EXPECT_EQ(err.text(), "removed budget daily\n");
}

TEST_F(RunTest, a_repeat_is_told_apart) {
    server.answers(201, R"({"status":"charged","key":"k"})", {{"idempotent-replayed", "true"}});

    EXPECT_EQ(run({"charges", "add"}, {.arguments = {"coder", "0.5"}}), ExitCode::ok);

    EXPECT_NE(err.text().find("already done"), std::string::npos);
}

TEST_F(RunTest, watching_draws_until_the_server_refuses) {
    server.answers(200, R"({"version":"0.1.0"})");
    server.fails(TransportError::Kind::not_reachable);
    server.answers(200, R"({"version":"0.1.0"})");
    server.answers(401, R"({"code":"unauthorized","detail":"No."})");

    EXPECT_EQ(run({"status"}, {.flags = {{"watch", {"2"}}}}), ExitCode::not_permitted);

    EXPECT_EQ(out.text(), "version  0.1.0\nversion  0.1.0\n");
    EXPECT_EQ(server.slept.size(), 3u);
}

TEST_F(RunTest, a_server_that_is_not_there_is_not_watched) {
    server.fails(TransportError::Kind::not_reachable);

    EXPECT_EQ(run({"status"}, {.flags = {{"watch", {"2"}}}}), ExitCode::not_reachable);
}

TEST_F(RunTest, a_limit_that_is_none_is_refused_before_anything_is_sent) {
    EXPECT_EQ(run({"runs", "ls"}, {.flags = {{"limit", {"0"}}}}), ExitCode::bad_usage);
    EXPECT_EQ(run({"runs", "ls"}, {.flags = {{"limit", {"-3"}}}}), ExitCode::bad_usage);
    EXPECT_EQ(run({"runs", "ls"}, {.flags = {{"watch", {"0"}}}}), ExitCode::bad_usage);
    EXPECT_TRUE(server.seen.empty());
}

TEST_F(RunTest, a_verification_that_finds_something_ends_with_one) {
    server.answers(200, R"({"ok":false,"violations":1,"milliseconds":3,"promises":[
        {"id":"P2","title":"hard ceiling","checked":7,"checked_what":"budgets","violations":1,
         "examples":[{"row":"budget daily","what":"settled 11.00 of 10.00"}],"notes":[]}]})");

    EXPECT_EQ(run({"verify"}), ExitCode::refused);

    EXPECT_NE(out.text().find("FAILED  P2 hard ceiling"), std::string::npos) << out.text();
    EXPECT_NE(out.text().find("settled 11.00 of 10.00"), std::string::npos);
}

TEST_F(RunTest, spend_has_a_column_for_each_thing_it_is_by_and_a_total) {
    server.answers(
        200,
        R"({"items":[{"agent":"coder","cost":"12.5","events":3,"calls":3,"usage":{"input_tokens":1000}}],"total":"12.50"})");

    EXPECT_EQ(run({"spend"}), ExitCode::ok);

    EXPECT_EQ(server.seen.at(0).target, "/v1/spend?by=agent");
    EXPECT_TRUE(out.text().starts_with("AGENT    COST")) << out.text();
    EXPECT_NE(out.text().find("total  $12.50"), std::string::npos);
}

TEST_F(RunTest, spend_by_the_minute_is_another_question) {
    server.answers(200, R"({"items":[{"at":"2026-11-15T12:00:00Z","cost":"0.25"}],"total":"0.25"})");

    EXPECT_EQ(run({"spend"}, {.flags = {{"minutes", {"60"}}}}), ExitCode::ok);

    EXPECT_EQ(server.seen.at(0).target, "/v1/spend/minutes?minutes=60");
    EXPECT_TRUE(out.text().starts_with("MINUTE")) << out.text();
    EXPECT_NE(out.text().find("total"), std::string::npos);
}

TEST_F(RunTest, the_newest_events_are_looked_for_further_back_until_there_are_enough) {
    server.answers(200, R"({"items":[],"next":0,"head":500})");
    server.answers(200, R"({"items":[],"next":500,"head":500})");
    server.answers(200, R"({"items":[{"seq":310,"type":"charged","data":{"agent":"coder"}},
                                     {"seq":320,"type":"charged","data":{"agent":"coder"}}],"next":500,"head":500})");

    EXPECT_EQ(run({"events"}, {.flags = {{"limit", {"2"}}, {"type", {"charged"}}}}), ExitCode::ok);

    EXPECT_EQ(server.seen.at(1).target, "/v1/events?type=charged&limit=1000&after=498");
    EXPECT_EQ(server.seen.at(2).target, "/v1/events?type=charged&limit=1000&after=480");
    EXPECT_NE(out.text().find("320"), std::string::npos);
}

TEST_F(RunTest, followed_events_are_one_json_object_a_line) {
    context.settings.json = true;
    server.answers(200, "id: 4\ndata: {\"seq\":4}\n\nid: 5\ndata: {\"seq\":5}\n\n");
    server.answers(401, R"({"code":"unauthorized","detail":"No."})");

    EXPECT_EQ(run({"events"}, {.flags = {{"follow", {"true"}}, {"after", {"3"}}}}), ExitCode::not_permitted);

    EXPECT_EQ(out.text(), "{\"seq\":4}\n{\"seq\":5}\n");
}

TEST_F(RunTest, a_session_is_exported_to_a_new_file_or_not_at_all) {
    const std::string path = directory() + "/talk.jsonl";
    server.answers(200, "line\n");
    EXPECT_EQ(run({"sessions", "export"}, {.arguments = {"ses_1", path}}), ExitCode::ok);
    EXPECT_EQ(run({"sessions", "export"}, {.arguments = {"ses_1", path}}), ExitCode::bad_usage);

    server.replies.clear();
    server.answers(404, R"({"code":"not_found","detail":"No."})");
    EXPECT_EQ(run({"sessions", "export"}, {.arguments = {"ses_2", path + "2"}}), ExitCode::not_found);

    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
    EXPECT_FALSE(std::filesystem::exists(path + "2"));
}

TEST_F(RunTest, names_for_completion_are_silent_without_a_server) {
    server.answers(200, R"({"items":[{"name":"coder"}],"next":null})");
    EXPECT_EQ(run({"__complete"}, {.arguments = {"agents"}}), ExitCode::ok);
    EXPECT_EQ(out.text(), "coder\n");

    server.replies.clear();
    server.fails(TransportError::Kind::not_reachable);
    EXPECT_EQ(run({"__complete"}, {.arguments = {"agents"}}), ExitCode::ok);
    EXPECT_EQ(err.text(), "");
}

TEST(Bench, percentiles_are_taken_from_what_was_measured) {
    EXPECT_EQ(percentile({}, 0.5), 0);
    EXPECT_EQ(percentile({7}, 0.99), 7);
    EXPECT_EQ(percentile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.5), 6);
    EXPECT_EQ(percentile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.99), 10);
}

}  // namespace
}  // namespace interlock::cli
