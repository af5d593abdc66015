// P9 for runs that are tried again: one try after the other, each for a reason, no more than were allowed, none before
// its time. And worktrees: no two have a port in common.
#include <map>
#include <set>

#include <fmt/format.h>

#include "sim/checker.h"

namespace interlock::sim {
namespace {

using namespace core;

class TriesChecker : public Checker {
 public:
    void check(World& world, const Rows& rows) override {
        check_tries(world, rows);
        check_ports(world, rows);
    }

 private:
    static void check_tries(World& world, const Rows& rows) {
        const auto& runs = rows.rows<Run>();
        const auto& launches = rows.rows<Launch>();
        std::map<std::pair<OrgId, RunId>, int> tried_again;
        for (const auto& [key, run] : runs) {
            const auto wrong = [&, id = run.id](const std::string& what) {
                world.violated(Promise::nobody_forgotten, fmt::format("run {:x} {}", id.value.low, what));
            };
            const auto launch = launches.find(key);
            if (run.supervised != (launch != launches.end())) wrong("and its launch do not belong together");
            if (run.retry_of.value.empty()) {
                if (run.attempt != 1) wrong("is a further try of nothing");
                continue;
            }
            if (++tried_again[{key.first, run.retry_of}] > 1) wrong("is one of two tries after the same run");
            const auto before = runs.find({key.first, run.retry_of});
            if (before == runs.end()) {
                wrong("is a further try of a run that is not there");
                continue;
            }
            const RunState ended = before->second.state;
            if (ended != RunState::failed && ended != RunState::timed_out && ended != RunState::lost) {
                wrong("is a further try of a run that went well, was cancelled or goes on");
            }
            if (!before->second.stop_requested.empty()) wrong("is a further try of a run that was to stop");
            if (run.attempt != before->second.attempt + 1) wrong("has a number that does not follow");
            if (launch != launches.end() && run.attempt > launch->second.retry.tries) wrong("is one try too many");
            const bool admitted = run.admitted_at > far_past;
            if (admitted && run.admitted_at < run.not_before) wrong("was admitted before its time");
        }
    }

    static void check_ports(World& world, const Rows& rows) {
        std::set<std::tuple<OrgId, std::string, std::int32_t>> taken;
        for (const auto& [key, worktree] : rows.rows<Worktree>()) {
            if (worktree.state != WorktreeState::open || worktree.port_base == 0) continue;
            for (std::int32_t port = worktree.port_base; port < worktree.port_base + 10; ++port) {
                if (taken.insert({key.first, worktree.node, port}).second) continue;
                world.violated(Promise::one_worker_per_place, fmt::format("two worktrees have port {}", port));
            }
        }
    }
};

}  // namespace

std::unique_ptr<Checker> make_tries_checker() { return std::make_unique<TriesChecker>(); }

}  // namespace interlock::sim
