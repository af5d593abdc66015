// Tests of the gateway's small parts: counts of prefixes, the cache, forwarding, and waiting for budget.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "gateway/budget_wait_queue.h"
#include "gateway/forwarding.h"
#include "gateway/prefix_token_cache.h"
#include "gateway/response_cache.h"

namespace interlock::gateway {
namespace {

using namespace std::chrono_literals;

// ---- counts of prefixes ---------------------------------------------------------------------------------------------

TEST(PrefixTokenCacheTest, the_longest_known_beginning_is_found) {
    PrefixTokenCache prefix_tokens;
    const std::string first = "system|hello|";
    const std::string second = "system|hello|answer|more|";
    prefix_tokens.put(prefix_hashes(first, {7, 13}).back(), 40);

    const auto found = prefix_tokens.find(prefix_hashes(second, {7, 13, 20, 25}));

    ASSERT_TRUE(found);
    EXPECT_EQ(found->boundary, 1u);
    EXPECT_EQ(found->prompt_tokens, 40);
}

TEST(PrefixTokenCacheTest, another_beginning_or_cut_is_not_known) {
    PrefixTokenCache prefix_tokens;
    prefix_tokens.put(prefix_hashes("system|hello|", {7, 13}).back(), 40);

    EXPECT_FALSE(prefix_tokens.find(prefix_hashes("system|hellO|", {7, 13})));
    EXPECT_FALSE(prefix_tokens.find(prefix_hashes("System|hello|", {7, 13})));
    EXPECT_FALSE(prefix_tokens.find(prefix_hashes("system|hello|", {13})));
}

TEST(PrefixTokenCacheTest, of_two_numbers_the_greater_stays_and_memory_is_bounded) {
    PrefixTokenCache prefix_tokens;
    const auto name = [](std::uint64_t number) { return Hash128{.high = 0, .low = number}; };
    prefix_tokens.put(name(1), 40);
    prefix_tokens.put(name(1), 30);
    EXPECT_EQ(prefix_tokens.find({name(1)})->prompt_tokens, 40);

    for (std::uint64_t i = 2; i < 3 * PrefixTokenCache::generation_max; ++i) prefix_tokens.put(name(i), 1);
    EXPECT_FALSE(prefix_tokens.find({name(1)})) << "no call has used it for a long time";
    EXPECT_TRUE(prefix_tokens.find({name(3 * PrefixTokenCache::generation_max - 1)}));
}

// ---- the cache ------------------------------------------------------------------------------------------------------

TEST(ResponseCacheTest, an_answer_lives_for_its_time_and_for_its_own_request_only) {
    ResponseCache cache;
    const net::SteadyTime now(1000h);
    const std::string name = ResponseCache::name_of("1 ada", "/v1/chat", "", "{}");
    cache.put(name, {"text/plain", "hello", false}, now + 10s);

    EXPECT_EQ(cache.find(name, now)->body, "hello");
    EXPECT_FALSE(cache.find(ResponseCache::name_of("1 bob", "/v1/chat", "", "{}"), now));
    EXPECT_FALSE(cache.find(ResponseCache::name_of("2 ada", "/v1/chat", "", "{}"), now));
    EXPECT_FALSE(cache.find(ResponseCache::name_of("1 ada", "/v1/chat", "", "{ }"), now));
    EXPECT_FALSE(cache.find(ResponseCache::name_of("1 ada", "/v1/chat", "a:b\n", "{}"), now));
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
    const ModelRoute with_query{
        .format = ApiFormat::gemini, .operation = Operation::generate, .target = "", .key_in_query = "q"};
    EXPECT_EQ(key_in(request_with({{"authorization", "Bearer one"}}), {}), "one");
    EXPECT_EQ(key_in(request_with({{"authorization", "bearer one"}}), {}), "one");
    EXPECT_EQ(key_in(request_with({{"x-api-key", "two"}}), {}), "two");
    EXPECT_EQ(key_in(request_with({{"x-goog-api-key", "three"}}), {}), "three");
    EXPECT_EQ(key_in(request_with({}), with_query), "q");
    EXPECT_EQ(key_in(request_with({{"authorization", "Basic abc"}}), {}), "");
}

TEST(ForwardingTest, our_key_stays_here_and_the_upstreams_goes_on) {
    Upstream upstream;
    upstream.format = ApiFormat::anthropic;
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
                                               {"openai-organization", "another payer"},
                                               {"idempotency-key", "of another client's request"},
                                               {"content-type", "application/json; charset=utf-16"},
                                               {"x-team-name", "blue"},
                                               {"x-custom", "not known"}});
    upstream.pass_headers = {"x-team-*"};

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
    for (const char* name : {"openai-organization", "idempotency-key", "x-custom"}) {
        EXPECT_EQ(net::find_header(out.headers, name), "") << name;
    }
    EXPECT_EQ(net::find_header(out.headers, "x-team-name"), "blue");
    EXPECT_EQ(net::find_header(out.headers, "content-type"), "application/json");
    EXPECT_EQ(out.body, "{}");
}

TEST(ForwardingTest, no_setting_passes_a_key_a_cookie_or_a_header_of_the_connection_on) {
    Upstream upstream;
    upstream.pass_headers = {"*"};
    for (const char* name : {"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "host", "connection",
                             "content-length", "transfer-encoding", "x-interlock-agent", "x-forwarded-for"}) {
        EXPECT_FALSE(passes_to(upstream, name)) << name;
    }
    EXPECT_TRUE(passes_to(upstream, "openai-project"));
}

