// Connections by an entrance: who they are, what only they may ask for, and tunnels.
#include <gtest/gtest.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>

#include "net/http_test_support.h"
#include "net/peer.h"
#include "net/request_parser.h"
#include "net/tunnel.h"

namespace interlock::net {
namespace {

using State = RequestParser::State;

State state_after(const std::string& text, bool proxied, Request* request = nullptr) {
    RequestParser parser({.proxied = proxied});
    parser.feed(text);
    if (request != nullptr && parser.state() == State::done) *request = parser.request();
    return parser.state();
}

TEST(ProxiedRequests, what_is_for_another_server_is_taken_only_where_that_is_asked_for) {
    for (const char* text : {"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
                             "GET http://a.example/b?c HTTP/1.1\r\nHost: a.example\r\n\r\n"}) {
        EXPECT_EQ(state_after(text, true), State::done) << text;
        EXPECT_EQ(state_after(text, false), State::refused) << text;
    }
}

TEST(ProxiedRequests, the_host_and_port_are_cut_out_of_the_target) {
    Request request;

    state_after("CONNECT User@A.example:443 HTTP/1.1\r\nHost: b\r\n\r\n", true, &request);
    EXPECT_EQ(request.method, Method::connect);
    EXPECT_EQ(request.authority, "User@A.example:443");
    state_after("GET HTTP://A.example:81/b?c HTTP/1.1\r\nHost: b\r\n\r\n", true, &request);
    EXPECT_EQ(request.authority, "A.example:81");
    EXPECT_EQ(request.target, "/b?c");
    EXPECT_EQ(request.path, "/b");
    state_after("GET http://a.example?c HTTP/1.1\r\nHost: b\r\n\r\n", true, &request);
    EXPECT_EQ(request.authority, "a.example");
    EXPECT_EQ(request.target, "/?c");
    state_after("GET /b HTTP/1.1\r\nHost: b\r\n\r\n", true, &request);
    EXPECT_EQ(request.authority, "");
}

TEST(ProxiedRequests, a_connect_with_a_body_and_a_target_without_a_host_are_refused) {
    for (const char* text : {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET ",
                             "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
                             "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                             "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\n\r\n",
                             "CONNECT  HTTP/1.1\r\nHost: a\r\n\r\n", "GET http:///b HTTP/1.1\r\nHost: a\r\n\r\n",
                             "GET https://a/b HTTP/1.1\r\nHost: a\r\n\r\n", "GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
                             "CONNECT a:1\tb HTTP/1.1\r\nHost: a\r\n\r\n"}) {
        EXPECT_EQ(state_after(text, true), State::refused) << text;
    }
}

// A listening socket, as the shim of a run hands one over.
class Listening {
 public:
    Listening() : descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::listen(descriptor, 100);
        socklen_t size = sizeof address;
        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
        port = ntohs(address.sin_port);
    }
    int descriptor;
    std::uint16_t port = 0;
};

class EntranceTest : public testing::Test {
 protected:
    // Connects what asks for it to `upstream`; says who everybody else is.
    Task<Response> handle(Request request) {
        if (request.authority.empty()) {
            Response response;
            response.body = request.sender->visitor ? request.sender->visitor->name : "no visitor";
            co_return response;
        }
        auto socket = co_await connect_to({boost::asio::ip::address_v4::loopback()}, upstream, milliseconds(1'000));
        if (!socket) co_return problem(502, "host_unreachable", socket.error());
        const bool announced = request.method == Method::connect;
        Response response;
        response.tunnel = std::make_shared<Tunnel>(std::move(*socket),
                                                   Tunnel::Options{.first = announced ? "" : "GET / HTTP/1.1\r\n\r\n",
                                                                   .announced = announced,
                                                                   .idle = idle,
                                                                   .ended = [this](TunnelCounts its) -> Task<void> {
                                                                       counts = its;
                                                                       ++ended;
                                                                       co_return;
                                                                   }});
        co_return response;
    }
    static HttpServerOptions options() {
        HttpServerOptions its = test_options();
        its.allowed_hosts = {"localhost"};
        its.connections_per_visitor_max = 4;
        return its;
    }
    void open() { server.server.open_entrance("run_1", entrance.descriptor); }

    std::uint16_t upstream = 0;
    std::chrono::seconds idle{600};
    TunnelCounts counts;
    std::atomic<int> ended = 0;
    Listening entrance;
    TestServer server{[this](Request request) { return handle(std::move(request)); }, options()};
};

const std::string connect_text = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";

TEST_F(EntranceTest, a_connection_says_by_which_entrance_it_came_in) {
    open();
    RawClient visitor(entrance.port), other(server.port);

    EXPECT_EQ(body_of(visitor.ask(get("/"))), "run_1");
    EXPECT_EQ(body_of(visitor.ask(get("/"))), "run_1");
    EXPECT_EQ(body_of(other.ask(get("/"))), "no visitor");
}

TEST_F(EntranceTest, by_the_servers_own_address_no_client_is_connected_to_others) {
    RawClient other(server.port);

    EXPECT_EQ(status_of(other.ask(connect_text)), "HTTP/1.1 501 Not Implemented");
}

TEST_F(EntranceTest, an_entrance_that_is_closed_takes_no_client_in_and_a_new_one_takes_its_place) {
    open();
    EXPECT_EQ(body_of(RawClient(entrance.port).ask(get("/"))), "run_1");
    server.server.close_entrance("run_1");
    EXPECT_TRUE(eventually([&] { return !RawClient(entrance.port).connected(); }));
    Listening second;
    server.server.open_entrance("run_1", second.descriptor);

    EXPECT_EQ(body_of(RawClient(second.port).ask(get("/"))), "run_1");
}

TEST_F(EntranceTest, a_visitor_with_many_connections_keeps_no_other_client_out) {
    open();
    std::vector<std::unique_ptr<RawClient>> many;
    for (int i = 0; i < 4; ++i) {
        many.push_back(std::make_unique<RawClient>(entrance.port));
        EXPECT_EQ(body_of(many.back()->ask(get("/"))), "run_1");
    }

    EXPECT_EQ(RawClient(entrance.port).ask(get("/")).find("200"), std::string::npos);
    EXPECT_EQ(body_of(RawClient(server.port).ask(get("/"))), "no visitor");
    many.pop_back();
    EXPECT_TRUE(eventually([&] { return body_of(RawClient(entrance.port).ask(get("/"))) == "run_1"; }));
}

TEST_F(EntranceTest, a_tunnel_carries_both_ways_and_counts) {
    RawServer peer({[](int descriptor) {
        read_request(descriptor);
        ::send(descriptor, "hello", 5, MSG_NOSIGNAL);
    }});
    upstream = peer.port;
    open();
    RawClient client(entrance.port);

    // What comes right behind the request is the tunnel's.
    client.send(connect_text + "early");
    EXPECT_EQ(client.receive_head(), "HTTP/1.1 200 Connection established\r\n\r\n");
    client.send(" and late\r\n\r\n");

    EXPECT_EQ(client.receive_all(), "hello");
    client.close();
    EXPECT_TRUE(eventually([&] { return ended == 1; }));
    EXPECT_EQ(counts.out, 18);
    EXPECT_EQ(counts.in, 5);
}

TEST_F(EntranceTest, the_end_of_one_direction_is_passed_on_and_the_other_goes_on) {
    RawServer peer({[](int descriptor) {
        std::string all;
        char piece[100];
        for (ssize_t count; (count = ::recv(descriptor, piece, sizeof piece, 0)) > 0;) {
            all.append(piece, static_cast<std::size_t>(count));
        }
        all += " has ended";
        ::send(descriptor, all.data(), all.size(), MSG_NOSIGNAL);
    }});
    upstream = peer.port;
    open();
    RawClient client(entrance.port);
    client.send(connect_text);
    client.receive_head();

    client.send("this");
    client.finish_sending();

    EXPECT_EQ(client.receive_all(), "this has ended");
    EXPECT_TRUE(eventually([&] { return ended == 1; }));
}

TEST_F(EntranceTest, much_goes_through_a_tunnel_while_its_reader_is_slow) {
    constexpr std::size_t much = 20u << 20;
    RawServer peer({[](int descriptor) {
        read_request(descriptor);
        const std::string part(1u << 20, 'x');
        for (int i = 0; i < 20; ++i) {
            for (std::size_t at = 0; at < part.size();) {
                const auto count = ::send(descriptor, part.data() + at, part.size() - at, MSG_NOSIGNAL);
                if (count <= 0) return;
                at += static_cast<std::size_t>(count);
            }
        }
    }});
    upstream = peer.port;
    open();
    RawClient client(entrance.port);
    client.send(connect_text + "\r\n\r\n");
    client.receive_head();
    std::this_thread::sleep_for(milliseconds(100));

    EXPECT_EQ(client.receive_all().size(), much);
    client.close();
    EXPECT_TRUE(eventually([&] { return ended == 1; }));
    EXPECT_EQ(counts.in, std::int64_t{much});
}

TEST_F(EntranceTest, a_request_in_plain_http_has_its_answer_and_then_the_connection_ends) {
    RawServer peer({answer_with("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")});
    upstream = peer.port;
    open();
    RawClient client(entrance.port);

    // The second request is not read.
    client.send(
        "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\nGET /secret HTTP/1.1\r\nHost: localhost\r\n\r\n");

    EXPECT_EQ(client.receive_all(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    EXPECT_TRUE(eventually([&] { return ended == 1; }));
}

TEST_F(EntranceTest, a_tunnel_in_which_nothing_happens_ends) {
    idle = std::chrono::seconds(0);
    RawServer peer({stay_silent});
    upstream = peer.port;
    open();
    RawClient client(entrance.port);
    client.send(connect_text);
    client.receive_head();

    client.receive_all();

    EXPECT_TRUE(eventually([&] { return ended == 1 && peer.served == 1; }));
}

TEST_F(EntranceTest, a_server_that_drains_ends_its_tunnels) {
    RawServer peer({stay_silent});
    upstream = peer.port;
    open();
    RawClient client(entrance.port);
    client.send(connect_text);
    client.receive_head();

    EXPECT_TRUE(server.server.drain(milliseconds(2'000)));

    EXPECT_EQ(ended, 1);
}

TEST_F(EntranceTest, where_no_server_listens_the_client_is_told) {
    open();
    Listening closed;
    ::close(closed.descriptor);
    upstream = closed.port;

    EXPECT_EQ(status_of(RawClient(entrance.port).ask(connect_text)), "HTTP/1.1 502 Bad Gateway");
}

TEST(Entrance, only_a_listening_socket_of_ipv4_is_one) {
    Listening listening;
    const int stream = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int local = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT_TRUE(is_tcp_listener(listening.descriptor));
    EXPECT_FALSE(is_tcp_listener(stream));
    EXPECT_FALSE(is_tcp_listener(local));
    EXPECT_FALSE(is_tcp_listener(STDIN_FILENO));
    for (const int each : {listening.descriptor, stream, local}) ::close(each);
}

}  // namespace
}  // namespace interlock::net
