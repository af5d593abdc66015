// What all tests of the rules stand on: a state machine over rows in memory, driven by commands, watched after each
// one.
//
//   (1) apply() does what the engine does around a command: ticks that are due come first, a command that sums the
//   ledger
//       is the first of its batch, and a batch ends with a commit. One command is one batch, unless `batching` is set.
//   (2) After every command all rows are looked through for contradictions, by sums that share no code with the rules;
//       and a command that was refused, or was a repeat, must have left every row as it was. So each test of anything
//       is a test of both.
//
// A test reads rows only through find() and rows(): the committed ones, overlaid with what the batch has changed.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <boost/mp11/algorithm.hpp>

#include "base/codec.h"
#include "core/command.h"
#include "core/feed.h"
#include "core/key_of.h"
#include "core/org_state.h"
#include "core/reply.h"
#include "core/state_machine.h"

namespace interlock::core {

// ---- rows in memory -----------------------------------------------------------------------------------------------

// Every row of one org.
struct OrgRows {
    template <class Row>
    using Map = std::map<KeyOf<Row>, Row>;
    boost::mp11::mp_transform<Map, AllRows> maps;

    template <class Row>
    Map<Row>& of() & {
        return std::get<Map<Row>>(maps);
    }
    template <class Row>
    Map<Row> of() && {  // By value: a loop over rows().of<…>() would outlive what rows() gave.
        return std::get<Map<Row>>(std::move(maps));
    }
    template <class Row>
    const Map<Row>& of() const& {
        return std::get<Map<Row>>(maps);
    }
    template <class Row>
    std::optional<Row> find(const KeyOf<Row>& key) const {
        const auto found = of<Row>().find(key);
        return found == of<Row>().end() ? std::nullopt : std::optional(found->second);
    }
    // All rows as bytes, to see whether anything has changed.
    std::string bytes() const {
        std::string out;
        const auto put_all = [&](const auto& map) {
            for (const auto& [key, row] : map) Encoder(out).put(row);
            out.push_back('\n');
        };
        std::apply([&](const auto&... map) { (put_all(map), ...); }, maps);
        return out;
    }
};

// What a state would write, put on top of `rows`. True when there was anything.
inline bool collect_into(OrgState& state, OrgRows& rows) {
    bool any = false;
    state.collect(
        [&]<class Row>(const Row& row) {
            any = true;
            if (Row::life == Life::appended && rows.of<Row>().contains(key_of(row))) {
                ADD_FAILURE() << "a second row of '" << Row::table << "' under one key";
            }
            rows.of<Row>().insert_or_assign(key_of(row), row);
        },
        [&]<class Row>(const KeyOf<Row>& key) {
            any = true;
            rows.of<Row>().erase(key);
        });
    return any;
}

// Whether a scope means this, said once more in the test's own words.
inline bool is_meant(const Scope& scope, const Attribution& who) {
    const auto stated = [](const auto& wanted) { return wanted != std::remove_cvref_t<decltype(wanted)>{}; };
    if (stated(scope.agent) && scope.agent != who.agent) return false;
    if (stated(scope.workflow) && scope.workflow != who.workflow) return false;
    if (stated(scope.provider) && scope.provider != who.provider) return false;
    if (stated(scope.model) && scope.model != who.model) return false;
    if (stated(scope.api_key) && scope.api_key != who.api_key) return false;
    if (stated(scope.run) && scope.run != who.run) return false;
    if (stated(scope.session) && scope.session != who.session) return false;
    for (const auto& [name, value] : scope.tags) {
        if (!who.tags.contains(name) || who.tags.at(name) != value) return false;
    }
    return true;
}

inline std::int64_t all_tokens(const Usage& usage) {
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_5m_tokens +
           usage.cache_write_1h_tokens + usage.reasoning_tokens;
}

// What the ledger holds for a scope in a span, by walking all of it. What does not fit stays at the greatest number.
inline Amounts sum_of(const OrgRows& rows, const Scope& scope, Instant start, Instant end) {
    Amounts sum;
    const auto add = [](std::int64_t& to, std::int64_t amount) {
        if (__builtin_add_overflow(to, amount, &to)) to = INT64_MAX;
    };
    for (const auto& [key, event] : rows.of<CostEvent>()) {
        if (!is_meant(scope, event.who) || event.counted_at < start || event.counted_at >= end) continue;
        add(sum.usd, event.cost);
        add(sum.tokens, all_tokens(event.usage));
        add(sum.calls, event.calls);
    }
    for (const auto& [id, run] : rows.of<Run>()) {
        const bool was_admitted = run.admitted_at != far_past;
        if (was_admitted && is_meant(scope, run.who) && run.admitted_at >= start && run.admitted_at < end)
            sum.runs += 1;
    }
    return sum;
}

// The committed rows of all orgs.
class MapSource final : public RowSource {
 public:
    bool load(OrgId org, ColdRow& row) override {
        if (fails) return false;
        return std::visit(
            [&]<class Row>(Row& asked) {
                const auto found = orgs[org].find<Row>(key_of(asked));
                if (found) asked = *found;
                return found.has_value();
            },
            row);
    }
    Amounts sum(OrgId org, const Scope& scope, WindowSpan span) override {
        return fails ? Amounts{} : sum_of(orgs[org], scope, span.start, span.end);
    }
    std::vector<OpenSessions> open_sessions(OrgId org) override {
        std::vector<OpenSessions> found = more_sessions;
        if (fails) return {};
        for (const auto& [id, session] : orgs[org].of<Session>()) {
            if (!session.closed) found.push_back({session.agent, session.api_key, 1});
        }
        return found;
    }
    bool failed() const override { return fails; }

