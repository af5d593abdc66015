#include "supervisor/watch.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "supervisor/watch_test_support.h"

namespace interlock::supervisor::watch_test {
namespace {

Life running_in_terminal() {
    Life life(found_in_terminal(core::RunState::starting));
    life.happens(event::RoomLooked{});
    life.happens(event::PlaceSeen{});
    life.happens(prepared);
    life.happens(greeted(shim::ShimPhase::waiting));
    life.happens(has_started);
    life.happens(answer(RunCommandKind::start, core::RunStatus::done));
    return life;
}

template <class Command>
const Command* submitted(const Life& life) {
    for (const Action& action : life.actions()) {
        const auto* submit = std::get_if<action::Submit>(&action);
        if (submit == nullptr) continue;
        if (const auto* body = std::get_if<Command>(&submit->body)) return body;
    }
    return nullptr;
}

TEST(Watch, the_deadline_of_a_run_found_running_counts_from_the_start_of_its_main_process) {
    Life life(with_file(found(core::RunState::running), shim_state(shim::ShimPhase::running, 101), 90s));
    life.happens(greeted(shim::ShimPhase::running));

    life.happens(event::HasBeaten{}, 9s);
    EXPECT_EQ(words_of(life.happens(event::TimePassed{})), "submit HeartbeatRun");
    life.happens(event::TimePassed{}, 2s);

    const auto* reaping = life.in<phase::Reaping>();
    ASSERT_NE(reaping, nullptr);
    EXPECT_EQ(words_of(reaping->end), "FinishRun(timed_out)");
}

TEST(Watch, a_run_of_which_the_core_does_not_know_that_it_started_says_so_when_its_shim_comes_back) {
    Life life(with_file(found(), shim_state(shim::ShimPhase::running, 101)));

    EXPECT_EQ(words_of(life.happens(greeted(shim::ShimPhase::running))), "admit; submit StartRun");
    EXPECT_NE(life.in<phase::Starting>(), nullptr);
}

TEST(Watch, only_a_shim_that_stopped_itself_in_its_terminal_may_be_silent_after_a_restart) {
    event::Found stopped =
        with_file(found_in_terminal(core::RunState::paused), shim_state(shim::ShimPhase::running, 101));
    stopped.file->shim_stopped = true;

    stopped.file->state.suspended = 1;
    Life in_terminal(stopped);
    in_terminal.happens(event::TimePassed{.shim = {.alive = true}}, 1000s);
    EXPECT_EQ(phase_of(in_terminal.watch()), "Returning");

    stopped.file->state.suspended = 0;
    Life by_its_run(stopped);
    by_its_run.happens(event::TimePassed{.shim = {.alive = true}}, 1000s);
    EXPECT_EQ(phase_of(by_its_run.watch()), "Reaping");
}

TEST(Watch, a_dead_shim_that_was_found_running_is_reaped_at_once) {
    event::Found dead = with_file(found(core::RunState::running), shim_state(shim::ShimPhase::running, 101));
    dead.file->shim_alive = false;
    const Life life(dead);

    EXPECT_EQ(phase_of(life.watch()), "Reaping");
    EXPECT_EQ(words_of(life.actions()), "log run_reaped; keep places; end leftovers, look for daemons");
}

TEST(Watch, an_end_that_was_found_in_the_file_is_looked_at_first) {
    const Life life(with_file(found(core::RunState::running), shim_state(shim::ShimPhase::ended, 101)));

    EXPECT_EQ(phase_of(life.watch()), "Checking");
    EXPECT_EQ(words_of(life.actions()), "look at end");
}

TEST(Watch, a_run_that_ran_before_the_machine_was_restarted_is_lost) {
    event::Found earlier = with_file(found(core::RunState::running), shim_state(shim::ShimPhase::running, 101));
    earlier.file->this_boot = false;
    const Life life(earlier);

    EXPECT_EQ(words_of(life.actions()), "submit LoseRun");
}

TEST(Watch, a_running_run_without_a_file_is_reaped) {
    EXPECT_EQ(phase_of(Life(found(core::RunState::running)).watch()), "Reaping");
}

TEST(Watch, a_run_that_is_to_stop_before_it_begins_is_cancelled) {
    event::Found to_stop = found();
    to_stop.stop = "enough";
    const Life life(to_stop);

    ASSERT_NE(submitted<core::CancelRun>(life), nullptr);
    EXPECT_EQ(submitted<core::CancelRun>(life)->reason, "enough");
}

TEST(Watch, a_shim_that_comes_to_a_run_that_is_to_stop_is_refused) {
    Life life = life_in("Ready");
    life.happens(event::StopRequested{"enough"});

    EXPECT_EQ(words_of(life.happens(greeted(shim::ShimPhase::waiting))), "admit; tell refused; submit CancelRun");
}

TEST(Watch, a_stop_that_the_shim_did_not_hear_is_said_again_when_it_comes_back) {
    Life life = life_in("Running");
    life.happens(event::StopRequested{"enough"});
    life.happens(event::ConnectionClosed{{.alive = true}});

    EXPECT_EQ(words_of(life.happens(greeted(shim::ShimPhase::running))), "admit; tell stop");
}

TEST(Watch, a_stop_that_comes_with_the_answer_to_the_start_is_passed_on) {
    Life life = life_in("Starting");

    EXPECT_EQ(words_of(life.happens(answer(RunCommandKind::start, core::RunStatus::done, "enough"))), "tell stop");
    EXPECT_EQ(words_of(life.happens(event::StopRequested{"enough"})), "-");
}

TEST(Watch, a_run_in_a_terminal_that_ends_before_its_launch_is_cancelled) {
    Life life(found_in_terminal(core::RunState::starting));
    life.happens(greeted(shim::ShimPhase::waiting));

    EXPECT_EQ(words_of(life.happens(event::ConnectionClosed{})), "submit CancelRun");
}

TEST(Watch, what_a_terminal_did_is_not_done_again_when_the_feed_says_it) {
    Life life = running_in_terminal();

    EXPECT_EQ(words_of(life.happens(event::HasPaused{})), "submit PauseRun");
    EXPECT_EQ(words_of(life.happens(event::StateChanged{core::RunState::paused})), "-");
    EXPECT_EQ(words_of(life.happens(event::HasResumed{})), "submit ResumeRun");
    EXPECT_EQ(words_of(life.happens(event::StateChanged{core::RunState::running})), "-");
    // This time a person paused it by a command.
    EXPECT_EQ(words_of(life.happens(event::StateChanged{core::RunState::paused})), "tell pause");
}

TEST(Watch, a_job_that_stands_still_in_its_terminal_may_be_silent_and_late) {
    Life life = running_in_terminal();
    life.happens(event::HasPaused{});

    EXPECT_EQ(words_of(life.happens(event::TimePassed{.shim = {.alive = true}}, 1000s)), "submit HeartbeatRun");
    EXPECT_EQ(words_of(life.happens(event::StopRequested{"enough"})), "tell stop; wake shim");
}

TEST(Watch, an_end_is_submitted_again_with_the_same_content_until_it_is_answered) {
    Life life = life_in("Checking");
    life.happens(event::TimePassed{});  // The first heartbeat.
    life.happens(event::EndLooked{.shim = ShimNow::alive});
    ASSERT_NE(submitted<core::FinishRun>(life), nullptr);
    const core::FinishRun first = *submitted<core::FinishRun>(life);

    life.happens(no_answer(RunCommandKind::end));
    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 100ms)), "-");
    life.happens(event::TimePassed{}, 100ms);

    ASSERT_NE(submitted<core::FinishRun>(life), nullptr);
    EXPECT_EQ(submitted<core::FinishRun>(life)->exit_code, first.exit_code);
    EXPECT_EQ(submitted<core::FinishRun>(life)->outcome, first.outcome);
    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 1s)), "-");
}

