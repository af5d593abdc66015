#include "core/ledger.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/ensure.h"
#include "core/agents.h"
#include "core/check.h"
#include "core/expected.h"
#include "core/limits.h"
#include "core/run_tree.h"

namespace interlock::core {
namespace {

// What is about to become a cost event.
struct Spending {
    CommandKey key = {};
    std::uint64_t fingerprint = 0;
    Instant counted_at = {};
    Attribution who = {};
    Amounts amounts = {};  // `usd` is the cost, `tokens` the sum of the usage.
    Usage usage = {};
    std::string price = {};
    const Hold* hold = nullptr;  // Settled by it.
    bool estimated = false;
    bool unpriced = false;
    CommandKey corrects = {};
    std::string why = {};
    Amounts booked = {};     // For the same hold, before this.
    std::int64_t known = 0;  // Nano-dollars that were booked as an estimate, which this one replaces.
};

Complaint check_spending(Money cost, const Usage& usage, std::int64_t calls, const std::string& price) {
    if (cost.negative()) return "cost must not be negative";
    if (!tokens_of(usage)) return "token counts must not be negative and must add up to a 64-bit number";
    return first_of(check_range("calls", calls, 0, limits::calls_per_event_max), check_label("price", price));
}

// What one event, or one hold, may come to at most. Only its sender is refused, so that sums stay far below what a
// counter can say.
Complaint check_size(std::int64_t nanos, std::int64_t tokens) {
    if (nanos > limits::nanos_per_event_max) {
        return fmt::format("${} exceeds the maximum of ${} for one event or hold", to_text(Money::nanos(nanos)),
                           to_text(Money::nanos(limits::nanos_per_event_max)));
    }
    if (tokens > limits::tokens_per_event_max) {
        return fmt::format("{} tokens exceed the maximum of {} for one event or hold", tokens,
                           limits::tokens_per_event_max);
    }
    return std::nullopt;
}

Usage difference(const Usage& a, const Usage& b) {
    return {.input_tokens = a.input_tokens - b.input_tokens,
            .output_tokens = a.output_tokens - b.output_tokens,
            .cache_read_tokens = a.cache_read_tokens - b.cache_read_tokens,
            .cache_write_5m_tokens = a.cache_write_5m_tokens - b.cache_write_5m_tokens,
            .cache_write_1h_tokens = a.cache_write_1h_tokens - b.cache_write_1h_tokens,
            .reasoning_tokens = a.reasoning_tokens - b.reasoning_tokens};
}

// The open hold that a run draws on: the one that it was admitted with, or that of the next run above which has one.
const Hold* own_hold(OrgState& state, RunId run_id) {
    const Run* run = run_id.value.empty() ? nullptr : state.run(run_id);
    while (run != nullptr && run->hold.value.empty()) run = parent_of(state, *run);
    if (run == nullptr) return nullptr;
    const Hold* hold = state.hold(run->hold);
    return hold != nullptr && hold->state == HoldState::open ? hold : nullptr;
}

// The hold from which this one drew, if it is still open.
const Hold* source_of(OrgState& state, const Hold& hold) {
    const Run* run = hold.who.run.value.empty() ? nullptr : state.run(hold.who.run);
    if (run == nullptr) return nullptr;
    return own_hold(state, hold.for_run() ? run->parent : run->id);
}

// What a run's own hold has covered already of what it was made with.
Amounts consumed_of(OrgState& state, const Hold& hold) {
    const Run* run = hold.for_run() ? state.run(hold.who.run) : nullptr;
    if (run == nullptr) return {};
    return {run->hold_bound.usd - hold.bound.usd, run->hold_bound.tokens - hold.bound.tokens,
            run->hold_bound.calls - hold.bound.calls, 0};
}

// Of the parts of a hold, the one in this budget's window; or null.
template <class Parts>
auto* part_in(Parts& parts, const std::string& budget, Instant window) {
    const auto found = std::ranges::find_if(
        parts, [&](const HoldPart& part) { return part.budget == budget && part.window == window; });
    return found != parts.end() ? &*found : nullptr;
}

// What a hold with these parts already covers of each touch.
void set_relief(std::vector<BudgetImpact>& impacts, const std::vector<HoldPart>& parts) {
    for (BudgetImpact& impact : impacts) {
        const HoldPart* part = part_in(parts, impact.budget->row.name, impact.span.start);
        if (part != nullptr) impact.relief = std::min(part->amount, impact.amount);
    }
}

Amounts min_of(const Amounts& a, const Amounts& b) {
    return {std::min(a.usd, b.usd), std::min(a.tokens, b.tokens), std::min(a.calls, b.calls), 0};
}
void subtract(Amounts& from, const Amounts& amounts) {
    from.usd -= amounts.usd;
    from.tokens -= amounts.tokens;
    from.calls -= amounts.calls;
    ensure(from.usd >= 0 && from.tokens >= 0 && from.calls >= 0, "nobody draws more than there is");
}
void add(Amounts& to, const Amounts& amounts) {
    to.usd += amounts.usd;
    to.tokens += amounts.tokens;
    to.calls += amounts.calls;
}

// Adds to a counter of what was spent. A counter that has reached the most it can say stays there.
void count(std::int64_t& counter, std::int64_t amount) {
    if (counter < limits::counter_max) counter = std::min(counter + amount, limits::counter_max);
}

// Who opened a hold may end it, and so may an operator. If the API key that opened it was revoked, another key of the
// same agent may.
bool may_end(OrgState& state, const Hold& hold, const Actor& by) {
    switch (by.kind) {
        case ActorKind::trusted:
            return true;
        case ActorKind::gateway:
            return hold.opened_by == HoldOpener::gateway;
        case ActorKind::key:
            break;
    }
    if (hold.opened_by != HoldOpener::key) return false;
    if (hold.who.api_key == by.key) return true;
    const ApiKey* opener = state.api_keys.find(hold.who.api_key);
    const bool revoked = opener != nullptr && opener->revoked_at != far_past;
    return revoked && !by.agent.empty() && by.agent == hold.who.agent;
}

// Why a hold cannot be ended or extended, if it cannot.
struct HoldRefusal {
    HoldStatus status;
    std::string detail;
};
std::optional<HoldRefusal> refuse_end(OrgState& state, const Hold* hold, const Actor& by) {
    if (hold != nullptr && hold->for_run()) {
        return HoldRefusal{HoldStatus::invalid_request, "the hold of a run ends with the run"};
    }
    if (hold == nullptr) return HoldRefusal{HoldStatus::hold_not_found, "the hold does not exist"};
    if (!may_end(state, *hold, by)) {
        return HoldRefusal{HoldStatus::not_your_hold,
                           hold->opened_by == HoldOpener::gateway
                               ? "the gateway opened this hold for a model call and ends it itself; use an operator "
                                 "key to end it"
                               : "another API key opened this hold; use that key, or an operator key"};
    }
    if (hold->state != HoldState::open) return HoldRefusal{HoldStatus::hold_closed, "the hold is closed"};
    return std::nullopt;
}

// Takes from the run's own hold what the impacts' relief says, and the same from its bound.
Amounts draw(OrgState& state, HoldId own_id, const Amounts& amounts, const std::vector<BudgetImpact>& impacts) {
    const Amounts drawn = min_of(state.hold(own_id)->bound, amounts);
    state.change_hold(own_id, [&](Hold& own) {
        subtract(own.bound, drawn);
        for (const BudgetImpact& impact : impacts) {
            if (impact.relief == 0) continue;
            part_in(own.parts, impact.budget->row.name, impact.span.start)->amount -= impact.relief;
            window_of(state, impact).held -= impact.relief;
        }
    });
    return drawn;
}

// Writes the event and moves every counter. All checks are behind us. `run` is given by those who hold the run's row in
// their hands; everybody else's run is edited in place.
Seq record(OrgState& state, Stamp stamp, Spending&& spending, std::vector<BudgetImpact>& impacts, Run* run) {
    const Amounts bound = spending.hold != nullptr ? spending.hold->bound : Amounts{};
    // By how much the hold's bound is passed, beyond what was already so when it was booked before.
    const auto over_bound = [&](Metric metric, std::int64_t amount) {
        const std::int64_t covered = std::max(bound.of(metric), spending.booked.of(metric));
        return bound.of(metric) > 0 ? std::max<std::int64_t>(0, spending.booked.of(metric) + amount - covered) : 0;
    };

    // Windows first: what they were decides what is overage.
    std::int64_t overage = over_bound(Metric::usd, spending.amounts.usd);
    bool over_limit = overage > 0;
    std::vector<std::string> hurt;
    for (BudgetImpact& impact : impacts) {
        const Metric metric = impact.budget->row.metric;
        if (impact.amount == 0) continue;
        const Window& window = window_of(state, impact);
        const auto excess = [&](std::int64_t more) {
            return std::max<std::int64_t>(0, window.settled + window.held + more - impact.limit);
        };
        // What was held for this has left `held` by now. It was there, so it is no excess that this event makes: also
        // when the limit was lowered under it meanwhile.
        const std::int64_t excess_before = excess(impact.relief);
        spend_in_window(state, stamp, impact, impact.amount);
        if (!impact.hard) continue;
        const std::int64_t new_excess = std::max<std::int64_t>(0, excess(0) - excess_before);
        if (new_excess == 0 && over_bound(metric, impact.amount) == 0) continue;
        over_limit = true;
        hurt.push_back(impact.budget->row.name);
        if (metric == Metric::usd) overage = std::max(overage, new_excess);
    }

    CostEvent& event = state.cost_events.add();
    event.key = spending.key;
    event.fingerprint = spending.fingerprint;
    event.at = stamp.at;
    event.counted_at = spending.counted_at;
    event.who = std::move(spending.who);
    event.cost = spending.amounts.usd;
    event.usage = spending.usage;
    event.calls = spending.amounts.calls;
    event.price = std::move(spending.price);
    if (spending.hold != nullptr) event.hold = spending.hold->id;
    event.overage = overage;
    event.over_limit = over_limit;
    event.estimated = spending.estimated;
    event.unpriced = spending.unpriced;
    event.corrects = spending.corrects;
    event.why = std::move(spending.why);
    event.seq = state.feed.add_charged(event, spending.amounts.tokens);
    const Seq seq = event.seq;
    const Attribution& who = event.who;  // Nothing below adds an event.

    AgentTotals& totals = state.agent_totals.edit(who.agent);
    const std::int64_t settled_before = totals.settled;
    count(totals.settled, spending.amounts.usd);
    count(totals.tokens, spending.amounts.tokens);
    totals.events += 1;
    totals.last_event_at = std::max(totals.last_event_at, stamp.at);
    spend_in_org(state, stamp, totals.settled - settled_before);

    Rollup& rollup = state.edit_rollup(utc_day(spending.counted_at), who);
    count(rollup.cost, spending.amounts.usd);
    rollup.events += 1;
    count(rollup.calls, spending.amounts.calls);
    count(rollup.usage.input_tokens, spending.usage.input_tokens);
    count(rollup.usage.output_tokens, spending.usage.output_tokens);
    count(rollup.usage.cache_read_tokens, spending.usage.cache_read_tokens);
    count(rollup.usage.cache_write_5m_tokens, spending.usage.cache_write_5m_tokens);
    count(rollup.usage.cache_write_1h_tokens, spending.usage.cache_write_1h_tokens);
    count(rollup.usage.reasoning_tokens, spending.usage.reasoning_tokens);

    if (!who.session.value.empty() && state.sessions.find(who.session) != nullptr) {
        Session& session = state.sessions.edit(who.session);
        count(session.settled, spending.amounts.usd);
        session.events += 1;
    }
    if (!who.run.value.empty() && (run != nullptr || state.run(who.run) != nullptr)) {
        Run& row = run != nullptr ? *run : state.edit_run_totals(who.run);
        count(row.settled, spending.amounts.usd);
        count(row.tokens, spending.amounts.tokens);
        row.events += 1;
        if (spending.estimated) count(row.unknown, spending.amounts.usd);
        row.unknown -= spending.known;
        count_above(state, row, spending.amounts.usd);
    }

    for (const BudgetImpact& impact : impacts) after_spending(state, stamp, impact, who);
    for (const std::string& budget : hurt) {
        freeze(
            state, budget,
            fmt::format("event {} cost {} more than was reserved or left", seq.value, to_text(Money::nanos(overage))));
    }
    return seq;
}

// What an ended hold took from its source and did not use goes back there.
void give_back(OrgState& state, const Hold& ended, HoldId source, Amounts used) {
    const Run* owner = ended.for_run() ? state.run(ended.who.run) : nullptr;
    state.change_hold(source, [&](Hold& own) {
        for (const HoldPart& part : ended.parts) {
            const Metric metric = state.live_budget(part.budget)->row.metric;
            const std::int64_t before = owner != nullptr ? owner->hold_bound.of(metric) - part.amount : 0;
            const std::int64_t back = std::max<std::int64_t>(0, part.drawn - before - used.of(metric));
            HoldPart* const own_part = part_in(own.parts, part.budget, part.window);
            if (back == 0 || own_part == nullptr) continue;
            own_part->amount += back;
            state.windows.edit({part.budget, part.window}).held += back;
        }
        add(used, consumed_of(state, ended));
        Amounts back = ended.drawn;
        subtract(back, min_of(back, used));
        add(own.bound, back);
    });
}

// Ends a hold: its parts leave their windows, and the hold it drew from gets back what was not used. Returns the parts.
std::vector<HoldPart> close_hold(OrgState& state, Stamp stamp, HoldId id, HoldState how, const Amounts& used,
                                 CommandKey event = {}) {
    const Hold& ending = *state.hold(id);
    ensure(ending.state == HoldState::open, "invariant (3)");
    for (const HoldPart& part : ending.parts) {
        ensure(state.live_budget(part.budget) != nullptr, "a deleted budget leaves no parts behind");
        Window& window = state.windows.edit({part.budget, part.window});
        window.held -= part.amount;
        ensure(window.held >= 0, "a window's held is the sum of its parts");
        if (state.line_waits_for.budgets.contains(part.budget)) state.line_may_move = true;
    }
    const Hold* source = source_of(state, ending);
    if (source != nullptr) give_back(state, ending, source->id, used);
    if (state.line_waits_for.any_hold) state.line_may_move = true;
    std::vector<HoldPart> parts;
    state.change_hold(id, [&](Hold& hold) {
        parts.swap(hold.parts);
        hold.state = how;
        hold.closed_at = stamp.at;
        hold.event = event;
    });
    return parts;
}

// Settles an open hold. All checks are behind us.
Seq settle(OrgState& state, Stamp stamp, Spending spending, HoldId id, Run* run) {
    const Hold& hold = *state.hold(id);
    spending.hold = &hold;
    spending.counted_at = hold.created_at;
    spending.who = hold.who;
    const auto parts = close_hold(state, stamp, id, HoldState::settled, spending.amounts, spending.key);
    auto impacts = budget_impacts(state, spending.who, spending.amounts, spending.counted_at);
    set_relief(impacts, parts);
    return record(state, stamp, std::move(spending), impacts, run);
}

// Moves what the corrected event comes to, and says so in the feed, behind the event that corrects it.
void note_correction(OrgState& state, CommandKey key, CommandKey corrects, std::int64_t cost_now, std::string why) {
    state.corrected_costs.edit_or_insert(corrects).cost = cost_now;
    state.feed.add(ChargeCorrected{key, corrects, cost_now, std::move(why)});
}

// What an event comes to with its corrections.
std::int64_t cost_now(OrgState& state, const CostEvent& event) {
    const CorrectedCost* corrected = state.corrected_costs.find(event.key);
    return corrected != nullptr ? corrected->cost : event.cost;
}

// What was booked for a hold that ended without the gateway's settlement; nothing where it was released. A settlement
// that comes late is booked once.
struct Booked {
    std::optional<CostEvent> event;
    bool again = false;
};
Booked booked_for(OrgState& state, const Hold& hold) {
    if (hold.event.value.empty()) return {};
    auto event = state.cost_events.find(hold.event);
    const bool settled_late = event && !event->corrects.value.empty();
    return {.event = std::move(event), .again = settled_late};
}

// The gateway learns what a call has cost after its hold has ended without it. The difference to what was booked then
// is an event of its own; where nothing was booked, all of it is.
Seq settle_late(OrgState& state, Stamp stamp, Spending spending, const Hold& hold,
                const std::optional<CostEvent>& first) {
    spending.counted_at = hold.created_at;
    spending.who = hold.who;
    const std::int64_t cost = spending.amounts.usd;
    const CommandKey key = spending.key;
    const std::string why = "the provider's report came after the hold had ended";
    if (first) {
        spending.corrects = first->key;
        spending.why = why;
        spending.booked = {cost_now(state, *first), tokens_of(first->usage).value_or(0), first->calls, 0};
        spending.amounts.usd -= spending.booked.usd;
        spending.amounts.tokens -= spending.booked.tokens;
        spending.amounts.calls -= spending.booked.calls;
        spending.usage = difference(spending.usage, first->usage);
        if (first->estimated && !spending.estimated) spending.known = spending.booked.usd;
    }
    state.change_hold(hold.id, [&](Hold& ended) {
        ended.state = HoldState::settled;
        ended.event = key;
    });
    spending.hold = &hold;
    auto impacts = budget_impacts(state, spending.who, spending.amounts, spending.counted_at);
    const Seq seq = record(state, stamp, std::move(spending), impacts, nullptr);
    if (first) note_correction(state, key, first->key, cost, why);
    return seq;
}

// An id made of what it is for. Clients choose ids as well, and one may have chosen this: then the next.
template <class Taken>
Id derived_id(std::string_view what, Id of, Taken taken) {
    Id id = first_derived_id(what, of);
    for (int n = 2; taken(id); ++n) id = id_from_hash(fmt::format("{}#{}", to_text(what, of), n));
    return id;
}

// An event that no client asked for has a key all the same.
CommandKey derived_key(OrgState& state, std::string_view what, Id of) {
    return CommandKey(derived_id(what, of, [&](Id id) { return state.cost_events.find(CommandKey(id)).has_value(); }));
}

// The provider may have been paid, nobody knows how much: the bound is the truth until somebody says better.
void charge_at_bound(OrgState& state, Stamp stamp, HoldId id, Run* run) {
    const Hold& hold = *state.hold(id);
    Spending spending;
    spending.key = derived_key(state, "hold_at_bound", id.value);
    spending.amounts = hold.bound;
    // The kind of token is not known. Input is what every model has.
    spending.usage.input_tokens = spending.amounts.tokens;
    spending.estimated = true;
    settle(state, stamp, std::move(spending), id, run);
}

void release(OrgState& state, Stamp stamp, HoldId id, bool expired) {
    close_hold(state, stamp, id, HoldState::released, {});
    state.feed.add(HoldReleased{id, expired});
}

// What is held: as much of the bound as every budget has, where less than the bound will do.
Amounts granted(const std::optional<CeilingRoom>& room, const Reserve& command,
                const std::vector<BudgetImpact>& impacts) {
    Amounts amounts = command.bound;
    if (command.floor == Amounts{}) return amounts;
    const auto lower = [&](Metric metric, std::int64_t free) {
        const auto shared = static_cast<std::int64_t>(static_cast<__int128>(free) * command.share / 100);
        std::int64_t& amount = metric == Metric::usd      ? amounts.usd
                               : metric == Metric::tokens ? amounts.tokens
                                                          : amounts.calls;
        // Where not even the floor is free, the floor is what the budget refuses.
        if (amount > shared) amount = std::max(shared, command.floor.of(metric));
    };
    for (const BudgetImpact& impact : impacts) {
        if (!impact.hard || impact.budget->row.metric == Metric::runs) continue;
        const std::int64_t free = impact.limit - impact.settled - impact.held + impact.relief;
        lower(impact.budget->row.metric, std::max<std::int64_t>(0, free));
    }
    if (room) lower(Metric::usd, room->free);
    return amounts;
}

// Nano-dollars that the tightest budget, or the run's ceiling, has besides what it is asked for.
std::int64_t left_beside(const std::optional<CeilingRoom>& room, std::int64_t bound,
                         const std::vector<BudgetImpact>& impacts) {
    std::int64_t left = room ? std::max<std::int64_t>(0, room->free - bound) : -1;
    for (const BudgetImpact& impact : impacts) {
        if (!impact.hard || impact.budget->row.metric != Metric::usd) continue;
        const std::int64_t rest = impact.limit - impact.settled - impact.held + impact.relief - impact.amount;
        left = left < 0 ? std::max<std::int64_t>(0, rest) : std::clamp<std::int64_t>(rest, 0, left);
    }
    return left;
}

Complaint check_floor(const Reserve& command) {
    for (const Metric metric : {Metric::usd, Metric::tokens, Metric::calls, Metric::runs}) {
        if (command.floor.of(metric) > command.bound.of(metric)) return "floor must not be above bound";
    }
    return first_of(check_amounts("floor", command.floor), check_range("share", command.share, 1, 100));
}

std::string describe(const Denial& denial) {
    if (!denial.frozen) return describe(denial.refusal);
    return fmt::format("budget '{}' is frozen: {}", denial.refusal.budget, denial.refusal.frozen);
}

template <class Reply, class Status>
Reply denied(OrgState& state, Stamp stamp, const Denial& denial, const Attribution& who) {
    after_denial(state, stamp, denial, who);
    Reply reply;
    reply.status = denial.frozen ? Status::budget_frozen : Status::budget_exceeded;
    reply.budget = denial.refusal;
    reply.detail = describe(denial);
    return reply;
}

template <class Reply, class Status>
Reply past_ceiling_reply(BudgetRefusal refusal) {
    Reply reply;
    reply.status = Status::budget_exceeded;
    reply.detail = describe(refusal);
    reply.budget = std::move(refusal);
    return reply;
}

template <class Status>
Status status_of(RunCheck check) {
    switch (check) {
        case RunCheck::run_not_found:
            return Status::run_not_found;
        case RunCheck::stale_fence:
            return Status::stale_fence;
        case RunCheck::run_ended:
            return Status::run_ended;
        case RunCheck::fine:
            break;
    }
    ensure(false, "only asked about what is not fine");
    return Status::run_ended;
}

}  // namespace

void relieve_by_parent(OrgState& state, const Run& run, std::vector<BudgetImpact>& impacts) {
    if (const Hold* own = own_hold(state, run.parent)) set_relief(impacts, own->parts);
}

std::optional<BudgetRefusal> past_parents_ceiling(OrgState& state, const Run& run, std::int64_t usd) {
    const Run* parent = parent_of(state, run);
    if (parent == nullptr) return std::nullopt;
    return past_ceiling(room_below_ceilings(state, parent, own_hold(state, parent->id)), usd);
}

bool is_operators_key(OrgState& state, const std::string& id) {
    if (id.starts_with("local:")) return true;  // An admin by the Unix socket, without a key or a grant.
    const ApiKey* key = state.api_keys.find(id);
    if (key == nullptr) return false;
    return std::ranges::any_of(key->scopes, [](const auto& scope) { return scope == "operator" || scope == "admin"; });
}

std::optional<RefusedHold> refuse_hold(OrgState& state, const Attribution& who, const Amounts& bound, const Hold* own) {
    const Amounts held_already = own != nullptr ? min_of(own->bound, bound) : Amounts{};
    const auto check = [&](const OrgState::Held& held, std::size_t holds_max, std::int64_t sum_max,
                           std::string_view whose) -> std::optional<RefusedHold> {
        if (held.holds >= holds_max) {
            return RefusedHold{ReserveStatus::too_many,
                               fmt::format("{} may have at most {} open holds", whose, holds_max)};
        }
        const bool fits = held.usd + bound.usd - held_already.usd <= sum_max &&
                          held.tokens + bound.tokens - held_already.tokens <= sum_max;
        if (fits) return std::nullopt;
        return RefusedHold{ReserveStatus::amount_too_large,
                           fmt::format("{} may hold at most ${} and {} tokens at once", whose,
                                       to_text(Money::nanos(sum_max)), sum_max)};
    };
    using namespace limits;
    if (auto refused = check(state.held_in_org(), open_holds_per_org_max, held_max, "an org")) return refused;
    if (!who.run.value.empty() && state.held_in_run(who.run).holds >= open_holds_per_run_max) {
        return RefusedHold{ReserveStatus::too_many,
                           fmt::format("run '{}' has at most {} open holds; settle or release some of them",
                                       to_text("run", who.run.value), open_holds_per_run_max)};
    }
    if (auto refused =
            check(state.held_by_agent(who.agent), open_holds_per_agent_max, held_per_agent_max, "an agent")) {
        return refused;
    }
    auto refused = check(state.held_by_key(who.api_key), open_holds_per_agent_max, held_per_agent_max,
                         "an API key below operator");
    if (refused && !who.api_key.empty() && !is_operators_key(state, who.api_key)) return refused;
    if (auto complaint = check_size(bound.usd, bound.tokens)) {
        return RefusedHold{ReserveStatus::amount_too_large, std::move(*complaint)};
    }
    return std::nullopt;
}

ChargeReply charge(OrgState& state, Stamp stamp, const Charge& command, CommandKey key, std::uint64_t fingerprint) {
    const auto refuse = [](ChargeStatus why, std::string detail) {
        return ChargeReply{
            .status = why, .seq = {}, .cost = {}, .overage = {}, .budget = {}, .detail = std::move(detail)};
    };
    ensure(!key.value.empty(), "a cost event is stored under its command's key");

    if (auto complaint = first_of(check_spending(command.cost, command.usage, command.calls, command.price),
                                  check_attribution(command.who))) {
        return refuse(ChargeStatus::invalid_request, *complaint);
    }
    Spending spending{.who = command.who};
    const Run* run = command.who.run.value.empty() ? nullptr : state.run(command.who.run);
    if (run != nullptr) inherit(spending.who, *run);
    if (run != nullptr && spending.who.agent != run->who.agent) {
        return refuse(ChargeStatus::invalid_request, fmt::format("the run belongs to agent '{}'", run->who.agent));
    }
    if (working_agent(state, spending.who.agent) == nullptr) {
        return refuse(ChargeStatus::agent_not_found, fmt::format("there is no agent '{}'", spending.who.agent));
    }
    if (!command.who.session.value.empty() && state.sessions.find(command.who.session) == nullptr) {
        return refuse(ChargeStatus::session_not_found, "the session does not exist");
    }
    if (const RunCheck check = check_run(state, command.who.run, command.fence); check != RunCheck::fine) {
        return refuse(status_of<ChargeStatus>(check), "the run is not live, or its fence is stale");
    }

    spending.key = key;
    spending.fingerprint = fingerprint;
    spending.counted_at = stamp.at;
    spending.amounts = {command.cost.nanos(), *tokens_of(command.usage), command.calls, 0};
    spending.usage = command.usage;
    spending.price = command.price;
    spending.unpriced = command.unpriced;
    if (auto complaint = check_size(spending.amounts.usd, spending.amounts.tokens)) {
        return refuse(ChargeStatus::amount_too_large, *complaint);
    }
    const Hold* own = own_hold(state, spending.who.run);
    if (auto refusal = past_ceiling(room_below_ceilings(state, run, own), spending.amounts.usd);
        refusal && !command.incurred) {
        return past_ceiling_reply<ChargeReply, ChargeStatus>(std::move(*refusal));
    }
    auto impacts = budget_impacts(state, spending.who, spending.amounts, stamp.at);
    if (own != nullptr) set_relief(impacts, own->parts);
    if (const auto denial = deny(state, impacts); denial && !command.incurred) {
        return denied<ChargeReply, ChargeStatus>(state, stamp, *denial, spending.who);
    }

    // From here on the charge must succeed.
    if (own != nullptr) draw(state, own->id, spending.amounts, impacts);
    const Seq seq = record(state, stamp, std::move(spending), impacts, nullptr);
    return {.status = ChargeStatus::charged,
            .seq = seq,
            .cost = command.cost,
            .overage = Money::nanos(state.cost_events.rows().back().overage),
            .budget = {},
            .detail = {}};
}

ReserveReply reserve(OrgState& state, Stamp stamp, const Reserve& command) {
    const auto refuse = [](ReserveStatus why, std::string detail) {
        return ReserveReply{.status = why, .hold = {}, .expires_at = {}, .budget = {}, .detail = std::move(detail)};
    };

    Complaint complaint = first_of(check_amounts("bound", command.bound), check_attribution(command.who),
                                   check_range("ttl_s", command.ttl_s, 1, limits::ttl_s_max), check_floor(command));
    if (command.hold.value.empty()) complaint = "a hold needs an id";
    if (complaint) return refuse(ReserveStatus::invalid_request, *complaint);
    Attribution who = command.who;
    const Run* run = who.run.value.empty() ? nullptr : state.run(who.run);
    if (run != nullptr) inherit(who, *run);
    if (run != nullptr && who.agent != run->who.agent) {
        return refuse(ReserveStatus::invalid_request, fmt::format("the run belongs to agent '{}'", run->who.agent));
    }
    if (state.hold(command.hold) != nullptr) return refuse(ReserveStatus::hold_exists, "a hold with this id exists");
    const Agent* agent = working_agent(state, who.agent);
    if (agent == nullptr) {
        return refuse(ReserveStatus::agent_not_found, fmt::format("there is no agent '{}'", who.agent));
    }
    // A pause keeps the agent from starting anything; what is going goes on, and needs its model for that.
    if (!agent->pauses.empty() && who.run.value.empty()) {
        return refuse(ReserveStatus::agent_paused, paused_because(*agent));
    }
    if (!command.who.session.value.empty() && state.sessions.find(command.who.session) == nullptr) {
        return refuse(ReserveStatus::session_not_found, "the session does not exist");
    }
    if (const RunCheck check = check_run(state, who.run, command.fence); check != RunCheck::fine) {
        return refuse(status_of<ReserveStatus>(check), "the run is not live, or its fence is stale");
    }
    const Hold* own = own_hold(state, who.run);
    if (auto refusal = refuse_hold(state, who, command.bound, own)) {
        return refuse(refusal->status, std::move(refusal->detail));
    }
    auto impacts = budget_impacts(state, who, command.bound, stamp.at);
    if (own != nullptr) set_relief(impacts, own->parts);
    const auto room = room_below_ceilings(state, run, own);
    const Amounts bound = granted(room, command, impacts);
    if (bound != command.bound) {
        impacts = budget_impacts(state, who, bound, stamp.at);
        if (own != nullptr) set_relief(impacts, own->parts);
    }
    if (auto refusal = past_ceiling(room, bound.usd)) {
        return past_ceiling_reply<ReserveReply, ReserveStatus>(std::move(*refusal));
    }
    if (const auto denial = deny(state, impacts)) {
        return denied<ReserveReply, ReserveStatus>(state, stamp, *denial, who);
    }
    if (command.dispatched && !who.provider.empty()) {
        const Cap* cap = state.caps.find({CapKind::provider, who.provider});
        if (cap != nullptr && state.calls_under_way(who.provider) >= static_cast<std::size_t>(cap->max_live)) {
            return refuse(
                ReserveStatus::concurrency_limit,
                fmt::format("provider '{}' has {} calls in progress, which is its cap", who.provider, cap->max_live));
        }
    }

    // From here on the hold must be opened.
    Hold hold{.id = command.hold,
              .who = std::move(who),
              .bound = bound,
              .drawn = {},
              .parts = {},
              .dispatched = command.dispatched,
              .state = HoldState::open,
              .created_at = stamp.at,
              .expires_at = stamp.at + std::chrono::seconds(command.ttl_s),
              .closed_at = far_past,
              .opened_by = command.by_gateway ? HoldOpener::gateway : HoldOpener::key};
    if (own != nullptr) hold.drawn = draw(state, own->id, bound, impacts);
    for (const BudgetImpact& impact : impacts) {
        if (impact.amount == 0) continue;
        window_of(state, impact).held += impact.amount;
        hold.parts.push_back({impact.budget->row.name, impact.span.start, impact.amount, impact.relief});
    }
    ReserveReply reply{.status = ReserveStatus::held,
                       .hold = command.hold,
                       .expires_at = hold.expires_at,
                       .budget = {},
                       .detail = {},
                       .bound = bound,
                       .left = left_beside(room, bound.usd, impacts),
                       .agent = hold.who.agent,
                       .session = hold.who.session,
                       .capture = agent->capture};
    state.feed.add(Held{hold.id, hold.who.agent, hold.who.run, hold.bound, hold.expires_at});
    state.open_hold(std::move(hold));
    return reply;
}

HoldReply extend_hold(OrgState& state, Stamp stamp, const ExtendHold& command) {
    const auto refuse = [](HoldStatus why, std::string detail) {
        return HoldReply{.status = why, .expires_at = {}, .detail = std::move(detail)};
    };
    if (auto complaint = check_range("ttl_s", command.ttl_s, 1, limits::ttl_s_max)) {
        return refuse(HoldStatus::invalid_request, *complaint);
    }
    const Hold* found = state.hold(command.hold);
    if (auto refusal = refuse_end(state, found, command.by)) return refuse(refusal->status, std::move(refusal->detail));

    // From here on it must be extended.
    state.change_hold(command.hold, [&](Hold& hold) {
        hold.expires_at = std::max(hold.expires_at, stamp.at + std::chrono::seconds(command.ttl_s));
        hold.dispatched = hold.dispatched || command.dispatched;
    });
    return {.status = HoldStatus::done, .expires_at = found->expires_at, .detail = {}};
}

SettleReply settle_hold(OrgState& state, Stamp stamp, const SettleHold& command, CommandKey key,
                        std::uint64_t fingerprint) {
    const auto refuse = [](HoldStatus why, std::string detail) {
        return SettleReply{.status = why, .seq = {}, .cost = {}, .overage = {}, .detail = std::move(detail)};
    };
    ensure(!key.value.empty(), "a cost event is stored under its command's key");
    if (auto complaint = check_spending(command.cost, command.usage, command.calls, command.price)) {
        return refuse(HoldStatus::invalid_request, *complaint);
    }
    const Hold* hold = state.hold(command.hold);
    const bool by_gateway = command.by.kind == ActorKind::gateway;
    const auto refusal = refuse_end(state, hold, command.by);
    const bool late = refusal && refusal->status == HoldStatus::hold_closed && by_gateway;
    const Booked booked = late ? booked_for(state, *hold) : Booked{};
    if (refusal && (!late || booked.again)) return refuse(refusal->status, refusal->detail);
    Spending spending;
    spending.key = key;
    spending.fingerprint = fingerprint;
    spending.amounts = {command.cost.nanos(), *tokens_of(command.usage), command.calls, 0};
    spending.usage = command.usage;
    spending.price = command.price;
    spending.estimated = command.estimated;
    spending.unpriced = command.unpriced;
    if (auto complaint = check_size(spending.amounts.usd, spending.amounts.tokens)) {
        if (!by_gateway) return refuse(HoldStatus::amount_too_large, *complaint);
        // A provider that reports what cannot be has said nothing: the bound is booked, as for all that is not known.
        spending.amounts = hold->bound;
        spending.usage = {.input_tokens = hold->bound.tokens};
        spending.estimated = true;
    }

    // From here on the hold must be settled.
    const Seq seq = late ? settle_late(state, stamp, std::move(spending), *hold, booked.event)
                         : settle(state, stamp, std::move(spending), command.hold, nullptr);
    const CostEvent& event = state.cost_events.rows().back();
    return {.status = HoldStatus::done,
            .seq = seq,
            .cost = Money::nanos(event.cost),
            .overage = Money::nanos(event.overage),
            .detail = {}};
}

HoldReply release_hold(OrgState& state, Stamp stamp, const ReleaseHold& command) {
    const auto refuse = [](HoldStatus why, std::string detail) {
        return HoldReply{.status = why, .expires_at = {}, .detail = std::move(detail)};
    };
    const Hold* hold = state.hold(command.hold);
    if (auto refusal = refuse_end(state, hold, command.by)) return refuse(refusal->status, std::move(refusal->detail));

    // From here on it must be released.
    release(state, stamp, command.hold, false);
    return {.status = HoldStatus::done, .expires_at = {}, .detail = {}};
}

CorrectReply correct_charge(OrgState& state, Stamp stamp, const CorrectCharge& command, CommandKey key,
                            std::uint64_t fingerprint) {
    const auto refuse = [](CorrectStatus why, std::string detail) {
        return CorrectReply{.status = why, .seq = {}, .cost = {}, .detail = std::move(detail)};
    };
    ensure(!key.value.empty(), "a cost event is stored under its command's key");
    if (command.to.negative()) return refuse(CorrectStatus::invalid_request, "to must not be negative");
    if (command.why.empty()) {
        return refuse(CorrectStatus::invalid_request, "why is missing; it is recorded as the reason of the correction");
    }
    if (auto complaint = check_text("why", command.why, limits::text_bytes_max)) {
        return refuse(CorrectStatus::invalid_request, *complaint);
    }
    const auto first = state.cost_events.find(command.event);
    if (!first) return refuse(CorrectStatus::charge_not_found, "the charge does not exist");
    if (!first->corrects.value.empty()) {
        return refuse(CorrectStatus::invalid_request,
                      fmt::format("{} is itself a correction; correct {} instead", to_text("key", first->key.value),
                                  to_text("key", first->corrects.value)));
    }
    const std::int64_t now = cost_now(state, *first);
    if (command.to.nanos() >= now) {
        return refuse(CorrectStatus::not_lower,
                      fmt::format("the charge comes to ${}; a correction only lowers it. To raise it, charge the "
                                  "difference",
                                  to_text(Money::nanos(now))));
    }

    // From here on it must be corrected.
    Spending spending;
    spending.key = key;
    spending.fingerprint = fingerprint;
    spending.counted_at = first->counted_at;
    spending.who = first->who;
    spending.amounts = {command.to.nanos() - now, 0, 0, 0};
    spending.corrects = first->key;
    spending.why = command.why;
    // What lowers an estimate is a part of it, until the gateway has said what it was.
    const Hold* hold = first->hold.value.empty() ? nullptr : state.hold(first->hold);
    spending.estimated = first->estimated && (hold == nullptr || hold->event == first->key);
    auto impacts = budget_impacts(state, spending.who, spending.amounts, spending.counted_at);
    const Money cost = Money::nanos(spending.amounts.usd);
    const Seq seq = record(state, stamp, std::move(spending), impacts, nullptr);
    note_correction(state, key, first->key, command.to.nanos(), command.why);
    return {.status = CorrectStatus::corrected, .seq = seq, .cost = cost, .detail = {}};
}

void expire_hold(OrgState& state, Stamp stamp, HoldId id) {
    const Hold& hold = *state.hold(id);
    ensure(hold.state == HoldState::open && hold.expires_at <= stamp.at, "only what has run out expires");
    hold.dispatched ? charge_at_bound(state, stamp, id, nullptr) : release(state, stamp, id, true);
}

void open_run_hold(OrgState& state, Stamp stamp, Run& run, const std::vector<BudgetImpact>& impacts) {
    const Id id = derived_id("run_hold", run.id.value, [&](Id taken) { return state.hold(HoldId(taken)) != nullptr; });
    Hold hold{.id = HoldId(id),
              .who = run.who,
              .bound = run.hold_bound,
              .drawn = {},
              .parts = {},
              .dispatched = !run.metered,
              .state = HoldState::open,
              .created_at = stamp.at,
              .expires_at = far_future,
              .closed_at = far_past,
              .opened_by = HoldOpener::run};
    if (const Hold* own = own_hold(state, run.parent)) hold.drawn = draw(state, own->id, run.hold_bound, impacts);
    for (const BudgetImpact& impact : impacts) {
        // The run itself was counted by the admission; only money, tokens and calls are held.
        const std::int64_t amount = run.hold_bound.of(impact.budget->row.metric);
        if (amount == 0) continue;
        window_of(state, impact).held += amount;
        hold.parts.push_back({impact.budget->row.name, impact.span.start, amount, impact.relief});
    }
    run.hold = hold.id;
    state.feed.add(Held{hold.id, hold.who.agent, run.id, hold.bound, hold.expires_at});
    state.open_hold(std::move(hold));
}

void close_run_holds(OrgState& state, Stamp stamp, Run& run, RestOfRun rest) {
    for (const HoldId id : state.open_holds_of(run.id)) {
        if (state.hold(id)->for_run()) continue;
        state.hold(id)->dispatched ? charge_at_bound(state, stamp, id, &run) : release(state, stamp, id, false);
    }
    if (run.hold.value.empty()) return;
    const Hold& own = *state.hold(run.hold);
    ensure(own.state == HoldState::open, "the hold of a run ends with the run");
    const bool nothing_left = own.bound == Amounts{};
    const bool unspent = rest == RestOfRun::known_unspent || run.metered || nothing_left;
    unspent ? release(state, stamp, run.hold, false) : charge_at_bound(state, stamp, run.hold, &run);
}

std::optional<Seq> charge_final(OrgState& state, Stamp stamp, Run& run, const FinalCharge& command) {
    Spending spending;
    spending.key = derived_key(state, "final_charge", run.id.value);
    spending.counted_at = stamp.at;
    spending.who = run.who;
    if (!command.provider.empty()) spending.who.provider = command.provider;
    if (!command.model.empty()) spending.who.model = command.model;
    spending.amounts = {command.cost.nanos(), tokens_of(command.usage).value_or(0), command.calls, 0};
    spending.usage = command.usage;
    spending.price = command.price;
    const Hold* own = own_hold(state, run.id);
    if (check_size(spending.amounts.usd, spending.amounts.tokens)) return std::nullopt;
    auto impacts = budget_impacts(state, spending.who, spending.amounts, stamp.at);
    if (own != nullptr) set_relief(impacts, own->parts);
    if (own != nullptr) draw(state, own->id, spending.amounts, impacts);
    return record(state, stamp, std::move(spending), impacts, &run);
}

RunCheck check_run(OrgState& state, RunId id, Fence fence) {
    if (id.value.empty()) return RunCheck::fine;
    const Run* run = state.run(id);
    if (run == nullptr) return RunCheck::run_not_found;
    if (fence.value != 0 && fence != run->fence) return RunCheck::stale_fence;
    if (!is_live(run->state)) return RunCheck::run_ended;
    return RunCheck::fine;
}

}  // namespace interlock::core
