// The life of a call: from state to state, and what becomes of its hold when it is dropped on the way.
#include "gateway/gateway_call.h"

#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "gateway/call_request_test_support.h"
#include "gateway/fake_ledger.h"
#include "net/http_test_support.h"

namespace interlock::gateway {
namespace {

constexpr std::string_view hello_body =
    R"({"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hello"}]})";

ModelPrice some_price() {
    return {.provider = "openai",
            .model = "m",
            .version = "1",
            .tiers = {{0, {.input = 1'000'000, .output = 2'000'000}}},
            .input_max = 100'000,
            .output_max = 8'000};
}

class GatewayCallTest : public testing::Test {
 protected:
    GatewayCallTest() {
        Upstream upstream;
        upstream.name = "main";
        upstream.provider = "openai";
        config = std::make_shared<Config>(Config{{upstream}, {}, PriceBook({some_price()}), {}, {}});
    }
    ~GatewayCallTest() override { ledger.close(); }

    // Admitted, and not bounded yet.
    std::unique_ptr<GatewayCall> asked(const ModelRoute& route = chat_route()) {
        auto call = std::make_unique<GatewayCall>(shared, net::Request{}, route);
        AskedCall& admitted = call->admit();
        admitted.caller.org = core::OrgId(1);
        admitted.config = config;
        admitted.request = call_request_of(chat_route(), hello_body);
        return call;
    }
    std::optional<CallRefusal> hold(GatewayCall& call) {
        std::optional<CallRefusal> refused;
        boost::asio::io_context context{1};
        boost::asio::co_spawn(context, holding(call, refused), boost::asio::detached);
        context.run();
        return refused;
    }
    net::Task<void> holding(GatewayCall& call, std::optional<CallRefusal>& refused) {
        refused = co_await call.hold(config->upstreams.front());
    }
    std::unique_ptr<GatewayCall> held() {
        auto call = asked();
        EXPECT_FALSE(hold(*call));
        return call;
    }
    std::unique_ptr<GatewayCall> sent() {
        auto call = held();
        call->send();
        return call;
    }

    net::TestLog log;
    FakeLedger books;
    BudgetWaitQueue budget_waits;
    LedgerClient ledger{books.options(), budget_waits, log.log()};
    PrefixTokenCache prefix_tokens;
    UpstreamSelector selector;
    RateLimits rates;
    ResponseCache cache;
    net::WorkerPool bodies{{.threads = 1}};
    std::vector<core::ModelCall> ended;
    Shared shared{ledger,
                  budget_waits,
                  prefix_tokens,
                  selector,
                  rates,
                  cache,
                  [] { return from_micros(1'000'000); },
                  [this] { return books.fresh_id(); },
                  [this](const EndedCall& call) { ended.push_back(call.row); },
                  bodies};
    std::shared_ptr<Config> config;
};

Metered report(std::int64_t input, std::int64_t output) {
    Metered metered;
    metered.usage = {.input_tokens = input, .output_tokens = output};
    metered.prompt_tokens = input;
    metered.input_reported = metered.reported = true;
    return metered;
}

TEST_F(GatewayCallTest, a_call_that_is_dropped_before_it_is_held_leaves_nothing) {
    asked().reset();
    books.say(engine::SubmitResult(fail(engine::SubmitError::not_committed)));
    auto bounded = asked();
    EXPECT_TRUE(hold(*bounded));
    EXPECT_EQ(bounded->state(), CallState::bounded);
    bounded.reset();

    EXPECT_EQ(books.open(), 0u);
    EXPECT_TRUE(books.settled().empty());
    EXPECT_EQ(ended.size(), 2u) << "each of them is recorded";
    EXPECT_EQ(shared.under_way, 0);
}

TEST_F(GatewayCallTest, a_call_that_is_dropped_while_it_is_held_or_sent_is_settled_at_its_bound) {
    for (const bool is_sent : {false, true}) {
        auto call = is_sent ? sent() : held();
        EXPECT_EQ(call->state(), is_sent ? CallState::sent : CallState::held);
        const std::int64_t bound = call->attempt().held.bound.usd;
        EXPECT_GT(bound, 0);
        EXPECT_EQ(books.open(), 1u) << "the books see a hold that is open";
        call.reset();

        EXPECT_EQ(books.open(), 0u);
        ASSERT_FALSE(books.settled().empty());
        EXPECT_EQ(books.settled().back().cost, Money::nanos(bound));
        EXPECT_TRUE(books.settled().back().estimated);
        EXPECT_EQ(ended.back().cost, bound);
        EXPECT_EQ(ended.back().detail, "cut off");
    }
}

TEST_F(GatewayCallTest, a_call_that_has_ended_is_settled_and_recorded_once) {
    auto call = sent();
    call->settle(report(20, 10));
    call->finish(200, "stop");
    EXPECT_EQ(call->state(), CallState::ended);
    call->settle_at_bound({});
    call->release();
    call->finish(500, "again");
    call.reset();

    EXPECT_EQ(books.open(), 0u);
    ASSERT_EQ(books.settled().size(), 1u);
    EXPECT_FALSE(books.settled().front().estimated);
    EXPECT_EQ(books.released(), 0u);
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended.front().status, 200);
}

TEST_F(GatewayCallTest, each_attempt_has_a_hold_of_its_own) {
    auto call = sent();
    call->settle_at_bound({});
    EXPECT_FALSE(hold(*call));
    EXPECT_EQ(call->state(), CallState::held);
    call->send();
    call->settle(report(20, 10));

    ASSERT_EQ(books.settled().size(), 2u);
    EXPECT_NE(books.settled()[0].hold, books.settled()[1].hold);
    EXPECT_EQ(call->row().cost, books.settled()[0].cost.nanos() + books.settled()[1].cost.nanos());
}

TEST_F(GatewayCallTest, a_release_charges_nothing) {
    auto call = held();
    call->release();
    call.reset();

    EXPECT_EQ(books.open(), 0u);
    EXPECT_EQ(books.released(), 1u);
    EXPECT_TRUE(books.settled().empty());
}

TEST_F(GatewayCallTest, what_is_free_of_cost_is_sent_without_a_hold) {
    auto call = asked({.operation = Operation::models, .target = "/v1/models"});
    call->go_to(config->upstreams.front());
    call->send();
    call->send();  // Another attempt.
    call->finish(200, "");

    EXPECT_EQ(books.open(), 0u);
    EXPECT_TRUE(books.settled().empty());
}

using GatewayCallDeathTest = GatewayCallTest;

TEST_F(GatewayCallDeathTest, nothing_is_sent_without_a_hold) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";  // There are threads when it forks.
    EXPECT_DEATH(asked()->send(), "invariant \\(1\\)");
    EXPECT_DEATH(
        {
            auto call = held();
            call->release();
            call->send();
        },
        "invariant \\(1\\)");
}

TEST(CallState, no_state_follows_the_end_and_none_is_held_that_is_not_bounded) {
    using enum CallState;
    for (const CallState to : {asked, bounded, held, sent, ended}) EXPECT_FALSE(can_follow(ended, to));
    for (const CallState from : {asked, held, sent}) EXPECT_FALSE(can_follow(from, held));
    EXPECT_TRUE(can_follow(bounded, held));
    EXPECT_FALSE(can_follow(bounded, sent)) << "what is bounded is held before it is sent";
    EXPECT_TRUE(can_follow(sent, bounded)) << "the next attempt";
}

// ---- the hold alone -------------------------------------------------------------------------------------------------

using HoldTest = GatewayCallTest;

TEST_F(HoldTest, a_hold_that_is_moved_has_one_end) {
    const auto given = [&] {
        core::Reserve reserve;
        reserve.hold = core::HoldId(books.fresh_id());
        const core::HoldId id = reserve.hold;
        boost::asio::io_context context{1};
        boost::asio::co_spawn(context, ledger.submit(core::OrgId(1), std::move(reserve)), boost::asio::detached);
        context.run();
        return OpenHold(ledger, core::OrgId(1), id, 60, {.held = Money::nanos(5)});
    };
    {
        OpenHold first = given();
        OpenHold second = std::move(first);
        EXPECT_FALSE(first.is_open());
        EXPECT_EQ(books.open(), 1u);
        second = given();  // The one that it had is settled.
        EXPECT_EQ(books.settled().size(), 1u);
        EXPECT_EQ(books.open(), 1u);
    }
    EXPECT_EQ(books.open(), 0u);
    ASSERT_EQ(books.settled().size(), 2u);
    EXPECT_TRUE(books.settled().back().estimated);
}

}  // namespace
}  // namespace interlock::gateway
