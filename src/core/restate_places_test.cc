// Directories that are not what they were when a run claimed them: who keeps which place, and who waits again.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/core_runs_support.h"
#include "core/limits.h"
#include "core/places.h"

namespace interlock::core {
namespace {

class RestatePlacesTest : public RunsTest {
 protected:
    RestatePlacesTest() { make_agent("ada"); }

    static Place directory(std::string path, std::vector<std::string> chain, ClaimMode mode = ClaimMode::write) {
        Place place = workspace(std::move(path), mode);
        place.chain = std::move(chain);
        return place;
    }
    AdmitRun launching(std::vector<Place> places, OnConflict on_conflict = OnConflict::refuse) {
        AdmitRun command = asking("ada", std::move(places), on_conflict);
        command.node = "here";
        command.process = ProcessSpec{};
        command.process->command = {"true"};
        return command;
    }
    RunReply restate(Owned owned, std::vector<Place> workspaces, std::string reason = "it was moved") {
        return apply(RestatePlaces{owned.run, owned.fence, std::move(workspaces), std::move(reason)});
    }
    Place place_of(RunId run, std::size_t number = 0) { return get<Run>(run).wanted.at(number); }
    std::string last_step(RunId run) {
        return find<RunStep>(KeyOf<RunStep>{run, get<Run>(run).steps}).value_or(RunStep{}).reason;
    }
};

// ---- a run that has not begun -------------------------------------------------------------------------------------

TEST_F(RestatePlacesTest, a_run_that_has_not_begun_takes_the_directory_that_is_there_now) {
    const Owned owned = admit(launching({directory("/q", {"1"}), resource("gpu")}));

    const RunReply reply = restate(owned, {directory("/q", {"2"})}, "it was made anew");

    EXPECT_EQ(reply.status, RunStatus::done);
    EXPECT_EQ(reply.state, RunState::starting);
    EXPECT_EQ(place_of(owned.run).chain, std::vector<std::string>{"2"});
    EXPECT_EQ(place_of(owned.run, 1), resource("gpu"));
    EXPECT_EQ(claims_of(owned.run), 2u);
    EXPECT_EQ(last_step(owned.run), "it was made anew");
    admit(asking("ada", {directory("/q.old", {"1"})}));
    EXPECT_EQ(apply(asking("ada", {directory("/mnt", {"2"})})).status, AdmitStatus::workspace_busy);
}

TEST_F(RestatePlacesTest, the_mode_of_a_claim_stays) {
    const Owned owned = admit(launching({directory("/q", {"1"}, ClaimMode::read)}));

    restate(owned, {directory("/r", {"2"}, ClaimMode::write)});

    admit(asking("ada", {directory("/r", {"2"}, ClaimMode::read)}));
}

TEST_F(RestatePlacesTest, a_run_whose_directory_is_anothers_by_now_goes_back_in_line_and_keeps_its_turn) {
    const Owned there = admit(asking("ada", {directory("/third", {"3"})}));
    const Owned moved = admit(launching({directory("/q", {"1"})}, OnConflict::queue));
    const RunId later = enqueue(launching({directory("/third", {"3"})}));

    const RunReply reply = restate(moved, {directory("/third", {"3"})}, "'/q' leads to '/third'");

    EXPECT_EQ(reply.status, RunStatus::done);
    EXPECT_EQ(reply.state, RunState::queued);
    EXPECT_EQ(get<Run>(moved.run).fence, Fence());
    EXPECT_EQ(claims_of(moved.run), 0u);
    EXPECT_EQ(last_step(moved.run), "'/q' leads to '/third'");
    EXPECT_EQ(heartbeat(moved).status, RunStatus::stale_fence);
    admit(asking("ada", {directory("/q", {"1"})}));

    finish(there);
    EXPECT_EQ(state_of(moved.run), RunState::starting) << "it came before the other";
    EXPECT_EQ(state_of(later), RunState::queued);
    EXPECT_GT(get<Run>(moved.run).fence, moved.fence);
    EXPECT_EQ(heartbeat(moved).status, RunStatus::stale_fence);
    EXPECT_EQ(start(owner_of(moved.run)).status, RunStatus::done);
}

TEST_F(RestatePlacesTest, a_directory_that_is_kept_for_a_run_ahead_in_line_is_not_taken) {
    const Owned there = admit(asking("ada", {directory("/a", {"1"})}));
    const RunId ahead = enqueue(launching({directory("/a", {"1"}), directory("/b", {"2"})}));
    const Owned moved = admit(launching({directory("/c", {"3"})}, OnConflict::queue));
    const Owned hasty = admit(launching({directory("/d", {"4"})}, OnConflict::refuse));

    EXPECT_EQ(restate(moved, {directory("/b", {"2"})}).state, RunState::queued);
    EXPECT_EQ(restate(hasty, {directory("/b", {"2"})}).state, RunState::failed);
    EXPECT_EQ(get<Run>(hasty.run).reason, "it was moved; " + to_text("run", ahead.value) +
                                              " of agent 'ada' is in the way, and the run asked not to wait");

    finish(there);
    EXPECT_EQ(state_of(ahead), RunState::starting);
    EXPECT_EQ(state_of(moved.run), RunState::queued);
}

TEST_F(RestatePlacesTest, a_run_that_goes_back_gives_back_its_money_and_is_counted_once) {
    PutBudget two = budget_of("two", {});
    two.metric = Metric::runs;
    two.limit_units = 2;
    put(two);
    put(budget_of("money", Money::nanos(100)));
    const Owned there = admit(asking("ada", {directory("/third", {"3"})}));
    AdmitRun command = launching({directory("/q", {"1"})}, OnConflict::queue);
    command.hold = usd(Money::nanos(60));
    const Owned moved = admit(command);
    EXPECT_EQ(apply(budget_of("money", Money::nanos(100))).held, 60);

    restate(moved, {directory("/third", {"3"})});

    EXPECT_EQ(apply(budget_of("money", Money::nanos(100))).held, 0);
    finish(there);
    EXPECT_EQ(state_of(moved.run), RunState::starting);
    EXPECT_EQ(apply(budget_of("money", Money::nanos(100))).held, 60);
    EXPECT_EQ(apply(two).settled, 2);
}

TEST_F(RestatePlacesTest, a_run_that_went_back_does_not_wait_for_longer_than_it_may) {
    admit(asking("ada", {directory("/third", {"3"})}));
    AdmitRun command = launching({directory("/q", {"1"})}, OnConflict::queue);
    command.queue_s = 60;
    command.retry = {.tries = 3, .backoff_s = 1, .backoff_max_s = 1};
    const Owned moved = admit(command);
    restate(moved, {directory("/third", {"3"})});

    now += seconds(60);
    apply(Tick{});

    EXPECT_EQ(state_of(moved.run), RunState::timed_out);
    const OrgRows all = rows();
    for (const auto& [id, run] : all.of<Run>()) EXPECT_NE(run.retry_of, moved.run) << "it has not run";
}

TEST_F(RestatePlacesTest, a_run_that_asked_not_to_wait_ends_and_says_which_directory_changed_and_who_has_it) {
    put(budget_of("money", Money::nanos(100)));
    const Owned there = admit(asking("ada", {directory("/third", {"3"})}));
    for (const OnConflict on_conflict : {OnConflict::refuse, OnConflict::isolate}) {
        AdmitRun command = launching({directory("/q", {"1"})}, on_conflict);
        command.isolate_into = directory("/elsewhere", {"4"});
        command.retry = {.tries = 3, .backoff_s = 1, .backoff_max_s = 1};
        command.hold = usd(Money::nanos(60));
        const Owned moved = admit(command);

        const RunReply reply = restate(moved, {directory("/third", {"3"})}, "'/q' leads to '/third' by now");

        EXPECT_EQ(reply.status, RunStatus::done);
        EXPECT_EQ(reply.state, RunState::failed);
        EXPECT_EQ(reply.detail, "'/q' leads to '/third' by now; " + to_text("run", there.run.value) +
                                    " of agent 'ada' is in the way, and the run asked not to wait");
        EXPECT_EQ(get<Run>(moved.run).reason, reply.detail);
        EXPECT_EQ(claims_of(moved.run), 0u);
        EXPECT_EQ(apply(budget_of("money", Money::nanos(100))).held, 0);
        EXPECT_EQ(finish(moved).status, RunStatus::stale_fence);
        const OrgRows all = rows();
        for (const auto& [id, run] : all.of<Run>()) EXPECT_NE(run.retry_of, moved.run) << "it has not run";
    }
}

TEST_F(RestatePlacesTest, a_run_that_replaces_others_waits_for_a_directory_that_it_did_not_name) {
    const Owned there = admit(asking("ada", {directory("/third", {"3"})}));
    const Owned moved = admit(launching({directory("/q", {"1"})}, OnConflict::replace));

    EXPECT_EQ(restate(moved, {directory("/third", {"3"})}).state, RunState::queued);

    EXPECT_EQ(get<Run>(there.run).stop_requested, "");
}

TEST_F(RestatePlacesTest, a_further_try_waits_also_if_the_first_one_asked_not_to) {
    admit(asking("ada", {directory("/third", {"3"})}));
    AdmitRun command = launching({directory("/q", {"1"})}, OnConflict::refuse);
    command.retry = {.tries = 2, .backoff_s = 0, .backoff_max_s = 0};
    const Owned first = admit(command);
    start(first);
    finish(first, RunState::failed);
    RunId second;
    const OrgRows all = rows();
    for (const auto& [id, run] : all.of<Run>()) {
        if (run.retry_of == first.run) second = run.id;
    }
    now += seconds(1);
    apply(Tick{});
    ASSERT_EQ(state_of(second), RunState::starting);

    EXPECT_EQ(restate(owner_of(second), {directory("/third", {"3"})}).state, RunState::queued);
}

TEST_F(RestatePlacesTest, a_run_that_was_admitted_by_an_agents_key_gets_nothing_outside_of_its_roots) {
    PutAgent agent{.name = "bob", .command = {}, .max_concurrent_runs = 9, .tags = {}};
    agent.process.directory = "/srv/bob";
    apply(agent);
    AdmitRun command = launching({directory("/srv/bob", {"1"})});
    command.who.agent = "bob";
    command.who.api_key = "k1";
    command.retry = {.tries = 3, .backoff_s = 1, .backoff_max_s = 1};
    command.by = {.kind = ActorKind::key, .key = "k1", .agent = "bob"};
    const Owned inside = admit(command);
    EXPECT_EQ(restate(inside, {directory("/srv/bob/x", {"2", "1"})}).state, RunState::starting);

    const RunReply reply = restate(inside, {directory("/etc", {"9"})}, "'/srv/bob' leads to '/etc'");

    EXPECT_EQ(reply.state, RunState::failed);
    EXPECT_TRUE(reply.detail.starts_with("'/srv/bob' leads to '/etc': '/etc' is outside the")) << reply.detail;
    EXPECT_EQ(get<Run>(inside.run).reason, reply.detail);
}

// ---- a run at work ------------------------------------------------------------------------------------------------

TEST_F(RestatePlacesTest, a_run_at_work_keeps_its_place_and_what_contains_it_now_is_taken_too) {
    const Owned owned = admit(launching({directory("/a/x", {"x", "a", "root"})}));
    start(owned);

    const RunReply reply = restate(owned, {directory("/other/x", {"x", "other", "root"})});

    EXPECT_EQ(reply.status, RunStatus::done);
    EXPECT_EQ(reply.state, RunState::running);
    EXPECT_EQ(place_of(owned.run), directory("/a/x", {"x", "other", "root", "a"}));
    for (const Place& taken : {directory("/other", {"other", "root"}), directory("/other/x", {"x", "other", "root"}),
                               directory("/a", {"a", "root"}), directory("/a/x", {"new", "a", "root"})}) {
        EXPECT_EQ(apply(asking("ada", {taken})).status, AdmitStatus::workspace_busy) << taken.path;
    }
    admit(asking("ada", {directory("/other/y", {"y", "other", "root"})}));
    EXPECT_EQ(restate(owned, {directory("/other/x", {"x", "other", "root"})}).status, RunStatus::done);
    EXPECT_EQ(get<Run>(owned.run).steps, 3) << "the second time nothing has changed";
}

TEST_F(RestatePlacesTest, a_run_that_its_client_owns_is_at_work_as_soon_as_it_is_admitted) {
    const Owned owned = admit(asking("ada", {directory("/a/x", {"x", "a"})}));
    const Owned there = admit(launching({directory("/other", {"other"})}, OnConflict::queue));

    EXPECT_EQ(restate(owned, {directory("/other/x", {"x", "other"})}).state, RunState::starting);

    EXPECT_EQ(state_of(there.run), RunState::queued) << "it has not begun, and would begin where another run works";
    EXPECT_EQ(place_of(owned.run).path, "/a/x");
    finish(owned);
    EXPECT_EQ(state_of(there.run), RunState::starting);
}

TEST_F(RestatePlacesTest, a_run_that_asked_not_to_wait_ends_where_a_run_at_work_was_moved_into_its_directory) {
    const Owned owned = admit(asking("ada", {directory("/a/x", {"x", "a"})}));
    const Owned there = admit(launching({directory("/other", {"other"})}, OnConflict::refuse));

    restate(owned, {directory("/other/x", {"x", "other"})}, "'/a/x' was moved");

    const std::string mover = to_text("run", owned.run.value);
    EXPECT_EQ(state_of(there.run), RunState::failed);
    EXPECT_EQ(get<Run>(there.run).reason, mover + " is in its place: '/a/x' was moved; " + mover +
                                              " of agent 'ada' is in the way, and the run asked not to wait");
    EXPECT_EQ(get<Run>(owned.run).wanted.front().chain.size(), 3u) << "it claims what contains it now";
}

TEST_F(RestatePlacesTest, where_two_are_at_work_the_one_that_was_moved_is_asked_to_stop) {
    const Owned there = admit(launching({directory("/other", {"other"})}));
    start(there);
    const Owned moved = admit(launching({directory("/a/x", {"x", "a"})}));
    start(moved);

    const RunReply reply = restate(moved, {directory("/other/x", {"x", "other"})}, "'/a/x' was moved");

    EXPECT_EQ(reply.status, RunStatus::done);
    EXPECT_EQ(reply.state, RunState::running);
    EXPECT_EQ(reply.stop_requested, "'/a/x' was moved, where " + to_text("run", there.run.value) + " works");
    EXPECT_EQ(get<Run>(there.run).stop_requested, "");
    EXPECT_EQ(place_of(moved.run), directory("/a/x", {"x", "a"})) << "no place is claimed twice";
    finish(there);
    EXPECT_EQ(restate(moved, {directory("/other/x", {"x", "other"})}).status, RunStatus::done);
    EXPECT_EQ(place_of(moved.run).chain.size(), 3u) << "while it stops, no other run begins where it is";
}

TEST_F(RestatePlacesTest, two_that_only_read_may_meet) {
    const Owned there = admit(launching({directory("/other", {"other"}, ClaimMode::read)}));
    start(there);
    const Owned moved = admit(launching({directory("/a/x", {"x", "a"}, ClaimMode::read)}));
    start(moved);

    EXPECT_EQ(restate(moved, {directory("/other/x", {"x", "other"})}).stop_requested, "");
    EXPECT_EQ(get<Run>(moved.run).wanted.front().chain.size(), 3u);
}

TEST_F(RestatePlacesTest, a_directory_that_is_moved_without_end_forgets_what_contained_it_long_ago) {
    const Owned owned = admit(launching({directory("/a/x", {"x", "a"})}));
    start(owned);

    for (std::size_t i = 0; i <= limits::place_depth_max; ++i) {
        EXPECT_EQ(restate(owned, {directory("/b/x", {"x", std::to_string(i)})}).status, RunStatus::done);
    }

    const std::vector<std::string> chain = place_of(owned.run).chain;
    EXPECT_EQ(chain.size(), limits::place_depth_max);
    EXPECT_EQ(chain.front(), "x");
    EXPECT_EQ(chain.at(1), std::to_string(limits::place_depth_max));
}

// ---- refusals -----------------------------------------------------------------------------------------------------

TEST_F(RestatePlacesTest, refusals_come_in_the_order_of_their_enum) {
    const Place here = directory("/q", {"1"});
    EXPECT_EQ(restate({fresh_run(), {}}, {directory("", {})}).status, RunStatus::invalid_request);
    EXPECT_EQ(restate({fresh_run(), {}}, {here}, "a\nb").status, RunStatus::invalid_request);
    EXPECT_EQ(restate({fresh_run(), Fence(1)}, {here}).status, RunStatus::run_not_found);

    const Owned owned = admit(launching({here}));
    EXPECT_EQ(restate({owned.run, Fence(owned.fence.value + 1)}, {}).status, RunStatus::stale_fence);
    EXPECT_EQ(restate(owned, {}).status, RunStatus::invalid_request);
    EXPECT_EQ(restate(owned, {here, directory("/r", {"2"})}).status, RunStatus::invalid_request);
    const RunId waits = enqueue(launching({here}));
    EXPECT_EQ(restate({waits, {}}, {directory("/r", {"2"})}).status, RunStatus::stale_fence);
    EXPECT_EQ(restate(owned, {here}).status, RunStatus::done) << "nothing has changed";
    EXPECT_EQ(get<Run>(owned.run).steps, 1);
    ask_to_stop(owned.run);
    EXPECT_EQ(restate(owned, {directory("/r", {"2"})}).status, RunStatus::wrong_state);
    finish(owned);
    EXPECT_EQ(restate(owned, {directory("/r", {"2"})}).status, RunStatus::run_ended);
}

}  // namespace
}  // namespace interlock::core
