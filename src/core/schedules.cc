#include "core/schedules.h"

#include <algorithm>
#include <deque>

#include <fmt/format.h>
#include <boost/describe/enum_to_string.hpp>

#include "base/cron.h"
#include "base/ensure.h"
#include "core/agents.h"
#include "core/check.h"
#include "core/limits.h"
#include "core/runs.h"

namespace interlock::core {
namespace {

// A tick that is this late is late; a later one was missed.
constexpr auto late_max = std::chrono::seconds(60);

// When a schedule is due, worked out once for many questions.
class Ticks {
 public:
    explicit Ticks(const Schedule& schedule) : created_at_(schedule.created_at), every_(schedule.every_s) {
        if (schedule.every_s > 0) return;
        // Both were checked when it was put; a zone can be lost from the zone database.
        if (auto cron = parse_cron(schedule.cron)) cron_ = *cron;
        zone_ = find_zone(schedule.zone);
    }

    // The first tick after this moment. An interval counts from the schedule's making.
    Instant next(Instant after) const {
        if (every_.count() > 0) {
            const Duration every = every_;
            const auto passed = after < created_at_ ? 0 : (after - created_at_) / every;
            return created_at_ + (passed + 1) * every;
        }
        if (!cron_ || !zone_) return far_future;
        return next_after(*cron_, *zone_, after).value_or(far_future);
    }

