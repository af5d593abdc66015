#include "gateway/call_metrics.h"

#include <simdjson.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/prometheus.h"

namespace interlock::gateway {
namespace {

constexpr std::string_view other_word = "other";

// Seconds: a cached answer is there at once, a long one takes minutes.
constexpr std::array call_seconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,   0.25,  0.5,
                                  1.0,   2.5,    5.0,   10.0, 30.0,  60.0, 120.0, 300.0, 600.0};

struct TokenKind {
    const char* name;
    std::int64_t Usage::* tokens;
};
constexpr std::array token_kinds{
    TokenKind{"input", &Usage::input_tokens},
    TokenKind{"output", &Usage::output_tokens},
    TokenKind{"cache_read", &Usage::cache_read_tokens},
    TokenKind{"cache_write_5m", &Usage::cache_write_5m_tokens},
    TokenKind{"cache_write_1h", &Usage::cache_write_1h_tokens},
    TokenKind{"reasoning", &Usage::reasoning_tokens},
};

// "none": the client was gone before there was an answer.
std::string_view status_class(std::int32_t status) {
    static constexpr std::array<std::string_view, 6> names{"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    return status < 600 && status >= 0 ? names[static_cast<std::size_t>(status / 100)] : names[0];
}

double seconds(std::int64_t microseconds) { return static_cast<double>(microseconds) / 1e6; }

// Samples of one metric; it is not announced before there is one.
class Family {
 public:
    Family(std::string& out, const char* name, const char* type, const char* help)
        : out_(out), name_(name), type_(type), help_(help) {}

    template <class Number>
    void add(std::string_view labels, Number value) {
        announce();
        out_ += fmt::format("{}{{{}}} {}\n", name_, labels, value);
    }
    void add(std::string_view labels, const Histogram& histogram) {
        announce();
        histogram.write(out_, name_, labels);
    }

 private:
    void announce() {
        if (!std::exchange(announced_, true)) write_family(out_, name_, type_, help_);
    }

    std::string& out_;
    const char* name_;
    const char* type_;
    const char* help_;
    bool announced_ = false;
};

std::string labels_of(const std::tuple<std::string, std::string>& model) {
    return label("provider", std::get<0>(model)) + "," + label("model", std::get<1>(model));
}

}  // namespace

CallMetrics::OfProvider::OfProvider() : first_byte(call_seconds), duration(call_seconds) {}

void CallMetrics::count(const core::ModelCall& call) {
    const std::lock_guard lock(mutex_);
    const std::string_view provider = provider_name(call);
    const std::tuple<std::string_view, std::string_view, std::string_view, std::string_view> kind{
        call.operation, provider, status_class(call.status), call.refusal};
    auto counted = calls_.find(kind);
    if (counted == calls_.end()) counted = calls_.emplace(kind, 0).first;
    ++counted->second;

    auto of_provider = providers_.find(provider);
    if (of_provider == providers_.end()) of_provider = providers_.try_emplace(std::string(provider)).first;
    // What we refuse or know by heart says nothing about how long a provider takes.
    if (call.attempts > 0) {
        of_provider->second.duration.add(seconds(call.duration_us));
        if (call.first_byte_us > 0) of_provider->second.first_byte.add(seconds(call.first_byte_us));
        of_provider->second.attempts += static_cast<std::uint64_t>(call.attempts);
    }

    if (call.usage != Usage() || call.cost != 0) {
        OfModel& model = of_model(provider, readable_name(call.who.model));
        for (const TokenKind& each : token_kinds) model.usage.*each.tokens += call.usage.*each.tokens;
        model.cost += call.cost;
    }
    estimated_ += call.estimated;
    unpriced_ += call.unpriced;
    cache_hits_ += call.cached;
}

// Empty where nobody was asked.
std::string_view CallMetrics::provider_name(const core::ModelCall& call) const {
    const std::string_view name = call.who.provider;
    return providers_.size() < providers_max || providers_.contains(name) ? name : other_word;
}

CallMetrics::OfModel& CallMetrics::of_model(std::string_view provider, std::string_view model) {
    if (const auto found = models_.find(std::tuple(provider, model)); found != models_.end()) return found->second;
    if (models_apart_ == models_max) return models_[Model(provider, other_word)];
    ++models_apart_;
    return models_[Model(provider, model)];
}

void CallMetrics::write(std::string& out) const {
    const std::lock_guard lock(mutex_);
    Family calls(out, "interlock_gateway_calls_total", "counter", "Calls to models that have ended.");
    for (const auto& [kind, count] : calls_) {
        const auto& [operation, provider, status, refusal] = kind;
        calls.add(fmt::format("{},{},{},{}", label("operation", operation), label("provider", provider),
                              label("status_class", status), label("refusal", refusal)),
                  count);
    }
    Family tokens(out, "interlock_gateway_tokens_total", "counter", "Tokens that were used, by kind.");
    for (const auto& [name, model] : models_) {
        for (const TokenKind& each : token_kinds) {
            tokens.add(labels_of(name) + "," + label("kind", each.name), model.usage.*each.tokens);
        }
    }
    Family cost(out, "interlock_gateway_cost_nanodollars_total", "counter", "What calls have cost.");
    for (const auto& [name, model] : models_) cost.add(labels_of(name), model.cost);

    Family first_byte(out, "interlock_gateway_first_byte_seconds", "histogram",
                      "Time from a call's arrival to its answer's first byte, where a provider was asked.");
    for (const auto& [name, of] : providers_) {
        if (of.attempts > 0) first_byte.add(label("provider", name), of.first_byte);
    }
    Family duration(out, "interlock_gateway_call_seconds", "histogram",
                    "Time from a call's arrival to its end, where a provider was asked.");
    for (const auto& [name, of] : providers_) {
        if (of.attempts > 0) duration.add(label("provider", name), of.duration);
    }
    Family attempts(out, "interlock_gateway_attempts_total", "counter", "Requests that were sent to upstreams.");
    for (const auto& [name, of] : providers_) {
        if (of.attempts > 0) attempts.add(label("provider", name), of.attempts);
    }

    write_metric(out, "interlock_gateway_estimated_total", "counter",
                 "Calls that were charged by a bound, because nobody said what they used.", estimated_);
    write_metric(out, "interlock_gateway_unpriced_total", "counter", "Calls to models that have no price.", unpriced_);
    write_metric(out, "interlock_gateway_cache_hits_total", "counter", "Calls that were answered from memory.",
                 cache_hits_);
}

void write_health(std::string& out, const std::map<std::string, UpstreamSelector::Health>& health,
                  net::SteadyTime now) {
    Family requests(out, "interlock_gateway_upstream_requests_total", "counter", "Requests that an upstream has got.");
    for (const auto& [name, of] : health) requests.add(label("upstream", name), of.requests);
    Family failures(out, "interlock_gateway_upstream_failures_total", "counter", "Requests that an upstream failed.");
    for (const auto& [name, of] : health) failures.add(label("upstream", name), of.failures);
    Family in_a_row(out, "interlock_gateway_upstream_failures_in_a_row", "gauge",
                    "Failures since an upstream's last success.");
    for (const auto& [name, of] : health) in_a_row.add(label("upstream", name), of.failures_in_a_row);
    Family cooling(out, "interlock_gateway_upstream_cooling", "gauge",
                   "Whether an upstream is left alone for a while.");
    for (const auto& [name, of] : health) cooling.add(label("upstream", name), of.cooling_until > now ? 1 : 0);
}

std::string_view readable_name(std::string_view name) {
    const bool has_control = std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
    return !has_control && simdjson::validate_utf8(name.data(), name.size()) ? name : other_word;
}

}  // namespace interlock::gateway
