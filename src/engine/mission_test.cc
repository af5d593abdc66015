// The bugs that other platforms had, as tests on the real store with real threads. Each says what went wrong there.
//
// The crash points of a charge are in crash/: they need a disk that loses power.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "base/calendar.h"
#include "engine/embedded.h"
#include "store/sqlite_store.h"

namespace interlock::engine {
namespace {

using core::AdmitStatus;
using core::ChargeStatus;
using core::RunState;

// A directory that is gone after the test.
class Scratch {
 public:
    Scratch() {
        std::string pattern = testing::TempDir() + "interlock-mission-XXXXXX";
        path_ = ::mkdtemp(pattern.data());
    }
    ~Scratch() { std::filesystem::remove_all(path_); }
    const std::string& path() const { return path_; }

 private:
    std::string path_;
};

class Mission : public testing::Test {
 protected:
    void SetUp() override {
        auto opened = Embedded::open({.directory = scratch.path(), .engine = {}});
        ASSERT_TRUE(opened) << opened.error().detail;
        interlock = std::move(*opened);
        put_agent("writer", 10'000);
    }

    template <class Reply>
    Reply tell(core::CommandBody body) {
        const SubmitResult answer = interlock->ask({.org = {}, .key = {}, .body = std::move(body)});
        EXPECT_TRUE(answer) << "the engine gave no answer";
        return answer ? std::get<Reply>(answer->reply) : Reply{};
    }

    void put_agent(const std::string& name, std::int32_t max_concurrent_runs) {
        tell<core::AgentReply>(
            core::PutAgent{.name = name, .command = {}, .max_concurrent_runs = max_concurrent_runs, .tags = {}});
    }
    void put_budget(const std::string& name, Money limit, WindowKind window) {
        core::PutBudget budget;
        budget.name = name;
        budget.limit_units = limit.nanos();
        budget.window = window;
        ASSERT_EQ(tell<core::BudgetReply>(budget).status, core::BudgetStatus::done);
    }
    ChargeStatus charge(Money cost) {
        core::Charge charge;
        charge.who.agent = "writer";
        charge.who.provider = "anthropic";
        charge.who.model = "opus";
        charge.cost = cost;
        return tell<core::ChargeReply>(charge).status;
    }
    core::AdmitRun admission(const std::string& path, core::OnConflict on_conflict = core::OnConflict::refuse) {
        core::AdmitRun admit;
        admit.run = core::RunId(interlock->fresh_id());
        admit.who.agent = "writer";
        if (!path.empty()) admit.places = {{core::ClaimKind::workspace, "host", path, {}, core::ClaimMode::write}};
        admit.on_conflict = on_conflict;
        return admit;
    }
    core::AdmitReply admit(const std::string& path, core::OnConflict on_conflict = core::OnConflict::refuse) {
        return tell<core::AdmitReply>(admission(path, on_conflict));
    }

    std::int64_t number(const std::string& sql) {
        auto snapshot = interlock->store().snapshot();
        EXPECT_TRUE(snapshot);
        std::int64_t value = -1;
        const auto read = (*snapshot)->query(sql, [&](const std::vector<store::Value>& row) {
            value = std::holds_alternative<std::int64_t>(row[0]) ? std::get<std::int64_t>(row[0]) : 0;
        });
        EXPECT_TRUE(read) << read.error().detail;
        return value;
    }

    template <class Work>
    static void in_threads(int count, Work work) {
        std::barrier start(count);
        std::vector<std::thread> threads;
        for (int i = 0; i < count; ++i) {
            threads.emplace_back([&, i] {
                start.arrive_and_wait();
                work(i);
            });
        }
        for (std::thread& thread : threads) thread.join();
    }

    Scratch scratch;
    std::unique_ptr<Embedded> interlock;
};

// ---- a daily total kept by an unlocked read-modify-write ----------------------------------------------------------

class RecordUsage : public Mission, public testing::WithParamInterface<int> {};

TEST_P(RecordUsage, the_total_is_the_sum_of_all_recorded_costs_to_the_last_digit) {
    const int threads = GetParam();
    constexpr int charges_each = 200;
    put_budget("month", Money::dollars(1000), WindowKind::month);

    in_threads(threads, [&](int) {
        for (int i = 0; i < charges_each; ++i) EXPECT_EQ(charge(*money_from_text("0.00075")), ChargeStatus::charged);
    });

    const std::int64_t expected = std::int64_t{threads} * charges_each * 750'000;
    EXPECT_EQ(number("select sum(cost) from cost_events"), expected);
    EXPECT_EQ(number("select settled from agent_totals where agent = 'writer'"), expected);
    EXPECT_EQ(number("select settled from budget_windows where budget = 'month'"), expected);
    EXPECT_EQ(number("select sum(cost) from rollups"), expected);
    EXPECT_EQ(number("select count(*) from cost_events"), threads * charges_each);
}
INSTANTIATE_TEST_SUITE_P(Threads, RecordUsage, testing::Values(20, 64));

TEST_F(Mission, costs_recorded_across_midnight_are_all_counted_and_each_on_its_day) {
    interlock.reset();
    store::SqliteStore::Options store_options;
    store_options.directory = scratch.path();
    store::SqliteStore store(store_options);
    Engine engine(store, {});
    constexpr int threads = 20;
    constexpr int charges_each = 50;
    std::atomic<int> charged = 0;
    // A clock that stands a moment before midnight until half of the charges are made, and a moment after it then.
    const Instant midnight = from_micros(std::int64_t{30'000} * 86'400 * 1'000'000);
    const auto elapsed = [&charged] { return Duration(charged < threads * charges_each / 2 ? 0 : 2'000); };
    Clock clock([=] { return midnight - Duration(1'000) + elapsed(); }, elapsed);
    ASSERT_TRUE(engine.open(clock.now()));
    IdSource ids;
    {
        Lane lane(engine, std::move(clock));
        const auto tell_lane = [&](core::CommandBody body) {
            std::promise<SubmitResult> answer;
            lane.submit(Submission{.command = {.org = Embedded::default_org,
                                               .key = core::CommandKey(ids.next(midnight)),
                                               .body = std::move(body)},
                                   .on_answer = [&](SubmitResult given) { answer.set_value(std::move(given)); }});
            return answer.get_future().get();
        };
        core::PutBudget day;
        day.name = "day";
        day.limit_units = Money::dollars(1000).nanos();
        day.window = WindowKind::day;
        ASSERT_TRUE(tell_lane(day));
        in_threads(threads, [&](int) {
            for (int i = 0; i < charges_each; ++i) {
                core::Charge charge;
                charge.who.agent = "writer";
                charge.cost = *money_from_text("0.00075");
                EXPECT_TRUE(tell_lane(charge));
                ++charged;
            }
        });
    }

    const auto ask = [&](const std::string& sql) {
        std::int64_t value = -1;
        const auto read =
            (*store.snapshot())->query(sql, [&](const auto& row) { value = std::get<std::int64_t>(row[0]); });
        EXPECT_TRUE(read);
        return value;
    };
    EXPECT_EQ(ask("select sum(cost) from cost_events"), threads * charges_each * std::int64_t{750'000});
    EXPECT_EQ(ask("select count(*) from rollups"), 2) << "some on the day before midnight, some on the day after";
    EXPECT_EQ(ask("select sum(cost) from rollups"), threads * charges_each * std::int64_t{750'000});
    EXPECT_EQ(ask("select count(*) from budget_windows where budget = 'day'"), 2);
    EXPECT_EQ(ask("select sum(settled) from budget_windows where budget = 'day'"),
              threads * charges_each * std::int64_t{750'000});
    EXPECT_EQ(
        ask("select count(*) from budget_windows w where w.settled <> (select sum(e.cost) from cost_events e where "
            "e.counted_at >= w.start_at and e.counted_at < w.end_at)"),
        0);
}

TEST_F(Mission, twenty_cost_reports_at_once_leave_a_counter_that_is_their_sum) {
    in_threads(20, [&](int i) { charge(Money::nanos(1'000'000 + i)); });

    EXPECT_EQ(number("select settled from agent_totals where agent = 'writer'"), 20 * 1'000'000 + 190);
}

// ---- budgets that were checked before they were charged -----------------------------------------------------------

TEST_F(Mission, a_hard_budget_is_never_overspent_however_many_spend_at_once) {
    put_budget("ten", Money::dollars(10), WindowKind::total);
    std::atomic<int> charged = 0;

    in_threads(64, [&](int) {
        for (int i = 0; i < 10; ++i) charged += charge(*money_from_text("0.03")) == ChargeStatus::charged;
    });

    EXPECT_EQ(charged, 333);
    EXPECT_EQ(number("select settled from budget_windows"), 333 * std::int64_t{30'000'000});
}

TEST_F(Mission, of_twenty_quarter_dollar_runs_on_half_a_dollar_two_are_admitted) {
    put_budget("half", *money_from_text("0.50"), WindowKind::total);
    std::atomic<int> admitted = 0;
    std::atomic<int> exceeded = 0;

    in_threads(20, [&](int) {
        core::AdmitRun run = admission("");
        run.hold.usd = 250'000'000;
        const auto reply = tell<core::AdmitReply>(run);
        admitted += reply.status == AdmitStatus::admitted;
        exceeded += reply.status == AdmitStatus::budget_exceeded;
    });

    EXPECT_EQ(admitted, 2);
    EXPECT_EQ(exceeded, 18);
}

TEST_F(Mission, a_cancelled_or_lost_run_is_charged_for_what_it_may_have_used) {
    put_budget("all", Money::dollars(5), WindowKind::total);
    core::AdmitRun run = admission("");
    run.hold.usd = Money::dollars(1).nanos();
    const auto reply = tell<core::AdmitReply>(run);

    tell<core::RunReply>(core::LoseRun{reply.run, reply.fence, "its machine is gone"});

    EXPECT_EQ(number("select settled from runs"), Money::dollars(1).nanos());
    EXPECT_EQ(number("select unknown from runs"), Money::dollars(1).nanos());
    EXPECT_EQ(number("select settled from budget_windows"), Money::dollars(1).nanos());
    EXPECT_EQ(number("select held from budget_windows"), 0);
}

// ---- message numbers taken from a count ---------------------------------------------------------------------------

class AppendMessage : public Mission {
 protected:
    core::SessionId new_session() {
        const core::SessionId session(interlock->fresh_id());
        tell<core::SessionReply>(core::CreateSession{session, "writer", "", ""});
        return session;
    }
    core::AppendReply append(core::SessionId session, int messages, const std::string& content) {
        core::Append turn{.session = session, .messages = {}, .expected_seq = {}, .run = {}, .fence = {}};
        for (int i = 0; i < messages; ++i) {
            turn.messages.push_back({core::MessageId(interlock->fresh_id()), "user", content, "", 0, 0});
        }
        return tell<core::AppendReply>(turn);
    }
};

TEST_F(AppendMessage, sixty_four_writers_of_ten_thousand_messages_get_every_number_once) {
    constexpr int writers = 64;
    constexpr int appends_each = 10'000;
    const auto session = new_session();
    std::vector<std::vector<std::int64_t>> told(writers);

    in_threads(writers, [&](int writer) {
        auto& mine = told[static_cast<std::size_t>(writer)];
        for (int i = 0; i < appends_each; ++i) mine.push_back(append(session, 1, "hello").first_seq);
    });

    std::set<std::int64_t> all;
    for (const auto& mine : told) {
        EXPECT_TRUE(std::ranges::is_sorted(mine)) << "a writer's own messages keep its order";
        all.insert(mine.begin(), mine.end());
    }
    EXPECT_EQ(all.size(), std::size_t{writers} * appends_each);
    EXPECT_EQ(*all.begin(), 0);
    EXPECT_EQ(*all.rbegin(), writers * appends_each - 1);
    EXPECT_EQ(number("select count(*) from messages"), writers * appends_each);
    EXPECT_EQ(number("select count(distinct seq) from messages"), writers * appends_each);
    EXPECT_EQ(number("select max(seq) from messages"), writers * appends_each - 1);
}

TEST_F(AppendMessage, sixteen_writers_of_whole_turns_keep_each_turn_together) {
    const auto session = new_session();

    in_threads(16, [&](int writer) {
        for (int i = 0; i < 10; ++i) append(session, 3, std::to_string(writer * 10 + i));
    });

    EXPECT_EQ(number("select count(*) from messages"), 16 * 10 * 3);
    EXPECT_EQ(number("select count(distinct content) from messages"), 160);
    EXPECT_EQ(
        number("select count(*) from (select content from messages group by content having max(seq) - min(seq) <> 2)"),
        0);
}

// ---- "is anybody running here?" -----------------------------------------------------------------------------------

TEST_F(Mission, of_two_thousand_pairs_that_start_at_once_on_one_directory_exactly_one_of_each_wins) {
    constexpr int pairs = 2000;
    std::vector<std::array<core::AdmitReply, 2>> replies(pairs);
    std::barrier start(2);

    const auto starter = [&](std::size_t side) {
        for (std::size_t i = 0; i < pairs; ++i) {
            const core::AdmitRun run = admission("/srv/place/" + std::to_string(i));
            start.arrive_and_wait();
            replies[i][side] = tell<core::AdmitReply>(run);
        }
    };
    std::thread one(starter, 0);
    std::thread other(starter, 1);
    one.join();
    other.join();

    for (const auto& [a, b] : replies) {
        const bool a_won = a.status == AdmitStatus::admitted;
        const auto& winner = a_won ? a : b;
        const auto& loser = a_won ? b : a;
        ASSERT_EQ(winner.status, AdmitStatus::admitted);
        ASSERT_EQ(loser.status, AdmitStatus::workspace_busy);
        ASSERT_EQ(loser.holder->run, winner.run);
    }
}

TEST_F(Mission, a_starting_a_running_and_a_paused_run_all_hold_their_directory) {
    const auto first = admit("/srv/repo");
    EXPECT_EQ(admit("/srv/repo").status, AdmitStatus::workspace_busy);

    tell<core::RunReply>(core::StartRun{first.run, first.fence});
    EXPECT_EQ(admit("/srv/repo/src").status, AdmitStatus::workspace_busy);

    tell<core::RunReply>(core::PauseRun{first.run, first.fence});
    EXPECT_EQ(admit("/srv").status, AdmitStatus::workspace_busy);

    tell<core::RunReply>(core::FinishRun{first.run, first.fence, RunState::succeeded, "", {}});
    EXPECT_EQ(admit("/srv/repo").status, AdmitStatus::admitted);
}

TEST_F(Mission, queued_runs_get_the_directory_one_after_the_other_and_never_two_at_once) {
    constexpr int runs = 50;
    std::vector<core::AdmitReply> replies(runs);

    in_threads(runs,
               [&](int i) { replies[static_cast<std::size_t>(i)] = admit("/srv/repo", core::OnConflict::queue); });

    EXPECT_EQ(std::ranges::count(replies, AdmitStatus::admitted, &core::AdmitReply::status), 1);
    for (int i = 0; i < runs; ++i) {
        ASSERT_EQ(number("select count(*) from runs where state in ('starting', 'running', 'paused')"), 1);
        ASSERT_EQ(number("select count(*) from claims"), 1);
        auto snapshot = interlock->store().snapshot();
        core::RunId live;
        std::int64_t fence = 0;
        ASSERT_TRUE((*snapshot)->query("select id, fence from runs where state = 'starting'", [&](const auto& row) {
            const auto& bytes = std::get<std::string>(row[0]);
            for (std::size_t byte = 0; byte < 16; ++byte) {
                auto& half = byte < 8 ? live.value.high : live.value.low;
                half = (half << 8) | static_cast<unsigned char>(bytes[byte]);
            }
            fence = std::get<std::int64_t>(row[1]);
        }));
        const auto done = tell<core::RunReply>(core::FinishRun{live, core::Fence(fence), RunState::succeeded, "", {}});
        ASSERT_EQ(done.status, core::RunStatus::done);
    }
    EXPECT_EQ(number("select count(*) from runs where state = 'succeeded'"), runs);
    EXPECT_EQ(number("select count(*) from claims"), 0);
}

TEST_F(Mission, one_at_a_time_stays_one_at_a_time_when_a_zombie_comes_back) {
    put_agent("single", 1);
    const auto as_single = [&] {
        core::AdmitRun run = admission("");
        run.who.agent = "single";
        return run;
    };
    const auto zombie = tell<core::AdmitReply>(as_single());
    tell<core::RunReply>(core::LoseRun{zombie.run, zombie.fence, "no heartbeat"});
    const auto successor = tell<core::AdmitReply>(as_single());
    ASSERT_EQ(successor.status, AdmitStatus::admitted);

    const auto late = tell<core::RunReply>(core::FinishRun{zombie.run, zombie.fence, RunState::succeeded, "", {}});

    EXPECT_EQ(late.status, core::RunStatus::stale_fence);
    EXPECT_EQ(tell<core::AdmitReply>(as_single()).status, AdmitStatus::concurrency_limit);
}

// ---- back-pressure ------------------------------------------------------------------------------------------------

TEST_F(Mission, a_second_server_on_the_data_is_refused_and_the_first_goes_on) {
    const auto second = Embedded::open({.directory = scratch.path(), .engine = {}});

    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, store::OpenError::Kind::in_use);
    EXPECT_EQ(charge(Money::nanos(1)), ChargeStatus::charged);
}

TEST_F(Mission, what_was_answered_is_there_after_a_clean_end_and_a_new_beginning) {
    charge(Money::nanos(5));
    interlock.reset();
    auto again = Embedded::open({.directory = scratch.path(), .engine = {}});
    ASSERT_TRUE(again);
    interlock = std::move(*again);

    EXPECT_EQ(number("select settled from agent_totals where agent = 'writer'"), 5);
}

}  // namespace
}  // namespace interlock::engine
