#include "net/http_client.h"

#include <gtest/gtest.h>

#include "net/http_test_support.h"
#include "net/sse.h"

namespace interlock::net {
namespace {

using Kind = ClientError::Kind;

Url url_of(std::uint16_t port) { return {.secure = false, .host = "127.0.0.1", .port = port}; }

HttpClient::Options impatient() {
    HttpClient::Options options;
    options.connect_timeout = milliseconds(200);
    options.total_timeout = milliseconds(200);
    options.silence_timeout = milliseconds(200);
    return options;
}

Kind failure(RawServer::Talk talk, Method method = Method::post) {
    RawServer server({talk});
    HttpClient client(url_of(server.port), impatient());
    const auto response = client.request({.method = method});
    EXPECT_FALSE(response);
    return response ? Kind::could_not_connect : response.error().kind;
}

TEST(HttpClient, asks_and_is_answered) {
    TestServer server;
    HttpClient client(url_of(server.port), {});

    const auto response = client.request({.method = Method::post, .target = "/a?b", .body = "hello"});

    ASSERT_TRUE(response) << response.error().detail;
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "POST /a?b hello");
    EXPECT_EQ(response->header("content-type"), "text/plain");
}

TEST(HttpClient, knows_every_method) {
    TestServer server;
    HttpClient client(url_of(server.port), {});
    for (const Method method :
         {Method::get, Method::post, Method::put, Method::patch, Method::delete_, Method::options}) {
        EXPECT_EQ(client.request({.method = method})->body, std::string(name_of(method)) + " / ");
    }
    EXPECT_EQ(client.request({.method = Method::head})->header("content-length"), "7");
}

TEST(HttpClient, keeps_its_connection) {
    TestServer server;
    HttpClient client(url_of(server.port), {});

    for (int i = 0; i < 5; ++i) EXPECT_TRUE(client.request({.method = Method::post}));

    EXPECT_EQ(server.server.stats().connections_accepted, 1u);
}

TEST(HttpClient, connects_again_when_the_server_has_hung_up) {
    auto options = test_options();
    options.idle_timeout = milliseconds(20);
    TestServer server(echo, options);
    HttpClient client(url_of(server.port), {});
    EXPECT_TRUE(client.request({.method = Method::post}));
    ASSERT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));

    EXPECT_TRUE(client.request({.method = Method::post}));

    EXPECT_EQ(server.server.stats().connections_accepted, 2u);
}

TEST(HttpClient, asks_again_by_itself_only_what_changes_nothing) {
    const auto once_then_cut = [](int descriptor) {
        answer_with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")(descriptor);
        read_request(descriptor);
    };
    const auto answer = answer_with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    RawServer for_get({once_then_cut, answer});
    RawServer for_post({once_then_cut, answer});
    HttpClient getter(url_of(for_get.port), {});
    HttpClient poster(url_of(for_post.port), {});
    ASSERT_TRUE(getter.request({}));
    ASSERT_TRUE(poster.request({}));

    EXPECT_TRUE(getter.request({}));
    const auto posted = poster.request({.method = Method::post});

    ASSERT_FALSE(posted);
    EXPECT_EQ(posted.error().kind, Kind::outcome_unknown);
}

TEST(HttpClient, nobody_there_means_nothing_was_sent) {
    std::uint16_t port = 0;
    {
        TestServer gone;
        port = gone.port;
    }
    HttpClient client(url_of(port), impatient());

    const auto response = client.request({.method = Method::post});

    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().kind, Kind::could_not_connect);
}

TEST(HttpClient, no_such_host_means_nothing_was_sent) {
    HttpClient client({.host = "no-such-host.invalid"}, impatient());

    const auto response = client.request({});

    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().kind, Kind::could_not_connect);
}