TEST(Watch, what_kept_a_place_is_looked_at_again_and_named_in_the_end) {
    Life life = life_in("Reaping");
    life.happens(event::TimePassed{});  // The first heartbeat.
    life.happens(event::LeftoversLooked{"process 12 (sh)"});

    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 1s)), "end leftovers, look for daemons");
    EXPECT_EQ(words_of(life.happens(event::LeftoversLooked{"process 12 (sh)"})), "look again");
    life.happens(event::LeftoversLooked{});

    ASSERT_NE(submitted<core::LoseRun>(life), nullptr);
    EXPECT_NE(submitted<core::LoseRun>(life)->reason.find("process 12 (sh)"), std::string::npos);
    EXPECT_EQ(words_of(life.actions()), "publish no keeper; submit LoseRun");
}

TEST(Watch, a_server_that_was_not_listening_does_not_count_that_as_silence) {
    Life life = life_in("Running");

    life.happens(event::TimePassed{.shim = {.alive = true}, .missed = 100s}, 90s);
    EXPECT_EQ(phase_of(life.watch()), "Running");
}

TEST(Watch, a_shim_of_an_earlier_release_needs_no_secret_if_the_run_is_as_old) {
    event::Found old = with_file(found(core::RunState::running), shim_state(shim::ShimPhase::running, 101));
    event::Greeted unproven = greeted(shim::ShimPhase::running);
    unproven.proof = Proof::none_issued;

    EXPECT_EQ(words_of(Life(old).happens(unproven)), "log shim_refused; show out");
    old.order.of_earlier_server = true;
    EXPECT_EQ(words_of(Life(old).happens(unproven)), "admit");
}

