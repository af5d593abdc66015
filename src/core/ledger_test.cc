#include "core/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/limits.h"
#include "core/money_test_support.h"

namespace interlock::core {
namespace {

using namespace std::chrono_literals;

class LedgerTest : public MoneyTest {
 protected:
    static constexpr std::int64_t most = INT64_MAX;

    // An agent that has spent all but so many nano-dollars of what its counter can count.
    void spend_nearly_everything(const std::string& agent, std::int64_t left) {
        const auto reply = charge(Money::nanos(most - left), [&](Charge& body) { body.who.agent = agent; });
        EXPECT_EQ(reply.status, ChargeStatus::charged) << reply.detail;
    }
    RunReply lose(const AdmitReply& run) { return apply(LoseRun{run.run, run.fence, "seen dead"}); }
};

// ---- what a charge writes -----------------------------------------------------------------------------------------

TEST_F(LedgerTest, twenty_reports_in_one_batch_add_up_to_the_last_digit_in_every_counter) {
    const SessionId session = make_session("ada");
    const AdmitReply run = admit();
    make_budget("month", Money::dollars(1), [](PutBudget& body) { body.window = WindowKind::month; });
    batching = true;

    for (int i = 0; i < 20; ++i) {
        const auto reply = charge(Money::nanos(750'000), [&](Charge& body) {
            body.who.run = run.run;
            body.who.session = session;
            body.who.provider = "acme-ai";
            body.who.model = "m1";
            body.usage = {1, 2, 3, 4, 5, 6};
            body.calls = 2;
        });
        EXPECT_EQ(reply.status, ChargeStatus::charged) << reply.detail;
    }

    EXPECT_EQ(to_text(Money::nanos(get<AgentTotals>("ada").settled)), "0.015");
    EXPECT_EQ(get<AgentTotals>("ada").tokens, 20 * 21);
    EXPECT_EQ(get<AgentTotals>("ada").events, 20);
    EXPECT_EQ(get<AgentTotals>("ada").last_event_at, now);
    EXPECT_EQ(window("month").settled, 15'000'000);
    EXPECT_EQ(get<Run>(run.run).settled, 15'000'000);
    EXPECT_EQ(get<Run>(run.run).tokens, 20 * 21);
    EXPECT_EQ(get<Run>(run.run).events, 20);
    EXPECT_EQ(get<Session>(session).settled, 15'000'000);
    EXPECT_EQ(get<Session>(session).events, 20);
    const Rollup day = get<Rollup>({utc_day(now), "ada", "acme-ai", "m1"});
    EXPECT_EQ(day.cost, 15'000'000);
    EXPECT_EQ(day.events, 20);
    EXPECT_EQ(day.calls, 40);
    EXPECT_EQ(day.usage, (Usage{20, 40, 60, 80, 100, 120}));
}

TEST_F(LedgerTest, an_event_keeps_everything_that_was_stated) {
    make_agent("bob");
    Charge body = charge_of(cents(3));
    body.who = {.agent = "bob",
                .workflow = "nightly",
                .provider = "acme-ai",
                .model = "m1",
                .api_key = "key-1",
                .run = {},
                .session = make_session("bob"),
                .tags = {{"team", "red"}}};
    body.usage = {1, 2, 3, 4, 5, 6};
    body.calls = 7;
    body.price = "m1@4";
    body.unpriced = true;
    const CommandKey key = fresh_key();

    const auto applied = apply_with(key, body);

    const auto reply = std::get<ChargeReply>(applied.reply);
    const CostEvent event = get<CostEvent>(key);
    EXPECT_EQ(reply.status, ChargeStatus::charged);
    EXPECT_EQ(reply.cost, cents(3));
    EXPECT_EQ(reply.overage, Money());
    EXPECT_EQ(reply.seq, event.seq);
    EXPECT_EQ(event.fingerprint, fingerprint_of(body));
    EXPECT_EQ(event.at, now);
    EXPECT_EQ(event.counted_at, now);
    EXPECT_EQ(event.who, body.who);
    EXPECT_EQ(event.cost, nanos(3));
    EXPECT_EQ(event.usage, body.usage);
    EXPECT_EQ(event.calls, 7);
    EXPECT_EQ(event.price, "m1@4");
    EXPECT_TRUE(event.hold.value.empty());
    EXPECT_EQ(event.overage, 0);
    EXPECT_FALSE(event.over_limit);
    EXPECT_FALSE(event.estimated);
    EXPECT_TRUE(event.unpriced);
    const auto charged = told<Charged>();
    ASSERT_EQ(charged.size(), 1u);
    EXPECT_EQ(charged[0].key, key);
    EXPECT_EQ(charged[0].agent, "bob");
    EXPECT_EQ(charged[0].cost, nanos(3));
    EXPECT_EQ(charged[0].tokens, 21);
}

TEST_F(LedgerTest, what_a_runs_charge_does_not_state_it_has_from_the_run) {
    const SessionId session = make_session("ada");
    const AdmitReply run = admit([&](AdmitRun& body) {
        body.who = {.agent = "ada",
                    .workflow = "nightly",
                    .provider = "acme-ai",
                    .model = "m1",
                    .api_key = "key-1",
                    .run = {},
                    .session = session,
                    .tags = {{"team", "red"}, {"tier", "one"}}};
    });

    Charge body;
    body.cost = cents(1);
    body.who.run = run.run;
    body.who.model = "m2";
    body.who.tags = {{"tier", "two"}};
    EXPECT_EQ(apply(body).status, ChargeStatus::charged);

    const Attribution expected{.agent = "ada",
                               .workflow = "nightly",
                               .provider = "acme-ai",
                               .model = "m2",
                               .api_key = "key-1",
                               .run = run.run,
                               .session = session,
                               .tags = {{"team", "red"}, {"tier", "two"}}};
    EXPECT_EQ(last_event().who, expected);
    EXPECT_EQ(get<Session>(session).settled, nanos(1));

    const HoldId id = hold(cents(1), of_run(run.run));
    EXPECT_EQ(get<Hold>(id).who.workflow, "nightly");
    EXPECT_EQ(get<Hold>(id).who.session, session);
}

TEST_F(LedgerTest, a_charge_of_nothing_is_an_event_all_the_same) {
    make_budget("day", cents(1));

    EXPECT_EQ(charge(Money()).status, ChargeStatus::charged);

    EXPECT_EQ(get<AgentTotals>("ada").events, 1);
    EXPECT_EQ(window("day").settled, 0);
}

TEST_F(LedgerTest, a_charge_with_nothing_of_a_budgets_metric_leaves_that_budget_alone_in_a_new_window_too) {
    make_budget("tokens", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::tokens; });
    make_budget("calls", Money::nanos(100), [](PutBudget& body) {
        body.metric = Metric::calls;
        body.warn = {50};
    });
    advance(24h);

    EXPECT_EQ(charge(cents(1), [](Charge& body) { body.calls = 0; }).status, ChargeStatus::charged);

    EXPECT_EQ(window("tokens").settled, 0);
    EXPECT_EQ(window("calls").settled, 0);
}

// ---- refusals -----------------------------------------------------------------------------------------------------

// One command with everything wrong with it; then one thing after the other is put right. Each time the earliest reason
// that is left is the one reported.
TEST_F(LedgerTest, a_charge_is_refused_for_the_first_reason_in_the_order_of_its_status) {
    const SessionId session = make_session("ada");
    const AdmitReply ended = admit();
    EXPECT_EQ(finish(ended).status, RunStatus::done);
    const AdmitReply live = admit();
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::charged);
    make_budget("a-exceeded", cents(1));
    make_budget("b-frozen", cents(100), [](PutBudget& body) { body.metric = Metric::calls; });
    const HoldId over = hold(Money(), [](Reserve& body) { body.bound.calls = 1; });
    EXPECT_EQ(settle(over, Money(), [](SettleHold& body) { body.calls = 2; }).status, HoldStatus::done);
    ASSERT_NE(get<Budget>("b-frozen").frozen, "");

