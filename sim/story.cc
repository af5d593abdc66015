#include "sim/story.h"

#include <fmt/format.h>

#include "sim/checker.h"
#include "sim/workload.h"

namespace interlock::sim {
namespace {

// A look at all rows costs as much as a few hundred commands, so there are a handful in a story.
constexpr std::uint64_t full_checks = 4;
constexpr std::size_t violations_shown = 5;

}  // namespace

StoryResult tell_story(const StoryOptions& options) {
    World world(options.seed, options.nodes, options.trace);
    const Profile& profile = world.profile;
    if (options.trace) world.trace(profile.to_text());
    world.add(make_admin(), profile.admin);
    world.add(make_sessions(), profile.sessions);
    world.add(make_runs(), profile.runs);
    world.add(make_money(), profile.money);
    world.add(make_schedules(), profile.schedules);
    world.add(make_worktrees(), profile.worktrees);
    world.add(make_settings(), profile.settings);
    world.add(make_echo(), profile.echo);
    world.add(make_nonsense(), profile.nonsense);
    world.add(make_ledger_checker());
    world.add(make_payments_checker());
    world.add(make_ceiling_checker());
    world.add(make_sessions_checker());
    world.add(make_places_checker());
    world.add(make_ticks_checker());
    world.add(make_endings_checker());
    world.add(make_tries_checker());
    world.add(make_settings_checker());
    world.add(make_history_checker());
    world.add(make_feed_checker());

    world.setup();
    world.database->lies = options.lies;
    const std::uint64_t between_checks = options.commands / full_checks + 1;
    std::uint64_t next_check = between_checks;
    bool halfway = false;
    while (world.commands() < options.commands && world.findings.count() == 0) {
        world.step();
        if (!halfway && world.commands() * 2 >= options.commands) {
            halfway = true;
            if (options.halfway) options.halfway(world);
        }
        if (world.commands() >= next_check) {
            world.check();
            next_check += between_checks;
        }
    }
    world.calm_down();
    world.check();

    return {.seed = options.seed,
            .commands_wanted = options.commands,
            .nodes_wanted = options.nodes,
            .commands = world.commands(),
            .steps = world.steps(),
            .hash = world.hash(),
            .violation_count = world.findings.count(),
            .violations = world.findings.violations(),
            .troubles = world.troubles,
            .outcomes = world.outcomes,
            .profile = profile.to_text()};
}

std::string describe_violations(const StoryResult& result) {
    std::string text = fmt::format("seed {}: {} violations\n", result.seed, result.violation_count);
    for (std::size_t i = 0; i < std::min(result.violations.size(), violations_shown); ++i) {
        const Violation& violation = result.violations[i];
        text += fmt::format("  step {}: {}: {}\n", violation.step,
                            boost::describe::enum_to_string(violation.promise, "?"), violation.text);
    }
    text += fmt::format("  the world: {}\n  to see it again: ./dev sim --seed {}", result.profile, result.seed);
    if (result.commands_wanted != StoryOptions{}.commands)
        text += fmt::format(" --commands {}", result.commands_wanted);
    if (result.nodes_wanted > 0) text += fmt::format(" --nodes {}", result.nodes_wanted);
    text += '\n';
    return text;
}

}  // namespace interlock::sim
