#include "api/incidents.h"

#include <gtest/gtest.h>

namespace interlock::api {
namespace {

using namespace std::chrono_literals;
using enum IncidentKind;
using enum IncidentLevel;

constexpr Instant noon = from_micros(std::int64_t{1'763'208'000} * 1'000'000);

Incident incident(IncidentLevel level, IncidentKind kind, std::string subject, std::int64_t count = 1,
                  Instant since = far_past) {
    return {.kind = kind,
            .level = level,
            .subject = std::move(subject),
            .title = {},
            .detail = {},
            .since = since,
            .command = {},
            .count = count};
}

std::vector<std::string> subjects(const std::vector<Incident>& incidents) {
    std::vector<std::string> names;
    for (const Incident& each : incidents) names.push_back(each.subject);
    return names;
}

TEST(IncidentsTest, the_worst_come_first) {
    std::vector<Incident> all{
        incident(note, agent_paused, "paused"),
        incident(warn, models_unpriced, "model"),
        incident(warn, runs_failed, "few", 2, noon),
        incident(warn, runs_failed, "many", 9, noon + 1min),
        incident(stop, budget_exhausted, "b"),
        incident(stop, budget_exhausted, "a"),
        incident(stop, promise_broken, "P1"),
        incident(warn, run_waiting, "late", 1, noon),
        incident(warn, run_waiting, "early", 1, noon - 1h),
        incident(warn, run_waiting, "some time", 1),
    };

    sort_worst_first(all);

    EXPECT_EQ(subjects(all), (std::vector<std::string>{"P1", "a", "b", "many", "few", "early", "late", "some time",
                                                       "model", "paused"}));
}

TEST(IncidentsTest, failed_runs_are_told_once_for_each_agent) {
    const auto found = failed_runs({{"coder", "failed", noon, "exit status 2"},
                                    {"coder", "lost", noon + 1h, "its node is gone"},
                                    {"coder", "failed", noon - 1h, "exit status 1"},
                                    {"tester", "timed_out", noon, ""}});

    ASSERT_EQ(subjects(found), (std::vector<std::string>{"coder", "tester"}));
    EXPECT_EQ(found[0].title, "3 runs of 'coder' failed within a day");
    EXPECT_EQ(found[0].detail, "2 failed, 1 lost; the last: its node is gone");
    EXPECT_EQ(found[0].count, 3);
    EXPECT_EQ(found[0].since, noon - 1h);
    EXPECT_EQ(found[0].command, "interlock runs ls --agent coder --status failed,timed_out,lost");
    EXPECT_EQ(found[1].title, "1 run of 'tester' failed within a day");
    EXPECT_EQ(found[1].detail, "1 timed out");
}

TEST(IncidentsTest, only_promises_that_are_broken_are_told) {
    EXPECT_TRUE(broken_promises({}).empty()) << "nobody has looked yet";

    const auto found = broken_promises(
        {.at = noon, .report = R"({"ok":false,"promises":[{"id":"M1","title":"money adds up","violations":2},
                                              {"id":"S1","title":"no gaps","violations":0}]})"});

    ASSERT_EQ(subjects(found), std::vector<std::string>{"M1"});
    EXPECT_EQ(found[0].level, stop);
    EXPECT_EQ(found[0].title, "guarantee M1 is violated: money adds up");
    EXPECT_EQ(found[0].count, 2);
    EXPECT_EQ(found[0].since, noon);
}

TEST(IncidentsTest, an_upstream_that_nobody_uses_or_that_is_switched_off_is_no_incident) {
    UpstreamFacts upstream;
    upstream.name = "up";
    upstream.failures_in_a_row = 3;
    upstream.last_error = "answered 500";
    upstream.state = UpstreamState::idle;
    EXPECT_TRUE(failing_upstreams({upstream}).empty());

    upstream.state = UpstreamState::cooling;
    ASSERT_EQ(failing_upstreams({upstream}).size(), 1u);
    EXPECT_EQ(failing_upstreams({upstream})[0].kind, upstream_cooling);
    EXPECT_EQ(failing_upstreams({upstream})[0].detail, "3 failures in a row, the last: answered 500");
    upstream.state = UpstreamState::failing;
    EXPECT_EQ(failing_upstreams({upstream})[0].level, note);

    upstream.enabled = false;
    EXPECT_TRUE(failing_upstreams({upstream}).empty());
}

}  // namespace
}  // namespace interlock::api