TEST(Watch, a_waiting_shim_of_an_earlier_release_is_told_what_to_do) {
    Life life = life_in("InLine");

    EXPECT_EQ(words_of(life.happens(without_secret(greeted(shim::ShimPhase::waiting), 1))),
              "log shim_refused; tell refused; show out");
}

TEST(Watch, before_the_launch_a_second_shim_is_believed_only_when_the_first_is_dead) {
    Life life(found_in_terminal(core::RunState::starting));
    life.happens(greeted(shim::ShimPhase::waiting));
    event::Greeted second = greeted(shim::ShimPhase::waiting, 200);

    second.known_shim_alive = true;
    EXPECT_EQ(words_of(life.happens(second)), "log shim_refused; show out");
    second.known_shim_alive = false;
    EXPECT_EQ(words_of(life.happens(second)), "admit; show out");
}

TEST(Watch, a_run_whose_place_has_changed_begins_in_the_new_one_after_another_look) {
    Life life = life_in("LookingAtPlace");
    life.happens(changed);
    ASSERT_NE(submitted<core::RestatePlaces>(life), nullptr);
    EXPECT_EQ(submitted<core::RestatePlaces>(life)->workspaces, changed.places);
    EXPECT_EQ(submitted<core::RestatePlaces>(life)->reason, changed.change);

    EXPECT_EQ(words_of(life.happens(answer(RunCommandKind::restate, core::RunStatus::done))), "look for room");
    ASSERT_EQ(life.watch().order.places.size(), 1u);
    EXPECT_EQ(life.watch().order.places.front().path, "/other");
    EXPECT_EQ(words_of(life.happens(event::RoomLooked{})), "look at place");
    EXPECT_EQ(words_of(life.happens(event::PlaceSeen{})), "prepare");
}

TEST(Watch, a_restatement_of_unknown_outcome_is_followed_by_another_look) {
    Life life = life_in("Restating");
    life.happens(no_answer(RunCommandKind::restate));

    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 100ms)), "-");
    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 100ms)), "look for room");
}

TEST(Watch, a_look_for_which_no_thread_was_free_is_made_later) {
    Life life = life_in("LookingAtPlace");
    life.happens(event::PlaceLater{});

    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 100ms)), "look at place");
    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 100ms)), "-");
}

TEST(Watch, a_run_in_a_terminal_whose_place_was_taken_waits_there_in_line_for_its_next_turn) {
    Life life(found_in_terminal(core::RunState::starting));
    life.happens(greeted(shim::ShimPhase::waiting));
    life.happens(event::RoomLooked{});
    life.happens(changed);
    life.happens(answer_in(core::RunState::queued, RunCommandKind::restate, core::RunStatus::done), 100s);

    EXPECT_EQ(phase_of(life.watch()), "InLine");
    EXPECT_EQ(words_of(life.actions()), "give up place; look at line");
    EXPECT_EQ(life.watch().order.fence, core::Fence());
    EXPECT_EQ(words_of(life.happens(event::BackInLine{})), "-") << "the feed says it too";
    EXPECT_EQ(words_of(life.happens(event::LineLooked{"1 ahead in line"})), "tell wait");

    event::Found again = found_in_terminal(core::RunState::starting);
    again.order.fence = core::Fence(2);
    EXPECT_EQ(words_of(life.happens(again)), "look for room");
    life.happens(event::RoomLooked{});
    life.happens(event::PlaceSeen{});
    EXPECT_EQ(words_of(life.happens(prepared)), "tell launch");
}

