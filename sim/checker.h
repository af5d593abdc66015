// A checker: an own, naive model of a promise. It shares no code with core/, or it would share its mistakes.
//
// It has three sources: what clients sent and were answered, every write set that became durable, and the rows.
#pragma once

#include "sim/world.h"
#include "store/memory_database.h"

namespace interlock::sim {

using Rows = store::MemoryDatabase;

class Checker {
 public:
    virtual ~Checker() = default;

    virtual void sent(World&, const Call&) {}
    virtual void heard(World&, const Call&, const engine::SubmitResult&) {}
    // Told of each commit that truly happened, whatever the engine was told.
    virtual void committed(World&, const store::WriteSet&) {}
    virtual void check(World& world, const Rows& rows) = 0;
};

std::unique_ptr<Checker> make_ledger_checker();    // P1: rows against rows.
std::unique_ptr<Checker> make_payments_checker();  // P1, P3: what was charged against what clients were told.
std::unique_ptr<Checker> make_ceiling_checker();   // P2
std::unique_ptr<Checker> make_sessions_checker();  // P4
std::unique_ptr<Checker> make_places_checker();    // P5, P6, P7
std::unique_ptr<Checker> make_ticks_checker();     // P8
std::unique_ptr<Checker> make_endings_checker();   // P9
std::unique_ptr<Checker> make_tries_checker();     // P9: runs that are tried again; P5: ports.
std::unique_ptr<Checker> make_settings_checker();  // P3: versions of settings, and calls that are recorded once.
std::unique_ptr<Checker> make_history_checker();   // P1, P8, P9: marks, ticks and steps.
std::unique_ptr<Checker> make_feed_checker();      // The chain, and that it tells what the rows tell.

}  // namespace interlock::sim
