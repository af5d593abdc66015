// P2, hard ceiling: in every committed state, and in every refusal, a hard budget's arithmetic is right.
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/calendar.h"
#include "sim/checker.h"
#include "sim/scopes.h"

namespace interlock::sim {
namespace {

using namespace core;

std::int64_t amount_of(const CostEvent& event, Metric metric) {
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
    return 0;
}

class CeilingChecker : public Checker {
 public:
    void heard(World& world, const Call& call, const engine::SubmitResult& answer) override;
    void committed(World& world, const store::WriteSet& writes) override;
    void check(World& world, const Rows& rows) override;

 private:
    void check_strict(World& world, const Rows& rows, OrgId org, const PutBudget& budget);
    void check_history(World& world, const Rows& rows, KnownOrg& org);

    // How far each hard window was past its limit, as last committed.
    std::map<std::tuple<OrgId, std::string, Instant>, std::int64_t> excess_;
};

// A window may only be further past its limit than before when its limit was changed, or by as much as events that are
// marked as having gone past it.
void CeilingChecker::committed(World& world, const store::WriteSet& writes) {
    for (const store::OrgWrites& of_org : writes.orgs) {
        for (const Window* window : of_org.of<Window>().put) {
            const std::int64_t excess =
                window->hard ? std::max<std::int64_t>(0, window->settled + window->held - window->limit_units) : 0;
            const auto key = std::tuple(of_org.org, window->budget, window->start_at);
            const auto before = excess_.find(key);
            const std::int64_t excess_before = before == excess_.end() ? 0 : before->second;
            if (excess > excess_before) {
                const auto& budgets = of_org.of<Budget>().put;
                // A freeze also writes the budget; only what is written down as grace was there before the limit.
                const bool limit_changed =
                    std::ranges::any_of(budgets, [&](const Budget* b) { return b->name == window->budget; });
                std::int64_t marked = limit_changed ? window->grace : 0;
                for (const CostEvent* event : of_org.of<CostEvent>().put) {
                    if (event->over_limit) marked += std::max({event->cost, tokens_in(event->usage), event->calls});
                }
                if (excess - excess_before > marked) {
                    world.violated(
                        Promise::hard_ceiling,
                        fmt::format(
                            "budget {} window {}: settled {} + held {} is {} past its limit {}, before it was {}",
                            window->budget, to_iso8601(window->start_at), window->settled, window->held, excess,
                            window->limit_units, excess_before));
                }
            }
            if (excess > 0 || before != excess_.end()) excess_[key] = excess;
        }
    }
}

void CeilingChecker::heard(World& world, const Call& call, const engine::SubmitResult& answer) {
    if (!answer) return;
    const auto check_refusal = [&](const BudgetRefusal& no) {
        const std::int64_t free = std::max<std::int64_t>(0, no.limit_units - no.settled - no.held);
        const bool exceeds = no.requested > free || no.settled > INT64_MAX - no.requested;
        if (no.frozen.empty() && !exceeds) {
            world.violated(
                Promise::honest_answers,
                fmt::format("call {} was refused by budget {} with limit {}, settled {}, held {}: {} would fit",
                            call.id, no.budget, no.limit_units, no.settled, no.held, no.requested));
        }
    };
    std::visit(
        [&](const auto& reply) {
            if constexpr (requires { reply.budget->limit_units; }) {
                if (reply.budget) check_refusal(*reply.budget);
            }
        },
        answer->reply);
}

void CeilingChecker::check(World& world, const Rows& rows) {
    for (KnownOrg& org : world.known.orgs) {
        check_history(world, rows, org);
        for (const KnownBudget& budget : org.budgets) {
            if (budget.strict && budget.put.metric != Metric::runs) check_strict(world, rows, org.id, budget.put);
        }
    }
}

// A threshold fires once per window, and what a person has not looked at stays frozen.
void CeilingChecker::check_history(World& world, const Rows& rows, KnownOrg& org) {
    std::map<std::int64_t, const CostEvent*> by_seq;
    const auto& events = rows.rows<CostEvent>();
    for (auto event = events.lower_bound({org.id, CommandKey()}); event != events.end() && event->first.first == org.id;
         ++event) {
        by_seq[event->second.seq.value] = &event->second;
    }
    std::set<std::string> frozen;
    std::map<std::string, std::set<std::pair<Instant, std::int32_t>>> warned;
    std::int64_t seq = 0;
    for (const Event& event : world.history.of(org.id)) {
        ++seq;
        if (const auto* froze = std::get_if<BudgetFroze>(&event)) frozen.insert(froze->budget);
        if (const auto* thawed = std::get_if<BudgetThawed>(&event)) frozen.erase(thawed->budget);
        if (const auto* deleted = std::get_if<BudgetDeleted>(&event)) {
            frozen.erase(deleted->budget);
            warned.erase(deleted->budget);
        }
        if (const auto* warning = std::get_if<BudgetWarned>(&event)) {
            if (!warned[warning->budget].insert({warning->window, warning->percent}).second) {
                world.violated(Promise::nothing_twice,
                               fmt::format("event {}: budget {} warns of {} percent a second time", seq,
                                           warning->budget, warning->percent));
            }
        }
        if (frozen.empty() || !std::holds_alternative<Charged>(event) || !by_seq.contains(seq)) continue;
        const CostEvent& cost = *by_seq[seq];
        const Call* call = world.find_call(org.id, cost.key);
        const auto* charge = call != nullptr ? std::get_if<Charge>(&call->command.body) : nullptr;
        if (charge == nullptr || charge->incurred) continue;  // Money that was gone already.
        for (const KnownBudget& budget : org.budgets) {
            if (!budget.strict || !frozen.contains(budget.put.name) || !is_covered(cost.who, budget.put.scope))
                continue;
            world.violated(Promise::hard_ceiling,
                           fmt::format("event {} was charged to budget {} while it was frozen", seq, budget.put.name));
        }
    }
    for (const KnownBudget& budget : org.budgets) {
        const auto row = rows.rows<Budget>().find({org.id, budget.put.name});
        if (row == rows.rows<Budget>().end() || row->second.frozen.empty() != frozen.contains(budget.put.name))
            continue;
        world.violated(Promise::hard_ceiling,
                       fmt::format("budget {} is frozen, or is not, against what the feed tells", budget.put.name));
    }
}

// Nobody has ever changed this budget, so what its maker asked for is all there is to know: not one column of the rows
// of budgets and windows is believed.
void CeilingChecker::check_strict(World& world, const Rows& rows, OrgId org, const PutBudget& budget) {
    const Zone zone = find_zone(budget.zone).value_or(utc());
    std::map<Instant, __int128> spent;
    const auto first = rows.rows<CostEvent>().lower_bound({org, CommandKey()});
    for (auto event = first; event != rows.rows<CostEvent>().end() && event->first.first == org; ++event) {
        if (!is_covered(event->second.who, budget.scope)) continue;
        const std::int64_t amount = amount_of(event->second, budget.metric);
        // A late settlement can be over the limit in one metric and give back in another.
        if (event->second.over_limit && amount > 0) continue;
        spent[window_at(budget.window, zone, event->second.counted_at).start] += amount;
    }
    for (const auto& [start, sum] : spent) {
        if (sum > budget.limit_units) {
            world.violated(Promise::hard_ceiling,
                           fmt::format("budget {} was made for {}, but {} was spent in the window of {}", budget.name,
                                       budget.limit_units, static_cast<std::int64_t>(sum), to_iso8601(start)));
        }
    }
}

}  // namespace

std::unique_ptr<Checker> make_ceiling_checker() { return std::make_unique<CeilingChecker>(); }

}  // namespace interlock::sim
