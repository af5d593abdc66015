// P1 and P3, from the clients' side: every charge that somebody was told of is in the ledger, once, as told; and
// nothing is in the ledger, or among the answers, that nobody asked for.
#include <map>

#include <fmt/format.h>

#include "base/codec.h"
#include "sim/checker.h"

namespace interlock::sim {
namespace {

using namespace core;

class PaymentsChecker : public Checker {
 public:
    void check(World& world, const Rows& rows) override;

 private:
    void check_event(World& world, const Rows& rows, OrgId org, const CostEvent& event);
    void check_corrections(World& world, const Rows& rows);
    void check_call(World& world, const Rows& rows, const Call& call);
    void check_answers(World& world, const Rows& rows);

    // Owners' last reports, by run: the ledger has them under a key of its own.
    std::map<std::pair<OrgId, RunId>, std::vector<std::uint32_t>> final_charges_;
    std::size_t calls_seen_ = 0;
};

const std::optional<FinalCharge>* final_charge_in(const CommandBody& body) {
    if (const auto* finish = std::get_if<FinishRun>(&body)) return &finish->charge;
    if (const auto* cancel = std::get_if<CancelRun>(&body)) return &cancel->charge;
    return nullptr;
}

std::string name_of(const CostEvent& event) {
    return fmt::format("cost event {} (key {:x}, agent {}, run {:x}, cost {})", event.seq.value, event.key.value.low,
                       event.who.agent, event.who.run.value.low, event.cost);
}

void PaymentsChecker::check(World& world, const Rows& rows) {
    for (; calls_seen_ < world.calls().size(); ++calls_seen_) {
        const Call& call = world.calls()[calls_seen_];
        const auto* charge = final_charge_in(call.command.body);
        if (charge == nullptr || !*charge) continue;
        const auto* finish = std::get_if<FinishRun>(&call.command.body);
        const RunId run = finish != nullptr ? finish->run : std::get<CancelRun>(call.command.body).run;
        final_charges_[{call.command.org, run}].push_back(call.id);
    }

    std::map<std::pair<OrgId, HoldId>, int> settled;
    for (const auto& [key, event] : rows.rows<CostEvent>()) {
        check_event(world, rows, key.first, event);
        // A late settlement of the gateway refers to the first one.
        const bool late = !event.corrects.value.empty();
        if (!event.hold.value.empty() && !late && ++settled[{key.first, event.hold}] == 2) {
            world.violated(Promise::nothing_twice, name_of(event) + " settles a hold that was settled before");
        }
    }
    check_corrections(world, rows);
    for (const Call& call : world.calls()) {
        if (call.done) check_call(world, rows, call);
    }
    check_answers(world, rows);
}

// Who asked for this event?
void PaymentsChecker::check_event(World& world, const Rows& rows, OrgId org, const CostEvent& event) {
    const auto wrong = [&](const char* why) { world.violated(Promise::nothing_twice, name_of(event) + ' ' + why); };
    const auto same = [&](Money cost, const Usage& usage, std::int64_t calls) {
        return cost.nanos() == event.cost && usage == event.usage && calls == event.calls;
    };

    if (const Call* call = world.find_call(org, event.key)) {
        if (!call->done && !call->may_have_happened()) return wrong("belongs to a command that was refused");
        if (const auto* charge = std::get_if<Charge>(&call->command.body)) {
            const bool may_be_over = charge->incurred;
            if (!same(charge->cost, charge->usage, charge->calls)) return wrong("is not what was asked for");
            if (!charge->who.agent.empty() && charge->who.agent != event.who.agent)
                return wrong("is on another agent's account");
            if (charge->who.run != event.who.run) return wrong("is on another run's account");
            if (event.over_limit && !may_be_over) {
                world.violated(Promise::hard_ceiling,
                               name_of(event) + " went past a limit, though it could have been refused");
            }
        } else if (const auto* settle = std::get_if<SettleHold>(&call->command.body)) {
            if (settle->hold != event.hold) return wrong("settles another hold than was asked");
            const bool by_gateway = settle->by.kind == ActorKind::gateway;
            if (by_gateway && !event.corrects.value.empty()) return;  // The difference: check_corrections.
            const auto hold = rows.rows<Hold>().find({org, event.hold});
            const bool at_bound =
                event.estimated && hold != rows.rows<Hold>().end() && event.cost == hold->second.bound.usd;
            if (same(settle->cost, settle->usage, settle->calls) || (by_gateway && at_bound)) return;
            return wrong("is not what was asked for");
        } else if (const auto* correct = std::get_if<CorrectCharge>(&call->command.body)) {
            if (correct->event != event.corrects) return wrong("corrects another event than was asked");
            if (event.cost >= 0) return wrong("is a correction, and lowers nothing");
        } else {
            wrong("has the key of a command that costs nothing");
        }
        return;
    }
    if (event.hold.value.empty()) {
        const auto reports = final_charges_.find({org, event.who.run});
        if (reports == final_charges_.end()) return wrong("was asked for by nobody");
        for (const std::uint32_t id : reports->second) {
            const Call& call = world.calls()[id];
            const FinalCharge& charge = **final_charge_in(call.command.body);
            if ((call.done || call.may_have_happened()) && same(charge.cost, charge.usage, charge.calls)) return;
        }
        return wrong("was reported by nobody at the end of the run");
    }
    // A hold that was left behind is charged at its bound.
    const auto hold = rows.rows<Hold>().find({org, event.hold});
    if (hold == rows.rows<Hold>().end() || !event.estimated) return wrong("was asked for by nobody");
    if (hold->second.bound.usd != event.cost || !hold->second.dispatched) {
        wrong("is estimated, but is not the bound of a hold whose request may have left");
    }
}

// What an event comes to with its corrections is in its row, and is never below zero.
void PaymentsChecker::check_corrections(World& world, const Rows& rows) {
    std::map<std::pair<OrgId, CommandKey>, std::int64_t> lowered;
    for (const auto& [key, event] : rows.rows<CostEvent>()) {
        if (!event.corrects.value.empty()) lowered[{key.first, event.corrects}] += event.cost;
    }
    for (const auto& [key, by] : lowered) {
        const auto first = rows.rows<CostEvent>().find(key);
        const auto row = rows.rows<CorrectedCost>().find(key);
        if (first == rows.rows<CostEvent>().end() || row == rows.rows<CorrectedCost>().end()) {
            world.violated(Promise::exact_ledger,
                           fmt::format("a correction refers to key {:x}, which is not there", key.second.value.low));
        } else if (row->second.cost != first->second.cost + by || row->second.cost < 0) {
            world.violated(Promise::exact_ledger,
                           fmt::format("{} and its corrections come to {}, and its row says {}", name_of(first->second),
                                       first->second.cost + by, row->second.cost));
        }
    }
}

// Is there what its client was told?
void PaymentsChecker::check_call(World& world, const Rows& rows, const Call& call) {
    const auto missing = [&](const std::string& what) {
        world.violated(Promise::nothing_twice, fmt::format("call {} {} (key {:x}) was answered done, but {}", call.id,
                                                           kind_of(call.command), call.command.key.value.low, what));
    };
    const OrgId org = call.command.org;
    const auto check_paid = [&](Seq seq, Money cost) {
        const auto event = rows.rows<CostEvent>().find({org, call.command.key});
        if (event == rows.rows<CostEvent>().end()) return missing("its cost event is not there");
        if (event->second.seq != seq || event->second.cost != cost.nanos()) {
            missing(fmt::format("its client was told event {} and cost {}, and the ledger says {}", seq.value,
                                cost.nanos(), name_of(event->second)));
        }
    };
    if (std::holds_alternative<Charge>(call.command.body)) {
        const auto reply = decode<Reply>(call.first_answer);
        const auto& told = std::get<ChargeReply>(*reply);
        check_paid(told.seq, told.cost);
    } else if (const auto* correct = std::get_if<CorrectCharge>(&call.command.body)) {
        const auto reply = decode<Reply>(call.first_answer);
        const auto& told = std::get<CorrectReply>(*reply);
        check_paid(told.seq, told.cost);
        if (!rows.rows<CorrectedCost>().contains({org, correct->event})) missing("the event has no corrected cost");
    } else if (const auto* settle = std::get_if<SettleHold>(&call.command.body)) {
        const auto reply = decode<Reply>(call.first_answer);
        const auto& told = std::get<SettleReply>(*reply);
        check_paid(told.seq, told.cost);
        const auto hold = rows.rows<Hold>().find({org, settle->hold});
        if (hold == rows.rows<Hold>().end() || hold->second.state != HoldState::settled)
            missing("its hold is not settled");
    } else if (const auto* release = std::get_if<ReleaseHold>(&call.command.body)) {
        const auto hold = rows.rows<Hold>().find({org, release->hold});
        const bool settled_late = hold != rows.rows<Hold>().end() && hold->second.opened_by == HoldOpener::gateway &&
                                  hold->second.state == HoldState::settled;
        if (hold == rows.rows<Hold>().end() || (hold->second.state != HoldState::released && !settled_late))
            missing("its hold is not released");
    } else if (const auto* reserve = std::get_if<Reserve>(&call.command.body)) {
        if (!rows.rows<Hold>().contains({org, reserve->hold})) missing("its hold is not there");
    } else if (const auto* charge = final_charge_in(call.command.body); charge != nullptr && *charge) {
        const auto reply = decode<Reply>(call.first_answer);
        const auto& told = std::get<RunReply>(*reply);
        if (told.status != RunStatus::done || told.seq.value == 0) return;  // Somebody else's run was asked to stop.
        const auto* charged = History::at<Charged>(world.history.of(org), told.seq.value);
        if (charged == nullptr || charged->cost != (*charge)->cost.nanos()) missing("what it reported is not charged");
    }
}

// The first answer to a key is kept for those who ask again.
void PaymentsChecker::check_answers(World& world, const Rows& rows) {
    for (const auto& [key, answer] : rows.rows<StoredReply>()) {
        const Call* call = world.find_call(key.first, answer.key);
        if (call == nullptr || (!call->done && !call->may_have_happened())) {
            world.violated(Promise::nothing_twice,
                           fmt::format("an answer is kept for key {:x}, which nobody was done a command with",
                                       answer.key.value.low));
        } else if (call->done && call->first_answer != answer.reply) {
            world.violated(Promise::nothing_twice, fmt::format("call {} {} was not answered what is kept for its key",
                                                               call->id, kind_of(call->command)));
        }
    }
    for (const Call& call : world.calls()) {
        if (!call.done || !call.has_key() || core::makes_cost_event(call.command.body)) continue;
        if (!rows.rows<StoredReply>().contains({call.command.org, call.command.key})) {
            world.violated(Promise::nothing_twice, fmt::format("call {} {} was done, but its answer is not kept",
                                                               call.id, kind_of(call.command)));
        }
    }
}

}  // namespace

std::unique_ptr<Checker> make_payments_checker() { return std::make_unique<PaymentsChecker>(); }

}  // namespace interlock::sim
