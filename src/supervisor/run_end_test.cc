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

// The detail begins with a reason that a person typed.
TEST(RunEnd, a_reason_that_speaks_of_a_signal_changes_no_exit_code) {
    const std::string reason = "ended by signal 9";
    const auto body = ended({.how = shim::How::stopped,
                             .code = 3,
                             .detail = reason + "; ended with exit code 3",
                             .code_is = shim::CodeIs::exit_code},
                            reason);

    EXPECT_EQ(std::get<core::CancelRun>(body).exit_code, 3);
}

TEST(RunEnd, a_signal_that_ended_a_stopped_run_is_in_its_exit_code) {
    const auto body = ended({.how = shim::How::timed_out, .code = 15, .code_is = shim::CodeIs::signal});

    EXPECT_EQ(std::get<core::FinishRun>(body).exit_code, 128 + 15);
}

TEST(RunEnd, the_exit_code_is_not_known_where_an_older_shim_did_not_say_what_its_code_is) {
    const auto body = ended({.how = shim::How::timed_out, .code = 15, .detail = "ended by signal 15 (Terminated)"});

    EXPECT_EQ(std::get<core::FinishRun>(body).exit_code, -1);
}

}  // namespace
}  // namespace interlock::supervisor
