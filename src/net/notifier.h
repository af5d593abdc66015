// A bell: any thread rings it, and every coroutine that waits for it wakes up.
//
//   (1) A ring is never missed: a waiter says which generation it has seen, and returns at once if there is a newer
//   one.
//       So read generation() first, then look at the data, then wait(); ring() after changing the data.
//   (2) ring() costs at most one post per io_context, however many wait there, and none while one is on its way.
//
// A bell carries no data and keeps no count of who has heard it.
#pragma once

#include <cstdint>
#include <memory>

#include "net/task.h"

namespace interlock::net {

class Hangup;

class Notifier {
 public:
    Notifier();
    ~Notifier();  // Nobody waits any more.
    Notifier(const Notifier&) = delete;
    Notifier& operator=(const Notifier&) = delete;

    std::uint64_t generation() const;  // Starts at 0; each ring adds one.
    void notify_all();

    // True: the bell has rung since `seen`. False: the deadline came, the caller's io_context ended its waits (a server
    // that drains), or `hangup` was hung up.
    Task<bool> wait(std::uint64_t seen, SteadyTime deadline, Hangup* hangup = nullptr);

    struct State;
    struct Wait;

 private:
    std::shared_ptr<State> state_;
};

// Ends one coroutine's wait early, from the coroutine's own thread.
class Hangup {
 public:
    void hang_up();
    bool hung_up() const { return hung_up_; }

 private:
    friend class Notifier;
    bool hung_up_ = false;
    Notifier::Wait* waiting_ = nullptr;
};

}  // namespace interlock::net
