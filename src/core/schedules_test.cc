#include "core/schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"

namespace interlock::core {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

class SchedulesTest : public RunsTest {
 protected:
    SchedulesTest() { make_agent("ada"); }

    static PutSchedule every(std::chrono::seconds interval, const std::string& name = "nightly") {
        PutSchedule command;
        command.name = name;
        command.agent = "ada";
        command.every_s = interval.count();
        command.overlap = Overlap::allow;
        command.lease_s = limits::lease_s_max;
        return command;
    }
    static PutSchedule on(const std::string& cron, const std::string& zone = "UTC") {
        PutSchedule command = every(seconds(0));
        command.cron = cron;
        command.zone = zone;
        return command;
    }
    Instant put_schedule(const PutSchedule& command) {
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, ScheduleStatus::done) << reply.detail;
        return reply.next_at;
    }
    static Instant instant(std::string_view text) {
        const auto parsed = from_iso8601(text);
        EXPECT_TRUE(parsed.has_value()) << text;
        return parsed.value_or(far_past);
    }

    // The runs of a schedule in this state, the earliest tick first.
    std::vector<RunId> runs_in(RunState state, const std::string& schedule = "nightly") {
        const OrgRows all = rows();
        std::vector<RunId> found;
        for (const auto& [id, run] : all.of<Run>()) {
            if (run.schedule == schedule && run.state == state) found.push_back(id);
        }
        return found;
    }
    std::size_t live(const std::string& schedule = "nightly") { return runs_in(RunState::starting, schedule).size(); }
    std::size_t waiting(const std::string& schedule = "nightly") { return runs_in(RunState::queued, schedule).size(); }
    Schedule row(const std::string& schedule = "nightly") { return get<Schedule>(schedule); }

    // Ticks at every deadline on the way, as an engine that is never late does.
    std::int64_t go_to(Instant end) {
        std::int64_t fired = 0;
        while (machine.next_deadline() && *machine.next_deadline() <= end) fired += at(*machine.next_deadline()).fired;
        return fired + at(end).fired;
    }
    // As a server that was away until then.
    std::int64_t sleep_until(Instant end) { return at(end).fired; }

    WakeReply wake(const std::string& schedule = "nightly") { return apply(Wake{schedule, fresh_run()}); }
    // The runs may have moved on, so every fence is asked for.
    void finish_all() {
        for (const RunId run : runs_in(RunState::starting)) finish(owner_of(run));
    }
};

// ---- ticks ----------------------------------------------------------------------------------------------------------

TEST_F(SchedulesTest, an_interval_fires_at_every_multiple_from_its_making_exactly) {
    EXPECT_EQ(put_schedule(every(seconds(600))), now + seconds(600));
    const Instant made = now;

    EXPECT_EQ(advance(seconds(600) - moment).fired, 0);
    EXPECT_EQ(advance(moment).fired, 1);
    EXPECT_EQ(row().next_at, made + seconds(1200));
    EXPECT_EQ(advance(seconds(605)).fired, 1);
    EXPECT_EQ(row().next_at, made + seconds(1800)) << "a late tick does not move those that follow";

    EXPECT_EQ(live(), 2u);
    EXPECT_EQ(row().fired, 2);
    EXPECT_EQ(row().skipped, 0);
    EXPECT_EQ(row().last_fired_at, now);
    EXPECT_EQ(told<ScheduleFired>().at(1).tick, made + seconds(1200));
}

TEST_F(SchedulesTest, a_fired_run_is_the_schedules_and_has_what_the_schedule_says) {
    PutSchedule command = every(seconds(60));
    command.places = {workspace("/repo"), resource("deploy", ClaimMode::read)};
    command.overlap = Overlap::skip;
    command.lease_s = 77;
    command.priority = 5;
    command.hold = usd(Money::dollars(2));
    put_schedule(command);

    advance(seconds(60));

    ASSERT_EQ(live(), 1u);
    const Run run = get<Run>(runs_in(RunState::starting)[0]);
    EXPECT_EQ(run.who.agent, "ada");
    EXPECT_EQ(run.schedule, "nightly");
    EXPECT_EQ(run.lease_until, now + seconds(77));
    EXPECT_EQ(run.priority, 5);
    EXPECT_EQ(get<Hold>(run.hold).bound, usd(Money::dollars(2)));
    EXPECT_EQ(apply(asking("ada", {workspace("/repo/x")})).holder->run, run.id);
    EXPECT_EQ(told<ScheduleFired>().at(0).run, run.id);
}

