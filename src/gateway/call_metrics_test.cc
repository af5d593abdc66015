#include "gateway/call_metrics.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace interlock::gateway {
namespace {

using namespace std::chrono_literals;

core::ModelCall call_to(std::string model) {
    core::ModelCall call;
    call.who.provider = "openai";
    call.who.model = std::move(model);
    call.operation = "openai.chat";
    call.status = 200;
    call.attempts = 1;
    call.usage = {.input_tokens = 100, .output_tokens = 20, .cache_read_tokens = 7};
    call.cost = 1'500;
    call.first_byte_us = 40'000;
    call.duration_us = 90'000;
    return call;
}

std::string written(const CallMetrics& metrics) {
    std::string out;
    metrics.write(out);
    return out;
}

bool has(const std::string& text, std::string_view line) {
    return ("\n" + text).find(fmt::format("\n{}\n", line)) != std::string::npos;
}

TEST(CallMetricsTest, calls_tokens_and_money_add_up) {
    CallMetrics metrics;

    metrics.count(call_to("gpt"));
    metrics.count(call_to("gpt"));

    const std::string text = written(metrics);
    EXPECT_TRUE(has(text,
                    "interlock_gateway_calls_total{operation=\"openai.chat\",provider=\"openai\","
                    "status_class=\"2xx\",refusal=\"\"} 2"));
    EXPECT_TRUE(has(text, "interlock_gateway_tokens_total{provider=\"openai\",model=\"gpt\",kind=\"input\"} 200"));
    EXPECT_TRUE(has(text, "interlock_gateway_tokens_total{provider=\"openai\",model=\"gpt\",kind=\"output\"} 40"));
    EXPECT_TRUE(has(text, "interlock_gateway_tokens_total{provider=\"openai\",model=\"gpt\",kind=\"cache_read\"} 14"));
    EXPECT_TRUE(has(text, "interlock_gateway_cost_nanodollars_total{provider=\"openai\",model=\"gpt\"} 3000"));
    EXPECT_TRUE(has(text, "interlock_gateway_attempts_total{provider=\"openai\"} 2"));
    EXPECT_TRUE(has(text, "interlock_gateway_first_byte_seconds_bucket{provider=\"openai\",le=\"0.025\"} 0"));
    EXPECT_TRUE(has(text, "interlock_gateway_first_byte_seconds_bucket{provider=\"openai\",le=\"0.05\"} 2"));
    EXPECT_TRUE(has(text, "interlock_gateway_call_seconds_bucket{provider=\"openai\",le=\"0.05\"} 0"));
    EXPECT_TRUE(has(text, "interlock_gateway_call_seconds_count{provider=\"openai\"} 2"));
    EXPECT_TRUE(has(text, "interlock_gateway_estimated_total 0"));
}

TEST(CallMetricsTest, what_is_out_of_the_ordinary_is_counted_by_itself) {
    CallMetrics metrics;
    core::ModelCall call = call_to("gpt");
    call.estimated = call.unpriced = call.cached = true;

    metrics.count(call);

    const std::string text = written(metrics);
    EXPECT_TRUE(has(text, "interlock_gateway_estimated_total 1"));
    EXPECT_TRUE(has(text, "interlock_gateway_unpriced_total 1"));
    EXPECT_TRUE(has(text, "interlock_gateway_cache_hits_total 1"));
}

TEST(CallMetricsTest, a_refusal_is_no_measure_of_a_provider_and_gives_no_model_a_place) {
    CallMetrics metrics;
    core::ModelCall refused = call_to("a name nobody knows");
    refused.status = 404;
    refused.refusal = "unknown_model";
    refused.attempts = 0;
    refused.usage = {};
    refused.cost = 0;

    metrics.count(refused);

    const std::string text = written(metrics);
    EXPECT_TRUE(has(text,
                    "interlock_gateway_calls_total{operation=\"openai.chat\",provider=\"openai\","
                    "status_class=\"4xx\",refusal=\"unknown_model\"} 1"));
    EXPECT_EQ(text.find("_seconds"), std::string::npos);
    EXPECT_EQ(text.find("a name nobody knows"), std::string::npos);
}

TEST(CallMetricsTest, models_beyond_the_bound_are_counted_together) {
    CallMetrics metrics;
    for (std::size_t i = 0; i < CallMetrics::models_max; ++i) metrics.count(call_to(fmt::format("model-{}", i)));

    metrics.count(call_to("one-more"));
    metrics.count(call_to("another"));
    metrics.count(call_to("model-0"));

    const std::string text = written(metrics);
    EXPECT_EQ(text.find("one-more"), std::string::npos);
    EXPECT_TRUE(has(text, "interlock_gateway_cost_nanodollars_total{provider=\"openai\",model=\"other\"} 3000"));
    EXPECT_TRUE(has(text, "interlock_gateway_cost_nanodollars_total{provider=\"openai\",model=\"model-0\"} 3000"));
}

TEST(CallMetricsTest, providers_beyond_the_bound_are_counted_together) {
    CallMetrics metrics;
    for (std::size_t i = 0; i < 2 * CallMetrics::providers_max; ++i) {
        core::ModelCall call = call_to("gpt");
        call.who.provider = fmt::format("p{}", i);
        metrics.count(call);
    }

    EXPECT_TRUE(has(written(metrics), fmt::format("interlock_gateway_attempts_total{{provider=\"other\"}} {}",
                                                  CallMetrics::providers_max)));
}

TEST(CallMetricsTest, a_name_that_is_no_text_is_another) {
    CallMetrics metrics;
    metrics.count(call_to("\xff\xfe"));
    metrics.count(call_to("two\nlines"));
    metrics.count(call_to("quo\"ted"));

    const std::string text = written(metrics);
    EXPECT_TRUE(has(text, "interlock_gateway_cost_nanodollars_total{provider=\"openai\",model=\"other\"} 3000"));
    EXPECT_TRUE(has(text, "interlock_gateway_cost_nanodollars_total{provider=\"openai\",model=\"quo\\\"ted\"} 1500"));
}

TEST(CallMetricsTest, an_upstream_cools_down_until_its_time) {
    const net::SteadyTime now(1000h);
    std::string out;

    write_health(out,
                 {{"a", {.failures_in_a_row = 3, .requests = 9, .failures = 4, .cooling_until = now + 1s}},
                  {"b", {.requests = 2, .cooling_until = now - 1s}}},
                 now);

    EXPECT_TRUE(has(out, "interlock_gateway_upstream_requests_total{upstream=\"a\"} 9"));
    EXPECT_TRUE(has(out, "interlock_gateway_upstream_failures_total{upstream=\"a\"} 4"));
    EXPECT_TRUE(has(out, "interlock_gateway_upstream_failures_in_a_row{upstream=\"a\"} 3"));
    EXPECT_TRUE(has(out, "interlock_gateway_upstream_cooling{upstream=\"a\"} 1"));
    EXPECT_TRUE(has(out, "interlock_gateway_upstream_cooling{upstream=\"b\"} 0"));
}

}  // namespace
}  // namespace interlock::gateway