    Charge body = charge_of(Money::nanos(-1));
    body.who.agent = "nobody";
    body.who.session = fresh_session();
    body.who.run = fresh_run();
    body.fence = Fence(ended.fence.value + 1000);
    EXPECT_EQ(apply(body).status, ChargeStatus::invalid_request);
    body.cost = Money::nanos(most);
    EXPECT_EQ(apply(body).status, ChargeStatus::agent_not_found);
    body.who.agent = "ada";
    EXPECT_EQ(apply(body).status, ChargeStatus::session_not_found);
    body.who.session = session;
    EXPECT_EQ(apply(body).status, ChargeStatus::run_not_found);
    body.who.run = ended.run;
    EXPECT_EQ(apply(body).status, ChargeStatus::stale_fence);
    body.fence = ended.fence;
    EXPECT_EQ(apply(body).status, ChargeStatus::run_ended);
    body.who.run = live.run;
    body.fence = live.fence;
    EXPECT_EQ(apply(body).status, ChargeStatus::amount_too_large);
    body.cost = cents(2);
    EXPECT_EQ(apply(body).status, ChargeStatus::budget_frozen);
    EXPECT_EQ(apply(UnfreezeBudget{"b-frozen"}).status, BudgetStatus::done);
    EXPECT_EQ(apply(body).status, ChargeStatus::budget_exceeded);
    body.cost = cents(1);
    EXPECT_EQ(apply(body).status, ChargeStatus::budget_exceeded) << "a nano-dollar is spent already";
    body.cost = Money::nanos(nanos(1) - 1);
    EXPECT_EQ(apply(body).status, ChargeStatus::charged);
}

TEST_F(LedgerTest, a_hold_is_refused_for_the_first_reason_in_the_order_of_its_status) {
    const SessionId session = make_session("ada");
    const AdmitReply ended = admit();
    EXPECT_EQ(finish(ended).status, RunStatus::done);
    make_agent("idle");
    const AdmitReply live = admit([](AdmitRun& body) { body.who.agent = "idle"; });
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::charged);
    make_budget("a-exceeded", cents(1));
    make_budget("b-frozen", cents(100), [](PutBudget& body) { body.metric = Metric::calls; });
    const HoldId over = hold(Money(), [](Reserve& body) { body.bound.calls = 1; });
    EXPECT_EQ(settle(over, Money(), [](SettleHold& body) { body.calls = 2; }).status, HoldStatus::done);
    EXPECT_EQ(apply(PauseAgent{"ada", "lunch"}).status, AgentStatus::done);

    Reserve body;
    body.hold = over;
    body.bound.usd = -1;
    body.who.agent = "nobody";
    body.who.session = fresh_session();
    body.who.run = fresh_run();
    body.fence = Fence(1000);
    EXPECT_EQ(apply(body).status, ReserveStatus::invalid_request);
    body.bound.usd = most;
    EXPECT_EQ(apply(body).status, ReserveStatus::hold_exists);
    body.hold = fresh_hold();
    EXPECT_EQ(apply(body).status, ReserveStatus::agent_not_found);
    body.who.agent = "ada";
    EXPECT_EQ(apply(body).status, ReserveStatus::agent_paused);
    EXPECT_EQ(apply(ResumeAgent{"ada"}).status, AgentStatus::done);
    EXPECT_EQ(apply(body).status, ReserveStatus::session_not_found);
    body.who.session = session;
    EXPECT_EQ(apply(body).status, ReserveStatus::run_not_found);
    body.who.run = ended.run;
    EXPECT_EQ(apply(body).status, ReserveStatus::stale_fence);
    body.fence = ended.fence;
    EXPECT_EQ(apply(body).status, ReserveStatus::run_ended);
    body.who.agent = "idle";
    body.who.run = live.run;
    body.fence = live.fence;
    // too_many comes here; a test of its own fills the org up.
    EXPECT_EQ(apply(body).status, ReserveStatus::amount_too_large);
    body.bound.usd = nanos(1);
    EXPECT_EQ(apply(body).status, ReserveStatus::budget_frozen);
    EXPECT_EQ(apply(UnfreezeBudget{"b-frozen"}).status, BudgetStatus::done);
    EXPECT_EQ(apply(body).status, ReserveStatus::budget_exceeded);
    body.bound.usd = nanos(1) - 1;
    EXPECT_EQ(apply(body).status, ReserveStatus::held);
}

TEST_F(LedgerTest, an_org_has_only_so_many_open_holds) {
    make_budget("day", cents(1));
    for (std::size_t i = 0; i < limits::open_holds_per_org_max; ++i) {
        const HoldId id(Id{.high = 1, .low = i + 1});
        source.orgs[org].of<Hold>()[id] = {.id = id, .who = {.agent = "ada"}, .expires_at = far_future};
    }
    reload();
    Reserve body;
    body.hold = fresh_hold();
    body.who.agent = "ada";
    body.bound.usd = nanos(2);

    // Past the fixture, which would look through all of them each time.
    const auto too_many = machine.apply({now}, command_of(fresh_key(), body));
    machine.apply({now}, command_of(fresh_key(), ReleaseHold{HoldId(Id{.high = 1, .low = 1})}));
    const auto after_release = machine.apply({now}, command_of(fresh_key(), body));

    EXPECT_EQ(std::get<ReserveReply>(too_many.reply).status, ReserveStatus::too_many) << "before the budget is asked";
    EXPECT_EQ(std::get<ReserveReply>(after_release.reply).status, ReserveStatus::budget_exceeded);
}

TEST_F(LedgerTest, an_end_of_a_hold_is_refused_for_the_first_reason_in_the_order_of_its_status) {
    const AdmitReply run = admit_with(cents(5));
    const HoldId own = get<Run>(run.run).hold;
    const HoldId open = hold(cents(1));
    const HoldId closed = hold(cents(1));
    EXPECT_EQ(release(closed).status, HoldStatus::done);
    spend_nearly_everything("ada", 100);
    SettleHold body;
    body.cost = Money::nanos(-1);
    body.hold = fresh_hold();

    EXPECT_EQ(apply(body).status, HoldStatus::invalid_request);
    body.cost = Money::nanos(most);
    EXPECT_EQ(apply(body).status, HoldStatus::hold_not_found);
    body.hold = closed;
    EXPECT_EQ(apply(body).status, HoldStatus::hold_closed);
    body.hold = open;
    EXPECT_EQ(apply(body).status, HoldStatus::amount_too_large);
    body.hold = own;
    EXPECT_EQ(apply(body).status, HoldStatus::invalid_request) << "a run's own hold ends with the run";
    EXPECT_EQ(finish(run).status, RunStatus::done);
    EXPECT_EQ(apply(body).status, HoldStatus::invalid_request) << "also when it has ended";

    EXPECT_EQ(release(own).status, HoldStatus::invalid_request);
    EXPECT_EQ(release(fresh_hold()).status, HoldStatus::hold_not_found);
    EXPECT_EQ(release(closed).status, HoldStatus::hold_closed);

    EXPECT_EQ(extend(fresh_hold(), 0).status, HoldStatus::invalid_request);
    EXPECT_EQ(extend(fresh_hold(), limits::ttl_s_max + 1).status, HoldStatus::invalid_request);
    EXPECT_EQ(extend(fresh_hold(), 1).status, HoldStatus::hold_not_found);
    EXPECT_EQ(extend(closed, 1).status, HoldStatus::hold_closed);
    EXPECT_EQ(extend(open, limits::ttl_s_max).status, HoldStatus::done);
    EXPECT_EQ(release(open).status, HoldStatus::done);
}