TEST_F(SchedulesTest, a_tick_fires_once_however_often_time_is_told) {
    put_schedule(every(seconds(60)));
    EXPECT_EQ(advance(seconds(60)).fired, 1);

    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(std::get<TickReply>(machine.apply({now}, command_of({}, Tick{})).reply).fired, 0);
    }
    commit();
    reload();
    apply(Reopened{});
    EXPECT_EQ(apply(Tick{}).fired, 0);

    EXPECT_EQ(live(), 1u);
    EXPECT_EQ(row().fired, 1);
}

TEST_F(SchedulesTest, a_tick_whose_commit_was_lost_fires_again_as_the_same_run) {
    put_schedule(every(seconds(60)));
    commit();
    batching = true;
    EXPECT_EQ(advance(seconds(60)).fired, 1);
    const auto first = runs_in(RunState::starting);

    reload();
    EXPECT_EQ(live(), 0u);
    EXPECT_EQ(advance(seconds(1)).fired, 1);

    EXPECT_EQ(runs_in(RunState::starting), first);
    batching = false;
    commit();
}

TEST_F(SchedulesTest, a_cron_expression_fires_in_its_time_zone) {
    EXPECT_EQ(put_schedule(on("30 9 * * mon-fri", "America/New_York")), instant("2026-03-02T14:30:00Z"));

    EXPECT_EQ(go_to(instant("2026-03-09T13:29:59Z")), 5);
    EXPECT_EQ(row().next_at, instant("2026-03-09T13:30:00Z")) << "the clocks went forward on the 8th";
    EXPECT_EQ(go_to(instant("2026-03-09T13:30:00Z")), 1);
}

TEST_F(SchedulesTest, a_time_the_clock_skips_is_made_up_for_and_one_it_shows_twice_fires_once) {
    at(instant("2026-03-28T12:00:00Z"));
    EXPECT_EQ(put_schedule(on("30 2 * * *", "Europe/Berlin")), instant("2026-03-29T01:00:00Z"));
    EXPECT_EQ(go_to(instant("2026-03-29T12:00:00Z")), 1);
    EXPECT_EQ(row().next_at, instant("2026-03-30T00:30:00Z"));

    apply(DeleteSchedule{"nightly"});
    at(instant("2026-10-24T12:00:00Z"));
    EXPECT_EQ(put_schedule(on("30 2 * * *", "Europe/Berlin")), instant("2026-10-25T00:30:00Z"));
    EXPECT_EQ(go_to(instant("2026-10-25T12:00:00Z")), 1);
    EXPECT_EQ(row().next_at, instant("2026-10-26T01:30:00Z"));
}

