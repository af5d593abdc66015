// A history: a workload carried out by a real engine on a real SQLite store on a disk in memory, with everything that
// is needed to judge what a crash leaves of it: the disk's log, who was answered what and when in that log, and what
// the store held after each batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/command.h"
#include "crash/disk.h"
#include "crash/power_loss.h"
#include "crash/power_loss_vfs.h"
#include "crash/stored_state.h"
#include "store/sqlite_store.h"

namespace interlock::crash {

// Faults that are put in on purpose. A checker that finds none of them is no checker.
enum class Sabotage {
    none,
    synchronous_normal,  // Commits are answered before they are on the medium.
    synchronous_off,     // Nothing is ever synced.
    counters_apart,      // Events first, their counters in a transaction of their own.
    batch_in_halves,     // Each batch in two transactions.
};
std::string_view to_text(Sabotage sabotage);

struct HistoryOptions {
    std::uint64_t seed = 1;
    std::size_t batches = 60;
    Overwrite overwrite = Overwrite::powersafe;
    Sabotage sabotage = Sabotage::none;
};

struct Spoken {
    core::Command command;
    std::string reply;  // Encoded.
    bool done = false;  // It says that something was done.
};

// One transaction: a batch of commands, or what the passing of time has done.
struct Commit {
    std::size_t began_at = 0;  // Positions in the log: how many changes had been made by then.
    std::size_t returned_at = 0;
    Instant now;
    std::vector<Spoken> spoken;  // Whoever was answered after it.
    StoredState state;           // After it.
};

struct History {
    HistoryOptions options;
    std::vector<Change> log;
    StoredState at_first;       // A store that was only opened.
    std::size_t set_up_at = 0;  // Position in the log at which the workload proper begins.
    std::vector<Commit> commits;
};

// A store as the history's engine had it: the files on whatever disk is mounted there.
std::unique_ptr<store::Store> make_store(const PowerLossVfs& vfs, Sabotage sabotage = Sabotage::none);

// An error says what went wrong without any crash.
Result<History, std::string> record_history(const HistoryOptions& options);

}  // namespace interlock::crash
