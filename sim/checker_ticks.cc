// P8, exactly one tick: a schedule's ticks rise, each with one run or one reason, and every wake is served.
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/calendar.h"
#include "base/codec.h"
#include "sim/checker.h"

namespace interlock::sim {
namespace {

using namespace core;

class TicksChecker : public Checker {
 public:
    void check(World& world, const Rows& rows) override;

 private:
    struct Counts {
        Instant last_tick = far_past;
        std::int64_t ticks_fired = 0;
        std::int64_t wakes = 0;
        std::int64_t skipped = 0;
        std::int64_t coalesced = 0;
        std::int64_t puts = 0;
    };
    void check_history(World& world, const Rows& rows, OrgId org);
    void check_wakes(World& world, const Rows& rows);
};

void TicksChecker::check(World& world, const Rows& rows) {
    for (const auto& [key, org] : rows.rows<Org>()) check_history(world, rows, key.first);
    check_wakes(world, rows);

    std::map<std::pair<OrgId, std::string>, std::int64_t> queued;
    for (const auto& [key, run] : rows.rows<Run>()) {
        if (run.schedule.empty() || run.state != RunState::queued) continue;
        if (++queued[{key.first, run.schedule}] == 2) {
            world.violated(Promise::one_tick, "two runs of schedule " + run.schedule + " wait in line");
        }
    }
}

void TicksChecker::check_history(World& world, const Rows& rows, OrgId org) {
    std::map<std::string, Counts> schedules;
    std::set<RunId> woken;
    for (const Call& call : world.calls()) {
        if (call.command.org != org || call.expect == Expect::refusal) continue;
        if (const auto* wake = std::get_if<Wake>(&call.command.body)) woken.insert(wake->run);
    }
    std::map<RunId, int> started;
    const auto tick = [&](const std::string& schedule, Instant at) {
        Counts& counts = schedules[schedule];
        if (at <= counts.last_tick) {
            world.violated(Promise::one_tick, fmt::format("schedule {} comes to its tick {} after {}", schedule,
                                                          to_iso8601(at), to_iso8601(counts.last_tick)));
        }
        counts.last_tick = std::max(counts.last_tick, at);
    };
    for (const Event& event : world.history.of(org)) {
        if (const auto* fired = std::get_if<ScheduleFired>(&event)) {
            if (++started[fired->run] == 2)
                world.violated(Promise::one_tick, fmt::format("run {:x} was fired twice", fired->run.value.low));
            if (woken.contains(fired->run)) {
                ++schedules[fired->schedule].wakes;
            } else {
                ++schedules[fired->schedule].ticks_fired;
                tick(fired->schedule, fired->tick);
            }
        } else if (const auto* skipped = std::get_if<ScheduleSkipped>(&event)) {
            ++schedules[skipped->schedule].skipped;
            tick(skipped->schedule, skipped->tick);
        } else if (const auto* coalesced = std::get_if<WakeCoalesced>(&event)) {
            ++schedules[coalesced->schedule].coalesced;
        } else if (const auto* changed = std::get_if<ScheduleChanged>(&event)) {
            ++schedules[changed->schedule].puts;
        }
    }

    for (const auto& [key, row] : rows.rows<Schedule>()) {
        if (key.first != org) continue;
        const Counts& counts = schedules[row.name];
        const auto differ = [&](const char* column, std::int64_t says, std::int64_t is) {
            if (says != is)
                world.violated(Promise::one_tick,
                               fmt::format("schedule {}: {} is {}, the feed has {}", row.name, column, says, is));
        };
        differ("fired", row.fired, counts.ticks_fired + counts.wakes);
        differ("coalesced", row.coalesced, counts.coalesced);
        if (row.skipped < counts.skipped) differ("skipped", row.skipped, counts.skipped);
        // An interval that nobody has touched since it was made: every tick was fired or skipped.
        if (row.every_s > 0 && counts.puts == 1 && row.enabled && !row.deleted) {
            const std::int64_t due = (row.next_at - row.created_at) / std::chrono::seconds(row.every_s) - 1;
            differ("fired + skipped", counts.ticks_fired + row.skipped, due);
        }
    }
    const auto& runs = rows.rows<Run>();
    for (auto run = runs.lower_bound({org, RunId()}); run != runs.end() && run->first.first == org; ++run) {
        if (!run->second.schedule.empty() && !started.contains(run->second.id)) {
            world.violated(Promise::one_tick, fmt::format("run {:x} of schedule {} was fired by no tick",
                                                          run->second.id.value.low, run->second.schedule));
        }
    }
}

void TicksChecker::check_wakes(World& world, const Rows& rows) {
    for (const Call& call : world.calls()) {
        if (!call.done || !std::holds_alternative<Wake>(call.command.body)) continue;
        const auto answer = decode<Reply>(call.first_answer);
        const auto& reply = std::get<WakeReply>(*answer);
        const auto run = rows.rows<Run>().find({call.command.org, reply.run});
        if (run == rows.rows<Run>().end() || run->second.schedule != std::get<Wake>(call.command.body).schedule) {
            world.violated(Promise::one_tick, fmt::format("wake {} was told that run {:x} serves it, which it does not",
                                                          call.id, reply.run.value.low));
        }
    }
}

}  // namespace

std::unique_ptr<Checker> make_ticks_checker() { return std::make_unique<TicksChecker>(); }

}  // namespace interlock::sim
