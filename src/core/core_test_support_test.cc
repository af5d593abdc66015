// The check that runs after every command of every test here, checked itself: it is silent about an honest history and
// notices each lie.
#include "core/core_test_support.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/money_test_support.h"

namespace interlock::core {
namespace {

using namespace std::chrono_literals;

class CoreTestSupport : public MoneyTest {
 protected:
    // A bit of everything, committed.
    OrgRows honest_history() {
        make_budget("day", cents(100));
        make_budget("calls", Money::nanos(100), [](PutBudget& body) { body.metric = Metric::calls; });
        make_budget("gone", cents(100), [](PutBudget& body) { body.scope.agent = "ada"; });
        const SessionId session = make_session("ada");
        NewMessage hello;
        hello.id = fresh_message();
        hello.role = "user";
        Append turn;
        turn.session = session;
        turn.messages = {hello, hello};
        turn.messages[1].id = fresh_message();
        EXPECT_EQ(apply(turn).status, AppendStatus::appended);
        const AdmitReply live = admit_with(cents(20), [&](AdmitRun& body) {
            Place place;
            place.kind = ClaimKind::resource;
            place.path = "deploy";
            body.places = {place};
            body.who.session = session;
        });
        charge(cents(5), of_run(live.run));
        hold(cents(3), of_run(live.run));
        settle(hold(cents(2)), cents(2), [](SettleHold& body) { body.usage = {1, 2, 3, 4, 5, 6}; });
        hold(cents(4));
        finish(admit_with(cents(1)));
        apply(DeleteBudget{"gone"});
        commit();
        return source.orgs[org];
    }

