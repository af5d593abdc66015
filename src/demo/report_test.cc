#include "demo/report.h"

#include <gtest/gtest.h>

#include "engine/embedded.h"
#include "store/temporary_directory.h"

namespace interlock::demo {
namespace {

// A small store, and the books of agents who were told the truth about it.
class DemoReport : public testing::Test {
 protected:
    DemoReport() {
        auto opened = engine::Embedded::open({.directory = directory.path(), .engine = {}});
        EXPECT_TRUE(opened);
        interlock = std::move(*opened);
        tell(core::PutAgent{.name = agent_name(1), .command = {}, .max_concurrent_runs = 10, .tags = {}});
        core::PutBudget budget;
        budget.name = budget_name;
        budget.window = WindowKind::total;
        budget.limit_units = budget_limit.nanos();
        tell(budget);
        session = core::SessionId(interlock->fresh_id());
        tell(core::CreateSession{.session = session, .agent = {}, .title = {}, .metadata = {}});
        books.places = {{.name = "api"}, {.name = "web", .other_name = "www"}};
        for (int turn = 1; turn <= 3; ++turn) do_something(turn);
        kill = {.left_behind = {},
                .acknowledged = 9,
                .remembered = 9,
                .asked_again = 9,
                .found = 9,
                .lost = {},
                .in_flight = 2,
                .had_been_done = 1,
                .done_later = 1};
    }

    void do_something(int turn) {
        core::Charge charge;
        charge.who.agent = agent_name(1);
        charge.cost = *money_from_text("0.000000123");
        tell(charge);
        books.spent += charge.cost.nanos();
        books.calls_paid += 1;

        const DemoMessage said{.agent = 1, .turn = turn, .part = 0};
        core::NewMessage message;
        message.id = core::MessageId(interlock->fresh_id());
        message.role = "user";
        message.content = said.text();
        tell(core::Append{.session = session, .messages = {message}, .expected_seq = {}, .run = {}, .fence = {}});
        books.messages.push_back(said);
        books.messages_told += 1;

        core::AdmitRun admit;
        admit.run = core::RunId(interlock->fresh_id());
        admit.who.agent = agent_name(1);
        const auto admitted = std::get<core::AdmitReply>(tell(admit));
        tell(core::FinishRun{.run = admit.run, .fence = admitted.fence, .reason = {}, .charge = {}});
        books.places[0].runs += 1;
    }

    core::Reply tell(core::CommandBody body) {
        const auto answer = interlock->ask({.org = {}, .key = {}, .body = std::move(body)});
        EXPECT_TRUE(answer);
        return answer->reply;
    }

    std::vector<Check> checks() {
        auto snapshot = interlock->store().snapshot();
        EXPECT_TRUE(snapshot);
        auto looked = outside_checks(**snapshot, books, kill);
        EXPECT_TRUE(looked);
        return *looked;
    }
    // The names of the checks that do not hold.
    std::string broken() {
        std::string names;
        for (const Check& check : checks()) names += check.holds ? "" : "[" + check.about + "]";
        return names;
    }
    std::string text() {
        const cli::CliOutput plain;
        return to_text(checks(), plain, 0);
    }

    store::TemporaryDirectory directory;
    std::unique_ptr<engine::Embedded> interlock;
    core::SessionId session;
    DemoBooks books;
    std::optional<KillTally> kill;
};

TEST_F(DemoReport, books_that_agree_with_the_rows_hold) {
    EXPECT_EQ(broken(), "");

    EXPECT_NE(text().find("$10.00 limit, $0.000000369 spent in 3 calls, never above."), std::string::npos) << text();
    EXPECT_NE(text().find("messages 0 to 2 without a gap"), std::string::npos) << text();
    EXPECT_NE(text().find("9 of 9 were there with their first answer"), std::string::npos) << text();
}

TEST_F(DemoReport, a_nano_dollar_that_nobody_was_told_of_is_seen) {
    books.spent -= 1;

    EXPECT_EQ(broken(), "[budget]");
}

TEST_F(DemoReport, a_call_too_many_is_seen) {
    books.calls_paid += 1;

    EXPECT_EQ(broken(), "[budget]");
}

TEST_F(DemoReport, spending_above_the_limit_is_seen) {
    core::Charge charge;
    charge.who.agent = agent_name(1);
    charge.cost = budget_limit;
    charge.incurred = true;
    tell(charge);
    books.spent += charge.cost.nanos();
    books.calls_paid += 1;

    EXPECT_EQ(broken(), "[budget]");
    EXPECT_NE(text().find("ABOVE THE LIMIT"), std::string::npos) << text();
}

TEST_F(DemoReport, money_that_is_held_for_nobody_is_seen) {
    core::Reserve reserve;
    reserve.hold = core::HoldId(interlock->fresh_id());
    reserve.who.agent = agent_name(1);
    reserve.bound.usd = 5;
    tell(reserve);

    EXPECT_EQ(broken(), "[budget]");
}

TEST_F(DemoReport, a_message_at_another_number_than_its_agent_was_told_is_seen) {
    std::swap(books.messages[0], books.messages[1]);

    EXPECT_EQ(broken(), "[session]");
}

TEST_F(DemoReport, a_message_that_was_acknowledged_and_is_not_there_is_seen) {
    books.messages.push_back({.agent = 1, .turn = 4, .part = 0});
    books.messages_told += 1;

    EXPECT_EQ(broken(), "[session]");
}

TEST_F(DemoReport, two_in_one_directory_are_seen) {
    books.collisions = 1;

    EXPECT_EQ(broken(), "[directories]");
}

TEST_F(DemoReport, a_run_that_nobody_was_told_of_is_seen) {
    books.places[0].runs -= 1;

    EXPECT_EQ(broken(), "[directories]");
}

TEST_F(DemoReport, a_run_that_did_not_end_is_seen) {
    core::AdmitRun admit;
    admit.run = core::RunId(interlock->fresh_id());
    admit.who.agent = agent_name(1);
    tell(admit);
    books.places[0].runs += 1;

    EXPECT_EQ(broken(), "[directories]");
}

TEST_F(DemoReport, an_acknowledged_command_that_is_not_known_any_more_is_seen) {
    kill->found = 8;

    EXPECT_EQ(broken(), "[kill -9]");
}

TEST_F(DemoReport, a_promise_broken_in_the_files_of_the_killed_process_is_seen) {
    kill->left_behind = "1 violation of P4 one order";

    EXPECT_EQ(broken(), "[kill -9]");
}

TEST_F(DemoReport, an_acknowledged_command_that_was_not_asked_again_is_seen) {
    kill->asked_again = kill->found = 8;

    EXPECT_EQ(broken(), "[kill -9]");
}

TEST_F(DemoReport, having_asked_nothing_again_is_no_reason_to_be_content) {
    kill->remembered = kill->asked_again = kill->found = 0;

    EXPECT_EQ(broken(), "[kill -9]");
}

TEST_F(DemoReport, a_command_in_flight_that_was_never_answered_is_seen) {
    kill->done_later = 0;

    EXPECT_EQ(broken(), "[kill -9]");
}

TEST_F(DemoReport, an_answer_that_nothing_explains_is_seen) {
    books.odd = {"a charge was refused: stale_fence"};

    EXPECT_EQ(broken(), "[answers]");
}

}  // namespace
}  // namespace interlock::demo
