// Tests of the gateway's small parts: anchors, the cache, forwarding, and waiting for headroom.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "gateway/anchors.h"
#include "gateway/forwarding.h"
#include "gateway/headroom.h"
#include "gateway/response_cache.h"

namespace interlock::gateway {
namespace {

using namespace std::chrono_literals;

// ---- anchors --------------------------------------------------------------------------------------------------------

TEST(AnchorsTest, the_longest_known_beginning_is_found) {
    Anchors anchors;
    const std::string first = "system|hello|";
    const std::string second = "system|hello|answer|more|";
    anchors.put(prefix_hashes(7, first, {7, 13}).back(), 40);

    const auto found = anchors.find(prefix_hashes(7, second, {7, 13, 20, 25}));

    ASSERT_TRUE(found);
    EXPECT_EQ(found->boundary, 1u);
    EXPECT_EQ(found->prompt_tokens, 40);
}

TEST(AnchorsTest, another_beginning_model_or_cut_is_not_known) {
    Anchors anchors;
    anchors.put(prefix_hashes(7, "system|hello|", {7, 13}).back(), 40);

    EXPECT_FALSE(anchors.find(prefix_hashes(8, "system|hello|", {7, 13})));
    EXPECT_FALSE(anchors.find(prefix_hashes(7, "system|hellO|", {7, 13})));
    EXPECT_FALSE(anchors.find(prefix_hashes(7, "system|hello|", {13})));
}

TEST(AnchorsTest, of_two_numbers_the_greater_stays_and_memory_is_bounded) {
    Anchors anchors;
    anchors.put(1, 40);
    anchors.put(1, 30);
    EXPECT_EQ(anchors.find({1})->prompt_tokens, 40);

    for (std::uint64_t i = 2; i < 3 * Anchors::generation_max; ++i) anchors.put(i, 1);
    EXPECT_FALSE(anchors.find({1})) << "nobody asked for it in a long time";
    EXPECT_TRUE(anchors.find({3 * Anchors::generation_max - 1}));
}

// ---- the cache ------------------------------------------------------------------------------------------------------

TEST(ResponseCacheTest, an_answer_lives_for_its_time_and_for_its_own_request_only) {
    ResponseCache cache;
    const net::SteadyTime now(1000h);
    const std::string name = ResponseCache::name_of("1 ada", "/v1/chat", "{}");
    cache.put(name, {"text/plain", "hello", false}, now + 10s);

    EXPECT_EQ(cache.find(name, now)->body, "hello");
    EXPECT_FALSE(cache.find(ResponseCache::name_of("1 bob", "/v1/chat", "{}"), now));
    EXPECT_FALSE(cache.find(ResponseCache::name_of("2 ada", "/v1/chat", "{}"), now));
    EXPECT_FALSE(cache.find(ResponseCache::name_of("1 ada", "/v1/chat", "{ }"), now));
    EXPECT_FALSE(cache.find(name, now + 10s));
    EXPECT_FALSE(cache.find(name, now)) << "it was dropped";
}

TEST(ResponseCacheTest, what_was_not_asked_for_goes_first_when_there_is_no_room) {
    ResponseCache cache;
    const net::SteadyTime now(1000h);
    const std::string body(ResponseCache::answer_bytes_max, 'x');
    const std::size_t fit = ResponseCache::bytes_max / body.size();
    for (std::size_t i = 0; i < fit; ++i) cache.put(std::to_string(i), {"", body, false}, now + 10s);
    EXPECT_TRUE(cache.find("0", now));

    cache.put("new", {"", body, false}, now + 10s);
    cache.put("too large", {"", body + "x", false}, now + 10s);

    EXPECT_TRUE(cache.find("0", now));
    EXPECT_FALSE(cache.find("1", now));
    EXPECT_TRUE(cache.find("new", now));
    EXPECT_FALSE(cache.find("too large", now));
}

// ---- forwarding -----------------------------------------------------------------------------------------------------

net::Request request_with(std::vector<net::Header> headers) {
    net::Request request;
    request.method = net::Method::post;
    request.headers = std::move(headers);
    return request;
}

TEST(ForwardingTest, a_key_is_found_wherever_clients_put_it) {
    const Route with_query{
        .dialect = Dialect::gemini, .operation = Operation::generate, .target = "", .key_in_query = "q"};
    EXPECT_EQ(key_in(request_with({{"authorization", "Bearer one"}}), {}), "one");
    EXPECT_EQ(key_in(request_with({{"authorization", "bearer one"}}), {}), "one");
    EXPECT_EQ(key_in(request_with({{"x-api-key", "two"}}), {}), "two");
    EXPECT_EQ(key_in(request_with({{"x-goog-api-key", "three"}}), {}), "three");
    EXPECT_EQ(key_in(request_with({}), with_query), "q");
    EXPECT_EQ(key_in(request_with({{"authorization", "Basic abc"}}), {}), "");
}

TEST(ForwardingTest, our_key_stays_here_and_the_upstreams_goes_on) {
    Upstream upstream;
    upstream.dialect = Dialect::anthropic;
    upstream.path = "/api";
    upstream.headers = {{"anthropic-version", "2023-06-01"}};
    const net::Request request = request_with({{"authorization", "Bearer ours"},
                                               {"x-api-key", "ours"},
                                               {"anthropic-beta", "a,b"},
                                               {"anthropic-version", "other"},
                                               {"accept-encoding", "gzip"},
                                               {"x-interlock-agent", "ada"},
                                               {"cookie", "c"},
                                               {"connection", "keep-alive, X-Hop"},
                                               {"x-hop", "stays"},
                                               {"x-custom", "kept"}});

    const net::OutRequest out = request_for(upstream, "theirs", request, "/v1/messages", "{}");

    EXPECT_EQ(out.target, "/api/v1/messages");
    EXPECT_EQ(net::find_header(out.headers, "x-api-key"), "theirs");
    EXPECT_EQ(net::find_header(out.headers, "authorization"), "");
    EXPECT_EQ(net::find_header(out.headers, "anthropic-beta"), "a,b");
    EXPECT_EQ(net::find_header(out.headers, "anthropic-version"), "2023-06-01");
    EXPECT_EQ(net::find_header(out.headers, "accept-encoding"), "identity");
    EXPECT_EQ(net::find_header(out.headers, "x-interlock-agent"), "");
    EXPECT_EQ(net::find_header(out.headers, "cookie"), "");
    EXPECT_EQ(net::find_header(out.headers, "x-hop"), "");
    EXPECT_EQ(net::find_header(out.headers, "x-custom"), "kept");
}

TEST(ForwardingTest, of_an_answer_what_belongs_to_its_connection_stays_here) {
    const auto headers = headers_from({{"connection", "close"},
                                       {"content-length", "3"},
                                       {"set-cookie", "a"},
                                       {"request-id", "r"},
                                       {"x-interlock-cost", "9"}});

    ASSERT_EQ(headers.size(), 1u);
    EXPECT_EQ(headers[0].name, "request-id");
}

// ---- headroom -------------------------------------------------------------------------------------------------------

class HeadroomTest : public testing::Test {
 protected:
    void wait(const std::string& name, Headroom::Ticket ticket, net::SteadyTime deadline) {
        boost::asio::co_spawn(context, waiting(name, ticket, deadline), boost::asio::detached);
        run();
    }
    net::Task<void> waiting(std::string name, Headroom::Ticket ticket, net::SteadyTime deadline) {
        const bool woken = co_await headroom.wait(org, "day", ticket, deadline);
        ended.push_back(name + (woken ? "" : " too late"));
    }
    void run() {
        context.restart();
        context.poll();
    }