    std::map<OrgId, OrgRows> orgs;
    bool fails = false;                       // From now on no question can be answered.
    std::vector<OpenSessions> more_sessions;  // Without rows, for limits that take very many.
};

// ---- the naive check ----------------------------------------------------------------------------------------------

// What was written down of the past: marks of what was settled when, and the steps of runs.
inline std::vector<std::string> contradictions_of_history(const OrgRows& rows) {
    std::vector<std::string> found;
    std::map<Instant, std::int64_t> minutes;
    std::int64_t corrected = 0;  // By so much a counter may have fallen since a mark.
    for (const auto& [key, event] : rows.of<CostEvent>()) {
        if (event.cost < 0) corrected += -event.cost;
        if (event.cost != 0) minutes[std::chrono::floor<std::chrono::minutes>(event.at)] += event.cost;
    }

    std::int64_t before = 0;
    std::size_t of_org = 0;
    std::map<KeyOf<Window>, std::int64_t> last;
    for (const auto& [key, mark] : rows.of<SpendMark>()) {
        if (!mark.budget.empty()) {
            const auto window = rows.find<Window>({mark.budget, mark.start_at});
            const auto [earlier, first] = last.try_emplace({mark.budget, mark.start_at}, -1);
            const bool fell =
                corrected == 0 ? mark.settled <= earlier->second : mark.settled < earlier->second - corrected;
            if (fell) found.push_back("a mark says less than the one before it");
            const bool above = !window || (corrected == 0 ? mark.settled >= window->settled
                                                          : mark.settled > window->settled + corrected);
            if (above) {
                found.push_back("a mark says more than its window");
            }
            if (window && mark.at >= window->end_at) found.push_back("a mark is of a time after its window");
            earlier->second = mark.settled;
        } else if (const auto minute = minutes.find(mark.at); minute != minutes.end()) {
            if (mark.settled != before)
                found.push_back(fmt::format("a minute began with {}, not {}", before, mark.settled));
            before += minute->second;
            ++of_org;
        } else {
            found.push_back("a minute is marked in which nothing was spent");
        }
    }
    if (of_org != minutes.size()) found.push_back("a minute is not marked in which something was spent");

    std::map<RunId, RunStep> steps;
    for (const auto& [key, step] : rows.of<RunStep>()) {
        RunStep& earlier = steps[step.run];
        if (step.number != earlier.number + 1) found.push_back("a run's steps have a gap");
        if (step.at < earlier.at) found.push_back("a run's steps go back in time");
        earlier = step;
    }
    for (const auto& [id, run] : rows.of<Run>()) {
        if (run.steps == 0) found.push_back("a run has no steps");
        if (run.steps != steps[id].number) found.push_back("a run has not as many steps as it says");
        if (run.state != steps[id].state) found.push_back("a run's last step is not its state");
    }
    return found;
}

// Every way in which these rows contradict each other, as sentences. It recomputes all counters from the cost events
// and the open holds, and shares nothing with the rules but the shape of the rows and the calendar.
inline std::vector<std::string> contradictions(const OrgRows& rows) {
    std::vector<std::string> found = contradictions_of_history(rows);
    const auto expect_equal = [&](std::string_view what, const auto& stored, const auto& computed) {
        if (stored != computed) found.push_back(fmt::format("{} is {}, but comes to {}", what, stored, computed));
    };

    // Agents, runs, sessions and days.
    std::map<std::string, AgentTotals> agents;
    std::map<RunId, Run> runs;
    std::map<SessionId, Session> sessions;
    std::map<KeyOf<Rollup>, Rollup> days;
    std::map<HoldId, int> settled_by;
    std::map<CommandKey, std::int64_t> corrected;
    std::set<CommandKey> known;  // Estimates of which the gateway has said later what they were.
    std::set<Seq> seqs;
    for (const auto& [key, event] : rows.of<CostEvent>()) {
        AgentTotals& agent = agents[event.who.agent];
        agent.settled += event.cost;
        agent.tokens += all_tokens(event.usage);
        agent.events += 1;
        agent.last_event_at = std::max(agent.last_event_at, event.at);
        Run& run = runs[event.who.run];
        run.settled += event.cost;
        run.tokens += all_tokens(event.usage);
        run.events += 1;
        run.unknown += event.estimated ? event.cost : 0;
        Session& session = sessions[event.who.session];
        session.settled += event.cost;
        session.events += 1;
        Rollup& day = days[{utc_day(event.counted_at), event.who.agent, event.who.provider, event.who.model}];
        day.cost += event.cost;
        day.events += 1;
        day.calls += event.calls;
        day.usage.input_tokens += event.usage.input_tokens;
        day.usage.output_tokens += event.usage.output_tokens;
        day.usage.cache_read_tokens += event.usage.cache_read_tokens;
        day.usage.cache_write_5m_tokens += event.usage.cache_write_5m_tokens;
        day.usage.cache_write_1h_tokens += event.usage.cache_write_1h_tokens;
        day.usage.reasoning_tokens += event.usage.reasoning_tokens;
        if (!event.hold.value.empty() && event.corrects.value.empty()) settled_by[event.hold] += 1;
        if (!event.corrects.value.empty()) corrected[event.corrects] += event.cost;
        if (!event.corrects.value.empty() && !event.hold.value.empty()) known.insert(event.corrects);
        if (!seqs.insert(event.seq).second)
            found.push_back(fmt::format("two cost events have seq {}", event.seq.value));
        if ((event.cost < 0 && event.corrects.value.empty()) || event.overage < 0) {
            found.push_back("a cost event is negative");
        }
        if (event.overage > 0 && !event.over_limit)
            found.push_back("a cost event has an overage and is not over a limit");
        if (event.counted_at > event.at) found.push_back("a cost event counts in the future");
        if (!rows.of<AgentTotals>().contains(event.who.agent)) found.push_back("a cost event is of an unknown agent");
    }
    for (const auto& [key, event] : rows.of<CostEvent>()) {
        const bool of_known = known.contains(key) || known.contains(event.corrects);
        if (event.estimated && of_known) runs[event.who.run].unknown -= event.cost;
    }
    expect_equal("the number of corrected events", rows.of<CorrectedCost>().size(), corrected.size());
    for (const auto& [key, corrections] : corrected) {
        const auto first = rows.find<CostEvent>(key);
        const auto row = rows.find<CorrectedCost>(key);
        if (!first || !row) {
            found.push_back("a correction is of an event that is not there, or is not counted");
            continue;
        }
        expect_equal("a corrected event", row->cost, first->cost + corrections);
        if (row->cost < 0) found.push_back("an event was corrected to less than nothing");
    }
    for (const auto& [name, totals] : rows.of<AgentTotals>()) {
        expect_equal("agent " + name + " settled", totals.settled, agents[name].settled);
        expect_equal("agent " + name + " tokens", totals.tokens, agents[name].tokens);
        expect_equal("agent " + name + " events", totals.events, agents[name].events);
        expect_equal("agent " + name + " last event", micros(totals.last_event_at), micros(agents[name].last_event_at));
    }
    for (const auto& [id, run] : rows.of<Run>()) {
        const std::string name = to_text("run", id.value);
        expect_equal(name + " settled", run.settled, runs[id].settled);
        expect_equal(name + " tokens", run.tokens, runs[id].tokens);
        expect_equal(name + " events", run.events, runs[id].events);
        expect_equal(name + " unknown", run.unknown, runs[id].unknown);
    }
    for (const auto& [id, session] : rows.of<Session>()) {
        const std::string name = to_text("ses", id.value);
        expect_equal(name + " settled", session.settled, sessions[id].settled);
        expect_equal(name + " events", session.events, sessions[id].events);
    }
    expect_equal("the number of rollups", rows.of<Rollup>().size(), days.size());
    for (const auto& [key, day] : rows.of<Rollup>()) {
        const std::string name = fmt::format("day {} of {}/{}/{}", day.day, day.agent, day.provider, day.model);
        expect_equal(name + " cost", day.cost, days[key].cost);
        expect_equal(name + " events", day.events, days[key].events);
        expect_equal(name + " calls", day.calls, days[key].calls);
        if (day.usage != days[key].usage) found.push_back(name + " has another usage than its events");
    }

    // Holds and budgets.
    std::map<KeyOf<Window>, std::int64_t> held;
    for (const auto& [id, hold] : rows.of<Hold>()) {
        const std::string name = to_text("hold", id.value);
        expect_equal(name + " settled by", settled_by[id], hold.state == HoldState::settled ? 1 : 0);
        if (hold.state != HoldState::open) {
            if (!hold.parts.empty()) found.push_back(name + " has ended and still holds");
            continue;
        }
        std::set<std::string> budgets;
        for (const HoldPart& part : hold.parts) {
            held[{part.budget, part.window}] += part.amount;
            const auto budget = rows.find<Budget>(part.budget);
            if (!budgets.insert(part.budget).second) found.push_back(name + " has two parts of one budget");
            if (!budget || budget->deleted) found.push_back(name + " holds a budget that is not there");
            if (budget && !is_meant(budget->scope, hold.who))
                found.push_back(name + " holds a budget that is not its own");
            if (part.drawn < 0 || (!hold.for_run() && part.amount < part.drawn)) {
                found.push_back(name + " has drawn more than it holds");
            }
            if (budget && !hold.for_run() && part.amount != hold.bound.of(budget->metric)) {
                found.push_back(name + " holds another amount than its bound");
            }
            if (budget && hold.for_run() && part.amount < hold.bound.of(budget->metric)) {
                found.push_back(name + " could come to more than is held for it");
            }
        }
        for (const auto& [budget_name, budget] : rows.of<Budget>()) {
            if (budget.deleted || !is_meant(budget.scope, hold.who) || hold.bound.of(budget.metric) == 0) continue;
            const WindowSpan span = window_at(budget.window, *find_zone(budget.zone), hold.created_at);
            if (span.end <= budget.created_at) continue;
            if (!budgets.contains(budget_name)) found.push_back(name + " holds nothing of budget " + budget_name);
        }
    }
    for (const auto& [hold, times] : settled_by) {
        if (!rows.of<Hold>().contains(hold)) found.push_back("a cost event settled a hold that is not there");
    }
    for (const auto& [key, amount] : held) {
        if (!rows.of<Window>().contains(key)) found.push_back("a hold stands in a window that is not there");
    }
    for (const auto& [key, window] : rows.of<Window>()) {
        const auto& [budget_name, start] = key;
        const std::string name = fmt::format("window {} of budget {}", to_iso8601(start), budget_name);
        const auto budget = rows.find<Budget>(budget_name);
        if (!budget) {
            found.push_back(name + " has no budget");
            continue;
        }
        expect_equal(name + " held", window.held, held[key]);
        const WindowSpan span = window_at(budget->window, *find_zone(budget->zone), start);
        if (span.start != window.start_at || span.end != window.end_at) found.push_back(name + " is no window");
        // What a budget counted before it was deleted stays as it was, while the ledger goes on.
        if (budget->deleted || window.end_at <= budget->created_at) continue;
        expect_equal(name + " settled", window.settled,
                     sum_of(rows, budget->scope, window.start_at, window.end_at).of(budget->metric));
        if (!window.hard) continue;
        std::int64_t excused = window.grace;
        for (const auto& [event_key, event] : rows.of<CostEvent>()) {
            if (!is_meant(budget->scope, event.who) || event.counted_at < start || event.counted_at >= window.end_at)
                continue;
            const Amounts amounts{event.cost, all_tokens(event.usage), event.calls, 0};
            if (event.over_limit) excused += budget->metric == Metric::usd ? event.overage : amounts.of(budget->metric);
        }
        if (window.settled + window.held > window.limit_units + excused) {
            found.push_back(fmt::format("{}: {} settled and {} held pass the limit {}, of which {} are excused", name,
                                        window.settled, window.held, window.limit_units, excused));
        }
    }
    for (const auto& [name, budget] : rows.of<Budget>()) {
        if (budget.deleted) continue;
        for (const auto& [key, event] : rows.of<CostEvent>()) {
            const Amounts amounts{event.cost, all_tokens(event.usage), event.calls, 0};
            if (event.counted_at < budget.created_at || !is_meant(budget.scope, event.who)) continue;
            const WindowSpan span = window_at(budget.window, *find_zone(budget.zone), event.counted_at);
            if (amounts.of(budget.metric) > 0 && !rows.of<Window>().contains({name, span.start})) {
                found.push_back("budget " + name + " has no window for an event that it covers");
            }
        }
    }

    // Runs hold what they hold exactly while they are live.
    std::map<RunId, std::size_t> claims;
    for (const auto& [key, claim] : rows.of<Claim>()) claims[claim.run] += 1;
    for (const auto& [id, run] : rows.of<Run>()) {
        const std::string name = to_text("run", id.value);
        expect_equal(name + " claims", claims[id], is_live(run.state) ? run.wanted.size() : 0u);
        claims.erase(id);
        const auto own = rows.find<Hold>(run.hold);
        const bool holds = own && own->state == HoldState::open;
        const bool should_hold = is_live(run.state) && run.hold_bound != Amounts{};
        if (holds != should_hold)
            found.push_back(name + (holds ? " holds money and should not" : " holds no money and should"));
        std::int64_t below = 0;
        for (const auto& [other_id, other] : rows.of<Run>()) {
            for (auto at = rows.find<Run>(other.parent); at; at = rows.find<Run>(at->parent)) {
                if (at->id == id) below += other.settled;
            }
        }
        expect_equal(name + " settled below", run.settled_below, below);
        const auto parent = rows.find<Run>(run.parent);
        if (parent.has_value() == run.parent.value.empty()) found.push_back(name + " has a parent that is not there");
        if (parent && run.root != (parent->root.value.empty() ? parent->id : parent->root)) {
            found.push_back(name + " has another root than its parent");
        }
        if (parent && has_ended(parent->state) && !has_ended(run.state) && run.stop_requested.empty()) {
            found.push_back(name + " goes on after its parent");
        }
        if (is_live(run.state)) continue;
        for (const auto& [hold_id, hold] : rows.of<Hold>()) {
            if (hold.who.run == id && hold.state == HoldState::open)
                found.push_back(name + " is not live and has an open hold");
        }
    }
    for (const auto& [run, count] : claims) {
        if (count > 0) found.push_back("a claim is of a run that is not there");
    }

    // The messages of a session.
    for (const auto& [id, session] : rows.of<Session>()) {
        std::int64_t next = session.first_seq;
        const auto& messages = rows.of<Message>();
        for (auto it = messages.lower_bound({id, 0}); it != messages.end() && it->second.session == id; ++it) {
            expect_equal(to_text("ses", id.value) + "'s next message", it->second.seq, next);
            next = it->second.seq + 1;
        }
        expect_equal(to_text("ses", id.value) + " next_seq", session.next_seq, next);
    }

    // The feed: one chain, and each charge in it once.
    std::string hash;
    std::int64_t last_seq = 0;
    Instant last_at = far_past;
    std::size_t charges = 0;
    for (const auto& [key, page] : rows.of<FeedPage>()) {
        const auto events = events_of(page);
        if (!events) {
            found.push_back("a feed page cannot be read");
            continue;
        }
        expect_equal("a page's first seq", page.first_seq.value, last_seq + 1);
        expect_equal("a page's last seq", page.last_seq.value, last_seq + static_cast<std::int64_t>(events->size()));
        const Sha256 expected = hash_page(hash, page);
        if (page.hash != std::string(expected.begin(), expected.end())) found.push_back("the feed's chain is broken");
        if (page.at < last_at) found.push_back("the feed's time goes back");
        for (const Event& event : *events) {
            ++last_seq;
            const auto* charged = std::get_if<Charged>(&event);
            if (charged == nullptr) continue;
            ++charges;
            const auto row = rows.find<CostEvent>(charged->key);
            if (!row || row->seq.value != last_seq || row->cost != charged->cost) {
                found.push_back(fmt::format("event {} of the feed has no cost event", last_seq));
            }
        }
        hash = page.hash;
        last_at = page.at;
    }
    std::size_t sealed = 0;
    for (const Seq seq : seqs) sealed += seq.value <= last_seq ? 1 : 0;
    expect_equal("the number of charges in the feed", charges, sealed);
    return found;
}

// ---- the fixture --------------------------------------------------------------------------------------------------

namespace reply_detail {
template <class Body, class... Bodies>
constexpr bool one_of = (std::is_same_v<Body, Bodies> || ...);

template <class Body>
auto reply_to() {
    if constexpr (one_of<Body, CreateOrg>)
        return OrgReply{};
    else if constexpr (one_of<Body, PutAgent, PauseAgent, ResumeAgent, ArchiveAgent>)
        return AgentReply{};
    else if constexpr (one_of<Body, CreateKey, RevokeKey>)
        return KeyReply{};
    else if constexpr (one_of<Body, SetCap>)
        return CapReply{};
    else if constexpr (one_of<Body, PutBudget, DeleteBudget, UnfreezeBudget>)
        return BudgetReply{};
    else if constexpr (one_of<Body, Charge>)
        return ChargeReply{};
    else if constexpr (one_of<Body, Reserve>)
        return ReserveReply{};
    else if constexpr (one_of<Body, ExtendHold, ReleaseHold>)
        return HoldReply{};
    else if constexpr (one_of<Body, SettleHold>)
        return SettleReply{};
    else if constexpr (one_of<Body, CreateSession, ForkSession, CloseSession>)
        return SessionReply{};
    else if constexpr (one_of<Body, Append>)
        return AppendReply{};
    else if constexpr (one_of<Body, AdmitRun>)
        return AdmitReply{};
    else if constexpr (one_of<Body, StartRun, HeartbeatRun, PauseRun, ResumeRun, FinishRun, CancelRun, LoseRun,
                              RestatePlaces, RecordConnection>)
        return RunReply{};
    else if constexpr (one_of<Body, PutSchedule, DeleteSchedule, EnableSchedule>)
        return ScheduleReply{};
    else if constexpr (one_of<Body, Wake>)
        return WakeReply{};
    else if constexpr (one_of<Body, PutWorktree, DropWorktree>)
        return WorktreeReply{};
    else if constexpr (one_of<Body, PutSetting, DropSetting>)
        return SettingReply{};
    else if constexpr (one_of<Body, RecordCalls>)
        return CallsReply{};
    else if constexpr (one_of<Body, CorrectCharge>)
        return CorrectReply{};
    else
        return TickReply{};
}
}  // namespace reply_detail

// The kind of reply that a kind of command gets.
template <class Body>
using ReplyTo = decltype(reply_detail::reply_to<Body>());

class CoreTest : public testing::Test {
 protected:
    using Run = core::Run;  // Rather than testing::Test::Run, which is private.
    static constexpr OrgId org{1};
    // A Monday, at noon.
    static constexpr Instant start = std::chrono::sys_days(std::chrono::year(2026) / 3 / 2) + std::chrono::hours(12);

