#include "verify/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace interlock::verify {
namespace {

constexpr std::array<std::string_view, 6> usage_columns{"input_tokens",          "output_tokens",
                                                        "cache_read_tokens",     "cache_write_5m_tokens",
                                                        "cache_write_1h_tokens", "reasoning_tokens"};
const std::string usage_list = fmt::format("{}", fmt::join(usage_columns, ", "));

template <std::size_t N>
std::optional<std::size_t> position(const std::array<std::string_view, N>& names, std::string_view name) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
}
constexpr std::array<std::string_view, 4> metric_names{"usd", "tokens", "calls", "runs"};
constexpr std::array<std::string_view, 4> kind_names{"day", "week", "month", "total"};

constexpr std::int64_t minute = 60'000'000;
// How long a bucket of time is, in the order of kind_names.
constexpr std::array<std::int64_t, 4> bucket_minutes{15, 2 * 60, 8 * 60, 24 * 60};

std::string_view raw(const Id& id) { return {reinterpret_cast<const char*>(&id), sizeof id}; }

std::string tag_text(std::string_view name, std::string_view value) { return fmt::format("{}\n{}", name, value); }

bool agrees(std::string_view stated, std::string_view actual) { return stated.empty() || stated == actual; }
bool agrees(const Id& stated, const Id& actual) { return stated.empty() || stated == actual; }

}  // namespace

Attribution Attribution::read(ColumnReader& row) {
    Attribution who;
    who.agent = row.text();
    who.workflow = row.text();
    who.provider = row.text();
    who.model = row.text();
    who.api_key = row.text();
    who.run = row.id();
    who.session = row.id();
    who.tags = row.text();
    return who;
}

// ---- budgets and their windows ------------------------------------------------------------------------------------

void LedgerCheck::read_budgets() {
    const std::string sql = fmt::format(
        "select name, scope, metric, \"window\", zone, limit_units, hard, created_at, deleted from budgets where org = "
        "{}",
        org_);
    reader_.each("budgets", sql, [this](ColumnReader row) {
        const std::string name(row.text());
        const auto scope = scope_from(row.text());
        const auto metric = position(metric_names, row.text());
        const auto kind = position(kind_names, row.text());
        const std::string zone_name(row.text());
        const auto zone = find_zone(zone_name);
        const std::int64_t limit_units = row.integer();
        const bool hard = row.flag();
        const std::int64_t created_at = row.integer();
        const bool deleted = row.flag();
        if (!scope || !metric || !kind || !zone) {
            findings_.violated(Promise::exact_ledger, row_of("budgets", org_, {{"name", name}}),
                               zone ? "its scope, metric or window cannot be read, so its counters cannot be checked"
                                    : fmt::format("this machine does not know the zone '{}', so its counters cannot be "
                                                  "checked; install tzdata",
                                                  zone_name));
            return;
        }
        Budget& budget = budgets_.emplace_back(Budget{name,
                                                      *scope,
                                                      static_cast<Metric>(*metric),
                                                      static_cast<WindowKind>(*kind),
                                                      *zone,
                                                      limit_units,
                                                      hard,
                                                      created_at,
                                                      deleted,
                                                      {},
                                                      nullptr});
        by_name_.emplace(name, &budget);
        if (!deleted) index(budget);
    });
    read_windows();
}

void LedgerCheck::read_windows() {
    const std::string sql = fmt::format(
        "select budget, start_at, end_at, limit_units, hard, settled, held, grace, marked_at from budget_windows "
        "where org = {}",
        org_);
    reader_.each("budget windows", sql, [this](ColumnReader row) {
        const std::string_view name = row.text();
        const std::int64_t start = row.integer();
        const auto found = by_name_.find(name);
        if (found == by_name_.end()) {
            findings_.violated(Promise::exact_ledger,
                               row_of("budget_windows", org_, {{"budget", std::string(name)}, {"start_at", start}}),
                               "there is no such budget");
            return;
        }

        Budget& budget = *found->second;
        Window window;
        window.span = interlock::window_at(budget.kind, budget.zone, from_micros(start));
        window.stored = true;
        window.end_at = row.integer();
        window.limit_units = row.integer();
        window.hard = row.flag();
        window.settled = row.integer();
        window.held = row.integer();
        window.grace = row.integer();
        window.marked_at = row.integer();
        if (micros(window.span.start) != start) {
            findings_.violated(Promise::exact_ledger,
                               row_of("budget_windows", org_, {{"budget", budget.name}, {"start_at", start}}),
                               fmt::format("no {} in {} starts then; the one it falls into starts at {}",
                                           kind_names[static_cast<std::size_t>(budget.kind)], budget.zone.name(),
                                           micros(window.span.start)));
            return;
        }
        budget.windows.emplace(start, window);
    });
}

