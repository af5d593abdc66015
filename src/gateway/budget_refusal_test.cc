#include "gateway/budget_refusal.h"

#include <gtest/gtest.h>

namespace interlock::gateway {
namespace {

std::string message_for(std::string budget, Reader reader) {
    core::ReserveReply reply;
    reply.status = core::ReserveStatus::budget_exceeded;
    reply.budget.emplace();
    reply.budget->budget = std::move(budget);
    reply.budget->window_end = far_future;
    return call_refusal(reply, {}, {}, reader).message;
}

TEST(BudgetRefusalTest, a_budget_whose_name_begins_like_a_runs_id_is_a_budget) {
    EXPECT_NE(message_for("run_costs", Reader::operator_).find("interlock budgets limit run_costs AMOUNT"),
              std::string::npos);
    EXPECT_NE(message_for("run_costs", Reader::agent).find("A person can raise it."), std::string::npos);
    const std::string run = to_text("run", Id{1, 2});
    EXPECT_NE(message_for(run, Reader::operator_).find("It is the run's own ceiling"), std::string::npos);
}

TEST(BudgetRefusalTest, each_outcome_of_the_core_has_a_code_of_the_same_name) {
    for (const auto status :
         {core::ReserveStatus::invalid_request, core::ReserveStatus::hold_exists, core::ReserveStatus::agent_not_found,
          core::ReserveStatus::agent_paused, core::ReserveStatus::session_not_found, core::ReserveStatus::run_not_found,
          core::ReserveStatus::stale_fence, core::ReserveStatus::run_ended, core::ReserveStatus::too_many,
          core::ReserveStatus::amount_too_large, core::ReserveStatus::budget_exceeded,
          core::ReserveStatus::concurrency_limit}) {
        core::ReserveReply reply;
        reply.status = status;
        core::Attribution who;
        who.agent = "ada";
        EXPECT_STREQ(to_text(call_refusal(reply, who, {}, Reader::agent).code),
                     boost::describe::enum_to_string(status, ""));
    }
}

}  // namespace
}  // namespace interlock::gateway
