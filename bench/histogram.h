// Latencies in a fixed amount of memory: 64 buckets for every doubling, so a percentile is right to within 1.6 %.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace interlock::bench {

class Histogram {
 public:
    void add(std::uint64_t nanos, std::uint64_t times = 1) {
        counts_[bucket_of(nanos)] += times;
        total_ += times;
    }

    void add(const Histogram& other) {
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
        total_ += other.total_;
    }

    // The least latency that at least this share of all did not pass, in nanoseconds; 0 when nothing was measured.
    std::uint64_t quantile(double share) const {
        const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(total_)));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            seen += counts_[i];
            if (seen >= rank && seen > 0) return upper_end(i);
        }
        return 0;
    }

    std::uint64_t total() const { return total_; }

 private:
    static constexpr unsigned sub_bits = 6;
    static constexpr std::uint64_t sub_count = 1u << sub_bits;

    static std::size_t bucket_of(std::uint64_t nanos) {
        if (nanos < sub_count) return nanos;
        const unsigned shift = static_cast<unsigned>(std::bit_width(nanos)) - 1 - sub_bits;
        return (shift + 1) * sub_count + ((nanos >> shift) - sub_count);
    }
    static std::uint64_t upper_end(std::size_t bucket) {
        if (bucket < sub_count) return bucket;
        const auto shift = static_cast<unsigned>(bucket / sub_count - 1);
        return ((bucket % sub_count + sub_count + 1) << shift) - 1;
    }

    std::array<std::uint64_t, (64 - sub_bits + 1) * sub_count> counts_{};
    std::uint64_t total_ = 0;
};

}  // namespace interlock::bench
