// The commands' connection against a real server on the loopback interface.
#include <gtest/gtest.h>

#include "base/log.h"
#include "cli/client.h"
#include "net/http_server.h"

namespace interlock::cli {
namespace {

net::Task<net::Response> answer(net::Request request) {
    net::Response response;
    response.content_type = "text/event-stream";
    if (request.path == "/v1/events") {
        response.stream = [](net::StreamWriter& writer) -> net::Task<void> {
            const bool first = co_await writer.write("id: 1\ndata: one\n\nid: 2\nda");
            if (first) co_await writer.write("ta: two\n\n");
        };
        co_return response;
    }
    if (request.path == "/v1/none") co_return net::problem(404, "not_found", "There is nothing.");
    response.content_type = "application/json";
    response.status = request.method == net::Method::post ? 201 : 200;
    response.body = "{\"target\":\"" + request.target + "\",\"key\":\"" +
                    std::string(request.header("idempotency-key")) + "\",\"auth\":\"" +
                    std::string(request.header("authorization")) +
                    "\",\"body\":" + (request.body.empty() ? "null" : request.body) + "}";
    co_return response;
}

class HttpTransportTest : public testing::Test {
 protected:
    HttpTransportTest() {
        const auto started = server.start();
        EXPECT_TRUE(started);
        url = "http://127.0.0.1:" + std::to_string(started.value_or(0));
    }
    ApiClient client(const std::string& where) {
        return ApiClient(http_transport(where, std::chrono::seconds(5)), real_world(),
                         {.key = "ilk_a_b", .timeout = std::chrono::seconds(5)});
    }

    Log log{{.clock = [] { return Instant(); }, .write = [](std::string_view) {}}};
    net::HttpServer server{{.threads = 1}, answer, log};
    std::string url;
};

TEST_F(HttpTransportTest, requests_arrive_as_they_were_made) {
    const auto got = client(url).get("/v1/runs?agent=coder");
    ASSERT_TRUE(got) << got.error().detail;
    EXPECT_EQ(got->response.body, R"({"target":"/v1/runs?agent=coder","key":"","auth":"Bearer ilk_a_b","body":null})");
    EXPECT_FALSE(got->response.header("Date").empty());

    const auto changed =
        client(url).change({.method = "POST", .target = "/v1/runs", .body = R"({"a":1})", .key = "k1"});
    ASSERT_TRUE(changed) << changed.error().detail;
    EXPECT_EQ(changed->response.status, 201);
    EXPECT_EQ(changed->response.body, R"({"target":"/v1/runs","key":"k1","auth":"Bearer ilk_a_b","body":{"a":1}})");
}

TEST_F(HttpTransportTest, a_server_may_live_below_a_path) {
    const auto got = client(url + "/interlock").get("/v1/runs");
    ASSERT_TRUE(got);
    EXPECT_NE(got->response.body.find("\"target\":\"/interlock/v1/runs\""), std::string::npos);
}

TEST_F(HttpTransportTest, problems_are_read) {
    const auto got = client(url).get("/v1/none");
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().exit, ExitCode::not_found);
    EXPECT_EQ(got.error().detail, "There is nothing.");
}

TEST_F(HttpTransportTest, events_arrive_in_whatever_pieces_they_were_sent) {
    std::vector<std::string> seen;

    const auto ended = client(url).follow("/v1/events", "", [&](const net::SseEvent& event) {
        seen.push_back(event.data);
        return seen.size() < 2;
    });

    ASSERT_TRUE(ended) << ended.error().detail;
    EXPECT_EQ(seen, (std::vector<std::string>{"one", "two"}));
}

TEST_F(HttpTransportTest, nobody_at_the_address_is_not_reachable) {
    server.drain(std::chrono::seconds(1));

    EXPECT_EQ(client(url).get("/v1/status").error().exit, ExitCode::not_reachable);
    EXPECT_EQ(client("http://:x").get("/v1/status").error().exit, ExitCode::not_reachable);
}

}  // namespace
}  // namespace interlock::cli
