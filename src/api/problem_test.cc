#include "api/problem.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace interlock::api {
namespace {

TEST(ProblemTest, every_outcome_of_the_rules_is_a_known_success_or_a_refusal_with_a_status) {
    const std::set<std::string> successes{"created",   "already_there", "done",     "unchanged", "charged",
                                          "corrected", "held",          "appended", "admitted",  "stop_requested",
                                          "woken",     "coalesced",     "queued",   "recorded"};
    std::set<std::string> seen;
    boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, core::Reply::Kinds>>([&](auto kind) {
        using Reply = typename decltype(kind)::type;
        if constexpr (requires(Reply reply) { reply.status; }) {
            boost::mp11::mp_for_each<boost::describe::describe_enumerators<decltype(Reply::status)>>([&](auto outcome) {
                const auto problem = problem_of_outcome(outcome.name, "because");
                EXPECT_EQ(!problem, successes.contains(outcome.name)) << outcome.name;
                if (problem) EXPECT_GE(problem->status, 400) << outcome.name;
                seen.insert(outcome.name);
            });
        }
    });

    EXPECT_GT(seen.size(), 40u);
}

TEST(ProblemTest, a_full_budget_says_everything_a_client_needs_to_decide) {
    core::ChargeReply reply;
    reply.status = core::ChargeStatus::budget_exceeded;
    reply.detail = "no";
    reply.budget = core::BudgetRefusal{.budget = "daily",
                                       .limit_units = 10'000'000'000,
                                       .settled = 9'000'000'000,
                                       .held = 500'000'000,
                                       .requested = 750'000'000,
                                       .free = 500'000'000,
                                       .open_holds = 2,
                                       .window_end = from_micros(1'000'000),
                                       .frozen = {}};

    const json::value body = json::parse(to_text(*refusal_of(reply), "req_1"));

    EXPECT_EQ(body.at("status"), 402);
    EXPECT_EQ(body.at("code"), "budget_exceeded");
    EXPECT_EQ(body.at("limit"), "10.00");
    EXPECT_EQ(body.at("settled"), "9.00");
    EXPECT_EQ(body.at("held"), "0.50");
    EXPECT_EQ(body.at("requested"), "0.75");
    EXPECT_EQ(body.at("free"), "0.50");
    EXPECT_EQ(body.at("open_holds"), 2);
    EXPECT_EQ(body.at("window_end"), "1970-01-01T00:00:01Z");
    EXPECT_EQ(body.at("request_id"), "req_1");
}

TEST(ProblemTest, whoever_may_simply_try_again_is_told_when_and_whoever_must_ask_by_key_is_not) {
    struct Expected {
        engine::SubmitError error;
        int status;
        const char* code;
        const char* retry_after;
    };
    using enum engine::SubmitError;
    for (const Expected& expected :
         {Expected{busy, 503, "busy", "1"}, Expected{too_late, 503, "busy", "1"},
          Expected{key_reused, 422, "key_reused", ""}, Expected{not_committed, 503, "not_committed", "1"},
          Expected{outcome_unknown, 503, "outcome_unknown", ""}, Expected{unavailable, 503, "unavailable", "1"}}) {
        const net::Response response = to_response(problem_of(expected.error), "req_1");

        EXPECT_EQ(response.status, expected.status) << expected.code;
        EXPECT_EQ(json::parse(response.body).at("code"), expected.code);
        EXPECT_EQ(net::find_header(response.headers, "retry-after"), expected.retry_after) << expected.code;
    }
}

TEST(ProblemTest, amounts_of_a_budget_are_dollars_or_counts_and_nothing_else) {
    using core::Metric;
    EXPECT_EQ(amount_from_text(Metric::usd, "1.5"), 1'500'000'000);
    EXPECT_EQ(amount_from_text(Metric::tokens, "1000"), 1000);
    EXPECT_EQ(amount_from_text(Metric::tokens, "1.5"), std::nullopt);
    EXPECT_EQ(amount_from_text(Metric::tokens, ""), std::nullopt);
    EXPECT_EQ(amount_from_text(Metric::usd, "ten"), std::nullopt);
    EXPECT_EQ(amount_text(Metric::runs, 7), "7");
}

}  // namespace
}  // namespace interlock::api
