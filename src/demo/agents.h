// The simulated agents: client loops that spend, write and work at once, and keep books of what they were told.
//
// Each one wants a directory for a while, makes a few calls there that it holds money for, adds a turn to the session
// that all of them share, and leaves; or it does a little without a directory. Being refused is normal. Whoever works
// in a directory has an advisory lock (flock) on a file in it, which Interlock knows nothing of: if two ever work in
// one place, the second one does not get the lock.
#pragma once

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "base/result.h"
#include "core/command.h"
#include "core/reply.h"
#include "demo/books.h"
#include "demo/link.h"

namespace interlock::demo {

class Agents {
 public:
    struct Options {
        std::string directory;  // The workplaces are made in here.
        int count = 100;
        std::chrono::duration<double> time{8};  // After most of which the money should be spent.
        std::uint64_t seed = 1;
    };

    Agents(asio::io_context& io, Link& link, Options options);

    // Makes the workplaces. The error is for people.
    Result<void, std::string> make_places();
    // Makes the budget and the session. False when Interlock refused one.
    asio::awaitable<bool> prepare();
    void begin();
    void stop() { stopping_ = true; }  // They finish what they have begun.
    bool all_stopped() const { return working_ == 0; }

    const DemoBooks& books() const { return books_; }

 private:
    // One way to name a directory.
    struct Door {
        std::string path;
        core::Place place;
        std::size_t book = 0;  // Whose place it is.
    };
    struct DemoAgent {
        int number = 0;
        std::mt19937_64 random;
        int turns = 0;
    };
    struct DemoJob {  // An agent's time in a place.
        core::RunId run;
        core::Fence fence;
    };

    asio::awaitable<void> live(int number);
    asio::awaitable<void> work_somewhere(DemoAgent& agent);
    asio::awaitable<core::Fence> stand_in_line(core::RunId run, PlaceBook& place);
    asio::awaitable<void> work_in(DemoAgent& agent, const Door& door, DemoJob job);
    asio::awaitable<void> work_anywhere(DemoAgent& agent);
    asio::awaitable<void> pay_with_hold(DemoAgent& agent, DemoJob job);
    asio::awaitable<void> pay(DemoAgent& agent, Money cost);
    asio::awaitable<void> take_the_rest(DemoAgent& agent, const std::optional<core::BudgetRefusal>& refusal);
    asio::awaitable<void> add_turn(DemoAgent& agent, DemoJob job, int parts);
    asio::awaitable<void> think(DemoAgent& agent, int milliseconds_max);

    Money cost_of_call(DemoAgent& agent) const;
    void odd(std::string what);

    asio::io_context& io_;
    Link& link_;
    const Options options_;
    DemoBooks books_;
    std::vector<Door> doors_;
    core::SessionId session_;
    std::chrono::steady_clock::time_point began_;
    int working_ = 0;
    bool stopping_ = false;
};

}  // namespace interlock::demo
