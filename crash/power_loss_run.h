// Power-loss images of histories, made at every change to the disk and judged.
//
// At each change the power may fail. What the medium then holds is made in the ways of power_loss.h and opened as a
// server would open it. Of each image is asked:
//
//   (1) It opens, as a store and as an engine.
//   (2) It holds exactly what the store held after the last batch that was answered, or, if the next batch had begun,
//       after that one: so no acknowledged command is missing, and no batch is there in part. All rows of all tables
//       are compared by digest, all keys one by one. Each of these states was found right by verify().
//   (3) Counters add up, by a few sums of their own.
//
// Every few images, because it takes longer: verify(); every acknowledged command asked again gets its first answer;
// the commands of the batch that was under way are asked again, all of them being new or none; the power fails a second
// time while the image is being opened, and (1) to (3) are asked again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "crash/history.h"

namespace interlock::crash {

enum class Wrong {
    not_opened,
    acknowledged_lost,  // A command that was answered as done is not there.
    batch_torn,         // Of one batch some commands are there and some are not.
    state_unknown,      // It holds what the store held at no time.
    counters_disagree,
    verify_failed,
    answer_changed,  // A repeat did not get its first answer.
};
constexpr std::size_t wrong_kinds = 7;
std::string_view to_text(Wrong wrong);

struct Verdict {
    Wrong wrong;
    std::string detail;
};

struct Tally {
    std::array<std::uint64_t, loss_kinds> images = {};
    std::array<std::uint64_t, wrong_kinds> wrong = {};
    std::uint64_t deep = 0;   // Images that were verified and asked again.
    std::uint64_t twice = 0;  // Images of a second loss of power.
    std::uint64_t histories = 0;
    std::uint64_t points = 0;  // Changes after which the power failed.
    std::vector<std::string> examples;

    std::uint64_t all_images() const;
    std::uint64_t violations() const;
    void add(const Tally& other);
};

struct PowerLossOptions {
    std::uint64_t images_max = 50'000;
    std::uint64_t seed = 1;
    unsigned threads = 2;
    std::size_t batches = 60;  // Of each history.
    std::uint64_t deep_every = 16;
    bool after_setup = false;  // Leaves out the points at which the store is being made and filled.
    Sabotage sabotage = Sabotage::none;
    std::function<void(std::uint64_t images)> progress = {};  // Called from one thread, now and then.
};

// Histories of rising seeds until there are as many images as wanted.
Tally run_power_losses(const PowerLossOptions& options);

// Only one point of the history of options.seed, but all images there: to look again at what was found.
Tally replay_power_loss(const PowerLossOptions& options, std::size_t point);

}  // namespace interlock::crash