    const core::OrgId org{1};
    const net::SteadyTime now{1000h};
    Headroom headroom;
    std::vector<std::string> ended;
    boost::asio::io_context context{1};
};

TEST_F(HeadroomTest, who_has_waited_longest_is_woken_and_keeps_its_place) {
    const auto first = headroom.draw();
    const auto second = headroom.draw();
    wait("second", second, now + 10s);
    wait("first", first, now + 10s);

    headroom.released(org);
    run();
    EXPECT_EQ(ended, std::vector<std::string>{"first"});
    wait("first again", first, now + 10s);
    headroom.released(org);
    run();
    EXPECT_EQ(ended.back(), "first again");
    headroom.released(core::OrgId(2));
    run();
    EXPECT_EQ(ended.size(), 2u) << "another org's money is no use";
    headroom.released(org);
    run();
    EXPECT_EQ(ended.back(), "second");
}

TEST_F(HeadroomTest, a_wait_ends_at_its_deadline) {
    wait("patient", headroom.draw(), now + 10s);
    wait("hasty", headroom.draw(), now + 1s);

    headroom.tick(now + 2s);
    run();

    EXPECT_EQ(ended, (std::vector<std::string>{"patient", "hasty too late"})) << "the first may ask again";
}

}  // namespace
}  // namespace interlock::gateway
