#include "gateway/otlp_exporter.h"

#include <gtest/gtest.h>

#include <set>

#include <boost/json.hpp>

#include "gateway/call_watch.h"
#include "net/http_test_support.h"

namespace interlock::gateway {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

// Answers as it is told, and keeps what it took.
class Collector {
 public:
    net::Task<net::Response> answer(net::Request request) {
        const std::lock_guard lock(mutex_);
        ++books_.requests;
        net::Response response{.status = status_, .content_type = "application/json", .body = body_};
        if (status_ != 200) co_return response;
        books_.header = request.header("x-team");
        const json::value document = json::parse(request.body);
        if (request.target == "/otel/v1/traces") {
            const json::array& spans = document.at_pointer("/resourceSpans/0/scopeSpans/0/spans").as_array();
            books_.batch_max = std::max(books_.batch_max, spans.size());
            for (const json::value& span : spans) {
                books_.spans.emplace_back(span.at("spanId").as_string().c_str());
            }
        } else if (request.target == "/otel/v1/metrics") {
            for (const json::value& point :
                 document.at_pointer("/resourceMetrics/0/scopeMetrics/0/metrics/0/histogram/dataPoints").as_array()) {
                books_.counted += std::stoll(point.at("count").as_string().c_str());
            }
        }
        co_return response;
    }

    void say(int status, std::string body = "{}") {
        const std::lock_guard lock(mutex_);
        status_ = status;
        body_ = std::move(body);
    }
    struct Books {
        std::size_t requests = 0;
        std::vector<std::string> spans = {};  // Their ids.
        std::size_t batch_max = 0;
        std::int64_t counted = 0;  // In histograms.
        std::string header = {};
    };
    Books books() {
        const std::lock_guard lock(mutex_);
        return books_;
    }
    std::size_t different_spans() {
        const Books now = books();
        return std::set(now.spans.begin(), now.spans.end()).size();
    }
    std::string url() const { return "http://127.0.0.1:" + std::to_string(server.port) + "/otel"; }

 private:
    std::mutex mutex_;
    int status_ = 200;
    std::string body_ = "{}";
    Books books_;

