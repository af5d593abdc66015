// Settings that are set, set again and dropped, and calls that a gateway records.
#include <fmt/format.h>

#include "core/limits.h"
#include "sim/workload.h"

namespace interlock::sim {
namespace {

using namespace core;

class Clerks : public Workload {
 public:
    void start(World& world) override {
        Random& random = world.random;
        const KnownOrg& org = random.pick(world.known.orgs);
        if (random.percent(40)) return record(world, org);
        const std::string kind = random.pick({"upstream", "price", "secret"});
        const std::string name = fmt::format("it-{}", random.below(4));
        if (random.percent(25)) {
            world.call(*this, org.id, DropSetting{kind, name});
            return;
        }
        PutSetting put{kind, name, fmt::format("{{\"n\":{}}}", random.below(3))};
        if (random.percent(5)) put.document = std::string(limits::setting_bytes_max + 1, 'x');
        world.call(*this, org.id, std::move(put));
    }

 private:
    void record(World& world, const KnownOrg& org) {
        RecordCalls record;
        for (std::uint64_t i = 0; i <= world.random.below(3); ++i) {
            ModelCall call;
            call.id = CallId(world.new_id());
            call.operation = "openai.chat";
            if (world.random.percent(5)) call.price = std::string(500, 'x');  // Cannot be kept, and harms nobody else.
            record.calls.push_back(std::move(call));
        }
        world.call(*this, org.id, std::move(record));
    }
};

}  // namespace

std::unique_ptr<Workload> make_settings() { return std::make_unique<Clerks>(); }

}  // namespace interlock::sim
