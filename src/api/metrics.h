// Counters and histograms for Prometheus.
//
// Added to by any thread. Labels come from fixed sets (routes, codes), so their number is bounded.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace interlock::api {

class Histogram {
 public:
    // Upper bounds in seconds; one more bucket takes the rest.
    static constexpr std::array bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                       0.05,   0.1,     0.25,   0.5,   1.0,    2.5,   5.0,  10.0};

    void add(double seconds);
    // Lines of the text format, with these labels inside the braces.
    void write(std::string& out, std::string_view name, std::string_view labels) const;

 private:
    std::array<std::atomic<std::uint64_t>, bounds.size() + 1> counts_{};
    std::atomic<std::uint64_t> sum_us_{0};
};

class Metrics {
 public:
    void count_request(std::string_view method, std::string_view path, int status, double seconds);
    void count_refusal(std::string_view code);

    void write(std::string& out) const;

 private:
    struct OfRoute {
        std::map<int, std::uint64_t> by_status;
        Histogram latency;
    };
    mutable std::mutex mutex_;
    std::map<std::pair<std::string, std::string>, OfRoute> routes_;
    std::map<std::string, std::uint64_t> refusals_;
};

// One line with HELP and TYPE before it.
void write_metric(std::string& out, std::string_view name, std::string_view type, std::string_view help,
                  std::uint64_t value);

}  // namespace interlock::api
