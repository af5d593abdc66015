// Long random lives of an org's money. Nothing is expected of a single command here but what the fixture expects of
// all: the counters are the sums, limits are kept or the overage is written down, and a refusal changes nothing.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "core/money_test_support.h"

namespace interlock::core {
namespace {

using namespace std::chrono_literals;

class MoneyWalkTest : public MoneyTest {
 protected:
    void walk(std::uint64_t seed, int steps) {
        random_.seed(seed);
        make_agent("bob");
        sessions_ = {SessionId(), make_session("ada"), make_session("bob")};
        for (int i = 0; i < steps && !HasFailure(); ++i) step();
    }

    int refusals = 0;
    int overages = 0;
    int frozen = 0;
    int estimates = 0;

 private:
    std::uint64_t below(std::uint64_t count) { return random_() % count; }
    bool one_in(std::uint64_t count) { return below(count) == 0; }
    Money amount() { return Money::nanos(static_cast<std::int64_t>(below(one_in(4) ? nanos(60) : nanos(12)))); }
    template <class T>
    T any(const std::vector<T>& from) {
        return from.empty() ? T{} : from[below(from.size())];
    }

    Attribution somebody() {
        Attribution who;
        who.agent = one_in(3) ? "bob" : "ada";
        who.provider = one_in(2) ? "acme-ai" : "";
        who.model = one_in(2) ? "m1" : "m2";
        if (one_in(3)) who.tags["team"] = one_in(2) ? "red" : "blue";
        who.session = any(sessions_);
        if (!runs_.empty() && one_in(2)) {
            who.run = any(runs_).run;
            who.agent.clear();  // Whosever run it is.
        }
        return who;
    }

    void put_some_budget() {
        // The name says the shape, so that the same name always has the same.
        const std::uint64_t shape = below(24);
        PutBudget body;
        body.name = "b" + std::to_string(shape);
        body.metric = static_cast<Metric>(shape % 4);
        const std::uint64_t scope = shape / 4;
        if (scope == 1) body.scope.agent = "ada";
        if (scope == 2) body.scope.model = "m1";
        if (scope == 3) body.scope.tags["team"] = "red";
        if (scope == 4) body.scope.session = sessions_[1];
        body.window = scope == 5 ? WindowKind::total : WindowKind::day;
        body.zone = scope == 2 ? "America/New_York" : "UTC";
        const std::uint64_t most_units[] = {nanos(300), 3000, 60, 12};
        body.limit_units = static_cast<std::int64_t>(below(most_units[shape % 4]));
        body.hard = !one_in(4);
        if (one_in(2)) body.warn = {50, 100};
        body.on_exhausted = one_in(2) ? OnExhausted::refuse : static_cast<OnExhausted>(below(3));
        apply(body);
    }

    void step() {
        batching = one_in(3);
        switch (below(20)) {
            case 0:
                put_some_budget();
                break;
            case 1:
                apply(DeleteBudget{"b" + std::to_string(below(24))});
                break;
            case 2:
                for (const auto& [name, budget] : rows().of<Budget>()) {
                    frozen += budget.frozen.empty() ? 0 : 1;
                    if (!budget.frozen.empty()) apply(UnfreezeBudget{name});
                }
                break;
            case 3:
                apply(ResumeAgent{"ada"});
                apply(ResumeAgent{"bob"});
                break;
            case 4:
                advance(std::chrono::seconds(below(one_in(5) ? 90'000 : 900)));
                break;
            case 5:
                commit();
                reload();
                break;
            case 6: {
                const auto run = admit([&](AdmitRun& body) {
                    body.who = somebody();
                    body.who.run = {};
                    if (body.who.agent.empty()) body.who.agent = "ada";
                    body.metered = one_in(2);
                    body.lease_s = static_cast<std::int32_t>(1 + below(20'000));
                    if (!one_in(3)) body.hold = {amount().nanos(), static_cast<std::int64_t>(below(300)), 2, 0};
                });
                if (run.status == AdmitStatus::admitted) runs_.push_back(run);
                break;
            }
            case 7: {
                if (runs_.empty()) break;
                FinishRun body;
                body.run = any(runs_).run;
                body.fence = get<Run>(body.run).fence;
                if (one_in(2))
                    body.charge =
                        FinalCharge{.provider = "acme-ai", .model = {}, .cost = amount(), .usage = {}, .price = {}};
                apply(body);
                break;
            }
            case 8:
                if (!runs_.empty()) apply(LoseRun{any(runs_).run, any(runs_).fence, "gone"});
                break;
            case 9:
            case 10:
            case 11:
            case 12: {
                const auto reply = reserve(amount(), [&](Reserve& body) {
                    body.who = somebody();
                    body.bound.tokens = static_cast<std::int64_t>(below(200));
                    body.bound.calls = static_cast<std::int64_t>(below(3));
                    body.ttl_s = static_cast<std::int64_t>(1 + below(3000));
                    body.dispatched = one_in(2);
                });
                refusals += reply.status == ReserveStatus::held ? 0 : 1;
                if (reply.status == ReserveStatus::held) holds_.push_back(reply.hold);
                break;
            }
            case 13:
                extend(any(holds_), static_cast<std::int64_t>(1 + below(3000)), one_in(2));
                break;
            case 14:
                release(any(holds_));
                break;
            case 15:
            case 16: {
                const auto reply = settle(any(holds_), amount(), [&](SettleHold& body) {
                    body.usage.output_tokens = static_cast<std::int64_t>(below(200));
                    body.calls = static_cast<std::int64_t>(below(3));
                });
                overages += reply.overage.positive() ? 1 : 0;
                break;
            }
            default: {
                const auto reply = charge(amount(), [&](Charge& body) {
                    body.who = somebody();
                    body.usage.input_tokens = static_cast<std::int64_t>(below(200));
                    body.calls = static_cast<std::int64_t>(below(3));
                    body.incurred = one_in(6);
                });
                refusals += reply.status == ChargeStatus::charged ? 0 : 1;
                overages += reply.overage.positive() ? 1 : 0;
                break;
            }
        }
        if (last_event().estimated) ++estimates;
    }

    std::mt19937_64 random_;
    std::vector<SessionId> sessions_;
    std::vector<AdmitReply> runs_;
    std::vector<HoldId> holds_;
};

class MoneyWalk : public MoneyWalkTest, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(MoneyWalk, no_command_in_a_long_life_leaves_a_counter_wrong) {
    walk(GetParam(), 300);

    EXPECT_FALSE(HasFailure()) << "seed " << GetParam();
    EXPECT_GT(refusals, 10);
    EXPECT_GT(overages + frozen, 2);
    EXPECT_GT(estimates, 0) << "the walk went through what is interesting";
}

INSTANTIATE_TEST_SUITE_P(Seeds, MoneyWalk, testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace interlock::core
