#include "gateway/rate_limits.h"

#include <gtest/gtest.h>

namespace interlock::gateway {
namespace {

using namespace std::chrono_literals;

class RateLimitsTest : public testing::Test {
 protected:
    RateVerdict ask(std::string_view agent = "ada") { return rates.ask(limits, who(agent), now); }
    RateLimits::Who who(std::string_view agent) const { return {core::OrgId(1), "key", agent, "large", "acme"}; }

    RateLimits rates;
    std::vector<RateLimit> limits;
    net::SteadyTime now = net::SteadyTime(1000h);
};

TEST_F(RateLimitsTest, so_many_requests_go_in_a_minute_and_the_next_is_told_when_to_come_back) {
    limits = {{.name = "few", .requests_per_minute = 3}};

    for (int i = 0; i < 3; ++i) EXPECT_FALSE(ask().refused_by);
    const RateVerdict fourth = ask();

    EXPECT_EQ(fourth.refused_by, "few");
    EXPECT_EQ(fourth.retry_after_s, 20) << "a third of a minute brings one more";
    now += 20s;
    EXPECT_FALSE(ask().refused_by);
    EXPECT_TRUE(ask().refused_by);
}

TEST_F(RateLimitsTest, tokens_are_taken_after_the_fact_and_paid_back_by_time) {
    limits = {{.name = "tokens", .tokens_per_minute = 600}};

    EXPECT_FALSE(ask().refused_by);
    rates.used(limits, who("ada"), 900, now);
    const RateVerdict next = ask();

    EXPECT_EQ(next.refused_by, "tokens");
    EXPECT_EQ(next.retry_after_s, 31) << "300 below nothing, at ten a second, and one to begin with";
    now += 31s;
    EXPECT_FALSE(ask().refused_by);
}

TEST_F(RateLimitsTest, a_refused_request_takes_nothing_from_any_limit) {
    limits = {{.name = "one", .requests_per_minute = 1}, {.name = "many", .requests_per_minute = 100}};

    EXPECT_FALSE(ask().refused_by);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(ask().refused_by);

    limits = {{.name = "many", .requests_per_minute = 100}};
    EXPECT_EQ(ask().requests->remaining, 98);
}

TEST_F(RateLimitsTest, a_limit_is_for_whom_it_names) {
    limits = {{.name = "adas", .agent = "ada", .requests_per_minute = 1}};

    EXPECT_FALSE(ask("ada").refused_by);
    EXPECT_TRUE(ask("ada").refused_by);
    EXPECT_FALSE(ask("bob").refused_by);
    EXPECT_FALSE(ask("bob").requests) << "nothing to say where no limit applies";
}

TEST_F(RateLimitsTest, orgs_have_buckets_of_their_own) {
    limits = {{.name = "one", .requests_per_minute = 1}};
    EXPECT_FALSE(ask().refused_by);

    RateLimits::Who other = who("ada");
    other.org = core::OrgId(2);

    EXPECT_FALSE(rates.ask(limits, other, now).refused_by);
}

TEST_F(RateLimitsTest, headers_say_the_tightest_limit) {
    limits = {{.name = "a", .requests_per_minute = 10},
              {.name = "b", .requests_per_minute = 5, .tokens_per_minute = 60}};
    std::vector<net::Header> headers;

    add_rate_headers(headers, ask());

    EXPECT_EQ(net::find_header(headers, "x-ratelimit-limit-requests"), "5");
    EXPECT_EQ(net::find_header(headers, "x-ratelimit-remaining-requests"), "4");
    EXPECT_EQ(net::find_header(headers, "x-ratelimit-limit-tokens"), "60");
}

}  // namespace
}  // namespace interlock::gateway
