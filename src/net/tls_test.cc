#include "net/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "net/http_client.h"
#include "net/http_test_support.h"
#include "net/notifier.h"
#include "net/test_certificate.h"

namespace interlock::net {
namespace {

using Kind = ClientError::Kind;

HttpClient client_of(std::uint16_t port, const std::string& host, const std::string& ca_file) {
    HttpClient::Options options;
    options.ca_file = ca_file;
    return HttpClient({.secure = true, .host = host, .port = port}, options);
}

TEST(Tls, a_request_goes_there_and_back) {
    const TestCertificate certificate("DNS:localhost,IP:127.0.0.1");
    TestServer server(
        [](Request request) -> Task<Response> {
            Response response;
            response.body = (request.secure ? "secure " : "plain ") + request.body;
            co_return response;
        },
        secure_options(certificate));
    const std::string body(1u << 20, 'x');

    for (const std::string host : {"127.0.0.1", "localhost"}) {
        auto client = client_of(server.port, host, certificate.files.cert_file);
        for (int i = 0; i < 3; ++i) {
            const auto response = client.request({.method = Method::post, .body = body});
            ASSERT_TRUE(response) << response.error().detail;
            EXPECT_TRUE(response->body == "secure " + body);
        }
    }
    EXPECT_EQ(server.server.stats().connections_accepted, 2u);
}

TEST(Tls, a_server_nobody_vouches_for_is_not_believed) {
    const TestCertificate certificate("IP:127.0.0.1");
    const TestCertificate other("IP:127.0.0.1");
    TestServer server(echo, secure_options(certificate));

    for (const std::string& ca_file : {std::string(), other.files.cert_file}) {
        const auto response = client_of(server.port, "127.0.0.1", ca_file).request({});
        ASSERT_FALSE(response);
        EXPECT_EQ(response.error().kind, Kind::tls_failed);
    }
    EXPECT_EQ(server.server.stats().requests, 0u);
}

TEST(Tls, a_certificate_for_another_name_is_not_believed) {
    const TestCertificate certificate("DNS:elsewhere.example");
    TestServer server(echo, secure_options(certificate));

    for (const std::string host : {"127.0.0.1", "localhost"}) {
        const auto response = client_of(server.port, host, certificate.files.cert_file).request({});
        ASSERT_FALSE(response);
        EXPECT_EQ(response.error().kind, Kind::tls_failed);
    }
}

TEST(Tls, a_client_that_speaks_plain_http_is_hung_up_on) {
    const TestCertificate certificate("IP:127.0.0.1");
    TestServer server(echo, secure_options(certificate));
    RawClient plain(server.port);

    plain.send(get("/"));

    EXPECT_FALSE(contains(plain.receive_all(), "HTTP/1.1 200"));
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
    EXPECT_TRUE(client_of(server.port, "127.0.0.1", certificate.files.cert_file).request({}));
}

TEST(Tls, a_server_without_tls_fails_a_client_that_wants_it) {
    TestServer server;

    const auto response = client_of(server.port, "127.0.0.1", "").request({});

    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().kind, Kind::tls_failed);
}

TEST(Tls, a_handshake_that_does_not_come_is_not_waited_for) {
    const TestCertificate certificate("IP:127.0.0.1");
    auto options = secure_options(certificate);
    options.header_timeout = milliseconds(50);
    TestServer server(echo, options);
    RawClient silent(server.port);

    EXPECT_TRUE(silent.is_closed_by_peer());
}

// Plain OpenSSL, to see what only it can see.
class OpenSslClient {
 public:
    OpenSslClient() : context_(SSL_CTX_new(TLS_client_method())) {
        SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_CLIENT);
    }
    ~OpenSslClient() {
        SSL_SESSION_free(session_);
        SSL_CTX_free(context_);
    }
    OpenSslClient(const OpenSslClient&) = delete;
    OpenSslClient& operator=(const OpenSslClient&) = delete;

    SSL_CTX* context() { return context_; }

    struct Seen {
        bool connected = false;
        bool resumed = false;
        std::string protocol;
    };
    // One request; the session is kept for the next one.
    Seen visit(std::uint16_t port) {
        Seen seen;
        BIO* connection = BIO_new_connect(("127.0.0.1:" + std::to_string(port)).c_str());
        BIO_do_connect(connection);
        SSL* ssl = SSL_new(context_);
        SSL_set_bio(ssl, connection, connection);
        if (session_) SSL_set_session(ssl, session_);
        seen.connected = SSL_connect(ssl) == 1;
        if (seen.connected) {
            const std::string request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            SSL_write(ssl, request.data(), static_cast<int>(request.size()));
            char piece[1024];
            while (SSL_read(ssl, piece, sizeof piece) > 0) continue;
            seen.resumed = SSL_session_reused(ssl) == 1;
            const unsigned char* protocol = nullptr;
            unsigned int size = 0;
            SSL_get0_alpn_selected(ssl, &protocol, &size);
            if (size > 0) seen.protocol.assign(reinterpret_cast<const char*>(protocol), size);
            SSL_SESSION_free(session_);
            session_ = SSL_get1_session(ssl);
            SSL_shutdown(ssl);
        }
        SSL_free(ssl);
        return seen;
    }

 private:
    SSL_CTX* context_;
    SSL_SESSION* session_ = nullptr;
};

TEST(Tls, a_session_is_resumed) {
    const TestCertificate certificate("IP:127.0.0.1");
    TestServer server(echo, secure_options(certificate));
    OpenSslClient client;

    EXPECT_FALSE(client.visit(server.port).resumed);
    EXPECT_TRUE(client.visit(server.port).resumed);
}

