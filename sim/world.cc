#include "sim/world.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/calendar.h"
#include "base/codec.h"
#include "sim/checker.h"
#include "sim/workload.h"

namespace interlock::sim {
namespace {

constexpr std::uint64_t calm_steps_max = 5'000;
constexpr std::uint64_t late_steps_max = 60;

Profile draw_profile(std::uint64_t seed, std::uint32_t nodes) {
    Random random(seed ^ 0x5EED5EED5EED5EEDull);
    Profile profile = Profile::draw(random);
    if (nodes > 0) profile.nodes = nodes;
    return profile;
}

void mix(std::uint64_t& hash, std::string_view bytes) {
    for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ull;
}

}  // namespace

World::World(std::uint64_t seed, std::uint32_t nodes, bool trace)
    : profile(draw_profile(seed, nodes)), random(seed), trace_(trace) {
    now_ = profile.begins;
    database->on_written = [this](const store::WriteSet& writes) { follow(writes); };
    nodes_ = std::make_unique<Nodes>(*this);
}

World::~World() = default;

// What somebody sees who follows all commits.
void World::follow(const store::WriteSet& writes) {
    written_ += writes.orgs.empty() ? 0 : 1;
    for (const store::OrgWrites& of_org : writes.orgs) {
        if (of_org.org.value > known.orgs.size()) continue;
        KnownOrg& org = known.of(of_org.org);
        for (const core::Run* run : of_org.of<core::Run>().put) {
            KnownRun* found = org.find_run(run->id);
            if (found == nullptr && !run->schedule.empty()) {
                found = &org.add_run(run->id);
                found->seen = core::RunState::queued;
            }
            if (found == nullptr) continue;
            const bool goes_live = !core::is_live(found->seen) && core::is_live(run->state);
            found->seen = run->state;
            if (!core::has_ended(run->state)) found->fence = run->fence;  // A run can go back in line.
            if (!goes_live) continue;
            if (!run->schedule.empty()) org.fired.push_back(run->id);
        }
    }
    for (const auto& checker : checkers_) checker->committed(*this, writes);
}

void World::add(std::unique_ptr<Workload> workload, std::uint32_t weight) {
    weights_ += weight;
    workloads_.emplace_back(std::move(workload), weight);
}

void World::add(std::unique_ptr<Checker> checker) { checkers_.push_back(std::move(checker)); }

void World::setup() {
    calm_ = true;
    for (const auto& [workload, _] : workloads_) {
        workload->setup(*this);
        settle();
    }
    calm_ = false;
}

void World::step() {
    findings.at_step(++step_);
    pass_time();

    // 1. Some clients act, and what was held up in the network arrives.
    const std::uint64_t begun = random.below(profile.burst * 2 + 1);
    for (std::uint64_t i = 0; i < begun; ++i) {
        std::uint64_t draw = random.below(weights_);
        for (const auto& [workload, weight] : workloads_) {
            if (draw < weight) {
                workload->start(*this);
                break;
            }
            draw -= weight;
        }
    }
    take_due();

    // 2. The servers take their turns, and some die.
    nodes_->turn();
}

void World::pass_time() {
    now_ += std::chrono::microseconds(random.spread(profile.pace_s * 1'000'000) + 1);
    if (calm_ || !random.chance(profile.clock_jumps)) return;
    ++troubles.clock_jumps;
    const std::int64_t far =
        random.pick({std::int64_t{5}, std::int64_t{3'600}, std::int64_t{86'400}, std::int64_t{864'000}});
    const auto by = std::chrono::seconds(random.between(1, std::max(far, profile.pace_s * 50)));
    now_ = random.percent(50) ? now_ + by : std::max(profile.begins - std::chrono::days(30), now_ - by);
    if (trace_) trace(fmt::format("the clock jumps to {}", to_iso8601(now_)));
}

void World::sleep_long() {
    ++troubles.long_downtimes;
    now_ += std::chrono::seconds(random.between(1, 40 * 86'400));
}

// ---- requests -----------------------------------------------------------------------------------------------------

Id World::new_id() {
    if (random.percent(8)) return {random.next() | (1ull << 63), random.next()};  // Not ordered by time.
    const auto skew = random.percent(5) ? std::chrono::hours(random.between(-48, 48)) : std::chrono::hours(0);
    return time_ordered_id(now_ + skew, random.next(), random.next());
}

Call& World::call(Workload& from, core::OrgId org, core::CommandBody body, CallOptions options) {
    Call& call = calls_.emplace_back();
    call.id = static_cast<std::uint32_t>(calls_.size() - 1);
    call.from = &from;
    call.tag = options.tag;
    call.expect = options.expect;
    call.broken = options.broken;
    call.command.org = org;
    call.command.body = std::move(body);
    call.command.fingerprint = core::fingerprint_of(call.command.body);
    if (options.key) {
        call.command.key = *options.key;
    } else if (core::makes_cost_event(call.command.body) || !random.chance(profile.calls_without_key)) {
        call.command.key = core::CommandKey(new_id());
    }
    if (call.has_key() && call.expect != Expect::key_reused) {
        by_key_.emplace(std::pair(org, call.command.key), call.id);
    }
    if (!calm_ && random.chance(profile.tight_deadlines))
        call.deadline = now_ + std::chrono::seconds(random.between(-1, 2));
    for (const auto& checker : checkers_) checker->sent(*this, call);
    send(call);
    return call;
}

void World::ask_again(Call& call) { submit(call); }

const Call* World::find_call(core::OrgId org, core::CommandKey key) const {
    const auto found = by_key_.find({org, key});
    return found == by_key_.end() ? nullptr : &calls_[found->second];
}

void World::send(Call& call) {
    ++call.attempts;
    // Without a key every copy is a command of its own, so there is one.
    const bool alone = calm_ || !call.has_key();
    if (!alone && random.chance(profile.late_requests)) {
        ++troubles.late_requests;
        ++call.on_the_way;
        later_.emplace(step_ + 1 + random.below(late_steps_max), Later{Later::What::request, call.id, nullptr});
        // Its sender loses patience long before it arrives.
        plan_retry(call);
        return;
    }
    submit(call);
    while (!alone && random.chance(profile.twin_requests)) {
        ++troubles.twin_requests;
        submit(call);
    }
}

void World::submit(Call& call) {
    ++commands_;
    ++call.on_the_way;
    if (trace_) trace(fmt::format("  → {} {} key {:x}", call.id, kind_of(call.command), call.command.key.value.low));
    nodes_->receive(call);
}

void World::take_due() {
    nodes_->take_due();
    while (!later_.empty() && later_.begin()->first <= step_) {
        const Later due = std::move(later_.extract(later_.begin()).mapped());
        Call& call = calls_[due.call];
        switch (due.what) {
            case Later::What::request:
                --call.on_the_way;
                submit(call);
                break;
            case Later::What::retry:
                if (call.done || call.gave_up || call.heard_at > call.lost_at) break;
                ++troubles.retries;
                call.deadline = far_future;
                send(call);
                break;
            case Later::What::answer:
                hear(std::move(*due.answer));
                break;
        }
    }
}

// ---- answers ------------------------------------------------------------------------------------------------------

void World::answered(Call& call, engine::SubmitResult answer) {
    Arrived arrived{.call = call.id, .answer = std::move(answer), .number = ++answers_};
    if (forge_answer) forge_answer(call, arrived.answer);
    if (!calm_ && random.chance(profile.lost_answers)) {
        ++troubles.lost_answers;
        lose(call);
    } else if (!calm_ && random.chance(profile.late_answers)) {
        ++troubles.late_answers;
        later_.emplace(step_ + 1 + random.below(late_steps_max),
                       Later{Later::What::answer, call.id, std::make_shared<Arrived>(std::move(arrived))});
        if (random.percent(50)) plan_retry(call);
    } else {
        hear(std::move(arrived));
    }
}

void World::lose(Call& call) {
    --call.on_the_way;
    call.lost_at = ++answers_;
    plan_retry(call);
}

void World::stop_waiting(Call& call) { plan_retry(call); }

void World::plan_retry(Call& call) {
    if (call.done || call.gave_up || !call.has_key()) return;
    if (!calm_ && random.chance(profile.dying_clients)) {
        ++troubles.dead_clients;
        call.gave_up = true;
        return;
    }
    later_.emplace(step_ + 1 + static_cast<std::uint64_t>(random.spread(4)),
                   Later{Later::What::retry, call.id, nullptr});
}

void World::hear(Arrived arrived) {
    Call& call = calls_[arrived.call];
    const engine::SubmitResult& answer = arrived.answer;
    --call.on_the_way;
    const Outcome outcome = outcome_of(answer);
    ++outcomes[outcome.kind][outcome.status];
    scratch_.clear();
    if (answer) Encoder(scratch_).put(answer->reply);
    for (const std::uint64_t number :
         {std::uint64_t{call.id}, std::uint64_t{outcome.kind}, std::uint64_t{outcome.status}}) {
        hash_ = (hash_ ^ number) * 0x100000001B3ull;
    }
    mix(hash_, scratch_);
    if (trace_) {
        trace(fmt::format("  ← {} {} {}{}", call.id, kind_of(call.command), name_of(outcome),
                          answer && answer->repeated ? " (again)" : ""));
    }

    check_answer(call, arrived, scratch_);
    learn(call, arrived);
    // Its org is not there (yet, or because the commit that made it was lost): no rule was asked, nothing is to be
    // learnt.
    if (answer && std::holds_alternative<core::NoSuchOrg>(answer->reply)) return;
    for (const auto& checker : checkers_) checker->heard(*this, call, answer);
    call.from->heard(*this, call, answer);
}

void World::learn(Call& call, const Arrived& arrived) {
    using engine::SubmitError;
    const engine::SubmitResult& answer = arrived.answer;
    if (answer || answer.error() == SubmitError::key_reused) {
        call.heard_at = std::max(call.heard_at, arrived.number);
        if (answer && !says_done(answer->reply)) call.refused_at = std::max(call.refused_at, arrived.number);
        if (answer && !call.done && says_done(answer->reply)) {
            call.done = true;
            call.done_at = arrived.number;
            call.first_answer = scratch_;
        }
    } else if (answer.error() == SubmitError::outcome_unknown) {
        call.lost_at = std::max(call.lost_at, arrived.number);
    } else if (answer.error() != SubmitError::too_late || call.answer_lost()) {
        plan_retry(call);  // This copy did nothing; the next may.
    }
}

void World::check_answer(Call& call, const Arrived& arrived, const std::string& encoded) {
    const engine::SubmitResult& answer = arrived.answer;
    const auto what = [&] {
        return fmt::format("call {} {} (key {:x}, {} attempts) was answered {}", call.id, kind_of(call.command),
                           call.command.key.value.low, call.attempts, name_of(outcome_of(answer)));
    };
    if (!answer) {
        const bool reused = answer.error() == engine::SubmitError::key_reused;
        if (reused && call.expect != Expect::key_reused) {
            violated(Promise::nothing_twice, what() + ", but nobody has used its key for anything else");
        }
        return;
    }
    const bool done = says_done(answer->reply);
    if (call.expect == Expect::key_reused) {
        violated(Promise::nothing_twice, what() + ", but its key was carried out with other content");
    } else if (call.expect == Expect::refusal && done) {
        violated(call.broken, what() + ", but it must be refused");
    } else if (call.has_key() && done && call.done && encoded != call.first_answer) {
        violated(Promise::nothing_twice, what() + ", but was done before with another answer");
    } else if (call.has_key() &&
               (done ? call.refused_at > arrived.number : call.done && arrived.number > call.done_at)) {
        violated(Promise::nothing_twice, what() + ", but was refused after it had been done");
    } else if (done && call.has_key() && !answer->repeated && ++call.first_times == 2) {
        violated(Promise::nothing_twice, what() + " as if for the first time, for the second time");
    }
}

// ---- the end ------------------------------------------------------------------------------------------------------

void World::calm_down() {
    calm_ = true;
    for (Call& call : calls_) {
        if (call.open() && call.on_the_way == 0) plan_retry(call);
    }
    settle();
}

void World::settle() {
    const bool was_calm = std::exchange(calm_, true);
    nodes_->calm_down();
    for (std::uint64_t steps = 0; nodes_->has_work() || !later_.empty(); ++steps) {
        if (steps == calm_steps_max) {
            violated(Promise::honest_answers, "the servers never run out of work");
            break;
        }
        findings.at_step(++step_);
        now_ += std::chrono::milliseconds(10);
        take_due();
        nodes_->turn();
    }
    calm_ = was_calm;
}

bool World::writes_anything(const std::function<void()>& begin) {
    // Where a server is not there, or somebody's commit is not done, nobody can say which trace is whose.
    if (!nodes_->is_quiet()) {
        begin();
        return false;
    }
    const bool was_calm = std::exchange(calm_, true);
    nodes_->calm_down();
    const auto turn_until_idle = [&] {
        do nodes_->turn();
        while (nodes_->has_work());
    };
    // What is due by now is done twice over, so that it cannot be mistaken for a trace.
    turn_until_idle();
    turn_until_idle();
    const std::uint64_t written = written_;
    begin();
    turn_until_idle();
    calm_ = was_calm;
    return written_ != written;
}

void World::check() {
    history.read(*database, findings);
    for (const auto& checker : checkers_) checker->check(*this, *database);
}

void World::trace(const std::string& line) const { fmt::print("{:6} {} {}\n", step_, to_iso8601(now_), line); }

void World::violated(Promise promise, std::string text) {
    if (trace_) trace("VIOLATED " + text);
    findings.violated(promise, std::move(text));
}

}  // namespace interlock::sim