TEST_F(LedgerTest, nonsense_is_an_invalid_request) {
    make_agent("bob");
    const AdmitReply run = admit();
    const std::string long_label(limits::name_bytes_max + 1, 'x');
    const std::vector<Change<Charge>> charges{
        [](Charge& body) { body.cost = Money::nanos(-1); },
        [](Charge& body) { body.calls = -1; },
        [](Charge& body) { body.usage.input_tokens = -1; },
        [](Charge& body) { body.usage.output_tokens = -1; },
        [](Charge& body) { body.usage.cache_read_tokens = -1; },
        [](Charge& body) { body.usage.cache_write_5m_tokens = -1; },
        [](Charge& body) { body.usage.cache_write_1h_tokens = -1; },
        [](Charge& body) { body.usage.reasoning_tokens = -1; },
        [](Charge& body) { body.usage.input_tokens = body.usage.reasoning_tokens = most; },
        [&](Charge& body) { body.price = long_label; },
        [&](Charge& body) { body.who.agent = long_label; },
        [&](Charge& body) { body.who.workflow = long_label; },
        [&](Charge& body) { body.who.provider = long_label; },
        [&](Charge& body) { body.who.model = "new\nline"; },
        [&](Charge& body) { body.who.api_key = long_label; },
        [&](Charge& body) { body.who.tags["not a name"] = "x"; },
        [&](Charge& body) { body.who.tags["name"] = long_label; },
        [&](Charge& body) {
            for (std::size_t i = 0; i <= limits::tags_max; ++i) body.who.tags["t" + std::to_string(i)] = "x";
        },
        [&](Charge& body) { body.who.agent = "bob", body.who.run = run.run; },
    };
    const std::vector<Change<Reserve>> holds{
        [](Reserve& body) { body.bound.usd = -1; },
        [](Reserve& body) { body.bound.tokens = -1; },
        [](Reserve& body) { body.bound.calls = -1; },
        [](Reserve& body) { body.bound.runs = 1; },
        [](Reserve& body) { body.ttl_s = 0; },
        [](Reserve& body) { body.ttl_s = limits::ttl_s_max + 1; },
        [](Reserve& body) { body.hold = {}; },
        [&](Reserve& body) { body.who.model = long_label; },
        [&](Reserve& body) { body.who.agent = "bob", body.who.run = run.run; },
    };

    for (std::size_t i = 0; i < charges.size(); ++i) {
        const auto reply = charge(cents(1), charges[i]);
        EXPECT_EQ(reply.status, ChargeStatus::invalid_request) << "charge " << i;
        EXPECT_NE(reply.detail, "") << "charge " << i;
    }
    for (std::size_t i = 0; i < holds.size(); ++i) {
        const auto reply = reserve(cents(1), holds[i]);
        EXPECT_EQ(reply.status, ReserveStatus::invalid_request) << "hold " << i;
        EXPECT_NE(reply.detail, "") << "hold " << i;
    }
}

TEST_F(LedgerTest, a_run_of_another_agent_is_noticed_before_a_hold_that_exists) {
    make_agent("bob");
    const AdmitReply run = admit();
    const HoldId there = hold(cents(1));

    const auto reply = reserve(cents(1), [&](Reserve& body) {
        body.hold = there;
        body.who.agent = "bob";
        body.who.run = run.run;
    });

    EXPECT_EQ(reply.status, ReserveStatus::invalid_request);
}

// ---- the hard ceiling ---------------------------------------------------------------------------------------------

TEST_F(LedgerTest, a_charge_fits_into_every_scope_at_once_or_is_not_made) {
    const SessionId session = make_session("ada");
    const AdmitReply run = admit();
    const auto scoped = [&](const std::string& name, const Change<Scope>& change) {
        make_budget(name, cents(10), [&](PutBudget& body) { change(body.scope); });
    };
    scoped("agent", [](Scope& scope) { scope.agent = "ada"; });
    scoped("api-key", [](Scope& scope) { scope.api_key = "key-1"; });
    scoped("model", [](Scope& scope) { scope.model = "m1"; });
    scoped("org", [](Scope&) {});
    scoped("provider", [](Scope& scope) { scope.provider = "acme-ai"; });
    scoped("run", [&](Scope& scope) { scope.run = run.run; });
    scoped("session", [&](Scope& scope) { scope.session = session; });
    scoped("tag", [](Scope& scope) { scope.tags = {{"team", "red"}}; });
    scoped("two-tags", [](Scope& scope) { scope.tags = {{"team", "red"}, {"tier", "one"}}; });
    scoped("workflow", [](Scope& scope) { scope.workflow = "nightly"; });
    const std::vector<std::string> names{"agent", "api-key", "model", "org",      "provider",
                                         "run",   "session", "tag",   "two-tags", "workflow"};
    const Change<Charge> everything = [&](Charge& body) {
        body.who = {.agent = "ada",
                    .workflow = "nightly",
                    .provider = "acme-ai",
                    .model = "m1",
                    .api_key = "key-1",
                    .run = run.run,
                    .session = session,
                    .tags = {{"team", "red"}, {"tier", "one"}, {"other", "x"}}};
    };
    EXPECT_EQ(charge(cents(9), everything).status, ChargeStatus::charged);
    for (const std::string& name : names) EXPECT_EQ(window(name).settled, nanos(9)) << name;

    // Each of them in turn is the only one with no room.
    for (const std::string& name : names) {
        for (const std::string& other : names) {
            const std::string& full = name;
            put_budget(other, cents(other == full ? 10 : 20),
                       [&](PutBudget& body) { body.scope = get<Budget>(other).scope; });
        }
        const auto reply = charge(cents(2), everything);
        EXPECT_EQ(reply.status, ChargeStatus::budget_exceeded) << name;
        ASSERT_TRUE(reply.budget.has_value());
        EXPECT_EQ(reply.budget->budget, name);
        const auto hold_reply = reserve(cents(2), [&](Reserve& body) {
            Charge charge_body;
            everything(charge_body);
            body.who = charge_body.who;
        });
        EXPECT_EQ(hold_reply.status, ReserveStatus::budget_exceeded) << name;
    }
    for (const std::string& name : names) EXPECT_EQ(window(name).settled, nanos(9)) << name;
}

TEST_F(LedgerTest, a_budget_is_not_touched_by_what_it_does_not_cover) {
    make_agent("bob");
    make_budget("bob", cents(1), [](PutBudget& body) { body.scope.agent = "bob"; });
    make_budget("both-tags", cents(1), [](PutBudget& body) { body.scope.tags = {{"team", "red"}, {"tier", "one"}}; });
    make_budget("agent-and-model", cents(1), [](PutBudget& body) {
        body.scope.agent = "ada";
        body.scope.model = "m1";
    });

    EXPECT_EQ(charge(cents(5)).status, ChargeStatus::charged);
    EXPECT_EQ(charge(cents(5), [](Charge& body) { body.who.model = "m2"; }).status, ChargeStatus::charged);
    EXPECT_EQ(charge(cents(5), [](Charge& body) { body.who.tags = {{"team", "red"}, {"tier", "two"}}; }).status,
              ChargeStatus::charged);

    EXPECT_EQ(window("bob").settled, 0);
    EXPECT_EQ(window("both-tags").settled, 0);
    EXPECT_EQ(window("agent-and-model").settled, 0);
}