    template <class Row>
    static Row& any(OrgRows& rows, const std::function<bool(const Row&)>& which = [](const Row&) { return true; }) {
        for (auto& [key, row] : rows.of<Row>()) {
            if (which(row)) return row;
        }
        ADD_FAILURE() << "no such row of " << Row::table;
        static Row none;
        return none;
    }
    static bool is_open(const Hold& hold) { return hold.state == HoldState::open; }
};

TEST_F(CoreTestSupport, rows_of_an_honest_history_do_not_contradict_each_other) {
    EXPECT_EQ(contradictions(honest_history()), std::vector<std::string>{});
}

TEST_F(CoreTestSupport, every_lie_is_noticed) {
    using Lie = std::pair<const char*, std::function<void(OrgRows&)>>;
    const auto money = [](const CostEvent& event) { return event.cost > 0; };
    const std::vector<Lie> lies{
        {"an event is lost", [](OrgRows& rows) { rows.of<CostEvent>().erase(rows.of<CostEvent>().begin()); }},
        {"an event costs more", [&](OrgRows& rows) { any<CostEvent>(rows, money).cost += 1; }},
        {"an event has other tokens", [&](OrgRows& rows) { any<CostEvent>(rows, money).usage.reasoning_tokens += 1; }},
        {"an event has other calls", [&](OrgRows& rows) { any<CostEvent>(rows, money).calls += 1; }},
        {"an event has another agent", [&](OrgRows& rows) { any<CostEvent>(rows, money).who.agent = "bob"; }},
        {"an event has no run",
         [](OrgRows& rows) {
             any<CostEvent>(rows, [](const CostEvent& event) { return !event.who.run.value.empty(); }).who.run = {};
         }},
        {"an event has another number", [&](OrgRows& rows) { any<CostEvent>(rows, money).seq.value += 100; }},
        {"an event has another hold", [&](OrgRows& rows) { any<CostEvent>(rows, money).hold = HoldId(Id{9, 9}); }},
        {"an overage is not marked", [&](OrgRows& rows) { any<CostEvent>(rows, money).overage = 1; }},
        {"an event is from the future", [&](OrgRows& rows) { any<CostEvent>(rows, money).counted_at += 1us; }},
        {"an agent's money", [](OrgRows& rows) { rows.of<AgentTotals>()["ada"].settled += 1; }},
        {"an agent's tokens", [](OrgRows& rows) { rows.of<AgentTotals>()["ada"].tokens -= 1; }},
        {"an agent's events", [](OrgRows& rows) { rows.of<AgentTotals>()["ada"].events += 1; }},
        {"an agent's last event", [](OrgRows& rows) { rows.of<AgentTotals>()["ada"].last_event_at += 1us; }},
        {"a run's money", [](OrgRows& rows) { any<Run>(rows).settled += 1; }},
        {"a run's tokens", [](OrgRows& rows) { any<Run>(rows).tokens += 1; }},
        {"a run's events", [](OrgRows& rows) { any<Run>(rows).events += 1; }},
        {"a run's unknown part", [](OrgRows& rows) { any<Run>(rows).unknown += 1; }},
        {"a session's money", [](OrgRows& rows) { any<Session>(rows).settled += 1; }},
        {"a session's events", [](OrgRows& rows) { any<Session>(rows).events += 1; }},
        {"a session's next message", [](OrgRows& rows) { any<Session>(rows).next_seq += 1; }},
        {"a message is lost", [](OrgRows& rows) { rows.of<Message>().erase(rows.of<Message>().begin()); }},
        {"a day's money", [](OrgRows& rows) { any<Rollup>(rows).cost += 1; }},
        {"a day's events", [](OrgRows& rows) { any<Rollup>(rows).events += 1; }},
        {"a day's calls", [](OrgRows& rows) { any<Rollup>(rows).calls += 1; }},
        {"a day's usage", [](OrgRows& rows) { any<Rollup>(rows).usage.cache_write_1h_tokens += 1; }},
        {"a day is lost", [](OrgRows& rows) { rows.of<Rollup>().clear(); }},
        {"a day that never was", [](OrgRows& rows) { rows.of<Rollup>()[{1, "ada", "", ""}] = {}; }},
        {"a window's settled",
         [](OrgRows& rows) { any<Window>(rows, [](const Window& row) { return row.budget == "day"; }).settled += 1; }},
        {"a window's held",
         [](OrgRows& rows) { any<Window>(rows, [](const Window& row) { return row.budget == "day"; }).held -= 1; }},
        {"a deleted budget's held",
         [](OrgRows& rows) { any<Window>(rows, [](const Window& row) { return row.budget == "gone"; }).held += 1; }},
        {"a window is lost",
         [](OrgRows& rows) {
             std::erase_if(rows.of<Window>(), [](const auto& row) { return row.second.budget == "calls"; });
         }},
        {"a window ends elsewhere", [](OrgRows& rows) { any<Window>(rows).end_at += 1us; }},
        {"a limit that was passed",
         [](OrgRows& rows) {
             any<Window>(rows, [](const Window& row) { return row.budget == "day"; }).limit_units = 1;
         }},
        {"a budget is lost", [](OrgRows& rows) { rows.of<Budget>().erase("day"); }},
        {"a hold holds less", [](OrgRows& rows) { any<Hold>(rows, is_open).parts.at(0).amount -= 1; }},
        {"a hold has no part", [](OrgRows& rows) { any<Hold>(rows, is_open).parts.clear(); }},
        {"a hold has two parts",
         [](OrgRows& rows) {
             auto& parts = any<Hold>(rows, is_open).parts;
             parts.push_back(parts.at(0));
         }},
        {"a hold of a deleted budget", [](OrgRows& rows) { any<Hold>(rows, is_open).parts.at(0).budget = "gone"; }},
        {"a hold that drew too much", [](OrgRows& rows) { any<Hold>(rows, is_open).parts.at(0).drawn += nanos(100); }},
        {"a run's hold that is too small",
         [](OrgRows& rows) {
             any<Hold>(rows, [](const Hold& hold) { return is_open(hold) && hold.for_run(); }).bound.usd += 1;
         }},
        {"an ended hold that holds",
         [](OrgRows& rows) {
             any<Hold>(rows, [](const Hold& hold) { return hold.state == HoldState::settled; }).parts.push_back({});
         }},
        {"a settled hold without an event",
         [](OrgRows& rows) {
             any<Hold>(rows, [](const Hold& hold) { return hold.state == HoldState::released; }).state =
                 HoldState::settled;
         }},
        {"an open hold is lost",
         [](OrgRows& rows) { std::erase_if(rows.of<Hold>(), [](const auto& row) { return is_open(row.second); }); }},
        {"a live run without its hold",
         [](OrgRows& rows) { any<Run>(rows, [](const Run& run) { return is_live(run.state); }).hold = {}; }},
        {"an ended run that lives",
         [](OrgRows& rows) {
             any<Run>(rows, [](const Run& run) { return has_ended(run.state); }).state = RunState::running;
         }},
        {"a live run that ended",
         [](OrgRows& rows) {
             any<Run>(rows, [](const Run& run) { return is_live(run.state); }).state = RunState::failed;
         }},
        {"a claim is lost", [](OrgRows& rows) { rows.of<Claim>().clear(); }},
        {"a claim of nobody", [](OrgRows& rows) { rows.of<Claim>()[{RunId(Id{9, 9}), 0}].run = RunId(Id{9, 9}); }},
        {"a page of the feed is lost",
         [](OrgRows& rows) { rows.of<FeedPage>().erase(std::next(rows.of<FeedPage>().begin())); }},
        {"a page of the feed was changed", [](OrgRows& rows) { any<FeedPage>(rows).at -= 1us; }},
        {"a page of the feed cannot be read", [](OrgRows& rows) { any<FeedPage>(rows).body.push_back('x'); }},
    };
    const OrgRows honest = honest_history();

    for (const auto& [name, lie] : lies) {
        OrgRows rows = honest;
        lie(rows);
        EXPECT_NE(rows.bytes(), honest.bytes()) << name;
        EXPECT_NE(contradictions(rows), std::vector<std::string>{}) << name;
    }
}

}  // namespace
}  // namespace interlock::core