 public:
    net::TestServer server{[this](net::Request request) { return answer(std::move(request)); }};
};

OtlpExporter::Options options() {
    return {.now = [] { return from_micros(1); }, .batch_max = 4, .backoff_min = 1ms, .backoff_max = 5ms};
}

void add(OtlpExporter& exporter, std::uint64_t id) {
    core::ModelCall call;
    call.id = core::CallId(Id{1, id});
    call.operation = "openai.chat";
    call.status = 200;
    exporter.add({core::OrgId(1), call});
}

TEST(OtlpExporterTest, everything_that_was_said_is_sent_in_batches_before_it_ends) {
    Collector collector;
    net::TestLog log;
    OtlpExporter exporter(options(), log.log());
    exporter.configure({.url = collector.url(), .headers = {{"x-team", "blue"}}, .interval_s = 3'600});

    for (std::uint64_t i = 1; i <= 10; ++i) add(exporter, i);
    exporter.close();

    EXPECT_EQ(collector.different_spans(), 10u);
    EXPECT_GE(collector.books().requests, 4u) << "three batches of spans at least, and the histograms";
    EXPECT_LE(collector.books().batch_max, 4u);
    EXPECT_EQ(collector.books().counted, 10);
    EXPECT_EQ(collector.books().header, "blue");
    EXPECT_EQ(exporter.stats().sent, 10u);
    EXPECT_EQ(exporter.stats().dropped, 0u);
    EXPECT_EQ(exporter.stats().queued, 0u);
}

TEST(OtlpExporterTest, what_the_collector_cannot_take_now_is_sent_again) {
    Collector collector;
    net::TestLog log;
    OtlpExporter::Options how = options();
    how.queue_max = 2;  // Wakes it at once.
    OtlpExporter exporter(how, log.log());
    collector.say(503);
    exporter.configure({.url = collector.url(), .interval_s = 3'600});

    add(exporter, 1);
    EXPECT_TRUE(net::eventually([&] { return collector.books().requests >= 3; }));
    EXPECT_EQ(exporter.stats().sent, 0u);
    collector.say(200);

    EXPECT_TRUE(net::eventually([&] { return collector.books().counted == 1; }));
    EXPECT_EQ(collector.books().spans.size(), 1u);
    EXPECT_GE(exporter.stats().failures, 3u);
    EXPECT_EQ(exporter.stats().dropped, 0u);
    exporter.close();
    const std::string text = log.text();
    EXPECT_EQ(text.find("otlp_not_taken"), text.rfind("otlp_not_taken")) << "an outage is one line: " << text;
    EXPECT_NE(text.find("otlp_goes_on"), std::string::npos);
}

TEST(OtlpExporterTest, beyond_the_queue_spans_are_dropped_and_counted_and_histograms_are_not) {
    Collector collector;
    net::TestLog log;
    OtlpExporter::Options how = options();
    how.queue_max = 3;
    OtlpExporter exporter(how, log.log());
    collector.say(429);
    exporter.configure({.url = collector.url(), .interval_s = 3'600});

    for (std::uint64_t i = 1; i <= 10; ++i) add(exporter, i);
    EXPECT_EQ(exporter.stats().dropped, 7u);
    EXPECT_EQ(exporter.stats().queued, 3u);
    collector.say(200);

    EXPECT_TRUE(net::eventually([&] { return collector.books().counted == 10; }));
    EXPECT_EQ(collector.different_spans(), 3u);
}

TEST(OtlpExporterTest, what_the_collector_refuses_is_dropped_and_counted) {
    Collector collector;
    net::TestLog log;
    OtlpExporter exporter(options(), log.log());
    collector.say(400);
    exporter.configure({.url = collector.url(), .interval_s = 3'600});

    add(exporter, 1);
    exporter.close();

    EXPECT_EQ(exporter.stats().dropped, 1u);
    EXPECT_EQ(exporter.stats().queued, 0u);
    EXPECT_NE(log.text().find("answered 400"), std::string::npos);
}

TEST(OtlpExporterTest, what_was_taken_in_part_is_counted_in_part) {
    Collector collector;
    net::TestLog log;
    OtlpExporter::Options how = options();
    how.queue_max = 6;
    OtlpExporter exporter(how, log.log());
    collector.say(503);
    exporter.configure({.url = collector.url(), .interval_s = 3'600});
    for (std::uint64_t i = 1; i <= 3; ++i) add(exporter, i);
    // All three are in one request by now.
    const std::size_t before = collector.books().requests;
    EXPECT_TRUE(net::eventually([&] { return collector.books().requests >= before + 2; }));
    collector.say(200, R"({"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}})");

    EXPECT_TRUE(net::eventually([&] { return exporter.stats().queued == 0; }));
    EXPECT_EQ(exporter.stats().sent, 1u);
    EXPECT_EQ(exporter.stats().dropped, 2u);
}

TEST(OtlpExporterTest, another_address_is_tried_at_once_and_none_is_silence) {
    Collector collector;
    net::TestLog log;
    OtlpExporter::Options how = options();
    how.queue_max = 2;
    how.backoff_min = 1h;
    how.backoff_max = 1h;
    OtlpExporter exporter(how, log.log());
    exporter.configure({.url = "http://127.0.0.1:1", .interval_s = 3'600});
    add(exporter, 1);
    EXPECT_TRUE(net::eventually([&] { return exporter.stats().failures > 0; }));

    exporter.configure({.url = collector.url(), .interval_s = 3'600});
    EXPECT_TRUE(net::eventually([&] { return collector.books().counted == 1; }));
    exporter.configure({});
    add(exporter, 2);
    exporter.close();

    EXPECT_EQ(collector.different_spans(), 1u);
    EXPECT_EQ(exporter.stats().queued, 0u);
}

TEST(CallWatchTest, the_calls_of_one_org_are_shown_and_sent_to_no_other) {
    Collector first;
    Collector second;
    net::TestLog log;
    CallWatch watch({.now = [] { return from_micros(1); }, .operator_org = core::OrgId(1)}, log.log());
    watch.export_to(core::OrgId(1), {.url = first.url(), .interval_s = 3'600});
    watch.export_to(core::OrgId(2), {.url = second.url(), .interval_s = 3'600});
    core::ModelCall call;
    call.id = core::CallId(Id{1, 1});
    call.operation = "openai.chat";
    call.status = 200;

    watch.on_call({core::OrgId(2), call});
    watch.on_call({core::OrgId(3), call});
    call.refusal = "unauthorized";
    watch.on_call({core::OrgId(), call});
    watch.close();

    EXPECT_EQ(first.books().spans.size(), 0u);
    EXPECT_EQ(second.books().spans.size(), 1u);
    std::string operators;
    watch.write(operators, core::OrgId(1));
    EXPECT_NE(operators.find("refusal=\"unauthorized\"} 1"), std::string::npos);
    EXPECT_EQ(operators.find("refusal=\"\""), std::string::npos);
    std::string others;
    watch.write(others, core::OrgId(2));
    EXPECT_NE(others.find("refusal=\"\"} 1"), std::string::npos);
    EXPECT_NE(others.find("interlock_gateway_otlp_spans_sent_total 1"), std::string::npos);
    std::string nobodys;
    watch.write(nobodys, core::OrgId(9));
    EXPECT_EQ(nobodys, "");
}

}  // namespace
}  // namespace interlock::gateway
