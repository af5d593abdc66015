#include "supervisor/run_end.h"

#include <gtest/gtest.h>

namespace interlock::supervisor {
namespace {

core::CommandBody ended(const shim::Ended& message, const std::string& stop = "") {
    return end_of(core::RunId(Id{}), core::Fence(1), false, stop, message);
}

TEST(RunEnd, a_run_that_was_asked_to_stop_is_cancelled_with_the_reason) {
    const auto body =
        ended({.how = shim::How::stopped, .code = 15, .detail = "no more need; ended by signal 15 (Terminated)"},
              "no more need");

    const auto* cancel = std::get_if<core::CancelRun>(&body);
    ASSERT_NE(cancel, nullptr);
    EXPECT_EQ(cancel->reason, "no more need");
}

TEST(RunEnd, a_run_whose_shim_got_a_signal_from_elsewhere_has_failed) {
    const auto body = ended({.how = shim::How::stopped,
                             .code = 15,
                             .detail = "the shim was asked to end; ended by signal 15 (Terminated)"});

    const auto* finish = std::get_if<core::FinishRun>(&body);
    ASSERT_NE(finish, nullptr);
    EXPECT_EQ(finish->outcome, core::RunState::failed);
    EXPECT_NE(finish->reason.find("signal that Interlock did not send"), std::string::npos) << finish->reason;
}

}  // namespace
}  // namespace interlock::supervisor
