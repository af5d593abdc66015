#include "cli/client.h"

#include "cli/cli_test_support.h"

namespace interlock::cli {
namespace {

constexpr const char* unknown = R"({"code":"outcome_unknown","detail":"The store did not answer."})";
constexpr const char* busy = R"({"code":"busy","detail":"Too much at once."})";

class ClientTest : public CliTest {
 protected:
    ApiClient client{
        server.dial("http://fake"), server.world(), {.key = "ilk_a_b", .timeout = std::chrono::seconds(10)}};
    Change charge{.method = "POST", .target = "/v1/charges", .body = "{}", .key = "call-17"};
};

TEST_F(ClientTest, a_change_carries_its_key_and_who_asks) {
    server.answers(201, R"({"status":"charged"})");

    const auto answer = client.change(charge);

    ASSERT_TRUE(answer);
    EXPECT_EQ(header_of(server.seen.at(0), "Idempotency-Key"), "call-17");
    EXPECT_EQ(header_of(server.seen.at(0), "Authorization"), "Bearer ilk_a_b");
    EXPECT_EQ(header_of(server.seen.at(0), "Content-Type"), "application/json");
}

TEST_F(ClientTest, an_unknown_outcome_is_asked_for_again_with_the_same_key) {
    server.answers(503, unknown);
    server.fails(TransportError::Kind::reply_lost);
    server.answers(201, R"({"status":"charged","repeated":true})");

    const auto answer = client.change(charge);

    ASSERT_TRUE(answer);
    ASSERT_EQ(server.seen.size(), 3u);
    for (const HttpRequest& request : server.seen) EXPECT_EQ(header_of(request, "Idempotency-Key"), "call-17");
    EXPECT_EQ(server.seen[0].body, server.seen[2].body);
}

TEST_F(ClientTest, an_outcome_that_stays_unknown_names_the_key_and_keeps_the_deadline) {
    server.answers(503, unknown);

    const auto answer = client.change(charge);

    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().exit, ExitCode::outcome_unknown);
    EXPECT_NE(answer.error().hint.find("--idempotency-key call-17"), std::string::npos);
    EXPECT_LE(server.now, noon + std::chrono::seconds(10));
    EXPECT_GT(server.seen.size(), 3u);
}

TEST_F(ClientTest, a_server_that_vanishes_after_an_unknown_outcome_leaves_it_unknown) {
    server.answers(503, unknown);
    server.fails(TransportError::Kind::not_reachable);

    EXPECT_EQ(client.change(charge).error().exit, ExitCode::outcome_unknown);
}

TEST_F(ClientTest, a_busy_server_after_an_unknown_outcome_leaves_it_unknown) {
    server.answers(503, unknown);
    server.answers(503, busy);

    EXPECT_EQ(client.change(charge).error().exit, ExitCode::outcome_unknown);
}

TEST_F(ClientTest, a_busy_server_is_waited_for_as_long_as_it_says) {
    server.answers(503, busy, {{"Retry-After", "1"}});
    server.answers(201, "{}");

    ASSERT_TRUE(client.change(charge));
    EXPECT_EQ(server.slept.at(0), std::chrono::seconds(1));
}

TEST_F(ClientTest, a_server_that_stays_busy_did_nothing) {
    server.answers(503, busy);

    EXPECT_EQ(client.change(charge).error().exit, ExitCode::busy);
}

TEST_F(ClientTest, a_server_that_breaks_down_is_not_asked_again_and_the_outcome_is_unknown) {
    server.answers(500, R"({"code":"internal","detail":"A contradiction."})");

    EXPECT_EQ(client.change(charge).error().exit, ExitCode::outcome_unknown);
    EXPECT_EQ(server.seen.size(), 1u);
}

TEST_F(ClientTest, no_server_is_no_reason_to_wait) {
    server.fails(TransportError::Kind::not_reachable);

    EXPECT_EQ(client.change(charge).error().exit, ExitCode::not_reachable);
    EXPECT_TRUE(server.slept.empty());
}

TEST_F(ClientTest, refusals_end_as_documented) {
    const std::vector<std::pair<int, ExitCode>> table{
        {400, ExitCode::bad_usage},     {401, ExitCode::not_permitted}, {402, ExitCode::refused},
        {403, ExitCode::not_permitted}, {404, ExitCode::not_found},     {405, ExitCode::bad_usage},
        {409, ExitCode::refused},       {413, ExitCode::bad_usage},     {422, ExitCode::refused}};
    for (const auto& [status, exit] : table) {
        EXPECT_EQ(failure_of({.status = status, .headers = {}, .body = "{}"}, Asked::changing).exit, exit) << status;
    }
}

TEST_F(ClientTest, a_hint_is_filled_from_the_problem_or_left_out) {
    const auto hint = [](std::string body) {
        return failure_of({.status = 402, .headers = {}, .body = std::move(body)}, Asked::changing).hint;
    };

    EXPECT_NE(hint(R"({"code":"budget_exceeded","budget":"daily"})").find("budgets show daily"), std::string::npos);
    EXPECT_EQ(hint(R"({"code":"budget_exceeded"})"), "");
}

TEST_F(ClientTest, an_answer_that_is_no_problem_document_is_still_explained) {
    const Failure failure = failure_of({.status = 404, .headers = {}, .body = "<html>"}, Asked::reading);

    EXPECT_NE(failure.detail.find("404"), std::string::npos);
}

TEST_F(ClientTest, a_list_follows_cursors_to_the_end) {
    server.answers(200, R"({"items":[1,2],"next":"c1"})");
    server.answers(200, R"({"items":[3],"next":"c 2"})");
    server.answers(200, R"({"items":[4],"next":null})");

    const auto answer = client.list({.target = "/v1/runs?agent=coder", .all = true});

    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->response.body, R"({"items":[1,2,3,4],"next":null})");
    EXPECT_EQ(server.seen.at(0).target, "/v1/runs?agent=coder&limit=1000");
    EXPECT_EQ(server.seen.at(2).target, "/v1/runs?agent=coder&limit=1000&after=c%202");
}

