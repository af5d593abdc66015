#include "api/metrics.h"

#include <algorithm>

#include <fmt/format.h>

namespace interlock::api {

void Histogram::add(double seconds) {
    const auto bucket = static_cast<std::size_t>(std::ranges::lower_bound(bounds, seconds) - bounds.begin());
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_us_.fetch_add(static_cast<std::uint64_t>(seconds * 1e6), std::memory_order_relaxed);
}

void Histogram::write(std::string& out, std::string_view name, std::string_view labels) const {
    std::uint64_t total = 0;
    const std::string comma = labels.empty() ? "" : ",";
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        total += counts_[i].load(std::memory_order_relaxed);
        out += fmt::format("{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma, bounds[i], total);
    }
    total += counts_.back().load(std::memory_order_relaxed);
    out += fmt::format("{}_bucket{{{}{}le=\"+Inf\"}} {}\n", name, labels, comma, total);
    out += fmt::format("{}_sum{{{}}} {}\n", name, labels, static_cast<double>(sum_us_.load()) / 1e6);
    out += fmt::format("{}_count{{{}}} {}\n", name, labels, total);
}

void Metrics::count_request(std::string_view method, std::string_view path, int status, double seconds) {
    const std::lock_guard lock(mutex_);
    OfRoute& route = routes_[{std::string(method), std::string(path)}];
    ++route.by_status[status];
    route.latency.add(seconds);
}

void Metrics::count_refusal(std::string_view code) {
    const std::lock_guard lock(mutex_);
    ++refusals_[std::string(code)];
}

void Metrics::write(std::string& out) const {
    const std::lock_guard lock(mutex_);
    out +=
        "# HELP interlock_http_requests_total Requests answered, by route and status.\n"
        "# TYPE interlock_http_requests_total counter\n";
    for (const auto& [route, of] : routes_) {
        for (const auto& [status, count] : of.by_status) {
            out += fmt::format("interlock_http_requests_total{{method=\"{}\",route=\"{}\",status=\"{}\"}} {}\n",
                               route.first, route.second, status, count);
        }
    }
    out +=
        "# HELP interlock_http_request_seconds Time from a request's last byte to its answer.\n"
        "# TYPE interlock_http_request_seconds histogram\n";
    for (const auto& [route, of] : routes_) {
        of.latency.write(out, "interlock_http_request_seconds",
                         fmt::format("method=\"{}\",route=\"{}\"", route.first, route.second));
    }
    out += "# HELP interlock_refusals_total Answers that were no, by code.\n# TYPE interlock_refusals_total counter\n";
    for (const auto& [code, count] : refusals_)
        out += fmt::format("interlock_refusals_total{{code=\"{}\"}} {}\n", code, count);
}

void write_metric(std::string& out, std::string_view name, std::string_view type, std::string_view help,
                  std::uint64_t value) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n{} {}\n", name, help, name, type, name, value);
}

}  // namespace interlock::api
