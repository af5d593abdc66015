// Counters and histograms for Prometheus.
//
// Added to by any thread. Labels come from fixed sets (routes, codes), so their number is bounded.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/histogram.h"
#include "net/body_reads.h"

namespace interlock::api {

class Metrics {
 public:
    void count_request(std::string_view method, std::string_view path, int status, double seconds);
    void count_refusal(std::string_view code);

    void write(std::string& out) const;

    net::BodyReads body_reads;

 private:
    struct OfRoute {
        std::map<int, std::uint64_t> by_status;
        Histogram latency;
    };
    mutable std::mutex mutex_;
    std::map<std::pair<std::string, std::string>, OfRoute> routes_;
    std::map<std::string, std::uint64_t> refusals_;
};

}  // namespace interlock::api
