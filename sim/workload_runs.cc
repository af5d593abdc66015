// The owners of runs: they ask for places, wait in line, work, fall silent, are slow, die, and come back too late.
#include <algorithm>

#include "core/limits.h"
#include "sim/places.h"
#include "sim/workload.h"

namespace interlock::sim {
namespace {

using namespace core;

class Owners : public Workload {
 public:
    void setup(World& world) override;
    void start(World& world) override;
    void heard(World& world, const Call& call, const engine::SubmitResult& answer) override;

 private:
    struct Owner {
        OrgId org;
        enum { idle, asking, waiting, working, silent } state = idle;
        RunId run;
        bool should_stop = false;
        bool moved = false;      // Perhaps: its places are not those that it asked for.
        std::string agent = {};  // Of the run, and what was asked for it.
        std::vector<Place> places = {};
    };

    void ask(World& world, Owner& owner);
    void ask_as_child(World& world, const Owner& owner, AdmitRun& admit);
    void look(World& world, Owner& owner, const KnownRun& run);
    void work(World& world, Owner& owner, const KnownRun& run);
    void come_back(World& world, Owner& owner, const KnownRun& run);
    void finish(World& world, const Owner& owner, const KnownRun& run);
    void restate(World& world, Owner& owner, const KnownRun& run);
    void heard_admission(World& world, const AdmitRun& asked, OrgId org, const AdmitReply& reply);
    void heard_of_run(World& world, OrgId org, RunId run, Fence fence, const RunReply& reply);

