// What a story has found wrong, by the promise that was broken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe/enum.hpp>
#include <boost/describe/enum_to_string.hpp>

namespace interlock::sim {

enum class Promise {
    exact_ledger,          // P1
    hard_ceiling,          // P2
    nothing_twice,         // P3
    one_order,             // P4
    one_worker_per_place,  // P5
    caps,                  // P6
    fenced,                // P7
    one_tick,              // P8
    nobody_forgotten,      // P9
    honest_answers,        // P10
    unbroken_feed,
};
BOOST_DESCRIBE_ENUM(Promise, exact_ledger, hard_ceiling, nothing_twice, one_order, one_worker_per_place, caps, fenced,
                    one_tick, nobody_forgotten, honest_answers, unbroken_feed)

struct Violation {
    Promise promise;
    std::uint64_t step = 0;
    std::string text;
};

class Findings {
 public:
    // A broken story goes on saying so; the first few say it all.
    static constexpr std::size_t violations_max = 50;

    void violated(Promise promise, std::string text) {
        ++count_;
        if (violations_.size() < violations_max) violations_.push_back({promise, step_, std::move(text)});
    }
    void at_step(std::uint64_t step) { step_ = step; }

    std::uint64_t count() const { return count_; }
    const std::vector<Violation>& violations() const { return violations_; }

 private:
    std::uint64_t step_ = 0;
    std::uint64_t count_ = 0;
    std::vector<Violation> violations_;
};

}  // namespace interlock::sim
