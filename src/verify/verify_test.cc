#include "verify/verify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "verify/claims.h"
#include "verify/world_for_test.h"

namespace interlock::verify {
namespace {

std::string all_findings(const Report& report) {
    std::string text;
    for (const PromiseReport& promise : report.promises) {
        for (const Finding& finding : promise.examples)
            text += fmt::format("{} {}\n    {}\n", promise.id, finding.row, finding.what);
    }
    return text;
}

// ---- what is right ------------------------------------------------------------------------------------------------

TEST(Verify, a_store_in_which_every_number_is_right_has_no_findings) {
    World world;

    const Report report = world.verify();

    EXPECT_EQ(report.violations(), 0) << all_findings(report);
    EXPECT_TRUE(report.repairs.empty());
    EXPECT_EQ(report.orgs, 1);
    EXPECT_EQ(report.cost_events, 3);
    for (const PromiseReport& promise : report.promises) {
        if (promise.promise == Promise::sealed_rows) continue;  // The rows of this org were written without seals.
        EXPECT_GT(promise.checked, 0) << promise.id;
    }
}

TEST(Verify, an_empty_store_has_no_findings) {
    World world;
    for (const char* table :
         {"orgs",      "agents",  "agent_totals", "caps",        "budgets",   "budget_windows", "sessions",
          "messages",  "runs",    "claims",       "holds",       "ledger",    "ledger_details", "rollups",
          "schedules", "answers", "feed_pages",   "spend_marks", "run_steps", "ticks"}) {
        world.sql(fmt::format("delete from {}", table));
    }

    const Report report = world.verify();

    EXPECT_EQ(report.violations(), 0) << all_findings(report);
    EXPECT_EQ(report.orgs, 0);
}

TEST(Verify, rows_that_cannot_be_read_are_an_error_and_not_a_finding) {
    World world;
    world.sql("drop table rollups");

    const auto report = verify(*world.snapshot(), {});

    ASSERT_FALSE(report);
    EXPECT_NE(report.error().detail.find("rollups"), std::string::npos) << report.error().detail;
}

// ---- what is wrong ------------------------------------------------------------------------------------------------

struct Broken {
    std::string name;
    std::function<void(World&)> breaks;
    std::vector<Promise> promises;  // Exactly these are reported,
    std::string row;                // and this row is named
    std::string what;               // with this.
    bool repairable = false;        // Repairs make it clean again.