TEST_F(LedgerTest, held_money_is_not_there_for_others) {
    make_budget("day", cents(10));
    const HoldId id = hold(cents(7));

    EXPECT_EQ(charge(cents(4)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(reserve(cents(4)).status, ReserveStatus::budget_exceeded);
    EXPECT_EQ(charge(cents(3)).status, ChargeStatus::charged);
    EXPECT_EQ(release(id).status, HoldStatus::done);
    EXPECT_EQ(charge(cents(7)).status, ChargeStatus::charged);
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::budget_exceeded);
}

TEST_F(LedgerTest, a_refusal_says_which_budget_how_much_is_left_and_when_it_turns) {
    make_budget("day", cents(10));
    charge(cents(2));
    hold(cents(3));
    hold(cents(1));

    const auto reply = reserve(cents(5));

    ASSERT_EQ(reply.status, ReserveStatus::budget_exceeded);
    ASSERT_TRUE(reply.budget.has_value());
    const BudgetRefusal& no = *reply.budget;
    EXPECT_EQ(no.budget, "day");
    EXPECT_EQ(no.metric, Metric::usd);
    EXPECT_EQ(no.limit_units, nanos(10));
    EXPECT_EQ(no.settled, nanos(2));
    EXPECT_EQ(no.held, nanos(4));
    EXPECT_EQ(no.requested, nanos(5));
    EXPECT_EQ(no.free, nanos(4));
    EXPECT_EQ(no.open_holds, 2);
    EXPECT_EQ(no.window_end, utc_time("2026-03-03T00:00:00Z"));
    EXPECT_EQ(no.frozen, "");
    EXPECT_EQ(reply.detail, "budget 'day' has $0.04 left of $0.10 ($0.02 spent, $0.04 held); $0.05 needed");
}

TEST_F(LedgerTest, twenty_runs_of_a_quarter_dollar_on_a_half_dollar_budget_admit_two) {
    make_budget("half", cents(50));
    batching = true;
    int admitted = 0;

    for (int i = 0; i < 20; ++i) {
        const auto reply = admit([](AdmitRun& body) { body.hold.usd = nanos(25); });
        admitted += reply.status == AdmitStatus::admitted ? 1 : 0;
        if (reply.status != AdmitStatus::admitted) EXPECT_EQ(reply.status, AdmitStatus::budget_exceeded);
    }

    EXPECT_EQ(admitted, 2);
    EXPECT_EQ(window("half").held, nanos(50));
}

// ---- holds --------------------------------------------------------------------------------------------------------

TEST_F(LedgerTest, a_hold_is_written_as_it_was_asked_for) {
    make_budget("day", cents(10));
    make_budget("tokens", Money::nanos(1000), [](PutBudget& body) { body.metric = Metric::tokens; });
    make_budget("calls", Money::nanos(1000), [](PutBudget& body) { body.metric = Metric::calls; });

    const auto reply = reserve(cents(3), [](Reserve& body) {
        body.bound.tokens = 50;
        body.ttl_s = 90;
        body.dispatched = true;
    });

    EXPECT_EQ(reply.expires_at, now + 90s);
    const Hold row = get<Hold>(reply.hold);
    EXPECT_EQ(row.bound, (Amounts{nanos(3), 50, 0, 0}));
    EXPECT_EQ(row.drawn, Amounts{});
    EXPECT_TRUE(row.dispatched);
    EXPECT_FALSE(row.for_run);
    EXPECT_EQ(row.state, HoldState::open);
    EXPECT_EQ(row.created_at, now);
    EXPECT_EQ(row.expires_at, now + 90s);
    const Instant midnight = utc_time("2026-03-02T00:00:00Z");
    EXPECT_EQ(row.parts, (std::vector<HoldPart>{{"day", midnight, nanos(3), 0}, {"tokens", midnight, 50, 0}}));
    const auto held = told<Held>();
    ASSERT_EQ(held.size(), 1u);
    EXPECT_EQ(held[0].hold, reply.hold);
    EXPECT_EQ(held[0].agent, "ada");
    EXPECT_EQ(held[0].expires_at, now + 90s);
}

TEST_F(LedgerTest, a_settle_below_the_bound_gives_the_rest_back) {
    make_budget("day", cents(10));
    const HoldId id = hold(cents(10));

    const auto reply = settle(id, cents(4), [](SettleHold& body) {
        body.usage.output_tokens = 12;
        body.calls = 3;
        body.price = "m1@2";
        body.unpriced = true;
    });

    EXPECT_EQ(reply.status, HoldStatus::done);
    EXPECT_EQ(reply.cost, cents(4));
    EXPECT_EQ(reply.overage, Money());
    EXPECT_EQ(window("day").settled, nanos(4));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(get<Hold>(id).state, HoldState::settled);
    EXPECT_EQ(get<Hold>(id).closed_at, now);
    const CostEvent event = last_event();
    EXPECT_EQ(event.hold, id);
    EXPECT_EQ(event.seq, reply.seq);
    EXPECT_EQ(event.usage.output_tokens, 12);
    EXPECT_EQ(event.calls, 3);
    EXPECT_EQ(event.price, "m1@2");
    EXPECT_TRUE(event.unpriced);
    EXPECT_FALSE(event.estimated);
    EXPECT_FALSE(event.over_limit);
    EXPECT_EQ(charge(cents(6)).status, ChargeStatus::charged);
}

TEST_F(LedgerTest, a_settle_at_the_bound_is_no_overage) {
    make_budget("day", cents(10));
    const HoldId id = hold(cents(10));

    EXPECT_EQ(settle(id, cents(10)).overage, Money());

    EXPECT_FALSE(last_event().over_limit);
    EXPECT_EQ(get<Budget>("day").frozen, "");
    EXPECT_EQ(window("day").settled, nanos(10));
}

TEST_F(LedgerTest, a_settle_above_the_bound_is_recorded_as_overage_and_freezes_what_it_hurt_until_a_person_looks) {
    make_budget("ada", cents(100), [](PutBudget& body) { body.scope.agent = "ada"; });
    make_budget("org", cents(100));
    make_budget("soft", cents(100), [](PutBudget& body) { body.hard = false; });
    make_budget("tokens", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::tokens; });
    const HoldId id = hold(cents(10), [](Reserve& body) { body.bound.tokens = 5; });

    const auto reply = settle(id, cents(13), [](SettleHold& body) { body.usage.input_tokens = 5; });

    EXPECT_EQ(reply.status, HoldStatus::done);
    EXPECT_EQ(reply.cost, cents(13));
    EXPECT_EQ(reply.overage, cents(3));
    EXPECT_TRUE(last_event().over_limit);
    EXPECT_EQ(last_event().overage, nanos(3));
    EXPECT_EQ(window("org").settled, nanos(13));
    EXPECT_NE(get<Budget>("ada").frozen, "");
    EXPECT_NE(get<Budget>("org").frozen, "");
    EXPECT_EQ(get<Budget>("soft").frozen, "") << "a soft budget holds nobody back";
    EXPECT_EQ(get<Budget>("tokens").frozen, "") << "its tokens were as many as reserved";
    EXPECT_EQ(told<BudgetFroze>().size(), 2u);

    // Nothing passes, however small, whoever asks, until it is thawed.
    const auto refused = charge(Money());
    EXPECT_EQ(refused.status, ChargeStatus::budget_frozen);
    EXPECT_EQ(refused.budget->budget, "ada");
    EXPECT_EQ(refused.budget->frozen, get<Budget>("ada").frozen);
    EXPECT_EQ(reserve(Money::nanos(1)).status, ReserveStatus::budget_frozen);
    EXPECT_EQ(admit().status, AdmitStatus::budget_frozen);
    advance(48h);
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::budget_frozen) << "time does not look";
    EXPECT_EQ(apply(UnfreezeBudget{"ada"}).status, BudgetStatus::done);
    EXPECT_EQ(charge(Money::nanos(1)).budget->budget, "org");
    EXPECT_EQ(apply(UnfreezeBudget{"org"}).status, BudgetStatus::done);
    EXPECT_EQ(apply(UnfreezeBudget{"org"}).status, BudgetStatus::unchanged);
    EXPECT_EQ(charge(Money::nanos(1)).status, ChargeStatus::charged);
    EXPECT_EQ(told<BudgetThawed>().size(), 2u);
}

TEST_F(LedgerTest, an_open_hold_can_be_settled_while_its_budget_is_frozen) {
    make_budget("day", cents(100));
    const HoldId first = hold(cents(10));
    const HoldId second = hold(cents(10));
    EXPECT_EQ(settle(first, cents(11)).status, HoldStatus::done);

    EXPECT_EQ(settle(second, cents(10)).status, HoldStatus::done);

    EXPECT_EQ(window("day").settled, nanos(21));
    EXPECT_EQ(told<BudgetFroze>().size(), 1u) << "frozen is frozen";
}

TEST_F(LedgerTest, a_settle_above_the_bound_in_tokens_or_calls_freezes_the_budgets_of_that_metric) {
    make_budget("calls", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::calls; });
    make_budget("tokens", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::tokens; });
    make_budget("usd", cents(100));
    const HoldId id = hold(cents(10), [](Reserve& body) { body.bound.tokens = 20, body.bound.calls = 1; });

    const auto reply = settle(id, cents(10), [](SettleHold& body) {
        body.usage = {20, 1, 0, 0, 0, 0};
        body.calls = 1;
    });

    EXPECT_EQ(reply.overage, Money()) << "overage is money";
    EXPECT_TRUE(last_event().over_limit);
    EXPECT_NE(get<Budget>("tokens").frozen, "");
    EXPECT_EQ(get<Budget>("calls").frozen, "");
    EXPECT_EQ(get<Budget>("usd").frozen, "");
}

