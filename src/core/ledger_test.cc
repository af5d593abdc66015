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

using LedgerTest = MoneyTest;

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

TEST_F(LedgerTest, a_runs_charge_is_on_the_account_of_the_run) {
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
    body.who.workflow = "daily";
    body.who.session = make_session("ada");
    body.who.tags = {{"tier", "two"}, {"more", "yes"}};
    EXPECT_EQ(apply(body).status, ChargeStatus::charged);

    const Attribution expected{.agent = "ada",
                               .workflow = "nightly",
                               .provider = "acme-ai",
                               .model = "m2",
                               .api_key = "key-1",
                               .run = run.run,
                               .session = session,
                               .tags = {{"more", "yes"}, {"team", "red"}, {"tier", "one"}}};
    EXPECT_EQ(last_event().who, expected) << "workflow, session and tags of the run win";
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
    body.cost = Money::nanos(INT64_MAX);
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
    EXPECT_EQ(apply(body).status, ReserveStatus::invalid_request);
    body.bound.usd = INT64_MAX;
    EXPECT_EQ(apply(body).status, ReserveStatus::hold_exists);
    body.hold = fresh_hold();
    EXPECT_EQ(apply(body).status, ReserveStatus::agent_not_found);
    body.who.agent = "ada";
    EXPECT_EQ(apply(body).status, ReserveStatus::agent_paused);
    EXPECT_EQ(apply(ResumeAgent{"ada"}).status, AgentStatus::done);
    body.who.run = fresh_run();
    body.fence = Fence(1000);
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

TEST_F(LedgerTest, a_pause_keeps_an_agent_from_new_holds_but_not_its_runs_that_are_going) {
    const AdmitReply run = admit();
    const HoldId open = hold(cents(1));
    apply(PauseAgent{"ada", "lunch"});

    EXPECT_EQ(reserve(cents(1)).status, ReserveStatus::agent_paused);
    EXPECT_EQ(reserve(cents(1), of_run(run.run)).status, ReserveStatus::held);
    EXPECT_EQ(settle(open, cents(1)).status, HoldStatus::done);
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::charged) << "that is money which is gone";
}

TEST_F(LedgerTest, an_agent_and_its_key_and_an_org_have_only_so_many_open_holds) {
    for (const char* agent : {"a0", "a1", "a2", "other"}) make_agent(agent);
    make_budget("day", cents(1));
    std::size_t holds = 0;
    const auto fill = [&](const std::string& agent, const std::string& key,
                          std::size_t count = limits::open_holds_per_agent_max) {
        for (std::size_t i = 0; i < count; ++i) {
            Hold row;
            row.id = HoldId(Id{.high = 1, .low = ++holds});
            row.who.agent = agent;
            row.who.api_key = key;
            row.expires_at = far_future;
            machine.org(org).adopt(row);
        }
    };
    // Past the fixture, which would look through all of them each time.
    const auto ask = [&](const std::string& agent, const std::string& key) {
        Reserve body;
        body.hold = fresh_hold();
        body.who.agent = agent;
        body.who.api_key = key;
        body.bound.usd = nanos(2);
        return std::get<ReserveReply>(machine.apply({now}, command_of(fresh_key(), body)).reply).status;
    };
    fill("a0", "k0");

    EXPECT_EQ(ask("a0", "k1"), ReserveStatus::too_many) << "before the budget is asked";
    EXPECT_EQ(ask("a1", "k0"), ReserveStatus::too_many) << "its key has used up its share";
    EXPECT_EQ(ask("a1", "k1"), ReserveStatus::budget_exceeded) << "another's share is its own";
    machine.apply({now}, command_of(fresh_key(), ReleaseHold{HoldId(Id{.high = 1, .low = 1})}));
    EXPECT_EQ(ask("a0", "k1"), ReserveStatus::budget_exceeded);
    fill("a1", "k1");
    fill("a2", "k2");
    static_assert(limits::open_holds_per_org_max == 3 * limits::open_holds_per_agent_max);
    machine.apply({now}, command_of(fresh_key(), ReleaseHold{HoldId(Id{.high = 1, .low = 2})}));
    EXPECT_EQ(ask("other", "k9"), ReserveStatus::budget_exceeded);
    fill("a3", "k3", 2);
    EXPECT_EQ(ask("other", "k9"), ReserveStatus::too_many);
}

