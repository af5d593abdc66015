#include "supervisor/held_places.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "supervisor/place_check.h"

namespace interlock::supervisor {
namespace {

namespace fs = std::filesystem;
using core::ClaimMode;
using core::Fence;
using core::RunId;

class HeldPlacesTest : public testing::Test {
 protected:
    HeldPlacesTest() {
        std::string name = fs::canonical(testing::TempDir()).string() + "/held_XXXXXX";
        EXPECT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
    }
    ~HeldPlacesTest() override {
        for (std::thread& thread : threads_) thread.join();
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }

    std::string at(const std::string& path) const { return root_ + "/" + path; }
    std::string made(const std::string& path) const {
        fs::create_directories(at(path));
        return at(path);
    }
    static OpenPlace opened(const std::string& path) { return open_workspace(path, ClaimMode::write, "here").value(); }
    static core::Place claim(const std::string& path) { return opened(path).place; }

    void hold(std::uint64_t run, const std::string& path) {
        auto check = check_places(RunId(Id{0, run}), {claim(path)}).value();
        EXPECT_EQ(check.change, "");
        held_.expect(RunId(Id{0, run}), Fence(1), HeldPlaces::Its::turn);
        held_.hold(RunId(Id{0, run}), Fence(1), std::move(check.places), std::move(check.mounts));
    }
    // What was restated by one look.
    std::vector<core::RestatePlaces> followed() {
        restated_.clear();
        held_.follow();
        return restated_;
    }

