#include "api/metrics.h"

#include <fmt/format.h>

#include "base/prometheus.h"

namespace interlock::api {

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
    write_family(out, "interlock_http_requests_total", "counter", "Requests answered, by route and status.");
    for (const auto& [route, of] : routes_) {
        for (const auto& [status, count] : of.by_status) {
            out += fmt::format("interlock_http_requests_total{{method=\"{}\",route=\"{}\",status=\"{}\"}} {}\n",
                               route.first, route.second, status, count);
        }
    }
    write_family(out, "interlock_http_request_seconds", "histogram", "Time from a request's last byte to its answer.");
    for (const auto& [route, of] : routes_) {
        of.latency.write(out, "interlock_http_request_seconds",
                         fmt::format("method=\"{}\",route=\"{}\"", route.first, route.second));
    }
    write_family(out, "interlock_refusals_total", "counter", "Refused requests, by code.");
    for (const auto& [code, count] : refusals_)
        out += fmt::format("interlock_refusals_total{{code=\"{}\"}} {}\n", code, count);
    write_metric(out, "interlock_http_io_read_bytes_total", "counter",
                 "Bytes of bodies that were read on threads of connections; larger ones are read by workers.",
                 body_reads.on_io());
    write_metric(out, "interlock_http_worker_read_bytes_total", "counter",
                 "Bytes of large bodies that were read by workers.", body_reads.on_workers());
}

}  // namespace interlock::api
