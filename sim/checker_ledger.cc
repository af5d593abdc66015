// P1, exact ledger: every counter in the rows is added up again from the cost events, the runs and the open holds.
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/calendar.h"
#include "sim/checker.h"
#include "sim/history.h"
#include "sim/scopes.h"

namespace interlock::sim {
namespace {

using namespace core;

using Sum = __int128;

struct UsageSum {
    Sum cost = 0, events = 0, calls = 0, tokens = 0, unknown = 0;
    Sum input = 0, output = 0, cache_read = 0, cache_5m = 0, cache_1h = 0, reasoning = 0;
    Instant last_at = far_past;

    // `known_by_now`: the gateway has said later what an estimate was.
    void add(const CostEvent& event, bool known_by_now) {
        const Usage& usage = event.usage;
        cost += event.cost;
        events += 1;
        calls += event.calls;
        input += usage.input_tokens;
        output += usage.output_tokens;
        cache_read += usage.cache_read_tokens;
        cache_5m += usage.cache_write_5m_tokens;
        cache_1h += usage.cache_write_1h_tokens;
        reasoning += usage.reasoning_tokens;
        tokens += tokens_in(usage);
        if (event.estimated && !known_by_now) unknown += event.cost;
        last_at = std::max(last_at, event.at);
    }
};

// A stretch of the feed during which a budget was in force.
struct Life {
    std::int64_t from_seq = 0;
    std::int64_t to_seq = INT64_MAX;
    Instant created_at;
};

struct WindowSum {
    const Window* row = nullptr;
    Sum settled = 0;
    Sum held = 0;
};

class LedgerChecker : public Checker {
 public:
    void committed(World& world, const store::WriteSet& writes) override;
    void check(World& world, const Rows& rows) override;

 private:
    using BudgetKey = std::pair<OrgId, std::string>;

    void check_totals(World& world, const Rows& rows);
    void check_windows(World& world, const Rows& rows);
    // Whether something that happened as event `seq` and counts at `at` is in the sums of this window.
    bool counts(const std::vector<Life>& lives, const Window& window, std::int64_t seq) const;

