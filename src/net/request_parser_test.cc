#include "net/request_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "net/refused_requests.h"

namespace interlock::net {
namespace {

using State = RequestParser::State;

// Gives the parser what has "arrived" so far again and again, `step` bytes more each time. What is left over stays.
std::size_t feed(RequestParser& parser, const std::string& text, std::size_t step) {
    std::size_t used = 0;
    for (std::size_t arrived = 0; arrived < text.size() && parser.state() < State::done;) {
        arrived = std::min(arrived + step, text.size());
        used += parser.feed(std::string_view(text).substr(used, arrived - used));
    }
    return used;
}

struct Parsed {
    State state;
    std::size_t used;
    Request request;
    bool keep_alive;
};

Parsed parse(const std::string& text) {
    RequestParser parser({});
    const std::size_t used = feed(parser, text, text.size());
    const bool done = parser.state() == State::done;
    return {parser.state(), used, done ? parser.request() : Request(), done && parser.keep_alive()};
}

TEST(RequestParser, refuses_what_could_be_understood_differently) {
    for (const RefusedRequest& refused : refused_requests()) {
        RequestParser parser({});

        feed(parser, refused.text, refused.text.size());

        ASSERT_EQ(parser.state(), State::refused) << refused.what;
        EXPECT_EQ(parser.refusal().status, refused.status) << refused.what << ": " << parser.refusal().detail;
    }
}

TEST(RequestParser, refuses_the_same_when_it_comes_byte_by_byte) {
    for (const RefusedRequest& refused : refused_requests()) {
        RequestParser parser({});

        feed(parser, refused.text, 1);

        ASSERT_EQ(parser.state(), State::refused) << refused.what;
        EXPECT_EQ(parser.refusal().status, refused.status) << refused.what << ": " << parser.refusal().detail;
    }
}

// The control for the two above: the same shapes, well-formed.
TEST(RequestParser, takes_what_is_well_formed) {
    const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
    for (const std::string& text : {
             std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
             std::string("GET / HTTP/1.1\r\nHost: a.b-c_d:8080\r\n\r\n"),
             std::string("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
             std::string("GET / HTTP/1.1\r\nHOST:a\r\n\r\n"),
             std::string("GET / HTTP/1.0\r\n\r\n"),
             std::string("GET /a%20b/~c;d=e:f@g,(h)?i=%3f&j=[k]|{l}\"m HTTP/1.1\r\nHost: a\r\n\r\n"),
             post + "Content-Length: 3\r\n\r\nabc",
             post + "Content-Length: 003\r\n\r\nabc",
             post + "Content-Length:3 \r\n\r\nabc",
             post + "Content-Length: 0\r\n\r\n",
             post + "Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
             post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
             post + "Transfer-Encoding: chunked\r\n\r\n3;a=b;c=\"d e\"\r\nabc\r\n00\r\n\r\n",
             post + "Expect: 100-Continue\r\nContent-Length: 0\r\n\r\n",
             post + "x: \t a\tb \xE4 \r\ny:\r\n\r\n",
             post + "x: a\r\nx: b\r\n\r\n",
         }) {
        for (const std::size_t step : {text.size(), std::size_t{1}}) {
            RequestParser parser({});

            const std::size_t used = feed(parser, text, step);

            EXPECT_EQ(parser.state(), State::done)
                << text << (parser.state() == State::refused ? parser.refusal().detail : "");
            EXPECT_EQ(used, text.size()) << text;
        }
    }
}

TEST(RequestParser, gives_the_request_in_its_parts) {
    const auto parsed =
        parse("POST /a/b%20c?d=e?f HTTP/1.1\r\nHost: a\r\nX-Thing:  two words \r\nContent-Length: 5\r\n\r\nhello");

    EXPECT_EQ(parsed.request.method, Method::post);
    EXPECT_EQ(parsed.request.target, "/a/b%20c?d=e?f");
    EXPECT_EQ(parsed.request.path, "/a/b%20c");
    EXPECT_EQ(parsed.request.query, "d=e?f");
    EXPECT_EQ(parsed.request.header("x-thing"), "two words");
    EXPECT_EQ(parsed.request.header("x-other"), "");
    EXPECT_EQ(parsed.request.body, "hello");
}

TEST(RequestParser, puts_chunks_together) {
    const std::string text =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n";

    EXPECT_EQ(parse(text).request.body, "hello world");
    EXPECT_EQ(parse(text).used, text.size());
}

TEST(RequestParser, stops_at_the_end_of_a_request_and_goes_on_with_the_next) {
    const std::string first = "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    const std::string second = "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
    RequestParser parser({});

    EXPECT_EQ(parser.feed(first + second), first.size());
    EXPECT_EQ(parser.request().path, "/1");
    parser.begin_next();
    EXPECT_EQ(parser.feed(second), second.size());

    EXPECT_EQ(parser.state(), State::done);
    EXPECT_EQ(parser.request().path, "/2");
    EXPECT_EQ(parser.request().body, "");
    EXPECT_EQ(parser.request().headers.size(), 1u);
}

// What a request means must not depend on how the network cut it up. Broken requests are made from sound ones.
TEST(RequestParser, understands_the_same_however_the_bytes_are_cut) {
    const std::vector<std::string> sound = {
        "POST /a?b=%20 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n",
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=\"b\"\r\n!\r\n0\r\n\r\n",
    };
    const std::string odd = std::string("\r\n\t :;,%#\"0a\x7F\x80", 14) + '\0';
    std::mt19937 random(7);
    const auto below = [&](std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random); };
    int accepted = 0;

    for (int i = 0; i < 20'000; ++i) {
        std::string text = sound[below(sound.size())];
        for (std::size_t changes = below(4); changes > 0; --changes) {
            const std::size_t at = below(text.size());
            if (below(2) == 0)
                text.erase(at, 1 + below(2));
            else
                text.insert(at, 1, odd[below(odd.size())]);
        }
        RequestParser whole({});
        RequestParser cut({});

        const std::size_t used_whole = feed(whole, text, text.size());
        const std::size_t used_cut = feed(cut, text, 1 + below(20));

        ASSERT_EQ(whole.state(), cut.state()) << text;
        accepted += whole.state() == State::done;
        if (whole.state() != State::done) continue;
        ASSERT_EQ(used_whole, used_cut) << text;
        ASSERT_EQ(whole.request().target, cut.request().target) << text;
        ASSERT_EQ(whole.request().body, cut.request().body) << text;
    }
    EXPECT_GT(accepted, 5'000);
    EXPECT_LT(accepted, 15'000);
}

TEST(RequestParser, knows_whether_the_client_stays) {
    EXPECT_TRUE(parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n").keep_alive);
    EXPECT_FALSE(parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").keep_alive);
    EXPECT_FALSE(parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n").keep_alive);
    EXPECT_FALSE(parse("GET / HTTP/1.0\r\nHost: a\r\n\r\n").keep_alive);
    EXPECT_TRUE(parse("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
}

TEST(RequestParser, keeps_to_limits_to_the_byte) {
    const std::string small = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
    const auto state_with = [&](RequestParser::Limits limits, const std::string& text) {
        RequestParser parser(limits);
        parser.feed(text);
        return parser.state();
    };

    EXPECT_EQ(state_with({.header_bytes_max = small.size()}, small + "abcd"), State::done);
    EXPECT_EQ(state_with({.header_bytes_max = small.size() - 1}, small + "abcd"), State::refused);
    EXPECT_EQ(state_with({.headers_max = 2}, small + "abcd"), State::done);
    EXPECT_EQ(state_with({.headers_max = 1}, small + "abcd"), State::refused);
    EXPECT_EQ(state_with({.body_bytes_max = 4}, small + "abcd"), State::done);
    EXPECT_EQ(state_with({.body_bytes_max = 3}, small + "abcd"), State::refused);

    const std::string chunked =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n";
    EXPECT_EQ(state_with({.body_bytes_max = 4}, chunked), State::done);
    EXPECT_EQ(state_with({.body_bytes_max = 3}, chunked), State::refused);
}

}  // namespace
}  // namespace interlock::net
