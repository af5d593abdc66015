// What the tests of money have in common: an agent "ada", and commands of which a test says only what matters to it.
#pragma once

#include <functional>

#include "core/core_test_support.h"

namespace interlock::core {

class MoneyTest : public CoreTest {
 protected:
    MoneyTest() { make_agent("ada"); }

    static constexpr Money cents(std::int64_t count) { return Money::nanos(count * 10'000'000); }
    static constexpr std::int64_t nanos(std::int64_t count_of_cents) { return cents(count_of_cents).nanos(); }

    // Changes the command that a helper would send, before it is sent.
    template <class Body>
    using Change = std::function<void(Body&)>;

    // A hard budget of the whole org in cents, by the UTC day.
    BudgetReply put_budget(const std::string& name, Money limit, const Change<PutBudget>& change = {}) {
        PutBudget body;
        body.name = name;
        body.window = WindowKind::day;
        body.limit_units = limit.nanos();
        if (change) change(body);
        return apply(body);
    }
    void make_budget(const std::string& name, Money limit, const Change<PutBudget>& change = {}) {
        const auto reply = put_budget(name, limit, change);
        EXPECT_EQ(reply.status, BudgetStatus::done) << reply.detail;
    }
    // Its window of this moment; a row with nothing in it where there is none.
    Window window(const std::string& budget) { return window_at_time(budget, now); }
    Window window_at_time(const std::string& name, Instant when) {
        const Budget budget = get<Budget>(name);
        const WindowSpan span = window_at(budget.window, *find_zone(budget.zone), when);
        return find<Window>({name, span.start}).value_or(Window{});
    }

    Charge charge_of(Money cost) {
        Charge body;
        body.who.agent = "ada";
        body.cost = cost;
        return body;
    }
    ChargeReply charge(Money cost, const Change<Charge>& change = {}) {
        Charge body = charge_of(cost);
        if (change) change(body);
        return apply(body);
    }

    ReserveReply reserve(Money bound, const Change<Reserve>& change = {}) {
        Reserve body;
        body.hold = fresh_hold();
        body.who.agent = "ada";
        body.bound.usd = bound.nanos();
        if (change) change(body);
        return apply(body);
    }
    HoldId hold(Money bound, const Change<Reserve>& change = {}) {
        const auto reply = reserve(bound, change);
        EXPECT_EQ(reply.status, ReserveStatus::held) << reply.detail;
        return reply.hold;
    }
    SettleReply settle(HoldId id, Money cost, const Change<SettleHold>& change = {}) {
        SettleHold body;
        body.hold = id;
        body.cost = cost;
        if (change) change(body);
        return apply(body);
    }
    HoldReply release(HoldId id) { return apply(ReleaseHold{id}); }
    HoldReply extend(HoldId id, std::int64_t ttl_s, bool dispatched = false) {
        return apply(ExtendHold{id, ttl_s, dispatched});
    }

    AdmitReply admit(const Change<AdmitRun>& change = {}) {
        AdmitRun body;
        body.run = fresh_run();
        body.who.agent = "ada";
        body.lease_s = 24 * 3600;
        if (change) change(body);
        return apply(body);
    }
    // A live run with so much set aside for it.
    AdmitReply admit_with(Money own_hold, const Change<AdmitRun>& change = {}) {
        const auto reply = admit([&](AdmitRun& body) {
            body.hold.usd = own_hold.nanos();
            if (change) change(body);
        });
        EXPECT_EQ(reply.status, AdmitStatus::admitted) << reply.detail;
        return reply;
    }
    RunReply finish(const AdmitReply& run) {
        FinishRun body;
        body.run = run.run;
        body.fence = run.fence;
        return apply(body);
    }
    // On the account of a run.
    static auto of_run(RunId run) {
        return [run](auto& body) { body.who.run = run; };
    }

    RunReply lose(const AdmitReply& run) { return apply(LoseRun{run.run, run.fence, "seen dead"}); }

    // The newest cost event.
    CostEvent last_event() {
        CostEvent last;
        for (const auto& [key, event] : rows().of<CostEvent>()) {
            if (event.seq > last.seq) last = event;
        }
        return last;
    }

    static Instant utc_time(std::string_view text) {
        const auto found = from_iso8601(text);
        EXPECT_TRUE(found.has_value()) << text;
        return found.value_or(far_past);
    }
};

}  // namespace interlock::core