    std::string root_;
    std::vector<std::thread> threads_;
    std::vector<core::RestatePlaces> restated_;
    int looks_ = 0;
    bool answers_ = true;
    bool hangs_ = false;
    core::RunReply reply_;
    HeldPlaces held_{{.restate = [this](core::RestatePlaces command) -> std::optional<core::RunReply> {
                          restated_.push_back(std::move(command));
                          return answers_ ? std::optional(reply_) : std::nullopt;
                      },
                      .elsewhere =
                          [this](std::function<void()> work) {
                              ++looks_;
                              if (hangs_) return true;
                              threads_.emplace_back(std::move(work));
                              return true;
                          }}};
};

TEST_F(HeldPlacesTest, what_was_not_moved_is_not_restated_and_not_looked_at) {
    hold(1, made("a/x"));
    hold(2, made("a/y"));

    EXPECT_TRUE(followed().empty());
    EXPECT_EQ(looks_, 0);
}

TEST_F(HeldPlacesTest, a_directory_that_was_moved_is_restated_once_with_what_it_is_in_now) {
    hold(1, made("a/x"));
    hold(2, made("a/y"));
    made("other");
    fs::rename(at("a/x"), at("other/x"));

    const auto restated = followed();

    ASSERT_EQ(restated.size(), 1u);
    EXPECT_EQ(restated.front().run, RunId(Id{0, 1}));
    EXPECT_EQ(restated.front().fence, Fence(1));
    EXPECT_EQ(restated.front().reason, "'" + at("a/x") + "' was moved to '" + at("other/x") + "'");
    ASSERT_EQ(restated.front().workspaces.size(), 1u);
    EXPECT_EQ(restated.front().workspaces.front(), claim(at("other/x")));
    EXPECT_TRUE(followed().empty());
    fs::rename(at("other/x"), at("a/x"));
    EXPECT_TRUE(followed().empty()) << "where it was is claimed still";
    made("third");
    fs::rename(at("a/x"), at("third/x"));
    EXPECT_EQ(followed().size(), 1u) << "it is followed from wherever it is";
}

TEST_F(HeldPlacesTest, a_parent_that_was_moved_moves_what_is_in_it) {
    hold(1, made("top/mid/x"));
    made("elsewhere");
    fs::rename(at("top/mid"), at("elsewhere/mid"));

    const auto restated = followed();

    ASSERT_EQ(restated.size(), 1u);
    EXPECT_EQ(restated.front().workspaces.front().path, at("elsewhere/mid/x"));
}

TEST_F(HeldPlacesTest, a_parent_that_was_made_anew_around_it_is_noticed_although_no_path_has_changed) {
    hold(1, made("top/x"));
    fs::rename(at("top"), at("old"));
    made("top");
    fs::rename(at("old/x"), at("top/x"));

    const auto restated = followed();

    ASSERT_EQ(restated.size(), 1u);
    EXPECT_EQ(restated.front().workspaces.front(), claim(at("top/x")));
    EXPECT_EQ(restated.front().reason, "the directories that '" + at("top/x") + "' lies in have changed");
}

TEST_F(HeldPlacesTest, one_that_was_swapped_is_followed_and_not_what_has_its_name) {
    hold(1, made("q"));
    made("third");
    made("into");
    fs::rename(at("q"), at("into/q.old"));
    fs::create_directory_symlink(at("third"), at("q"));

    const auto restated = followed();

    ASSERT_EQ(restated.size(), 1u);
    EXPECT_EQ(restated.front().workspaces.front().path, at("into/q.old"));
}

TEST_F(HeldPlacesTest, one_that_was_removed_stays_claimed_and_its_identity_is_not_given_away) {
    hold(1, made("gone"));
    const std::string identity = claim(at("gone")).chain.front();
    fs::remove(at("gone"));

    EXPECT_TRUE(followed().empty());
    for (int i = 0; i < 50; ++i) EXPECT_NE(claim(made("new" + std::to_string(i))).chain.front(), identity);
}

TEST_F(HeldPlacesTest, what_the_core_did_not_take_is_said_again) {
    hold(1, made("a/x"));
    made("b");
    fs::rename(at("a/x"), at("b/x"));

    answers_ = false;
    EXPECT_EQ(followed().size(), 1u);
    answers_ = true;
    reply_.stop_requested = "'a/x' was moved, where another run works";
    EXPECT_EQ(followed().size(), 1u);
    reply_.stop_requested = "";
    EXPECT_EQ(followed().size(), 1u);
    EXPECT_TRUE(followed().empty());
}

TEST_F(HeldPlacesTest, a_run_that_was_given_up_is_not_followed) {
    hold(1, made("a/x"));
    made("b");
    held_.give_up(RunId(Id{0, 1}));
    fs::rename(at("a/x"), at("b/x"));

    EXPECT_TRUE(followed().empty());
    EXPECT_EQ(held_.size(), 0u);
    held_.hold(RunId(Id{0, 1}), Fence(1), {}, {});
    EXPECT_EQ(held_.size(), 0u) << "what was looked at for a run that is over by now is not held";
    held_.expect(RunId(Id{0, 1}), Fence(2), HeldPlaces::Its::turn);
    std::vector<OpenPlace> places;
    places.push_back(opened(at("b/x")));
    held_.hold(RunId(Id{0, 1}), Fence(1), std::move(places), {});
    EXPECT_TRUE(followed().empty());
    EXPECT_EQ(looks_, 0) << "nor for its former turn";
}

TEST_F(HeldPlacesTest, a_look_that_does_not_come_back_holds_others_up_once) {
    hold(1, made("a/x"));
    made("b");
    fs::rename(at("a/x"), at("b/x"));
    hangs_ = true;

    EXPECT_TRUE(followed().empty());
    const auto before = std::chrono::steady_clock::now();
    EXPECT_TRUE(followed().empty());

    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
    EXPECT_EQ(looks_, 1);
}

TEST_F(HeldPlacesTest, the_run_of_a_client_is_looked_at_by_its_path_and_restated_before_it_is_held) {
    core::Run run;
    run.id = RunId(Id{0, 1});
    run.fence = Fence(7);
    run.wanted = {claim(made("q"))};
    run.wanted.front().host = this_host();
    fs::remove(at("q"));
    made("fill");
    made("q");

    held_.take_up(run);

    ASSERT_EQ(restated_.size(), 1u);
    EXPECT_EQ(restated_.front().fence, Fence(7));
    EXPECT_EQ(restated_.front().workspaces.front().chain, claim(at("q")).chain);
    made("b");
    fs::rename(at("q"), at("b/q"));
    EXPECT_EQ(followed().size(), 1u);

    restated_.clear();
    held_.take_up(run);
    EXPECT_TRUE(restated_.empty()) << "it is held already";
    run.wanted.front().host = "another";
    run.id = RunId(Id{0, 2});
    held_.take_up(run);
    EXPECT_TRUE(restated_.empty()) << "its directory is on another machine";
}

TEST_F(HeldPlacesTest, what_is_to_be_admitted_waits_for_the_places_of_runs_at_work) {
    const RunId run(Id{0, 1});
    held_.expect(run, Fence(1), HeldPlaces::Its::work);
    held_.all_are_expected();
    core::Place claimed = claim(made("a/x"));
    made("b");
    fs::rename(at("a/x"), at("b/x"));
    threads_.emplace_back([&, here = at("b/x")] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::vector<OpenPlace> places;
        places.push_back(opened(here));
        places.front().place = claimed;
        held_.hold(run, Fence(1), std::move(places), {});
    });

