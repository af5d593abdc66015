// How often something was how large: a count per bucket, and the sum.
//
// Whoever shares one between threads locks it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace interlock {

class Histogram {
 public:
    // Seconds, for what this process does by itself.
    static constexpr std::array request_seconds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                0.05,   0.1,     0.25,   0.5,   1.0,    2.5,   5.0,  10.0};

    // Upper bounds in ascending order, each of its own bucket; one more bucket takes the rest. They outlive this.
    explicit Histogram(std::span<const double> bounds = request_seconds);

    void add(double value);
    void add(const Histogram& other);  // Of the same bounds.

    std::span<const double> bounds() const { return bounds_; }
    std::span<const std::uint64_t> counts() const { return counts_; }  // One more than there are bounds.
    std::uint64_t count() const { return count_; }
    double sum() const { return sum_; }
    // The value that this share of what was added (0.95) does not exceed, as far as buckets tell: within one, all is
    // taken to be spread evenly, and what is in the last counts as its lower bound. Nothing where nothing was added.
    std::optional<double> quantile(double share) const;

    // Lines of Prometheus' text format, with these labels inside the braces.
    void write(std::string& out, std::string_view name, std::string_view labels) const;

 private:
    std::span<const double> bounds_;
    std::vector<std::uint64_t> counts_;
    std::uint64_t count_ = 0;
    double sum_ = 0;
};

}  // namespace interlock