TEST_F(LedgerTest, a_settle_past_the_limit_of_a_metric_without_a_bound_is_overage) {
    make_budget("usd", cents(10));
    charge(cents(8));
    const HoldId id = hold(Money(), [](Reserve& body) { body.bound.tokens = 100; });

    const auto reply = settle(id, cents(5));

    EXPECT_EQ(reply.overage, cents(3));
    EXPECT_NE(get<Budget>("usd").frozen, "");
}

TEST_F(LedgerTest, a_settle_within_its_bound_is_no_overage_although_the_limit_was_lowered_under_it) {
    make_budget("day", cents(100));
    charge(cents(50));
    const HoldId first = hold(cents(20));
    const HoldId second = hold(cents(30));
    put_budget("day", cents(40));

    EXPECT_EQ(settle(first, cents(20)).overage, Money());
    EXPECT_EQ(settle(second, cents(35)).overage, cents(5)) << "only what goes past the bound";

    EXPECT_EQ(window("day").settled, nanos(105));
    EXPECT_EQ(window("day").grace, nanos(60));
}

TEST_F(LedgerTest, a_hold_ends_once) {
    make_budget("day", cents(100));
    const HoldId settled = hold(cents(1));
    const HoldId released = hold(cents(1));
    const HoldId expired = hold(cents(1), [](Reserve& body) { body.ttl_s = 1; });
    settle(settled, cents(1));
    release(released);
    advance(1s);

    for (const HoldId id : {settled, released, expired}) {
        EXPECT_EQ(settle(id, cents(1)).status, HoldStatus::hold_closed);
        EXPECT_EQ(release(id).status, HoldStatus::hold_closed);
        EXPECT_EQ(extend(id, 60).status, HoldStatus::hold_closed);
    }

    EXPECT_EQ(window("day").settled, nanos(1));
    EXPECT_EQ(advance(48h).expired_holds, 0);
}

TEST_F(LedgerTest, an_expired_hold_that_never_left_is_released) {
    make_budget("day", cents(10));
    const HoldId id = hold(cents(10), [](Reserve& body) { body.ttl_s = 60; });

    EXPECT_EQ(advance(60s - 1us).expired_holds, 0);
    EXPECT_EQ(get<Hold>(id).state, HoldState::open);
    EXPECT_EQ(advance(1us).expired_holds, 1);

    EXPECT_EQ(get<Hold>(id).state, HoldState::released);
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(window("day").settled, 0);
    const auto releases = told<HoldReleased>();
    ASSERT_EQ(releases.size(), 1u);
    EXPECT_TRUE(releases[0].expired);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
}

TEST_F(LedgerTest, a_release_by_its_owner_is_not_told_as_an_expiry) {
    const HoldId id = hold(cents(10));

    release(id);

    const auto releases = told<HoldReleased>();
    ASSERT_EQ(releases.size(), 1u);
    EXPECT_EQ(releases[0].hold, id);
    EXPECT_FALSE(releases[0].expired);
}

TEST_F(LedgerTest, an_expired_hold_that_may_have_reached_a_provider_is_charged_at_its_bound_and_marked) {
    make_budget("day", cents(100));
    make_budget("tokens", Money::nanos(1000), [](PutBudget& body) { body.metric = Metric::tokens; });
    make_budget("calls", Money::nanos(1000), [](PutBudget& body) { body.metric = Metric::calls; });
    const AdmitReply run = admit();
    const HoldId id = hold(cents(10), [&](Reserve& body) {
        body.bound.tokens = 70;
        body.bound.calls = 2;
        body.dispatched = true;
        body.who.run = run.run;
    });

    EXPECT_EQ(advance(60s).expired_holds, 1);

    EXPECT_EQ(get<Hold>(id).state, HoldState::settled);
    EXPECT_EQ(window("day").settled, nanos(10));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(window("tokens").settled, 70);
    EXPECT_EQ(window("calls").settled, 2);
    EXPECT_EQ(last_event().cost, nanos(10));
    EXPECT_TRUE(last_event().estimated);
    EXPECT_FALSE(last_event().over_limit);
    EXPECT_EQ(last_event().hold, id);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(10));
    EXPECT_EQ(get<Run>(run.run).unknown, nanos(10));
    EXPECT_TRUE(told<Charged>().back().estimated);
}

TEST_F(LedgerTest, an_extension_moves_the_lease_on_and_never_back) {
    const HoldId id = hold(cents(1), [](Reserve& body) { body.ttl_s = 60; });
    advance(30s);

    EXPECT_EQ(extend(id, 10).expires_at, start + 60s) << "it had longer already";
    EXPECT_EQ(extend(id, 60).expires_at, start + 90s);
    EXPECT_EQ(get<Hold>(id).expires_at, start + 90s);

    EXPECT_EQ(at(start + 89s).expired_holds, 0);
    EXPECT_EQ(at(start + 90s).expired_holds, 1);
}

TEST_F(LedgerTest, dispatched_is_set_by_an_extension_and_never_cleared) {
    const HoldId id = hold(cents(1));
    EXPECT_EQ(extend(id, 60, true).status, HoldStatus::done);
    EXPECT_EQ(extend(id, 60, false).status, HoldStatus::done);

    EXPECT_EQ(advance(60s).expired_holds, 1);

    EXPECT_EQ(get<Hold>(id).state, HoldState::settled);
    EXPECT_TRUE(last_event().estimated);
}

TEST_F(LedgerTest, holds_live_at_least_a_minute_after_the_server_was_away) {
    const HoldId soon = hold(cents(1), [](Reserve& body) { body.ttl_s = 10; });
    const HoldId late = hold(cents(1), [](Reserve& body) { body.ttl_s = 3600; });
    now = start + 30s;
    reload();

    machine.apply({now}, command_of({}, Reopened{}));
    commit();

    EXPECT_EQ(get<Hold>(soon).expires_at, now + 60s);
    EXPECT_EQ(get<Hold>(late).expires_at, start + 3600s);
    EXPECT_EQ(advance(59s).expired_holds, 0);
    EXPECT_EQ(advance(1s).expired_holds, 1);
}

TEST_F(LedgerTest, a_tick_before_the_first_deadline_changes_nothing) {
    hold(cents(1));
    now += 59s;

    const auto reply = apply(Tick{});

    EXPECT_EQ(reply.expired_holds, 0);
    EXPECT_FALSE(has_changes());
    EXPECT_EQ(machine.next_deadline(), start + 60s);
}

// ---- money that is gone -------------------------------------------------------------------------------------------

TEST_F(LedgerTest, money_that_is_gone_is_recorded_past_the_limit_and_freezes_the_budget) {
    make_budget("day", cents(10));
    make_budget("soft", cents(10), [](PutBudget& body) { body.hard = false; });
    charge(cents(8));
    EXPECT_EQ(charge(cents(5)).status, ChargeStatus::budget_exceeded);

    const auto reply = charge(cents(5), [](Charge& body) { body.incurred = true; });

    EXPECT_EQ(reply.status, ChargeStatus::charged);
    EXPECT_EQ(reply.overage, cents(3));
    EXPECT_TRUE(last_event().over_limit);
    EXPECT_EQ(window("day").settled, nanos(13));
    EXPECT_EQ(window("soft").settled, nanos(13));
    EXPECT_NE(get<Budget>("day").frozen, "");
    EXPECT_EQ(get<Budget>("soft").frozen, "");

    const auto more = charge(cents(2), [](Charge& body) { body.incurred = true; });
    EXPECT_EQ(more.status, ChargeStatus::charged) << "also when frozen";
    EXPECT_EQ(more.overage, cents(2));
}