    friend void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }
};

Broken by_sql(std::string name, std::string sql, std::vector<Promise> promises, std::string row, std::string what) {
    return {std::move(name), [sql](World& world) { world.sql(sql); }, std::move(promises), std::move(row),
            std::move(what)};
}
Broken counter(std::string name, std::string sql, Promise promise, std::string row, std::string what) {
    Broken broken = by_sql(std::move(name), std::move(sql), {promise}, std::move(row), std::move(what));
    broken.repairable = true;
    return broken;
}

std::vector<Broken> all_broken() {
    using enum Promise;
    const std::string saturday = fmt::format("{}", at("2026-11-14T00:00:00Z"));
    const std::string sunday = fmt::format("{}", at("2026-11-15T00:00:00Z"));
    const std::string daily = "budget='daily' and start_at=" + saturday;
    const auto add_run = [](World& world, std::uint64_t number, std::string_view state, std::int64_t fence) {
        const std::int64_t noon = at("2026-11-14T12:00:00Z");
        world.insert("runs", {{"id", store::Blob{std::string(15, '\0') + static_cast<char>(number)}},
                              {"run", store::Blob{std::string(15, '\0') + static_cast<char>(number)}},
                              {"agent", "writer"},
                              {"provider", "anthropic"},
                              {"node", "mill"},
                              {"state", std::string(state)},
                              {"fence", fence},
                              {"created_at", noon},
                              {"admitted_at", noon},
                              {"started_at", state == "starting" ? 0 : noon},
                              {"lease_until", noon + 1}});
        world.sql(fmt::format("update orgs set last_fence = max(last_fence, {})", fence));
        world.page(at("2026-11-16T09:00:00Z"), {event(20, id(number), std::string("writer"), std::uint8_t{1}, fence)});
    };
    const auto add_claim = [](World& world, std::uint64_t run, std::string host, std::string path, std::string chain,
                              std::string mode, std::string kind = "workspace") {
        const std::string place = fmt::format(R"([{{"kind":"{}","host":"{}","path":"{}","chain":{},"mode":"{}"}}])",
                                              kind, host, path, chain, mode);
        world.sql(fmt::format("update runs set wanted = '{}' where id = {}", place, x(run)));
        world.sql(fmt::format(
            "insert into claims select 1, id, 0, '{}', '{}', '{}', '{}', '{}', fence, parent from runs where id = {}",
            kind, host, path, chain, mode, x(run)));
    };
    const auto second_worker = [=](std::string name, std::string host, std::string path, std::string chain,
                                   std::string mode = "write", std::string kind = "workspace") {
        return Broken{std::move(name),
                      [=](World& world) {
                          world.sql("drop index one_writer_per_place");
                          add_run(world, 4, "running", 3);
                          add_claim(world, 4, host, path, chain, mode, kind);
                      },
                      {one_worker_per_place},
                      "claims: org=1 and run=" + x(1),
                      "collides with"};
    };
    const auto with_page = [](std::string name, std::vector<std::string> events, std::vector<Promise> promises,
                              std::string row, std::string what) {
        return Broken{std::move(name), [events](World& world) { world.page(at("2026-11-16T09:00:00Z"), events); },
                      std::move(promises), std::move(row), std::move(what)};
    };

    // Makes run 4 a child of run 1, in the same place.
    const auto add_child = [=](World& world) {
        add_run(world, 4, "running", 3);
        world.sql("update runs set parent = " + x(1) + ", root = " + x(1) + " where id = " + x(4));
        add_claim(world, 4, "mill", "/repo/sub", "[\"8:3\",\"8:2\",\"8:1\"]", "write");
    };
    const auto in_tree = [=](std::string name, std::string sql, std::vector<Promise> promises, std::string row,
                             std::string what) {
        return Broken{std::move(name),
                      [=](World& world) {
                          add_child(world);
                          ASSERT_EQ(verify(*world.snapshot(), {})->violations(), 0);
                          world.sql(sql);
                      },
                      std::move(promises), std::move(row), std::move(what)};
    };

    return {
        in_tree("another_root", "update runs set root = " + x(2) + " where id = " + x(4), {nobody_forgotten}, x(4),
                "its root is"),
        in_tree("a_parent_that_is_not_there",
                "update runs set parent = " + x(9) + ", root = " + x(9) + " where id = " + x(4),
                {one_worker_per_place, nobody_forgotten}, x(4), "there is no such parent"),
        in_tree("a_run_below_itself", "update runs set parent = " + x(4) + ", root = " + x(4) + " where id = " + x(4),
                {one_worker_per_place, nobody_forgotten}, x(4), "is below itself"),
        in_tree("a_child_that_goes_on_after_its_parent",
                "update runs set parent = " + x(2) + ", root = " + x(2) + " where id = " + x(4),
                {one_worker_per_place, nobody_forgotten}, x(4), "goes on, and its parent has ended"),
        counter("settled_below_a_run", "update runs set settled_below = 5 where id = " + x(1), exact_ledger, x(1),
                "settled_below is 5, the runs below it say 0"),
        // P1
        counter("settled_of_a_window", "update budget_windows set settled = 351 where " + daily, exact_ledger, daily,
                "settled is 351, its cost events say 350"),
        counter("settled_of_a_window_of_tokens", "update budget_windows set settled = 0 where budget = 'monthly'",
                exact_ledger, "budget='monthly'", "settled is 0, its cost events say 65"),
        counter("settled_of_a_window_of_calls_with_a_tag",
                "update budget_windows set settled = 9 where budget = 'weekly'", exact_ledger, "budget='weekly'",
                "settled is 9, its cost events say 1"),
        counter("settled_of_a_window_of_runs", "update budget_windows set settled = 2 where budget = 'starts'",
                exact_ledger, "budget='starts'", "settled is 2, the admitted runs say 1"),
        counter("end_of_a_window", fmt::format("update budget_windows set end_at = end_at + 1 where {}", daily),
                exact_ledger, daily, "end_at is"),
        by_sql(
            "start_of_a_window",
            fmt::format(
                "update budget_windows set start_at = start_at + 1, held = 0 where budget = 'daily' and start_at = {}",
                sunday),
            {exact_ledger}, "budget='daily' and start_at=" + fmt::format("{}", at("2026-11-15T00:00:00Z") + 1),
            "no day in UTC starts then"),
        counter("a_missing_window",
                fmt::format("delete from budget_windows where budget = 'daily' and start_at = {}", sunday),
                exact_ledger, "budget='daily' and start_at=" + sunday, "is missing, although 70 was counted in it"),
        by_sql("a_window_without_a_budget", "update budget_windows set budget = 'nobody' where budget = 'gone'",
               {exact_ledger}, "budget='nobody'", "there is no such budget"),
        by_sql("a_budget_whose_scope_cannot_be_read", "update budgets set scope = '[' where name = 'gone'",
               {exact_ledger}, "budgets: org=1 and name='gone'", "cannot be read"),
        by_sql("a_budget_whose_scope_has_a_number_for_a_name",
               "update budgets set scope = '{\"agent\":5}' where name = 'gone'", {exact_ledger}, "name='gone'",
               "cannot be read"),
        by_sql("a_budget_whose_scope_has_a_name_for_an_id",
               "update budgets set scope = '{\"run\":\"first\"}' where name = 'gone'", {exact_ledger}, "name='gone'",
               "cannot be read"),
        by_sql("a_budget_in_a_zone_nobody_knows", "update budgets set zone = 'Mars/Base' where name = 'gone'",
               {exact_ledger}, "budgets: org=1 and name='gone'", "Mars/Base"),
        counter("settled_of_an_agent", "update agent_totals set settled = 0 where agent = 'coder'", exact_ledger,
                "agent_totals: org=1 and agent='coder'", "settled is 0, its cost events say 350"),
        counter("tokens_of_an_agent", "update agent_totals set tokens = 64 where agent = 'coder'", exact_ledger,
                "agent='coder'", "tokens is 64, its cost events say 65"),
        counter("events_of_an_agent", "update agent_totals set events = 3 where agent = 'coder'", exact_ledger,
                "agent='coder'", "events is 3, its cost events say 2"),
        counter("last_event_of_an_agent", "update agent_totals set last_event_at = 5 where agent = 'writer'",
                exact_ledger, "agent='writer'", "last_event_at is 5"),
        counter("missing_totals_of_an_agent", "delete from agent_totals where agent = 'writer'", exact_ledger,
                "agent='writer'", "is missing, although there are 1 cost events"),
        counter("settled_of_a_run", "update runs set settled = 249 where id = " + x(1), exact_ledger,
                "runs: org=1 and id=" + x(1), "settled is 249, its cost events say 250"),
        counter("tokens_of_a_run", "update runs set tokens = 4 where id = " + x(1), exact_ledger, x(1), "tokens is 4"),
        counter("events_of_a_run", "update runs set events = 0 where id = " + x(1), exact_ledger, x(1), "events is 0"),
        counter("unknown_part_of_a_run", "update runs set unknown = 0 where id = " + x(1), exact_ledger, x(1),
                "unknown is 0, its cost events say 250"),
        counter("settled_of_a_session", "update sessions set settled = 1 where id = " + x(11), exact_ledger,
                "sessions: org=1 and id=" + x(11), "settled is 1, its cost events say 100"),
        counter("events_of_a_session", "update sessions set events = 2 where id = " + x(11), exact_ledger, x(11),
                "events is 2"),
        counter("cost_of_a_rollup", "update rollups set cost = 1 where agent = 'coder'", exact_ledger,
                "rollups: org=1 and day=20771 and agent='coder' and provider='anthropic' and model='opus'",
                "cost is 1"),
        counter("calls_of_a_rollup", "update rollups set calls = 4 where agent = 'coder'", exact_ledger,
                "agent='coder'", "calls is 4"),
        counter("tokens_of_a_rollup", "update rollups set reasoning_tokens = 4 where agent = 'coder'", exact_ledger,
                "agent='coder'", "reasoning_tokens is 4, its cost events say 5"),
        counter("a_missing_rollup", "delete from rollups where agent = 'writer'", exact_ledger,
                "day=20772 and agent='writer' and provider='' and model=''", "is missing"),
        counter("a_rollup_too_many",
                "insert into rollups select org, 7, agent, provider, model, cost, events, calls, 0, 0, 0, 0, 0, 0 "
                "from rollups where agent = 'writer'",
                exact_ledger, "day=7 and agent='writer'", "no cost events"),
        counter("last_mark_of_an_org", "update orgs set marked_at = 5", exact_ledger, "orgs: org=1", "marked_at is 5"),
        counter("a_minute_that_is_marked_wrong",
                "update spend_marks set settled = 349 where budget = '' and settled = 350", exact_ledger,
                "spend_marks: org=1 and budget='' and start_at=0 and at=",
                "settled is 349, the cost events before it say 350"),
        counter("a_minute_without_a_mark", "delete from spend_marks where budget = '' and settled = 350", exact_ledger,
                "spend_marks: org=1 and budget=''", "is missing, although 70 was spent in its minute"),
        counter("a_mark_of_a_minute_in_which_nothing_was_spent",
                "insert into spend_marks values (1, '', 0, 60000000, 0)", exact_ledger, "at=60000000",
                "nothing was spent in its minute"),
        counter("last_mark_of_a_window", "update budget_windows set marked_at = 5 where " + daily, exact_ledger, daily,
                "marked_at is 5, its marks say"),
        by_sql("a_mark_that_says_less_than_the_one_before",
               "update spend_marks set settled = 200 where budget = 'daily' and settled = 0", {exact_ledger},
               "spend_marks: org=1 and budget='daily'", "says 100, the one before it 200"),
        by_sql("a_mark_above_its_counter",
               "update spend_marks set settled = 350 where budget = 'daily' and settled > 0", {exact_ledger},
               "spend_marks: org=1 and budget='daily'", "says 350, and its window has no more than 350"),
        by_sql("a_mark_where_no_bucket_begins",
               fmt::format("insert into spend_marks values (1, 'daily', {0}, {0} + 1, 0); delete from spend_marks "
                           "where budget = 'daily' and settled = 0 and at > {0} + 1",
                           saturday),
               {exact_ledger}, "budget='daily' and start_at=" + saturday, "no bucket of its window begins then"),
        by_sql("a_mark_of_no_window", "insert into spend_marks values (1, 'daily', 5, 5, 0)", {exact_ledger},
               "budget='daily' and start_at=5", "its budget has no such window"),
        by_sql("a_mark_of_no_budget", "insert into spend_marks values (1, 'nobody', 5, 5, 0)", {exact_ledger},
               "budget='nobody'", "there is no such budget"),
        by_sql("a_cost_event_that_was_changed", "update ledger set cost = 71 where key = " + x(33),
               {exact_ledger, nothing_twice}, "cost_events: org=1 and key=" + x(33), "cost is 71, the feed says 70"),

        // P2
        counter("held_of_a_window", "update budget_windows set held = 0 where " + daily, hard_ceiling, daily,
                "held is 0, the open holds say 420"),
        by_sql("a_limit_that_was_passed", "update budget_windows set limit_units = 769 where " + daily, {hard_ceiling},
               daily, "350 settled and 420 held are more than the limit 769"),
        by_sql("a_limit_of_tokens_that_was_passed",
               "update budget_windows set limit_units = 564 where budget = 'monthly'", {hard_ceiling},
               "budget='monthly'", "65 settled and 500 held are more than the limit 564"),
        by_sql("a_part_of_a_window_that_is_not_there",
               fmt::format("update holds set parts = replace(parts, '{}', '{}') where id = {}", saturday, 7, x(24)),
               {hard_ceiling}, "holds: org=1 and id=" + x(24), "budget 'daily' has no window that starts at 7"),
        by_sql("a_part_of_a_budget_that_is_not_there",
               "update holds set parts = replace(parts, 'daily', 'weakly') where id = " + x(24), {hard_ceiling}, x(24),
               "it has a part of budget 'weakly', which is not there"),
        by_sql("a_part_of_a_deleted_budget",
               "update holds set parts = replace(parts, 'daily', 'gone') where id = " + x(24), {hard_ceiling}, x(24),
               "it has a part of budget 'gone', which is not there"),
        by_sql("a_part_drawn_beyond_itself",
               "update holds set parts = replace(parts, '\"drawn\":100', '\"drawn\":121') where id = " + x(21),
               {hard_ceiling}, x(21), "holds 120, of which 121 is drawn"),
        by_sql("a_part_smaller_than_its_hold",
               fmt::format("update holds set parts = replace(parts, '\"amount\":120', '\"amount\":110') where id = {}; "
                           "update budget_windows set held = 410 where {}",
                           x(21), daily),
               {hard_ceiling}, x(21), "its part of budget 'daily' is 110"),
        by_sql(
            "a_hold_that_a_budget_does_not_see",
            fmt::format("update holds set parts = '[]' where id = {}; update budget_windows set held = 300 where {}; "
                        "update budget_windows set held = 0 where budget = 'monthly'",
                        x(21), daily),
            {hard_ceiling}, x(21), "budget 'monthly' covers it, and it holds nothing there"),
        by_sql("a_hold_under_a_budget_that_does_not_cover_it",
               fmt::format("update holds set parts = replace(parts, '\"monthly\"', '\"weekly\"') where id = {0}; "
                           "update holds set parts = replace(parts, '{1}', '{2}') where id = {0}; "
                           "update holds set bound_tokens = 0 where id = {0}; "
                           "update budget_windows set held = 0 where budget = 'monthly'; "
                           "update budget_windows set held = 500 where budget = 'weekly'",
                           x(21), at("2026-10-31T23:00:00Z"), at("2026-11-09T00:00:00Z")),
               {hard_ceiling}, x(21), "a part of a budget that does not cover it"),
        by_sql("a_negative_bound", "update holds set bound_calls = -1 where id = " + x(21), {hard_ceiling}, x(21),
               "its bound is negative"),
        by_sql("parts_with_a_text_for_a_number",
               "update holds set parts = '[{\"budget\":\"daily\",\"window\":\"now\"}]' where id = " + x(24),
               {hard_ceiling}, x(24), "its parts cannot be read"),
        by_sql("parts_that_cannot_be_read", "update holds set parts = '{' where id = " + x(24), {hard_ceiling}, x(24),
               "its parts cannot be read"),

        // P3
        by_sql("a_key_used_twice", "update answers set key = " + x(31), {nothing_twice},
               "answers: org=1 and key=" + x(31), "there is a cost event with the same key"),
        by_sql("a_number_used_twice", "update ledger set seq = 9 where key = " + x(33), {nothing_twice},
               "cost_events: org=1 and key=" + x(33), "key is " + x(33) + ", the feed says " + x(31)),
        by_sql("a_number_beyond_the_feed", "update ledger set seq = 12 where key = " + x(33), {nothing_twice}, x(33),
               "its seq is 12, and the feed has no charge of that number"),
        by_sql("a_number_of_something_else", "update ledger set seq = 8 where key = " + x(33), {nothing_twice}, x(33),
               "its seq is 8, and the feed has no charge of that number"),
        by_sql("a_cost_event_that_was_lost",
               fmt::format(
                   "delete from ledger where key = {}; update agent_totals set settled = 0, tokens = 0, events = 0, "
                   "last_event_at = 0 where agent = 'writer'; delete from rollups where agent = 'writer'; "
                   "update budget_windows set settled = 0 where budget = 'daily' and start_at = {}; "
                   "update orgs set marked_at = (select min(at) from spend_marks where budget = ''); "
                   "delete from spend_marks where settled = 350",
                   x(33), sunday),
               {nothing_twice}, "cost_events: org=1 and seq=11", "there is no cost event like it"),
        by_sql("a_cost_event_the_feed_tells_otherwise", "update ledger set hold = null where key = " + x(32),
               {nothing_twice}, x(32), "hold is"),
        by_sql("a_hold_settled_by_nothing", "update holds set state = 'settled' where id = " + x(23), {nothing_twice},
               "holds: org=1 and id=" + x(23), "no cost event says by what"),
        by_sql("a_hold_given_back_and_charged", "update holds set state = 'released' where id = " + x(22),
               {nothing_twice}, "cost_events: org=1 and key=" + x(32), "which is not settled"),
        by_sql("a_hold_charged_twice", fmt::format("update ledger set hold = {} where key = {}", x(22), x(33)),
               {nothing_twice}, "holds: org=1 and id=" + x(22), "was settled by 2 cost events"),

        // P4
        by_sql("a_gap_in_a_session",
               fmt::format("delete from messages where session = {} and seq = 1; update sessions set "
                           "input_tokens = 20, output_tokens = 4 where id = {}",
                           x(11), x(11)),
               {one_order}, "messages: org=1 and session=" + x(11) + " and seq=2", "expected number 1"),
        by_sql("a_lost_last_message",
               fmt::format("delete from messages where session = {} and seq = 2; update sessions set "
                           "input_tokens = 20, output_tokens = 4 where id = {}",
                           x(11), x(11)),
               {one_order}, "sessions: org=1 and id=" + x(11), "next_seq is 3, its messages end before 2"),
        by_sql("a_message_too_many", "update sessions set next_seq = 2 where id = " + x(11), {one_order}, x(11),
               "next_seq is 2"),
        by_sql("a_message_without_a_session",
               fmt::format("update messages set session = {} where session = {}; update sessions "
                           "set next_seq = 2, input_tokens = 0 where id = {}",
                           x(13), x(12), x(12)),
               {one_order}, "messages: org=1 and session=" + x(13), "there is no such session"),
        by_sql("a_fork_of_messages_that_are_not_there",
               fmt::format("update sessions set first_seq = 4, next_seq = 5 where id = {}; "
                           "update messages set seq = 4 where session = {}",
                           x(12), x(12)),
               {one_order}, x(12), "first_seq is 4"),
        by_sql("a_fork_without_a_parent", fmt::format("update sessions set parent = {} where id = {}", x(19), x(12)),
               {one_order}, x(12), "its parent is not there"),
        by_sql("a_start_behind_0_without_a_parent", "update sessions set parent = null where id = " + x(12),
               {one_order}, x(12), "first_seq is 2, and it has no parent"),
        counter("input_tokens_of_a_session", "update sessions set input_tokens = 31 where id = " + x(11), one_order,
                x(11), "input_tokens is 31, its messages say 30"),
        counter("output_tokens_of_a_session", "update sessions set output_tokens = 7 where id = " + x(11), one_order,
                x(11), "output_tokens is 7, its messages say 6"),

        // P5
        second_worker("the_same_path_twice", "mill", "/repo", R"(["9:9"])"),
        second_worker("a_path_inside_a_path", "mill", "/repo/src", R"(["9:9"])"),
        second_worker("a_path_around_a_path", "mill", "/", R"(["9:9"])"),
        second_worker("the_same_directory_under_another_name", "mill", "/mnt/repo", R"(["8:2","8:7"])"),
        second_worker("a_directory_inside_by_identity", "mill", "/mnt/src", R"(["8:5","8:2"])"),
        second_worker("a_directory_around_by_identity", "mill", "/mnt", R"(["8:1"])"),
        second_worker("a_reader_beside_a_writer", "mill", "/repo", R"(["9:9"])", "read"),
        second_worker("a_resource_written_while_read", "", "deploy", "[]", "write", "resource"),
        by_sql("a_missing_claim", "delete from claims where number = 1", {one_worker_per_place},
               "runs: org=1 and id=" + x(1), "wanted 2 places, but has 1 claims"),
        by_sql("a_claim_on_another_place", "update claims set path = '/tmp' where number = 0", {one_worker_per_place},
               "claims: org=1 and run=" + x(1) + " and number=0", "is not what its run wanted"),
        by_sql("a_claim_of_nobody",
               "update runs set wanted = '[]' where id = " + x(1) + "; update claims set run = " + x(9),
               {one_worker_per_place}, "claims: org=1 and run=" + x(9), "there is no such run"),
        by_sql("a_claim_that_cannot_be_read", "update claims set chain = '[' where number = 0", {one_worker_per_place},
               "number=0", "its chain cannot be read"),
        by_sql("wanted_places_that_cannot_be_read", "update runs set wanted = '[1]' where id = " + x(1),
               {one_worker_per_place}, x(1), "what it wanted cannot be read"),

        // P6
        {"more_runs_than_the_agent_may_have",
         [=](World& world) {
             add_run(world, 4, "running", 3);
             add_run(world, 5, "starting", 4);
         },
         {caps},
         "agents: org=1 and name='writer'",
         "max_concurrent_runs is 1, and 2 runs are live"},
        {"more_runs_than_the_org_may_have",
         [=](World& world) {
             world.sql("update caps set max_live = 1 where kind = 'org'");
             add_run(world, 4, "paused", 3);
         },
         {caps},
         "caps: org=1 and kind='org' and name=''",
         "max_live is 1, and 2 runs are live"},
        {"more_runs_than_the_provider_may_have",
         [=](World& world) {
             world.sql("update caps set max_live = 1 where kind = 'provider'");
             add_run(world, 4, "paused", 3);
         },
         {caps},
         "kind='provider' and name='anthropic'",
         "max_live is 1, and 2 runs are live"},
        {"more_runs_than_the_node_may_have",
         [=](World& world) {
             world.sql("update caps set max_live = 1 where kind = 'node'");
             add_run(world, 4, "paused", 3);
         },
         {caps},
         "kind='node' and name='mill'",
         "max_live is 1, and 2 runs are live"},
        {"a_run_admitted_in_spite_of_a_lowered_cap",
         [=](World& world) {
             world.sql("update caps set max_live = 0 where kind = 'org'");
             world.page(at("2026-11-15T10:00:00Z"), {event(10, std::uint8_t{0}, std::string(), std::int64_t{0})});
             add_run(world, 4, "running", 3);
         },
         {caps},
         "kind='org'",
         "max_live is 0, and 2 runs are live"},

        // P7
        by_sql("one_fence_twice", "update runs set fence = 2 where id = " + x(2), {fenced}, x(2),
               "its fence 2 is also that of"),
        by_sql("a_fence_from_the_future", "update runs set fence = 3 where id = " + x(2), {fenced},
               "runs: org=1 and id=" + x(2), "its fence is 3, the org's last one is 2"),
        by_sql("a_claim_with_an_old_fence", "update claims set fence = 1 where number = 0", {fenced},
               "claims: org=1 and run=" + x(1), "its fence is 1, its run's is 2"),

        // P8
        with_page("a_tick_that_fired_twice", {event(25, std::string("nightly"), at("2026-11-14T08:00:00Z"), id(2))},
                  {one_tick}, "schedules: org=1 and name='nightly'", "fired twice: events 5 and 12"),
        with_page("a_tick_that_fired_again_under_another_name",
                  {event(25, std::string("nightly"), at("2026-11-14T08:00:00Z"), id(8))}, {one_tick},
                  "schedules: org=1 and name='nightly'", "event 12 of the feed started a run for tick"),
        with_page("a_wake_whose_run_is_not_there",
                  {event(25, std::string("nightly"), at("2026-11-16T09:00:00Z"), id(8))}, {one_tick},
                  "runs: org=1 and id=" + x(8), "event 12 of the feed says that schedule 'nightly' started it"),
        by_sql("a_run_of_another_schedule", "update runs set schedule = 'hourly' where id = " + x(2), {one_tick}, x(2),
               "its schedule is 'hourly', the feed says 'nightly'"),
        by_sql("a_run_no_tick_made", "update runs set schedule = 'hourly' where id = " + x(3), {one_tick}, x(3),
               "its schedule is 'hourly', the feed says ''"),

        by_sql("a_tick_that_is_written_down_nowhere", "update schedules set skipped = 1", {one_tick},
               "schedules: org=1 and name='nightly'",
               "has counted 2 ticks and wakes, and the last one written down is"),
        by_sql("a_tick_that_fired_without_being_counted",
               "update schedules set fired = 0, coalesced = 1 where name = 'nightly'", {one_tick}, "name='nightly'",
               "has fired 0 times and coalesced 1; 1 and 0 are written down"),

        // P9
        counter("steps_of_a_run", "update runs set steps = 3 where id = " + x(2), nobody_forgotten, x(2),
                "steps is 3, its steps say 2"),
        by_sql("a_step_that_is_missing", "delete from run_steps where number = 1", {nobody_forgotten},
               "run_steps: org=1 and run=" + x(2) + " and number=2", "comes after number 0 of its run"),
        by_sql("a_last_step_that_says_something_else", "update run_steps set state = 'failed' where number = 2",
               {nobody_forgotten}, x(2), "is succeeded, and its last step says failed"),
        by_sql("steps_of_no_run", "update run_steps set run = " + x(9) + "; update runs set steps = 0",
               {nobody_forgotten}, "run_steps: org=1 and run=" + x(9), "there is no such run"),
        by_sql("an_ended_run_with_claims",
               fmt::format("update runs set state = 'lost', ended_at = {} where id = {}; "
                           "update holds set run = null where run = {}",
                           at("2026-11-15T00:00:00Z"), x(1), x(1)),
               {nobody_forgotten}, "claims: org=1 and run=" + x(1) + " and number=0",
               "its run is lost, and still has '/repo'"),
        by_sql("a_hold_of_a_run_that_has_ended",
               fmt::format("update runs set state = 'failed', ended_at = {} where id = {}; "
                           "delete from claims",
                           at("2026-11-15T00:00:00Z"), x(1)),
               {nobody_forgotten}, "holds: org=1 and id=" + x(21), "is not live"),
        by_sql("a_hold_of_a_run_that_is_not_there", fmt::format("update holds set run = {} where id = {}", x(9), x(21)),
               {nobody_forgotten}, x(21), "its run " + x(9) + " is not live"),
        by_sql("an_open_hold_that_was_closed", "update holds set closed_at = 5 where id = " + x(21), {nobody_forgotten},
               x(21), "is open, and closed_at is 5"),
        by_sql("a_closed_hold_without_an_end", "update holds set closed_at = 0 where id = " + x(23), {nobody_forgotten},
               x(23), "is released, and closed_at is 0"),
        by_sql("a_hold_that_expires_before_it_is_made", "update holds set expires_at = 5 where id = " + x(21),
               {nobody_forgotten}, x(21), "expires at 5"),
        by_sql(
            "a_hold_of_an_agent_that_is_not_there",
            fmt::format(
                "update holds set agent = 'nobody', bound_tokens = 0, parts = "
                "json_remove(parts, '$[1]') where id = {}; update budget_windows set held = 0 where budget = 'monthly'",
                x(21)),
            {nobody_forgotten}, x(21), "there is no agent 'nobody'"),
        by_sql("an_ended_run_without_an_end", "update runs set ended_at = 0 where id = " + x(2), {nobody_forgotten},
               x(2), "is succeeded, and ended_at is 0"),
        by_sql("a_live_run_that_has_ended", "update runs set ended_at = 5 where id = " + x(1), {nobody_forgotten}, x(1),
               "is running, and ended_at is 5"),
        by_sql("a_run_that_ended_before_it_began", "update runs set ended_at = 5 where id = " + x(2),
               {nobody_forgotten}, x(2), "ended at 5, before it was made"),
        by_sql("a_queued_run_with_a_fence",
               "update runs set fence = 2 where id = " + x(3) +
                   "; update orgs set last_fence = 9; "
                   "update runs set fence = 5 where id = " +
                   x(3),
               {nobody_forgotten}, x(3), "is queued and has the fence 5"),
        by_sql("a_queued_run_that_asked_not_to_wait", "update runs set never_waits = 1 where id = " + x(3),
               {nobody_forgotten}, x(3), "is queued, and asked not to wait"),
        by_sql("a_queued_run_that_was_admitted",
               "update runs set admitted_at = 5 where id = " + x(3) +
                   "; "
                   "update budget_windows set settled = 2 where budget = 'starts'",
               {nobody_forgotten}, x(3), "is queued and was admitted at 5"),
        by_sql("a_live_run_that_was_never_admitted",
               fmt::format("update runs set admitted_at = 0 where id = {}; "
                           "update budget_windows set settled = 0 where budget = 'starts'",
                           x(1)),
               {nobody_forgotten}, x(1), "its fence is 2, and it was admitted at 0"),
        by_sql("a_running_run_that_never_started", "update runs set started_at = 0 where id = " + x(1),
               {nobody_forgotten}, x(1), "is running, and started_at is 0"),
        by_sql("a_lease_from_before_the_admission", "update runs set lease_until = 5 where id = " + x(1),
               {nobody_forgotten}, x(1), "its lease ended at 5"),
        by_sql("a_state_that_is_none", "update runs set state = 'resting' where id = " + x(3), {nobody_forgotten}, x(3),
               "its state is 'resting', which is none"),
        by_sql("a_run_of_an_agent_that_is_not_there", "update runs set agent = 'nobody' where id = " + x(3),
               {nobody_forgotten}, x(3), "there is no agent 'nobody'"),
        by_sql("a_supervised_run_that_starts_nothing", "update runs set supervised = 1 where id = " + x(3),
               {nobody_forgotten}, x(3), "nothing says what its supervisor starts"),
        by_sql("a_run_on_the_account_of_another", fmt::format("update runs set run = {} where id = {}", x(2), x(3)),
               {nobody_forgotten}, x(3), "names another run"),
        by_sql("rows_of_an_org_that_is_not_there", "insert into answers select 2, key, 0, at, reply from answers",
               {nobody_forgotten}, "answers: org=2", "there is no such org"),

        // The feed.
        by_sql("an_event_that_was_changed",
               "update feed_pages set body = cast(replace(body, 'acme', 'ACME') as blob) where last_seq = 6",
               {unbroken_feed}, "feed_pages: org=1 and last_seq=6", "its hash is not the hash"),
        by_sql("a_page_dated_back", "update feed_pages set at = 5 where last_seq = 10", {unbroken_feed}, "last_seq=10",
               "before the page before it"),
        by_sql("a_page_renumbered",
               "update feed_pages set first_seq = 8 where last_seq = 10; update ledger set seq = seq + 1 where "
               "seq < 11;",
               {unbroken_feed, nothing_twice}, "last_seq=10", "begins with event 8, the page before ends with event 6"),
        by_sql("a_page_that_was_taken_out", "delete from feed_pages where last_seq = 6; update runs set schedule = ''",
               {unbroken_feed}, "last_seq=10", "begins with event 7, the page before ends with event 0"),
        by_sql("a_hash_that_was_changed", "update feed_pages set hash = zeroblob(32) where last_seq = 11",
               {unbroken_feed}, "last_seq=11", "its hash is not the hash"),
        by_sql("a_body_that_is_cut_off",
               "update feed_pages set body = substr(body, 1, length(body) - 1) where last_seq = 11",
               {unbroken_feed, nothing_twice}, "last_seq=11", "its body is not a sequence of events"),
        {"a_page_with_other_numbers_than_events",
         [](World& world) {
             world.page(at("2026-11-16T09:00:00Z"), {event(3, std::string("again"))});
             world.sql("update feed_pages set last_seq = 13 where last_seq = 12");
         },
         {unbroken_feed},
         "last_seq=13",
         "holds 1 events, its numbers are 12 to 13"},
    };
}

class BrokenStore : public testing::TestWithParam<Broken> {};

TEST_P(BrokenStore, is_reported_under_its_promise_with_the_row_named) {
    const Broken& broken = GetParam();
    World world;
    broken.breaks(world);

    const Report report = world.verify();

    std::set<std::string> expected;
    std::set<std::string> reported;
    bool named = false;
    for (const PromiseReport& promise : report.promises) {
        if (std::ranges::find(broken.promises, promise.promise) != broken.promises.end()) expected.insert(promise.id);
        if (promise.violations > 0) reported.insert(promise.id);
        for (const Finding& finding : promise.examples) {
            named = named || (finding.row.find(broken.row) != std::string::npos &&
                              finding.what.find(broken.what) != std::string::npos);
        }
    }
    EXPECT_EQ(reported, expected) << all_findings(report);
    EXPECT_TRUE(named) << "no finding names " << broken.row << " with: " << broken.what << "\n" << all_findings(report);
}

TEST_P(BrokenStore, is_clean_after_its_repairs_if_only_counters_were_off) {
    const Broken& broken = GetParam();
    World world;
    broken.breaks(world);
    const Report before = world.verify();

    world.apply(before.repairs);

    const Report after = world.verify();
    EXPECT_EQ(after.violations() == 0, broken.repairable) << all_findings(after);
    EXPECT_TRUE(after.repairs.empty());
}

INSTANTIATE_TEST_SUITE_P(Verify, BrokenStore, testing::ValuesIn(all_broken()),
                         [](const auto& tested) { return tested.param.name; });

// ---- what only looks wrong ----------------------------------------------------------------------------------------

TEST(Verify, runs_that_were_live_before_a_cap_was_lowered_are_a_note_and_not_a_violation) {
    World world;
    world.sql(
        "update caps set max_live = 0 where kind = 'org'; update agents set max_concurrent_runs = 0 where name = "
        "'coder'");
    world.page(at("2026-11-16T09:00:00Z"), {event(10, std::uint8_t{0}, std::string(), std::int64_t{0}),
                                            event(4, std::string("coder"), std::int64_t{0})});

    const Report report = world.verify();

    EXPECT_EQ(report.violations(), 0) << all_findings(report);
    EXPECT_EQ(report.promises[static_cast<std::size_t>(Promise::caps)].notes.size(), 2u);
}

TEST(Verify, text_that_is_not_utf8_and_metadata_that_is_not_json_are_notes_that_name_the_row) {
    World world;
    world.sql(
        "update messages set metadata = 'oops' where seq = 0; update sessions set title = cast(x'41ff' as text); "
        "update runs set reason = cast(x'ff' as text) where id = " +
        x(1));

    const Report report = world.verify();

    EXPECT_EQ(report.violations(), 0) << all_findings(report);
    const auto notes = [&](Promise promise) {
        std::string all;
        for (const std::string& note : report.promises[static_cast<std::size_t>(promise)].notes) all += note + "\n";
        return all;
    };
    EXPECT_NE(notes(Promise::one_order).find("messages: org=1"), std::string::npos) << notes(Promise::one_order);
    EXPECT_NE(notes(Promise::one_order).find("seq=0: metadata is not a JSON object"), std::string::npos);
    EXPECT_NE(notes(Promise::one_order).find("title is not UTF-8"), std::string::npos);
    EXPECT_NE(notes(Promise::nobody_forgotten).find("reason is not UTF-8"), std::string::npos);
}

TEST(Verify, two_wakes_at_the_same_moment_are_two_runs_and_no_tick_fired_twice) {
    World world;
    const std::int64_t later = at("2026-11-16T09:00:00Z");
    world.page(later,
               {event(25, std::string("nightly"), later, id(3)), event(25, std::string("nightly"), later, id(4))});
    world.sql(
        "insert into runs select org, " + x(4) + ", agent, workflow, provider, model, api_key, " + x(4) +
        ", session, tags, node, state, priority, ticket, fence, wanted, hold_bound_usd, hold_bound_tokens, "
        "hold_bound_calls, "
        "hold_bound_runs, hold, metered, isolated, stop_requested, lease_s, created_at, queued_until, admitted_at, "
        "lease_until, started_at, ended_at, reason, 'nightly', settled, tokens, events, unknown, name, supervised, "
        "ceiling, attempt, retry_of, not_before, exit_code, steps, parent, root, settled_below, never_waits from runs "
        "where id = " +
        x(3) + "; update runs set schedule = 'nightly' where id = " + x(3));

    const Report report = world.verify();

    EXPECT_EQ(report.violations(), 0) << all_findings(report);
}

TEST(Verify, what_was_over_the_limit_and_is_marked_so_is_no_violation) {
    World world;
    world.sql("update budget_windows set limit_units = 700 where budget = 'daily' and held > 0");
    ASSERT_EQ(world.verify().violations(), 1);

    world.sql("update budget_windows set grace = 70 where budget = 'daily' and held > 0");

    EXPECT_EQ(world.verify().violations(), 0) << all_findings(world.verify());
}

TEST(Verify, overage_of_a_dollar_budget_and_marked_events_of_a_token_budget_are_no_violation) {
    World world;
    world.sql(
        "update budget_windows set limit_units = 764 where budget = 'daily' and held > 0;"
        "update budget_windows set limit_units = 530 where budget = 'monthly'");
    ASSERT_EQ(world.verify().violations(), 2);

    world.sql("update ledger_details set overage = 6, over_limit = 1 where key = " + x(32));

    // The event no longer is what the feed says, but neither budget complains.
    const Report report = world.verify();
    EXPECT_EQ(report.violations(), 1) << all_findings(report);
    EXPECT_EQ(report.promises[static_cast<std::size_t>(Promise::nothing_twice)].violations, 1);
}

TEST(Verify, a_budget_made_again_answers_only_for_the_windows_since_then) {
    World world;
    world.sql(
        fmt::format("update budgets set created_at = {} where name = 'daily'; "
                    "update budget_windows set settled = 101 where budget = 'daily' and held > 0",
                    at("2026-11-15T08:00:00Z")));

    const Report report = world.verify();

    EXPECT_EQ(report.violations(), 0) << all_findings(report);
}

TEST(Verify, an_event_that_comes_to_nothing_needs_no_window) {
    World world;
    world.sql(
        fmt::format("update budgets set metric = 'calls' where name = 'monthly'; delete from budget_windows where "
                    "budget = 'monthly'; "
                    "update ledger_details set calls = 0; update rollups set calls = 0; "
                    "update budget_windows set settled = 0 where budget = 'weekly'; "
                    "update holds set parts = json_remove(parts, '$[1]') where id = {}",
                    x(21)));

    const Report report = world.verify();

    EXPECT_EQ(report.violations(), 0) << all_findings(report);
}

TEST(Verify, a_budget_sums_exactly_what_agrees_with_each_stated_member) {
    const struct {
        std::string scope;
        std::int64_t calls;
    } cases[] = {
        {"{}", 4},
        {R"({"agent":"coder"})", 3},
        {R"({"agent":"writer"})", 1},
        {R"({"workflow":"release"})", 2},
        {R"({"provider":"anthropic"})", 3},
        {R"({"model":"opus"})", 3},
        {R"({"api_key":"key7"})", 1},
        {R"({"run":"00000000000000000000000000000001"})", 2},
        {R"({"session":"0000000000000000000000000000000b"})", 1},
        {R"({"tags":{"site":"north","team":"blue"}})", 1},
        {R"({"tags":{"site":"north","team":"red"}})", 0},
        {R"({"agent":"coder","model":"opus","tags":{"site":"north"}})", 1},
        {R"({"agent":"writer","model":"opus"})", 0},
    };
    for (const auto& [scope, calls] : cases) {
        World world;
        world.sql("update ledger_details set api_key = 'key7' where key = " + x(31) +
                  "; update ledger_details set workflow = 'release' where key = " + x(32));
        world.insert("budgets",
                     {{"name", "probe"}, {"scope", scope}, {"metric", "calls"}, {"window", "total"}, {"zone", "UTC"}});
        world.insert("budget_windows",
                     {{"budget", "probe"}, {"start_at", 0}, {"end_at", micros(far_future)}, {"settled", calls}});

        EXPECT_EQ(world.verify().violations(), 0) << scope << "\n" << all_findings(world.verify());

        world.sql("update budget_windows set settled = settled + 1 where budget = 'probe'");
        EXPECT_EQ(world.verify().violations(), 1) << scope;
    }
}

// ---- counting and naming ------------------------------------------------------------------------------------------

TEST(Verify, every_violation_is_counted_and_the_first_few_are_named) {
    World world;
    world.sql("update rollups set cost = 1, calls = 7, events = 9");

    const Report report = world.verify(2);

    const PromiseReport& ledger = report.promises[static_cast<std::size_t>(Promise::exact_ledger)];
    EXPECT_EQ(ledger.violations, 6);
    EXPECT_EQ(ledger.examples.size(), 2u);
    EXPECT_EQ(report.repairs.size(), 2u);
}

TEST(Verify, more_false_cost_events_than_can_be_explained_are_all_counted) {
    World world;
    for (std::uint64_t i = 0; i < 100; ++i) {
        world.sql(
            fmt::format("insert into ledger select org, {}, 0, 8, at, counted_at, agent, provider, model, run, "
                        "session, 0, 0, 0, null "
                        "from ledger where key = {}",
                        x(1000 + i), x(33)));
    }

    const Report report = world.verify();

    EXPECT_EQ(report.promises[static_cast<std::size_t>(Promise::nothing_twice)].violations, 100);
}

TEST(Verify, a_repair_says_from_what_to_what) {
    World world;
    world.sql("update agent_totals set settled = 7, events = 8 where agent = 'coder'");

    const Report report = world.verify();

    ASSERT_EQ(report.repairs.size(), 1u);
    EXPECT_EQ(to_text(report.repairs[0].row), "agent_totals: org=1 and agent='coder'");
    const std::vector<store::Repair::Change> cells{{"settled", 7, 350}, {"events", 8, 2}};
    EXPECT_EQ(report.repairs[0].cells, cells);
}

TEST(Verify, a_named_row_can_be_put_into_a_query) {
    const store::RowName row{"t", {{"org", 1}, {"name", "it's"}, {"id", store::Blob{std::string("\x01\xff", 2)}}}};

    EXPECT_EQ(to_text(row), "t: org=1 and name='it''s' and id=x'01ff'");
}

// ---- claims -------------------------------------------------------------------------------------------------------

Claim workspace(std::uint64_t run, std::string path, std::vector<std::string> chain = {}, std::string mode = "write",
                std::string host = "mill") {
    return {id(run), 0, {"workspace", std::move(host), std::move(path), std::move(mode), std::move(chain)}, 1};
}

TEST(Claims, neighbours_with_a_common_beginning_do_not_collide) {
    EXPECT_TRUE(collisions({workspace(1, "/a/b"), workspace(2, "/a/bc"), workspace(3, "/a/c"),
                            workspace(4, "/a/b", {}, "write", "pond")})
                    .empty());
}

TEST(Claims, readers_and_claims_of_one_run_do_not_collide) {
    EXPECT_TRUE(collisions({workspace(1, "/a", {}, "read"), workspace(2, "/a/b", {}, "read")}).empty());
    EXPECT_TRUE(collisions({workspace(1, "/a"), workspace(1, "/a/b")}).empty());
}

TEST(Claims, a_pair_that_collides_by_path_and_by_identity_is_named_once) {
    const auto found = collisions({workspace(1, "/a", {"1:1"}), workspace(2, "/a/b", {"1:2", "1:1"})});

    EXPECT_EQ(found, (std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}}));
}

TEST(Claims, a_sibling_between_two_that_collide_does_not_hide_them) {
    const auto found =
        collisions({workspace(1, "/a"), workspace(1, "/a/b/c"), workspace(2, "/a/b-"), workspace(3, "/a/d")});

    EXPECT_EQ(found.size(), 2u);
}

TEST(Claims, a_resource_and_a_directory_of_the_same_name_do_not_collide) {
    Claim resource = workspace(1, "/a");
    resource.place.kind = "resource";

    EXPECT_TRUE(collisions({resource, workspace(2, "/a")}).empty());
}

}  // namespace
}  // namespace interlock::verify