    std::vector<Owner> owners_;
    std::uint64_t fresh_places_ = 0;
};

void Owners::setup(World& world) {
    for (const KnownOrg& org : world.known.orgs) {
        const std::uint64_t count = 3 + world.random.below(12);
        for (std::uint64_t i = 0; i < count; ++i) owners_.push_back({.org = org.id, .run = {}});
    }
}

void Owners::start(World& world) {
    Random& random = world.random;
    Owner& owner = random.pick(owners_);
    KnownOrg& org = world.known.of(owner.org);
    if (owner.state == Owner::idle) {
        if (org.fired.empty() || random.percent(40)) return ask(world, owner);
        owner.run = org.fired.back();
        owner.state = random.percent(85) ? Owner::working : Owner::silent;
        org.fired.pop_back();
        return;
    }
    const KnownRun* run = org.find_run(owner.run);
    if (run == nullptr) {
        owner.state = Owner::idle;  // It was never told that the run exists, and has given up.
        return;
    }
    switch (owner.state) {
        case Owner::idle:
            return;
        case Owner::asking:
        case Owner::waiting:
            return look(world, owner, *run);
        case Owner::working:
            return work(world, owner, *run);
        case Owner::silent:
            return come_back(world, owner, *run);
    }
}

void Owners::ask(World& world, Owner& owner) {
    Random& random = world.random;
    const KnownOrg& org = world.known.of(owner.org);
    AdmitRun admit{.run = RunId(world.new_id()),
                   .who = some_account(random, org),
                   .node = random.pick(node_names),
                   .places = {},
                   .on_conflict = random.pick({OnConflict::refuse, OnConflict::queue, OnConflict::queue,
                                               OnConflict::queue, OnConflict::replace, OnConflict::isolate}),
                   .isolate_into = {},
                   .priority = random.percent(70) ? 0 : random.between32(-1, 2),
                   .hold = {},
                   .metered = random.percent(40),
                   .lease_s = static_cast<std::int32_t>(
                       std::min<std::int64_t>(24 * 3'600, world.profile.pace_s * random.between(5, 80))),
                   .queue_s = random.percent(30) ? 0 : random.spread(world.profile.pace_s * 60)};
    const std::uint64_t places = random.pick({0u, 1u, 1u, 1u, 2u, 3u});
    for (std::uint64_t i = 0; i < places; ++i) admit.places.push_back(some_place(random));
    if (admit.on_conflict == OnConflict::isolate) {
        admit.isolate_into = random.percent(70) ? fresh_place(++fresh_places_) : some_place(random);
    }
    if (random.percent(40)) admit.hold = {.usd = random.spread(8'000), .tokens = random.spread(2'000), .calls = 3};
    if (random.percent(10)) admit.hold = {.usd = random.spread(8'000)};
    if (world.profile.huge_amounts && random.percent(3)) admit.hold = {.usd = INT64_MAX};
    if (!org.sessions.empty() && random.percent(20)) admit.who.session = random.pick(org.sessions);
    if (random.percent(25) && !admit.node.empty()) {
        admit.process = ProcessSpec{};
        admit.process->command = {"agent"};
        admit.retry = {.tries = random.between32(1, 4), .backoff_s = random.between32(0, 20), .backoff_max_s = 30};
    }
    if (random.percent(20)) admit.ceiling = Money::nanos(random.spread(8'000));
    if (random.percent(5)) {
        admit.isolate = true;
        admit.worktrees = fresh_place(++fresh_places_);
    }
    if (random.percent(20)) {
        admit.by = {.kind = ActorKind::key, .key = "key-of-" + admit.who.agent, .agent = admit.who.agent};
        if (random.percent(3)) admit.priority = limits::priority_below_operator_max + 1;
    }
    if (random.percent(35)) ask_as_child(world, owner, admit);
    // A run that somebody else has under this id is not given away.
    const KnownRun* twin = !org.runs.empty() && random.percent(2) ? &random.pick(org.runs) : nullptr;
    if (twin != nullptr) {
        admit.run = twin->id;
        world.call(*this, owner.org, std::move(admit), {.expect = Expect::refusal, .broken = Promise::nothing_twice});
        return;
    }
    owner.run = admit.run;
    owner.state = Owner::asking;
    owner.should_stop = owner.moved = false;
    owner.agent = admit.who.agent;
    owner.places = admit.places;
    world.call(*this, owner.org, std::move(admit));
}

// The server has looked at the run's directories again, and they were moved.
void Owners::restate(World& world, Owner& owner, const KnownRun& run) {
    owner.moved = true;
    RestatePlaces restate{.run = run.id, .fence = run.fence, .workspaces = {}, .reason = "its directory was moved"};
    const auto workspaces = std::ranges::count(owner.places, ClaimKind::workspace, &Place::kind);
    while (std::ssize(restate.workspaces) < workspaces) {
        const Place place = some_place(world.random);
        if (place.kind == ClaimKind::workspace) restate.workspaces.push_back(place);
    }
    world.call(*this, owner.org, std::move(restate));
}

// A program of another owner's run asks. Most of what it asks for is inside of what that run has.
void Owners::ask_as_child(World& world, const Owner& owner, AdmitRun& admit) {
    Random& random = world.random;
    const Owner* found = nullptr;
    for (int tries = 0; tries < 5 && found == nullptr; ++tries) {
        const Owner& other = random.pick(owners_);
        const bool works = other.state == Owner::working || (other.state != Owner::idle && random.percent(10));
        const bool has_places = !other.moved || random.percent(10);
        if (other.org == owner.org && works && has_places && !other.agent.empty()) found = &other;
    }
    if (found == nullptr) return;
    const Owner& parent = *found;
    admit.parent = parent.run;
    admit.by = {.kind = ActorKind::key, .key = "key-of-" + parent.agent, .agent = parent.agent};
    if (random.percent(95)) admit.who.agent = parent.agent;
    if (random.percent(95)) admit.who.session = {};
    admit.priority = 0;
    if (admit.on_conflict == OnConflict::isolate || admit.isolate) return;
    if (random.percent(10)) return;
    std::erase_if(admit.places, [](const Place& place) { return place.kind == ClaimKind::workspace; });
    for (const Place& place : parent.places) {
        if (place.kind != ClaimKind::workspace || random.percent(15)) continue;
        Place inside = place;
        if (random.percent(50)) {
            const std::string name = random.pick({std::string("x"), std::string("y")});
            inside.path += (inside.path == "/" ? "" : "/") + name;
            if (!inside.chain.empty()) inside.chain.insert(inside.chain.begin(), inside.chain.front() + name);
        }
        if (random.percent(20)) inside.mode = ClaimMode::read;
        admit.places.push_back(inside);
        break;
    }
}

// In line: has the time come?
void Owners::look(World& world, Owner& owner, const KnownRun& run) {
    Random& random = world.random;
    if (has_ended(run.seen)) {
        owner.state = Owner::idle;
    } else if (is_live(run.seen)) {
        owner.state = random.percent(90) ? Owner::working : Owner::silent;
    } else if (random.percent(6)) {
        world.call(*this, owner.org, CancelRun{run.id, {}, "changed my mind", {}});
    } else if (random.percent(3)) {
        owner.state = Owner::idle;  // Walks away from its place in line.
    }
}

void Owners::work(World& world, Owner& owner, const KnownRun& run) {
    Random& random = world.random;
    if (run.over) {
        owner.state = random.percent(80) ? Owner::idle : Owner::silent;
        return;
    }
    const auto call = [&](CommandBody body) { world.call(*this, owner.org, std::move(body)); };
    if (owner.should_stop && random.percent(60)) return finish(world, owner, run);
    switch (random.below(21)) {
        case 0:
            call(StartRun{run.id, run.fence});
            return;
        case 1:
        case 2:
            call(PauseRun{run.id, run.fence});
            return;
        case 3:
        case 4:
            call(ResumeRun{run.id, run.fence});
            return;
        case 5:
        case 6:
            return finish(world, owner, run);
        case 7:
            call(CancelRun{run.id, run.fence, "enough", {}});
            return;
        case 8:
            call(CancelRun{run.id, {}, "somebody wants it stopped", {}});
            return;
        case 9:
            if (random.percent(25)) call(LoseRun{run.id, run.fence, "its process is gone"});
            return;
        case 10:
        case 11:
            owner.state = Owner::silent;
            return;
        case 12:
            return restate(world, owner, run);
        default:
            call(HeartbeatRun{run.id, run.fence});
    }
}

// Somebody who was silent has the fence of a run that may be somebody else's place by now.
void Owners::come_back(World& world, Owner& owner, const KnownRun& run) {
    Random& random = world.random;
    if (random.percent(50)) return;
    if (random.percent(20)) {
        owner.state = Owner::idle;
        return;
    }
    const CallOptions options{.expect = run.over ? Expect::refusal : Expect::anything, .broken = Promise::fenced};
    const auto call = [&](CommandBody body) { world.call(*this, owner.org, std::move(body), options); };
    switch (random.below(6)) {
        case 0:
            call(StartRun{run.id, run.fence});
            return;
        case 1:
            call(PauseRun{run.id, run.fence});
            return;
        case 2:
            return finish(world, owner, run);
        case 3:
            call(CancelRun{run.id, run.fence, "late", {}});
            return;
        case 4:
            call(LoseRun{run.id, run.fence, "late"});
            return;
        default:
            call(HeartbeatRun{run.id, run.fence});
            if (!run.over) owner.state = Owner::working;
    }
}

void Owners::finish(World& world, const Owner& owner, const KnownRun& run) {
    Random& random = world.random;
    FinishRun finish{
        .run = run.id,
        .fence = run.fence,
        .outcome = random.pick({RunState::succeeded, RunState::succeeded, RunState::failed, RunState::timed_out}),
        .reason = "",
        .charge = {}};
    if (random.percent(60)) {
        finish.charge = FinalCharge{.provider = random.percent(30) ? random.pick(provider_names) : "",
                                    .model = random.percent(30) ? random.pick(model_names) : "",
                                    .cost = Money::nanos(random.spread(4'000)),
                                    .usage = some_usage(random),
                                    .calls = random.between(0, 3),
                                    .price = "list@3"};
        if (world.profile.huge_amounts && random.percent(20)) finish.charge->cost = Money::max();
    }
    const CallOptions options{.expect = run.over ? Expect::refusal : Expect::anything, .broken = Promise::fenced};
    world.call(*this, owner.org, std::move(finish), options);
}

// ---- answers ------------------------------------------------------------------------------------------------------

void Owners::heard(World& world, const Call& call, const engine::SubmitResult& answer) {
    if (!answer) return;
    std::visit(
        [&]<class Body>(const Body& body) {
            if constexpr (std::is_same_v<Body, AdmitRun>) {
                heard_admission(world, body, call.command.org, std::get<AdmitReply>(answer->reply));
            } else if constexpr (
                requires {
                    body.run;
                    body.fence;
                } && !requires { body.who; } && !requires { body.session; }) {
                heard_of_run(world, call.command.org, body.run, body.fence, std::get<RunReply>(answer->reply));
            }
        },
        call.command.body);
}

void Owners::heard_admission(World& world, const AdmitRun& asked, OrgId org, const AdmitReply& reply) {
    const bool done = reply.status == AdmitStatus::admitted || reply.status == AdmitStatus::queued;
    if (done) {
        KnownRun& known = world.known.of(org).add_run(asked.run);
        if (reply.status == AdmitStatus::admitted) known.fence = reply.fence;
    }
    for (Owner& owner : owners_) {
        if (owner.org != org || owner.run != asked.run || owner.state != Owner::asking) continue;
        owner.state = !done ? Owner::idle : reply.status == AdmitStatus::admitted ? Owner::working : Owner::waiting;
        if (owner.state == Owner::working && world.random.percent(8)) owner.state = Owner::silent;
    }
}

void Owners::heard_of_run(World& world, OrgId org, RunId run, Fence fence, const RunReply& reply) {
    KnownRun* known = world.known.of(org).find_run(run);
    if (known == nullptr) return;
    const bool told_so = reply.status == RunStatus::done || reply.status == RunStatus::run_ended;
    if (told_so && has_ended(reply.state)) known->over = true;
    // The fence of its admission was right until the run was lost, or until it went back in line.
    const bool is_fenced = reply.status == RunStatus::stale_fence && fence == known->fence && fence.value > 0;
    if (is_fenced && has_ended(known->seen)) known->over = true;
    for (Owner& owner : owners_) {
        if (owner.org != org || owner.run != run) continue;
        if (!reply.stop_requested.empty()) owner.should_stop = true;
        if (known->over && owner.state != Owner::silent) owner.state = Owner::idle;
    }
}

}  // namespace

std::unique_ptr<Workload> make_runs() { return std::make_unique<Owners>(); }

}  // namespace interlock::sim
