// `interlock verify`: verifies every guarantee against the rows of a store and prints a report.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/output.h"
#include "nodes/history.h"
#include "server/offline_store.h"
#include "verify/verify.h"

namespace interlock::server {

struct VerifyOptions {
    StoreAddress store;
    bool repair = false;  // Rebuild wrong counters. Needs exclusive use of the store.
    bool json = false;
    std::size_t examples_max = 5;
    // Heads that the store must still have: "N:HASH", or "ORG/N:HASH".
    std::vector<std::string> heads = {};
    std::vector<store::SealKey> seal_keys = {};
    // The server's record of the store (nodes/history.h), read before the store.
    nodes::History::Memory remembered = {};
};

// Exit codes.
enum class VerifyExit : int {
    clean = 0,
    violations = 1,
    could_not_verify = 2,  // No store, another program's store, unreadable, or (for repair) in use.
};

VerifyExit verify_command(VerifyOptions options, const cli::CliOutput& output);

// The report on a snapshot, with progress on a terminal that shows it.
Result<verify::Report, store::ReadError> check_promises(store::Snapshot& snapshot, verify::Options how,
                                                        const cli::CliOutput& output);

// The output of --json for a snapshot. Uses the seal keys and the record of `options`. The error is a sentence.
Result<std::string, std::string> verify_as_json(store::Snapshot& snapshot, const VerifyOptions& options);

// The table of guarantees.
std::string promise_table(const verify::Report& report, std::chrono::duration<double> took,
                          const cli::CliOutput& output);

}  // namespace interlock::server