TEST_F(LedgerTest, money_that_is_gone_and_fits_is_an_ordinary_charge) {
    make_budget("day", cents(10));

    const auto reply = charge(cents(10), [](Charge& body) { body.incurred = true; });

    EXPECT_EQ(reply.overage, Money());
    EXPECT_FALSE(last_event().over_limit);
    EXPECT_EQ(get<Budget>("day").frozen, "");
}

TEST_F(LedgerTest, overage_counts_what_others_hold) {
    make_budget("day", cents(10));
    const HoldId other = hold(cents(6));

    EXPECT_EQ(charge(cents(5), [](Charge& body) { body.incurred = true; }).overage, cents(1));
    EXPECT_EQ(settle(other, cents(6)).overage, Money()) << "it was promised its money";

    EXPECT_EQ(window("day").settled, nanos(11));
}

TEST_F(LedgerTest, the_greatest_overage_of_several_budgets_is_the_events) {
    make_budget("a", cents(10));
    make_budget("b", cents(7));

    EXPECT_EQ(charge(cents(12), [](Charge& body) { body.incurred = true; }).overage, cents(5));

    EXPECT_EQ(told<BudgetFroze>().size(), 2u);
}

// ---- windows ------------------------------------------------------------------------------------------------------

TEST_F(LedgerTest, charges_on_both_sides_of_midnight_count_on_their_own_days) {
    make_budget("day", cents(10));
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");

    at(midnight - 1us);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);
    at(midnight);
    EXPECT_EQ(charge(cents(9)).status, ChargeStatus::charged);

    EXPECT_EQ(window_at_time("day", midnight - 1us).settled, nanos(10));
    EXPECT_EQ(window_at_time("day", midnight).settled, nanos(9));
    EXPECT_EQ(get<Rollup>({utc_day(midnight) - 1, "ada", "", ""}).cost, nanos(10));
    EXPECT_EQ(get<Rollup>({utc_day(midnight), "ada", "", ""}).cost, nanos(9));
}

TEST_F(LedgerTest, a_settle_counts_in_the_window_its_hold_was_admitted_in) {
    make_budget("day", cents(10));
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");
    at(midnight - 1s);
    const HoldId id = hold(cents(10));
    at(midnight + 1s);
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged) << "today is untouched by yesterday's hold";

    EXPECT_EQ(settle(id, cents(8)).overage, Money());

    EXPECT_EQ(window_at_time("day", midnight - 1s).settled, nanos(8));
    EXPECT_EQ(window_at_time("day", midnight - 1s).held, 0);
    EXPECT_EQ(window_at_time("day", midnight).settled, nanos(10));
    EXPECT_EQ(last_event().at, now);
    EXPECT_EQ(last_event().counted_at, midnight - 1s);
    EXPECT_EQ(get<Rollup>({utc_day(midnight) - 1, "ada", "", ""}).cost, nanos(8));
}

TEST_F(LedgerTest, an_expiry_after_midnight_is_charged_to_the_day_of_admission) {
    make_budget("day", cents(10), [](PutBudget& body) { body.on_exhausted = OnExhausted::pause_agent; });
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");
    at(midnight - 30s);
    hold(cents(10), [](Reserve& body) { body.dispatched = true; });

    at(midnight + 30s);

    EXPECT_EQ(window_at_time("day", midnight - 1s).settled, nanos(10));
    EXPECT_TRUE(window_at_time("day", midnight - 1s).exhausted);
    EXPECT_EQ(get<Agent>("ada").pauses.size(), 0u) << "yesterday's exhaustion pauses nobody today";
}

TEST_F(LedgerTest, days_follow_the_budgets_own_zone_through_the_changes_of_the_clock) {
    struct Case {
        const char* before_midnight;  // Half an hour before the day in New York ends.
        const char* midnight;
        int hours;  // Of the day that begins then.
    };
    // 2026-03-08 has 23 hours there, 2026-11-01 has 25.
    const std::vector<Case> cases{{"2026-03-08T04:30:00Z", "2026-03-08T05:00:00Z", 23},
                                  {"2026-11-01T03:30:00Z", "2026-11-01T04:00:00Z", 25}};
    make_budget("ny", cents(10), [](PutBudget& body) { body.zone = "America/New_York"; });

    for (const Case& day : cases) {
        const Instant midnight = utc_time(day.midnight);
        at(utc_time(day.before_midnight));
        EXPECT_EQ(charge(cents(4)).status, ChargeStatus::charged);
        const HoldId id = hold(cents(6), [](Reserve& body) { body.ttl_s = 7200; });
        at(midnight);
        EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged) << "a new day";
        EXPECT_EQ(settle(id, cents(6)).overage, Money());
        EXPECT_EQ(window_at_time("ny", midnight - 1us).settled, nanos(10));
        EXPECT_EQ(window_at_time("ny", midnight).settled, nanos(10));

        at(midnight + std::chrono::hours(day.hours) - 1us);
        EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded) << "the day has " << day.hours << " hours";
        at(midnight + std::chrono::hours(day.hours));
        EXPECT_EQ(charge(cents(1)).status, ChargeStatus::charged);
    }
}

TEST_F(LedgerTest, a_hold_older_than_a_budgets_first_window_is_not_that_budgets_business) {
    const HoldId old = hold(cents(50), [](Reserve& body) { body.ttl_s = 24 * 3600; });
    const HoldId lost = hold(cents(50), [](Reserve& body) { body.ttl_s = 24 * 3600, body.dispatched = true; });
    advance(23h);
    make_budget("late", cents(10));
    EXPECT_EQ(window("late").held, 0);

    EXPECT_EQ(settle(old, cents(50)).overage, Money());
    advance(1h);

    EXPECT_EQ(get<Hold>(lost).state, HoldState::settled);
    EXPECT_EQ(get<Budget>("late").frozen, "");
    EXPECT_FALSE(find<Window>({"late", utc_time("2026-03-02T00:00:00Z")}).has_value());
    EXPECT_EQ(charge(cents(10)).status, ChargeStatus::charged);
}

// ---- a run's own hold ---------------------------------------------------------------------------------------------

TEST_F(LedgerTest, a_runs_charges_draw_from_its_own_hold_first) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    const HoldId own = get<Run>(run.run).hold;
    hold(cents(40));
    EXPECT_EQ(window("day").held, nanos(100));

    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded) << "for others there is nothing left";
    EXPECT_EQ(charge(cents(50), of_run(run.run)).status, ChargeStatus::charged);

    EXPECT_EQ(window("day").settled, nanos(50));
    EXPECT_EQ(window("day").held, nanos(50));
    EXPECT_EQ(get<Hold>(own).bound.usd, nanos(10));
    const auto refused = charge(cents(11), of_run(run.run));
    EXPECT_EQ(refused.status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(refused.budget->free, nanos(10)) << "what the run has left is free for the run";
    EXPECT_EQ(charge(cents(10), of_run(run.run)).status, ChargeStatus::charged);
    EXPECT_EQ(get<Hold>(own).bound.usd, 0);
}

TEST_F(LedgerTest, a_charge_greater_than_the_rest_of_the_runs_hold_takes_what_is_missing_from_the_budget) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(10));

    EXPECT_EQ(charge(cents(25), of_run(run.run)).status, ChargeStatus::charged);

    EXPECT_EQ(window("day").settled, nanos(25));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(finish(run).status, RunStatus::done);
    EXPECT_EQ(window("day").settled, nanos(25));
}