TEST(Watch, a_terminal_that_does_not_come_back_to_its_place_in_line_is_given_up) {
    Life life(found_in_terminal(core::RunState::starting));
    life.happens(event::BackInLine{}, 5s);

    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 9s)), "-");
    EXPECT_EQ(words_of(life.happens(event::TimePassed{}, 1s)), "submit CancelRun; forget");
}

TEST(Watch, only_a_shim_that_says_that_it_waits_is_killed_when_its_run_goes_back_in_line) {
    const auto waiting_of = [](const Life& life) {
        return std::get<action::DropShims>(life.actions().front()).waiting.pid;
    };
    const event::Found old = with_file(found(), shim_state(shim::ShimPhase::waiting));
    Life silent(old);
    silent.happens(event::BackInLine{});
    EXPECT_EQ(waiting_of(silent), 0);

    Life heard(old);
    heard.happens(greeted(shim::ShimPhase::waiting));
    heard.happens(event::BackInLine{});
    EXPECT_EQ(waiting_of(heard), 100);
}

TEST(Watch, the_directories_of_a_run_found_running_are_held_again) {
    const Life life(with_file(found(core::RunState::running), shim_state(shim::ShimPhase::running, 101)));

    EXPECT_EQ(words_of(life.actions()), "hold again");
    EXPECT_EQ(std::get<action::HoldAgain>(life.actions().front()).process, 101);
}

TEST(Watch, a_run_has_no_room_where_another_may_be_at_work_of_which_the_feed_has_not_said_that_it_is_over) {
    event::Found next = found();
    next.order.id = core::RunId(Id{1, 3});
    const Life waiting(next);
    const auto others = [](const std::string& phase) {
        return std::map<core::RunId, Watch>{{run, life_in(phase).watch()}};
    };

    for (const char* phase : {"LookingAtPlace", "Preparing", "Ready", "Launched", "Running", "Reaping", "Ending"}) {
        EXPECT_TRUE(others_have_room_in_places_of(waiting.watch(), others(phase))) << phase;
    }
    for (const char* phase : {"InLine", "HeldBack"}) {
        EXPECT_FALSE(others_have_room_in_places_of(waiting.watch(), others(phase))) << phase;
    }
    next.order.places = {place_at("/other")};
    EXPECT_FALSE(others_have_room_in_places_of(Life(next).watch(), others("Running")));
    EXPECT_FALSE(others_have_room_in_places_of(Life(found()).watch(), others("Running"))) << "it is the same run";
}

TEST(Watch, a_run_has_room_in_the_places_of_those_above_it_and_of_no_others) {
    const auto id = [](std::uint64_t low) { return core::RunId(Id{1, low}); };
    const auto life_of = [&](std::uint64_t low, std::uint64_t parent) {
        Watch watch = life_in("Running").watch();
        watch.order.id = id(low);
        if (parent != 0) watch.order.parent = id(parent);
        return watch;
    };
    const std::map<core::RunId, Watch> all{{id(3), life_of(3, 0)}, {id(4), life_of(4, 3)}};

    EXPECT_FALSE(others_have_room_in_places_of(life_of(5, 4), all));
    EXPECT_TRUE(others_have_room_in_places_of(life_of(5, 3), all)) << "a sibling has it";
    EXPECT_TRUE(others_have_room_in_places_of(life_of(5, 0), all)) << "they are strangers";
    EXPECT_FALSE(others_have_room_in_places_of(life_of(3, 0), std::map<core::RunId, Watch>{{id(4), life_of(4, 3)}}))
        << "its child has it";
}

TEST(Watch, the_end_of_a_run_that_the_core_had_given_up_frees_its_place_only_after_the_look) {
    Life life = life_in("Reaping");

    EXPECT_EQ(words_of(life.happens(event::RunIsOver{"lost"})), "-");
    life.happens(event::LeftoversLooked{});
    EXPECT_EQ(words_of(life.happens(answer(RunCommandKind::end, core::RunStatus::run_ended))),
              "look for remains; forget");
}

}  // namespace
}  // namespace interlock::supervisor::watch_test
