// What is written down of the past: marks of what was settled when (P1), the steps of runs (P9), what became of ticks
// (P8). Marks are made again from the cost events, steps and ticks from the feed.
#include <algorithm>
#include <map>
#include <ranges>

#include <fmt/format.h>

#include "base/calendar.h"
#include "sim/checker.h"
#include "sim/history.h"
#include "sim/scopes.h"

namespace interlock::sim {
namespace {

using namespace core;

// The rows of one org.
template <class Row>
auto of_org(const Rows& rows, OrgId org) {
    const auto& all = rows.rows<Row>();
    return std::ranges::subrange(all.lower_bound({org, KeyOf<Row>{}}),
                                 all.lower_bound({OrgId(org.value + 1), KeyOf<Row>{}}));
}

class HistoryChecker : public Checker {
 public:
    void check(World& world, const Rows& rows) override {
        for (const auto& [key, org] : rows.rows<Org>()) {
            check_org_marks(world, rows, key.first);
            check_steps(world, rows, key.first);
            check_ticks(world, rows, key.first);
        }
        check_window_marks(world, rows);
    }

 private:
    static void check_org_marks(World& world, const Rows& rows, OrgId org);
    static void check_window_marks(World& world, const Rows& rows);
    static void check_steps(World& world, const Rows& rows, OrgId org);
    static void check_ticks(World& world, const Rows& rows, OrgId org);
};

void HistoryChecker::check_org_marks(World& world, const Rows& rows, OrgId org) {
    const auto wrong = [&](const std::string& what) { world.violated(Promise::exact_ledger, what); };
    constexpr std::int64_t minute = 60'000'000;
    std::map<std::int64_t, std::int64_t> spent;  // By the minute.
    for (const auto& [key, event] : of_org<CostEvent>(rows, org)) {
        if (event.cost != 0) spent[micros(event.at) / minute] += event.cost;
    }

    std::map<std::int64_t, std::int64_t> marked;
    for (const auto& [key, mark] : of_org<SpendMark>(rows, org)) {
        if (!mark.budget.empty()) continue;
        if (micros(mark.at) % minute != 0) wrong("a mark of the org is of no minute");
        marked[micros(mark.at) / minute] = mark.settled;
    }
    std::int64_t before = 0;
    for (const auto& [at, cost] : spent) {
        const auto mark = marked.find(at);
        if (mark == marked.end() || mark->second != before) {
            wrong(fmt::format("minute {} has no mark that says {}", at, before));
        }
        before += cost;
    }
    if (marked.size() > spent.size()) wrong("there is a mark of a minute in which nothing was spent");
}

void HistoryChecker::check_window_marks(World& world, const Rows& rows) {
    // What corrections have taken back, in dollars, tokens and calls together: a bound for every metric.
    std::map<OrgId, std::int64_t> corrected;
    for (const auto& [key, event] : rows.rows<CostEvent>()) {
        if (event.corrects.value.empty()) continue;
        for (const std::int64_t amount : {event.cost, tokens_in(event.usage), event.calls}) {
            corrected[key.first] += std::min<std::int64_t>(amount, 0);
        }
    }
    const SpendMark* before = nullptr;
    OrgId before_org;
    for (const auto& [key, mark] : rows.rows<SpendMark>()) {
        if (mark.budget.empty()) continue;
        const auto wrong = [&, at = mark.at, budget = mark.budget](const std::string& what) {
            world.violated(Promise::exact_ledger,
                           fmt::format("the mark of budget {} at {} {}", budget, to_iso8601(at), what));
        };
        const auto budget = rows.rows<Budget>().find({key.first, mark.budget});
        const auto window = rows.rows<Window>().find({key.first, {mark.budget, mark.start_at}});
        if (budget == rows.rows<Budget>().end() || window == rows.rows<Window>().end()) {
            wrong("is of no window");
            continue;
        }
        const std::int64_t hours_times_4 =
            std::array<std::int64_t, 4>{1, 8, 32, 96}[static_cast<std::size_t>(budget->second.window)];
        if ((mark.at - mark.start_at) % std::chrono::minutes(15 * hours_times_4) != Duration(0)) {
            wrong("is not where a bucket begins");
        }
        if (mark.at < mark.start_at || mark.at >= window->second.end_at) wrong("is outside of its window");
        // Something was spent after each mark. Corrections can have taken it back.
        const auto lowered = corrected.find(key.first);
        const std::int64_t least = lowered == corrected.end() ? 1 : lowered->second;
        if (window->second.settled - mark.settled < least) wrong("says more than was settled");
        const bool same = before != nullptr && before_org == key.first && before->budget == mark.budget &&
                          before->start_at == mark.start_at;
        if (same && mark.settled - before->settled < least) wrong("says less than the one before it");
        if (mark.at > window->second.marked_at) wrong("is not known to its window");
        before = &mark;
        before_org = key.first;
    }
}

void HistoryChecker::check_steps(World& world, const Rows& rows, OrgId org) {
    std::map<RunId, std::vector<RunState>> told;
    for (const Event& event : world.history.of(org)) {
        if (const auto* changed = std::get_if<RunChanged>(&event)) told[changed->run].push_back(changed->state);
        if (const auto* ended = std::get_if<RunEnded>(&event)) told[ended->run].push_back(ended->state);
        const auto stays = [&](RunId run) {
            auto& states = told[run];
            states.push_back(states.empty() ? RunState::queued : states.back());
        };
        if (const auto* asked = std::get_if<RunStopRequested>(&event)) stays(asked->run);
        if (const auto* restated = std::get_if<PlacesRestated>(&event)) stays(restated->run);
    }
    std::map<RunId, std::vector<RunState>> written;
    for (const auto& [key, step] : of_org<RunStep>(rows, org)) {
        auto& states = written[step.run];
        states.push_back(step.state);
        if (step.number != static_cast<std::int64_t>(states.size())) {
            world.violated(Promise::nobody_forgotten,
                           fmt::format("step {} of run {:x} has no place", step.number, step.run.value.low));
        }
    }
    for (const auto& [key, run] : of_org<Run>(rows, org)) {
        const auto& states = written[run.id];
        const bool ends_right = !states.empty() && states.back() == run.state;
        if (ends_right && states == told[run.id] && run.steps == static_cast<std::int64_t>(states.size())) continue;
        world.violated(Promise::nobody_forgotten,
                       fmt::format("run {:x} says {} steps, has {}, and the feed tells {}", run.id.value.low, run.steps,
                                   states.size(), told[run.id].size()));
    }
}

void HistoryChecker::check_ticks(World& world, const Rows& rows, OrgId org) {
    struct Ticks {
        std::vector<RunId> fired, joined;
        std::size_t skipped = 0;
        std::int64_t last = 0;
    };
    std::map<std::string, Ticks> told, written;
    for (const Event& event : world.history.of(org)) {
        if (const auto* fired = std::get_if<ScheduleFired>(&event)) told[fired->schedule].fired.push_back(fired->run);
        if (const auto* joined = std::get_if<WakeCoalesced>(&event))
            told[joined->schedule].joined.push_back(joined->run);
        if (const auto* skipped = std::get_if<ScheduleSkipped>(&event)) told[skipped->schedule].skipped += 1;
    }
    for (const auto& [key, tick] : of_org<ScheduleTick>(rows, org)) {
        Ticks& ticks = written[tick.schedule];
        ticks.last = tick.number;
        if (tick.outcome == TickOutcome::fired) ticks.fired.push_back(tick.run);
        if (tick.outcome == TickOutcome::coalesced) ticks.joined.push_back(tick.run);
        if (tick.outcome == TickOutcome::skipped) ticks.skipped += 1;
    }
    for (const auto& [key, schedule] : of_org<Schedule>(rows, org)) {
        const Ticks& ticks = written[schedule.name];
        const Ticks& events = told[schedule.name];
        // Those that were missed together are one row, and no event.
        const bool same =
            ticks.fired == events.fired && ticks.joined == events.joined && ticks.skipped >= events.skipped;
        if (same && ticks.last == schedule.fired + schedule.skipped + schedule.coalesced) continue;
        world.violated(
            Promise::one_tick,
            fmt::format("what became of the ticks of schedule {} is not what the feed tells", schedule.name));
    }
}

}  // namespace

std::unique_ptr<Checker> make_history_checker() { return std::make_unique<HistoryChecker>(); }

}  // namespace interlock::sim
