#include "net/http_pool.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <cstdio>
#include <future>
#include <optional>

#include "net/http_test_support.h"
#include "net/test_certificate.h"
#include "net/tls.h"

namespace interlock::net {
namespace {

using Kind = ClientError::Kind;

constexpr HttpTimeouts patient{
    .connect = milliseconds(5'000), .first_byte = milliseconds(5'000), .silence = milliseconds(5'000)};
constexpr HttpTimeouts impatience{
    .connect = milliseconds(100), .first_byte = milliseconds(100), .silence = milliseconds(100)};

// An io_context with its thread, as a server's loop has.
class Asker {
 public:
    Asker() : context(std::make_unique<boost::asio::io_context>(1)), work_(context->get_executor()) {
        thread_ = std::thread([this] { context->run(); });
    }
    ~Asker() { end(); }

    // Ends as a server does that is not asked politely: whatever is in flight is destroyed.
    void end() {
        if (!context) return;
        context->stop();
        thread_.join();
        work_.reset();
        context.reset();
    }

    template <class T>
    T run(std::function<Task<T>(HttpPool&)> what) {
        std::promise<T> promise;
        boost::asio::co_spawn(*context, what(HttpPool::of(context->get_executor())),
                              [&](const std::exception_ptr&, T value) { promise.set_value(std::move(value)); });
        return promise.get_future().get();
    }

    std::unique_ptr<boost::asio::io_context> context;

 private:
    boost::asio::executor_work_guard<Executor> work_;
    std::thread thread_;
};

struct PoolAnswer {
    int status = 0;
    std::string body;
    std::size_t pieces = 0;
    std::optional<ClientError> error;

    // "200 body", or what went wrong.
    std::string text() const {
        if (!error) return std::to_string(status) + " " + body;
        constexpr std::array names{"could_not_connect", "tls_failed", "outcome_unknown", "bad_response"};
        return (status == 0 ? "" : std::to_string(status) + " " + body + ", then ") +
               names[static_cast<std::size_t>(error->kind)];
    }
};

Task<PoolAnswer> exchange(HttpPool& pool, Origin origin, OutRequest request, HttpTimeouts timeouts) {
    PoolAnswer heard;
    auto exchange = co_await pool.send(std::move(origin), std::move(request), timeouts);
    if (!exchange) {
        heard.error = exchange.error();
        co_return heard;
    }
    heard.status = (*exchange)->status;
    while (true) {
        const auto piece = co_await (*exchange)->read();
        if (!piece) heard.error = piece.error();
        if (!piece || piece->empty()) break;
        heard.body.append(*piece);
        ++heard.pieces;
    }
    // What has ended stays so.
    const auto again = co_await (*exchange)->read();
    EXPECT_EQ(again.has_value(), !heard.error);
    co_return heard;
}

Origin local(std::uint16_t port) { return {.host = "127.0.0.1", .port = port}; }

PoolAnswer ask(Asker& asker, Origin origin, OutRequest request = {}, HttpTimeouts timeouts = patient) {
    return asker.run<PoolAnswer>([&](HttpPool& pool) { return exchange(pool, origin, request, timeouts); });
}

std::string ask_raw(RawServer::Talk talk, HttpTimeouts timeouts = patient, Method method = Method::post) {
    RawServer server({std::move(talk)});
    Asker asker;
    return ask(asker, local(server.port), {.method = method}, timeouts).text();
}

TEST(HttpPool, asks_and_is_answered) {
    TestServer server;
    Asker asker;

    EXPECT_EQ(ask(asker, local(server.port), {.target = "/a?b", .body = "hello"}).text(), "200 POST /a?b hello");
    EXPECT_EQ(ask(asker, {.host = "localhost", .port = server.port}, {.method = Method::get}).text(), "200 GET / ");
    EXPECT_EQ(ask(asker, local(server.port), {.method = Method::head}).text(), "200 ");
}

TEST(HttpPool, sends_and_receives_what_does_not_fit_into_a_buffer) {
    TestServer server;
    Asker asker;
    const std::string body(20u << 20, 'x');

    const PoolAnswer heard = ask(asker, local(server.port), {.body = body});

    EXPECT_EQ(heard.status, 200);
    EXPECT_TRUE(heard.body == "POST / " + body);
}

TEST(HttpPool, keeps_its_connections) {
    TestServer server;
    Asker asker;

    for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(asker, local(server.port)).status, 200);

    EXPECT_EQ(server.server.stats().connections_accepted, 1u);
}

TEST(HttpPool, a_kept_connection_that_its_server_has_closed_is_not_used) {
    auto options = test_options();
    options.idle_timeout = milliseconds(20);
    TestServer server(echo, options);
    Asker asker;
    EXPECT_EQ(ask(asker, local(server.port)).status, 200);
    ASSERT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));