    // There is an org, and nothing in it.
    CoreTest() { apply(CreateOrg{"acme"}); }

    // ---- commands ----

    // Applies the command under a new key. The reply has the type that belongs to the command.
    template <class Body>
    ReplyTo<Body> apply(const Body& body) {
        const Applied applied = apply_with(fresh_key(), body);
        EXPECT_FALSE(applied.repeated || applied.key_reused);
        const auto* reply = std::get_if<ReplyTo<Body>>(&applied.reply);
        if (reply == nullptr) {
            ADD_FAILURE() << "the reply is of the kind " << applied.reply.index();
            return {};
        }
        return *reply;
    }

    // The same under a key of the test's choice.
    Applied apply_with(CommandKey key, const CommandBody& body) { return apply_command(command_of(key, body)); }

    Applied apply_command(const Command& command) {
        tick_what_is_due();
        if (reads_ledger(command.body)) commit();
        const OrgRows before = rows();
        const bool was_clean = !has_changes();
        Applied applied = machine.apply({now}, command);
        const bool may_change = succeeded(applied.reply) && !applied.repeated && !applied.key_reused;
        if (!may_change && !is_passing_of_time(command.body) && !may_exhaust(applied.reply)) {
            EXPECT_EQ(rows().bytes(), before.bytes()) << "a refused or repeated command changed something";
            EXPECT_FALSE(was_clean && has_changes()) << "a refused or repeated command has something to write";
        }
        if (!batching) commit();
        check();
        return applied;
    }

