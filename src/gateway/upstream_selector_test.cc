#include "gateway/upstream_selector.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace interlock::gateway {
namespace {

using namespace std::chrono_literals;

class UpstreamSelectorTest : public testing::Test {
 protected:
    Upstream& add(const std::string& name, std::int32_t priority = 100, std::int32_t weight = 1) {
        Upstream upstream;
        upstream.name = name;
        upstream.priority = priority;
        upstream.weight = weight;
        upstream.cooldown_after = 2;
        upstream.cooldown_s = 30;
        config.upstreams.push_back(upstream);
        return config.upstreams.back();
    }
    std::vector<std::string> order(std::string_view model = "m") {
        std::vector<std::string> names;
        for (const Upstream* each : selector.order(org, config, ApiFormat::openai, model, now))
            names.push_back(each->name);
        return names;
    }
    void fail(std::size_t which, int times) {
        for (int i = 0; i < times; ++i) selector.failed(org, config.upstreams[which], "down", now, at);
    }

    const core::OrgId org{1};
    UpstreamSelector selector;
    Config config{{}, {}, PriceBook({}), {}, {}};
    net::SteadyTime now = net::SteadyTime(1000h);
    Instant at = from_micros(std::int64_t{1'763'208'000} * 1'000'000);
};

TEST_F(UpstreamSelectorTest, lower_priorities_come_first) {
    add("second", 20);
    add("first", 10);
    add("third", 30);

    EXPECT_EQ(order(), (std::vector<std::string>{"first", "second", "third"}));
}

TEST_F(UpstreamSelectorTest, only_those_that_speak_the_dialect_take_the_model_and_are_enabled) {
    add("other").format = ApiFormat::gemini;
    add("off").enabled = false;
    add("picky").models = {"gpt-*"};
    add("fits");

    EXPECT_EQ(order("llama"), std::vector<std::string>{"fits"});
    EXPECT_EQ(order("").size(), 2u) << "without a model any will do";
}

TEST_F(UpstreamSelectorTest, equals_share_by_weight) {
    add("heavy", 100, 3);
    add("light", 100, 1);

    int heavy_first = 0;
    for (int i = 0; i < 4000; ++i) heavy_first += order().front() == "heavy" ? 1 : 0;

    EXPECT_NEAR(heavy_first, 3000, 200);
}

TEST_F(UpstreamSelectorTest, one_that_keeps_failing_is_asked_last_for_a_while) {
    add("a", 10);
    add("b", 20);

    fail(0, 1);
    EXPECT_EQ(order().front(), "a") << "once is no habit";
    fail(0, 1);
    EXPECT_EQ(order(), (std::vector<std::string>{"b", "a"}));
    now += 31s;
    EXPECT_EQ(order().front(), "a");
}

TEST_F(UpstreamSelectorTest, a_success_ends_the_row_of_failures) {
    add("a", 10);
    add("b", 20);
    fail(0, 1);
    selector.succeeded(org, config.upstreams[0], at, {});
    fail(0, 1);

    EXPECT_EQ(order().front(), "a");
    EXPECT_EQ(selector.health(org)["a"].failures, 2);
    EXPECT_EQ(selector.health(org)["a"].requests, 3);
    EXPECT_TRUE(selector.health(core::OrgId(2)).empty());
}

TEST_F(UpstreamSelectorTest, a_row_of_failures_is_dated_by_its_first) {
    add("a");
    const Instant first = at;
    fail(0, 1);
    at += 1min;
    fail(0, 1);
    EXPECT_EQ(selector.health(org)["a"].failing_since, first);

    selector.succeeded(org, config.upstreams[0], at, {});
    EXPECT_EQ(selector.health(org)["a"].failing_since, far_past);
}

TEST_F(UpstreamSelectorTest, the_last_hour_is_an_orgs_own) {
    add("a");
    fail(0, 2);
    selector.succeeded(org, config.upstreams[0], at, {.first_byte = 1s, .all = 2s});

    const auto hour = selector.last_hour(org, at);
    EXPECT_EQ(hour.at("a").calls, 3);
    EXPECT_EQ(hour.at("a").errors, 2);
    EXPECT_EQ(hour.at("a").first_byte.count(), 1u);
    EXPECT_TRUE(selector.last_hour(core::OrgId(2), at).empty());
}

TEST_F(UpstreamSelectorTest, of_too_many_upstreams_the_one_that_was_asked_longest_ago_is_forgotten) {
    for (std::size_t i = 0; i <= UpstreamSelector::watched_max; ++i) add(std::to_string(i));
    for (std::size_t i = 0; i <= UpstreamSelector::watched_max; ++i) {
        if (i == UpstreamSelector::watched_max) fail(0, 1);
        fail(i, 1);
        at += 1s;
    }

    const auto hours = selector.last_hour(org, at);
    EXPECT_EQ(hours.size(), UpstreamSelector::watched_max);
    EXPECT_TRUE(hours.contains("0")) << "it was asked again";
    EXPECT_FALSE(hours.contains("1"));
    EXPECT_EQ(selector.health(org).size(), UpstreamSelector::watched_max + 1) << "how they do is known of all";
}

}  // namespace
}  // namespace interlock::gateway
