// kill -9 of a real process under load.
//
// The parent starts this same program as a worker: an embedded engine on a directory, and many threads that charge,
// append and run. Each writes what it was answered to a pipe, after it was answered. The parent kills the worker at a
// random moment, reads the pipe to its end and asks:
//
//   (1) verify() finds nothing, on the files as the dead worker left them and again after they were opened.
//   (2) Everything the worker was answered is there: asked again, each command is known and gets its first answer.
//   (3) The messages of the session are 0, 1, 2, …, none twice, each turn together and where its answer said it is.
//
// Then it starts the next worker on the same files. Every few kills the worker is 64 writers on one session alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace interlock::crash {

struct WorkerOptions {
    std::string directory;
    std::uint64_t epoch = 0;  // Which worker this is; keys and contents are made from it.
    unsigned clients = 16;
    bool session_only = false;
    std::uint64_t commands_max = 0;  // For each client; 0: until killed.
};

// What the worker does. Returns the exit code, if it lives so long.
int work_until_killed(const WorkerOptions& options);

// An acknowledgement that no worker ever gave, put among the others on purpose: it must be found missing.
enum class Forged { nothing, charge, turn };

struct KillOptions {
    std::string program;    // This program, to be started as a worker.
    std::string directory;  // For the data; emptied now and then.
    std::uint64_t seed = 1;
    unsigned kills = 10;
    unsigned life_ms_max = 400;
    Forged forged = Forged::nothing;
    bool at_system_calls = false;  // Killed by strace at its k-th write or sync, instead of after a time.
    std::function<void(unsigned kills)> progress = {};
};

struct KillTally {
    std::uint64_t kills = 0;
    std::uint64_t session_kills = 0;  // Of them, with 64 writers on one session.
    std::uint64_t acknowledged = 0;
    std::uint64_t asked_again = 0;
    std::uint64_t messages = 0;
    std::uint64_t violations = 0;
    std::vector<std::string> examples;

    void add(const KillTally& other);
};

KillTally run_kills(const KillOptions& options);

bool has_strace();

}  // namespace interlock::crash
