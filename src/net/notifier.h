// A notifier: any thread calls notify_all(), and every coroutine that waits for it wakes up.
//
//   (1) A call is never missed: a waiter says which generation it has seen, and returns at once if there is a newer
//       one. So read generation() first, then look at the data, then wait(). Call notify_all() after
//       changing the data.
//   (2) notify_all() costs at most one post per io_context, however many wait there, and none while one is on its way.
//
// A notifier carries no data and does not count who has heard it.
#pragma once

#include <cstdint>
#include <memory>

#include "net/task.h"

namespace interlock::net {

class Hangup;

class Notifier {
 public:
    Notifier();
    ~Notifier();  // No coroutine waits any more.
    Notifier(const Notifier&) = delete;
    Notifier& operator=(const Notifier&) = delete;

    std::uint64_t generation() const;  // Starts at 0; each notify_all() adds one.
    void notify_all();

    // True: notify_all() was called since `seen`. False: the deadline came, the caller's io_context ended its waits
    // (a server that drains), or `hangup` was hung up.
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
