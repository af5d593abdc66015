#include "base/histogram.h"

#include <gtest/gtest.h>

namespace interlock {
namespace {

constexpr std::array bounds{1.0, 10.0};

TEST(HistogramTest, a_value_counts_in_the_first_bucket_that_reaches_it) {
    Histogram histogram(bounds);

    for (const double value : {0.5, 1.0, 1.5, 10.0, 11.0}) histogram.add(value);

    EXPECT_EQ(std::vector<std::uint64_t>(histogram.counts().begin(), histogram.counts().end()),
              (std::vector<std::uint64_t>{2, 2, 1}));
    EXPECT_EQ(histogram.count(), 5u);
    EXPECT_DOUBLE_EQ(histogram.sum(), 24.0);
}

TEST(HistogramTest, two_of_the_same_bounds_can_be_added) {
    Histogram one(bounds);
    Histogram other(bounds);
    one.add(0.5);
    other.add(5);
    other.add(50);

    one.add(other);

    EXPECT_EQ(std::vector<std::uint64_t>(one.counts().begin(), one.counts().end()),
              (std::vector<std::uint64_t>{1, 1, 1}));
    EXPECT_EQ(one.count(), 3u);
    EXPECT_DOUBLE_EQ(one.sum(), 55.5);
}

TEST(HistogramTest, a_quantile_is_found_within_its_bucket) {
    Histogram histogram(bounds);
    EXPECT_FALSE(histogram.quantile(0.5)) << "nothing was measured";

    for (int i = 0; i < 10; ++i) histogram.add(0.5);
    for (int i = 0; i < 10; ++i) histogram.add(5);
    EXPECT_DOUBLE_EQ(*histogram.quantile(0.5), 1.0);
    EXPECT_DOUBLE_EQ(*histogram.quantile(0.75), 5.5);
    EXPECT_DOUBLE_EQ(*histogram.quantile(1), 10.0);

    for (int i = 0; i < 1000; ++i) histogram.add(50);
    EXPECT_DOUBLE_EQ(*histogram.quantile(0.95), 10.0) << "beyond the last bound nothing is known but that";
}

TEST(HistogramTest, prometheus_reads_buckets_that_contain_those_before_them) {
    Histogram histogram(bounds);
    for (const double value : {0.5, 1.5, 11.0}) histogram.add(value);
    std::string labelled;
    std::string bare;

    histogram.write(labelled, "x_seconds", "a=\"b\"");
    histogram.write(bare, "x_seconds", "");

    EXPECT_EQ(labelled,
              "x_seconds_bucket{a=\"b\",le=\"1\"} 1\nx_seconds_bucket{a=\"b\",le=\"10\"} 2\n"
              "x_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\nx_seconds_sum{a=\"b\"} 13\nx_seconds_count{a=\"b\"} 3\n");
    EXPECT_TRUE(bare.starts_with("x_seconds_bucket{le=\"1\"} 1\n"));
}

}  // namespace
}  // namespace interlock