    Command command_of(CommandKey key, const CommandBody& body) const {
        return {.org = org, .key = key, .body = body, .fingerprint = fingerprint_of(body)};
    }

    // ---- time ----

    // Moves the clock and lets everything happen that is due by then. What the ticks did, added up.
    TickReply at(Instant instant) {
        now = instant;
        return tick_what_is_due();
    }
    TickReply advance(Duration duration) { return at(now + duration); }

    // ---- ids ----

    // Time-ordered and rising, as clients make them.
    Id fresh_id() { return time_ordered_id(now, 0, ++ids_made_); }
    CommandKey fresh_key() { return CommandKey(fresh_id()); }
    HoldId fresh_hold() { return HoldId(fresh_id()); }
    RunId fresh_run() { return RunId(fresh_id()); }
    SessionId fresh_session() { return SessionId(fresh_id()); }
    MessageId fresh_message() { return MessageId(fresh_id()); }

    // ---- rows ----

    // Everything, as it will be once the batch is committed.
    OrgRows rows() {
        OrgRows all = source.orgs[org];
        collect_into(state(), all);
        return all;
    }
    template <class Row>
    std::optional<Row> find(const KeyOf<Row>& key) {
        return rows().find<Row>(key);
    }
    // The row, which must be there.
    template <class Row>
    Row get(const KeyOf<Row>& key) {
        const auto row = find<Row>(key);
        EXPECT_TRUE(row.has_value()) << "there is no such row of " << Row::table;
        return row.value_or(Row{});
    }
    bool has_changes() { return state().has_changes(); }