void LedgerCheck::index(Budget& budget) {
    const Scope& scope = budget.scope;
    const auto put = [&](Member member, std::string_view value) {
        by_member_[member][std::string(value)].push_back(&budget);
    };
    if (!scope.run.empty()) return put(run, raw(scope.run));
    if (!scope.session.empty()) return put(session, raw(scope.session));
    if (!scope.api_key.empty()) return put(api_key, scope.api_key);
    if (!scope.agent.empty()) return put(agent, scope.agent);
    if (!scope.workflow.empty()) return put(workflow, scope.workflow);
    if (!scope.model.empty()) return put(model, scope.model);
    if (!scope.provider.empty()) return put(provider, scope.provider);
    if (!scope.tags.empty()) return put(tag, tag_text(scope.tags.begin()->first, scope.tags.begin()->second));
    put(everything, {});
}

template <class OnBudget>
void LedgerCheck::each_covering(const Attribution& who, OnBudget on_budget) {
    const auto look = [&](Member member, std::string_view value) {
        const auto& budgets = by_member_[member];
        if (budgets.empty()) return;
        const auto found = budgets.find(value);
        if (found == budgets.end()) return;
        for (Budget* budget : found->second) {
            if (covers(budget->scope, who)) on_budget(*budget);
        }
    };
    look(run, raw(who.run));
    look(session, raw(who.session));
    look(api_key, who.api_key);
    look(agent, who.agent);
    look(workflow, who.workflow);
    look(model, who.model);
    look(provider, who.provider);
    look(everything, {});
    if (by_member_[tag].empty()) return;
    for (const auto& [name, value] : tags_of(who.tags)) look(tag, tag_text(name, value));
}

bool LedgerCheck::covers(const Scope& scope, const Attribution& who) {
    const bool stated = agrees(scope.agent, who.agent) && agrees(scope.workflow, who.workflow) &&
                        agrees(scope.provider, who.provider) && agrees(scope.model, who.model) &&
                        agrees(scope.api_key, who.api_key) && agrees(scope.run, who.run) &&
                        agrees(scope.session, who.session);
    if (!stated || scope.tags.empty()) return stated;
    const Tags& tags = tags_of(who.tags);
    return std::ranges::all_of(scope.tags, [&](const auto& wanted) {
        const auto found = tags.find(wanted.first);
        return found != tags.end() && found->second == wanted.second;
    });
}

// The same few texts come again and again.
const Tags& LedgerCheck::tags_of(std::string_view json) {
    constexpr std::size_t remembered_max = 100'000;
    if (const auto found = tags_.find(json); found != tags_.end()) return found->second;
    if (tags_.size() >= remembered_max) tags_.clear();
    return tags_.emplace(json, tags_from(json).value_or(Tags())).first->second;
}

LedgerCheck::Window& LedgerCheck::window_at(Budget& budget, std::int64_t at) {
    const auto contains = [at](const Window& window) {
        return micros(window.span.start) <= at && at < micros(window.span.end);
    };
    if (budget.last != nullptr && contains(*budget.last)) return *budget.last;
    const auto after = budget.windows.upper_bound(at);
    if (after != budget.windows.begin() && contains(std::prev(after)->second)) {
        budget.last = &std::prev(after)->second;
    } else {
        Window window;
        window.span = interlock::window_at(budget.kind, budget.zone, from_micros(at));
        budget.last = &budget.windows.emplace(micros(window.span.start), window).first->second;
    }
    return *budget.last;
}

// ---- reading the ledger -------------------------------------------------------------------------------------------