    std::map<BudgetKey, std::vector<Life>> lives_;
};

void LedgerChecker::committed(World&, const store::WriteSet& writes) {
    for (const store::OrgWrites& of_org : writes.orgs) {
        const auto& budgets = of_org.of<Budget>().put;
        if (budgets.empty()) continue;
        std::vector<Event> events;
        std::int64_t seq = 0;
        for (const FeedPage* page : of_org.of<FeedPage>().put) {
            read_events(page->body, events);
            seq = page->first_seq.value;
        }
        for (const Event& event : events) {
            if (const auto* changed = std::get_if<BudgetChanged>(&event)) {
                auto& lives = lives_[{of_org.org, changed->budget}];
                const auto row = std::ranges::find(budgets, changed->budget,
                                                   [](const Budget* b) -> const std::string& { return b->name; });
                const bool in_force = !lives.empty() && lives.back().to_seq == INT64_MAX;
                if (!in_force && row != budgets.end())
                    lives.push_back({.from_seq = seq, .created_at = (*row)->created_at});
            } else if (const auto* deleted = std::get_if<BudgetDeleted>(&event)) {
                auto& lives = lives_[{of_org.org, deleted->budget}];
                if (!lives.empty()) lives.back().to_seq = seq;
            }
            ++seq;
        }
    }
}

void LedgerChecker::check(World& world, const Rows& rows) {
    check_totals(world, rows);
    check_windows(world, rows);
}

// ---- agents, runs, sessions, days ---------------------------------------------------------------------------------

void LedgerChecker::check_totals(World& world, const Rows& rows) {
    std::map<std::pair<OrgId, std::string>, UsageSum> agents;
    std::map<std::pair<OrgId, Id>, UsageSum> runs, sessions;
    std::map<std::tuple<OrgId, std::int64_t, std::string, std::string, std::string>, UsageSum> days;
    std::set<std::pair<OrgId, CommandKey>> known;
    for (const auto& [key, event] : rows.rows<CostEvent>()) {
        const bool late = !event.corrects.value.empty() && !event.hold.value.empty();
        if (late && !event.estimated) known.insert({key.first, event.corrects});
    }
    for (const auto& [key, event] : rows.rows<CostEvent>()) {
        const OrgId org = key.first;
        const bool known_by_now = known.contains({org, event.corrects.value.empty() ? event.key : event.corrects});
        agents[{org, event.who.agent}].add(event, known_by_now);
        if (!event.who.run.value.empty()) runs[{org, event.who.run.value}].add(event, known_by_now);
        if (!event.who.session.value.empty()) sessions[{org, event.who.session.value}].add(event, known_by_now);
        const std::int64_t day = std::chrono::floor<std::chrono::days>(event.counted_at).time_since_epoch().count();
        days[{org, day, event.who.agent, event.who.provider, event.who.model}].add(event, known_by_now);
    }

    const auto differ = [&](const std::string& what, const std::string& column, std::int64_t row, Sum sum) {
        if (row != sum) {
            world.violated(Promise::exact_ledger, fmt::format("{}: {} is {}, its events add up to {}", what, column,
                                                              row, static_cast<std::int64_t>(sum)));
        }
    };
    for (const auto& [key, row] : rows.rows<AgentTotals>()) {
        const UsageSum& sum = agents[{key.first, row.agent}];
        const std::string what = "agent " + row.agent;
        differ(what, "settled", row.settled, sum.cost);
        differ(what, "tokens", row.tokens, sum.tokens);
        differ(what, "events", row.events, sum.events);
        differ(what, "last_event_at", micros(row.last_event_at), micros(sum.last_at));
    }
    std::map<std::pair<OrgId, Id>, Sum> below;
    for (const auto& [key, row] : rows.rows<Run>()) {
        for (auto above = rows.rows<Run>().find({key.first, row.parent}); above != rows.rows<Run>().end();
             above = rows.rows<Run>().find({key.first, above->second.parent})) {
            below[{key.first, above->second.id.value}] += runs[{key.first, row.id.value}].cost;
        }
    }
    for (const auto& [key, row] : rows.rows<Run>()) {
        const UsageSum& sum = runs[{key.first, row.id.value}];
        const std::string what = fmt::format("run {:x}", row.id.value.low);
        differ(what, "settled", row.settled, sum.cost);
        differ(what, "tokens", row.tokens, sum.tokens);
        differ(what, "events", row.events, sum.events);
        differ(what, "unknown", row.unknown, sum.unknown);
        differ(what, "settled_below", row.settled_below, below[{key.first, row.id.value}]);
    }
    for (const auto& [key, row] : rows.rows<Session>()) {
        const UsageSum& sum = sessions[{key.first, row.id.value}];
        const std::string what = fmt::format("session {:x}", row.id.value.low);
        differ(what, "settled", row.settled, sum.cost);
        differ(what, "events", row.events, sum.events);
    }
    for (const auto& [key, row] : rows.rows<Rollup>()) {
        const UsageSum& sum = days[{key.first, row.day, row.agent, row.provider, row.model}];
        const std::string what = fmt::format("day {} of {} {} {}", row.day, row.agent, row.provider, row.model);
        differ(what, "cost", row.cost, sum.cost);
        differ(what, "events", row.events, sum.events);
        differ(what, "calls", row.calls, sum.calls);
        differ(what, "input_tokens", row.usage.input_tokens, sum.input);
        differ(what, "output_tokens", row.usage.output_tokens, sum.output);
        differ(what, "cache_read_tokens", row.usage.cache_read_tokens, sum.cache_read);
        differ(what, "cache_write_5m_tokens", row.usage.cache_write_5m_tokens, sum.cache_5m);
        differ(what, "cache_write_1h_tokens", row.usage.cache_write_1h_tokens, sum.cache_1h);
        differ(what, "reasoning_tokens", row.usage.reasoning_tokens, sum.reasoning);
    }
    // Asking for a sum that was not there has made it, so a counter that is missing shows as a difference in number.
    const auto all_there = [&](const char* what, std::size_t sums, std::size_t counters) {
        if (sums != counters) {
            world.violated(Promise::exact_ledger,
                           fmt::format("{} have events, but there are {} rows: {}", sums, counters, what));
        }
    };
    all_there("agents", agents.size(), rows.rows<AgentTotals>().size());
    all_there("runs", runs.size(), rows.rows<Run>().size());
    all_there("sessions", sessions.size(), rows.rows<Session>().size());
    all_there("days", days.size(), rows.rows<Rollup>().size());
}

// ---- budget windows -----------------------------------------------------------------------------------------------

bool LedgerChecker::counts(const std::vector<Life>& lives, const Window& window, std::int64_t seq) const {
    for (const Life& life : lives) {
        // What counts in a window from before the budget's time is not its business.
        if (seq > life.from_seq && seq < life.to_seq && window.end_at > life.created_at) return true;
        // A budget starts with what the ledger holds for the window it is made in.
        const bool made_in_this_window = life.created_at >= window.start_at && life.created_at < window.end_at;
        if (made_in_this_window && seq < life.from_seq) return true;
    }
    return false;
}

void LedgerChecker::check_windows(World& world, const Rows& rows) {
    struct BudgetSums {
        const Budget* row = nullptr;
        const std::vector<Life>* lives = nullptr;
        std::map<Instant, WindowSum> windows;  // By start.
    };
    std::map<BudgetKey, BudgetSums> budgets;
    static const std::vector<Life> no_life;
    for (const auto& [key, row] : rows.rows<Budget>()) {
        const auto lives = lives_.find(key);
        budgets[key] = {&row, lives == lives_.end() ? &no_life : &lives->second, {}};
    }
    for (const auto& [key, row] : rows.rows<Window>()) {
        const auto budget = budgets.find({key.first, row.budget});
        if (budget == budgets.end()) {
            world.violated(Promise::exact_ledger, "a window of no budget: " + row.budget);
            continue;
        }
        const auto zone = find_zone(budget->second.row->zone);
        const WindowSpan span = window_at(budget->second.row->window, zone.value_or(utc()), row.start_at);
        if (span.start != row.start_at || span.end != row.end_at) {
            world.violated(Promise::exact_ledger,
                           fmt::format("budget {} has a window from {} to {} that is none", row.budget,
                                       to_iso8601(row.start_at), to_iso8601(row.end_at)));
        }
        budget->second.windows[row.start_at] = {&row, 0, 0};
    }

    const auto add = [&](OrgId org, const Attribution& who, Instant at, std::int64_t seq, const auto& amount_of) {
        for (auto budget = budgets.lower_bound({org, ""}); budget != budgets.end() && budget->first.first == org;
             ++budget) {
            BudgetSums& sums = budget->second;
            const std::int64_t amount = amount_of(sums.row->metric);
            if (amount == 0 || !is_covered(who, sums.row->scope)) continue;
            auto window = sums.windows.upper_bound(at);
            const bool found = window != sums.windows.begin() && (--window)->second.row->end_at > at;
            if (found && counts(*sums.lives, *window->second.row, seq)) {
                window->second.settled += amount;
            } else if (!found && std::ranges::any_of(*sums.lives, [&](const Life& life) {
                           return seq > life.from_seq && seq < life.to_seq && at >= life.created_at;
                       })) {
                world.violated(Promise::exact_ledger,
                               fmt::format("event {} counts for budget {}, which has no window at {}", seq,
                                           sums.row->name, to_iso8601(at)));
            }
        }
    };
    for (const auto& [key, event] : rows.rows<CostEvent>()) {
        add(key.first, event.who, event.counted_at, event.seq.value, [&](Metric metric) {
            switch (metric) {
                case Metric::usd:
                    return event.cost;
                case Metric::tokens:
                    return tokens_in(event.usage);
                case Metric::calls:
                    return event.calls;
                case Metric::runs:
                    break;
            }
            return std::int64_t{0};
        });
    }
    // Runs count when they are first admitted, which the feed tells.
    for (const auto& [org_key, org] : rows.rows<Org>()) {
        std::int64_t seq = 0;
        std::set<RunId> counted;
        for (const Event& event : world.history.of(org_key.first)) {
            ++seq;
            const auto* changed = std::get_if<RunChanged>(&event);
            if (changed == nullptr || changed->state != RunState::starting) continue;
            const auto run = rows.rows<Run>().find({org_key.first, changed->run});
            if (run == rows.rows<Run>().end() || !counted.insert(changed->run).second) continue;
            add(org_key.first, run->second.who, run->second.admitted_at, seq,
                [](Metric metric) { return std::int64_t{metric == Metric::runs}; });
        }
    }
    for (const auto& [key, hold] : rows.rows<Hold>()) {
        if (hold.state != HoldState::open) continue;
        for (const HoldPart& part : hold.parts) {
            const auto budget = budgets.find({key.first, part.budget});
            if (budget == budgets.end() || !budget->second.windows.contains(part.window)) {
                world.violated(Promise::exact_ledger,
                               fmt::format("hold {:x} is a part of a window of budget {} that is not there",
                                           hold.id.value.low, part.budget));
                continue;
            }
            budget->second.windows[part.window].held += part.amount;
        }
    }

    for (const auto& [key, sums] : budgets) {
        for (const auto& [start, sum] : sums.windows) {
            const Window& row = *sum.row;
            if (row.settled != sum.settled || row.held != sum.held) {
                world.violated(
                    Promise::exact_ledger,
                    fmt::format(
                        "budget {} window {}: settled {} held {}, but its events add up to {} and its holds to {}",
                        row.budget, to_iso8601(row.start_at), row.settled, row.held,
                        static_cast<std::int64_t>(sum.settled), static_cast<std::int64_t>(sum.held)));
            }
        }
    }
}

}  // namespace

std::unique_ptr<Checker> make_ledger_checker() { return std::make_unique<LedgerChecker>(); }

}  // namespace interlock::sim
