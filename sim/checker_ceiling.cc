// P2, hard ceiling: in every committed state, and in every refusal, a hard budget's arithmetic is right.
#include <map>

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
    void heard(World& world, const Call& call, const engine::Answer& answer) override;
    void committed(World& world, const store::WriteSet& writes) override;
    void check(World& world, const Rows& rows) override;

 private:
    void check_strict(World& world, const Rows& rows, OrgId org, const PutBudget& budget);

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

void CeilingChecker::heard(World& world, const Call& call, const engine::Answer& answer) {
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
    for (const KnownOrg& org : world.known.orgs) {
        for (const KnownBudget& budget : org.budgets) {
            if (budget.strict && budget.put.metric != Metric::runs) check_strict(world, rows, org.id, budget.put);
        }
    }
}

// Nobody has ever changed this budget, so what its maker asked for is all there is to know: not one column of the rows
// of budgets and windows is believed.
void CeilingChecker::check_strict(World& world, const Rows& rows, OrgId org, const PutBudget& budget) {
    const Zone zone = find_zone(budget.zone).value_or(utc());
    std::map<Instant, __int128> spent;
    const auto first = rows.rows<CostEvent>().lower_bound({org, CommandKey()});
    for (auto event = first; event != rows.rows<CostEvent>().end() && event->first.first == org; ++event) {
        if (event->second.over_limit || !is_covered(event->second.who, budget.scope)) continue;
        spent[window_at(budget.window, zone, event->second.counted_at).start] +=
            amount_of(event->second, budget.metric);
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
