#include "sim/profile.h"

#include <fmt/format.h>

namespace interlock::sim {

Profile Profile::draw(Random& random) {
    // Half of the stories do without a given trouble; the rest have it rarely or often.
    const auto rate = [&](std::uint32_t often) {
        return random.percent(50) ? 0 : random.percent(50) ? often / 8 : often;
    };
    Profile profile;
    profile.orgs = random.pick({1u, 1u, 2u, 3u});
    // Some begin just before a year, a leap day or a change of the clocks.
    profile.begins = from_micros(1'000'000 * random.pick({std::int64_t{1'767'225'000}, std::int64_t{1'772'300'000},
                                                          std::int64_t{1'774'740'000}, std::int64_t{1'793'480'000},
                                                          std::int64_t{1'709'164'000}, std::int64_t{1'760'000'000}}));
    profile.pace_s = random.pick({std::int64_t{1}, std::int64_t{20}, std::int64_t{300}, std::int64_t{3'000}});
    profile.burst = random.pick({std::uint64_t{2}, std::uint64_t{6}, std::uint64_t{12}, std::uint64_t{30}});
    profile.engine.queue_max = random.percent(10) ? profile.burst * 2 : 65'536;
    profile.engine.batch_max = random.pick({std::size_t{4'096}, std::size_t{4'096}, std::size_t{16}, std::size_t{3}});

    profile.commit_faults = rate(60'000);
    profile.load_faults = rate(3'000);
    profile.lost_answers = rate(80'000);
    profile.late_answers = rate(100'000);
    profile.twin_requests = rate(60'000);
    profile.late_requests = rate(40'000);
    profile.dying_clients = rate(100'000);
    profile.crashes = rate(20'000);
    profile.long_downtimes = rate(300'000);
    profile.clock_jumps = rate(15'000);
    profile.calls_without_key = rate(40'000);
    profile.tight_deadlines = rate(30'000);
    profile.huge_amounts = random.percent(4);

    const auto weight = [&](std::uint32_t usual) {
        return random.percent(12) ? 0 : random.percent(20) ? usual * 3 : usual;
    };
    profile.money = weight(40);
    profile.runs = weight(30);
    profile.sessions = weight(15);
    profile.schedules = weight(4);
    profile.worktrees = weight(2);
    profile.admin = weight(4);
    profile.echo = weight(5);
    profile.nonsense = weight(4);
    profile.settings = weight(2);
    if (profile.money + profile.runs + profile.sessions == 0) profile.money = 40;

    // Drawn last, and for every story, so that one told with another number of nodes is otherwise the same.
    profile.nodes = random.pick({1u, 1u, 1u, 2u, 3u});
    profile.freezes = rate(20'000);
    profile.false_suspicions = rate(20'000);
    profile.lost_between_nodes = rate(60'000);
    return profile;
}

std::string Profile::to_text() const {
    std::string several;
    if (nodes > 1) {
        several = fmt::format(" | {} nodes, per million: freezes {}, false suspicions {}, lost between nodes {}", nodes,
                              freezes, false_suspicions, lost_between_nodes);
    }
    return fmt::format(
        "orgs {} pace {} s burst {} batch_max {} queue_max {} | per million: commit faults {}, load faults {}, lost "
        "answers "
        "{}, late answers {}, twins {}, late requests {}, dying clients {}, crashes {}, long downtimes {}, clock jumps "
        "{}, "
        "no key {}, deadlines {} | money {} runs {} sessions {} schedules {} worktrees {} admin {} echo {} nonsense "
        "{} settings {}{}",
        orgs, pace_s, burst, engine.batch_max, engine.queue_max, commit_faults, load_faults, lost_answers, late_answers,
        twin_requests, late_requests, dying_clients, crashes, long_downtimes, clock_jumps, calls_without_key,
        tight_deadlines, money, runs, sessions, schedules, worktrees, admin, echo, nonsense, settings, several);
}

}  // namespace interlock::sim