TEST_F(LedgerTest, an_end_of_a_hold_is_refused_for_the_first_reason_in_the_order_of_its_status) {
    const AdmitReply run = admit_with(cents(5));
    const HoldId own = get<Run>(run.run).hold;
    const HoldId open = hold(cents(1));
    const HoldId closed = hold(cents(1));
    EXPECT_EQ(release(closed).status, HoldStatus::done);
    const HoldId of_key = hold(cents(1), [](Reserve& wanted) { wanted.who.api_key = "k1"; });
    SettleHold body;
    body.cost = Money::nanos(-1);
    body.hold = fresh_hold();

    EXPECT_EQ(apply(body).status, HoldStatus::invalid_request);
    body.cost = Money::nanos(INT64_MAX);
    EXPECT_EQ(apply(body).status, HoldStatus::hold_not_found);
    body.hold = of_key;
    body.by = {.kind = ActorKind::key, .key = "k2"};
    EXPECT_EQ(apply(body).status, HoldStatus::not_your_hold);
    EXPECT_EQ(apply(ReleaseHold{of_key}).status, HoldStatus::done);
    EXPECT_EQ(apply(body).status, HoldStatus::not_your_hold) << "also when it has ended";
    body.by = {};
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
        [](Charge& body) { body.usage.input_tokens = body.usage.reasoning_tokens = INT64_MAX; },
        [](Charge& body) { body.calls = limits::calls_per_event_max + 1; },
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
        [](Reserve& body) { body.bound.calls = limits::calls_per_event_max + 1; },
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

// ---- the ends of the range ----------------------------------------------------------------------------------------

TEST_F(LedgerTest, what_is_too_much_for_one_event_is_refused_for_the_one_who_sends_it) {
    constexpr std::int64_t usd = limits::nanos_per_event_max;
    constexpr std::int64_t tokens = limits::tokens_per_event_max;
    const auto incurred = [](Charge& body) { body.incurred = true; };
    const auto of_tokens = [](std::int64_t count) { return [=](Charge& body) { body.usage.output_tokens = count; }; };

    EXPECT_EQ(charge(Money::nanos(usd + 1)).status, ChargeStatus::amount_too_large);
    EXPECT_EQ(charge(Money::nanos(INT64_MAX), incurred).status, ChargeStatus::amount_too_large) << "gone or not";
    EXPECT_EQ(charge(Money(), of_tokens(tokens + 1)).status, ChargeStatus::amount_too_large);
    EXPECT_EQ(reserve(Money::nanos(usd + 1)).status, ReserveStatus::amount_too_large);
    EXPECT_EQ(reserve(Money(), [&](Reserve& body) { body.bound.tokens = tokens + 1; }).status,
              ReserveStatus::amount_too_large);
    EXPECT_EQ(admit([&](AdmitRun& body) { body.hold.usd = usd + 1; }).status, AdmitStatus::amount_too_large);
    const HoldId id = hold(cents(1));
    EXPECT_EQ(settle(id, Money::nanos(usd + 1)).status, HoldStatus::amount_too_large);
    EXPECT_EQ(settle(id, Money::nanos(usd)).status, HoldStatus::done);
    EXPECT_EQ(charge(Money::nanos(usd)).status, ChargeStatus::charged);
    EXPECT_EQ(charge(Money(), of_tokens(tokens)).status, ChargeStatus::charged);
}

TEST_F(LedgerTest, an_agent_and_its_key_hold_at_most_their_share) {
    make_agent("bob");
    const auto held = [&](const std::string& agent, const std::string& key, std::int64_t usd) {
        Hold row;
        row.id = fresh_hold();
        row.who.agent = agent;
        row.who.api_key = key;
        row.bound.usd = usd;
        row.expires_at = far_future;
        machine.org(org).adopt(row);
    };
    held("ada", "k1", limits::held_per_agent_max - 10);
    const auto ask = [&](const std::string& agent, const std::string& key, std::int64_t usd) {
        Reserve body;
        body.hold = fresh_hold();
        body.who.agent = agent;
        body.who.api_key = key;
        body.bound.usd = usd;
        return std::get<ReserveReply>(machine.apply({now}, command_of(fresh_key(), body)).reply).status;
    };

    EXPECT_EQ(ask("ada", "k2", 11), ReserveStatus::amount_too_large);
    EXPECT_EQ(ask("bob", "k1", 11), ReserveStatus::amount_too_large);
    EXPECT_EQ(ask("bob", "k2", 11), ReserveStatus::held) << "others have theirs";
    EXPECT_EQ(ask("ada", "k1", 10), ReserveStatus::held);
}

TEST_F(LedgerTest, a_counter_that_is_full_leads_to_no_refusal) {
    make_agent("bob");
    make_budget("soft", Money::nanos(INT64_MAX), [](PutBudget& body) { body.hard = false; });
    AgentTotals rich{.agent = "ada", .settled = limits::counter_max - 5, .last_event_at = {}};
    machine.org(org).adopt(rich);
    Window window;
    window.budget = "soft";
    window.start_at = window_at(WindowKind::day, utc(), now).start;
    window.end_at = window.start_at + 24h;
    window.limit_units = INT64_MAX;
    window.hard = false;
    window.settled = limits::counter_max - 5;
    machine.org(org).windows.adopt(window);
    // Past the fixture, whose sums know nothing of rows that are put under its feet.
    const auto ask = [&](const std::string& agent, std::int64_t nanos_of_cost) {
        Charge body = charge_of(Money::nanos(nanos_of_cost));
        body.who.agent = agent;
        return std::get<ChargeReply>(machine.apply({now}, command_of(fresh_key(), body)).reply).status;
    };

    EXPECT_EQ(ask("ada", limits::nanos_per_event_max), ChargeStatus::charged);
    EXPECT_EQ(ask("ada", limits::nanos_per_event_max), ChargeStatus::charged);
    EXPECT_EQ(ask("bob", 7), ChargeStatus::charged);

    OrgState& state = machine.org(org);
    EXPECT_EQ(state.agent_totals.find("ada")->settled, limits::counter_max);
    EXPECT_EQ(state.agent_totals.find("bob")->settled, 7);
    EXPECT_EQ(state.windows.find(key_of(window))->settled, limits::counter_max);
    EXPECT_EQ(state.settled_usd(), limits::counter_max);
}

TEST_F(LedgerTest, a_final_charge_that_is_too_much_for_one_event_is_refused_and_the_run_goes_on) {
    const AdmitReply run = admit_with(Money::nanos(5));
    FinishRun body;
    body.run = run.run;
    body.fence = run.fence;
    const Money too_much = Money::nanos(limits::nanos_per_event_max + 1);
    body.charge = FinalCharge{.provider = {}, .model = {}, .cost = too_much, .usage = {}, .price = {}};

    EXPECT_EQ(apply(body).status, RunStatus::amount_too_large);

    EXPECT_EQ(get<Run>(run.run).state, RunState::starting);
    body.charge->cost = Money::nanos(10);
    EXPECT_EQ(apply(body).status, RunStatus::done);
}

// ---- who ends a hold ----------------------------------------------------------------------------------------------

TEST_F(LedgerTest, only_the_key_that_opened_a_hold_ends_it) {
    const auto with_key = [](Reserve& body) { body.who.api_key = "k1"; };
    const Actor opener{.kind = ActorKind::key, .key = "k1", .agent = "ada"};
    const Actor same_agent{.kind = ActorKind::key, .key = "k2", .agent = "ada"};
    const Actor gateway{.kind = ActorKind::gateway};
    const HoldId id = hold(cents(1), with_key);

    for (const Actor& other : {same_agent, gateway}) {
        EXPECT_EQ(settle(id, Money(), [&](SettleHold& body) { body.by = other; }).status, HoldStatus::not_your_hold);
        EXPECT_EQ(apply(ReleaseHold{id, other}).status, HoldStatus::not_your_hold);
        EXPECT_EQ(apply(ExtendHold{id, 60, false, other}).status, HoldStatus::not_your_hold);
    }
    EXPECT_EQ(apply(ExtendHold{id, 60, false, opener}).status, HoldStatus::done);
    EXPECT_EQ(settle(id, cents(1), [&](SettleHold& body) { body.by = opener; }).status, HoldStatus::done);
    EXPECT_EQ(release(hold(cents(1), with_key)).status, HoldStatus::done) << "an operator may";
}

TEST_F(LedgerTest, a_key_of_the_same_agent_takes_over_when_the_opening_key_was_revoked) {
    make_agent("bob");
    apply(CreateKey{.id = "k1", .hash = "h", .scopes = {"agent"}, .agent = "ada", .run = {}, .budget = {}, .note = {}});
    const HoldId id = hold(cents(1), [](Reserve& body) { body.who.api_key = "k1"; });
    const Actor next{.kind = ActorKind::key, .key = "k2", .agent = "ada"};

    EXPECT_EQ(apply(ReleaseHold{id, next}).status, HoldStatus::not_your_hold);
    apply(RevokeKey{"k1"});
    EXPECT_EQ(apply(ReleaseHold{id, {.kind = ActorKind::key, .key = "k3", .agent = "bob"}}).status,
              HoldStatus::not_your_hold);
    EXPECT_EQ(apply(ReleaseHold{id, {.kind = ActorKind::key, .key = "k3", .agent = ""}}).status,
              HoldStatus::not_your_hold)
        << "a key that is bound to no agent is not of the same agent";
    EXPECT_EQ(apply(ReleaseHold{id, next}).status, HoldStatus::done);
}

TEST_F(LedgerTest, no_key_ends_a_hold_of_the_gateway) {
    const HoldId id = hold(cents(1), [](Reserve& body) { body.who.api_key = "k1", body.by_gateway = true; });
    const Actor same_key{.kind = ActorKind::key, .key = "k1", .agent = "ada"};

    EXPECT_EQ(settle(id, Money(), [&](SettleHold& body) { body.by = same_key; }).status, HoldStatus::not_your_hold);
    EXPECT_EQ(apply(ReleaseHold{id, same_key}).status, HoldStatus::not_your_hold);
    EXPECT_EQ(apply(ExtendHold{id, 60, false, same_key}).status, HoldStatus::not_your_hold);
    EXPECT_EQ(apply(ReleaseHold{id, {.kind = ActorKind::gateway}}).status, HoldStatus::done);
}

// ---- settlements that come late -----------------------------------------------------------------------------------

class LateTest : public MoneyTest {
 protected:
    HoldId gateway_hold(Money bound, RunId run = {}) {
        return hold(bound, [&](Reserve& body) {
            body.by_gateway = true;
            body.dispatched = true;
            body.bound.tokens = 1000;
            body.bound.calls = 1;
            body.who.run = run;
        });
    }
    SettleReply settle_late(HoldId id, Money cost, std::int64_t output_tokens) {
        SettleHold body;
        body.hold = id;
        body.cost = cost;
        body.usage.output_tokens = output_tokens;
        body.by = {.kind = ActorKind::gateway};
        return apply(body);
    }
};

TEST_F(LateTest, what_was_booked_at_the_bound_becomes_what_it_was) {
    make_budget("day", cents(100));
    make_budget("tokens", Money::nanos(5000), [](PutBudget& body) { body.metric = Metric::tokens; });
    const AdmitReply run = admit();
    const HoldId id = gateway_hold(cents(10), run.run);
    EXPECT_EQ(finish(run).status, RunStatus::done);
    ASSERT_EQ(window("day").settled, nanos(10)) << "at its bound";

    EXPECT_EQ(settle_late(id, cents(3), 200).status, HoldStatus::done);

    EXPECT_EQ(last_event().cost, -nanos(7));
    EXPECT_EQ(last_event().hold, id);
    EXPECT_EQ(window("day").settled, nanos(3));
    EXPECT_EQ(window("tokens").settled, 200);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(3));
    EXPECT_EQ(get<Run>(run.run).unknown, 0);
    EXPECT_EQ(get<Budget>("day").frozen, "");
    EXPECT_EQ(settle_late(id, cents(3), 200).status, HoldStatus::hold_closed) << "once";
    EXPECT_EQ(window("day").settled, nanos(3));
}