    // Everything that the feed has told so far, with the numbers 1, 2, 3, …
    std::vector<Event> feed() {
        commit();
        std::vector<Event> all;
        for (const auto& [seq, page] : source.orgs[org].of<FeedPage>()) {
            const auto events = events_of(page);
            EXPECT_TRUE(events.has_value());
            if (events) all.insert(all.end(), events->begin(), events->end());
        }
        return all;
    }
    template <class Kind>
    std::vector<Kind> told() {
        std::vector<Kind> found;
        for (const Event& event : feed()) {
            if (const auto* kind = std::get_if<Kind>(&event)) found.push_back(*kind);
        }
        return found;
    }

    // ---- the store's part ----

    // Ends the batch, as the engine does.
    void commit() {
        for (auto& [id, org_state] : machine.orgs()) {
            if (!org_state->has_changes()) continue;
            OrgRows& committed = source.orgs[id];
            collect_into(*org_state, committed);
            if (org_state->feed.has_page()) {
                const FeedPage& page = org_state->feed.seal(now);
                committed.of<FeedPage>().insert_or_assign(page.last_seq, page);
            }
            org_state->committed();
        }
    }

    // Forgets everything that is only in memory and reads it back. Whatever was not committed is lost. The engine says
    // Reopened afterwards; a test that wants it applies it.
    void reload() {
        Id newest;
        for (const auto& [id, all] : source.orgs) {
            for (const auto& [key, row] : all.of<StoredReply>())
                newest = is_time_ordered(key.value) ? std::max(newest, key.value) : newest;
            for (const auto& [key, row] : all.of<CostEvent>())
                newest = is_time_ordered(key.value) ? std::max(newest, key.value) : newest;
        }
        machine.forget_everything(newest);
        for (const auto& [id, all] : source.orgs) {
            OrgState& org_state = machine.org(id);
            const auto adopt_all = [&](const auto& map) {
                for (const auto& [key, row] : map) org_state.adopt(row);
            };
            adopt_all(all.of<Org>());
            adopt_all(all.of<Agent>());
            adopt_all(all.of<AgentTotals>());
            adopt_all(all.of<ApiKey>());
            adopt_all(all.of<Cap>());
            adopt_all(all.of<Budget>());
            for (const auto& [key, run] : all.of<Run>()) {
                if (!has_ended(run.state)) org_state.adopt(run);
            }
            adopt_all(all.of<Claim>());
            for (const auto& [key, hold] : all.of<Hold>()) {
                if (hold.state == HoldState::open) org_state.adopt(hold);
            }
            adopt_all(all.of<Schedule>());
            adopt_all(all.of<Worktree>());
            adopt_all(all.of<Setting>());
            if (!all.of<FeedPage>().empty()) org_state.adopt(all.of<FeedPage>().rbegin()->second);
        }
    }

