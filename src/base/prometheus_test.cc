#include "base/prometheus.h"

#include <gtest/gtest.h>

namespace interlock {
namespace {

TEST(PrometheusTest, a_metric_says_what_it_is) {
    std::string out;

    write_metric(out, "x_total", "counter", "Things.", 7);

    EXPECT_EQ(out, "# HELP x_total Things.\n# TYPE x_total counter\nx_total 7\n");
}

TEST(PrometheusTest, no_value_can_end_its_label) {
    EXPECT_EQ(label("model", "gpt-5"), "model=\"gpt-5\"");
    EXPECT_EQ(label("model", "a\"b\\c\nd"), "model=\"a\\\"b\\\\c\\nd\"");
}

}  // namespace
}  // namespace interlock