TEST_F(LateTest, an_estimate_is_corrected_as_one_until_it_is_known) {
    const AdmitReply run = admit();
    const HoldId id = gateway_hold(cents(10), run.run);
    EXPECT_EQ(finish(run).status, RunStatus::done);
    const CommandKey first = last_event().key;

    EXPECT_EQ(apply(CorrectCharge{.event = first, .to = cents(6), .why = "less"}).status, CorrectStatus::corrected);
    EXPECT_EQ(get<Run>(run.run).unknown, nanos(6));
    EXPECT_EQ(settle_late(id, cents(8), 200).status, HoldStatus::done);
    EXPECT_EQ(last_event().cost, nanos(2));
    EXPECT_EQ(get<Run>(run.run).unknown, 0);
    EXPECT_EQ(apply(CorrectCharge{.event = first, .to = cents(1), .why = "a gift"}).status, CorrectStatus::corrected);
    EXPECT_EQ(get<Run>(run.run).unknown, 0);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(1));
}

TEST_F(LateTest, what_costs_more_than_was_booked_is_overage_and_freezes) {
    make_budget("day", cents(100));
    const HoldId id = gateway_hold(cents(10));
    advance(60s);
    ASSERT_EQ(window("day").settled, nanos(10));

    const SettleReply reply = settle_late(id, cents(50), 200);

    EXPECT_EQ(reply.overage, cents(40));
    EXPECT_EQ(window("day").settled, nanos(50));
    EXPECT_NE(get<Budget>("day").frozen, "");
}

