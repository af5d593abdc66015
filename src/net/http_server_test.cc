#include "net/http_server.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "net/answer.h"
#include "net/http_test_support.h"
#include "net/refused_requests.h"

namespace interlock::net {
namespace {

TEST(HttpServer, answers_a_request) {
    TestServer server;
    RawClient client(server.port);

    const auto answer = client.ask(post("/a?b=c", "hello"));

    EXPECT_EQ(status_of(answer), "HTTP/1.1 200 OK");
    EXPECT_EQ(body_of(answer), "POST /a?b=c hello");
    EXPECT_TRUE(contains(answer, "\r\nContent-Type: text/plain\r\n"));
    EXPECT_TRUE(contains(answer, "\r\nDate: "));
    EXPECT_TRUE(contains(answer, " GMT\r\n"));
}

TEST(HttpServer, refuses_and_hangs_up_on_what_could_be_understood_differently) {
    TestServer server;
    for (const RefusedRequest& refused : refused_requests()) {
        RawClient client(server.port);

        client.send(refused.text + get("/smuggled"));

        const auto all = client.receive_all();
        EXPECT_TRUE(all.starts_with("HTTP/1.1 " + std::to_string(refused.status) + " ")) << refused.what << ": " << all;
        EXPECT_TRUE(contains(all, "Connection: close")) << refused.what;
        EXPECT_TRUE(contains(all, "application/problem+json")) << refused.what;
        EXPECT_TRUE(all.ends_with("}")) << refused.what << " is answered once and not reset: " << all;
    }
    EXPECT_EQ(server.server.stats().requests, 0u);
    EXPECT_EQ(server.server.stats().requests_refused, refused_requests().size());
}

TEST(HttpServer, a_refusal_is_heard_by_a_client_that_is_still_sending) {
    TestServer server;
    for (int i = 0; i < 20; ++i) {
        RawClient client(server.port);

        client.send("GET / HTTP/9.9\r\n\r\n" + std::string(500'000, 'x'));

        EXPECT_TRUE(client.receive_all().ends_with("}"));
    }
}

TEST(HttpServer, keeps_a_connection_and_takes_requests_one_after_another) {
    TestServer server;
    RawClient client(server.port);

    EXPECT_EQ(body_of(client.ask(get("/1"))), "GET /1 ");
    EXPECT_EQ(body_of(client.ask(post("/2", "x"))), "POST /2 x");
    EXPECT_EQ(body_of(client.ask(get("/3"))), "GET /3 ");

    EXPECT_EQ(server.server.stats().connections_accepted, 1u);
    EXPECT_EQ(server.server.stats().requests, 3u);
}

TEST(HttpServer, closes_when_asked_to) {
    TestServer server;
    RawClient client(server.port);

    const auto answer = client.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");

    EXPECT_TRUE(contains(answer, "Connection: close"));
    EXPECT_TRUE(client.is_closed_by_peer());
}

TEST(HttpServer, answers_a_thousand_requests_of_one_write_in_their_order) {
    TestServer server;
    RawClient client(server.port);
    std::string all;
    for (int i = 0; i < 1'000; ++i) all += i % 2 ? get("/" + std::to_string(i)) : post("/" + std::to_string(i), "body");
    std::thread sender([&] { client.send(all); });

    for (int i = 0; i < 1'000; ++i) {
        const auto number = std::to_string(i);
        ASSERT_EQ(body_of(client.receive()), i % 2 ? "GET /" + number + " " : "POST /" + number + " body");
    }
    sender.join();
}

// Answers later, from another thread, the first requests last.
Task<Response> answer_late(Request request) {
    Response response;
    response.body = co_await await_answer<std::string>([&](Deliver<std::string> deliver) {
        std::thread([deliver, target = request.target] { deliver(target); }).detach();
    });
    co_return response;
}

TEST(HttpServer, keeps_the_order_when_handlers_wait) {
    TestServer server(answer_late);
    RawClient client(server.port);

    client.send(get("/1") + get("/2") + get("/3"));

    EXPECT_EQ(body_of(client.receive()), "/1");
    EXPECT_EQ(body_of(client.receive()), "/2");
    EXPECT_EQ(body_of(client.receive()), "/3");
}

TEST(HttpServer, speaks_http_1_0) {
    TestServer server;
    RawClient one_shot(server.port);
    RawClient stays(server.port);

    one_shot.send("GET /a HTTP/1.0\r\n\r\n");
    const auto kept = stays.ask("GET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");

    EXPECT_EQ(body_of(one_shot.receive_all()), "GET /a ");
    EXPECT_TRUE(contains(kept, "Connection: keep-alive"));
    EXPECT_EQ(body_of(stays.ask("GET /c HTTP/1.0\r\n\r\n")), "GET /c ");
}

TEST(HttpServer, answers_head_with_the_length_and_without_the_body) {
    TestServer server;
    RawClient client(server.port);

    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n" + get("/b"));

    EXPECT_TRUE(contains(client.receive_head(), "Content-Length: 8\r\n"));
    EXPECT_EQ(body_of(client.receive()), "GET /b ");
}

TEST(HttpServer, sends_no_length_with_204) {
    TestServer server([](Request) -> Task<Response> {
        Response response;
        response.status = 204;
        response.body = "ignored";
        co_return response;
    });
    RawClient client(server.port);

    client.send(get("/") + get("/"));

    EXPECT_EQ(contains(client.receive_head(), "Content-Length"), false);
    EXPECT_EQ(status_of(client.receive_head()), "HTTP/1.1 204 No Content");
}

TEST(HttpServer, takes_chunks_in_whatever_pieces_they_come) {
    TestServer server;
    RawClient client(server.port);

    for (const char c : std::string("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                    "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n")) {
        client.send({&c, 1});
    }

    EXPECT_EQ(body_of(client.receive()), "POST /a hello world");
    EXPECT_EQ(body_of(client.ask(get("/b"))), "GET /b ");
}

TEST(HttpServer, takes_and_gives_large_bodies) {
    TestServer server;
    RawClient client(server.port);
    std::string body;
    for (int i = 0; body.size() < 8u << 20; ++i) body += std::to_string(i);
    std::thread sender([&] { client.send(post("/", body)); });

    const auto answer = client.receive();
    sender.join();

    EXPECT_TRUE(body_of(answer) == "POST / " + body);
}

TEST(HttpServer, says_100_to_whoever_waits_for_it) {
    TestServer server;
    RawClient client(server.port);

    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    EXPECT_EQ(client.receive_head(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");

    EXPECT_EQ(body_of(client.receive()), "POST / hello");
}

TEST(HttpServer, does_not_ask_for_a_body_it_refuses) {
    TestServer server;
    RawClient client(server.port);

    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 33554433\r\n\r\n");

    EXPECT_TRUE(client.receive_all().starts_with("HTTP/1.1 413 "));
}

TEST(HttpServer, an_exception_is_a_500_and_the_connection_goes_on) {
    TestServer server([](Request request) -> Task<Response> {
        if (request.path == "/throw") throw std::runtime_error("a secret reason");
        if (request.path == "/odd") throw 7;
        if (request.path == "/busy") throw Busy("the queue is full");
        return echo(std::move(request));
    });
    RawClient client(server.port);

    const auto failed = client.ask(get("/throw"));
    const auto busy = client.ask(get("/busy"));

    EXPECT_EQ(status_of(failed), "HTTP/1.1 500 Internal Server Error");
    EXPECT_FALSE(contains(failed, "secret"));
    EXPECT_TRUE(contains(failed, R"("code":"internal")"));
    EXPECT_TRUE(contains(server.log.text(), "a secret reason"));
    EXPECT_EQ(status_of(busy), "HTTP/1.1 503 Service Unavailable");
    EXPECT_TRUE(contains(busy, "retry-after: 1"));
    EXPECT_EQ(status_of(client.ask(get("/odd"))), "HTTP/1.1 500 Internal Server Error");
    EXPECT_EQ(body_of(client.ask(get("/fine"))), "GET /fine ");
    EXPECT_EQ(server.server.stats().handler_failures, 2u);
}

TEST(HttpServer, a_header_with_a_line_break_is_not_sent) {
    TestServer server([](Request) -> Task<Response> {
        Response response;
        response.headers.push_back({"x", "a\r\nset-cookie: b"});
        co_return response;
    });
    RawClient client(server.port);

    const auto answer = client.ask(get("/"));

    EXPECT_EQ(status_of(answer), "HTTP/1.1 500 Internal Server Error");
    EXPECT_FALSE(contains(answer, "set-cookie"));
}

TEST(HttpServer, a_second_server_is_told_that_the_address_is_in_use) {
    TestServer first;
    auto options = test_options();
    options.port = first.port;
    TestLog log;
    HttpServer second(options, echo, log.log());

    const auto started = second.start();

    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().kind, ListenError::Kind::address_in_use);
    EXPECT_TRUE(contains(started.error().detail, std::to_string(first.port))) << started.error().detail;
}

TEST(HttpServer, an_address_that_is_not_ours_is_not_possible) {
    auto options = test_options();
    options.host = "192.0.2.1";
    TestLog log;
    HttpServer server(options, echo, log.log());

    const auto started = server.start();

    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().kind, ListenError::Kind::not_possible);
}

TEST(HttpServer, tells_the_handler_who_asks) {
    TestServer server([](Request request) -> Task<Response> {
        Response response;
        response.body = request.peer + (request.secure ? " secure" : " plain");
        co_return response;
    });
    RawClient client(server.port);

    EXPECT_EQ(body_of(client.ask(get("/"))), "127.0.0.1 plain");
}

TEST(HttpServer, counts) {
    TestServer server;
    {
        RawClient one(server.port);
        RawClient two(server.port);
        one.ask(get("/"));
        two.ask(get("/"));
        EXPECT_EQ(server.server.stats().connections_open, 2u);
    }

    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
    EXPECT_EQ(server.server.stats().connections_accepted, 2u);
    EXPECT_EQ(server.server.stats().requests, 2u);
}

}  // namespace
}  // namespace interlock::net