TEST_F(LedgerTest, a_runs_holds_draw_from_its_own_and_return_what_they_did_not_use) {
    make_budget("day", cents(100));
    make_budget("tokens", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::tokens; });
    const AdmitReply run = admit_with(cents(100), [](AdmitRun& body) { body.hold.tokens = 100; });
    const HoldId own = get<Run>(run.run).hold;
    const auto of_30 = [&](Reserve& body) {
        body.who.run = run.run;
        body.bound.tokens = 30;
    };

    const HoldId settled = hold(cents(30), of_30);
    const HoldId released = hold(cents(30), of_30);
    const HoldId at_bound = hold(cents(30), of_30);
    EXPECT_EQ(get<Hold>(own).bound, (Amounts{nanos(10), 10, 0, 0}));
    EXPECT_EQ(get<Hold>(settled).drawn, (Amounts{nanos(30), 30, 0, 0}));
    EXPECT_EQ(window("day").held, nanos(100));
    EXPECT_EQ(reserve(cents(11), of_run(run.run)).status, ReserveStatus::budget_exceeded);

    settle(settled, cents(12), [](SettleHold& body) { body.usage.input_tokens = 5; });
    EXPECT_EQ(get<Hold>(own).bound, (Amounts{nanos(28), 35, 0, 0}));
    release(released);
    EXPECT_EQ(get<Hold>(own).bound, (Amounts{nanos(58), 65, 0, 0}));
    settle(at_bound, cents(30), [](SettleHold& body) { body.usage.input_tokens = 30; });
    EXPECT_EQ(get<Hold>(own).bound, (Amounts{nanos(58), 65, 0, 0}));
    EXPECT_EQ(window("day").settled, nanos(42));
    EXPECT_EQ(window("day").held, nanos(58));
    EXPECT_EQ(window("tokens").settled, 35);
    EXPECT_EQ(window("tokens").held, 65);

    EXPECT_EQ(finish(run).status, RunStatus::done);
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(window("day").settled, nanos(42));
}

TEST_F(LedgerTest, a_hold_that_drew_only_a_part_returns_at_most_that_part) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(10));
    const HoldId own = get<Run>(run.run).hold;
    const HoldId id = hold(cents(40), of_run(run.run));
    EXPECT_EQ(get<Hold>(id).drawn.usd, nanos(10));
    EXPECT_EQ(window("day").held, nanos(40));

    settle(id, cents(4));

    EXPECT_EQ(get<Hold>(own).bound.usd, nanos(6));
    EXPECT_EQ(window("day").held, nanos(6));
    EXPECT_EQ(window("day").settled, nanos(4));
}

TEST_F(LedgerTest, a_runs_own_hold_stays_in_its_window_when_the_window_turns) {
    make_budget("day", cents(100));
    const Instant midnight = utc_time("2026-03-03T00:00:00Z");
    at(midnight - 1h);
    const AdmitReply run = admit_with(cents(60));
    const HoldId own = get<Run>(run.run).hold;
    const HoldId before = hold(cents(20), of_run(run.run));
    at(midnight + 1h);
    hold(cents(90));

    // What is spent today is today's, and must fit there.
    EXPECT_EQ(charge(cents(11), of_run(run.run)).status, ChargeStatus::budget_exceeded);
    EXPECT_EQ(charge(cents(10), of_run(run.run)).status, ChargeStatus::charged);
    EXPECT_EQ(window("day").settled, nanos(10));
    EXPECT_EQ(window_at_time("day", midnight - 1s).held, nanos(60));
    // What was held yesterday settles there and returns there.
    settle(before, cents(5));
    EXPECT_EQ(window_at_time("day", midnight - 1s).settled, nanos(5));
    EXPECT_EQ(window_at_time("day", midnight - 1s).held, nanos(55));
    EXPECT_EQ(get<Hold>(own).bound.usd, nanos(45)) << "60, less 10 today, less 5 yesterday";

    EXPECT_EQ(lose(run).status, RunStatus::done);
    EXPECT_EQ(window_at_time("day", midnight - 1s).settled, nanos(50));
    EXPECT_EQ(window_at_time("day", midnight - 1s).held, 0);
    EXPECT_EQ(window("day").settled, nanos(10));
    EXPECT_EQ(get<Run>(run.run).settled, nanos(60));
}

TEST_F(LedgerTest, what_a_runs_own_hold_covers_is_not_refused_because_the_limit_was_lowered_since) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    put_budget("day", cents(20));

    EXPECT_EQ(charge(cents(30), of_run(run.run)).status, ChargeStatus::charged);
    EXPECT_FALSE(last_event().over_limit);
    const HoldId id = hold(cents(30), of_run(run.run));
    EXPECT_EQ(reserve(cents(1), of_run(run.run)).status, ReserveStatus::budget_exceeded) << "that would be new money";
    EXPECT_EQ(settle(id, cents(30)).overage, Money());

    EXPECT_EQ(window("day").settled, nanos(60));
    EXPECT_EQ(get<Budget>("day").frozen, "");
}

TEST_F(LedgerTest, a_run_that_finishes_gives_its_rest_back) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    charge(cents(10), of_run(run.run));

    FinishRun body;
    body.run = run.run;
    body.fence = run.fence;
    body.charge = FinalCharge{.provider = "acme-ai", .model = "m1", .cost = cents(5), .usage = {}, .price = {}};
    const auto reply = apply(body);

    EXPECT_EQ(reply.status, RunStatus::done);
    EXPECT_EQ(reply.seq, last_event().seq);
    EXPECT_EQ(last_event().who.provider, "acme-ai");
    EXPECT_EQ(window("day").settled, nanos(15));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(15));
    EXPECT_EQ(get<Run>(run.run).unknown, 0);
}

TEST_F(LedgerTest, a_final_charge_past_what_was_held_and_left_is_recorded_as_overage) {
    make_budget("day", cents(20));
    const AdmitReply run = admit_with(cents(15));
    FinishRun body;
    body.run = run.run;
    body.fence = run.fence;
    body.charge = FinalCharge{.provider = {}, .model = {}, .cost = cents(23), .usage = {}, .price = {}};

    EXPECT_EQ(apply(body).status, RunStatus::done);

    EXPECT_EQ(last_event().overage, nanos(3));
    EXPECT_NE(get<Budget>("day").frozen, "");
    EXPECT_EQ(window("day").settled, nanos(23));
}

TEST_F(LedgerTest, a_lost_run_is_charged_for_all_that_it_may_have_spent_and_says_so) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    charge(cents(10), of_run(run.run));
    const HoldId dispatched = hold(cents(20), [&](Reserve& body) {
        body.who.run = run.run;
        body.dispatched = true;
    });
    const HoldId undispatched = hold(cents(5), of_run(run.run));

    EXPECT_EQ(lose(run).status, RunStatus::done);

    EXPECT_EQ(get<Hold>(dispatched).state, HoldState::settled);
    EXPECT_EQ(get<Hold>(undispatched).state, HoldState::released);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(60));
    EXPECT_EQ(get<Run>(run.run).unknown, nanos(50));
    EXPECT_EQ(window("day").settled, nanos(60));
    EXPECT_EQ(window("day").held, 0);
    const auto ended = told<RunEnded>();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].settled, nanos(60));
    EXPECT_EQ(ended[0].unknown, nanos(50));
}

TEST_F(LedgerTest, the_rest_of_a_metered_runs_hold_is_known_to_be_unspent) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60), [](AdmitRun& body) { body.metered = true; });
    charge(cents(10), of_run(run.run));

    EXPECT_EQ(lose(run).status, RunStatus::done);

    EXPECT_EQ(get<Run>(run.run).settled, nanos(10));
    EXPECT_EQ(get<Run>(run.run).unknown, 0);
    EXPECT_EQ(window("day").held, 0);
}

TEST_F(LedgerTest, a_cancelled_run_is_still_charged) {
    make_budget("day", cents(100));
    const AdmitReply run = admit_with(cents(60));
    CancelRun body;
    body.run = run.run;
    body.fence = run.fence;
    body.charge = FinalCharge{.provider = {}, .model = {}, .cost = cents(7), .usage = {}, .price = {}};

    EXPECT_EQ(apply(body).status, RunStatus::done);

    EXPECT_EQ(window("day").settled, nanos(7));
    EXPECT_EQ(window("day").held, 0);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(7));
}

