// Nonsense: commands that no state makes right. Each must be refused, and must leave no trace.
#include <fmt/format.h>

#include "core/limits.h"
#include "sim/places.h"
#include "sim/workload.h"

namespace interlock::sim {
namespace {

using namespace core;

class Nonsense : public Workload {
 public:
    void start(World& world) override;

 private:
    static CommandBody some_nonsense(World& world, const KnownOrg& org);
    static CommandBody about_money(World& world, const KnownOrg& org);
    static CommandBody about_runs(World& world, const KnownOrg& org);
    static CommandBody about_the_rest(World& world, const KnownOrg& org);
};

void Nonsense::start(World& world) {
    const KnownOrg& org = world.random.pick(world.known.orgs);
    const CallOptions options{.expect = Expect::refusal};
    if (world.random.percent(3)) {
        world.call(*this, OrgId(99), ResumeAgent{"agent-0"}, options);
        return;
    }
    if (world.random.percent(80)) {
        world.call(*this, org.id, some_nonsense(world, org), options);
        return;
    }
    const bool written = world.writes_anything([&] {
        for (int i = 0; i < 3; ++i) world.call(*this, org.id, some_nonsense(world, org), options);
    });
    if (written) world.violated(Promise::honest_answers, "a batch of refused commands has changed rows");
}

CommandBody Nonsense::some_nonsense(World& world, const KnownOrg& org) {
    switch (world.random.below(3)) {
        case 0:
            return about_money(world, org);
        case 1:
            return about_runs(world, org);
        default:
            return about_the_rest(world, org);
    }
}

CommandBody Nonsense::about_money(World& world, const KnownOrg& org) {
    Random& random = world.random;
    Charge charge{.who = some_account(random, org), .fence = {}, .cost = Money::nanos(5), .usage = {}, .price = {}};
    Reserve reserve{.hold = HoldId(world.new_id()), .who = charge.who, .fence = {}, .bound = {.usd = 10}};
    PutBudget budget{.name = "nonsense", .scope = {}, .limit_units = 10, .warn = {}};
    const HoldId hold = org.holds.empty() ? HoldId(world.new_id()) : random.pick(org.holds).id;
    switch (random.below(20)) {
        case 0:
            charge.cost = Money::nanos(-random.between(1, 1'000));
            return charge;
        case 1:
            charge.usage.input_tokens = -1;
            return charge;
        case 2:
            charge.usage = {.input_tokens = INT64_MAX, .output_tokens = 1};
            return charge;
        case 3:
            charge.calls = -1;
            return charge;
        case 4:
            charge.who.agent = "nobody";
            return charge;
        case 5:
            charge.who.session = SessionId(world.new_id());
            return charge;
        case 6:
            charge.who.run = RunId(world.new_id());
            return charge;
        case 7:
            reserve.bound.usd = -1;
            return reserve;
        case 8:
            reserve.ttl_s = random.pick({std::int64_t{0}, std::int64_t{-5}, limits::ttl_s_max + 1});
            return reserve;
        case 9:
            reserve.who.agent = "nobody";
            return reserve;
        case 10:
            reserve.who.session = SessionId(world.new_id());
            return reserve;
        case 11:
            reserve.hold = {};
            return reserve;
        case 12:
            return SettleHold{.hold = HoldId(world.new_id()), .cost = Money::nanos(1), .usage = {}, .price = {}};
        case 13:
            return ReleaseHold{HoldId(world.new_id())};
        case 14:
            budget.limit_units = -1;
            return budget;
        case 15:
            budget.zone = "Mars/Olympus_Mons";
            return budget;
        case 16:
            budget.warn = {80, 50};
            return budget;
        case 17:
            return ExtendHold{hold, 0, false};
        case 18:
            return SettleHold{.hold = hold, .cost = Money::nanos(-1), .usage = {}, .price = {}};
        default:
            reserve.who.run = RunId(world.new_id());
            return reserve;
    }
}

CommandBody Nonsense::about_runs(World& world, const KnownOrg& org) {
    Random& random = world.random;
    AdmitRun admit{.run = RunId(world.new_id()),
                   .who = some_account(random, org),
                   .node = {},
                   .places = {},
                   .isolate_into = {},
                   .hold = {}};
    PutSchedule schedule{
        .name = "nonsense", .agent = random.pick(org.agents), .every_s = 60, .cron = {}, .places = {}, .hold = {}};
    Place place = fresh_place(0);
    switch (random.below(18)) {
        case 0:
            admit.run = {};
            return admit;
        case 1:
            admit.who.agent = "nobody";
            return admit;
        case 2:
            admit.who.session = SessionId(world.new_id());
            return admit;
        case 3:
            admit.lease_s = 0;
            return admit;
        case 4:
            admit.on_conflict = OnConflict::isolate;
            return admit;
        case 5:
            admit.hold.usd = -5;
            return admit;
        case 6:
            place.path = random.pick({"relative", "/a//b", "/a/../b", "/a/.", "/a/"});
            admit.places.push_back(place);
            return admit;
        case 7:
            admit.places.assign(limits::claims_per_run_max + 1, place);
            return admit;
        case 8:
            return StartRun{RunId(world.new_id()), Fence(1)};
        case 9:
            return FinishRun{RunId(world.new_id()), Fence(1), RunState::succeeded, {}, {}};
        case 10:
            return CancelRun{RunId(world.new_id()), {}, {}, {}};
        case 11:
            if (org.runs.empty()) return HeartbeatRun{RunId(world.new_id()), Fence(1)};
            // Nobody has fences below 1, and nobody owns a run without showing one.
            return HeartbeatRun{random.pick(org.runs).id, Fence(random.pick({std::int64_t{0}, std::int64_t{-1}}))};
        case 12:
            if (org.runs.empty()) return LoseRun{RunId(world.new_id()), Fence(1), {}};
            return FinishRun{random.pick(org.runs).id, Fence(1), RunState::running, {}, {}};
        case 13:
            schedule.cron = "* * * * *";
            return schedule;
        case 14:
            schedule.every_s = 0;
            schedule.cron = random.pick({"", "* * * *", "61 * * * *", "0 0 30 2 *", "x y z", "*/0 * * * *"});
            return schedule;
        case 15:
            schedule.agent = "nobody";
            return schedule;
        case 16:
            return Wake{"schedule-0", RunId()};
        default:
            return Wake{"nonsense", RunId(world.new_id())};
    }
}

CommandBody Nonsense::about_the_rest(World& world, const KnownOrg& org) {
    Random& random = world.random;
    const SessionId session = org.sessions.empty() ? SessionId(world.new_id()) : random.pick(org.sessions);
    NewMessage message{.id = MessageId(world.new_id()), .role = "user", .content = "hello", .metadata = {}};
    const auto append = [&](NewMessage of) { return Append{session, {std::move(of)}, {}, {}, {}}; };
    switch (random.below(19)) {
        case 0:
            return append({.id = message.id, .role = "wizard", .content = {}, .metadata = {}});
        case 1:
            return append({.id = {}, .role = "user", .content = {}, .metadata = {}});
        case 2:
            return Append{session, {}, {}, {}, {}};
        case 3:
            return Append{SessionId(world.new_id()), {message}, {}, {}, {}};
        case 4:
            return Append{session, {message}, std::int64_t{1} << 40, {}, {}};
        case 5:
            message.input_tokens = -1;
            return append(message);
        case 6:
            message.metadata.assign(limits::metadata_bytes_max + 1, 'x');
            return append(message);
        case 7:
            return ForkSession{session, -1, SessionId(world.new_id()), {}};
        case 8:
            return ForkSession{SessionId(world.new_id()), 0, SessionId(world.new_id()), {}};
        case 9:
            return CloseSession{SessionId(world.new_id())};
        case 10:
            return CreateSession{SessionId(), {}, {}, {}};
        case 11:
            return CreateSession{SessionId(world.new_id()), "nobody", {}, {}};
        case 12:
            return PutAgent{random.pick({"", "-x", "a b", "a\nb"}), {}, 1, {}};
        case 13:
            return PutAgent{"fine", {}, -1, {}};
        case 14:
            return PauseAgent{"nobody", {}};
        case 15:
            return SetCap{CapKind::org, "named", 3};
        case 16:
            return CreateOrg{"not a name"};
        case 17:
            return Append{session, {message}, {}, RunId(world.new_id()), {}};
        default:
            return CreateKey{
                .id = "k", .hash = "h", .scopes = {"root"}, .agent = {}, .run = {}, .budget = {}, .note = {}};
    }
}

}  // namespace

std::unique_ptr<Workload> make_nonsense() { return std::make_unique<Nonsense>(); }

}  // namespace interlock::sim
