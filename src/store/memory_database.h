// What the stores in memory keep their rows in: one of its own for a store that is alone, one for all where several
// nodes share it. The part of the database server in tests and in the simulator.
//
//   (1) A lane's epoch only rises, by one with each take, and only from the value that the taker has seen.
//   (2) Whoever commits for a lane is refused unless the epoch is its own at the moment of the write, however late that
//       write comes.
//       The same goes for reading: what a writer has in memory and what is here are one state, or it is told.
//   (3) A commit that was begun when somebody takes the lane is written before the lane is taken. One that had not
//       arrived by then comes too late.
//
// A copy is a second database with the same rows, lanes and late commits.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/mp11/algorithm.hpp>

#include "store/cluster.h"
#include "store/store.h"

namespace interlock::store {

// What a commit shows to prove that the lane is still its writer's.
struct LaneProof {
    core::OrgId org;
    std::int64_t epoch = 0;
};

class MemoryDatabase {
 public:
    template <class Row>
    using Rows = std::map<std::pair<core::OrgId, core::KeyOf<Row>>, Row>;

    // These break the invariants. They are there to show that a checker notices.
    struct Lies {
        bool no_proof = false;                     // Against (2): every commit is let in.
        bool takes_do_not_wait = false;            // Against (3): a commit that was begun is written after the take.
        bool opening_again_takes_nothing = false;  // Against (1): a writer that lost its connection keeps its epoch.
    };
    Lies lies;

    // Told of every set of rows that was written, at the moment it was.
    std::function<void(const WriteSet&)> on_written;

    // In the order of org and key.
    template <class Row>
    const Rows<Row>& rows() const {
        return std::get<Rows<Row>>(rows_);
    }

    static constexpr std::size_t all_rows = std::numeric_limits<std::size_t>::max();
    // Why these may not be written; empty when they may.
    std::optional<std::string> objection(const WriteSet& writes, const std::optional<LaneProof>& proof) const;
    // Past all checks, and without telling anybody.
    void write(const WriteSet& writes, std::size_t rows_max = all_rows);

    LaneHolder lane_of(core::OrgId org) const;
    bool is_current(const LaneProof& proof) const;
    // Makes `taker` the holder, if the epoch is still the one it gives or its own boot has the lane. Empty: not taken.
    std::optional<std::int64_t> take(const LaneHolder& taker);
    void give_back(const LaneProof& proof);

    // Commits whose sender has lost its connection while the database still has them to do.
    enum class Late {
        on_the_wire,  // Arrives later, and has to prove itself then.
        begun,        // Has proved itself and keeps the lane from others until it is done.
    };
    void add_late(const WriteSet& writes, const LaneProof& proof, Late how);
    std::size_t late_commits() const { return late_.size(); }
    void deliver_late(std::size_t which);

 private:
    template <class Row>
    struct OwnRows {
        std::vector<Row> put;
        std::vector<core::KeyOf<Row>> erased;
    };
    struct LateCommit {
        Late how;
        LaneProof proof;
        boost::mp11::mp_transform<OwnRows, core::AllRows> rows;
    };

    bool inserts_twice(const WriteSet& writes) const;

    boost::mp11::mp_transform<Rows, core::AllRows> rows_;
    std::map<core::OrgId, LaneHolder> lanes_;
    std::vector<LateCommit> late_;
};

}  // namespace interlock::store