TEST(HttpClient, an_answer_that_does_not_come_leaves_the_outcome_unknown) {
    EXPECT_EQ(failure(stay_silent), Kind::outcome_unknown);
    EXPECT_EQ(failure(read_request), Kind::outcome_unknown);
    EXPECT_EQ(failure(answer_with("HTTP/1.1 200")), Kind::outcome_unknown);
    EXPECT_EQ(failure(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")), Kind::outcome_unknown);
    EXPECT_EQ(failure(answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")),
              Kind::outcome_unknown);
}

TEST(HttpClient, what_is_not_http_is_a_bad_response) {
    EXPECT_EQ(failure(answer_with("SSH-2.0-OpenSSH\r\n")), Kind::bad_response);
    EXPECT_EQ(failure(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")),
              Kind::bad_response);
    EXPECT_EQ(failure(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na")),
              Kind::bad_response);
    EXPECT_EQ(failure(answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\na")), Kind::bad_response);
    EXPECT_EQ(failure(answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n")), Kind::bad_response);
}

TEST(HttpClient, a_body_that_is_too_large_is_a_bad_response) {
    TestServer server;
    HttpClient::Options options;
    options.body_bytes_max = 10;
    HttpClient client(url_of(server.port), options);

    const auto response = client.request({.method = Method::post, .body = "hello world"});

    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().kind, Kind::bad_response);
}

TEST(HttpClient, reads_every_way_a_body_can_end) {
    const auto body = [](const std::string& text) {
        RawServer server({answer_with(text)});
        const auto response = HttpClient(url_of(server.port), impatient()).request({});
        return response ? response->body : response.error().detail;
    };

    EXPECT_EQ(body("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), "abc");
    EXPECT_EQ(body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), "abc");
    EXPECT_EQ(body("HTTP/1.0 200 OK\r\n\r\nabc"), "abc");
    EXPECT_EQ(body("HTTP/1.1 204 No Content\r\n\r\n"), "");
    EXPECT_EQ(body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), "abc");
}

TEST(HttpClient, hears_a_refusal_although_it_was_still_sending) {
    TestServer server;
    HttpClient client(url_of(server.port), {});

    const auto response = client.request({.method = Method::post, .body = std::string(40u << 20, 'x')});

    ASSERT_TRUE(response) << response.error().detail;
    EXPECT_EQ(response->status, 413);
}

TEST(HttpClient, does_not_send_a_line_break_in_a_header) {
    TestServer server;
    HttpClient client(url_of(server.port), {});

    EXPECT_FALSE(client.request({.headers = {{"x", "a\r\nb: c"}}}));
    EXPECT_FALSE(client.request({.target = "/a b"}));

    EXPECT_EQ(server.server.stats().connections_accepted, 0u);
}

Task<void> three_events(StreamWriter& writer) {
    for (const char* data : {"1", "2", "3"}) co_await writer.write(to_text({.id = data, .data = data}));
}

Task<Response> stream_three_events(Request request) {
    if (request.path != "/") co_return problem(404, "not_found", "there is only /");
    Response response;
    response.content_type = "text/event-stream";
    response.stream = three_events;
    co_return response;
}

TEST(HttpClient, streams) {
    TestServer server(stream_three_events);
    HttpClient client(url_of(server.port), {});
    SseParser parser;
    std::string data;
    const auto collect = [&](std::string_view bytes) {
        return parser.feed(bytes, [&](const SseEvent& event) {
            data += event.data;
            return true;
        });
    };

    const auto response = client.stream({}, collect);
    const auto refused = client.stream({.target = "/x"}, collect);

    ASSERT_TRUE(response) << response.error().detail;
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(data, "123");
    EXPECT_EQ(parser.last_id(), "3");
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 404);
    EXPECT_TRUE(contains(refused->body, "there is only /"));
}

TEST(HttpClient, a_stream_can_be_stopped) {
    TestServer server(stream_three_events);
    HttpClient client(url_of(server.port), {});
    int pieces = 0;

    const auto response = client.stream({}, [&](std::string_view) { return ++pieces < 1; });

    EXPECT_TRUE(response);
    EXPECT_EQ(pieces, 1);
    EXPECT_TRUE(client.stream({}, [](std::string_view) { return true; }));
}

TEST(HttpClient, a_stream_that_falls_silent_is_given_up) {
    RawServer server({[](int descriptor) {
        answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")(descriptor);
        stay_silent(descriptor);
    }});
    HttpClient client(url_of(server.port), impatient());

    const auto response = client.stream({}, [](std::string_view) { return true; });

    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().kind, Kind::outcome_unknown);
}

TEST(HttpClient, takes_urls_apart) {
    const auto parts = [](const char* text) {
        const auto url = parse_url(text);
        if (!url) return std::string("no");
        return std::string(url->secure ? "tls " : "") + url->host + " " + std::to_string(url->port) + " " + url->target;
    };

    EXPECT_EQ(parts("http://a"), "a 80 /");
    EXPECT_EQ(parts("https://a.b/c?d=e"), "tls a.b 443 /c?d=e");
    EXPECT_EQ(parts("http://a:8080?x"), "a 8080 /?x");
    EXPECT_EQ(parts("http://[::1]:8080/a"), "::1 8080 /a");
    for (const char* bad : {"", "a", "ftp://a", "http://", "http:///a", "http://a:", "http://a:0", "http://a:65536",
                            "http://a:b", "http://u@a", "http://a b", "http://a/ b", "http://a/#b", "http://[::1"}) {
        EXPECT_EQ(parts(bad), "no") << bad;
    }
}

}  // namespace
}  // namespace interlock::net