TEST_F(ClientTest, a_page_without_items_may_have_others_behind_it) {
    server.answers(200, R"({"items":[],"next":"a"})");
    server.answers(200, R"({"items":[{"id":1}],"next":null})");

    const auto answer = client.list({.target = "/v1/sessions?q=x", .all = true});

    ASSERT_TRUE(answer);
    EXPECT_EQ(server.seen.size(), 2u);
    EXPECT_EQ(answer->response.body, R"({"items":[{"id":1}],"next":null})");
}

TEST_F(ClientTest, a_list_stops_at_what_was_asked_for) {
    server.answers(200, R"({"items":[1,2],"next":"c1"})");

    const auto few = client.list({.target = "/v1/runs", .items_max = 2});

    ASSERT_TRUE(few);
    EXPECT_EQ(server.seen.size(), 1u);
    EXPECT_EQ(server.seen.at(0).target, "/v1/runs?limit=2");
    EXPECT_EQ(few->response.body, R"({"items":[1,2],"next":"c1"})");
}

TEST_F(ClientTest, a_limit_beyond_a_page_asks_for_the_rest_and_no_more) {
    std::string thousand = "1";
    for (int i = 1; i < 1000; ++i) thousand += ",1";
    server.answers(200, R"({"items":[)" + thousand + R"(],"next":"c1"})");
    server.answers(200, R"({"items":[2,2],"next":"c2"})");

    const auto answer = client.list({.target = "/v1/runs", .items_max = 1002});

    ASSERT_TRUE(answer);
    EXPECT_EQ(server.seen.at(0).target, "/v1/runs?limit=1000");
    EXPECT_EQ(server.seen.at(1).target, "/v1/runs?limit=2&after=c1");
    EXPECT_EQ(answer->document.at("items").as_array().size(), 1002u);
    EXPECT_EQ(text_of(member_of(answer->document, "next")), "c2");
}

TEST_F(ClientTest, the_feed_ends_at_its_head_although_it_always_has_a_cursor) {
    server.answers(200, R"({"items":[1],"next":7,"head":9})");
    server.answers(200, R"({"items":[2],"next":9,"head":9})");

    const auto answer = client.list({.target = "/v1/events", .all = true});

    ASSERT_TRUE(answer);
    EXPECT_EQ(server.seen.size(), 2u);
}

TEST_F(ClientTest, a_follower_goes_on_behind_the_last_event_it_saw) {
    server.answers(200, "id: 4\nevent: charged\ndata: {\"seq\":4}\n\n: keep-alive\n\n");
    server.fails(TransportError::Kind::reply_lost);
    server.answers(200, "id: 5\ndata: {\"seq\":5}\n\n");
    std::vector<std::string> seen;

    const auto ended = client.follow("/v1/events", "3", [&](const net::SseEvent& event) {
        seen.push_back(event.data);
        return seen.size() < 2;
    });

    ASSERT_TRUE(ended);
    EXPECT_EQ(seen, (std::vector<std::string>{R"({"seq":4})", R"({"seq":5})"}));
    EXPECT_EQ(header_of(server.seen.at(0), "Last-Event-ID"), "3");
    EXPECT_EQ(header_of(server.seen.at(2), "Last-Event-ID"), "4");
    EXPECT_EQ(header_of(server.seen.at(0), "Accept"), "text/event-stream");
}

TEST_F(ClientTest, a_follower_that_is_refused_does_not_try_again) {
    server.answers(404, R"({"code":"not_found","detail":"There is no such session."})");

    EXPECT_EQ(client.follow("/v1/sessions/x/tail", "", [](const net::SseEvent&) { return true; }).error().exit,
              ExitCode::not_found);
}

TEST_F(ClientTest, names_are_encoded_in_paths_and_queries) {
    EXPECT_EQ(percent_encoded("a b/ü"), "a%20b%2F%C3%BC");
    EXPECT_EQ(with_query("/v1/runs", "agent", "a&b"), "/v1/runs?agent=a%26b");
}

}  // namespace
}  // namespace interlock::cli
