// What the server does with clients that are slow, many, or have no business here.
#include <gtest/gtest.h>

#include "net/http_test_support.h"

namespace interlock::net {
namespace {

TEST(HttpLimits, a_head_that_does_not_come_is_not_waited_for) {
    auto options = test_options();
    options.header_timeout = milliseconds(50);
    TestServer server(echo, options);
    RawClient silent(server.port);
    RawClient slow(server.port);

    slow.send("GET / HTTP/1.1\r\nHo");

    EXPECT_TRUE(silent.is_closed_by_peer());
    EXPECT_TRUE(slow.receive_all().starts_with("HTTP/1.1 408 "));
    EXPECT_EQ(server.server.stats().timeouts, 2u);
}

TEST(HttpLimits, a_head_that_drips_is_cut_although_it_moves) {
    auto options = test_options();
    options.header_timeout = milliseconds(100);
    TestServer server(echo, options);
    RawClient client(server.port);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nx: ");

    for (int i = 0; i < 40 && server.server.stats().timeouts == 0; ++i) {
        client.send("x");
        std::this_thread::sleep_for(milliseconds(10));
    }

    EXPECT_EQ(server.server.stats().timeouts, 1u);
    EXPECT_TRUE(client.receive_all().starts_with("HTTP/1.1 408 "));
}

TEST(HttpLimits, half_a_head_behind_a_whole_request_is_not_waited_for_either) {
    auto options = test_options();
    options.header_timeout = milliseconds(50);
    TestServer server(echo, options);
    RawClient client(server.port);

    client.send(get("/") + "GET / HTTP/1.1\r\nHo");

    EXPECT_EQ(status_of(client.receive()), "HTTP/1.1 200 OK");
    EXPECT_TRUE(client.receive_all().starts_with("HTTP/1.1 408 "));
}

TEST(HttpLimits, an_idle_connection_is_closed_without_a_word) {
    auto options = test_options();
    options.idle_timeout = milliseconds(50);
    TestServer server(echo, options);
    RawClient client(server.port);
    client.ask(get("/"));

    EXPECT_TRUE(client.is_closed_by_peer());
}

TEST(HttpLimits, a_body_that_comes_too_slowly_is_cut) {
    auto options = test_options();
    options.body_timeout = milliseconds(50);
    TestServer server(echo, options);
    RawClient client(server.port);

    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");

    EXPECT_TRUE(client.receive_all().starts_with("HTTP/1.1 408 "));
}

TEST(HttpLimits, a_body_that_keeps_the_pace_gets_the_time_it_needs) {
    auto options = test_options();
    options.body_timeout = milliseconds(100);
    options.body_bytes_per_second_min = 1'000;
    TestServer server(echo, options);
    RawClient client(server.port);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");

    // Five times the timeout in all, at twice the pace.
    for (int i = 0; i < 10; ++i) {
        std::this_thread::sleep_for(milliseconds(30));
        client.send(std::string(100, 'x'));
    }

    EXPECT_EQ(status_of(client.receive()), "HTTP/1.1 200 OK");
}

TEST(HttpLimits, the_time_that_a_body_earns_has_an_end) {
    auto options = test_options();
    options.body_timeout = milliseconds(50);
    options.body_bytes_per_second_min = 1;
    options.body_time_earned_max = milliseconds(100);
    TestServer server(echo, options);
    RawClient client(server.port);

    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n" + std::string(9'000, 'x'));

    EXPECT_TRUE(client.receive_all().starts_with("HTTP/1.1 408 "));
}

TEST(HttpLimits, a_client_that_takes_no_answer_is_cut) {
    auto options = test_options();
    options.write_timeout = milliseconds(50);
    TestServer server(
        [](Request) -> Task<Response> {
            Response response;
            response.body.assign(32u << 20, 'x');
            co_return response;
        },
        options);
    RawClient client(server.port);

    client.send(get("/"));

    EXPECT_TRUE(eventually([&] { return server.server.stats().timeouts > 0; }));
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
    EXPECT_LT(client.receive_all().size(), 32u << 20);
}

TEST(HttpLimits, one_connection_too_many_is_told_so) {
    auto options = test_options();
    options.connections_max = 2;
    TestServer server(echo, options);
    const std::string begun = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx";
    RawClient one(server.port);
    RawClient two(server.port);
    one.send(begun);
    two.send(begun);
    ASSERT_TRUE(eventually([&] { return server.server.stats().body_bytes == 2; }));

    RawClient three(server.port);
    three.send(get("/"));

    const auto answer = three.receive_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
    EXPECT_TRUE(contains(answer, R"("code":"busy")"));
    EXPECT_EQ(server.server.stats().connections_refused, 1u);
    EXPECT_EQ(body_of(one.ask("y")), "POST / xy");

    one.close();
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open < 2; }));
    RawClient four(server.port);
    EXPECT_EQ(body_of(four.ask(get("/four"))), "GET /four ");
}