    // ---- what most tests begin with ----

    // An agent that works, with room for many runs.
    void make_agent(const std::string& name, std::int32_t max_concurrent_runs = 100) {
        const auto reply =
            apply(PutAgent{.name = name, .command = {}, .max_concurrent_runs = max_concurrent_runs, .tags = {}});
        EXPECT_EQ(reply.status, AgentStatus::done) << reply.detail;
    }
    SessionId make_session(const std::string& agent) {
        const SessionId session = fresh_session();
        const auto reply = apply(CreateSession{.session = session, .agent = agent, .title = {}, .metadata = {}});
        EXPECT_EQ(reply.status, SessionStatus::done) << reply.detail;
        return session;
    }

    void check() {
        const OrgRows all = rows();
        for (const std::string& contradiction : contradictions(all)) ADD_FAILURE() << contradiction;
        std::size_t open = 0;
        for (const OpenSessions& more : source.more_sessions) open += static_cast<std::size_t>(more.count);
        for (const auto& [id, session] : all.of<Session>()) open += session.closed ? 0 : 1;
        EXPECT_EQ(source.fails ? open : state().open_sessions(), open) << "sessions that are not closed";
    }

    Instant now = start;
    bool batching = false;
    MapSource source;
    StateMachine machine{source};

 private:
    OrgState& state() { return machine.org(org); }

