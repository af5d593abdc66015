// Streamed answers, and the end of a server.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "net/answer.h"
#include "net/http_test_support.h"
#include "net/notifier.h"
#include "net/sse.h"

namespace interlock::net {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// An event stream of how often a bell has rung.
struct Rings {
    Notifier notifier;
    std::atomic<int> ended = 0;

    Task<void> stream(StreamWriter& writer) {
        std::uint64_t seen = 0;
        bool open = co_await writer.write(to_text({.id = "0", .data = "hello"}));
        while (open && !writer.closed()) {
            const bool rung = co_await writer.wait(notifier, seen, steady_clock::now() + seconds(30));
            if (!rung) continue;
            seen = notifier.generation();
            open = co_await writer.write(to_text({.id = std::to_string(seen), .data = "ring"}));
        }
        co_await writer.write(to_text({.event = "bye", .data = ""}));
        ++ended;
    }

    Handler handler() {
        return [this](Request) -> Task<Response> {
            Response response;
            response.content_type = "text/event-stream";
            response.stream = [this](StreamWriter& writer) { return stream(writer); };
            co_return response;
        };
    }
};

TEST(HttpStream, what_is_written_arrives_at_once_in_chunks) {
    Rings rings;
    TestServer server(rings.handler());
    RawClient client(server.port);

    client.send(get("/"));
    const auto head = client.receive_head();
    const auto hello = client.receive_until_contains("hello\n\n\r\n");
    rings.notifier.notify_all();
    const auto ring = client.receive_until_contains("ring\n\n\r\n");

    EXPECT_TRUE(contains(head, "Transfer-Encoding: chunked\r\n"));
    EXPECT_FALSE(contains(head, "Connection: close\r\n"));
    EXPECT_EQ(hello, "13\r\nid: 0\ndata: hello\n\n\r\n");
    EXPECT_EQ(ring, "12\r\nid: 1\ndata: ring\n\n\r\n");
    EXPECT_EQ(server.server.stats().streams_open, 1u);
}

TEST(HttpStream, http_1_0_gets_it_without_chunks) {
    TestServer server([](Request) -> Task<Response> {
        Response response;
        response.stream = [](StreamWriter& writer) -> Task<void> {
            co_await writer.write("one ");
            co_await writer.write("");
            co_await writer.write("two");
        };
        co_return response;
    });
    RawClient old(server.port);
    RawClient modern(server.port);

    old.send("GET / HTTP/1.0\r\n\r\n");
    modern.send(get("/"));

    EXPECT_EQ(body_of(old.receive_all()), "one two");
    EXPECT_EQ(body_of(modern.receive_until_contains("0\r\n\r\n")), "4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n");
}

// A stream for every target but /plain; its first piece comes with the head.
Task<Response> stream_or_plain(Request request) {
    if (request.path == "/plain") co_return co_await echo(std::move(request));
    Response response;
    response.body = request.target;
    response.stream = [](StreamWriter& writer) -> Task<void> { co_await writer.write("more"); };
    co_return response;
}

TEST(HttpStream, the_connection_is_kept) {
    TestServer server(stream_or_plain);
    RawClient client(server.port);

    for (const char* target : {"/a", "/b"}) {
        client.send(get(target));
        const auto stream = client.receive_until_contains("0\r\n\r\n");
        EXPECT_EQ(body_of(stream), "2\r\n" + std::string(target) + "\r\n4\r\nmore\r\n0\r\n\r\n");
    }
    EXPECT_EQ(body_of(client.ask(get("/plain"))), "GET /plain ");
    EXPECT_EQ(server.server.stats().connections_accepted, 1u);
    client.send("HEAD /a HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/plain"));
    client.receive_head();
    EXPECT_EQ(body_of(client.receive()), "GET /plain ");
}

TEST(HttpStream, the_connection_is_closed_when_the_client_says_so) {
    TestServer server(stream_or_plain);
    RawClient client(server.port);

    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    const auto all = client.receive_all();

    EXPECT_TRUE(contains(all, "Connection: close\r\n"));
    EXPECT_TRUE(all.ends_with("\r\n0\r\n\r\n")) << all;
}