TEST(Tls, versions_before_1_2_are_not_spoken) {
    const TestCertificate certificate("IP:127.0.0.1");
    TestServer server(echo, secure_options(certificate));
    OpenSslClient old;
    OpenSslClient recent;
    for (OpenSslClient* client : {&old, &recent}) SSL_CTX_set_security_level(client->context(), 0);
    SSL_CTX_set_max_proto_version(old.context(), TLS1_1_VERSION);
    SSL_CTX_set_max_proto_version(recent.context(), TLS1_2_VERSION);

    EXPECT_FALSE(old.visit(server.port).connected);
    EXPECT_TRUE(recent.visit(server.port).connected);
}

TEST(Tls, http_1_1_is_what_is_agreed_on) {
    const TestCertificate certificate("IP:127.0.0.1");
    TestServer server(echo, secure_options(certificate));
    OpenSslClient client;
    const std::string_view offered = "\x02h2\x08http/1.1";
    SSL_CTX_set_alpn_protos(client.context(), reinterpret_cast<const unsigned char*>(offered.data()),
                            static_cast<unsigned int>(offered.size()));

    EXPECT_EQ(client.visit(server.port).protocol, "http/1.1");
}

TEST(Tls, a_server_does_not_start_without_its_files) {
    const TestCertificate certificate("IP:127.0.0.1");
    const TestCertificate other("IP:127.0.0.1");
    TestLog log;
    for (const TlsFiles& files : {TlsFiles{"/no/such/cert.pem", certificate.files.key_file},
                                  TlsFiles{certificate.files.cert_file, "/no/such/key.pem"},
                                  TlsFiles{certificate.files.cert_file, other.files.key_file}}) {
        auto options = test_options();
        options.tls = files;
        HttpServer server(options, echo, log.log());

        const auto started = server.start();

        ASSERT_FALSE(started);
        EXPECT_EQ(started.error().kind, ListenError::Kind::not_possible);
        EXPECT_TRUE(contains(started.error().detail, files.key_file) ||
                    contains(started.error().detail, files.cert_file));
    }
}

TEST(Tls, drains_as_well) {
    const TestCertificate certificate("IP:127.0.0.1");
    TestServer server(echo, secure_options(certificate));
    auto client = client_of(server.port, "127.0.0.1", certificate.files.cert_file);
    ASSERT_TRUE(client.request({}));

    EXPECT_TRUE(server.server.drain(milliseconds(2'000)));

    EXPECT_FALSE(client.request({.method = Method::post}));
}

Task<void> write_until_closed(StreamWriter& writer) {
    const std::string piece(1'000, 'x');
    bool open = true;
    while (open && !writer.closed()) open = co_await writer.write(piece);
}

Task<void> write_three_pieces(StreamWriter& writer) {
    for (const char* piece : {"one ", "two ", "three"}) co_await writer.write(piece);
}

TEST(Tls, a_stream_arrives_to_its_end) {
    const TestCertificate certificate("IP:127.0.0.1");
    TestServer server(
        [](Request) -> Task<Response> {
            Response response;
            response.stream = write_three_pieces;
            co_return response;
        },
        secure_options(certificate));
    std::string received;

    const auto response =
        client_of(server.port, "127.0.0.1", certificate.files.cert_file).stream({}, [&](std::string_view piece) {
            received += piece;
            return true;
        });

    ASSERT_TRUE(response) << response.error().detail;
    EXPECT_EQ(received, "one two three");
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
}

TEST(Tls, a_connection_is_kept_after_a_stream) {
    const TestCertificate certificate("IP:127.0.0.1");
    TestServer server(
        [](Request request) -> Task<Response> {
            if (request.path == "/plain") co_return co_await echo(std::move(request));
            Response response;
            response.body = "zero ";
            response.stream = write_three_pieces;
            co_return response;
        },
        secure_options(certificate));
    auto client = client_of(server.port, "127.0.0.1", certificate.files.cert_file);

    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(client.request({})->body, "zero one two three");
        EXPECT_EQ(client.request({.target = "/plain"})->body, "GET /plain ");
    }

    EXPECT_EQ(server.server.stats().connections_accepted, 1u);
}

TEST(Tls, a_reader_that_leaves_a_silent_stream_is_noticed) {
    const TestCertificate certificate("IP:127.0.0.1");
    Notifier never_notified;
    std::atomic<int> ended = 0;
    TestServer server(
        [&](Request) -> Task<Response> {
            Response response;
            response.body = "hello";
            response.stream = [&](StreamWriter& writer) -> Task<void> {
                while (!writer.closed()) {
                    co_await writer.wait(never_notified, 0,
                                         std::chrono::steady_clock::now() + std::chrono::seconds(30));
                }
                ++ended;
            };
            co_return response;
        },
        secure_options(certificate));

    EXPECT_TRUE(client_of(server.port, "127.0.0.1", certificate.files.cert_file).stream({}, [](std::string_view) {
        return false;
    }));

    EXPECT_TRUE(eventually([&] { return ended == 1; }));
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
}

TEST(Tls, a_stream_ends_when_its_reader_has_enough) {
    const TestCertificate certificate("IP:127.0.0.1");
    TestServer server(
        [](Request) -> Task<Response> {
            Response response;
            response.stream = write_until_closed;
            co_return response;
        },
        secure_options(certificate));
    std::size_t bytes = 0;

    const auto response =
        client_of(server.port, "127.0.0.1", certificate.files.cert_file).stream({}, [&](std::string_view piece) {
            bytes += piece.size();
            return bytes < 1'000'000;
        });

    EXPECT_TRUE(response);
    EXPECT_TRUE(eventually([&] { return server.server.stats().connections_open == 0; }));
}

}  // namespace
}  // namespace interlock::net