void LedgerCheck::add_hold(const OpenHold& hold) {
    for (const HoldPart& part : hold.parts) {
        findings_.checked(Promise::hard_ceiling);
        const auto violated = [&](std::string what) {
            findings_.violated(Promise::hard_ceiling, hold.name, std::move(what));
        };
        // A run's own hold shrinks as the run draws on it. What it drew itself stays as it was.
        if (part.drawn < 0 || (part.amount < part.drawn && !hold.for_run)) {
            violated(fmt::format("its part of budget '{}' holds {}, of which {} is drawn from the run's own hold",
                                 part.budget, part.amount, part.drawn));
        }
        const auto found = by_name_.find(part.budget);
        if (found == by_name_.end() || found->second->deleted) {
            violated(fmt::format("it has a part of budget '{}', which is not there", part.budget));
            continue;
        }
        const auto window = found->second->windows.find(part.window);
        if (window == found->second->windows.end()) {
            violated(fmt::format("budget '{}' has no window that starts at {}", part.budget, part.window));
            continue;
        }
        window->second.held_sum += part.amount;
    }
    check_parts(hold);
}

// A hold has a part of each budget that covers it and counts in the window it was admitted in.
void LedgerCheck::check_parts(const OpenHold& hold) {
    std::size_t expected = 0;
    each_covering(hold.who, [&](Budget& budget) {
        const std::int64_t amount = hold.bound[static_cast<std::size_t>(budget.metric)];
        const WindowSpan span = interlock::window_at(budget.kind, budget.zone, from_micros(hold.created_at));
        const auto part = std::ranges::find(hold.parts, budget.name, &HoldPart::budget);
        // A run's own hold shrinks, by budgets and windows apart, so only where it stands can be said.
        const bool amount_fits = part != hold.parts.end() && (hold.for_run || part->amount == amount);
        if (amount_fits && part->window == micros(span.start)) {
            ++expected;
            return;
        }
        const bool optional = amount == 0 || micros(span.end) <= budget.created_at || hold.for_run;
        if (part == hold.parts.end() && optional) return;
        ++expected;
        findings_.violated(
            Promise::hard_ceiling, hold.name,
            part == hold.parts.end()
                ? fmt::format("budget '{}' covers it, and it holds nothing there", budget.name)
                : fmt::format("its part of budget '{}' is {} in the window of {}; it should be {} in the window of {}",
                              budget.name, part->amount, part->window, amount, micros(span.start)));
    });
    if (hold.parts.size() > expected) {
        findings_.violated(Promise::hard_ceiling, hold.name,
                           "it has a part of a budget that does not cover it, or two of one");
    }
}

void LedgerCheck::add_settled_hold(Id hold) { settled_holds_.add(hold); }

void LedgerCheck::read_cost_events() {
    const std::string sql = fmt::format(
        "select key, seq, hold, corrects, at, counted_at, {}, cost, {}, calls, overage, over_limit, estimated "
        "from cost_events "
        "where org = {}",
        Attribution::columns, usage_list, org_);
    reader_.each("cost events", sql, [this](ColumnReader row) {
        ChargeFacts charge;
        charge.key = row.id();
        const std::int64_t seq = row.integer();
        charge.hold = row.id();
        const Id corrects = row.id();
        if (!charge.hold.empty() && corrects.empty()) holds_of_events_.add(charge.hold);
        Event event;
        event.at = row.integer();
        event.counted_at = row.integer();
        event.who = Attribution::read(row);
        event.cost = row.integer();
        event.tokens = 0;
        for (std::int64_t& tokens : event.usage) event.tokens += tokens = row.integer();
        event.calls = row.integer();
        event.overage = row.integer();
        event.over_limit = row.flag();
        event.estimated = row.flag();
        add(event);
        if (const auto call = calls_.find(charge.hold); call != calls_.end()) call->second.booked += event.cost;
        if (!corrects.empty()) {
            Correction& correction = corrections_[corrects];
            correction.key = charge.key;
            correction.cost += event.cost;
            correction.account = account_of(event);
            correction.known = correction.known || (!charge.hold.empty() && !event.estimated);
        } else if (event.cost < 0) {
            findings_.violated(Promise::exact_ledger, row_of("cost_events", org_, {{"key", stored(charge.key)}}),
                               fmt::format("costs {} and corrects no other event", event.cost));
        }

        charge.agent = event.who.agent;
        charge.provider = event.who.provider;
        charge.model = event.who.model;
        charge.run = event.who.run;
        charge.session = event.who.session;
        charge.cost = event.cost;
        charge.tokens = static_cast<std::int64_t>(event.tokens);
        charge.overage = event.overage;
        charge.estimated = event.estimated;
        feed_.match_charge(seq, charge);
    });
    feed_.finish_charges();
}

