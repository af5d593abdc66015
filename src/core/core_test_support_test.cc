#include "core/core_test_support.h"

namespace interlock::core {
namespace {
using CoreTestSupport = CoreTest;
TEST_F(CoreTestSupport, rows_of_an_honest_history_do_not_contradict_each_other) {
    make_agent("ada");
    EXPECT_TRUE(contradictions(rows()).empty());
}
}  // namespace
}  // namespace interlock::core
