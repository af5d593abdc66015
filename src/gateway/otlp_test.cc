#include "gateway/otlp.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/id.h"

namespace interlock::gateway {
namespace {

namespace json = boost::json;

const Id call_id{0x019a'8b7c'6d5e'7f01ull, 0x8123'4567'89ab'cdefull};

core::ModelCall a_call() {
    core::ModelCall call;
    call.id = core::CallId(call_id);
    call.at = from_micros(1'700'000'000'000'001);
    call.who.agent = "ada";
    call.who.provider = "google";
    call.who.model = "gemini-pro";
    call.who.session = core::SessionId(Id{1, 2});
    call.who.run = core::RunId(Id{3, 4});
    call.who.tags = {{"team", "blue"}};
    call.operation = "gemini.generate";
    call.upstream = "main";
    call.status = 200;
    call.attempts = 1;
    call.bound = 9'000'000'000;
    call.cost = 1'250'000'001;
    call.usage = {.input_tokens = 100,
                  .output_tokens = 20,
                  .cache_read_tokens = 10,
                  .cache_write_5m_tokens = 2,
                  .cache_write_1h_tokens = 3,
                  .reasoning_tokens = 5};
    call.first_byte_us = 40;
    call.duration_us = 2'000'000;
    call.detail = "STOP";
    return call;
}

json::value span_of(const TracedCall& call) {
    return json::parse(trace_document({"1.2", "node"}, {&call, 1})).at_pointer("/resourceSpans/0/scopeSpans/0/spans/0");
}

// "key=value …" of one list.
std::string attributes_in(const json::value& holder) {
    std::string text;
    for (const json::value& each : holder.at("attributes").as_array()) {
        const json::object& value = each.at("value").as_object();
        EXPECT_EQ(value.size(), 1u);
        const std::string shown = value.contains("stringValue") ? value.at("stringValue").as_string().c_str()
                                  : value.contains("intValue")  ? value.at("intValue").as_string().c_str()
                                                                : json::serialize(value.begin()->value());
        text += fmt::format("{}={}\n", each.at("key").as_string().c_str(), shown);
    }
    return text;
}

bool has_line(const std::string& text, std::string_view line) {
    return ("\n" + text).find(fmt::format("\n{}\n", line)) != std::string::npos;
}

TEST(OtlpTest, a_call_is_a_span_with_the_names_of_the_conventions) {
    const json::value span = span_of({a_call()});

    EXPECT_EQ(span.at("name").as_string(), "generate_content gemini-pro");
    EXPECT_EQ(span.at("kind").as_int64(), 3);
    EXPECT_EQ(span.at("traceId").as_string(), "019a8b7c6d5e7f018123456789abcdef");
    EXPECT_EQ(span.at("spanId").as_string(), "8123456789abcdef");
    EXPECT_FALSE(span.as_object().contains("parentSpanId"));
    EXPECT_FALSE(span.as_object().contains("status"));
    EXPECT_EQ(span.at("startTimeUnixNano").as_string(), "1700000000000001000");
    EXPECT_EQ(span.at("endTimeUnixNano").as_string(), "1700000002000001000");
    EXPECT_EQ(attributes_in(span),
              fmt::format("gen_ai.operation.name=generate_content\n"
                          "gen_ai.provider.name=gcp.gemini\n"
                          "gen_ai.request.model=gemini-pro\n"
                          "gen_ai.usage.input_tokens=115\n"
                          "gen_ai.usage.output_tokens=25\n"
                          "gen_ai.usage.cache_read.input_tokens=10\n"
                          "gen_ai.usage.cache_creation.input_tokens=5\n"
                          "gen_ai.response.finish_reasons={{\"values\":[{{\"stringValue\":\"STOP\"}}]}}\n"
                          "gen_ai.conversation.id={}\n"
                          "http.response.status_code=200\n"
                          "interlock.call.id={}\n"
                          "interlock.run.id={}\n"
                          "interlock.agent=ada\n"
                          "interlock.tag.team=blue\n"
                          "interlock.operation=gemini.generate\n"
                          "interlock.upstream=main\n"
                          "interlock.attempts=1\n"
                          "interlock.cost_usd=1.250000001\n"
                          "interlock.cost_nanos=1250000001\n"
                          "interlock.bound_nanos=9000000000\n"
                          "interlock.estimated=false\n"
                          "interlock.unpriced=false\n"
                          "interlock.cached=false\n"
                          "interlock.streamed=false\n"
                          "interlock.first_byte_us=40\n",
                          to_text("ses", Id{1, 2}), to_text("call", call_id), to_text("run", Id{3, 4})));
}

TEST(OtlpTest, who_reports_is_said_once_for_all_spans) {
    const std::vector<TracedCall> calls{{a_call()}, {a_call()}};

    const json::value document = json::parse(trace_document({"1.2", "node"}, calls));

    const std::string resource = attributes_in(document.at_pointer("/resourceSpans/0/resource"));
    EXPECT_EQ(resource, "service.name=interlock\nservice.version=1.2\nservice.instance.id=node\n");
    EXPECT_EQ(document.at_pointer("/resourceSpans/0/scopeSpans/0/spans").as_array().size(), 2u);
}

TEST(OtlpTest, a_span_belongs_to_the_trace_of_its_client) {
    const json::value span =
        span_of({a_call(), read_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")});

    EXPECT_EQ(span.at("traceId").as_string(), "0af7651916cd43dd8448eb211c80319c");
    EXPECT_EQ(span.at("parentSpanId").as_string(), "b7ad6b7169203331");
    EXPECT_EQ(span.at("spanId").as_string(), "8123456789abcdef");
}

TEST(OtlpTest, a_traceparent_that_is_none_is_left_aside) {
    EXPECT_TRUE(read_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
    for (const char* header : {"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                               "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                               "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                               "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                               "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                               "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
                               "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                               "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more",
                               "00-0af7651916cd43dd8448eb211c80319c+b7ad6b7169203331-01"}) {
        EXPECT_FALSE(read_traceparent(header)) << header;
    }
}

TEST(OtlpTest, what_went_wrong_has_a_type) {
    core::ModelCall refused = a_call();
    refused.status = 402;
    refused.refusal = "budget_exceeded";
    refused.detail = "Budget 'x' does not have enough left.";
    core::ModelCall failed = a_call();
    failed.status = 503;
    failed.detail = "the provider refused";
    core::ModelCall broken = a_call();
    broken.detail = "the client has left";
    core::ModelCall known = a_call();
    known.cached = true;
    known.detail = "from the cache";

    const json::value span = span_of({refused});
    EXPECT_EQ(span.at_pointer("/status/code").as_int64(), 2);
    EXPECT_EQ(span.at_pointer("/status/message").as_string(), "Budget 'x' does not have enough left.");
    EXPECT_TRUE(has_line(attributes_in(span), "error.type=budget_exceeded"));
    EXPECT_EQ(attributes_in(span).find("finish_reasons"), std::string::npos);
    EXPECT_TRUE(has_line(attributes_in(span_of({failed})), "error.type=503"));
    EXPECT_TRUE(has_line(attributes_in(span_of({.row = broken, .end = CallEnd::broken_off})), "error.type=broken_off"));
    EXPECT_EQ(attributes_in(span_of({known})).find("error.type"), std::string::npos);
}

TEST(OtlpTest, bytes_that_are_no_text_do_not_spoil_the_document) {
    core::ModelCall call = a_call();
    call.who.model = "a\xff\"\n";

    EXPECT_EQ(span_of({call}).at("name").as_string(), "generate_content a?\"\n");
}

TEST(OtlpTest, histograms_count_what_happened_since_the_last_time) {
    CallDeltas deltas;
    deltas.add(a_call());
    core::ModelCall refused = a_call();
    refused.status = 402;
    refused.refusal = "budget_exceeded";
    refused.usage = {};
    refused.duration_us = 5'000;
    deltas.add(refused);
    CallDeltas more;
    more.add(a_call());
    deltas.add(more);

    const json::value document = json::parse(deltas.document({"1.2", "node"}, from_micros(1), from_micros(2)));

    const json::value& durations = document.at_pointer("/resourceMetrics/0/scopeMetrics/0/metrics/0");
    EXPECT_EQ(durations.at("name").as_string(), "gen_ai.client.operation.duration");
    EXPECT_EQ(durations.at("unit").as_string(), "s");
    EXPECT_EQ(durations.at_pointer("/histogram/aggregationTemporality").as_int64(), 1);
    const json::array& points = durations.at_pointer("/histogram/dataPoints").as_array();
    ASSERT_EQ(points.size(), 2u);
    EXPECT_EQ(points[0].at("count").as_string(), "2");
    EXPECT_EQ(points[0].at("sum").as_double(), 4.0);
    EXPECT_EQ(points[0].at("startTimeUnixNano").as_string(), "1000");
    EXPECT_EQ(points[0].at("timeUnixNano").as_string(), "2000");
    EXPECT_EQ(points[0].at("bucketCounts").as_array().size(), points[0].at("explicitBounds").as_array().size() + 1);
    EXPECT_EQ(points[0].at_pointer("/bucketCounts/8").as_string(), "2");  // Up to 2.56 s.
    EXPECT_TRUE(has_line(attributes_in(points[1]), "error.type=budget_exceeded"));

    const json::value& tokens = document.at_pointer("/resourceMetrics/0/scopeMetrics/0/metrics/1");
    EXPECT_EQ(tokens.at("name").as_string(), "gen_ai.client.token.usage");
    const json::array& by_type = tokens.at_pointer("/histogram/dataPoints").as_array();
    ASSERT_EQ(by_type.size(), 2u);
    EXPECT_EQ(attributes_in(by_type[0]),
              "gen_ai.operation.name=generate_content\ngen_ai.provider.name=gcp.gemini\n"
              "gen_ai.request.model=gemini-pro\ngen_ai.token.type=input\n");
    EXPECT_EQ(by_type[0].at("sum").as_double(), 230.0);
    EXPECT_EQ(by_type[1].at("sum").as_double(), 50.0);
}

TEST(OtlpTest, models_beyond_the_bound_are_counted_together) {
    CallDeltas deltas;
    core::ModelCall call = a_call();
    for (std::size_t i = 0; i < CallDeltas::series_max + 50; ++i) {
        call.who.model = fmt::format("model-{}", i);
        deltas.add(call);
    }

    const json::value document = json::parse(deltas.document({}, {}, {}));

    EXPECT_EQ(document.at_pointer("/resourceMetrics/0/scopeMetrics/0/metrics/0/histogram/dataPoints").as_array().size(),
              CallDeltas::series_max + 1);
}

}  // namespace
}  // namespace interlock::gateway
