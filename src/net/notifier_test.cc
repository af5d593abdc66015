#include "net/notifier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <thread>
#include <vector>

#include "net/completion_queue.h"
#include "net/http_test_support.h"

namespace interlock::net {
namespace {

using std::chrono::steady_clock;

SteadyTime in(milliseconds time) { return steady_clock::now() + time; }
constexpr milliseconds long_time{20'000};

struct Heard {
    std::atomic<int> waiting = 0;
    std::atomic<int> notified = 0;
    std::atomic<int> missed = 0;
};

Task<void> listen(Notifier& notifier, Heard& heard, std::uint64_t seen, SteadyTime deadline, Hangup* hangup = nullptr) {
    ++heard.waiting;
    const bool notified = co_await notifier.wait(seen, deadline, hangup);
    ++(notified ? heard.notified : heard.missed);
}

// io_contexts with a thread each.
class Loops {
 public:
    explicit Loops(std::size_t count) : contexts_(count) {
        for (auto& context : contexts_) {
            context = std::make_unique<boost::asio::io_context>(1);
            guards_.emplace_back(context->get_executor());
            threads_.emplace_back([&running = *context] { running.run(); });
        }
    }
    ~Loops() {
        for (auto& context : contexts_) context->stop();
        for (std::thread& thread : threads_) thread.join();
    }
    boost::asio::io_context& operator[](std::size_t i) { return *contexts_[i]; }

 private:
    std::vector<std::unique_ptr<boost::asio::io_context>> contexts_;
    std::vector<boost::asio::executor_work_guard<Executor>> guards_;
    std::vector<std::thread> threads_;
};

TEST(Notifier, wakes_ten_thousand_on_two_threads) {
    Notifier notifier;
    Heard heard;
    Loops loops(2);
    for (std::size_t i = 0; i < 10'000; ++i) {
        boost::asio::co_spawn(loops[i % 2], listen(notifier, heard, 0, in(long_time)), boost::asio::detached);
    }
    ASSERT_TRUE(eventually([&] { return heard.waiting == 10'000; }));

    notifier.notify_all();

    EXPECT_TRUE(eventually([&] { return heard.notified == 10'000; }));
    EXPECT_EQ(heard.missed, 0);
}

TEST(Notifier, a_ring_that_was_not_seen_is_not_missed) {
    Notifier notifier;
    Heard heard;
    boost::asio::io_context context(1);
    const auto seen = notifier.generation();
    notifier.notify_all();

    boost::asio::co_spawn(context, listen(notifier, heard, seen, in(long_time)), boost::asio::detached);
    context.run();

    EXPECT_EQ(heard.notified, 1);
}

TEST(Notifier, a_ring_that_was_seen_does_not_wake) {
    Notifier notifier;
    Heard heard;
    boost::asio::io_context context(1);
    notifier.notify_all();

    boost::asio::co_spawn(context, listen(notifier, heard, notifier.generation(), in(milliseconds(20))),
                          boost::asio::detached);
    context.run();

    EXPECT_EQ(heard.missed, 1);
}

Task<void> hear_them_all(Notifier& notifier, std::uint64_t last, std::atomic<int>& done) {
    std::uint64_t seen = 0;
    while (seen < last) {
        const bool notified = co_await notifier.wait(seen, in(long_time));
        EXPECT_TRUE(notified);
        if (!notified) co_return;
        seen = notifier.generation();
    }
    ++done;
}

// Waiters that come and go while the bell rings from two threads: none sleeps through the last ring.
TEST(Notifier, no_ring_is_missed_while_waiters_come_and_go) {
    constexpr std::uint64_t rings = 20'000;
    Notifier notifier;
    std::atomic<int> done = 0;
    Loops loops(2);
    for (std::size_t i = 0; i < 20; ++i) {
        boost::asio::co_spawn(loops[i % 2], hear_them_all(notifier, 2 * rings, done), boost::asio::detached);
    }

    std::thread other([&] {
        for (std::uint64_t i = 0; i < rings; ++i) notifier.notify_all();
    });
    for (std::uint64_t i = 0; i < rings; ++i) notifier.notify_all();
    other.join();

    EXPECT_TRUE(eventually([&] { return done == 20; }));
}

TEST(Notifier, a_hangup_ends_one_wait) {
    Notifier notifier;
    Heard heard;
    Heard other_heard;
    Hangup hangup;
    Loops loops(1);
    boost::asio::co_spawn(loops[0], listen(notifier, heard, 0, in(long_time), &hangup), boost::asio::detached);
    boost::asio::co_spawn(loops[0], listen(notifier, other_heard, 0, in(long_time)), boost::asio::detached);
    ASSERT_TRUE(eventually([&] { return other_heard.waiting == 1; }));

    boost::asio::post(loops[0], [&] { hangup.hang_up(); });

    EXPECT_TRUE(eventually([&] { return heard.missed == 1; }));
    EXPECT_EQ(other_heard.missed, 0);
}

TEST(Notifier, an_io_context_can_end_all_its_waits) {
    Notifier notifier;
    Heard ended;
    Heard elsewhere;
    Loops loops(2);
    boost::asio::co_spawn(loops[0], listen(notifier, ended, 0, in(long_time)), boost::asio::detached);
    boost::asio::co_spawn(loops[1], listen(notifier, elsewhere, 0, in(long_time)), boost::asio::detached);
    ASSERT_TRUE(eventually([&] { return ended.waiting == 1 && elsewhere.waiting == 1; }));

    boost::asio::post(loops[0], [&] { CompletionQueue::of(loops[0].get_executor()).end_waits(); });

    EXPECT_TRUE(eventually([&] { return ended.missed == 1; }));
    EXPECT_EQ(elsewhere.missed, 0);
    notifier.notify_all();
    EXPECT_TRUE(eventually([&] { return elsewhere.notified == 1; }));
}

TEST(Notifier, may_ring_when_the_io_context_of_its_waiters_has_ended) {
    Notifier notifier;
    Heard heard;
    {
        Loops loops(1);
        boost::asio::co_spawn(loops[0], listen(notifier, heard, 0, in(long_time)), boost::asio::detached);
        ASSERT_TRUE(eventually([&] { return heard.waiting == 1; }));
    }

    notifier.notify_all();

    EXPECT_EQ(heard.notified, 0);
}

}  // namespace
}  // namespace interlock::net
