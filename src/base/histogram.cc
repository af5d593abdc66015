#include "base/histogram.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ensure.h"

namespace interlock {

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

void Histogram::add(double value) {
    const auto bucket = static_cast<std::size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin());
    ++counts_[bucket];
    ++count_;
    sum_ += value;
}

void Histogram::add(const Histogram& other) {
    ensure(std::ranges::equal(bounds_, other.bounds_), "only equal buckets can be added");
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
}

std::optional<double> Histogram::quantile(double share) const {
    if (count_ == 0) return std::nullopt;
    const double rank = share * static_cast<double>(count_);
    double below = 0;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
        const auto here = static_cast<double>(counts_[i]);
        if (here > 0 && below + here >= rank) {
            const double begin = i == 0 ? 0 : bounds_[i - 1];
            return begin + (bounds_[i] - begin) * std::max(0.0, rank - below) / here;
        }
        below += here;
    }
    return bounds_.empty() ? 0 : bounds_.back();
}

void Histogram::write(std::string& out, std::string_view name, std::string_view labels) const {
    const std::string_view comma = labels.empty() ? "" : ",";
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
        total += counts_[i];
        out += fmt::format("{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma, bounds_[i], total);
    }
    out += fmt::format("{}_bucket{{{}{}le=\"+Inf\"}} {}\n", name, labels, comma, count_);
    out += fmt::format("{}_sum{{{}}} {}\n", name, labels, sum_);
    out += fmt::format("{}_count{{{}}} {}\n", name, labels, count_);
}

}  // namespace interlock