TEST(ForwardingTest, a_request_whose_method_defines_no_body_gets_none) {
    for (const auto method : {net::Method::get, net::Method::head, net::Method::delete_, net::Method::options}) {
        net::Request request;
        request.method = method;
        const net::OutRequest out = request_for({}, "", request, "/v1/models", "GET / HTTP/1.1");
        EXPECT_EQ(out.body, "");
        EXPECT_EQ(net::find_header(out.headers, "content-type"), "");
    }
}

TEST(ForwardingTest, what_goes_on_is_what_an_answer_can_depend_on) {
    Config config{{}, {}, PriceBook({}), {}, {}};
    const auto text = [&](std::vector<net::Header> headers) { return what_goes_on(config, request_with(headers)); };

    EXPECT_NE(text({{"anthropic-beta", "a"}}), text({{"anthropic-beta", "b"}}));
    EXPECT_EQ(text({{"traceparent", "a"}, {"x-stainless-retry-count", "0"}}),
              text({{"traceparent", "b"}, {"x-stainless-retry-count", "1"}}));
    EXPECT_EQ(text({{"x-odd", "a"}}), text({{"x-odd", "b"}})) << "no upstream sees it";
    config.upstreams.emplace_back().pass_headers = {"x-odd"};
    EXPECT_NE(text({{"x-odd", "a"}}), text({{"x-odd", "b"}}));
}

TEST(ForwardingTest, of_an_answers_headers_those_come_back_that_clients_read) {
    const auto headers = headers_from({{"connection", "close"},
                                       {"content-length", "3"},
                                       {"set-cookie", "a"},
                                       {"request-id", "r"},
                                       {"anthropic-ratelimit-requests-limit", "5"},
                                       {"x-ratelimit-limit-requests", "6"},
                                       {"clear-site-data", "\"*\""},
                                       {"refresh", "0;url=/"},
                                       {"access-control-allow-origin", "*"},
                                       {"content-security-policy", "default-src *"},
                                       {"service-worker-allowed", "/"},
                                       {"content-disposition", "inline"},
                                       {"link", "</x>; rel=preload"},
                                       {"x_cache", "1"},
                                       {"openai-\x01", "1"},
                                       {"x-request-id", "a\nb"},
                                       {"x-interlock-cost", "9"}});

    std::vector<std::string> names;
    for (const net::Header& header : headers) names.push_back(header.name);
    EXPECT_EQ(names, (std::vector<std::string>{"request-id", "anthropic-ratelimit-requests-limit",
                                               "x-ratelimit-limit-requests"}));
}

TEST(ForwardingTest, an_answer_is_json_events_or_plain_bytes) {
    EXPECT_EQ(content_type_from("application/json"), "application/json");
    EXPECT_EQ(content_type_from("Application/JSON ; charset=utf-16"), "application/json");
    EXPECT_EQ(content_type_from("application/problem+json"), "application/json");
    EXPECT_EQ(content_type_from("text/event-stream;charset=utf-8"), "text/event-stream; charset=utf-8");
    for (const char* other : {"", "text/html", "text/html; application/json", "image/svg+xml", "text/javascript",
                              "application/xhtml+xml", "application/+json", "text/event-streams", "a\r\nb: c"}) {
        EXPECT_EQ(content_type_from(other), "application/octet-stream") << other;
    }
}

// ---- waiting for budget ---------------------------------------------------------------------------------------------

class BudgetWaitQueueTest : public testing::Test {
 protected:
    void wait(const std::string& name, BudgetWaitQueue::Ticket ticket, net::SteadyTime deadline) {
        boost::asio::co_spawn(context, waiting(name, ticket, deadline), boost::asio::detached);
        run();
    }
    net::Task<void> waiting(std::string name, BudgetWaitQueue::Ticket ticket, net::SteadyTime deadline) {
        const bool woken = co_await budget_waits.wait(org, "day", ticket, deadline);
        ended.push_back(name + (woken ? "" : " too late"));
    }
    void run() {
        context.restart();
        context.poll();
    }

    const core::OrgId org{1};
    const net::SteadyTime now{1000h};
    BudgetWaitQueue budget_waits;
    std::vector<std::string> ended;
    boost::asio::io_context context{1};
};

TEST_F(BudgetWaitQueueTest, who_has_waited_longest_is_woken_and_keeps_its_place) {
    const auto first = budget_waits.draw();
    const auto second = budget_waits.draw();
    wait("second", second, now + 10s);
    wait("first", first, now + 10s);

    budget_waits.released(org);
    run();
    EXPECT_EQ(ended, std::vector<std::string>{"first"});
    wait("first again", first, now + 10s);
    budget_waits.released(org);
    run();
    EXPECT_EQ(ended.back(), "first again");
    budget_waits.released(core::OrgId(2));
    run();
    EXPECT_EQ(ended.size(), 2u) << "another org's money is no use";
    budget_waits.released(org);
    run();
    EXPECT_EQ(ended.back(), "second");
}

TEST_F(BudgetWaitQueueTest, a_wait_ends_at_its_deadline) {
    wait("patient", budget_waits.draw(), now + 10s);
    wait("hasty", budget_waits.draw(), now + 1s);

    budget_waits.tick(now + 2s);
    run();

    EXPECT_EQ(ended, (std::vector<std::string>{"patient", "hasty too late"})) << "the first may ask again";
}

}  // namespace
}  // namespace interlock::gateway
