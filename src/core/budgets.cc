#include "core/budgets.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ensure.h"
#include "core/agents.h"
#include "core/check.h"
#include "core/limits.h"
#include "core/runs.h"

namespace interlock::core {
namespace {

// The current window is brought in line with what its budget now says.
void apply_limit(OrgState& state, Stamp stamp, LiveBudget& budget, bool makes_room) {
    const WindowSpan span = budget.window_at(stamp.at);
    const Window* found = state.windows.find({budget.row.name, span.start});
    if (found == nullptr) return;
    Window& window = state.windows.edit({budget.row.name, span.start});
    window.limit_units = budget.row.limit_units;
    window.hard = budget.row.hard;
    // Neither a lowered limit nor a late one undoes what is spent: how far the window is past it is written down.
    window.grace = std::max<std::int64_t>(0, window.settled + window.held - window.limit_units);
    if (makes_room && window.settled < window.limit_units) window.exhausted = false;
}

// A new budget meets a ledger that is older than itself. The sum is that of the store, so nothing may have been applied
// before it in its batch (reads_ledger()).
void start_from_ledger(OrgState& state, Stamp stamp, LiveBudget& budget) {
    const WindowSpan span = budget.window_at(stamp.at);
    const Metric metric = budget.row.metric;
    Window window{.budget = budget.row.name,
                  .start_at = span.start,
                  .end_at = span.end,
                  .limit_units = budget.row.limit_units,
                  .hard = budget.row.hard,
                  .settled = state.source.sum(state.id, budget.row.scope, span).of(metric),
                  .held = 0,
                  .grace = 0,
                  .warned = 0,
                  .exhausted = false};
    if (state.source.failed()) throw SourceFailed{};
    for (const HoldId id : state.open_holds()) {
        const Hold& hold = *state.hold(id);
        const std::int64_t amount = hold.bound.of(metric);
        // A hold of an earlier window will settle there, where this budget does not exist.
        const bool counts = hold.created_at >= span.start && hold.created_at < span.end;
        if (!counts || amount == 0 || !covers(budget.row.scope, hold.who)) continue;
        state.change_hold(id, [&](Hold& open) {
            open.parts.push_back({budget.row.name, span.start, amount, std::min(amount, open.drawn.of(metric))});
        });
        window.held += amount;
    }
    if (const Window* before = state.windows.find(key_of(window))) {
        window.marked_at = before->marked_at;  // Marks are never taken back.
        state.windows.edit(key_of(window)) = window;
    } else {
        state.windows.insert(window);
    }
    apply_limit(state, stamp, budget, true);
}

Complaint check(const PutBudget& command) {
    if (auto complaint = first_of(
            check_name("name", command.name), check_label("scope.agent", command.scope.agent),
            check_label("scope.workflow", command.scope.workflow),
            check_label("scope.provider", command.scope.provider), check_label("scope.model", command.scope.model),
            check_label("scope.api_key", command.scope.api_key), check_tags(command.scope.tags))) {
        return complaint;
    }
    if (command.limit_units < 0) return fmt::format("limit is {}; it must not be negative", command.limit_units);
    if (!find_zone(command.zone)) return fmt::format("timezone '{}' is not an IANA timezone", command.zone);
    if (command.warn.size() > limits::warn_thresholds_max) {
        return fmt::format("there are {} warn thresholds; at most {} are allowed", command.warn.size(),
                           limits::warn_thresholds_max);
    }
    std::int32_t before = 0;
    for (const std::int32_t percent : command.warn) {
        if (percent <= before || percent > 1000) {
            return "warn must be percentages from 1 to 1000 in ascending order";
        }
        before = percent;
    }
    return std::nullopt;
}

bool same_shape(const Budget& budget, const PutBudget& command) {
    return budget.scope == command.scope && budget.metric == command.metric && budget.window == command.window &&
           budget.zone == command.zone;
}

BudgetRefusal refusal_of(OrgState& state, const BudgetImpact& impact) {
    const Budget& budget = impact.budget->row;
    return {.budget = budget.name,
            .metric = budget.metric,
            .limit_units = impact.limit,
            .settled = impact.settled,
            .held = impact.held,
            .requested = impact.amount,
            .free = std::max<std::int64_t>(0, impact.limit - impact.settled - impact.held + impact.relief),
            .open_holds = static_cast<std::int64_t>(state.open_holds_on(budget.name)),
            .window_end = impact.span.end,
            .frozen = budget.frozen};
}

void exhaust(OrgState& state, Stamp stamp, const BudgetImpact& impact, const Attribution& who) {
    Window& window = window_of(state, impact);
    const Budget& budget = impact.budget->row;
    const bool first_time = !window.exhausted;
    if (first_time) {
        window.exhausted = true;
        state.feed.add(BudgetExhausted{budget.name, impact.span.start});
    }
    // What exhaustion does, it does to whoever runs into it while the window is current.
    if (stamp.at >= impact.span.end) return;
    switch (budget.on_exhausted) {
        case OnExhausted::refuse:
            return;
        case OnExhausted::pause_agent:
            pause_by_budget(state, stamp, who.agent, budget.name, impact.span.end);
            return;
        case OnExhausted::stop_runs: {
            // The runs that a budget of runs has admitted are those it was made for.
            if (budget.metric == Metric::runs) return;
            const std::string reason = fmt::format("budget '{}' is exhausted", budget.name);
            if (first_time) request_stop_where(state, stamp, budget.scope, reason);
            // A run that started since is asked when it runs into it.
            if (state.live_runs().contains(who.run)) request_stop(state, stamp, who.run, reason);
            return;
        }
    }
}

}  // namespace

BudgetReply put_budget(OrgState& state, Stamp stamp, const PutBudget& command) {
    if (auto complaint = check(command)) return {.status = BudgetStatus::invalid_request, .detail = *complaint};
    const Budget* found = state.budget(command.name);
    if (found != nullptr && !same_shape(*found, command)) {
        return {.status = BudgetStatus::shape_is_fixed,
                .detail = fmt::format("budget '{}' exists with another scope, metric, window or timezone; these cannot "
                                      "change: create a budget with another name",
                                      command.name)};
    }
    if (found == nullptr && state.budget_count() >= limits::budgets_per_org_max) {
        return {.status = BudgetStatus::too_many,
                .detail = fmt::format("an org has at most {} budgets", limits::budgets_per_org_max)};
    }

    // From here on the budget must be put.
    Budget budget = found != nullptr ? *found : Budget{};
    const bool is_new = found == nullptr || found->deleted;
    if (found == nullptr) {
        budget.name = command.name;
        budget.scope = command.scope;
        budget.metric = command.metric;
        budget.window = command.window;
        budget.zone = command.zone;
    }
    if (is_new) budget.created_at = stamp.at;
    const bool changes = is_new || budget.limit_units != command.limit_units || budget.hard != command.hard ||
                         budget.warn != command.warn || budget.on_exhausted != command.on_exhausted;
    const bool makes_room = is_new || command.limit_units > budget.limit_units || (budget.hard && !command.hard) ||
                            budget.on_exhausted != command.on_exhausted;
    if (changes) {
        budget.limit_units = command.limit_units;
        budget.hard = command.hard;
        budget.warn = command.warn;
        budget.on_exhausted = command.on_exhausted;
        budget.deleted = false;
        state.put_budget(budget);
        state.feed.add(BudgetChanged{budget.name, budget.metric, budget.limit_units});
    }
    LiveBudget& live = *state.live_budget(command.name);
    if (is_new) {
        start_from_ledger(state, stamp, live);
    } else if (changes) {
        apply_limit(state, stamp, live, makes_room);
    }

    BudgetReply reply{.status = changes ? BudgetStatus::done : BudgetStatus::unchanged, .detail = {}};
    const WindowSpan span = live.window_at(stamp.at);
    if (const Window* window = state.windows.find({command.name, span.start})) {
        reply.settled = window->settled;
        reply.held = window->held;
    }
    if (makes_room && reply.settled < command.limit_units) {
        // There is room again, so whom this budget paused may go on.
        for (const std::string& agent : state.agents_paused_by(budget_pause(command.name))) {
            lift_pause(state, agent, budget_pause(command.name));
        }
    }
    // A limit that is put under what is spent already is used up by that, without anybody running into it.
    const bool used_up = reply.settled >= command.limit_units && command.metric != Metric::runs;
    if (changes && used_up && command.on_exhausted == OnExhausted::stop_runs) {
        exhaust(state, stamp,
                {.budget = &live, .span = span, .window = state.windows.look_up({command.name, span.start})}, {});
        request_stop_where(state, stamp, budget.scope, fmt::format("budget '{}' is exhausted", command.name));
    }
    if (changes) state.line_may_move = true;
    return reply;
}

BudgetReply delete_budget(OrgState& state, Stamp, const DeleteBudget& command) {
    const Budget* found = state.budget(command.name);
    if (found == nullptr || found->deleted) {
        return {.status = BudgetStatus::budget_not_found,
                .detail = fmt::format("there is no budget '{}'", command.name)};
    }

    // From here on it must go. Its windows stay as the record of its time; open holds forget it.
    for (const HoldId id : state.open_holds()) {
        const auto covered = [&](const HoldPart& part) { return part.budget == command.name; };
        if (std::ranges::none_of(state.hold(id)->parts, covered)) continue;
        state.change_hold(id, [&](Hold& hold) {
            for (const HoldPart& part : hold.parts) {
                if (covered(part)) state.windows.edit({part.budget, part.window}).held -= part.amount;
            }
            std::erase_if(hold.parts, covered);
        });
    }
    Budget budget = *found;
    budget.deleted = true;
    budget.frozen.clear();
    state.put_budget(std::move(budget));
    state.feed.add(BudgetDeleted{command.name});
    for (const std::string& agent : state.agents_paused_by(budget_pause(command.name))) {
        lift_pause(state, agent, budget_pause(command.name));
    }
    state.line_may_move = true;
    return {.status = BudgetStatus::done, .detail = {}};
}

BudgetReply unfreeze_budget(OrgState& state, Stamp, const UnfreezeBudget& command) {
    const Budget* found = state.budget(command.name);
    if (found == nullptr || found->deleted) {
        return {.status = BudgetStatus::budget_not_found,
                .detail = fmt::format("there is no budget '{}'", command.name)};
    }
    if (found->frozen.empty()) return {.status = BudgetStatus::unchanged, .detail = {}};

    // From here on it must thaw.
    Budget budget = *found;
    budget.frozen.clear();
    state.put_budget(std::move(budget));
    state.feed.add(BudgetThawed{command.name});
    state.line_may_move = true;
    return {.status = BudgetStatus::done, .detail = {}};
}

std::vector<BudgetImpact> budget_impacts(OrgState& state, const Attribution& who, const Amounts& amounts,
                                         Instant counted_at) {
    const std::vector<LiveBudget*> budgets = state.budgets_covering(who);
    std::vector<BudgetImpact> impacts;
    impacts.reserve(budgets.size());
    for (LiveBudget* budget : budgets) {
        BudgetImpact impact{
            .budget = budget, .span = budget->window_at(counted_at), .amount = amounts.of(budget->row.metric)};
        // What counts in a window from before the budget's time is not its business.
        if (impact.span.end <= budget->row.created_at) continue;
        impact.window = state.windows.look_up({budget->row.name, impact.span.start});
        if (impact.window) {
            impact.limit = impact.window->limit_units;
            impact.hard = impact.window->hard;
            impact.settled = impact.window->settled;
            impact.held = impact.window->held;
        } else {
            impact.limit = budget->row.limit_units;
            impact.hard = budget->row.hard;
        }
        impacts.push_back(impact);
    }
    return impacts;
}

std::optional<Denial> deny(OrgState& state, const std::vector<BudgetImpact>& impacts) {
    // Kind by kind, as the replies' enums have it: a frozen budget, then a limit. The sums fit, as the whole org's
    // does.
    for (const BudgetImpact& impact : impacts) {
        if (!impact.hard || impact.budget->row.frozen.empty()) continue;
        return Denial{.frozen = true, .impact = impact, .refusal = refusal_of(state, impact)};
    }
    for (const BudgetImpact& impact : impacts) {
        // What is held for it already is not asked for again, whatever became of the limit since.
        if (!impact.hard || impact.amount <= impact.relief ||
            impact.settled + impact.held - impact.relief + impact.amount <= impact.limit)
            continue;
        return Denial{.frozen = false, .impact = impact, .refusal = refusal_of(state, impact)};
    }
    return std::nullopt;
}

void after_denial(OrgState& state, Stamp stamp, const Denial& denial, const Attribution& who) {
    const BudgetImpact& impact = denial.impact;
    if (denial.frozen || impact.budget->row.on_exhausted == OnExhausted::refuse) return;
    const bool would_fit_empty_window = impact.amount <= impact.limit;
    const bool fits_beside_events = impact.amount <= impact.limit - impact.settled;
    if (would_fit_empty_window && !fits_beside_events) exhaust(state, stamp, impact, who);
}

Window& window_of(OrgState& state, const BudgetImpact& impact) {
    if (impact.window) return state.windows.edit(impact.window);
    const KeyOf<Window> key{impact.budget->row.name, impact.span.start};
    if (state.windows.find(key) != nullptr) return state.windows.edit(key);
    return state.windows.insert({.budget = impact.budget->row.name,
                                 .start_at = impact.span.start,
                                 .end_at = impact.span.end,
                                 .limit_units = impact.budget->row.limit_units,
                                 .hard = impact.budget->row.hard});
}

Duration bucket_of(WindowKind kind) {
    switch (kind) {
        case WindowKind::day:
            return std::chrono::minutes(15);
        case WindowKind::week:
            return std::chrono::hours(2);
        case WindowKind::month:
            return std::chrono::hours(8);
        case WindowKind::total:
            break;
    }
    return std::chrono::days(1);
}

Window& spend_in_window(OrgState& state, Stamp stamp, const BudgetImpact& impact, std::int64_t amount) {
    ensure(amount != 0, "a bucket with a mark is one in which something was spent");
    Window& window = window_of(state, impact);
    const Duration width = bucket_of(impact.budget->row.window);
    const Instant last = std::min(stamp.at, window.end_at - Duration(1));
    const Instant bucket = window.start_at + (last - window.start_at) / width * width;
    if (bucket > window.marked_at) {
        state.spend_marks.add() = {window.budget, window.start_at, bucket, window.settled};
        window.marked_at = bucket;
    }
    if (window.settled < limits::counter_max) window.settled = std::min(window.settled + amount, limits::counter_max);
    if (amount < 0 && window.settled < window.limit_units) window.exhausted = false;
    return window;
}

void spend_in_org(OrgState& state, Stamp stamp, std::int64_t usd) {
    const Instant bucket = std::chrono::floor<std::chrono::minutes>(stamp.at);
    if (usd != 0 && bucket > state.org->marked_at) {
        state.spend_marks.add() = {"", far_past, bucket, state.settled_usd()};
        state.org->marked_at = bucket;
        state.org_changed = true;
    }
    state.count_spent(usd);
}

void after_spending(OrgState& state, Stamp stamp, const BudgetImpact& impact, const Attribution& who) {
    if (impact.amount < 0) state.line_may_move = true;  // There is room again.
    if (impact.amount <= 0) return;
    const Budget& budget = impact.budget->row;
    if (!budget.warn.empty() && impact.limit > 0) {
        Window& window = window_of(state, impact);
        for (const std::int32_t percent : budget.warn) {
            const bool reached =
                static_cast<__int128>(window.settled) * 100 >= static_cast<__int128>(impact.limit) * percent;
            if (!reached || percent <= window.warned) continue;
            window.warned = percent;
            state.feed.add(
                BudgetWarned{budget.name, impact.span.start, percent, budget.metric, window.settled, impact.limit});
        }
    }
    // The last run that a budget of runs admits has done nothing wrong; the next one is refused.
    if (budget.metric == Metric::runs) return;
    if (window_of(state, impact).settled >= impact.limit) exhaust(state, stamp, impact, who);
}

void freeze(OrgState& state, const std::string& name, const std::string& reason) {
    Budget budget = *state.budget(name);
    if (budget.deleted || !budget.frozen.empty()) return;
    budget.frozen = reason;
    state.put_budget(std::move(budget));
    state.feed.add(BudgetFroze{name, reason});
}

}  // namespace interlock::core