    held_.settle();

    EXPECT_EQ(restated_.size(), 1u);
}

TEST_F(HeldPlacesTest, a_run_at_work_that_is_never_held_holds_others_up_once) {
    held_.expect(RunId(Id{0, 1}), Fence(1), HeldPlaces::Its::work);
    held_.settle();
    const auto before = std::chrono::steady_clock::now();

    held_.settle();

    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
}

// ---- before a run begins ------------------------------------------------------------------------------------------

class PlaceCheckTest : public HeldPlacesTest {
 protected:
    static constexpr RunId run{Id{0, 9}};
    static PlaceCheck checked(const core::Place& claimed) { return check_places(run, {claimed}).value(); }
};

TEST_F(PlaceCheckTest, a_directory_that_is_what_was_claimed_is_opened) {
    const core::Place claimed = claim(made("q"));

    const PlaceCheck check = checked(claimed);

    EXPECT_EQ(check.change, "");
    ASSERT_EQ(check.places.size(), 1u);
    EXPECT_EQ(identity_of(check.places.front().directory), claimed.chain.front());
}

TEST_F(PlaceCheckTest, each_kind_of_change_is_named) {
    const core::Place q = claim(made("q"));
    const core::Place deep = claim(made("top/deep"));
    const core::Place link = claim(made("linked"));
    made("third");
    fs::rename(at("q"), at("q.old"));
    made("q");
    fs::rename(at("top"), at("top.old"));
    made("top");
    fs::rename(at("top.old/deep"), at("top/deep"));
    fs::remove(at("linked"));
    fs::create_directory_symlink(at("third"), at("linked"));

    EXPECT_EQ(checked(q).change, "'" + at("q") + "' is another directory than the one that was claimed");
    EXPECT_EQ(checked(deep).change, "'" + at("top/deep") + "' lies in other directories than when it was claimed");
    EXPECT_EQ(checked(link).change, "'" + at("linked") + "' leads to '" + at("third") + "' by now");
    EXPECT_EQ(checked(link).places.front().place, claim(at("third")));
}

TEST_F(PlaceCheckTest, what_is_gone_is_an_error_that_names_it) {
    const core::Place claimed = claim(made("q"));
    fs::remove(at("q"));

    const auto check = check_places(run, {claimed});

    ASSERT_FALSE(check);
    EXPECT_EQ(check.error().detail,
              "workspace \"" + at("q") + "\": there is no such directory; create it or correct the path");
}

TEST_F(PlaceCheckTest, resources_and_the_worktree_that_is_not_made_yet_are_left_out) {
    core::Place worktree = claim(root_);
    worktree.path += "/worktree";
    worktree.chain.insert(worktree.chain.begin(), to_text("run", run.value));

    const auto check = check_places(run, {worktree, named_resource("gpu", ClaimMode::write)});

    ASSERT_TRUE(check);
    EXPECT_TRUE(check->places.empty());
}

TEST_F(PlaceCheckTest, a_repository_that_is_a_link_by_now_is_not_the_one_that_was_asked_for) {
    made("repo");
    made("theirs");
    EXPECT_EQ(moved_repository(at("repo")), "");
    EXPECT_EQ(moved_repository(""), "");
    fs::rename(at("repo"), at("repo.old"));
    fs::create_directory_symlink(at("theirs"), at("repo"));

    EXPECT_EQ(moved_repository(at("repo")), "'" + at("repo") + "' leads to '" + at("theirs") + "' by now");
    EXPECT_NE(moved_repository(at("nothing")), "");
}

TEST_F(PlaceCheckTest, what_a_run_had_open_before_is_found_by_its_path_or_by_its_process) {
    const core::Place x = claim(made("a/x"));
    const core::Place gone = claim(made("gone"));
    fs::remove(at("gone"));
    made("b");
    fs::rename(at("a/x"), at("b/x"));
    const fs::path before = fs::current_path();
    fs::current_path(at("b/x"));

    const auto found = reopen_places(run, {x, named_resource("gpu", ClaimMode::write), gone}, getpid());
    fs::current_path(before);

    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].place, x) << "so that the move is noticed";
    EXPECT_EQ(path_of(found[0].directory), at("b/x"));
    EXPECT_FALSE(found[1].directory);
    EXPECT_EQ(found[1].place, gone);
}

}  // namespace
}  // namespace interlock::supervisor
