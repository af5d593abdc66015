#include "net/answer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "net/worker_pool.h"

namespace interlock::net {
namespace {

namespace asio = boost::asio;

// Runs a coroutine to its end on an io_context of its own, and throws what it threw.
template <class T>
T run(Task<T> task) {
    asio::io_context context(1);
    std::optional<T> result;
    std::exception_ptr thrown;
    asio::co_spawn(context, std::move(task), [&](std::exception_ptr error, T value) {
        thrown = error;
        result = std::move(value);
    });
    context.run();
    if (thrown) std::rethrow_exception(thrown);
    return std::move(*result);
}

TEST(Answer, comes_from_another_thread) {
    std::thread thread;

    const auto answer = run(await_answer<std::string>(
        [&](Deliver<std::string> deliver) { thread = std::thread([deliver] { deliver("hello"); }); }));
    thread.join();

    EXPECT_EQ(answer, "hello");
}

TEST(Answer, may_come_before_anybody_waits) {
    EXPECT_EQ(run(await_answer<int>([](Deliver<int> deliver) { deliver(7); })), 7);
}

TEST(Answer, may_be_something_that_only_moves) {
    const auto answer = run(await_answer<std::unique_ptr<int>>(
        [](Deliver<std::unique_ptr<int>> deliver) { deliver(std::make_unique<int>(7)); }));

    EXPECT_EQ(*answer, 7);
}

TEST(Answer, that_nobody_can_give_any_more_is_an_exception) {
    std::thread thread;

    EXPECT_THROW(run(await_answer<int>([&](Deliver<int> deliver) {
                     thread = std::thread([dropped = std::function<void(int)>(deliver)] {});
                     (void)deliver;
                 })),
                 AnswerDropped);
    thread.join();
}

Task<void> count_answer(std::vector<Deliver<int>>& asked, std::atomic<int>& sum) {
    sum += co_await await_answer<int>([&](Deliver<int> deliver) { asked.push_back(deliver); });
}

TEST(Answer, a_burst_is_opened_together_by_one_post) {
    constexpr int count = 10'000;
    asio::io_context context(1);
    std::vector<Deliver<int>> asked;
    std::atomic<int> sum = 0;
    for (int i = 0; i < count; ++i) asio::co_spawn(context, count_answer(asked, sum), asio::detached);
    context.poll();
    ASSERT_EQ(asked.size(), std::size_t{count});

    std::thread([&] {
        for (const auto& deliver : asked) deliver(1);
    }).join();

    EXPECT_EQ(context.run_one(), 1u);
    EXPECT_EQ(sum, count);
    EXPECT_EQ(context.poll(), 0u);
}

TEST(Answer, after_the_end_of_the_io_context_finds_nobody) {
    std::vector<Deliver<int>> asked;
    std::atomic<int> sum = 0;
    {
        asio::io_context context(1);
        for (int i = 0; i < 3; ++i) asio::co_spawn(context, count_answer(asked, sum), asio::detached);
        context.poll();
        asked[0](1);  // In the box when it ends.
    }
    asked[1](1);
    asked.clear();

    EXPECT_EQ(sum, 0);
}

TEST(AnswerDeathTest, given_twice_is_a_contradiction) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    EXPECT_DEATH(run(await_answer<int>([](Deliver<int> deliver) {
                     deliver(1);
                     deliver(2);
                 })),
                 "invariant \\(1\\)");
}

TEST(WorkerPool, runs_work_elsewhere_and_brings_the_result_back) {
    WorkerPool pool({.threads = 1});

    const auto worker = run(run_on(pool, [] { return std::this_thread::get_id(); }));

    EXPECT_NE(worker, std::this_thread::get_id());
}

Task<bool> comes_back_to_its_thread(WorkerPool& pool) {
    const auto before = std::this_thread::get_id();
    co_await run_on(pool, [] {});
    co_return before == std::this_thread::get_id();
}

TEST(WorkerPool, a_coroutine_goes_on_where_it_was) {
    WorkerPool pool({.threads = 2});

    EXPECT_TRUE(run(comes_back_to_its_thread(pool)));
}

TEST(WorkerPool, gives_way_to_other_threads_if_it_is_nice) {
    const auto nice_of_thread = [] { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())); };
    WorkerPool even({.threads = 1});
    WorkerPool nice({.threads = 1, .nice = 3});

    EXPECT_EQ(run(run_on(even, nice_of_thread)), nice_of_thread());
    EXPECT_EQ(run(run_on(nice, nice_of_thread)), std::min(nice_of_thread() + 3, 19));
}

TEST(WorkerPool, carries_exceptions) {
    WorkerPool pool({.threads = 1});

    EXPECT_THROW(run(run_on(pool, []() -> int { throw std::out_of_range("7"); })), std::out_of_range);
}

TEST(WorkerPool, refuses_what_does_not_fit_into_its_queue) {
    WorkerPool pool({.threads = 1, .queue_max = 1});
    std::mutex block;
    block.lock();
    std::atomic<bool> begun = false;
    ASSERT_TRUE(pool.submit([&] {
        begun = true;
        const std::lock_guard wait(block);
    }));
    while (!begun) std::this_thread::yield();
    ASSERT_TRUE(pool.submit([] {}));

    EXPECT_THROW(run(run_on(pool, [] { return 1; })), Busy);

    block.unlock();
}

TEST(WorkerPool, finishes_what_is_queued_before_it_ends) {
    std::atomic<int> done = 0;
    {
        WorkerPool pool({.threads = 2});
        for (int i = 0; i < 100; ++i) ASSERT_TRUE(pool.submit([&] { ++done; }));
    }

    EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace interlock::net
