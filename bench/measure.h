// One workload measured beside its two neighbours: the naive program below it, the bare log above it.
//
// The three take turns, several rounds of each, and the medians are compared: on a machine that others use too, rates
// taken a minute apart say more about the minute than about the programs.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "bench/report.h"
#include "bench/workload.h"

namespace interlock::bench {

struct Settings {
    std::filesystem::path directory;
    std::vector<std::size_t> clients;
    double seconds = 1;
    std::uint64_t commands = UINT64_MAX;  // A measurement ends earlier, when this many were answered.
    bool in_step = false;                 // Every batch has a command of each client.
    int rounds = 3;
    std::uint64_t events = 10'000'000;  // How many the flat-cost part fills the store with.
    bool alone = false;                 // Without the neighbours.
};

using MakeWorkload = std::function<std::unique_ptr<Workload>()>;

// Adds a row per number of clients, and rows for the neighbours where `show_peers` asks for them.
enum class Peers { hidden, shown };
void measure(Report& report, Progress& progress, const Settings& settings, const MakeWorkload& make, Peers peers);

double median(std::vector<double> values);

}  // namespace interlock::bench
