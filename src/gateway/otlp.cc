#include "gateway/otlp.h"

#include <simdjson.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <boost/describe/enum_from_string.hpp>
#include <boost/json.hpp>

#include "base/id.h"
#include "base/money.h"
#include "gateway/api_format.h"

namespace interlock::gateway {
namespace json = boost::json;
namespace {

// As the conventions propose them.
constexpr std::array duration_bounds{0.01, 0.02, 0.04, 0.08,  0.16,  0.32,  0.64,
                                     1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
constexpr std::array token_bounds{1.0,     4.0,     16.0,     64.0,      256.0,     1024.0,     4096.0,
                                  16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0, 67108864.0};

constexpr int span_kind_client = 3;
constexpr int status_error = 2;
constexpr int temporality_delta = 1;

// ---- what our words are called there --------------------------------------------------------------------------------

// "anthropic.messages"
std::string operation_name(std::string_view operation) {
    const std::string ours(operation.substr(std::min(operation.find('.') + 1, operation.size())));
    Operation known{};
    if (!boost::describe::enum_from_string(ours.c_str(), known)) return ours;
    switch (known) {
        case Operation::chat:
        case Operation::messages:
        case Operation::responses:
            return "chat";
        case Operation::generate:
            return "generate_content";
        case Operation::embeddings:
        case Operation::count_tokens:
        case Operation::models:
            break;
    }
    return ours;
}

std::string provider_name(std::string_view provider) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> other_names{{
        {"google", "gcp.gemini"},
        {"mistral", "mistral_ai"},
        {"x-ai", "x_ai"},
    }};
    for (const auto& [ours, theirs] : other_names) {
        if (ours == provider) return std::string(theirs);
    }
    return std::string(provider);
}

// Empty: it went well.
std::string error_type(const core::ModelCall& call, CallEnd end) {
    if (!call.refusal.empty()) return call.refusal;
    if (call.status >= 400) return std::to_string(call.status);
    return call.status == 0 || end == CallEnd::broken_off ? "broken_off" : "";
}

std::int64_t input_tokens(const Usage& usage) {
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_5m_tokens + usage.cache_write_1h_tokens;
}

std::int64_t output_tokens(const Usage& usage) { return usage.output_tokens + usage.reasoning_tokens; }

// ---- JSON -----------------------------------------------------------------------------------------------------------

// JSON is UTF-8; what a client sends may be any bytes.
std::string text(std::string_view bytes) {
    std::string out(bytes);
    if (!simdjson::validate_utf8(out)) {
        std::ranges::replace_if(out, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
    }
    return out;
}

std::string whole(std::int64_t number) { return std::to_string(number); }  // 64 bits do not fit a JSON number.

class Attributes {
 public:
    void add(std::string_view name, std::string_view value) {
        if (!value.empty()) put(name, {{"stringValue", text(value)}});
    }
    void add(std::string_view name, std::int64_t value) { put(name, {{"intValue", whole(value)}}); }
    void add_flag(std::string_view name, bool value) { put(name, {{"boolValue", value}}); }
    void add_list(std::string_view name, std::string_view only) {
        put(name, {{"arrayValue", {{"values", json::array{{{"stringValue", text(only)}}}}}}});
    }
    json::array take() { return std::move(list_); }

 private:
    void put(std::string_view name, json::object value) {
        list_.push_back(json::object{{"key", name}, {"value", std::move(value)}});
    }

    json::array list_;
};

json::object resource_of(const OtlpSource& source) {
    Attributes attributes;
    attributes.add("service.name", "interlock");
    attributes.add("service.version", source.version);
    attributes.add("service.instance.id", source.instance);
    return {{"attributes", attributes.take()}};
}

json::object scope_of(const OtlpSource& source) { return {{"name", "interlock.gateway"}, {"version", source.version}}; }

std::string nanos_text(Instant at) { return whole(micros(at) * 1'000); }

// ---- spans ----------------------------------------------------------------------------------------------------------

json::array attributes_of(const core::ModelCall& call, CallEnd end) {
    Attributes attributes;
    attributes.add("gen_ai.operation.name", operation_name(call.operation));
    attributes.add("gen_ai.provider.name", provider_name(call.who.provider));
    attributes.add("gen_ai.request.model", call.who.model);
    if (call.usage != Usage()) {
        attributes.add("gen_ai.usage.input_tokens", input_tokens(call.usage));
        attributes.add("gen_ai.usage.output_tokens", output_tokens(call.usage));
        const std::int64_t written = call.usage.cache_write_5m_tokens + call.usage.cache_write_1h_tokens;
        if (call.usage.cache_read_tokens > 0) {
            attributes.add("gen_ai.usage.cache_read.input_tokens", call.usage.cache_read_tokens);
        }
        if (written > 0) attributes.add("gen_ai.usage.cache_creation.input_tokens", written);
    }
    // Of an answer that was passed on to its end, the row has the model's own word.
    if (call.status == 200 && end == CallEnd::whole && !call.cached && !call.detail.empty()) {
        attributes.add_list("gen_ai.response.finish_reasons", call.detail);
    }
    if (!call.who.session.value.empty()) {
        attributes.add("gen_ai.conversation.id", to_text("ses", call.who.session.value));
    }
    attributes.add("error.type", error_type(call, end));
    if (call.status > 0) attributes.add("http.response.status_code", call.status);

    attributes.add("interlock.call.id", to_text("call", call.id.value));
    if (!call.who.run.value.empty()) attributes.add("interlock.run.id", to_text("run", call.who.run.value));
    attributes.add("interlock.agent", call.who.agent);
    attributes.add("interlock.workflow", call.who.workflow);
    for (const auto& [name, value] : call.who.tags) attributes.add("interlock.tag." + name, value);
    attributes.add("interlock.operation", call.operation);
    attributes.add("interlock.upstream", call.upstream);
    attributes.add("interlock.attempts", call.attempts);
    attributes.add("interlock.cost_usd", to_text(Money::nanos(call.cost)));
    attributes.add("interlock.cost_nanos", call.cost);
    attributes.add("interlock.bound_nanos", call.bound);
    attributes.add_flag("interlock.estimated", call.estimated);
    attributes.add_flag("interlock.unpriced", call.unpriced);
    attributes.add_flag("interlock.cached", call.cached);
    attributes.add_flag("interlock.streamed", call.streamed);
    if (call.first_byte_us > 0) attributes.add("interlock.first_byte_us", call.first_byte_us);
    return attributes.take();
}

json::object span_of(const TracedCall& traced) {
    const core::ModelCall& call = traced.row;
    const std::string operation = operation_name(call.operation);
    const Id id = call.id.value;
    json::object span{
        {"traceId", traced.parent ? traced.parent->trace_id : fmt::format("{:016x}{:016x}", id.high, id.low)},
        {"spanId", fmt::format("{:016x}", id.low)},
        {"name", call.who.model.empty() ? operation : operation + " " + text(call.who.model)},
        {"kind", span_kind_client},
        {"startTimeUnixNano", nanos_text(call.at)},
        {"endTimeUnixNano", nanos_text(call.at + Duration(call.duration_us))},
        {"attributes", attributes_of(call, traced.end)},
    };
    if (traced.parent) span["parentSpanId"] = traced.parent->span_id;
    if (!error_type(call, traced.end).empty()) {
        span["status"] = json::object{{"code", status_error}, {"message", text(call.detail)}};
    }
    return span;
}

// ---- metrics --------------------------------------------------------------------------------------------------------

json::object point_of(const Histogram& histogram, json::array attributes, Instant begin, Instant end) {
    json::array counts;
    for (const std::uint64_t count : histogram.counts()) counts.push_back(json::string(std::to_string(count)));
    return {{"attributes", std::move(attributes)},
            {"startTimeUnixNano", nanos_text(begin)},
            {"timeUnixNano", nanos_text(end)},
            {"count", std::to_string(histogram.count())},
            {"sum", histogram.sum()},
            {"bucketCounts", std::move(counts)},
            {"explicitBounds", json::array(histogram.bounds().begin(), histogram.bounds().end())}};
}

json::object metric_of(std::string_view name, std::string_view unit, std::string_view description, json::array points) {
    return {
        {"name", name},
        {"unit", unit},
        {"description", description},
        {"histogram", json::object{{"aggregationTemporality", temporality_delta}, {"dataPoints", std::move(points)}}}};
}

}  // namespace

std::optional<TraceParent> read_traceparent(std::string_view header) {
    // 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01, and later versions have more behind it.
    constexpr std::size_t size = 55;
    const auto is_hex = [](std::string_view part) {
        return std::ranges::all_of(part, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    };
    const auto is_id = [&](std::string_view part) {
        return is_hex(part) && part.find_first_not_of('0') != std::string_view::npos;
    };
    if (header.size() < size || header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
    const std::string_view version = header.substr(0, 2);
    const std::string_view trace = header.substr(3, 32);
    const std::string_view span = header.substr(36, 16);
    const bool has_more = header.size() > size;
    if (!is_hex(version) || version == "ff" || !is_id(trace) || !is_id(span) || !is_hex(header.substr(53, 2)) ||
        (has_more && (version == "00" || header[size] != '-'))) {
        return std::nullopt;
    }
    return TraceParent{std::string(trace), std::string(span)};
}

std::string trace_document(const OtlpSource& source, std::span<const TracedCall> calls) {
    json::array spans;
    spans.reserve(calls.size());
    for (const TracedCall& call : calls) spans.push_back(span_of(call));
    return json::serialize(json::object{
        {"resourceSpans",
         json::array{json::object{
             {"resource", resource_of(source)},
             {"scopeSpans", json::array{json::object{{"scope", scope_of(source)}, {"spans", std::move(spans)}}}}}}}});
}

void CallDeltas::add(const core::ModelCall& call, CallEnd end) {
    const std::string operation = operation_name(call.operation);
    const std::string provider = provider_name(call.who.provider);
    Series series{operation, provider, call.who.model, error_type(call, end)};
    if (durations_.size() >= series_max && !durations_.contains(series)) std::get<2>(series) = "other";
    const std::string model = std::get<2>(series);
    add(durations_, std::move(series), duration_bounds, static_cast<double>(call.duration_us) / 1e6);
    if (call.usage == Usage()) return;
    add(tokens_, {operation, provider, model, "input"}, token_bounds, static_cast<double>(input_tokens(call.usage)));
    add(tokens_, {operation, provider, model, "output"}, token_bounds, static_cast<double>(output_tokens(call.usage)));
}

void CallDeltas::add(const CallDeltas& other) {
    add(durations_, other.durations_);
    add(tokens_, other.tokens_);
}

void CallDeltas::add(Histograms& histograms, Series series, std::span<const double> bounds, double value) {
    histograms.try_emplace(std::move(series), bounds).first->second.add(value);
}

void CallDeltas::add(Histograms& histograms, const Histograms& others) {
    for (const auto& [series, histogram] : others) {
        histograms.try_emplace(series, histogram.bounds()).first->second.add(histogram);
    }
}

std::string CallDeltas::document(const OtlpSource& source, Instant begin, Instant end) const {
    const auto points = [&](const Histograms& histograms, std::string_view last_name) {
        json::array list;
        for (const auto& [series, histogram] : histograms) {
            const auto& [operation, provider, model, last] = series;
            Attributes attributes;
            attributes.add("gen_ai.operation.name", operation);
            attributes.add("gen_ai.provider.name", provider);
            attributes.add("gen_ai.request.model", model);
            attributes.add(last_name, last);
            list.push_back(point_of(histogram, attributes.take(), begin, end));
        }
        return list;
    };
    json::array metrics;
    metrics.push_back(metric_of("gen_ai.client.operation.duration", "s", "How long calls to models took.",
                                points(durations_, "error.type")));
    if (!tokens_.empty()) {
        metrics.push_back(metric_of("gen_ai.client.token.usage", "{token}", "Tokens that calls to models have used.",
                                    points(tokens_, "gen_ai.token.type")));
    }
    return json::serialize(json::object{
        {"resourceMetrics",
         json::array{json::object{{"resource", resource_of(source)},
                                  {"scopeMetrics", json::array{json::object{{"scope", scope_of(source)},
                                                                            {"metrics", std::move(metrics)}}}}}}}});
}

}  // namespace interlock::gateway