    static bool is_passing_of_time(const CommandBody& body) {
        return std::holds_alternative<Tick>(body) || std::holds_alternative<Reopened>(body);
    }

    // A budget that has refused may do what it does when it is exhausted: the one change that a refusal can make.
    bool may_exhaust(const Reply& reply) {
        const auto may = [&](const std::optional<BudgetRefusal>& refusal) {
            if (!refusal) return false;
            const auto budget = find<Budget>(refusal->budget);  // A run's own ceiling is none.
            return budget && budget->on_exhausted != OnExhausted::refuse;
        };
        if (const auto* charge = std::get_if<ChargeReply>(&reply)) return may(charge->budget);
        if (const auto* reserve = std::get_if<ReserveReply>(&reply)) return may(reserve->budget);
        if (const auto* admit = std::get_if<AdmitReply>(&reply)) return may(admit->budget);
        if (const auto* wake = std::get_if<WakeReply>(&reply)) return may(wake->admit.budget);
        return false;
    }

    TickReply tick_what_is_due() {
        TickReply sum;
        while (state().first_deadline() && state().first_deadline()->at <= now) {
            const auto reply = std::get<TickReply>(machine.apply({now}, command_of({}, Tick{})).reply);
            sum.expired_holds += reply.expired_holds;
            sum.lost_runs += reply.lost_runs;
            sum.fired += reply.fired;
            sum.resumed_agents += reply.resumed_agents;
            if (!batching) commit();
            check();
        }
        return sum;
    }

    std::uint64_t ids_made_ = 0;
};

}  // namespace interlock::core
