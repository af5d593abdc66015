#include "supervisor/waiting.h"

#include <gtest/gtest.h>

#include <chrono>

namespace interlock::supervisor {
namespace {

using namespace std::chrono_literals;

core::Run ended_run() {
    core::Run run;
    run.id = core::RunId(Id{1, 2});
    run.state = core::RunState::failed;
    run.reason = "exit code 3";
    run.created_at = Instant(1s);
    run.started_at = Instant(2s);
    run.ended_at = Instant(4s);
    return run;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ReceiptTest, it_says_how_it_ended_how_long_it_took_and_where_to_see_more) {
    const std::string receipt = receipt_of(ended_run(), "http://here");

    EXPECT_TRUE(has(receipt, "failed (exit code 3) after 2.0 s")) << receipt;
    EXPECT_TRUE(has(receipt, "0 model calls")) << receipt;
    EXPECT_TRUE(has(receipt, "http://here/#/runs/" + to_text("run", ended_run().id.value))) << receipt;
    EXPECT_FALSE(has(receipt, "estimated")) << receipt;
    EXPECT_EQ(receipt.find('\n'), std::string::npos);
}

TEST(ReceiptTest, what_never_started_took_its_time_in_line) {
    core::Run run = ended_run();
    run.started_at = far_past;
    run.ended_at = Instant(1s + 3'700s);

    EXPECT_TRUE(has(receipt_of(run, ""), "after 1 h 1 min")) << receipt_of(run, "");
}

TEST(ReceiptTest, money_is_said_with_its_bound_and_what_is_not_certain) {
    core::Run run = ended_run();
    run.events = 1;
    run.settled = 750'000'000;
    run.ceiling = 1'000'000'000;
    run.unknown = 250'000'000;
    const std::string receipt = receipt_of(run, "");

    EXPECT_TRUE(has(receipt, "1 model call, $0.75 of $1.00")) << receipt;
    EXPECT_TRUE(has(receipt, "$0.25 of it estimated")) << receipt;
}

}  // namespace
}  // namespace interlock::supervisor