void LedgerCheck::add(const Event& event) {
    ++event_count_;
    if (event.cost != 0) minutes_[event.at - event.at % minute] += event.cost;
    each_covering(event.who, [&](Budget& budget) {
        if (budget.metric == Metric::runs) return;  // Counted by add_admission.
        Window& window = window_at(budget, event.counted_at);
        const Sum amount =
            std::array<Sum, 3>{event.cost, event.tokens, event.calls}[static_cast<std::size_t>(budget.metric)];
        window.settled_sum += amount;
        if (amount < 0) window.corrected_sum -= amount;
        if (amount != 0 && event.counted_at >= budget.created_at) window.needed = true;
        if (budget.metric == Metric::usd) window.overage_sum += event.overage;
        if (event.over_limit && amount > 0) window.over_limit_sum += amount;
    });

    auto found = agents_.find(event.who.agent);
    if (found == agents_.end()) found = agents_.emplace(event.who.agent, AgentSums()).first;
    AgentSums& of_agent = found->second;
    of_agent.cost += event.cost;
    of_agent.tokens += event.tokens;
    of_agent.events += 1;
    of_agent.last_at = std::max(of_agent.last_at, event.at);

    if (!event.who.run.empty()) {
        RunSums& of_run = runs_[event.who.run];
        of_run.cost += event.cost;
        of_run.tokens += event.tokens;
        of_run.events += 1;
        if (event.estimated) of_run.unknown += event.cost;
    }
    if (!event.who.session.empty()) {
        SessionSums& of_session = sessions_[event.who.session];
        of_session.cost += event.cost;
        of_session.events += 1;
    }

    rollup_key_.clear();
    fmt::format_to(std::back_inserter(rollup_key_), "{}\n{}\n{}\n{}", utc_day(from_micros(event.counted_at)),
                   event.who.agent, event.who.provider, event.who.model);
    RollupSums& rollup = rollups_[rollup_key_];
    rollup.cost += event.cost;
    rollup.events += 1;
    rollup.calls += event.calls;
    for (std::size_t i = 0; i < event.usage.size(); ++i) rollup.usage[i] += event.usage[i];
}

void LedgerCheck::add_admission(const Attribution& who, std::int64_t admitted_at) {
    each_covering(who, [&](Budget& budget) {
        if (budget.metric != Metric::runs) return;
        Window& window = window_at(budget, admitted_at);
        window.settled_sum += 1;
        if (admitted_at >= budget.created_at) window.needed = true;
    });
}

// ---- comparing ----------------------------------------------------------------------------------------------------

// A hold is settled exactly when one cost event says that it settled it. The sums agree unless something is wrong; only
// then are the tables searched for what it is.
void LedgerCheck::check_holds() {
    if (settled_holds_ == holds_of_events_ || reader_.error()) return;
    const auto violated = [&](std::string_view table, std::string_view column, Id id, std::string what) {
        findings_.violated(Promise::nothing_twice,
                           row_of(std::string(table), org_, {{std::string(column), stored(id)}}), std::move(what));
    };
    reader_.each(
        "holds",
        fmt::format("select h.id from holds h left join cost_events e on e.org = h.org and e.hold = h.id "
                    "where h.org = {} and h.state = 'settled' and e.org is null",
                    org_),
        [&](ColumnReader row) { violated("holds", "id", row.id(), "is settled, and no cost event says by what"); });
    reader_.each("cost events",
                 fmt::format("select e.key from cost_events e left join holds h on h.org = e.org and h.id = e.hold and "
                             "h.state = 'settled' where e.org = {} and e.hold is not null and h.org is null",
                             org_),
                 [&](ColumnReader row) {
                     violated("cost_events", "key", row.id(), "says that it settled a hold, which is not settled");
                 });
    reader_.each(
        "cost events",
        fmt::format("select hold, count(*) from cost_events where org = {} and hold is not null and corrects is "
                    "null group by hold having count(*) > 1",
                    org_),
        [&](ColumnReader row) {
            const Id hold = row.id();
            violated("holds", "id", hold, fmt::format("was settled by {} cost events", row.integer()));
        });
}