TEST_F(LateTest, what_an_operator_released_is_booked_whole) {
    make_budget("day", cents(100));
    const HoldId id = gateway_hold(cents(10));
    EXPECT_EQ(release(id).status, HoldStatus::done);

    EXPECT_EQ(settle_late(id, cents(4), 10).status, HoldStatus::done);

    EXPECT_EQ(window("day").settled, nanos(4));
    EXPECT_EQ(get<Hold>(id).state, HoldState::settled);
    EXPECT_EQ(get<Budget>("day").frozen, "") << "it stayed below its bound";
}

TEST_F(LateTest, a_report_that_cannot_be_is_booked_at_the_bound_and_marked) {
    const HoldId id = gateway_hold(cents(10));

    EXPECT_EQ(settle_late(id, Money::nanos(INT64_MAX), INT64_MAX).status, HoldStatus::done);

    EXPECT_EQ(last_event().cost, nanos(10));
    EXPECT_TRUE(last_event().estimated);
}

// ---- corrections --------------------------------------------------------------------------------------------------

TEST_F(LedgerTest, a_charge_is_corrected_downwards_and_counts_where_it_counted) {
    make_budget("day", cents(100));
    const AdmitReply run = admit();
    const CommandKey key = fresh_key();
    Charge body = charge_of(cents(50));
    body.who.run = run.run;
    apply_command(command_of(key, body));
    at(now + 24h);

    const auto reply = apply(CorrectCharge{.event = key, .to = cents(20), .why = "a typo"});

    EXPECT_EQ(reply.status, CorrectStatus::corrected);
    EXPECT_EQ(reply.cost, Money::nanos(-nanos(30)));
    EXPECT_EQ(window_at_time("day", now - 24h).settled, nanos(20));
    EXPECT_EQ(window("day").settled, 0);
    EXPECT_EQ(get<Run>(run.run).settled, nanos(20));
    ASSERT_EQ(told<ChargeCorrected>().size(), 1u);
    EXPECT_EQ(told<ChargeCorrected>()[0].cost, nanos(20));
    EXPECT_EQ(apply(CorrectCharge{.event = key, .to = Money(), .why = "all of it"}).status, CorrectStatus::corrected);
    EXPECT_EQ(get<Run>(run.run).settled, 0);
}

