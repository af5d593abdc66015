// Worktrees: planned, made and dropped for runs that live, have ended, or never were.
#include <fmt/format.h>

#include "sim/workload.h"

namespace interlock::sim {
namespace {

using namespace core;

class Gardeners : public Workload {
 public:
    void start(World& world) override {
        Random& random = world.random;
        const KnownOrg& org = random.pick(world.known.orgs);
        const bool known = !org.runs.empty() && random.percent(90);
        const RunId run = known ? random.pick(org.runs).id : RunId(world.new_id());
        if (random.percent(30)) {
            world.call(*this, org.id, DropWorktree{run, random.percent(40) ? "refs/kept" : ""});
            return;
        }
        PutWorktree put{.run = run,
                        .node = random.pick({"node-1", "node-2"}),
                        .repository = "/src",
                        .path = fmt::format("/worktrees/{}", to_text("run", run.value)),
                        .branch = "work",
                        .base = random.percent(50) ? "1234" : "",
                        .teardown = {}};
        if (random.percent(5)) put.path = std::string(5'000, 'x');
        world.call(*this, org.id, std::move(put));
    }
};

}  // namespace

std::unique_ptr<Workload> make_worktrees() { return std::make_unique<Gardeners>(); }

}  // namespace interlock::sim
