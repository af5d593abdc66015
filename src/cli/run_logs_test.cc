#include "cli/cli_test_support.h"

namespace interlock::cli {
namespace {

class RunLogsTest : public CliTest {
 protected:
    struct Says {
        std::string bytes;
        std::int64_t offset = 0;
        std::int64_t end = -1;  // -1: right behind the bytes.
        bool ended = false;
    };
    void log(const Says& says) {
        const auto next = says.offset + static_cast<std::int64_t>(says.bytes.size());
        server.answers(200, says.bytes,
                       {{"x-interlock-log-offset", std::to_string(says.offset)},
                        {"x-interlock-log-next", std::to_string(next)},
                        {"x-interlock-log-end", std::to_string(says.end < 0 ? next : says.end)},
                        {"x-interlock-run-ended", says.ended ? "true" : "false"}});
    }
};

TEST_F(RunLogsTest, a_log_is_printed_byte_for_byte_up_to_its_end) {
    log({.bytes = "one\n\x1b[31m\xff", .end = 12});
    log({.bytes = "\r\n", .offset = 10});

    EXPECT_EQ(run({"runs", "logs"}, {.arguments = {"run_1"}}), ExitCode::ok);

    EXPECT_EQ(out.text(), "one\n\x1b[31m\xff\r\n");
    EXPECT_EQ(server.seen.at(0).target, "/v1/runs/run_1/log?offset=0&limit=1048576");
    EXPECT_EQ(server.seen.at(1).target, "/v1/runs/run_1/log?offset=10&limit=1048576");
    EXPECT_EQ(server.seen.size(), 2u);
}

TEST_F(RunLogsTest, who_follows_waits_for_more_until_the_run_has_ended) {
    log({.bytes = "a"});
    log({.bytes = "", .offset = 1});
    log({.bytes = "b", .offset = 1, .end = 3, .ended = true});
    log({.bytes = "c", .offset = 2, .ended = true});

    EXPECT_EQ(run({"runs", "logs"}, {.arguments = {"run_1"}, .flags = {{"follow", {"true"}}}}), ExitCode::ok);

    EXPECT_EQ(out.text(), "abc");
    EXPECT_EQ(server.seen.size(), 4u);
    EXPECT_NE(server.seen.at(1).target.find("offset=1&limit=1048576&wait=15"), std::string::npos);
}

TEST_F(RunLogsTest, a_server_that_restarts_is_waited_for_and_nothing_is_printed_twice) {
    log({.bytes = "a"});
    server.fails(TransportError::Kind::reply_lost);
    server.fails(TransportError::Kind::not_reachable);
    log({.bytes = "b", .offset = 1, .ended = true});

    EXPECT_EQ(run({"runs", "logs"}, {.arguments = {"run_1"}, .flags = {{"follow", {"true"}}}}), ExitCode::ok);

    EXPECT_EQ(out.text(), "ab");
    EXPECT_EQ(server.slept.size(), 2u);
    EXPECT_NE(server.seen.back().target.find("offset=1&"), std::string::npos);
}

TEST_F(RunLogsTest, a_server_that_never_was_there_is_not_waited_for) {
    server.fails(TransportError::Kind::not_reachable);

    EXPECT_EQ(run({"runs", "logs"}, {.arguments = {"run_1"}, .flags = {{"follow", {"true"}}}}),
              ExitCode::not_reachable);
}

TEST_F(RunLogsTest, what_was_given_up_is_said_beside_the_log) {
    log({.bytes = "a", .end = 2000});
    log({.bytes = "b", .offset = 1999});

    EXPECT_EQ(run({"runs", "logs"}, {.arguments = {"run_1"}}), ExitCode::ok);

    EXPECT_EQ(out.text(), "ab");
    EXPECT_NE(err.text().find("given up"), std::string::npos);
}

TEST_F(RunLogsTest, the_last_lines_are_counted_from_the_end) {
    log({.bytes = "one\ntwo\nthree\n", .offset = 100, .ended = true});
    log({.bytes = "two\nthree\n", .offset = 104, .ended = true});

    EXPECT_EQ(run({"runs", "logs"}, {.arguments = {"run_1"}, .flags = {{"tail", {"2"}}}}), ExitCode::ok);

    EXPECT_NE(server.seen.at(0).target.find("offset=-1048576"), std::string::npos);
    EXPECT_NE(server.seen.at(1).target.find("offset=104&"), std::string::npos);
    EXPECT_EQ(out.text(), "two\nthree\n");
}

TEST_F(RunLogsTest, a_log_that_nobody_kept_is_an_error) {
    server.answers(404, R"({"code":"log_not_kept","detail":"It went to a terminal."})");

    EXPECT_EQ(run({"runs", "logs"}, {.arguments = {"run_1"}}), ExitCode::not_found);
    EXPECT_EQ(run({"runs", "logs"}, {.arguments = {"run_1"}, .flags = {{"tail", {"-2"}}}}), ExitCode::bad_usage);
}

TEST_F(RunLogsTest, who_attaches_sees_what_comes_and_ends_as_the_run_does) {
    log({.bytes = "x", .offset = 41});
    log({.bytes = "new", .offset = 42, .ended = true});
    server.answers(200, R"({"id":"run_1","status":"failed","exit_code":17,"spent":"0.42","reason":"exit code 17",
        "started_at":"2026-11-15T11:00:00Z","ended_at":"2026-11-15T11:03:00Z"})");

