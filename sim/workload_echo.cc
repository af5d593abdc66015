// Echoes: commands that were carried out long ago come again, word for word or with the old key on something new.
#include "sim/workload.h"

namespace interlock::sim {
namespace {

using namespace core;

class Echo : public Workload {
 public:
    void start(World& world) override;

 private:
    void reuse_key(World& world, const Call& old);
};

void Echo::start(World& world) {
    if (world.calls().empty()) return;
    Call& old = world.call_at(static_cast<std::uint32_t>(world.random.below(world.calls().size())));
    if (!old.done || !old.has_key()) return;
    world.random.percent(60) ? world.ask_again(old) : reuse_key(world, old);
}

void Echo::reuse_key(World& world, const Call& old) {
    Random& random = world.random;
    CallOptions options{.expect = Expect::key_reused, .broken = Promise::nothing_twice, .key = old.command.key};
    OrgId org = old.command.org;
    if (world.known.orgs.size() > 1 && random.percent(20)) {
        // In another org the same key is another key, if nobody there has used it.
        org = OrgId(org.value % static_cast<std::uint32_t>(world.known.orgs.size()) + 1);
        if (world.find_call(org, old.command.key) != nullptr) return;
        options.expect = Expect::anything;
    }
    CommandBody body = Charge{.who = some_account(random, world.known.of(org)),
                              .fence = {},
                              .cost = Money::nanos(7),
                              .usage = {},
                              .price = {}};
    if (const auto* charge = std::get_if<Charge>(&old.command.body)) {
        Charge other = *charge;
        other.cost = Money::nanos(charge->cost.nanos() ^ 1);  // The smallest difference there is.
        body = std::move(other);
    }
    world.call(*this, org, std::move(body), options);
}

}  // namespace

std::unique_ptr<Workload> make_echo() { return std::make_unique<Echo>(); }

}  // namespace interlock::sim