// On whose account and in whose time an event counts. A correction has those of the event that it corrects.
std::string LedgerCheck::account_of(const Event& event) {
    const Attribution& who = event.who;
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", event.counted_at, who.agent, who.workflow, who.provider,
                       who.model, who.api_key, raw(who.run), raw(who.session), who.tags);
}

// Corrections are rare, so the events that they correct are read a second time.
void LedgerCheck::check_corrections() {
    std::unordered_map<Id, std::int64_t> stored_costs;
    reader_.each("corrections", fmt::format("select event, cost from corrected_costs where org = {}", org_),
                 [&](ColumnReader row) {
                     const Id event = row.id();
                     stored_costs[event] = row.integer();
                 });
    if (reader_.error() || (corrections_.empty() && stored_costs.empty())) return;
    std::unordered_map<Id, Correction> missing = corrections_;
    const std::string sql =
        fmt::format("select key, corrects, estimated, counted_at, {}, cost from cost_events where org = {}",
                    Attribution::columns, org_);
    reader_.each("cost events", sql, [&](ColumnReader row) {
        const Id key = row.id();
        const Id corrects = row.id();
        const bool estimated = row.flag();
        Event event;
        event.counted_at = row.integer();
        event.who = Attribution::read(row);
        event.cost = row.integer();
        const auto group = corrections_.find(corrects.empty() ? key : corrects);
        if (group == corrections_.end()) return;
        if (estimated && group->second.known) runs_[event.who.run].unknown -= event.cost;
        const auto found = missing.find(key);
        if (found == missing.end()) return;
        const Sum cost = event.cost + found->second.cost;
        const store::RowName name = row_of("corrected_costs", org_, {{"event", stored(key)}});
        if (account_of(event) != found->second.account) {
            findings_.violated(Promise::exact_ledger, row_of("cost_events", org_, {{"key", stored(found->second.key)}}),
                               "corrects an event of another account or time");
        }
        if (cost < 0) findings_.violated(Promise::exact_ledger, name, "its corrections come to more than it did");
        findings_.counters(Promise::exact_ledger, name, {{"cost", stored_costs[key], cost}},
                           "the event and its corrections");
        stored_costs.erase(key);
        missing.erase(found);
    });
    for (const auto& [event, correction] : missing) {
        findings_.violated(Promise::exact_ledger, row_of("cost_events", org_, {{"key", stored(correction.key)}}),
                           "corrects an event that is not there");
    }
    for (const auto& [event, cost] : stored_costs) {
        findings_.violated(Promise::exact_ledger, row_of("corrected_costs", org_, {{"event", stored(event)}}),
                           "nothing has corrected that event");
    }
}

// What the gateway has metered is in the ledger. A hold that is still open will be settled.
void LedgerCheck::read_calls() {
    const std::string sql = fmt::format(
        "select id, hold, cost from model_calls where org = {} and hold is not null and attempts = 1", org_);
    reader_.each("model calls", sql, [this](ColumnReader row) {
        const Id call = row.id();
        const Id hold = row.id();
        calls_[hold] = {call, row.integer(), 0};
    });
}

void LedgerCheck::check_calls() {
    for (const auto& [hold, paid] : calls_) {
        findings_.checked(Promise::exact_ledger);
        if (paid.booked >= paid.cost || open_holds_.contains(hold)) continue;
        findings_.violated(Promise::exact_ledger, row_of("model_calls", org_, {{"id", stored(paid.call)}}),
                           fmt::format("has cost {}, and the ledger has {} for it", paid.cost, paid.booked));
    }
}