    EXPECT_EQ(static_cast<int>(run({"runs", "attach"}, {.arguments = {"run_1"}})), 17);

    EXPECT_EQ(out.text(), "new");
    EXPECT_NE(server.seen.at(1).target.find("offset=42&"), std::string::npos);
    EXPECT_EQ(err.text(), "run_1 failed after 3 min (exit code 17); $0.42 spent\n");
}

TEST_F(RunLogsTest, several_runs_are_stopped_though_one_cannot_be) {
    server.answers(404, R"({"code":"not_found","detail":"No.","what":"run"})");
    server.answers(409, R"({"code":"run_ended","detail":"It has ended."})");
    server.answers(200, R"({"id":"run_3","status":"running","stop_requested":"cancelled"})");

    EXPECT_EQ(run({"runs", "stop"}, {.arguments = {"run_1", "run_2", "run_3"}, .flags = {{"reason", {"why"}}}}),
              ExitCode::not_found);

    EXPECT_EQ(server.seen.at(2).target, "/v1/runs/run_3/cancel");
    EXPECT_EQ(server.seen.at(2).body, R"({"reason":"why"})");
    EXPECT_NE(err.text().find("run_2 has already ended\nrun_3 was asked to stop\n"), std::string::npos);
    EXPECT_EQ(run({"runs", "stop"}), ExitCode::bad_usage);
}

TEST_F(RunLogsTest, cancel_tries_every_run_and_refuses_one_that_has_ended) {
    server.answers(200, R"({"id":"run_1","status":"cancelled"})");
    server.answers(409, R"({"code":"run_ended","detail":"It has ended."})");

    EXPECT_EQ(run({"runs", "cancel"}, {.arguments = {"run_1", "run_2"}, .flags = {{"fence", {"3"}}}}),
              ExitCode::refused);

    EXPECT_EQ(server.seen.at(0).target, "/v1/runs/run_1/cancel");
    EXPECT_EQ(server.seen.at(0).body, R"({"fence":3})");
    EXPECT_EQ(server.seen.at(1).target, "/v1/runs/run_2/cancel");
    EXPECT_NE(err.text().find("run_1 was queued and is cancelled\n"), std::string::npos) << err.text();
}

TEST_F(RunLogsTest, an_idempotency_key_cancels_one_run) {
    const std::map<std::string, std::vector<std::string>> flags{{"idempotency-key", {"k"}}};
    EXPECT_EQ(run({"runs", "cancel"}, {.arguments = {"run_1", "run_2"}, .flags = flags}), ExitCode::bad_usage);
    EXPECT_TRUE(server.seen.empty());
    server.answers(200, R"({"id":"run_1","status":"running"})");
    EXPECT_EQ(run({"runs", "cancel"}, {.arguments = {"run_1"}, .flags = flags}), ExitCode::ok);
}

TEST_F(RunLogsTest, who_waits_hears_how_it_ended) {
    server.answers(200, R"({"id":"run_1","status":"running"})");
    server.answers(200, R"({"id":"run_1","status":"running","ended_at":null})");
    server.answers(200, R"({"id":"run_1","status":"cancelled","ended_at":"2026-11-15T11:03:00Z","spent":"0.00"})");

    EXPECT_EQ(run({"runs", "stop"}, {.arguments = {"run_1"}, .flags = {{"wait", {"true"}}}}), ExitCode::ok);

    EXPECT_EQ(server.slept.size(), 1u);
    EXPECT_EQ(err.text(), "run_1 cancelled; $0.00 spent\n");
}

}  // namespace
}  // namespace interlock::cli