TEST_F(LedgerTest, a_run_that_lost_its_lease_can_charge_nothing_any_more) {
    const AdmitReply run = admit_with(cents(60), [](AdmitRun& body) { body.lease_s = 30, body.metered = true; });
    const HoldId id = hold(cents(5), of_run(run.run));
    EXPECT_EQ(advance(30s).lost_runs, 1);

    const auto with_fence = [&](auto& body) {
        body.who.run = run.run;
        body.fence = run.fence;
    };
    EXPECT_EQ(charge(cents(1), with_fence).status, ChargeStatus::stale_fence);
    EXPECT_EQ(reserve(cents(1), with_fence).status, ReserveStatus::stale_fence);
    EXPECT_EQ(charge(cents(1), of_run(run.run)).status, ChargeStatus::run_ended);
    EXPECT_EQ(charge(cents(1),
                     [&](Charge& body) {
                         with_fence(body);
                         body.incurred = true;
                     })
                  .status,
              ChargeStatus::stale_fence);
    EXPECT_EQ(settle(id, cents(1)).status, HoldStatus::hold_closed);
}

TEST_F(LedgerTest, a_charge_in_the_name_of_a_run_that_has_not_started_is_refused) {
    make_agent("busy", 0);
    const auto queued = admit([](AdmitRun& body) {
        body.who.agent = "busy";
        body.on_conflict = OnConflict::queue;
        body.hold.usd = nanos(5);
    });
    ASSERT_EQ(queued.status, AdmitStatus::queued);

    Charge body = charge_of(cents(1));
    body.who.agent = "busy";
    body.who.run = queued.run;

    EXPECT_EQ(apply(body).status, ChargeStatus::run_ended) << "it is not live";
}

// ---- the ends of the range ----------------------------------------------------------------------------------------

TEST_F(LedgerTest, a_sum_that_leaves_the_range_of_a_counter_is_refused_and_nothing_is_touched) {
    make_agent("bob");
    make_budget("org", Money::nanos(most), [](PutBudget& body) { body.hard = false; });
    const SessionId shared = make_session("bob");
    const auto shared_by = [&](const std::string& agent) {
        return [&, agent](Charge& body) {
            body.who.agent = agent;
            body.who.session = shared;
            body.incurred = true;
        };
    };

    EXPECT_EQ(charge(Money::nanos(most - 10), shared_by("ada")).status, ChargeStatus::charged);
    EXPECT_EQ(charge(Money::nanos(11)).status, ChargeStatus::amount_too_large) << "the agent's";
    EXPECT_EQ(apply(DeleteBudget{"org"}).status, BudgetStatus::done);
    EXPECT_EQ(charge(Money::nanos(11), shared_by("bob")).status, ChargeStatus::amount_too_large) << "the session's";
    EXPECT_EQ(charge(Money::nanos(10), shared_by("bob")).status, ChargeStatus::charged);
    EXPECT_EQ(charge(Money(), [](Charge& body) { body.usage.input_tokens = most; }).status, ChargeStatus::charged);
    EXPECT_EQ(charge(Money(), [](Charge& body) { body.usage.output_tokens = 1; }).status,
              ChargeStatus::amount_too_large)
        << "the agent's tokens";
    EXPECT_EQ(charge(Money(), [](Charge& body) { body.calls = most; }).status, ChargeStatus::amount_too_large)
        << "the day's calls: there is one already";
}

TEST_F(LedgerTest, a_sum_that_leaves_the_range_of_a_window_is_refused_for_hard_and_soft_budgets) {
    make_agent("bob");
    make_budget("soft", Money::nanos(most), [](PutBudget& body) { body.hard = false; });
    spend_nearly_everything("ada", 10);
    const auto of_bob = [](auto& body) { body.who.agent = "bob"; };

    EXPECT_EQ(charge(Money::nanos(11), of_bob).status, ChargeStatus::amount_too_large);
    EXPECT_EQ(reserve(Money::nanos(11), of_bob).status, ReserveStatus::amount_too_large);
    const HoldId id = hold(Money::nanos(10), of_bob);
    EXPECT_EQ(charge(Money::nanos(1), of_bob).status, ChargeStatus::amount_too_large);
    EXPECT_EQ(settle(id, Money::nanos(11)).status, HoldStatus::amount_too_large);
    EXPECT_EQ(settle(id, Money::nanos(10)).status, HoldStatus::done);

    EXPECT_EQ(window("soft").settled, most);
}

TEST_F(LedgerTest, a_hold_as_large_as_a_counter_can_be_settled) {
    make_budget("tokens", Money::nanos(most), [](PutBudget& body) { body.metric = Metric::tokens; });
    const HoldId id = hold(Money(), [](Reserve& body) { body.bound.tokens = most; });

    EXPECT_EQ(settle(id, Money(), [](SettleHold& body) { body.usage.input_tokens = 5; }).status, HoldStatus::done);

    EXPECT_EQ(window("tokens").settled, 5);
    EXPECT_EQ(window("tokens").held, 0);
}

TEST_F(LedgerTest, an_estimate_ends_where_the_counters_end) {
    const SessionId session = make_session("ada");
    const auto endless = [&](Reserve& body) {
        body.bound = {most, most, most, 0};
        body.dispatched = true;
        body.who.session = session;
    };
    hold(Money(), endless);
    hold(Money(), endless);
    charge(cents(5), [&](Charge& body) {
        body.usage.input_tokens = 7;
        body.who.session = session;
    });

    EXPECT_EQ(advance(60s).expired_holds, 2);

    EXPECT_EQ(get<AgentTotals>("ada").settled, most);
    EXPECT_EQ(get<AgentTotals>("ada").tokens, most);
    EXPECT_EQ(get<AgentTotals>("ada").events, 3);
    EXPECT_EQ(get<Session>(session).settled, most);
    EXPECT_EQ(get<Rollup>({utc_day(start), "ada", "", ""}).calls, most);
}

TEST_F(LedgerTest, a_final_charge_that_leaves_the_range_is_refused_and_the_run_goes_on) {
    const AdmitReply run = admit_with(cents(60));
    spend_nearly_everything("ada", 10);
    FinishRun body;
    body.run = run.run;
    body.fence = run.fence;
    body.charge = FinalCharge{.provider = {}, .model = {}, .cost = Money::nanos(11), .usage = {}, .price = {}};

    EXPECT_EQ(apply(body).status, RunStatus::amount_too_large);

    EXPECT_EQ(get<Run>(run.run).state, RunState::starting);
    body.charge->cost = Money::nanos(10);
    EXPECT_EQ(apply(body).status, RunStatus::done);
}

// ---- ids that are made of hashes ----------------------------------------------------------------------------------

TEST_F(LedgerTest, a_client_that_took_the_id_of_a_runs_own_hold_harms_nobody) {
    make_budget("day", cents(100));
    const RunId run = fresh_run();
    const HoldId taken(id_from_hash(to_text("run_hold", run.value)));
    hold(cents(10), [&](Reserve& body) { body.hold = taken; });

    admit_with(cents(20), [&](AdmitRun& body) { body.run = run; });

    EXPECT_NE(get<Run>(run).hold, taken);
    EXPECT_EQ(get<Hold>(taken).bound.usd, nanos(10));
    EXPECT_EQ(window("day").held, nanos(30));
}

TEST_F(LedgerTest, a_client_that_took_the_key_of_an_expiry_harms_nobody) {
    make_budget("day", cents(100));
    const HoldId id = hold(cents(10), [](Reserve& body) { body.dispatched = true; });
    const CommandKey taken(id_from_hash(to_text("hold_at_bound", id.value)));
    EXPECT_EQ(std::get<ChargeReply>(apply_with(taken, charge_of(cents(1))).reply).status, ChargeStatus::charged);
    const AdmitReply run = admit();
    const CommandKey of_run_end(id_from_hash(to_text("final_charge", run.run.value)));
    EXPECT_EQ(std::get<ChargeReply>(apply_with(of_run_end, charge_of(cents(1))).reply).status, ChargeStatus::charged);

    EXPECT_EQ(advance(60s).expired_holds, 1);
    FinishRun body;
    body.run = run.run;
    body.fence = run.fence;
    body.charge = FinalCharge{.provider = {}, .model = {}, .cost = cents(1), .usage = {}, .price = {}};
    EXPECT_EQ(apply(body).status, RunStatus::done);

    EXPECT_EQ(window("day").settled, nanos(13));
    EXPECT_EQ(rows().of<CostEvent>().size(), 4u);
}

}  // namespace
}  // namespace interlock::core
