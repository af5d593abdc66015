#include "sim/sabotage.h"

#include <cstring>

#include "base/codec.h"
#include "base/sha256.h"

namespace interlock::sim {
namespace {

using namespace core;

// The first row that fits, spoiled and written back.
template <class Row>
std::function<bool(World&)> change_row(std::function<bool(Row&)> spoil) {
    return [spoil](World& world) {
        for (const auto& [key, row] : world.database->rows<Row>()) {
            Row spoiled = row;
            if (!spoil(spoiled)) continue;
            write_row(world, key.first, spoiled);
            return true;
        }
        return false;
    };
}

template <class Row>
std::function<bool(World&)> drop_row(std::function<bool(World&, OrgId, const Row&)> fits) {
    return [fits](World& world) {
        for (const auto& [key, row] : world.database->rows<Row>()) {
            if (!fits(world, key.first, row)) continue;
            const auto [org, row_key] = key;
            erase_row<Row>(world, org, row_key);
            return true;
        }
        return false;
    };
}

// One more page at the end of the feed, with a good hash: whoever can write to the store can do that.
void add_page(World& world, OrgId org, const Event& event) {
    const auto& pages = world.database->rows<FeedPage>();
    auto last = pages.upper_bound({org, Seq(INT64_MAX)});
    const FeedPage& head = (--last)->second;
    FeedPage page;
    page.first_seq = page.last_seq = Seq(head.last_seq.value + 1);
    page.at = head.at;
    const std::string encoded = encode(event);
    const auto length = static_cast<std::uint32_t>(encoded.size());
    page.body.assign(reinterpret_cast<const char*>(&length), sizeof length);
    page.body += encoded;
    std::string bytes = head.hash;
    for (const std::int64_t number : {page.first_seq.value, page.last_seq.value, micros(page.at)}) {
        bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    const Sha256 hash = sha256(bytes + page.body);
    page.hash.assign(hash.begin(), hash.end());
    write_row(world, org, page);
}

bool is_done_charge(World& world, OrgId org, const CostEvent& event) {
    const Call* call = world.find_call(org, event.key);
    return call != nullptr && call->done;
}

// ---- the rows -----------------------------------------------------------------------------------------------------

bool double_a_charge(World& world) {
    for (const auto& [key, event] : world.database->rows<CostEvent>()) {
        if (!is_done_charge(world, key.first, event)) continue;
        CostEvent twin = event;
        twin.key = CommandKey(world.new_id());
        write_row(world, key.first, twin);
        return true;
    }
    return false;
}

bool let_a_charge_past_a_limit(World& world) {
    for (const auto& [key, row] : world.database->rows<CostEvent>()) {
        const Call* call = world.find_call(key.first, row.key);
        const auto* charge = call != nullptr ? std::get_if<Charge>(&call->command.body) : nullptr;
        if (charge == nullptr || charge->incurred) continue;
        CostEvent event = row;
        event.over_limit = true;
        write_row(world, key.first, event);
        return true;
    }
    return false;
}

bool move_a_child_outside(World& world) {
    const auto& claims = world.database->rows<Claim>();
    for (const auto& [key, claim] : claims) {
        if (claim.parent.value.empty() || claim.place.kind != ClaimKind::workspace) continue;
        const auto parent = claims.lower_bound({key.first, {claim.parent, 0}});
        if (parent == claims.end() || parent->second.run != claim.parent) continue;
        Claim moved = claim;
        moved.place.path = "/somewhere/else";
        moved.place.chain.clear();
        write_row(world, key.first, moved, Told::followers);
        return true;
    }
    return false;
}

bool let_a_child_go_on(World& world) {
    const auto& runs = world.database->rows<Run>();
    for (const auto& [key, run] : runs) {
        const auto parent = runs.find({key.first, run.parent});
        if (parent == runs.end() || !has_ended(parent->second.state) || !is_live(run.state)) continue;
        Run goes_on = run;
        goes_on.stop_requested.clear();
        write_row(world, key.first, goes_on);
        return true;
    }
    return false;
}

bool double_a_claim(World& world) {
    for (const auto& [key, claim] : world.database->rows<Claim>()) {
        if (claim.place.mode != ClaimMode::write) continue;
        Claim twin = claim;
        twin.run = RunId(world.new_id());
        write_row(world, key.first, twin);
        return true;
    }
    return false;
}

bool leave_a_claim_behind(World& world) {
    for (const auto& [key, run] : world.database->rows<Run>()) {
        if (!has_ended(run.state) || run.wanted.empty()) continue;
        write_row(world, key.first, Claim{run.id, 0, run.wanted.front(), run.fence});
        return true;
    }
    return false;
}

// Through the gate, as if the engine had admitted them all.
bool admit_too_many(World& world) {
    for (const auto& [key, row] : world.database->rows<Run>()) {
        if (!is_live(row.state)) continue;
        const OrgId org = key.first;
        Run run = row;
        for (int i = 0; i < 6; ++i) {
            run.id = RunId(world.new_id());
            write_row(world, org, run, Told::followers);
        }
        return true;
    }
    return false;
}

bool overspend(World& world) {
    for (const auto& [key, row] : world.database->rows<Window>()) {
        if (!row.hard) continue;
        Window window = row;
        window.settled = window.limit_units + 1'000'000;
        write_row(world, key.first, window, Told::followers);
        return true;
    }
    return false;
}

bool charge_a_run_after_its_end(World& world) {
    for (const auto& [key, run] : world.database->rows<Run>()) {
        if (!has_ended(run.state)) continue;
        Charged event;
        event.run = run.id;
        event.agent = run.who.agent;
        event.cost = 5;
        add_page(world, key.first, event);
        return true;
    }
    return false;
}

bool fire_a_tick_again(World& world) {
    for (const auto& [key, schedule] : world.database->rows<Schedule>()) {
        world.history.read(*world.database, world.findings);
        for (const Event& event : world.history.of(key.first)) {
            if (!std::holds_alternative<ScheduleFired>(event)) continue;
            add_page(world, key.first, Event(event));
            return true;
        }
    }
    return false;
}

bool flip_a_byte_of_the_feed(World& world) {
    return change_row<FeedPage>([](FeedPage& page) { return page.body.back() ^= 1, true; })(world);
}

// ---- the store lies -----------------------------------------------------------------------------------------------

std::function<bool(World&)> lie_about_a_commit(store::CommitFault lie) {
    return [lie](World& world) {
        // One of these commits has something that somebody was told of.
        for (int i = 0; i < 8; ++i) {
            world.nodes().fail_next_commit(lie);
            world.step();
        }
        return true;
    };
}

// A disk that forgets on power loss what it had promised to keep.
bool lose_what_was_durable(World& world) {
    const store::MemoryDatabase before = *world.database;
    for (int i = 0; i < 5; ++i) world.step();
    *world.database = before;
    return true;
}

// ---- what clients hear --------------------------------------------------------------------------------------------

// Changes the first answer that fits, once the story has gone on a little.
std::function<bool(World&)> forge(std::function<bool(const Call&, engine::SubmitResult&)> change) {
    return [change](World& world) {
        bool forged = false;
        world.forge_answer = [&](const Call& call, engine::SubmitResult& answer) {
            forged = forged || change(call, answer);
        };
        for (int i = 0; i < 300 && !forged; ++i) world.step();
        world.forge_answer = nullptr;
        return forged;
    };
}

template <class T>
T* reply_in(engine::SubmitResult& answer) {
    return answer ? std::get_if<T>(&answer->reply) : nullptr;
}

bool answer_a_repeat_with_another_seq(const Call& call, engine::SubmitResult& answer) {
    auto* reply = reply_in<ChargeReply>(answer);
    if (reply == nullptr || !call.done || reply->status != ChargeStatus::charged) return false;
    reply->seq = Seq(reply->seq.value + 1);
    return true;
}

bool confirm_a_charge_that_was_refused(const Call& call, engine::SubmitResult& answer) {
    auto* reply = reply_in<ChargeReply>(answer);
    if (reply == nullptr || call.done || call.expect != Expect::anything ||
        reply->status != ChargeStatus::budget_exceeded)
        return false;
    *reply = {};
    return true;
}

bool confirm_what_is_refused(const Call& call, engine::SubmitResult& answer, Promise broken) {
    if (!answer || call.expect != Expect::refusal || call.broken != broken || says_done(answer->reply)) return false;
    bool changed = false;
    std::visit(
        [&](auto& reply) {
            if constexpr (requires { reply.status; }) {
                reply.status = {};
                changed = true;
            }
        },
        answer->reply);
    return changed;
}

bool give_a_number_twice(const Call& call, engine::SubmitResult& answer) {
    auto* reply = reply_in<AppendReply>(answer);
    if (reply == nullptr || call.done || reply->status != AppendStatus::appended || reply->first_seq == 0) return false;
    if (std::get<Append>(call.command.body).expected_seq) return false;
    --reply->first_seq;
    --reply->last_seq;
    --reply->next_seq;
    return true;
}

bool refuse_what_would_fit(const Call&, engine::SubmitResult& answer) {
    auto* reply = reply_in<ChargeReply>(answer);
    if (reply == nullptr || reply->status != ChargeStatus::budget_exceeded) return false;
    reply->budget->settled = reply->budget->held = 0;
    reply->budget->limit_units = reply->budget->requested;
    return true;
}

}  // namespace

std::vector<Sabotage> all_sabotages() {
    using enum Promise;
    return {
        {"a_budget_window_that_is_off_by_one", exact_ledger,
         change_row<Window>([](Window& row) { return row.settled += 1, true; })},
        {"a_held_sum_that_is_off_by_one", exact_ledger,
         change_row<Window>([](Window& row) { return row.held += 1, true; })},
        {"an_agent_total_that_is_off_by_one", exact_ledger,
         change_row<AgentTotals>([](AgentTotals& row) { return row.settled += 1, true; })},
        {"a_session_total_that_is_off_by_one", exact_ledger,
         change_row<Session>([](Session& row) { return row.settled += 1, true; })},
        {"a_run_total_that_is_off_by_one", exact_ledger,
         change_row<Run>([](Run& row) { return row.tokens += 1, true; })},
        {"a_day_that_is_off_by_one_token", exact_ledger,
         change_row<Rollup>([](Rollup& row) { return row.usage.output_tokens += 1, true; })},
        {"a_minute_that_was_forgotten", exact_ledger,
         drop_row<SpendMark>([](World&, OrgId, const SpendMark& row) { return row.budget.empty(); })},
        {"a_mark_of_a_budget_that_says_too_much", exact_ledger, change_row<SpendMark>([](SpendMark& row) {
             row.settled += 1'000'000'000'000'000;
             return !row.budget.empty();
         })},
        {"a_charge_that_is_in_the_ledger_twice", exact_ledger, double_a_charge},
        {"a_charge_under_a_key_nobody_used", nothing_twice, double_a_charge},
        {"a_charge_that_is_gone", nothing_twice, drop_row<CostEvent>(is_done_charge)},
        {"a_changed_cost", nothing_twice, change_row<CostEvent>([](CostEvent& row) { return row.cost += 1, true; })},
        {"an_answer_that_is_gone", nothing_twice,
         drop_row<StoredReply>([](World& world, OrgId org, const StoredReply& row) {
             const Call* call = world.find_call(org, row.key);
             return call != nullptr && call->done;
         })},
        {"spending_past_a_hard_limit", hard_ceiling, overspend},
        {"a_plain_charge_that_went_past_a_limit", hard_ceiling, let_a_charge_past_a_limit},
        {"a_message_that_is_gone", one_order, drop_row<Message>([](World&, OrgId, const Message&) { return true; })},
        {"a_message_that_was_rewritten", one_order,
         change_row<Message>([](Message& row) { return row.content += '!', true; })},
        {"a_number_given_twice", one_order, forge(give_a_number_twice)},
        {"a_place_claimed_twice", one_worker_per_place, double_a_claim},
        {"a_child_that_works_outside_of_its_parents_place", one_worker_per_place, move_a_child_outside},
        {"a_child_that_goes_on_after_its_parent", nobody_forgotten, let_a_child_go_on},
        {"a_sum_below_a_run_that_is_off_by_one", exact_ledger,
         change_row<Run>([](Run& row) { return row.settled_below > 0 && (row.settled_below += 1, true); })},
        {"one_run_more_than_the_cap", caps, admit_too_many},
        {"a_charge_of_a_run_that_has_ended", fenced, charge_a_run_after_its_end},
        {"a_lost_owner_who_is_obeyed", fenced, forge([](const Call& call, engine::SubmitResult& answer) {
             return confirm_what_is_refused(call, answer, fenced);
         })},
        {"a_tick_that_fires_again", one_tick, fire_a_tick_again},
        {"a_schedule_that_miscounts", one_tick,
         change_row<Schedule>([](Schedule& row) { return row.fired += 1, true; })},
        {"a_tick_that_nobody_wrote_down", one_tick, drop_row<ScheduleTick>([](World&, OrgId, const ScheduleTick& row) {
             return row.outcome == TickOutcome::fired;
         })},
        {"a_step_that_nobody_wrote_down", nobody_forgotten,
         drop_row<RunStep>([](World&, OrgId, const RunStep&) { return true; })},
        {"a_claim_that_outlives_its_run", nobody_forgotten, leave_a_claim_behind},
        {"a_live_run_without_its_claim", nobody_forgotten,
         drop_row<Claim>([](World&, OrgId, const Claim&) { return true; })},
        {"a_hold_that_outlives_its_run", nobody_forgotten, change_row<Hold>([](Hold& row) {
             const bool fits = row.state != HoldState::open && row.for_run();
             row.state = HoldState::open;
             return fits;
         })},
        {"nonsense_that_is_accepted", honest_answers, forge([](const Call& call, engine::SubmitResult& answer) {
             return confirm_what_is_refused(call, answer, honest_answers);
         })},
        {"a_refusal_for_no_reason", honest_answers, forge(refuse_what_would_fit)},
        {"a_repeat_with_another_answer", nothing_twice, forge(answer_a_repeat_with_another_seq)},
        {"a_done_that_was_not_done", nothing_twice, forge(confirm_a_charge_that_was_refused)},
        {"a_flipped_bit_in_the_feed", unbroken_feed, flip_a_byte_of_the_feed},
        {"a_feed_page_that_is_gone", unbroken_feed,
         drop_row<FeedPage>([](World&, OrgId, const FeedPage& row) { return row.first_seq.value > 3; })},
        {"a_commit_that_the_store_forgot", nothing_twice, lie_about_a_commit(store::CommitFault::forget)},
        {"a_commit_that_the_store_tore", exact_ledger, lie_about_a_commit(store::CommitFault::tear)},
        {"a_store_that_loses_what_was_durable", nothing_twice, lose_what_was_durable},
    };
}

std::optional<StoryResult> tell_spoiled_story(const Sabotage& sabotage) {
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        bool spoiled = false;
        StoryOptions options{.seed = seed, .commands = 2'000, .trace = false, .halfway = {}};
        options.halfway = [&](World& world) {
            // Without troubles, and without a word of complaint before.
            world.calm_down();
            world.check();
            if (world.findings.count() > 0) return;
            spoiled = sabotage.spoil(world);
            world.check();
        };
        StoryResult result = tell_story(options);
        if (spoiled) return result;
    }
    return std::nullopt;
}

}  // namespace interlock::sim
