// I/O errors and a full disk, at every call the store makes of the disk: once, or from then on until somebody repairs
// it.
//
// A client sends the batches of a workload, and later asks again for whatever was not answered. Asked in each run:
//
//   (1) Every command is answered, whatever the disk does.
//   (2) At the moment after the fault struck, killed or without power: everything acknowledged is there, and nothing
//       that was answered with "not done" is.
//   (3) Once the disk is well again the engine is too, without being opened anew, and carries out what is asked again.
//   (4) In the end everything acknowledged has its first answer still, and verify() finds every sum as it should be:
//       nothing happened twice, also where a sync failed whose bytes were on the medium all the same.
//
// The same while a store is made, while one is opened that a kill left behind, and while one is closed: opening says
// that it cannot, or it opens; once the disk is well it opens, and nothing is missing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "crash/disk.h"

namespace interlock::crash {

struct FaultTally {
    std::array<std::uint64_t, fault_kinds> runs = {};
    std::uint64_t struck = 0;
    std::uint64_t done = 0;  // Commands, by how they were answered at first.
    std::uint64_t not_done = 0;
    std::uint64_t unknown = 0;
    std::uint64_t violations = 0;
    std::vector<std::string> examples;

    std::uint64_t all_runs() const;
    void add(const FaultTally& other);
};

struct FaultOptions {
    std::uint64_t seed = 1;
    std::uint64_t stride = 1;  // Every how-manieth call fails in a run of its own.
    std::size_t batches = 10;
    unsigned threads = 2;
    std::function<void(std::uint64_t runs, std::uint64_t of)> progress = {};
};

FaultTally run_faults(const FaultOptions& options);

// One of them: for tests and for replaying.
FaultTally run_fault(const FaultOptions& options, Fault fault);

}  // namespace interlock::crash