TEST(HttpLimits, connections_on_which_nothing_is_asked_give_way_the_longest_first) {
    auto options = test_options();
    options.connections_max = 4;
    TestServer server(echo, options);
    RawClient silent(server.port);
    RawClient begun(server.port);
    begun.send("GET / HT");
    RawClient used(server.port);
    RawClient last(server.port);
    EXPECT_EQ(body_of(used.ask(get("/used"))), "GET /used ");
    EXPECT_EQ(body_of(last.ask(get("/last"))), "GET /last ");

    RawClient five(server.port);
    EXPECT_EQ(body_of(five.ask(get("/five"))), "GET /five ");
    RawClient six(server.port);
    EXPECT_EQ(body_of(six.ask(get("/six"))), "GET /six ");

    EXPECT_TRUE(silent.is_closed_by_peer());
    EXPECT_TRUE(begun.is_closed_by_peer());
    EXPECT_EQ(body_of(last.ask(get("/still"))), "GET /still ");
    EXPECT_EQ(server.server.stats().connections_refused, 0u);
}

TEST(HttpLimits, all_bodies_together_have_a_limit) {
    auto options = test_options();
    options.body_bytes_all_max = 100'000;
    TestServer server(echo, options);
    const auto status = [&] {
        RawClient client(server.port);
        return status_of(client.ask(post("/", std::string(90'000, 'x'))));
    };
    EXPECT_EQ(status(), "HTTP/1.1 200 OK");

    RawClient unfinished(server.port);
    unfinished.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 90001\r\n\r\n" + std::string(90'000, 'x'));
    ASSERT_TRUE(eventually([&] { return server.server.stats().body_bytes == 90'000; }));
    EXPECT_EQ(status(), "HTTP/1.1 503 Service Unavailable");

    unfinished.send("x");
    EXPECT_EQ(status_of(unfinished.receive()), "HTTP/1.1 200 OK");
    EXPECT_TRUE(eventually([&] { return status() == "HTTP/1.1 200 OK"; }));
}

// Owners are those who say their name.
Task<std::optional<BodyOwner>> owner_by_name(const Request& head) {
    const std::string name(head.header("x-name"));
    if (name.empty()) co_return std::nullopt;
    co_return BodyOwner{name, 100'000};
}

HttpServerOptions owner_options() {
    auto options = test_options();
    options.body_owner = owner_by_name;
    return options;
}

std::string large_head(const std::string& headers, std::size_t bytes = 90'001) {
    return "POST / HTTP/1.1\r\nHost: a\r\n" + headers + "Content-Length: " + std::to_string(bytes) + "\r\n\r\n";
}

TEST(HttpLimits, a_large_body_without_an_owner_is_refused_by_its_head) {
    TestServer server(echo, owner_options());

    RawClient keyless(server.port);
    keyless.send(large_head(""));
    EXPECT_TRUE(keyless.receive_all().starts_with("HTTP/1.1 401 ")) << "no byte of the body was sent";
    RawClient patient(server.port);
    patient.send(large_head("Expect: 100-continue\r\n"));
    EXPECT_TRUE(patient.receive_all().starts_with("HTTP/1.1 401 "));
    RawClient in_chunks(server.port);
    in_chunks.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n11171\r\n" +
                   std::string(70'001, 'x'));
    EXPECT_TRUE(in_chunks.receive_all().starts_with("HTTP/1.1 401 "));
    RawClient small(server.port);
    EXPECT_EQ(status_of(small.ask(post("/", std::string(60'000, 'x')))), "HTTP/1.1 200 OK");
    RawClient ada(server.port);
    EXPECT_EQ(status_of(ada.ask(post("/", std::string(90'000, 'x'), "x-name: ada\r\n"))), "HTTP/1.1 200 OK");
    EXPECT_EQ(status_of(ada.ask(post("/", std::string(90'000, 'x'), "x-name: ada\r\n"))), "HTTP/1.1 200 OK");
    EXPECT_TRUE(ada.ask(post("/", std::string(90'000, 'x'))).starts_with("HTTP/1.1 401 ")) << "each request for itself";
}

TEST(HttpLimits, a_large_body_for_another_host_is_refused_by_its_head) {
    auto options = owner_options();
    options.allowed_hosts = {"b"};
    TestServer server(echo, options);
    RawClient client(server.port);

    client.send(large_head("x-name: ada\r\n"));

    EXPECT_TRUE(client.receive_all().starts_with("HTTP/1.1 421 "));
}

TEST(HttpLimits, one_owner_does_not_use_up_the_memory_of_others) {
    TestServer server(echo, owner_options());
    const auto status = [&](const std::string& name) {
        RawClient client(server.port);
        return status_of(client.ask(post("/", std::string(90'000, 'x'), "x-name: " + name + "\r\n")));
    };
    RawClient unfinished(server.port);
    unfinished.send(large_head("x-name: ada\r\n") + std::string(90'000, 'x'));
    ASSERT_TRUE(eventually([&] { return server.server.stats().body_bytes == 90'000; }));

    EXPECT_EQ(status("ada"), "HTTP/1.1 503 Service Unavailable");
    EXPECT_EQ(status("bob"), "HTTP/1.1 200 OK");

    unfinished.send("x");
    EXPECT_EQ(status_of(unfinished.receive()), "HTTP/1.1 200 OK");
    EXPECT_TRUE(eventually([&] { return status("ada") == "HTTP/1.1 200 OK"; }));
}

TEST(HttpLimits, all_who_are_not_known_share_one_share) {
    auto options = owner_options();
    options.body_bytes_all_unowned_max = 50'000;
    TestServer server(echo, options);
    RawClient unfinished(server.port);
    unfinished.send(large_head("", 40'001) + std::string(40'000, 'x'));
    ASSERT_TRUE(eventually([&] { return server.server.stats().body_bytes == 40'000; }));

    RawClient another(server.port);
    EXPECT_EQ(status_of(another.ask(post("/", std::string(40'000, 'x')))), "HTTP/1.1 503 Service Unavailable");
    RawClient ada(server.port);
    EXPECT_EQ(status_of(ada.ask(post("/", std::string(40'000, 'x'), "x-name: ada\r\n"))), "HTTP/1.1 200 OK");
}

TEST(HttpLimits, a_host_that_is_not_ours_is_misdirected) {
    auto options = test_options();
    options.allowed_hosts = {"interlock.example", "[::1]"};
    TestServer server(echo, options);
    const auto status = [&](const std::string& headers) {
        RawClient client(server.port);
        return status_of(client.ask("GET / HTTP/1.1\r\n" + headers + "\r\n"));
    };

    EXPECT_EQ(status("Host: interlock.example\r\n"), "HTTP/1.1 200 OK");
    EXPECT_EQ(status("Host: Interlock.Example:8080\r\n"), "HTTP/1.1 200 OK");
    EXPECT_EQ(status("Host: [::1]:8080\r\n"), "HTTP/1.1 200 OK");
    EXPECT_EQ(status("Host: evil.example\r\n"), "HTTP/1.1 421 Misdirected Request");
    EXPECT_EQ(status("Host: interlock.example.evil.example\r\n"), "HTTP/1.1 421 Misdirected Request");
    RawClient old(server.port);
    old.send("GET / HTTP/1.0\r\n\r\n");
    EXPECT_EQ(status_of(old.receive_all()), "HTTP/1.1 421 Misdirected Request");
}

TEST(HttpLimits, a_foreign_origin_is_turned_away) {
    auto options = test_options();
    options.allowed_origins = {"https://friend.example"};
    TestServer server(echo, options);
    const auto status = [&](const std::string& method, const std::string& origin) {
        RawClient client(server.port);
        return status_of(client.ask(method + " / HTTP/1.1\r\nHost: me.example:80\r\nOrigin: " + origin +
                                    "\r\nContent-Length: 0\r\n\r\n"));
    };

    for (const std::string method : {"POST", "PUT", "PATCH", "DELETE", "GET"}) {
        EXPECT_EQ(status(method, "http://me.example:80"), "HTTP/1.1 200 OK");
        EXPECT_EQ(status(method, "https://friend.example"), "HTTP/1.1 200 OK");
        EXPECT_EQ(status(method, "https://evil.example"), "HTTP/1.1 403 Forbidden");
        EXPECT_EQ(status(method, "http://me.example:81"), "HTTP/1.1 403 Forbidden");
        EXPECT_EQ(status(method, "http://me.example:80.evil.example"), "HTTP/1.1 403 Forbidden");
        EXPECT_EQ(status(method, "null"), "HTTP/1.1 403 Forbidden");
    }
    EXPECT_EQ(server.server.stats().requests, 10u);
}

}  // namespace
}  // namespace interlock::net
