#include "server/self_check.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace interlock::server {
namespace {

using namespace std::chrono_literals;
using enum api::FindingLevel;

class SelfLookTest : public testing::Test {
 protected:
    api::SelfFinding look(const std::string& what) {
        const auto all = run_self_check(facts);
        const auto found = std::ranges::find(all, what, &api::SelfFinding::what);
        EXPECT_NE(found, all.end()) << what;
        return found == all.end() ? api::SelfFinding() : *found;
    }
    api::UpstreamFacts& add_upstream(const std::string& name) {
        facts.upstreams.emplace_back();
        facts.upstreams.back().name = name;
        return facts.upstreams.back();
    }

    // 2026-11-15T12:00:00Z
    SelfFacts facts{.version = "0.1.0",
                    .data_dir = "/",
                    .now = from_micros(std::int64_t{1'794'744'000} * 1'000'000),
                    .wall_clock = from_micros(std::int64_t{1'794'744'000} * 1'000'000),
                    .started_at = from_micros(std::int64_t{1'794'740'000} * 1'000'000),
                    .not_ready = {},
                    .engine = {},
                    .price_list = "0.1.8",
                    .price_list_date = "2026-11-01",
                    .upstreams = {},
                    .last_verify = {},
                    .memory_pressure = 1.5,
                    .memory_pressure_max = 40,
                    .sandbox = {},
                    .nodes = {}};
};

TEST_F(SelfLookTest, a_new_server_is_well) {
    for (const auto& finding : run_self_check(facts)) {
        if (finding.what == "disk space" || finding.what == "open files") continue;  // Of the machine.
        EXPECT_EQ(finding.level, ok) << finding.what << ": " << finding.detail;
        EXPECT_EQ(finding.advice, "") << finding.what;
    }
}

TEST_F(SelfLookTest, a_run_that_keeps_its_place_is_named_with_the_process_for_which_it_does) {
    facts.kept_places["run_1"] = "process 12 (sh): its working directory is /src";

    EXPECT_EQ(look("place").level, warn);
    EXPECT_EQ(look("place").detail, "run_1 keeps its workspace: process 12 (sh): its working directory is /src");
}

TEST_F(SelfLookTest, a_time_that_is_not_the_machines_is_told) {
    facts.wall_clock = facts.now - std::chrono::seconds(59);
    EXPECT_EQ(look("clock").level, ok);

    facts.wall_clock = facts.now - std::chrono::days(15);
    EXPECT_EQ(look("clock").level, warn);
    EXPECT_EQ(look("clock").detail, "the server's time is 1296000 s ahead of this machine's clock");

    facts.wall_clock = facts.now + std::chrono::minutes(2);
    EXPECT_EQ(look("clock").detail, "the server's time is 120 s behind this machine's clock");
}

TEST_F(SelfLookTest, a_store_that_does_not_answer_fails_and_commits_that_failed_are_told) {
    facts.engine.failed_commits = 2;
    facts.engine.last_failure = "disk full";
    EXPECT_EQ(look("store").level, warn);
    EXPECT_EQ(look("store").detail, "2 commits have failed, the last: disk full");

    facts.not_ready = "the store cannot be read";
    EXPECT_EQ(look("store").level, fail);
}

TEST_F(SelfLookTest, a_broken_promise_fails_and_one_that_nobody_has_looked_at_for_long_warns) {
    facts.last_verify = {.at = facts.now - 1h, .report = R"({"violations":0})"};
    EXPECT_EQ(look("promises").level, ok);

    facts.last_verify.report = R"({"violations":3})";
    EXPECT_EQ(look("promises").level, fail);

    facts.last_verify = {};
    facts.started_at = facts.now - std::chrono::days(8);
    EXPECT_EQ(look("promises").level, warn);
    EXPECT_EQ(look("promises").advice, "interlock verify");
}

TEST_F(SelfLookTest, an_old_price_list_warns) {
    facts.price_list_date = "2026-05-01";

    EXPECT_EQ(look("price list").level, warn);
    EXPECT_EQ(look("price list").detail, "0.1.8 of 2026-05-01, 198 days old");
}

TEST_F(SelfLookTest, an_upstream_without_its_key_fails_and_one_that_is_switched_off_is_not_looked_at) {
    add_upstream("good").state = api::UpstreamState::healthy;
    EXPECT_EQ(look("upstreams").level, ok);

    add_upstream("bad").state = api::UpstreamState::cooling;
    EXPECT_EQ(look("upstreams").detail, "failing: bad");
    EXPECT_EQ(look("upstreams").level, warn);

    add_upstream("keyless").key_found = false;
    EXPECT_EQ(look("upstreams").level, fail);
    EXPECT_EQ(look("upstreams").detail, "no key found for keyless");

    for (api::UpstreamFacts& upstream : facts.upstreams) upstream.enabled = upstream.name == "good";
    EXPECT_EQ(look("upstreams").level, ok);
}

TEST_F(SelfLookTest, memory_that_keeps_runs_from_starting_warns) {
    facts.memory_pressure = 55;
    EXPECT_EQ(look("memory").level, warn);

    facts.memory_pressure_max = 0;
    EXPECT_EQ(look("memory").level, ok) << "nobody minds";
}

TEST_F(SelfLookTest, nodes_of_other_versions_warn_while_they_are_there) {
    facts.nodes.emplace_back();
    facts.nodes[0].name = "b";
    facts.nodes[0].version = "0.0.9";
    EXPECT_EQ(look("version").level, ok);

    facts.nodes[0].alive = true;
    EXPECT_EQ(look("version").detail, "0.1.0, but b has 0.0.9");
    EXPECT_EQ(look("version").level, warn);
}

}  // namespace
}  // namespace interlock::server
