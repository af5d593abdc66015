// Calls that wait for budget that other calls hold. It comes back as these end.
//
//   (1) Waiters of one budget are woken one at a time, the one that has waited longest first. Who is woken and
//       finds too little keeps its place.
//   (2) A wait ends at its deadline at the latest.
//
// Nothing is decided here: a call that is woken asks the core again.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/rows.h"
#include "net/answer.h"

namespace interlock::gateway {

class BudgetWaitQueue {
 public:
    using Ticket = std::uint64_t;
    Ticket draw() { return ++last_ticket_; }

    // True: it may be worth asking again. False: the deadline came.
    net::Task<bool> wait(core::OrgId org, std::string budget, Ticket ticket, net::SteadyTime deadline);

    bool anybody_waits();
    // Something was given back in this org. From any thread, like the next.
    void released(core::OrgId org);
    // Ends the waits whose time is over, and has the first of every line ask again: others give back too.
    void tick(net::SteadyTime now);

 private:
    struct Waiter {
        net::Deliver<bool> wake;
        net::SteadyTime deadline;
    };
    using Line = std::map<Ticket, Waiter>;

    std::atomic<Ticket> last_ticket_ = 0;
    std::mutex mutex_;
    std::map<std::pair<core::OrgId, std::string>, Line> lines_;
};

}  // namespace interlock::gateway
