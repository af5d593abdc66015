// `interlock verify`: checks every promise against the rows of a store and prints what it found.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "nodes/history.h"
#include "server/offline_store.h"
#include "server/terminal.h"
#include "verify/verify.h"

namespace interlock::server {

struct VerifyOptions {
    StoreAddress store;
    bool repair = false;  // Rebuild the counters that are off. Needs the store to itself.
    bool json = false;
    std::size_t examples_max = 5;
    // Heads that were written down before: what the store must still have. "N:HASH", or "ORG/N:HASH".
    std::vector<std::string> heads = {};
    std::vector<store::SealKey> seal_keys = {};
    // What the server of the store remembers of it (nodes/history.h). It was read before the store was looked at.
    nodes::History::Memory remembered = {};
};

// How the process ends.
enum class VerifyExit : int {
    clean = 0,
    violations = 1,
    could_not_verify = 2,  // There is no store, it is not ours, it cannot be read, or (to repair it) it is in use.
};

VerifyExit verify_command(VerifyOptions options, const Terminal& terminal);

// The report on a snapshot, with progress on a terminal that shows it.
Result<verify::Report, store::ReadError> check_promises(store::Snapshot& snapshot, verify::Options how,
                                                        const Terminal& terminal);

// What the command prints with --json, of a snapshot that is at hand: of the options it takes the keys and what is
// remembered. The error is a sentence.
Result<std::string, std::string> verify_as_json(store::Snapshot& snapshot, const VerifyOptions& options);

// The table of promises, as the command prints it.
std::string promise_table(const verify::Report& report, std::chrono::duration<double> took, const Terminal& terminal);

}  // namespace interlock::server
