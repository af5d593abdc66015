// Those who spend: charges at once, and holds that are extended, settled below and above their bound, released or left
// behind. Operators correct some of the charges.
#include "sim/workload.h"

namespace interlock::sim {
namespace {

using namespace core;

class Spenders : public Workload {
 public:
    void start(World& world) override;
    void heard(World& world, const Call& call, const engine::SubmitResult& answer) override;

 private:
    void charge(World& world, KnownOrg& org);
    void correct(World& world, KnownOrg& org);
    void reserve(World& world, KnownOrg& org);
    void go_on_with(World& world, KnownOrg& org, const KnownHold& hold);

    // The account of a run's own spending, where there is a run. Says what must come of it.
    struct Account {
        Attribution who;
        Fence fence;
        CallOptions options;
    };
    Account account(World& world, KnownOrg& org);
};

void Spenders::start(World& world) {
    Random& random = world.random;
    KnownOrg& org = random.pick(world.known.orgs);
    if (!org.charges.empty() && random.percent(4)) return correct(world, org);
    if (random.percent(45)) return charge(world, org);
    if (org.holds.empty() || random.percent(40)) return reserve(world, org);
    // Mostly the young ones; the old ones have expired.
    const std::uint64_t back = random.percent(80) ? std::min<std::uint64_t>(org.holds.size(), 12) : org.holds.size();
    go_on_with(world, org, org.holds[org.holds.size() - 1 - random.below(back)]);
}

Spenders::Account Spenders::account(World& world, KnownOrg& org) {
    Random& random = world.random;
    Account account{some_account(random, org), {}, {}};
    if (!org.runs.empty() && random.percent(45)) {
        const std::uint64_t back = random.percent(85) ? std::min<std::uint64_t>(org.runs.size(), 15) : org.runs.size();
        const KnownRun& run = org.runs[org.runs.size() - 1 - random.below(back)];
        account.who.run = run.id;
        if (random.percent(70)) account.who.agent.clear();
        if (random.percent(80)) account.fence = run.fence;
        if (run.over) account.options = {.expect = Expect::refusal, .broken = Promise::fenced};
        if (run.fence.value > 0 && random.percent(4)) {
            account.fence = Fence(run.fence.value + 1 + random.between(0, 2));
            account.options = {.expect = Expect::refusal, .broken = Promise::fenced};
        }
    }
    if (!org.sessions.empty() && random.percent(25)) account.who.session = random.pick(org.sessions);
    return account;
}

void Spenders::charge(World& world, KnownOrg& org) {
    Random& random = world.random;
    Account account = this->account(world, org);
    Charge charge{.who = std::move(account.who),
                  .fence = account.fence,
                  .cost = Money::nanos(random.spread(2'000)),
                  .usage = some_usage(random),
                  .calls = random.percent(90) ? 1 : random.between(0, 5),
                  .price = random.percent(50) ? "list@3" : "",
                  .incurred = random.percent(15),
                  .unpriced = random.percent(2)};
    if (world.profile.huge_amounts && random.percent(2)) charge.cost = Money::nanos(INT64_MAX - random.spread(1'000));
    world.call(*this, org.id, std::move(charge), account.options);
}

void Spenders::correct(World& world, KnownOrg& org) {
    Random& random = world.random;
    const KnownCharge charge = random.pick(org.charges);
    // Several corrections of one charge, some of them to more than it comes to.
    CorrectCharge correct{.event = charge.key, .to = Money::nanos(random.between(0, charge.cost)), .why = "a mistake"};
    if (random.percent(5)) correct.why.clear();
    if (random.percent(5)) correct.event = CommandKey(world.new_id());
    world.call(*this, org.id, std::move(correct), {});
}

void Spenders::reserve(World& world, KnownOrg& org) {
    Random& random = world.random;
    Account account = this->account(world, org);
    Reserve reserve{.hold = HoldId(world.new_id()),
                    .who = std::move(account.who),
                    .fence = account.fence,
                    .bound = {.usd = random.spread(3'000), .tokens = random.spread(1'000), .calls = 1},
                    .ttl_s = std::min<std::int64_t>(24 * 3'600, random.spread(world.profile.pace_s * 20) + 1),
                    .dispatched = random.percent(20),
                    .by_gateway = random.percent(30)};
    if (random.percent(10)) reserve.bound = {.usd = random.spread(3'000)};
    if (random.percent(25)) {  // Less will do.
        reserve.floor = {.usd = reserve.bound.usd / 4, .tokens = reserve.bound.tokens / 4};
        reserve.share = static_cast<std::int32_t>(1 + random.below(100));
    }
    if (world.profile.huge_amounts && random.percent(2)) reserve.bound.usd = INT64_MAX - random.spread(1'000);
    if (!org.holds.empty() && random.percent(1)) {
        reserve.hold = random.pick(org.holds).id;
        account.options = {.expect = Expect::refusal, .broken = Promise::nothing_twice};
    }
    world.call(*this, org.id, std::move(reserve), account.options);
}

void Spenders::go_on_with(World& world, KnownOrg& org, const KnownHold& hold) {
    Random& random = world.random;
    // Mostly the opener, or an operator.
    Actor by = random.percent(50) ? Actor{}
               : hold.by_gateway  ? Actor{.kind = ActorKind::gateway}
                                  : Actor{.kind = ActorKind::key, .key = hold.api_key};
    const bool intrudes = random.percent(4);
    if (intrudes) by = {.kind = ActorKind::key, .key = "intruder"};
    // Whatever was told to have ended stays ended, for every new command.
    CallOptions options{.expect = hold.over ? Expect::refusal : Expect::anything, .broken = Promise::nothing_twice};
    if (intrudes) options = {.expect = Expect::refusal, .broken = Promise::exact_ledger};
    const std::int64_t ttl_s = std::min<std::int64_t>(24 * 3'600, random.spread(world.profile.pace_s * 20) + 1);
    if (random.percent(30)) {
        world.call(*this, org.id, ExtendHold{hold.id, ttl_s, random.percent(60), by}, options);
    } else if (random.percent(20)) {
        world.call(*this, org.id, ReleaseHold{hold.id, by}, options);
    } else {
        SettleHold settle{.hold = hold.id,
                          .cost = Money::nanos(random.between(0, hold.bound)),
                          .usage = some_usage(random),
                          .calls = 1,
                          .price = "list@3",
                          .estimated = random.percent(5),
                          .unpriced = false,
                          .by = by};
        // What the gateway knows is never too late.
        if (by.kind == ActorKind::gateway) options.expect = Expect::anything;
        if (random.percent(15))
            settle.cost = Money::nanos(hold.bound / 2 + random.spread(2'000));  // A price has changed.
        if (random.percent(60)) settle.usage = Usage{.input_tokens = random.between(0, 20)};
        if (world.profile.huge_amounts && random.percent(3)) settle.cost = Money::max();
        world.call(*this, org.id, std::move(settle), options);
    }
}

void Spenders::heard(World& world, const Call& call, const engine::SubmitResult& answer) {
    if (!answer) return;
    KnownOrg& org = world.known.of(call.command.org);
    if (const auto* reserve = std::get_if<Reserve>(&call.command.body)) {
        if (says_done(answer->reply) && org.find_hold(reserve->hold) == nullptr) {
            const std::int64_t held = std::get<ReserveReply>(answer->reply).bound.usd;
            org.holds.push_back({.id = reserve->hold,
                                 .bound = std::min<std::int64_t>(held, 1'000'000),
                                 .by_gateway = reserve->by_gateway,
                                 .api_key = reserve->who.api_key});
        }
        return;
    }
    if (const auto* charge = std::get_if<Charge>(&call.command.body)) {
        const bool charged = std::get<ChargeReply>(answer->reply).status == ChargeStatus::charged;
        if (charged) org.add_charge({call.command.key, charge->cost.nanos()});
        return;
    }
    const auto over = [&](HoldId id, HoldStatus status, bool ends) {
        KnownHold* hold = org.find_hold(id);
        if (hold != nullptr && ((status == HoldStatus::done && ends) || status == HoldStatus::hold_closed))
            hold->over = true;
    };
    if (const auto* settle = std::get_if<SettleHold>(&call.command.body)) {
        const HoldStatus status = std::get<SettleReply>(answer->reply).status;
        over(settle->hold, status, true);
        if (status == HoldStatus::done) org.add_charge({call.command.key, settle->cost.nanos()});
    } else if (const auto* release = std::get_if<ReleaseHold>(&call.command.body)) {
        over(release->hold, std::get<HoldReply>(answer->reply).status, true);
    } else if (const auto* extend = std::get_if<ExtendHold>(&call.command.body)) {
        over(extend->hold, std::get<HoldReply>(answer->reply).status, false);
    }
}

}  // namespace

std::unique_ptr<Workload> make_money() { return std::make_unique<Spenders>(); }

}  // namespace interlock::sim