TEST(HttpStream, the_first_piece_goes_out_with_the_head) {
    Gate gate;
    TestServer server([&](Request) -> Task<Response> {
        Response response;
        response.body = "first";
        response.stream = [&](StreamWriter& writer) -> Task<void> {
            gate.wait();
            co_await writer.write("second");
        };
        co_return response;
    });
    RawClient old(server.port);
    RawClient client(server.port);

    client.send(get("/"));
    const auto begin = client.receive_until_contains("first\r\n");
    gate.open();
    old.send("GET / HTTP/1.0\r\n\r\n");

    EXPECT_EQ(body_of(begin), "5\r\nfirst\r\n");
    EXPECT_EQ(client.receive_until_contains("0\r\n\r\n"), "6\r\nsecond\r\n0\r\n\r\n");
    EXPECT_EQ(body_of(old.receive_all()), "firstsecond");
}

TEST(HttpStream, what_comes_during_a_stream_is_the_next_request) {
    Rings rings;
    TestServer server([&](Request request) -> Task<Response> {
        if (request.path == "/plain") co_return co_await echo(std::move(request));
        Response response;
        response.stream = [&rings](StreamWriter& writer) -> Task<void> {
            const std::uint64_t seen = rings.notifier.generation();
            co_await writer.write("begin");
            co_await writer.wait(rings.notifier, seen, steady_clock::now() + seconds(30));
            co_await writer.write(writer.closed() ? "closed" : "rung");
        };
        co_return response;
    });
    const std::string large = post("/plain", std::string(100'000, 'x'));
    const std::string expecting =
        "POST /plain HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    for (const std::string& next : {get("/plain"), get("/plain") + get("/plain"), large}) {
        RawClient client(server.port);
        client.send(get("/"));
        client.receive_until_contains("begin\r\n");
        client.send(next.substr(0, 10));
        client.send(next.substr(10));

        rings.notifier.notify_all();

        EXPECT_EQ(client.receive_until_contains("0\r\n\r\n"), "4\r\nrung\r\n0\r\n\r\n");
        EXPECT_TRUE(contains(client.receive(), "200 OK"));
    }
    RawClient client(server.port);
    client.send(get("/") + expecting);
    client.receive_until_contains("begin\r\n");
    rings.notifier.notify_all();
    client.receive_until_contains("0\r\n\r\n");
    EXPECT_TRUE(contains(client.receive_head(), "100 Continue"));
    client.send("ab");
    EXPECT_EQ(body_of(client.receive()), "POST /plain ab");
}

TEST(HttpStream, an_idle_connection_ends_after_a_stream_as_after_any_answer) {
    auto options = test_options();
    options.idle_timeout = milliseconds(30);
    TestServer server(stream_or_plain, options);
    RawClient client(server.port);
    client.send(get("/a"));
    client.receive_until_contains("0\r\n\r\n");

    EXPECT_TRUE(client.is_closed_by_peer());
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
}

TEST(HttpStream, one_who_sends_ahead_and_leaves_is_noticed_all_the_same) {
    Rings rings;
    TestServer server(rings.handler());
    RawClient client(server.port);
    client.send(get("/"));
    client.receive_until_contains("hello");

    client.send(get("/next"));
    client.close();

    EXPECT_TRUE(eventually([&] { return rings.ended == 1; }));
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
}

TEST(HttpStream, that_is_cut_has_no_last_chunk_and_is_no_failure) {
    TestServer server([](Request) -> Task<Response> {
        Response response;
        response.stream = [](StreamWriter& writer) -> Task<void> {
            co_await writer.write("one");
            throw StreamCut();
        };
        co_return response;
    });
    RawClient client(server.port);

    client.send(get("/"));

    EXPECT_EQ(body_of(client.receive_all()), "3\r\none\r\n");
    EXPECT_EQ(server.server.stats().handler_failures, 0u);
    EXPECT_EQ(server.log.text(), "");
}

TEST(HttpStream, ends_soon_after_the_peer_has_gone_although_it_writes_nothing) {
    Rings rings;
    TestServer server(rings.handler());
    RawClient client(server.port);
    client.send(get("/"));
    client.receive_until_contains("hello");

    client.close();

    EXPECT_TRUE(eventually([&] { return rings.ended == 1; }));
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
}

TEST(HttpStream, a_stream_that_fails_has_no_last_chunk) {
    TestServer server([](Request) -> Task<Response> {
        Response response;
        response.stream = [](StreamWriter& writer) -> Task<void> {
            co_await writer.write("half");
            throw std::runtime_error("the other half is missing");
        };
        co_return response;
    });
    RawClient client(server.port);

    client.send(get("/"));

    EXPECT_EQ(body_of(client.receive_all()), "4\r\nhalf\r\n");
    EXPECT_TRUE(contains(server.log.text(), "the other half is missing"));
}

TEST(HttpStream, a_reader_that_stops_reading_is_cut) {
    auto options = test_options();
    options.write_timeout = milliseconds(50);
    std::atomic<bool> told = false;
    TestServer server(
        [&](Request) -> Task<Response> {
            Response response;
            response.stream = [&](StreamWriter& writer) -> Task<void> {
                const std::string piece(1u << 20, 'x');
                bool open = true;
                while (open) open = co_await writer.write(piece);
                told = true;
            };
            co_return response;
        },
        options);
    RawClient client(server.port);

    client.send(get("/"));

    EXPECT_TRUE(eventually([&] { return told.load(); }));
}

TEST(HttpDrain, an_idle_server_ends_at_once_and_accepts_nobody) {
    TestServer server;
    RawClient idle(server.port);
    RawClient fresh(server.port);
    idle.ask(get("/"));

    EXPECT_TRUE(server.server.drain(seconds(5)));

    EXPECT_TRUE(idle.is_closed_by_peer());
    EXPECT_TRUE(fresh.is_closed_by_peer());
    EXPECT_TRUE(eventually([&] { return !RawClient(server.port).connected(); }));
}

TEST(HttpDrain, what_is_in_flight_is_answered_and_then_the_connection_closed) {
    Gate asked;
    std::optional<Deliver<std::string>> answer;
    TestServer server([&](Request) -> Task<Response> {
        Response response;
        response.body = co_await await_answer<std::string>([&](Deliver<std::string> deliver) {
            answer = deliver;
            asked.open();
        });
        co_return response;
    });
    RawClient client(server.port);
    client.send(get("/1") + get("/2"));
    ASSERT_TRUE(asked.wait());

    std::thread drainer([&] { EXPECT_TRUE(server.server.drain(seconds(5))); });
    EXPECT_TRUE(eventually([&] { return !RawClient(server.port).connected(); }));
    (*answer)("done");

    const auto all = client.receive_all();
    EXPECT_TRUE(contains(all, "Connection: close\r\n\r\ndone")) << all;
    EXPECT_TRUE(all.ends_with("done")) << "the second request is not begun: " << all;
    drainer.join();
}

TEST(HttpDrain, streams_say_goodbye) {
    Rings rings;
    TestServer server(rings.handler());
    RawClient client(server.port);
    client.send(get("/"));
    client.receive_until_contains("hello");

    std::thread drainer([&] { EXPECT_TRUE(server.server.drain(seconds(5))); });

    EXPECT_TRUE(contains(client.receive_all(), "event: bye\ndata: \n\n\r\n0\r\n\r\n"));
    client.close();
    drainer.join();
    EXPECT_EQ(rings.ended, 1);
}

TEST(HttpDrain, whatever_does_not_end_in_time_is_cut) {
    Gate asked;
    std::optional<Deliver<int>> never_called;
    {
        TestServer server([&](Request request) -> Task<Response> {
            co_await await_answer<int>([&](Deliver<int> deliver) {
                never_called = deliver;
                asked.open();
            });
            co_return co_await echo(std::move(request));
        });
        RawClient client(server.port);
        client.send(get("/"));
        ASSERT_TRUE(asked.wait());

        EXPECT_FALSE(server.server.drain(milliseconds(50)));

        EXPECT_NE(client.receive_all(), "(silence)");
    }
    // The server has gone. An answer that comes now finds nobody.
    (*never_called)(1);
}

TEST(HttpDrain, a_server_may_end_without_being_asked_politely) {
    Rings rings;
    RawClient* open = nullptr;
    {
        TestServer server(rings.handler());
        open = new RawClient(server.port);
        open->send(get("/"));
        open->receive_until_contains("hello");
    }
    EXPECT_NE(open->receive_all(), "(silence)");
    delete open;
}

}  // namespace
}  // namespace interlock::net