TEST_F(LedgerTest, a_correction_unfreezes_nothing) {
    make_budget("day", cents(10));
    const CommandKey key = fresh_key();
    Charge body = charge_of(cents(50));
    body.incurred = true;
    apply_command(command_of(key, body));
    ASSERT_NE(get<Budget>("day").frozen, "");

    EXPECT_EQ(apply(CorrectCharge{.event = key, .to = cents(1), .why = "wrong unit"}).status, CorrectStatus::corrected);

    EXPECT_NE(get<Budget>("day").frozen, "");
    EXPECT_EQ(apply(UnfreezeBudget{"day"}).status, BudgetStatus::done);
    EXPECT_EQ(charge(cents(9)).status, ChargeStatus::charged);
    EXPECT_EQ(charge(cents(1)).status, ChargeStatus::budget_exceeded);
}

TEST_F(LedgerTest, a_correction_is_refused_for_the_first_reason_in_the_order_of_its_status) {
    const CommandKey key = fresh_key();
    apply_command(command_of(key, charge_of(cents(5))));
    const CommandKey correction = fresh_key();
    apply_command(command_of(correction, CorrectCharge{.event = key, .to = cents(4), .why = "once"}));

    EXPECT_EQ(apply(CorrectCharge{.event = fresh_key(), .to = Money::nanos(-1), .why = "x"}).status,
              CorrectStatus::invalid_request);
    EXPECT_EQ(apply(CorrectCharge{.event = fresh_key(), .to = cents(1), .why = ""}).status,
              CorrectStatus::invalid_request);
    EXPECT_EQ(apply(CorrectCharge{.event = fresh_key(), .to = cents(1), .why = "x"}).status,
              CorrectStatus::charge_not_found);
    EXPECT_EQ(apply(CorrectCharge{.event = correction, .to = cents(1), .why = "x"}).status,
              CorrectStatus::invalid_request)
        << "a correction is not corrected";
    EXPECT_EQ(apply(CorrectCharge{.event = key, .to = cents(5), .why = "x"}).status, CorrectStatus::not_lower);
    EXPECT_EQ(apply(CorrectCharge{.event = key, .to = cents(4), .why = "x"}).status, CorrectStatus::not_lower);
    EXPECT_EQ(apply(CorrectCharge{.event = key, .to = Money::nanos(nanos(4) - 1), .why = "x"}).status,
              CorrectStatus::corrected);
}

}  // namespace
}  // namespace interlock::core