// A mark is what a counter said before the first spending of a bucket of time. Those of the org can be made again from
// the cost events; those of a budget depend on when it was made.
void LedgerCheck::check_marks() {
    std::vector<Mark> of_org;
    Mark before;
    bool first = true;
    const std::string sql = fmt::format(
        "select budget, start_at, at, settled from spend_marks where org = {} order by budget, start_at, at", org_);
    reader_.each("marks", sql, [&](ColumnReader row) {
        Mark mark;
        mark.budget = row.text();
        mark.start_at = row.integer();
        mark.at = row.integer();
        mark.settled = row.integer();
        if (mark.budget.empty()) {
            of_org.push_back(std::move(mark));
            return;
        }
        const bool same_window = !first && before.budget == mark.budget && before.start_at == mark.start_at;
        check_mark(mark, same_window ? &before : nullptr);
        before = std::move(mark);
        first = false;
    });
    check_org_marks(of_org);
}

void LedgerCheck::check_mark(const Mark& mark, const Mark* before) {
    findings_.checked(Promise::exact_ledger);
    const auto violated = [&](std::string what) {
        findings_.violated(Promise::exact_ledger, name_of(mark), std::move(what));
    };
    const auto budget = by_name_.find(mark.budget);
    if (budget == by_name_.end()) return violated("there is no such budget");
    const auto found = budget->second->windows.find(mark.start_at);
    if (found == budget->second->windows.end()) return violated("its budget has no such window");
    Window& window = found->second;
    window.last_mark = std::max(window.last_mark, mark.at);
    const std::int64_t width = bucket_minutes[static_cast<std::size_t>(budget->second->kind)] * minute;
    if ((mark.at - mark.start_at) % width != 0 || mark.at >= micros(window.span.end)) {
        violated("no bucket of its window begins then");
    }
    // Something was spent between two marks. A correction can have taken it back.
    const Sum least = window.corrected_sum == 0 ? 1 : -window.corrected_sum;
    if (before != nullptr && mark.settled - before->settled < least) {
        violated(fmt::format("says {}, the one before it {}", mark.settled, before->settled));
    }
    if (window.stored && window.settled - mark.settled < least) {
        violated(fmt::format("says {}, and its window has no more than {}", mark.settled, window.settled));
    }
}

void LedgerCheck::check_org_marks(const std::vector<Mark>& marks) {
    if (reader_.error()) return;
    std::vector<std::pair<std::int64_t, Sum>> minutes(minutes_.begin(), minutes_.end());
    std::ranges::sort(minutes, {}, &std::pair<std::int64_t, Sum>::first);
    Sum settled = 0;
    auto mark = marks.begin();
    const auto left_over = [&](std::int64_t until) {
        for (; mark != marks.end() && mark->at < until; ++mark) {
            findings_.violated(Promise::exact_ledger, name_of(*mark), "nothing was spent in its minute");
            findings_.repair({store::Repair::Kind::remove, name_of(*mark), {{"settled", mark->settled, 0}}});
        }
    };
    for (const auto& [at, cost] : minutes) {
        left_over(at);
        if (mark != marks.end() && mark->at == at) {
            findings_.counters(Promise::exact_ledger, name_of(*mark), {{"settled", mark->settled, settled}},
                               "the cost events before it");
            ++mark;
        } else {
            const store::RowName name = name_of(Mark{"", 0, at, 0});
            findings_.violated(Promise::exact_ledger, name,
                               fmt::format("is missing, although {} was spent in its minute", cost));
            findings_.repair({store::Repair::Kind::insert, name, {{"settled", 0, static_cast<std::int64_t>(settled)}}});
        }
        settled += cost;
    }
    left_over(INT64_MAX);

    const std::int64_t last = minutes.empty() ? 0 : minutes.back().first;
    reader_.each("orgs", fmt::format("select marked_at from orgs where org = {}", org_), [&](ColumnReader row) {
        findings_.counters(Promise::exact_ledger, row_of("orgs", org_, {}), {{"marked_at", row.integer(), last}},
                           "its cost events");
    });
}

store::RowName LedgerCheck::name_of(const Mark& mark) const {
    return row_of("spend_marks", org_, {{"budget", mark.budget}, {"start_at", mark.start_at}, {"at", mark.at}});
}