 private:
    Instant created_at_;
    std::chrono::seconds every_;
    std::optional<Cron> cron_;
    std::optional<Zone> zone_;
};

// The ticks that are due, the latest `keep` of them, and how many came before those.
struct DueTicks {
    std::deque<Instant> ticks;
    std::int64_t dropped = 0;
};
DueTicks due_ticks(const Schedule& schedule, Instant now, std::size_t keep) {
    const Ticks ticks(schedule);
    DueTicks due;
    Instant tick = schedule.next_at;
    if (schedule.every_s > 0 && tick <= now) {
        // Years of missed seconds are skipped by arithmetic.
        const Duration every = std::chrono::seconds(schedule.every_s);
        const auto behind = (now - tick) / every;
        const auto skipped = std::max<std::int64_t>(0, behind + 1 - static_cast<std::int64_t>(keep));
        due.dropped = skipped;
        tick += skipped * every;
    }
    while (tick <= now) {
        due.ticks.push_back(tick);
        if (due.ticks.size() > keep) {
            due.ticks.pop_front();
            ++due.dropped;
        }
        tick = ticks.next(tick);
    }
    return due;
}

bool has_queued(OrgState& state, const std::string& schedule, RunId& waiting) {
    for (const RunId id : state.unfinished_of_schedule(schedule)) {
        if (state.run(id)->state != RunState::queued) continue;
        waiting = id;
        return true;
    }
    return false;
}

AdmitRun admission_for(OrgState& state, const Schedule& schedule, RunId run) {
    AdmitRun command{.run = run,
                     .who = {},
                     .node = {},
                     .places = schedule.places,
                     .on_conflict = OnConflict::queue,
                     .isolate_into = {},
                     .priority = schedule.priority,
                     .hold = schedule.hold_bound,
                     .metered = false,
                     .lease_s = schedule.lease_s,
                     .queue_s = 0,
                     .name = schedule.name,
                     .process = {},
                     .retry = {},
                     .ceiling = {},
                     .isolate = !schedule.worktrees.empty(),
                     .worktrees = {}};
    command.who.agent = schedule.agent;
    if (command.isolate) command.worktrees = schedule.worktrees.front();
    const Agent* agent = working_agent(state, schedule.agent);
    if (agent != nullptr) command.who.provider = agent->provider;
    if (agent != nullptr && !agent->command.empty() && !schedule.node.empty()) {
        command.process = agent->process;
        command.process->command = agent->command;
        // It works in what it claims, and nowhere else, wherever the agent works otherwise.
        const auto place = std::ranges::find(schedule.places, ClaimKind::workspace, &Place::kind);
        command.process->directory = place != schedule.places.end() ? place->path : "";
        command.node = schedule.node;  // Whoever owns the others is on no node.
        command.retry = agent->retry;
    }
    if (schedule.overlap != Overlap::allow) {
        // One run at a time is what a claim is for: the schedule itself is the thing claimed.
        command.places.push_back({.kind = ClaimKind::resource,
                                  .host = {},
                                  .path = fmt::format("{}schedule.{}", reserved_resources, schedule.name),
                                  .chain = {},
                                  .mode = ClaimMode::write});
    }
    return command;
}

AdmitReply admit_next(OrgState& state, Stamp stamp, const Schedule& schedule, RunId run) {
    const auto before = state.unfinished_of_schedule(schedule.name);
    const auto reply = admit_for_schedule(state, stamp, admission_for(state, schedule, run), schedule.name);
    if (reply.status == AdmitStatus::queued && schedule.overlap == Overlap::replace) {
        // What a schedule replaces is its own run before, never somebody else's in the same place.
        for (const RunId id : before) {
            if (is_live(state.run(id)->state)) request_stop(state, stamp, id, "replaced by the schedule's next run");
        }
    }
    return reply;
}

// Writes down what became of a tick or a wake, which the schedule has counted already.
void add_tick(OrgState& state, Stamp stamp, const Schedule& schedule, Instant tick, TickOutcome outcome, RunId run,
              std::string reason = {}) {
    const std::int64_t number = schedule.fired + schedule.skipped + schedule.coalesced;
    state.ticks.add() = {schedule.name, number, stamp.at, tick, outcome, run, std::move(reason)};
}

// Tries one tick. Returns why it was skipped, or nothing.
std::optional<std::string> fire_tick(OrgState& state, Stamp stamp, const Schedule& schedule, Instant tick, RunId run) {
    RunId waiting;
    if (has_queued(state, schedule.name, waiting)) return "a run of this schedule is already queued";
    if (schedule.overlap == Overlap::skip && !state.unfinished_of_schedule(schedule.name).empty()) {
        return "the previous run has not ended";
    }
    const auto reply = admit_next(state, stamp, schedule, run);
    if (reply.status != AdmitStatus::admitted && reply.status != AdmitStatus::queued) {
        return fmt::format("{}: {}", boost::describe::enum_to_string(reply.status, "refused"), reply.detail);
    }
    state.feed.add(ScheduleFired{schedule.name, tick, run});
    return std::nullopt;
}

RunId run_of_tick(const Schedule& schedule, Instant tick) {
    const Id hash = id_from_hash(fmt::format("{}@{}", schedule.name, micros(tick)));
    return RunId(time_ordered_id(tick, hash.high, hash.low));
}

ScheduleReply no_schedule(const std::string& name) {
    return {.status = ScheduleStatus::schedule_not_found,
            .next_at = {},
            .detail = fmt::format("there is no schedule '{}'", name)};
}

Complaint check(const PutSchedule& command) {
    Complaint complaint =
        first_of(check_name("name", command.name), check_name("agent", command.agent),
                 check_range("jitter_s", command.jitter_s, 0, limits::interval_s_max),
                 check_range("missed_max", command.missed_max, 1, limits::missed_ticks_max),
                 check_range("lease_s", command.lease_s, 1, limits::lease_s_max),
                 check_range("priority", command.priority, -1'000'000, 1'000'000), check_amounts("hold", command.hold),
                 check_places(command.places), check_label("node", command.node), check_places(command.worktrees));
    if (complaint) return complaint;
    // One is left for the schedule itself.
    if (command.places.size() >= limits::claims_per_run_max) {
        return fmt::format("the schedule claims {} directories and resources; fewer than {} are allowed",
                           command.places.size(), limits::claims_per_run_max);
    }
    if ((command.every_s == 0) == command.cron.empty()) return "a schedule needs either every_s or cron";
    if (!find_zone(command.zone)) return fmt::format("timezone '{}' is not an IANA timezone", command.zone);
    if (command.every_s != 0) return check_range("every_s", command.every_s, 1, limits::interval_s_max);
    const auto cron = parse_cron(command.cron);
    if (!cron) return fmt::format("cron: {}: {}", cron.error().field, cron.error().what);
    return std::nullopt;
}

}  // namespace

ScheduleReply put_schedule(OrgState& state, Stamp stamp, const PutSchedule& command) {
    const auto refuse = [](ScheduleStatus why, std::string detail) {
        return ScheduleReply{.status = why, .next_at = {}, .detail = std::move(detail)};
    };
    if (auto complaint = check(command)) return refuse(ScheduleStatus::invalid_request, *complaint);
    const Schedule* found = state.schedule(command.name);
    const bool is_new = found == nullptr || found->deleted;
    const bool same_times = !is_new && found->every_s == command.every_s && found->cron == command.cron &&
                            found->zone == command.zone && found->jitter_s == command.jitter_s &&
                            found->enabled == command.enabled;
    Schedule schedule = found != nullptr ? *found : Schedule{};
    if (is_new) schedule.created_at = stamp.at;
    schedule.name = command.name;
    schedule.agent = command.agent;
    schedule.every_s = command.every_s;
    schedule.cron = command.cron;
    schedule.zone = command.zone;
    schedule.jitter_s = command.jitter_s;
    schedule.overlap = command.overlap;
    schedule.missed = command.missed;
    schedule.missed_max = command.missed_max;
    schedule.places = command.places;
    schedule.lease_s = command.lease_s;
    schedule.priority = command.priority;
    schedule.hold_bound = command.hold;
    schedule.enabled = command.enabled;
    schedule.node = command.node;
    schedule.worktrees = command.worktrees;
    schedule.deleted = false;
    if (!same_times) schedule.next_at = Ticks(schedule).next(stamp.at);
    if (schedule.next_at == far_future) {
        return refuse(ScheduleStatus::invalid_request, fmt::format("cron: '{}' is never due", command.cron));
    }
    if (working_agent(state, command.agent) == nullptr) {
        return refuse(ScheduleStatus::agent_not_found, fmt::format("there is no agent '{}'", command.agent));
    }
    if (found == nullptr && state.schedule_count() >= limits::schedules_per_org_max) {
        return refuse(ScheduleStatus::too_many,
                      fmt::format("an org has at most {} schedules", limits::schedules_per_org_max));
    }

    const Instant next_at = schedule.next_at;
    if (!is_new && schedule == *found) return {.status = ScheduleStatus::unchanged, .next_at = next_at, .detail = {}};

    // From here on the schedule must be put.
    state.put_schedule(std::move(schedule));
    state.feed.add(ScheduleChanged{command.name, next_at});
    return {.status = ScheduleStatus::done, .next_at = next_at, .detail = {}};
}

ScheduleReply delete_schedule(OrgState& state, Stamp, const DeleteSchedule& command) {
    const Schedule* found = state.schedule(command.name);
    if (found == nullptr || found->deleted) return no_schedule(command.name);

    // From here on it must go. Its runs go on.
    Schedule schedule = *found;
    schedule.deleted = true;
    state.put_schedule(std::move(schedule));
    state.feed.add(ScheduleDeleted{command.name});
    return {.status = ScheduleStatus::done, .next_at = {}, .detail = {}};
}

ScheduleReply enable_schedule(OrgState& state, Stamp stamp, const EnableSchedule& command) {
    const Schedule* found = state.schedule(command.name);
    if (found == nullptr || found->deleted) return no_schedule(command.name);
    if (found->enabled == command.enabled) {
        return {.status = ScheduleStatus::unchanged, .next_at = found->next_at, .detail = {}};
    }
    Schedule schedule = *found;
    schedule.enabled = command.enabled;
    if (command.enabled) schedule.next_at = Ticks(schedule).next(stamp.at);
    if (schedule.next_at == far_future) {
        return {.status = ScheduleStatus::invalid_request,
                .next_at = {},
                .detail = fmt::format("cron: '{}' is never due again", schedule.cron)};
    }

    // From here on it must change.
    const Instant next_at = schedule.next_at;
    state.put_schedule(std::move(schedule));
    state.feed.add(ScheduleChanged{command.name, next_at});
    return {.status = ScheduleStatus::done, .next_at = next_at, .detail = {}};
}

WakeReply wake(OrgState& state, Stamp stamp, const Wake& command) {
    const auto refuse = [](WakeStatus why, std::string detail) {
        WakeReply reply;
        reply.status = why;
        reply.detail = std::move(detail);
        return reply;
    };
    if (command.run.value.empty()) return refuse(WakeStatus::invalid_request, "a wake needs an id for its run");
    const Schedule* found = state.schedule(command.schedule);
    if (found == nullptr || found->deleted) {
        return refuse(WakeStatus::schedule_not_found, fmt::format("there is no schedule '{}'", command.schedule));
    }
    if (state.run(command.run) != nullptr) return refuse(WakeStatus::run_exists, "a run with this id exists");

    Schedule schedule = *found;
    WakeReply reply;
    if (has_queued(state, schedule.name, reply.run)) {
        reply.status = WakeStatus::coalesced;
        schedule.coalesced += 1;
        add_tick(state, stamp, schedule, stamp.at, TickOutcome::coalesced, reply.run);
        state.feed.add(WakeCoalesced{schedule.name, reply.run});
        state.put_schedule(std::move(schedule));
        return reply;
    }
    // A wake waits for the run before it even where a tick would be skipped.
    reply.admit = admit_next(state, stamp, schedule, command.run);
    if (reply.admit.status != AdmitStatus::admitted && reply.admit.status != AdmitStatus::queued) {
        reply.status = WakeStatus::refused;
        reply.detail = reply.admit.detail;
        return reply;
    }
    reply.status = WakeStatus::woken;
    reply.run = command.run;
    schedule.fired += 1;
    schedule.last_fired_at = stamp.at;
    add_tick(state, stamp, schedule, stamp.at, TickOutcome::fired, command.run);
    state.feed.add(ScheduleFired{schedule.name, stamp.at, command.run});
    state.put_schedule(std::move(schedule));
    return reply;
}

std::int64_t fire(OrgState& state, Stamp stamp, const std::string& name) {
    Schedule schedule = *state.schedule(name);
    ensure(schedule.enabled && !schedule.deleted && schedule.next_at <= stamp.at, "only what is due fires");
    const std::size_t keep = schedule.missed == Missed::all ? static_cast<std::size_t>(schedule.missed_max) : 1;
    const DueTicks due = due_ticks(schedule, stamp.at, keep);
    const Instant first = schedule.next_at;
    schedule.next_at = Ticks(schedule).next(stamp.at);
    schedule.skipped += due.dropped;
    if (due.dropped > 0) {
        // There may be millions of them.
        add_tick(state, stamp, schedule, first, TickOutcome::skipped, {},
                 due.dropped == 1 ? "missed" : fmt::format("missed, with {} after it", due.dropped - 1));
    }

    std::int64_t fired = 0;
    for (const Instant tick : due.ticks) {
        const bool missed = stamp.at - tick > late_max + std::chrono::seconds(schedule.jitter_s);
        std::optional<std::string> skipped;
        if (missed && schedule.missed == Missed::skip) skipped = "missed";
        const RunId run = run_of_tick(schedule, tick);
        if (!skipped) skipped = fire_tick(state, stamp, schedule, tick, run);
        if (skipped) {
            schedule.skipped += 1;
            add_tick(state, stamp, schedule, tick, TickOutcome::skipped, {}, *skipped);
            state.feed.add(ScheduleSkipped{schedule.name, tick, *skipped});
            continue;
        }
        ++fired;
        schedule.fired += 1;
        schedule.last_fired_at = stamp.at;
        add_tick(state, stamp, schedule, tick, TickOutcome::fired, run);
    }
    state.put_schedule(std::move(schedule));
    return fired;
}

std::vector<Instant> next_ticks(const Schedule& schedule, std::size_t count) {
    std::vector<Instant> all;
    if (!schedule.enabled || schedule.deleted) return all;
    const Ticks ticks(schedule);
    for (Instant tick = schedule.next_at; all.size() < count && tick != far_future; tick = ticks.next(tick)) {
        all.push_back(tick);
    }
    return all;
}

}  // namespace interlock::core