TEST_F(SchedulesTest, jitter_delays_each_tick_by_an_amount_that_is_always_the_same) {
    std::set<Duration> delays;
    for (int i = 0; i < 20; ++i) {
        const std::string name = "s" + std::to_string(i);
        PutSchedule command = every(seconds(10'000), name);
        command.jitter_s = 100;
        const Instant tick = put_schedule(command);
        commit();
        const Instant due = *machine.next_deadline();
        EXPECT_GE(due, tick);
        EXPECT_LE(due, tick + seconds(100));
        delays.insert(due - tick);

        reload();
        EXPECT_EQ(*machine.next_deadline(), due) << "and does not change with a restart";

        const Instant made = now;
        EXPECT_EQ(at(due - moment).fired, 0);
        EXPECT_EQ(at(due).fired, 1);
        EXPECT_EQ(row(name).next_at, made + seconds(20'000));
        EXPECT_EQ(told<ScheduleFired>().back().tick, tick);
        apply(DeleteSchedule{name});
        for (const RunId run : runs_in(RunState::starting, name)) finish(owner_of(run));
    }
    EXPECT_GT(delays.size(), 10u) << "schedules with the same times are spread";
}

// ---- overlap --------------------------------------------------------------------------------------------------------

TEST_F(SchedulesTest, overlap_skip_leaves_out_the_tick_while_the_run_before_is_going) {
    PutSchedule command = every(seconds(60));
    command.overlap = Overlap::skip;
    put_schedule(command);
    EXPECT_EQ(advance(seconds(60)).fired, 1);
    const Owned first = owner_of(runs_in(RunState::starting)[0]);
    EXPECT_EQ(advance(seconds(60)).fired, 0);
    start(first);
    EXPECT_EQ(advance(seconds(60)).fired, 0);
    pause(first);
    EXPECT_EQ(advance(seconds(60)).fired, 0);

    finish(first);
    EXPECT_EQ(live(), 0u);
    EXPECT_EQ(advance(seconds(60)).fired, 1);

    EXPECT_EQ(row().fired, 2);
    EXPECT_EQ(row().skipped, 3);
    EXPECT_EQ(told<ScheduleSkipped>().size(), 3u);
    EXPECT_NE(told<ScheduleSkipped>()[0].reason, "");
}

TEST_F(SchedulesTest, overlap_queue_lets_one_wait_and_never_more) {
    PutSchedule command = every(seconds(60));
    command.overlap = Overlap::queue;
    put_schedule(command);
    advance(seconds(60));
    const Owned first = owner_of(runs_in(RunState::starting)[0]);

    EXPECT_EQ(advance(seconds(60)).fired, 1);
    const RunId second = runs_in(RunState::queued)[0];
    for (int i = 0; i < 5; ++i) EXPECT_EQ(advance(seconds(60)).fired, 0);

    EXPECT_EQ(waiting(), 1u);
    EXPECT_EQ(row().skipped, 5);
    EXPECT_EQ(heartbeat(first).stop_requested, "");
    finish(first);
    EXPECT_EQ(state_of(second), RunState::starting);
    EXPECT_EQ(waiting(), 0u);
}

TEST_F(SchedulesTest, overlap_replace_asks_the_schedules_own_run_to_stop_and_nobody_else) {
    make_agent("bob");
    PutSchedule command = every(seconds(60));
    command.overlap = Overlap::replace;
    command.places = {workspace("/repo", ClaimMode::read)};
    put_schedule(command);
    advance(seconds(60));
    const Owned first = owner_of(runs_in(RunState::starting)[0]);
    AdmitRun reader = asking("bob", {workspace("/repo", ClaimMode::read)});
    reader.lease_s = limits::lease_s_max;
    const Owned bobs = admit(reader);

    EXPECT_EQ(advance(seconds(60)).fired, 1);

    EXPECT_NE(heartbeat(first).stop_requested, "");
    EXPECT_EQ(heartbeat(bobs).stop_requested, "");
    const RunId second = runs_in(RunState::queued)[0];
    EXPECT_EQ(advance(seconds(60)).fired, 0);
    EXPECT_EQ(waiting(), 1u);
    cancel(first);
    EXPECT_EQ(state_of(second), RunState::starting);
}

TEST_F(SchedulesTest, overlap_replace_waits_for_a_place_that_somebody_else_has) {
    make_agent("bob");
    PutSchedule command = every(seconds(60));
    command.overlap = Overlap::replace;
    command.places = {workspace("/repo")};
    put_schedule(command);
    AdmitRun holder = asking("bob", {workspace("/repo")});
    holder.lease_s = limits::lease_s_max;
    const Owned bobs = admit(holder);

    EXPECT_EQ(advance(seconds(60)).fired, 1);

    EXPECT_EQ(heartbeat(bobs).stop_requested, "");
    EXPECT_EQ(waiting(), 1u);
    finish(bobs);
    EXPECT_EQ(live(), 1u);
}

TEST_F(SchedulesTest, overlap_allow_runs_side_by_side_where_places_and_caps_permit_and_piles_up_nowhere) {
    put_schedule(every(seconds(60)));
    for (int i = 0; i < 3; ++i) advance(seconds(60));
    EXPECT_EQ(live(), 3u);

    make_agent("ada", 3);
    for (int i = 0; i < 4; ++i) advance(seconds(60));

    EXPECT_EQ(live(), 3u);
    EXPECT_EQ(waiting(), 1u);
    EXPECT_EQ(row().skipped, 3);
}

TEST_F(SchedulesTest, two_schedules_do_not_wait_for_each_other) {
    PutSchedule one = every(seconds(60), "one");
    one.overlap = Overlap::queue;
    PutSchedule two = every(seconds(60), "two");
    two.overlap = Overlap::queue;
    put_schedule(one);
    put_schedule(two);

    EXPECT_EQ(advance(seconds(60)).fired, 2);

    EXPECT_EQ(live("one"), 1u);
    EXPECT_EQ(live("two"), 1u);
}

TEST_F(SchedulesTest, the_longest_name_fires_like_any_other) {
    const std::string name(limits::name_bytes_max, 'n');
    PutSchedule command = every(seconds(60), name);
    command.overlap = Overlap::skip;
    put_schedule(command);

    EXPECT_EQ(advance(seconds(60)).fired, 1);
    EXPECT_EQ(advance(seconds(60)).fired, 0);

    EXPECT_EQ(live(name), 1u);
}

TEST_F(SchedulesTest, a_tick_that_admission_refuses_is_skipped_and_says_why) {
    put(budget_of("all", Money::dollars(1)));
    PutSchedule command = every(seconds(60));
    command.hold = usd(Money::dollars(2));
    put_schedule(command);
    EXPECT_EQ(advance(seconds(60)).fired, 0);
    EXPECT_NE(told<ScheduleSkipped>().back().reason.find("budget_exceeded"), std::string::npos);

    apply(PauseAgent{"ada", "lunch"});
    EXPECT_EQ(advance(seconds(60)).fired, 0);
    EXPECT_NE(told<ScheduleSkipped>().back().reason.find("agent_paused"), std::string::npos);

    apply(ArchiveAgent{"ada"});
    EXPECT_EQ(advance(seconds(60)).fired, 0);
    EXPECT_NE(told<ScheduleSkipped>().back().reason.find("agent_not_found"), std::string::npos);

    make_agent("ada");
    put(budget_of("all", Money::dollars(2)));
    EXPECT_EQ(advance(seconds(60)).fired, 1);
    EXPECT_EQ(row().skipped, 3);
}

// ---- what was missed ------------------------------------------------------------------------------------------------

TEST_F(SchedulesTest, missed_one_makes_up_for_all_that_was_missed_with_one_run) {
    put_schedule(every(hours(1)));
    const Instant made = now;

    EXPECT_EQ(sleep_until(made + hours(10) + minutes(5)), 1);

    EXPECT_EQ(told<ScheduleFired>().at(0).tick, made + hours(10));
    EXPECT_EQ(row().fired, 1);
    EXPECT_EQ(row().skipped, 9);
    EXPECT_EQ(row().next_at, made + hours(11));
}

TEST_F(SchedulesTest, missed_skip_makes_up_for_nothing_but_does_not_call_a_minute_missed) {
    PutSchedule command = every(hours(1));
    command.missed = Missed::skip;
    put_schedule(command);
    const Instant made = now;

    EXPECT_EQ(sleep_until(made + hours(10) + seconds(60) + moment), 0);
    EXPECT_EQ(row().skipped, 10);
    EXPECT_EQ(sleep_until(made + hours(12) + seconds(60)), 1);

    EXPECT_EQ(told<ScheduleFired>().at(0).tick, made + hours(12));
    EXPECT_EQ(row().skipped, 11);
}

TEST_F(SchedulesTest, a_tick_that_jitter_delays_is_not_missed) {
    PutSchedule command = every(hours(10));
    command.missed = Missed::skip;
    command.jitter_s = 3 * 3600;
    put_schedule(command);

    EXPECT_EQ(go_to(now + hours(100)), 9) << "the tenth is still to come";
}

TEST_F(SchedulesTest, missed_all_makes_up_for_the_latest_up_to_its_cap) {
    PutSchedule command = every(hours(1));
    command.missed = Missed::all;
    command.missed_max = 3;
    put_schedule(command);
    const Instant made = now;

    EXPECT_EQ(sleep_until(made + hours(10) + minutes(5)), 3);

    const auto fired = told<ScheduleFired>();
    ASSERT_EQ(fired.size(), 3u);
    EXPECT_EQ(fired[0].tick, made + hours(8));
    EXPECT_EQ(fired[1].tick, made + hours(9));
    EXPECT_EQ(fired[2].tick, made + hours(10));
    EXPECT_EQ(row().skipped, 7);
    EXPECT_EQ(sleep_until(made + hours(12)), 2) << "below the cap, none is left out";
}

TEST_F(SchedulesTest, missed_all_with_overlap_queue_still_lets_only_one_wait) {
    PutSchedule command = every(hours(1));
    command.missed = Missed::all;
    command.missed_max = 100;
    command.overlap = Overlap::queue;
    put_schedule(command);

    EXPECT_EQ(sleep_until(now + hours(10)), 2);

    EXPECT_EQ(live(), 1u);
    EXPECT_EQ(waiting(), 1u);
    EXPECT_EQ(row().skipped, 8);
}

TEST_F(SchedulesTest, missed_all_makes_up_for_cron_ticks_too) {
    PutSchedule command = on("0 * * * *");
    command.missed = Missed::all;
    command.missed_max = 3;
    put_schedule(command);

    EXPECT_EQ(sleep_until(instant("2026-03-03T00:10:00Z")), 3);

    const auto fired = told<ScheduleFired>();
    EXPECT_EQ(fired.at(0).tick, instant("2026-03-02T22:00:00Z"));
    EXPECT_EQ(fired.at(2).tick, instant("2026-03-03T00:00:00Z"));
    EXPECT_EQ(row().skipped, 9);
    EXPECT_EQ(row().next_at, instant("2026-03-03T01:00:00Z"));
}

TEST_F(SchedulesTest, years_of_missed_seconds_and_months_of_missed_minutes_are_made_up_for_at_once) {
    put_schedule(every(seconds(1), "by-the-second"));
    const Instant made = now;
    EXPECT_EQ(sleep_until(made + hours(24 * 3650)), 1);
    EXPECT_EQ(row("by-the-second").skipped, 3650 * 86'400 - 1);
    apply(DeleteSchedule{"by-the-second"});

    PutSchedule minutely = on("* * * * *");
    minutely.name = "by-the-minute";
    put_schedule(minutely);
    EXPECT_EQ(sleep_until(now + hours(24 * 60)), 1);
    EXPECT_EQ(row("by-the-minute").skipped, 60 * 1440 - 1);
}

// ---- wakes ----------------------------------------------------------------------------------------------------------

TEST_F(SchedulesTest, a_wake_starts_a_run_now_and_moves_no_tick) {
    const Instant next = put_schedule(every(hours(1)));
    advance(seconds(5));

    const Wake command{"nightly", fresh_run()};
    const auto reply = apply(command);

    EXPECT_EQ(reply.status, WakeStatus::woken);
    EXPECT_EQ(reply.run, command.run);
    EXPECT_EQ(reply.admit.status, AdmitStatus::admitted);
    EXPECT_GT(reply.admit.fence, Fence());
    EXPECT_EQ(state_of(command.run), RunState::starting);
    EXPECT_EQ(row().next_at, next);
    EXPECT_EQ(row().fired, 1);
    EXPECT_EQ(row().last_fired_at, now);
}

TEST_F(SchedulesTest, a_wake_during_a_run_waits_for_it_and_further_ones_join_the_one_that_waits) {
    for (const Overlap overlap : {Overlap::skip, Overlap::queue, Overlap::replace}) {
        PutSchedule command = every(hours(1));
        command.overlap = overlap;
        command.name = "s" + std::to_string(static_cast<int>(overlap));
        put_schedule(command);
        const auto first = wake(command.name);

        const auto second = wake(command.name);
        EXPECT_EQ(second.status, WakeStatus::woken);
        EXPECT_EQ(second.admit.status, AdmitStatus::queued);
        const auto third = wake(command.name);
        EXPECT_EQ(third.status, WakeStatus::coalesced);
        EXPECT_EQ(third.run, second.run);
        EXPECT_EQ(wake(command.name).run, second.run);

        EXPECT_EQ(row(command.name).coalesced, 2);
        EXPECT_EQ(row(command.name).fired, 2);
        EXPECT_EQ(heartbeat(owner_of(first.run)).stop_requested.empty(), overlap != Overlap::replace);
        finish(owner_of(first.run));
        EXPECT_EQ(state_of(second.run), RunState::starting);
        EXPECT_EQ(wake(command.name).status, WakeStatus::woken) << "it serves only wakes from before its start";
    }
    EXPECT_EQ(told<WakeCoalesced>().size(), 6u);
}

TEST_F(SchedulesTest, a_tick_finds_the_wake_that_waits_and_is_served_by_it) {
    PutSchedule command = every(hours(1));
    command.overlap = Overlap::queue;
    put_schedule(command);
    wake();
    wake();

    EXPECT_EQ(advance(hours(1)).fired, 0);

    EXPECT_EQ(waiting(), 1u);
}

TEST_F(SchedulesTest, a_repeated_wake_gets_its_first_answer_and_starts_nothing) {
    put_schedule(every(hours(1)));
    const Wake command{"nightly", fresh_run()};
    const CommandKey key = fresh_key();
    const auto first = std::get<WakeReply>(apply_with(key, command).reply);
    finish(owner_of(first.run));

    const Applied again = apply_with(key, command);

    EXPECT_TRUE(again.repeated);
    EXPECT_EQ(std::get<WakeReply>(again.reply).status, WakeStatus::woken);
    EXPECT_EQ(std::get<WakeReply>(again.reply).run, first.run);
    EXPECT_EQ(row().fired, 1);
    EXPECT_EQ(std::get<WakeReply>(apply_with(key, Wake{"nightly", fresh_run()}).reply).run, first.run)
        << "whoever asks again does not know the id that was drawn the first time";
    EXPECT_TRUE(apply_with(key, Wake{"weekly", fresh_run()}).key_reused);
}

TEST_F(SchedulesTest, a_repeated_wake_that_joined_another_names_the_same_run_again) {
    PutSchedule command = every(hours(1));
    command.overlap = Overlap::queue;
    put_schedule(command);
    wake();
    const auto second = wake();
    const Wake joining{"nightly", fresh_run()};
    const CommandKey key = fresh_key();
    apply_with(key, joining);
    finish_all();

    const Applied again = apply_with(key, joining);

    EXPECT_EQ(std::get<WakeReply>(again.reply).status, WakeStatus::coalesced);
    EXPECT_EQ(std::get<WakeReply>(again.reply).run, second.run);
    EXPECT_EQ(row().coalesced, 1);
}

TEST_F(SchedulesTest, a_disabled_schedule_can_be_woken) {
    PutSchedule command = every(hours(1));
    command.enabled = false;
    put_schedule(command);

    EXPECT_EQ(wake().status, WakeStatus::woken);
}

TEST_F(SchedulesTest, wakes_refuse_in_the_order_of_their_status) {
    const Owned taken = admit(asking("ada"));
    apply(PauseAgent{"ada", "lunch"});
    EXPECT_EQ(apply(Wake{"nightly", {}}).status, WakeStatus::invalid_request);
    EXPECT_EQ(apply(Wake{"nightly", taken.run}).status, WakeStatus::schedule_not_found);
    put_schedule(every(hours(1)));
    apply(DeleteSchedule{"nightly"});
    EXPECT_EQ(apply(Wake{"nightly", taken.run}).status, WakeStatus::schedule_not_found);
    put_schedule(every(hours(1)));
    EXPECT_EQ(apply(Wake{"nightly", taken.run}).status, WakeStatus::run_exists);
    const auto refused = wake();
    EXPECT_EQ(refused.status, WakeStatus::refused);
    EXPECT_EQ(refused.admit.status, AdmitStatus::agent_paused);
    EXPECT_NE(refused.detail, "");
    EXPECT_EQ(row().fired, 0);
    apply(ResumeAgent{"ada"});
    EXPECT_EQ(wake().status, WakeStatus::woken);
}

// ---- putting and deleting -------------------------------------------------------------------------------------------

TEST_F(SchedulesTest, putting_the_same_times_keeps_the_next_tick_and_other_times_move_it) {
    PutSchedule command = every(hours(1));
    const Instant next = put_schedule(command);
    advance(minutes(50));

    EXPECT_EQ(apply(command).status, ScheduleStatus::unchanged);
    EXPECT_EQ(apply(command).next_at, next);
    command.overlap = Overlap::queue;
    command.priority = 3;
    command.places = {workspace("/repo")};
    EXPECT_EQ(put_schedule(command), next);
    EXPECT_EQ(advance(minutes(10)).fired, 1) << "a put just before its time does not push a tick away";

    command.every_s = 7200;
    EXPECT_EQ(put_schedule(command), now + hours(1)) << "intervals count from the making";
    command.every_s = 0;
    command.cron = "0 0 * * *";
    EXPECT_EQ(put_schedule(command), instant("2026-03-03T00:00:00Z"));
    command.zone = "Asia/Tokyo";
    EXPECT_EQ(put_schedule(command), instant("2026-03-02T15:00:00Z"));
    EXPECT_EQ(told<ScheduleChanged>().size(), 5u);
}

TEST_F(SchedulesTest, a_disabled_schedule_does_not_fire_and_misses_nothing) {
    PutSchedule command = every(hours(1));
    command.missed = Missed::all;
    put_schedule(command);
    const Instant made = now;
    command.enabled = false;
    put_schedule(command);

    EXPECT_EQ(go_to(made + hours(5) + minutes(30)), 0);
    command.enabled = true;
    EXPECT_EQ(put_schedule(command), made + hours(6));

    EXPECT_EQ(go_to(made + hours(6)), 1);
    EXPECT_EQ(row().skipped, 0);
}

TEST_F(SchedulesTest, a_schedule_rests_until_it_is_enabled_again_and_makes_up_for_nothing) {
    PutSchedule command = every(hours(1));
    command.missed = Missed::all;
    const Instant made = now;
    put_schedule(command);

    EXPECT_EQ(apply(EnableSchedule{"nightly", false}).status, ScheduleStatus::done);
    EXPECT_EQ(apply(EnableSchedule{"nightly", false}).status, ScheduleStatus::unchanged);
    EXPECT_EQ(go_to(made + hours(5) + seconds(1)), 0);
    EXPECT_TRUE(next_ticks(row(), 3).empty());
    EXPECT_EQ(apply(EnableSchedule{"nightly", true}).next_at, made + hours(6));
    reload();
    EXPECT_EQ(go_to(made + hours(6)), 1);
    EXPECT_EQ(row().skipped, 0);
}

TEST_F(SchedulesTest, a_run_of_a_schedule_works_in_the_place_that_the_schedule_claims) {
    PutAgent agent;
    agent.name = "ada";
    agent.command = {"true"};
    agent.max_concurrent_runs = 10;
    agent.process.directory = "/of/the/agent";
    apply(agent);
    PutSchedule command = every(hours(1));
    command.node = "here";
    command.places = {workspace("/of/the/schedule")};
    put_schedule(command);
    command.name = "without";
    command.places = {};
    put_schedule(command);

    EXPECT_EQ(get<Launch>(apply(Wake{"nightly", fresh_run()}).run).process.directory, "/of/the/schedule");
    EXPECT_EQ(get<Launch>(apply(Wake{"without", fresh_run()}).run).process.directory, "");
}

TEST_F(SchedulesTest, only_a_schedule_that_is_there_can_rest) {
    EXPECT_EQ(apply(EnableSchedule{"nightly", false}).status, ScheduleStatus::schedule_not_found);
    put_schedule(every(hours(1)));
    apply(DeleteSchedule{"nightly"});

    EXPECT_EQ(apply(EnableSchedule{"nightly", false}).status, ScheduleStatus::schedule_not_found);
}

TEST_F(SchedulesTest, the_ticks_to_come_are_the_ones_that_fire) {
    at(instant("2026-03-28T12:00:00Z"));
    PutSchedule command = on("30 2 * * *", "Europe/Berlin");
    command.jitter_s = 50;
    put_schedule(command);
    const std::vector<Instant> foretold = next_ticks(row(), 3);
    EXPECT_EQ(foretold, (std::vector{instant("2026-03-29T01:00:00Z"), instant("2026-03-30T00:30:00Z"),
                                     instant("2026-03-31T00:30:00Z")}));

    for (const Instant tick : foretold) {
        const Instant due = due_at(row(), tick);
        EXPECT_EQ(at(due - moment).fired, 0);
        EXPECT_EQ(at(due).fired, 1);
        EXPECT_EQ(told<ScheduleFired>().back().tick, tick);
        for (const RunId run : runs_in(RunState::starting)) finish(owner_of(run));
    }
}

TEST_F(SchedulesTest, a_deleted_schedule_fires_no_more_and_its_runs_go_on) {
    put_schedule(every(hours(1)));
    advance(hours(1));
    const Owned going = owner_of(runs_in(RunState::starting)[0]);

    EXPECT_EQ(apply(DeleteSchedule{"nightly"}).status, ScheduleStatus::done);

    EXPECT_EQ(apply(DeleteSchedule{"nightly"}).status, ScheduleStatus::schedule_not_found);
    EXPECT_EQ(go_to(now + hours(3)), 0);
    EXPECT_EQ(heartbeat(going).status, RunStatus::done);
    EXPECT_EQ(put_schedule(every(hours(1))), now + hours(1));
    EXPECT_EQ(go_to(now + hours(1)), 1);
}

TEST_F(SchedulesTest, schedules_are_the_same_after_a_restart) {
    PutSchedule command = every(hours(1));
    command.overlap = Overlap::skip;
    put_schedule(command);
    advance(hours(1));

    reload();
    apply(Reopened{});

    EXPECT_EQ(advance(hours(1)).fired, 0) << "the run before is still known";
    finish_all();
    EXPECT_EQ(advance(hours(1)).fired, 1);
    EXPECT_EQ(row().fired, 2);
}

// ---- refusals -------------------------------------------------------------------------------------------------------

TEST_F(SchedulesTest, put_refuses_in_the_order_of_its_status) {
    PutSchedule command = every(seconds(0));
    command.agent = "nobody";
    EXPECT_EQ(apply(command).status, ScheduleStatus::invalid_request);
    command.cron = "0 0 30 2 *";
    EXPECT_EQ(apply(command).status, ScheduleStatus::invalid_request) << "it is never due";
    command.cron = "0 0 29 2 *";
    EXPECT_EQ(apply(command).status, ScheduleStatus::agent_not_found);

    put_schedule(every(hours(1), "s0"));
    fill<Schedule>(limits::schedules_per_org_max, row("s0"),
                   [](Schedule& one, std::size_t i) { one.name = "s" + std::to_string(i); });
    EXPECT_EQ(unwatched(command).status, ScheduleStatus::agent_not_found);
    command.agent = "ada";
    EXPECT_EQ(unwatched(command).status, ScheduleStatus::too_many);
    EXPECT_EQ(unwatched(every(hours(1), "s7")).status, ScheduleStatus::unchanged);
    EXPECT_EQ(unwatched(every(hours(2), "s7")).status, ScheduleStatus::done);
}

TEST_F(SchedulesTest, a_schedule_that_cannot_be_one_is_refused) {
    const std::vector<std::function<void(PutSchedule&)>> spoil = {
        [](PutSchedule& command) { command.name = ""; },
        [](PutSchedule& command) { command.name = "two words"; },
        [](PutSchedule& command) { command.agent = ""; },
        [](PutSchedule& command) { command.every_s = -1; },
        [](PutSchedule& command) { command.every_s = limits::interval_s_max + 1; },
        [](PutSchedule& command) { command.cron = "* * * * *"; },
        [](PutSchedule& command) { command.every_s = 0; },
        [](PutSchedule& command) { command.zone = "Mars/Olympus"; },
        [](PutSchedule& command) { command.jitter_s = -1; },
        [](PutSchedule& command) { command.jitter_s = limits::interval_s_max + 1; },
        [](PutSchedule& command) { command.missed_max = 0; },
        [](PutSchedule& command) { command.missed_max = limits::missed_ticks_max + 1; },
        [](PutSchedule& command) { command.lease_s = 0; },
        [](PutSchedule& command) { command.priority = 1'000'001; },
        [](PutSchedule& command) { command.hold.usd = -1; },
        [](PutSchedule& command) { command.places = {workspace("relative")}; },
        [](PutSchedule& command) { command.places = {workspace("/a"), workspace("/a")}; },
        [](PutSchedule& command) { command.places = {resource("interlock.schedule.nightly")}; },
        [](PutSchedule& command) {
            for (std::size_t i = 0; i < limits::claims_per_run_max; ++i) {
                command.places.push_back(resource("r" + std::to_string(i)));
            }
        },
    };
    for (std::size_t i = 0; i < spoil.size(); ++i) {
        PutSchedule command = every(hours(1));
        spoil[i](command);
        const auto reply = apply(command);
        EXPECT_EQ(reply.status, ScheduleStatus::invalid_request) << "case " << i;
        EXPECT_NE(reply.detail, "") << "case " << i;
    }
    for (const std::string cron : {"* * * *", "61 * * * *", "* * * * * *", "nonsense", "*/0 * * * *"}) {
        PutSchedule command = every(seconds(0));
        command.cron = cron;
        EXPECT_EQ(apply(command).status, ScheduleStatus::invalid_request) << cron;
    }
}

TEST_F(SchedulesTest, a_schedule_with_as_many_places_as_it_may_have_fires) {
    PutSchedule command = every(hours(1));
    command.overlap = Overlap::skip;
    for (std::size_t i = 0; i + 1 < limits::claims_per_run_max; ++i) {
        command.places.push_back(resource("r" + std::to_string(i)));
    }
    put_schedule(command);

    EXPECT_EQ(advance(hours(1)).fired, 1);

    EXPECT_EQ(claims_of(runs_in(RunState::starting)[0]), limits::claims_per_run_max);
}

}  // namespace
}  // namespace interlock::core
