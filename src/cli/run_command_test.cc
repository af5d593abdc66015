#include <boost/json.hpp>

#include "cli/cli_test_support.h"

namespace interlock::cli {
namespace {

namespace json = boost::json;

class RunCommandTest : public CliTest {
 protected:
    RunCommandTest() {
        context.environment.url.clear();
        context.environment.data_dir = directory();
        context.world.start_server = [this](const std::string& data_dir, const CliOutput&) -> Outcome<void> {
            started.push_back(data_dir);
            put_server_file();
            return {};
        };
        context.world.become_shim = [this](const Platform::Shim& shim) {
            become = shim;
            return Failure{.detail = "it is only a test"};
        };
    }
    void put_server_file() {
        std::FILE* file = std::fopen((directory() + "/server.json").c_str(), "w");
        std::fputs(R"({"url":"http://fake","pid":1})", file);
        std::fclose(file);
    }
    json::object sent(std::size_t which) { return json::parse(server.seen.at(which).body).as_object(); }

    void admits(const std::string& more = "") {
        server.answers(200, R"({"version":"0.1.0"})");
        server.answers(200, R"({"name":"default","workspace":""})");
        server.answers(201, R"({"id":"run_1","fence":7,"status":"starting")" + more + "}");
        server.answers(200, "{}");
    }

    std::vector<std::string> started;
    std::optional<Platform::Shim> become;
};

TEST_F(RunCommandTest, a_command_is_asked_for_with_the_current_directory_and_handed_over) {
    put_server_file();
    admits(
        R"(,"shim_secret":"s3cret","command":["/usr/bin/claude","-p"],"process":{"pass_env":["MINE"],"adapter":""})");
    context.environment.variables = {"PATH=/bin", "MINE=1", "SECRET=2", "ANTHROPIC_API_KEY=k", "INTERLOCK_KEY=x"};

    run({"run"}, {.arguments = {"/usr/bin/claude", "-p"}, .flags = {{"env", {"MINE", "A=b=c"}}}});

    const json::object body = sent(2);
    EXPECT_EQ(server.seen.at(2).target, "/v1/runs");
    EXPECT_EQ(body.at("agent").as_string(), "default");
    EXPECT_EQ(body.at("foreground").as_bool(), true);
    EXPECT_EQ(body.at("workspace").as_string(), std::filesystem::current_path().string());
    EXPECT_EQ(body.at("env").as_object().at("A").as_string(), "b=c");
    EXPECT_EQ(body.at("pass_env").as_array().at(0).as_string(), "MINE");
    ASSERT_TRUE(become);
    EXPECT_EQ(become->data_dir, directory());
    EXPECT_EQ(become->run, "run_1");
    EXPECT_EQ(become->secret, "s3cret");
    EXPECT_EQ(become->environment, (std::vector<std::string>{"PATH=/bin", "MINE=1", "ANTHROPIC_API_KEY=k"}));
    EXPECT_TRUE(started.empty());
}

TEST_F(RunCommandTest, what_cannot_be_held_gives_its_place_back) {
    put_server_file();
    admits();

    EXPECT_EQ(run({"run"}, {.arguments = {"true"}}), ExitCode::refused);

    EXPECT_EQ(server.seen.at(3).target, "/v1/runs/run_1/cancel");
    EXPECT_EQ(sent(3).at("fence").as_int64(), 7);
    EXPECT_NE(err.text().find("only a test"), std::string::npos);
}

TEST_F(RunCommandTest, where_no_server_is_up_one_is_started_and_said_so) {
    admits();
    server.replies.pop_front();

    run({"run"}, {.arguments = {"true"}});

    EXPECT_EQ(started, std::vector{directory()});
    EXPECT_NE(err.text().find("starting one"), std::string::npos);
    EXPECT_TRUE(become);
}

TEST_F(RunCommandTest, the_agent_of_nobody_in_particular_is_made_and_any_other_must_be_there) {
    put_server_file();
    server.answers(200, "{}");
    server.answers(404, R"({"code":"not_found","detail":"No.","what":"agent"})");
    server.answers(200, R"({"name":"default"})");
    server.answers(201, R"({"id":"run_1","fence":7})");
    run({"run"}, {.arguments = {"true"}, .flags = {{"detach", {"true"}}}});
    EXPECT_EQ(server.seen.at(2).method, "PUT");
    EXPECT_EQ(server.seen.at(2).target, "/v1/agents/default");
    EXPECT_EQ(sent(2).at("max_concurrent_runs").as_int64(), 100);

    server.replies.clear();
    server.answers(200, "{}");
    server.answers(404, R"({"code":"not_found","detail":"No.","what":"agent"})");
    EXPECT_EQ(run({"run"}, {.arguments = {"true"}, .flags = {{"agent", {"x"}}}}), ExitCode::not_found);
}

TEST_F(RunCommandTest, an_agent_that_has_a_place_works_there) {
    put_server_file();
    server.answers(200, "{}");
    server.answers(200, R"({"name":"coder","workspace":"/src/shop"})");
    server.answers(201, R"({"id":"run_1","status":"queued","waits_for":"workspace","queue_position":2})");

    EXPECT_EQ(run({"run"}, {.flags = {{"agent", {"coder"}}, {"detach", {"true"}}, {"retries", {"2"}}}}), ExitCode::ok);

    EXPECT_FALSE(sent(2).contains("workspace"));
    EXPECT_FALSE(sent(2).contains("command"));
    EXPECT_EQ(sent(2).at("foreground").as_bool(), false);
    EXPECT_EQ(sent(2).at("retry").as_object().at("max_attempts").as_int64(), 3);
    EXPECT_EQ(out.text(), "run_1\n");
    EXPECT_NE(err.text().find("queued at position 2, waits for workspace"), std::string::npos);
    EXPECT_NE(err.text().find("interlock runs attach run_1"), std::string::npos);
}

TEST_F(RunCommandTest, no_place_and_a_place_that_is_read_are_said) {
    put_server_file();
    admits();

    run({"run"}, {.arguments = {"true"}, .flags = {{"no-workspace", {"true"}}, {"read", {"true"}}}});

    EXPECT_EQ(sent(2).at("workspace").as_string(), "");
    EXPECT_EQ(sent(2).at("mode").as_string(), "read");
}

TEST_F(RunCommandTest, a_server_elsewhere_starts_what_is_detached_and_nothing_in_this_terminal) {
    context.environment.url = "http://elsewhere";
    EXPECT_EQ(run({"run"}, {.arguments = {"true"}}), ExitCode::bad_usage);
    EXPECT_NE(err.text().find("--detach"), std::string::npos);
    EXPECT_TRUE(server.seen.empty());

    server.answers(200, "{}");
    server.answers(201, R"({"id":"run_1"})");
    EXPECT_EQ(run({"run"}, {.arguments = {"true"}, .flags = {{"detach", {"true"}}}}), ExitCode::ok);
    EXPECT_EQ(server.dialled.back(), "http://elsewhere");
}

TEST_F(RunCommandTest, a_refusal_is_a_sentence_and_nothing_is_handed_over) {
    put_server_file();
    server.answers(200, "{}");
    server.answers(200, "{}");
    server.answers(409, R"({"code":"workspace_busy","detail":"'/a' is taken.","holder":{"run":"run_9"}})");

    EXPECT_EQ(run({"run"}, {.arguments = {"true"}}), ExitCode::refused);

    EXPECT_NE(err.text().find("--on-conflict queue"), std::string::npos);
    EXPECT_FALSE(become);
}

TEST_F(RunCommandTest, what_cannot_be_meant_is_refused_before_anything_is_sent) {
    put_server_file();
    const auto refused = [&](Invocation invocation) { return run({"run"}, invocation) == ExitCode::bad_usage; };

    EXPECT_TRUE(refused({.flags = {{"env", {"=x"}}}}));
    EXPECT_TRUE(refused({.flags = {{"retries", {"2"}}}}));
    EXPECT_TRUE(refused({.flags = {{"max-attempts", {"2"}}}}));
    EXPECT_TRUE(refused({.flags = {{"max-attempts", {"2"}}, {"retries", {"2"}}, {"detach", {"true"}}}}));
    EXPECT_TRUE(refused({.flags = {{"timeout", {"soon"}}}}));
    EXPECT_TRUE(refused({.flags = {{"limit", {"nofile=many"}}}}));
    EXPECT_TRUE(refused({.flags = {{"workspace", {"/a"}}, {"no-workspace", {"true"}}}}));
    EXPECT_TRUE(server.seen.empty());
}

}  // namespace
}  // namespace interlock::cli
