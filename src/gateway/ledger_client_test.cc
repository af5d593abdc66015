// What the ledger's client does with commands that are not taken, or are refused.
#include "gateway/ledger_client.h"

#include <gtest/gtest.h>

#include "gateway/fake_ledger.h"
#include "net/http_test_support.h"

namespace interlock::gateway {
namespace {

class LedgerClientTest : public testing::Test {
 protected:
    bool is_logged(std::string_view text) { return log.text().find(text) != std::string::npos; }

    const core::OrgId org{1};
    const core::HoldId hold{Id{1, 2}};
    net::TestLog log;
    FakeLedger books;
    BudgetWaitQueue budget_waits;
    LedgerClient ledger{books.options(), budget_waits, log.log()};
};

TEST_F(LedgerClientTest, a_failure_is_logged_for_what_it_is) {
    books.say(engine::SubmitResult(fail(engine::SubmitError::key_reused)));
    ledger.settle(org, hold, {});
    EXPECT_TRUE(is_logged("hold_not_settled")) << log.text();
    EXPECT_TRUE(is_logged(to_text("hold", hold.value))) << log.text();
    EXPECT_FALSE(is_logged("hold_not_released"));

    ledger.release(org, hold);
    EXPECT_TRUE(is_logged("hold_not_released")) << log.text();
    EXPECT_FALSE(is_logged("turn_not_kept"));

    core::Append turn;
    turn.session = core::SessionId(Id{3, 4});
    ledger.append(org, turn);
    EXPECT_TRUE(is_logged("turn_not_kept")) << log.text();
    EXPECT_TRUE(is_logged(to_text("ses", turn.session.value))) << log.text();
}

TEST_F(LedgerClientTest, a_turn_that_the_session_refuses_is_not_lost_without_a_line) {
    core::AppendReply reply;
    reply.status = core::AppendStatus::session_closed;
    books.say(engine::SubmitResult(engine::CommandResult{.reply = std::move(reply)}));
    ledger.append(org, {});

    EXPECT_TRUE(is_logged("turn_not_kept")) << log.text();
    EXPECT_TRUE(is_logged("session_closed")) << log.text();
    EXPECT_FALSE(is_logged("hold_not_settled"));
}

TEST_F(LedgerClientTest, a_command_that_was_not_taken_is_sent_again) {
    books.say(engine::SubmitResult(fail(engine::SubmitError::busy)));
    ledger.settle(org, hold, {.cost = Money::nanos(5)});
    EXPECT_TRUE(books.settled().empty());
    books.say(std::nullopt);
    ledger.close();

    ASSERT_FALSE(books.settled().empty());
    EXPECT_EQ(books.settled().front().cost, Money::nanos(5));
}

TEST_F(LedgerClientTest, what_succeeds_is_not_logged) {
    ledger.append(org, {});

    EXPECT_EQ(log.text(), "");
}

}  // namespace
}  // namespace interlock::gateway
