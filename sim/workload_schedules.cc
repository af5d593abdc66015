// Schedules: put, changed, deleted and woken while time jumps.
#include <fmt/format.h>

#include "sim/places.h"
#include "sim/workload.h"

namespace interlock::sim {
namespace {

using namespace core;

class Planners : public Workload {
 public:
    void setup(World& world) override;
    void start(World& world) override;

 private:
    void put(World& world, const KnownOrg& org);
    void wake(World& world, const KnownOrg& org);
    // A run of each of these may be going at any time, so there are few.
    static std::string some_name(Random& random) { return fmt::format("schedule-{}", random.below(4)); }
};

void Planners::setup(World& world) {
    for (const KnownOrg& org : world.known.orgs) {
        const std::uint64_t count = world.random.below(4);
        for (std::uint64_t i = 0; i < count; ++i) put(world, org);
    }
}

void Planners::start(World& world) {
    Random& random = world.random;
    const KnownOrg& org = random.pick(world.known.orgs);
    if (random.percent(60)) return wake(world, org);
    if (random.percent(60)) return put(world, org);
    world.call(*this, org.id, DeleteSchedule{some_name(random)});
}

void Planners::put(World& world, const KnownOrg& org) {
    Random& random = world.random;
    PutSchedule put{.name = some_name(random),
                    .agent = random.pick(org.agents),
                    .every_s = 0,
                    .cron = {},
                    .zone = random.pick(zone_names),
                    .jitter_s = random.percent(20) ? random.between(1, 30) : 0,
                    .overlap = random.pick({Overlap::skip, Overlap::queue, Overlap::replace, Overlap::allow}),
                    .missed = random.pick({Missed::skip, Missed::one, Missed::all}),
                    .missed_max = random.between32(1, 5),
                    .places = {},
                    .lease_s = static_cast<std::int32_t>(
                        std::min<std::int64_t>(24 * 3'600, world.profile.pace_s * random.between(5, 60))),
                    .priority = random.percent(80) ? 0 : 1,
                    .hold = {},
                    .enabled = random.percent(92)};
    if (random.percent(60)) {
        put.every_s = std::max<std::int64_t>(1, world.profile.pace_s * random.between(3, 60));
    } else {
        put.cron = random.pick(
            {"*/5 * * * *", "0 * * * *", "30 2 * * *", "0 0 * * mon-fri", "15 3 1 * *", "@daily", "0 0 29 2 *"});
    }
    if (random.percent(40)) put.places.push_back(some_place(random));
    if (random.percent(30)) put.hold = {.usd = random.spread(3'000)};
    world.call(*this, org.id, std::move(put));
}

void Planners::wake(World& world, const KnownOrg& org) {
    if (!org.runs.empty() && world.random.percent(5)) {
        const Wake taken{some_name(world.random), world.random.pick(org.runs).id};
        world.call(*this, org.id, taken, {.expect = Expect::refusal, .broken = Promise::one_tick});
        return;
    }
    world.call(*this, org.id, Wake{some_name(world.random), RunId(world.new_id())});
}

}  // namespace

std::unique_ptr<Workload> make_schedules() { return std::make_unique<Planners>(); }

}  // namespace interlock::sim