    EXPECT_EQ(ask(asker, local(server.port)).status, 200);

    EXPECT_EQ(server.server.stats().connections_accepted, 2u);
}

TEST(HttpPool, what_was_said_although_nobody_asked_ends_a_connection) {
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
    RawServer server({answer_with(answer + "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"), answer_with(answer)});
    Asker asker;

    EXPECT_EQ(ask(asker, local(server.port)).text(), "200 a");
    EXPECT_EQ(ask(asker, local(server.port)).text(), "200 a");
}

TEST(HttpPool, parties_share_no_connections) {
    TestServer server;
    Asker asker;
    const auto origin = [&](const char* pool) {
        return Origin{.host = "127.0.0.1", .port = server.port, .pool = pool};
    };

    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(ask(asker, origin("1/claude")).status, 200);
        EXPECT_EQ(ask(asker, origin("2/claude")).status, 200);
    }

    EXPECT_EQ(server.server.stats().connections_accepted, 2u);
}

TEST(HttpPool, a_body_that_the_method_does_not_define_is_not_sent) {
    TestServer server;
    Asker asker;
    for (const Method method : {Method::get, Method::head, Method::delete_, Method::options}) {
        const OutRequest request{.method = method, .body = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"};
        EXPECT_EQ(ask(asker, local(server.port), request).text(), "could_not_connect");
    }
    EXPECT_EQ(server.server.stats().connections_accepted, 0u);
}

TEST(HttpPool, a_status_that_is_none_is_no_answer) {
    for (const char* status : {"000", "099", "101", "600", "999"}) {
        EXPECT_EQ(ask_raw(answer_with(std::string("HTTP/1.1 ") + status + " X\r\nContent-Length: 0\r\n\r\n")),
                  "bad_response")
            << status;
    }
}

TEST(HttpPool, an_answer_that_says_close_ends_its_connection) {
    const auto answer = answer_with("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na");
    const auto answer_and_wait = [answer](int descriptor) {
        answer(descriptor);
        stay_silent(descriptor);
    };
    RawServer server({answer_and_wait, answer});
    Asker asker;

    EXPECT_EQ(ask(asker, local(server.port)).text(), "200 a");
    EXPECT_EQ(ask(asker, local(server.port)).text(), "200 a");
}

TEST(HttpPool, nothing_is_sent_twice) {
    const auto answer = answer_with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    const auto once_then_cut = [answer](int descriptor) {
        answer(descriptor);
        read_request(descriptor);
    };
    RawServer server({once_then_cut, answer});
    Asker asker;
    EXPECT_EQ(ask(asker, local(server.port)).text(), "200 ");

    EXPECT_EQ(ask(asker, local(server.port), {.method = Method::get}).text(), "outcome_unknown");

    EXPECT_EQ(ask(asker, local(server.port)).text(), "200 ");
}

TEST(HttpPool, nobody_there_means_nothing_was_sent) {
    std::uint16_t port = 0;
    {
        TestServer gone;
        port = gone.port;
    }
    Asker asker;

    EXPECT_EQ(ask(asker, local(port)).text(), "could_not_connect");
    EXPECT_EQ(ask(asker, {.host = "localhost", .port = port}).text(), "could_not_connect");
    EXPECT_EQ(ask(asker, {.host = "no-such-host.invalid"}).text(), "could_not_connect");
}

TEST(HttpPool, does_not_send_a_line_break_in_a_header) {
    TestServer server;
    Asker asker;

    EXPECT_EQ(ask(asker, local(server.port), {.headers = {{"x", "a\r\nb: c"}}}).text(), "could_not_connect");
    EXPECT_EQ(ask(asker, local(server.port), {.target = "/a b"}).text(), "could_not_connect");

    EXPECT_EQ(server.server.stats().connections_accepted, 0u);
}

TEST(HttpPool, an_answer_that_does_not_come_is_not_waited_for) {
    EXPECT_EQ(ask_raw(stay_silent, impatience), "outcome_unknown");
    EXPECT_EQ(ask_raw(answer_with("HTTP/1.1 200")), "outcome_unknown");
    EXPECT_EQ(ask_raw(read_request), "outcome_unknown");
}

TEST(HttpPool, a_body_that_falls_silent_is_given_up) {
    const auto half = [](std::string head) {
        return [head](int descriptor) {
            answer_with("HTTP/1.1 200 OK\r\n" + head)(descriptor);
            stay_silent(descriptor);
        };
    };

    EXPECT_EQ(ask_raw(half("Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"), impatience), "200 a, then outcome_unknown");
    EXPECT_EQ(ask_raw(half("Content-Length: 2\r\n\r\na"), impatience), "200 a, then outcome_unknown");
    EXPECT_EQ(ask_raw(half("\r\na"), impatience), "200 a, then outcome_unknown");
}

TEST(HttpPool, a_server_that_takes_nothing_is_given_up) {
    Gate done;
    RawServer server({[&](int) { done.wait(); }});
    Asker asker;

    const PoolAnswer heard = ask(asker, local(server.port), {.body = std::string(40u << 20, 'x')}, impatience);

    EXPECT_EQ(heard.text(), "outcome_unknown");
    done.open();
}

TEST(HttpPool, hears_a_refusal_although_it_was_still_sending) {
    TestServer server;
    Asker asker;

    EXPECT_EQ(ask(asker, local(server.port), {.body = std::string(40u << 20, 'x')}).status, 413);
    EXPECT_EQ(ask(asker, local(server.port)).status, 200);
}

TEST(HttpPool, a_body_cut_short_is_not_a_body) {
    EXPECT_EQ(ask_raw(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")), "200 abc, then outcome_unknown");
    EXPECT_EQ(ask_raw(answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")),
              "200 abc, then outcome_unknown");
    EXPECT_EQ(ask_raw(answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n")),
              "200 abc, then outcome_unknown");
}

TEST(HttpPool, what_is_not_http_is_a_bad_response) {
    EXPECT_EQ(ask_raw(answer_with("SSH-2.0-OpenSSH\r\n\r\n")), "bad_response");
    EXPECT_EQ(ask_raw(answer_with("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na")),
              "bad_response");
    EXPECT_EQ(ask_raw(answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\na")), "bad_response");
    EXPECT_EQ(ask_raw(answer_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nx\r\n")),
              "200 a, then bad_response");
}

TEST(HttpPool, a_head_that_is_too_large_is_a_bad_response) {
    const auto with_header_of = [](std::size_t bytes) {
        return answer_with("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX: " + std::string(bytes, 'x') + "\r\n\r\na");
    };

    EXPECT_EQ(ask_raw(with_header_of(16'000)), "200 a");
    EXPECT_EQ(ask_raw(with_header_of(17'000)), "bad_response");
    EXPECT_EQ(ask_raw(with_header_of(1'000'000)), "bad_response");
}

TEST(HttpPool, reads_every_way_a_body_can_end) {
    const auto read = [](const std::string& text, Method method = Method::post) {
        return ask_raw(answer_with(text), patient, method);
    };

    EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), "200 abc");
    EXPECT_EQ(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n"),
              "200 abc");
    EXPECT_EQ(read("HTTP/1.0 200 OK\r\n\r\nabc"), "200 abc");
    EXPECT_EQ(read("HTTP/1.1 200 OK\r\n\r\n"), "200 ");
    EXPECT_EQ(read("HTTP/1.1 204 No Content\r\n\r\n"), "204 ");
    EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", Method::head), "200 ");
    EXPECT_EQ(read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), "200 abc");
}

TEST(HttpPool, reads_what_comes_byte_by_byte) {
    const std::string text =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n";
    RawServer server({[&](int descriptor) {
        read_request(descriptor);
        const int one = 1;
        ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        for (const char& c : text) {
            ::send(descriptor, &c, 1, MSG_NOSIGNAL);
            std::this_thread::yield();
        }
        stay_silent(descriptor);
    }});
    Asker asker;

    EXPECT_EQ(ask(asker, local(server.port)).text(), "200 hello world");
}

TEST(HttpPool, small_chunks_that_came_together_are_one_piece) {
    std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    std::string body;
    for (int i = 0; i < 300; ++i) {
        text.append("3\r\nabc\r\n");
        body.append("abc");
    }
    RawServer server({answer_with(text + "0\r\n\r\n")});
    Asker asker;

    const PoolAnswer heard = ask(asker, local(server.port));

    EXPECT_EQ(heard.text(), "200 " + body);
    EXPECT_LT(heard.pieces, 10u);
}

TEST(HttpPool, chunks_of_every_size_come_whole) {
    std::string text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    std::string body;
    for (std::size_t i = 1; i < 60'000; i = i * 2 + 1) {
        const std::string chunk(i, static_cast<char>('a' + i % 26));
        char size[20];
        std::snprintf(size, sizeof size, "%zx\r\n", i);
        text.append(size).append(chunk).append("\r\n");
        body.append(chunk);
    }

    EXPECT_TRUE(ask_raw(answer_with(text + "0\r\n\r\n")) == "200 " + body);
}

TEST(HttpPool, tells_the_headers) {
    RawServer server({answer_with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Some: Thing\r\nx-more: \r\n\r\n")});
    Asker asker;

    const auto seen = asker.run<std::string>([&](HttpPool& pool) -> Task<std::string> {
        auto exchange = co_await pool.send(local(server.port), {}, patient);
        co_return std::string((*exchange)->header("x-some")) + std::to_string((*exchange)->headers.size());
    });

    EXPECT_EQ(seen, "Thing3");
}

Task<std::string> read_once(HttpPool& pool, Origin origin) {
    auto exchange = co_await pool.send(std::move(origin), {}, patient);
    if (!exchange) co_return exchange.error().detail;
    const auto piece = co_await (*exchange)->read();
    co_return piece ? std::string(*piece) : piece.error().detail;
}

TEST(HttpPool, letting_go_of_an_answer_before_its_end_closes_its_connection) {
    const auto endless = [](Request) -> Task<Response> {
        Response response;
        response.stream = [](StreamWriter& writer) -> Task<void> {
            bool open = true;
            while (open && !writer.closed()) open = co_await writer.write("more ");
        };
        co_return response;
    };
    TestServer server(endless);
    Asker asker;

    const auto piece = asker.run<std::string>([&](HttpPool& pool) { return read_once(pool, local(server.port)); });

    EXPECT_TRUE(piece.starts_with("more "));
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
}

TEST(HttpPool, letting_go_of_an_answer_that_was_read_whole_keeps_its_connection) {
    TestServer server;
    Asker asker;

    for (int i = 0; i < 3; ++i) {
        const auto piece = asker.run<std::string>([&](HttpPool& pool) { return read_once(pool, local(server.port)); });
        EXPECT_EQ(piece, "POST / ");
    }

    EXPECT_EQ(server.server.stats().connections_accepted, 1u);
}

TEST(HttpPool, ends_with_its_io_context_whatever_is_in_flight) {
    Gate asked;
    RawServer silent({[&](int descriptor) {
        read_request(descriptor);
        asked.open();
        stay_silent(descriptor);
    }});
    Gate streams;
    RawServer endless({[&](int descriptor) {
        answer_with("HTTP/1.1 200 OK\r\n\r\nabc")(descriptor);
        streams.open();
        stay_silent(descriptor);
    }});
    TestServer server;
    Asker asker;
    EXPECT_EQ(ask(asker, local(server.port)).status, 200);  // One connection is kept.
    HttpPool& pool = HttpPool::of(asker.context->get_executor());
    for (const std::uint16_t port : {silent.port, endless.port}) {
        boost::asio::co_spawn(*asker.context, exchange(pool, local(port), {}, patient), boost::asio::detached);
    }
    ASSERT_TRUE(asked.wait());
    ASSERT_TRUE(streams.wait());

    asker.end();

    EXPECT_TRUE(eventually([&] { return silent.served + endless.served == 2; }));
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
}

TEST(HttpPool, an_io_context_has_nothing_to_do_when_nothing_is_open) {
    RawServer server({answer_with("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na")});
    boost::asio::io_context context(1);
    std::string text;
    boost::asio::co_spawn(context, exchange(HttpPool::of(context.get_executor()), local(server.port), {}, patient),
                          [&](const std::exception_ptr&, const PoolAnswer& heard) { text = heard.text(); });

    context.run_for(milliseconds(5'000));

    EXPECT_EQ(text, "200 a");
    EXPECT_TRUE(context.stopped());
}

TEST(HttpPool, two_hundred_at_once_and_then_again) {
    TestServer server;
    Asker asker;

    for (int round = 0; round < 3; ++round) {
        std::atomic<int> answered = 0;
        for (int i = 0; i < 200; ++i) {
            boost::asio::co_spawn(*asker.context,
                                  exchange(HttpPool::of(asker.context->get_executor()), local(server.port),
                                           {.body = std::to_string(i)}, patient),
                                  [&answered, i](const std::exception_ptr&, const PoolAnswer& heard) {
                                      if (heard.text() == "200 POST / " + std::to_string(i)) ++answered;
                                  });
        }
        EXPECT_TRUE(eventually([&] { return answered == 200; })) << answered;
    }

    EXPECT_EQ(server.server.stats().connections_accepted, 200u);
}

Origin secure(std::uint16_t port, const std::string& host, const std::string& ca_file) {
    return {.secure = true, .host = host, .port = port, .ca_file = ca_file};
}

TEST(HttpPoolTls, a_request_goes_there_and_back) {
    const TestCertificate certificate("DNS:localhost,IP:127.0.0.1");
    TestServer server(echo, secure_options(certificate));
    Asker asker;
    const std::string large(5u << 20, 'x');

    for (const std::string host : {"127.0.0.1", "localhost"}) {
        const Origin origin = secure(server.port, host, certificate.files.cert_file);
        for (const std::string& body : {std::string("small"), large, std::string()}) {
            const PoolAnswer heard = ask(asker, origin, {.body = body});
            EXPECT_TRUE(heard.text() == "200 POST / " + body) << heard.text().substr(0, 100);
        }
    }

    EXPECT_EQ(server.server.stats().connections_accepted, 2u);
}

TEST(HttpPoolTls, a_certificate_for_another_name_is_not_believed) {
    const TestCertificate certificate("DNS:elsewhere.example");
    TestServer server(echo, secure_options(certificate));
    Asker asker;

    for (const std::string host : {"127.0.0.1", "localhost"}) {
        EXPECT_EQ(ask(asker, secure(server.port, host, certificate.files.cert_file)).text(), "tls_failed");
    }
    EXPECT_EQ(server.server.stats().requests, 0u);
}

TEST(HttpPoolTls, a_server_nobody_vouches_for_is_not_believed) {
    const TestCertificate certificate("IP:127.0.0.1");
    const TestCertificate other("IP:127.0.0.1");
    TestServer server(echo, secure_options(certificate));
    Asker asker;

    for (const std::string& ca_file : {std::string(), other.files.cert_file, std::string("/no/such/file.pem")}) {
        EXPECT_EQ(ask(asker, secure(server.port, "127.0.0.1", ca_file)).text(), "tls_failed");
    }
    EXPECT_EQ(server.server.stats().requests, 0u);
}

TEST(HttpPoolTls, a_server_without_tls_is_not_believed_and_a_silent_one_not_waited_for) {
    TestServer plain;
    RawServer silent({stay_silent});
    Asker asker;

    EXPECT_EQ(ask(asker, secure(plain.port, "127.0.0.1", "")).text(), "tls_failed");
    EXPECT_EQ(ask(asker, secure(silent.port, "127.0.0.1", ""), {}, impatience).text(), "could_not_connect");
}

TEST(HttpPoolTls, two_hundred_at_once) {
    const TestCertificate certificate("IP:127.0.0.1");
    TestServer server(echo, secure_options(certificate));
    Asker asker;
    std::atomic<int> answered = 0;
    const Origin origin = secure(server.port, "127.0.0.1", certificate.files.cert_file);

    for (int i = 0; i < 200; ++i) {
        boost::asio::co_spawn(
            *asker.context, exchange(HttpPool::of(asker.context->get_executor()), origin, {}, patient),
            [&](const std::exception_ptr&, const PoolAnswer& heard) { answered += heard.status == 200; });
    }

    EXPECT_TRUE(eventually([&] { return answered == 200; })) << answered;
}

TEST(HttpPoolTls, a_session_is_resumed) {
    const TestCertificate certificate("IP:127.0.0.1");
    const auto context = make_server_tls(certificate.files);
    ASSERT_TRUE(context);
    std::vector<bool> resumed;
    const auto talk = [&](int descriptor) {
        SSL* const ssl = SSL_new((*context)->native_handle());
        SSL_set_fd(ssl, descriptor);
        SSL_accept(ssl);
        resumed.push_back(SSL_session_reused(ssl) == 1);
        char piece[1024];
        SSL_read(ssl, piece, sizeof piece);
        const std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na";
        SSL_write(ssl, answer.data(), static_cast<int>(answer.size()));
        SSL_shutdown(ssl);
        SSL_free(ssl);
    };
    RawServer server({talk, talk, talk});
    Asker asker;

    const Origin origin = secure(server.port, "127.0.0.1", certificate.files.cert_file);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(asker, origin).text(), "200 a");

    ASSERT_TRUE(eventually([&] { return server.served == 3; }));
    EXPECT_EQ(resumed, (std::vector<bool>{false, true, true}));
}

TEST(HttpPoolTls, an_end_that_tls_did_not_announce_is_not_the_end_of_an_answer) {
    const TestCertificate certificate("IP:127.0.0.1");
    const auto context = make_server_tls(certificate.files);
    ASSERT_TRUE(context);
    const auto talk = [&](bool says_goodbye) {
        return [&context, says_goodbye](int descriptor) {
            SSL* const ssl = SSL_new((*context)->native_handle());
            SSL_set_fd(ssl, descriptor);
            SSL_accept(ssl);
            char piece[1024];
            SSL_read(ssl, piece, sizeof piece);
            const std::string_view answer = "HTTP/1.1 200 OK\r\n\r\nabc";
            SSL_write(ssl, answer.data(), static_cast<int>(answer.size()));
            if (says_goodbye) SSL_shutdown(ssl);
            SSL_free(ssl);
        };
    };
    RawServer server({talk(true), talk(false)});
    Asker asker;
    const Origin origin = secure(server.port, "127.0.0.1", certificate.files.cert_file);

    EXPECT_EQ(ask(asker, origin).text(), "200 abc");
    EXPECT_EQ(ask(asker, origin).text(), "200 abc, then outcome_unknown");
}

}  // namespace
}  // namespace interlock::net
