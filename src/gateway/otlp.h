// Calls as OpenTelemetry sees them: spans and histograms with the names that its conventions for generative AI have, in
// the JSON that OTLP/HTTP takes.
//
//   (1) A call is one span, and its ids follow from the call's own: sent twice, it is the same span. Where the client
//       sent a traceparent, the span is a child of the client's.
//   (2) The kinds of tokens that are disjoint here are not so there: what was read from a cache is part of the input,
//       and reasoning part of the output.
//   (3) No prompt, no answer and no key is in any of it.
//
// Nothing is sent here; see otlp_exporter.h.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "base/histogram.h"
#include "core/rows.h"
#include "gateway/ended_call.h"

namespace interlock::gateway {

// Who reports.
struct OtlpSource {
    std::string version = {};
    std::string instance = {};  // Tells servers apart.
};

// W3C Trace Context: the trace that a request is part of, and the span that sent it. In hexadecimal digits.
struct TraceParent {
    std::string trace_id = {};
    std::string span_id = {};
    friend bool operator==(const TraceParent&, const TraceParent&) = default;
};
std::optional<TraceParent> read_traceparent(std::string_view header);

struct TracedCall {
    core::ModelCall row;
    std::optional<TraceParent> parent = {};
    CallEnd end = CallEnd::whole;
};
// The body for /v1/traces.
std::string trace_document(const OtlpSource& source, std::span<const TracedCall> calls);

// Histograms of what happened since the last time: tokens by kind, and how long calls took.
class CallDeltas {
 public:
    // Names of models come from clients. Beyond so many combinations, calls count for the model "other".
    static constexpr std::size_t series_max = 1'000;

    void add(const core::ModelCall& call, CallEnd end = CallEnd::whole);
    void add(const CallDeltas& other);
    bool empty() const { return durations_.empty(); }
    // The body for /v1/metrics.
    std::string document(const OtlpSource& source, Instant begin, Instant end) const;

 private:
    // Operation, provider, model, and then the type of error or of tokens.
    using Series = std::tuple<std::string, std::string, std::string, std::string>;
    using Histograms = std::map<Series, Histogram>;
    static void add(Histograms& histograms, Series series, std::span<const double> bounds, double value);
    static void add(Histograms& histograms, const Histograms& others);

    Histograms durations_;
    Histograms tokens_;
};

}  // namespace interlock::gateway