void LedgerCheck::check_windows() {
    for (const Budget& budget : budgets_) {
        for (const auto& [start, window] : budget.windows) check_window(budget, window);
    }
}

void LedgerCheck::check_window(const Budget& budget, const Window& window) {
    const store::RowName name = window_name(budget, window);
    if (!window.stored) {
        if (window.needed) missing_window(budget, window);
        return;
    }
    findings_.counters(Promise::exact_ledger, name, {{"end_at", window.end_at, micros(window.span.end)}},
                       "the calendar and its budget");
    findings_.counters(Promise::exact_ledger, name, {{"marked_at", window.marked_at, window.last_mark}}, "its marks");
    findings_.counters(Promise::hard_ceiling, name, {{"held", window.held, window.held_sum}}, "the open holds");
    // A budget counts while it is in force. What it counted before it was deleted, or deleted and made again, is kept
    // as it was then, and the ledger has gone on without it.
    if (budget.deleted || window.end_at <= budget.created_at) return;

    findings_.counters(Promise::exact_ledger, name, {{"settled", window.settled, window.settled_sum}},
                       budget.metric == Metric::runs ? "the admitted runs" : "its cost events");
    if (!window.hard) return;
    findings_.checked(Promise::hard_ceiling);
    const Sum excess = budget.metric == Metric::usd ? window.overage_sum : window.over_limit_sum;
    if (window.settled_sum + window.held_sum <= Sum{window.limit_units} + window.grace + excess) return;
    findings_.violated(Promise::hard_ceiling, name,
                       fmt::format("{} settled and {} held are more than the limit {}; before the limit was set there "
                                   "were {} too many, and {} are marked as overage",
                                   window.settled_sum, window.held_sum, window.limit_units, window.grace, excess));
}

void LedgerCheck::missing_window(const Budget& budget, const Window& window) {
    const store::RowName name = window_name(budget, window);
    findings_.violated(Promise::exact_ledger, name,
                       fmt::format("is missing, although {} was counted in it", window.settled_sum));
    if (window.settled_sum > INT64_MAX) return;
    findings_.repair({store::Repair::Kind::insert,
                      name,
                      {{"end_at", 0, micros(window.span.end)},
                       {"limit_units", 0, budget.limit_units},
                       {"hard", 0, budget.hard ? 1 : 0},
                       {"settled", 0, static_cast<std::int64_t>(window.settled_sum)},
                       {"held", 0, static_cast<std::int64_t>(window.held_sum)},
                       {"grace", 0, 0},
                       {"warned", 0, 0},
                       {"exhausted", 0, 0},
                       {"marked_at", 0, window.last_mark}}});
}

store::RowName LedgerCheck::window_name(const Budget& budget, const Window& window) const {
    return row_of("budget_windows", org_, {{"budget", budget.name}, {"start_at", micros(window.span.start)}});
}

void LedgerCheck::check_agent_totals() {
    const std::string sql =
        fmt::format("select agent, settled, tokens, events, last_event_at from agent_totals where org = {}", org_);
    reader_.each("agent totals", sql, [this](ColumnReader row) {
        const std::string agent(row.text());
        const std::int64_t settled = row.integer();
        const std::int64_t tokens = row.integer();
        const std::int64_t events = row.integer();
        const std::int64_t last_event_at = row.integer();
        const auto found = agents_.find(agent);
        const AgentSums sums = found == agents_.end() ? AgentSums() : found->second;
        if (found != agents_.end()) agents_.erase(found);
        findings_.counters(Promise::exact_ledger, row_of("agent_totals", org_, {{"agent", agent}}),
                           {{"settled", settled, sums.cost},
                            {"tokens", tokens, sums.tokens},
                            {"events", events, sums.events},
                            {"last_event_at", last_event_at, sums.last_at}},
                           "its cost events");
    });
    if (reader_.error()) return;
    for (const auto& [agent, sums] : agents_) {
        const store::RowName name = row_of("agent_totals", org_, {{"agent", agent}});
        findings_.violated(Promise::exact_ledger, name,
                           fmt::format("is missing, although there are {} cost events", sums.events));
        findings_.repair({store::Repair::Kind::insert,
                          name,
                          {{"settled", 0, static_cast<std::int64_t>(sums.cost)},
                           {"tokens", 0, static_cast<std::int64_t>(sums.tokens)},
                           {"events", 0, static_cast<std::int64_t>(sums.events)},
                           {"last_event_at", 0, sums.last_at}}});
    }
}

