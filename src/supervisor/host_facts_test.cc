#include "supervisor/host_facts.h"

#include <gtest/gtest.h>

#include <fstream>

namespace interlock::supervisor {
namespace {

std::optional<double> pressure_of(const std::string& text) {
    const std::string path = testing::TempDir() + "/pressure";
    std::ofstream(path) << text;
    return memory_pressure(path);
}

TEST(HostFactsTest, memory_pressure_is_the_share_of_the_last_ten_seconds) {
    EXPECT_EQ(
        pressure_of("some avg10=12.34 avg60=1.00 avg300=0.00 total=5\nfull avg10=99.00 avg60=0 avg300=0 total=0\n"),
        12.34);
    EXPECT_EQ(pressure_of("some avg10=0.00 avg60=50.00 avg300=50.00 total=5\n"), 0.0);
}

TEST(HostFactsTest, a_kernel_that_does_not_say_holds_nothing_back) {
    EXPECT_EQ(memory_pressure("/no/such/file"), std::nullopt);
    EXPECT_EQ(pressure_of(""), std::nullopt);
    EXPECT_EQ(pressure_of("full avg10=99.00\n"), std::nullopt);
}

TEST(HostFactsTest, a_machine_runs_a_few_at_once_however_small_it_is) { EXPECT_GE(default_runs_max(), 4); }

}  // namespace
}  // namespace interlock::supervisor
