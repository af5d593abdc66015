// The agents' line to the engine's process: starts it, asks it, kills it, and asks again.
//
//   (1) A command that got no answer is sent again, with the same key and content, until it gets one; also to the
//       process that comes after a killed one.
//   (2) An answer that was under way when the process was killed is not heard, as if the connection had broken.
//   (3) What the killed process had acknowledged is remembered, so that all of it can be asked again.
//
// Everything happens on the one thread that runs the io_context.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/result.h"
#include "core/command.h"
#include "core/reply.h"
#include "demo/books.h"
#include "demo/wire.h"
#include "engine/id_source.h"

namespace interlock::demo {

namespace asio = boost::asio;

// How a coroutine ends that nobody waits for: an exception comes out of the io_context's run().
inline void rethrow(std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
}

// Somebody waits for a value that somebody else brings, once.
template <class Value>
class Mailbox {
 public:
    explicit Mailbox(asio::io_context& io) : arrived_(io, asio::steady_timer::time_point::max()) {}

    void put(Value value) {
        if (value_) return;  // The first one counts.
        value_ = std::move(value);
        arrived_.cancel();
    }
    asio::awaitable<Value> take();

 private:
    asio::steady_timer arrived_;
    std::optional<Value> value_;
};

class Link {
 public:
    Link(asio::io_context& io, std::string directory);
    ~Link();
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    // Starts the process and waits until it has opened its store. The error is for people.
    asio::awaitable<Result<void, std::string>> start();

    asio::awaitable<core::Reply> ask(core::CommandBody body);
    // Waits until a run in line has its place. An empty fence: tired of waiting.
    asio::awaitable<core::Fence> granted(core::RunId run);
    void tire_of_waiting();

    asio::awaitable<void> kill_process();  // -9
    void note_left_behind(std::string what) { tally_.left_behind = std::move(what); }
    void ask_everything_again();  // That the killed process had acknowledged.
    bool asking_again() const { return !remembering_ && (!acknowledged_.empty() || asked_again_open_ > 0); }

    // Lets the process end by itself. False when it did not.
    asio::awaitable<bool> finish();

    // What makes it pointless to go on: the process ended by itself, or its store takes nothing more.
    const std::string& failure() const { return failure_; }
    const KillTally& tally() const { return tally_; }
    std::int64_t answers() const { return answers_; }
    std::uint64_t commits() const { return commits_before_ + commits_; }
    Id fresh_id();

 private:
    struct Connection;
    struct Pending {
        DemoCommand question;
        std::function<void(const DemoAnswer&)> on_heard;
        bool was_in_flight = false;  // When the process was killed.
    };
    struct Acknowledged {
        core::CommandKey key;
        std::string body;
        std::string reply;
    };

    Result<int, std::string> spawn();  // Our end of the socket.
    asio::awaitable<void> listen(std::shared_ptr<Connection> connection);
    asio::awaitable<void> talk(std::shared_ptr<Connection> connection);
    void send(const DemoCommand& question);
    asio::awaitable<void> send_later(std::shared_ptr<Connection> connection, std::uint64_t number);
    void post(DemoCommand question, std::function<void(const DemoAnswer&)> on_heard);
    void hear(const DemoEvent& message);
    void hear(const DemoAnswer& heard);
    void hear_error(const DemoAnswer& heard);
    void lost_process();
    void ask_next_again();
    int end_process(int signal);

    asio::io_context& io_;
    const std::string directory_;
    engine::IdSource ids_;
    std::shared_ptr<Connection> connection_;
    pid_t pid_ = -1;
    bool ready_ = false;  // The process has opened its store and was sent what is pending.

    std::uint64_t last_number_ = 0;
    std::map<std::uint64_t, Pending> pending_;
    std::map<core::RunId, std::shared_ptr<Mailbox<core::Fence>>> in_line_;
    std::deque<Acknowledged> acknowledged_;
    bool remembering_ = true;                       // Until the kill.
    int asked_again_open_ = 0;                      // Asked again and not answered yet.
    std::shared_ptr<Mailbox<std::string>> opened_;  // Empty: the store is open. Otherwise why not.
    std::optional<std::chrono::steady_clock::time_point> failing_since_;
    std::string failure_;
    KillTally tally_;
    std::int64_t answers_ = 0;
    std::uint64_t commits_ = 0;
    std::uint64_t commits_before_ = 0;  // Of the process that was killed.
};

template <class Value>
asio::awaitable<Value> Mailbox<Value>::take() {
    while (!value_) co_await arrived_.async_wait(asio::as_tuple(asio::use_awaitable));
    Value value = std::move(*value_);
    value_.reset();
    co_return value;
}

}  // namespace interlock::demo