void LedgerCheck::check_rollups() {
    const std::string sql = fmt::format(
        "select day, agent, provider, model, cost, events, calls, {} from rollups where org = {}", usage_list, org_);
    const auto name_of = [this](std::int64_t day, std::string_view agent, std::string_view provider,
                                std::string_view model) {
        return row_of("rollups", org_,
                      {{"day", day},
                       {"agent", std::string(agent)},
                       {"provider", std::string(provider)},
                       {"model", std::string(model)}});
    };
    reader_.each("roll-ups", sql, [&](ColumnReader row) {
        const std::int64_t day = row.integer();
        const std::string agent(row.text());
        const std::string provider(row.text());
        const std::string model(row.text());
        const store::RowName name = name_of(day, agent, provider, model);
        const std::int64_t cost = row.integer();
        const std::int64_t events = row.integer();
        const std::int64_t calls = row.integer();
        std::array<std::int64_t, 6> usage;
        for (std::int64_t& tokens : usage) tokens = row.integer();

        const auto found = rollups_.find(fmt::format("{}\n{}\n{}\n{}", day, agent, provider, model));
        if (found == rollups_.end()) {
            findings_.checked(Promise::exact_ledger);
            findings_.violated(Promise::exact_ledger, name, "there are no cost events it could be the sum of");
            findings_.repair({store::Repair::Kind::remove, name, {{"cost", cost, 0}, {"events", events, 0}}});
            return;
        }
        RollupSums& sums = found->second;
        sums.stored = true;
        findings_.counters(Promise::exact_ledger, name,
                           {{"cost", cost, sums.cost},
                            {"events", events, sums.events},
                            {"calls", calls, sums.calls},
                            {usage_columns[0], usage[0], sums.usage[0]},
                            {usage_columns[1], usage[1], sums.usage[1]},
                            {usage_columns[2], usage[2], sums.usage[2]},
                            {usage_columns[3], usage[3], sums.usage[3]},
                            {usage_columns[4], usage[4], sums.usage[4]},
                            {usage_columns[5], usage[5], sums.usage[5]}},
                           "its cost events");
    });
    if (reader_.error()) return;
    for (const auto& [key, sums] : rollups_) {
        if (sums.stored) continue;
        std::vector<std::string_view> parts;
        for (std::string_view rest = key; parts.size() < 3;) {
            parts.push_back(rest.substr(0, rest.find('\n')));
            rest.remove_prefix(parts.back().size() + 1);
            if (parts.size() == 3) parts.push_back(rest);
        }
        const store::RowName name = name_of(std::stoll(std::string(parts[0])), parts[1], parts[2], parts[3]);
        findings_.violated(Promise::exact_ledger, name,
                           fmt::format("is missing, although there are {} cost events", sums.events));
        store::Repair repair{store::Repair::Kind::insert, name, {}};
        repair.cells.push_back({"cost", 0, static_cast<std::int64_t>(sums.cost)});
        repair.cells.push_back({"events", 0, static_cast<std::int64_t>(sums.events)});
        repair.cells.push_back({"calls", 0, static_cast<std::int64_t>(sums.calls)});
        for (std::size_t i = 0; i < usage_columns.size(); ++i) {
            repair.cells.push_back({std::string(usage_columns[i]), 0, static_cast<std::int64_t>(sums.usage[i])});
        }
        findings_.repair(std::move(repair));
    }
}

RunSums LedgerCheck::of_run(Id run_id) const {
    const auto found = runs_.find(run_id);
    return found == runs_.end() ? RunSums() : found->second;
}

SessionSums LedgerCheck::of_session(Id session_id) const {
    const auto found = sessions_.find(session_id);
    return found == sessions_.end() ? SessionSums() : found->second;
}

}  // namespace interlock::verify
