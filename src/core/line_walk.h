// The line of runs that wait, from its head on, and the places that are kept for those in it.
//
//   (1) A run in line that waits for a place keeps its turn at all of its places. So does one that waits behind it. One
//       that waits for anything else holds nothing, and keeps no other run waiting.
//   (2) A long line of runs that ask for the same costs as much as one of them: when one run of a group cannot start,
//       the walk goes past the rest of the group.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/command.h"
#include "core/org_state.h"
#include "core/places.h"

namespace interlock::core {

bool collides_any(const PlaceIndex& places, const Run& run);

class LineWalk {
 public:
    enum class Of { all, those_that_want_places };
    LineWalk(OrgState& state, Stamp stamp, Of which);

    std::optional<LineKey> next();

    // The run that next() came to stays in line. `same_for_group`: so do the others of its group that are behind it.
    void stays(const Run& run, bool same_for_group);
    // The run that next() came to has started. Others ahead of it may wait for its places from now on.
    void started(const Run& run, PlaceIndex kept_ahead);

    // The places that are kept for the runs it has come past.
    const PlaceIndex& kept() const { return kept_; }

 private:
    // To groups that were left and whose next run waits for a place by now.
    void come_back();

    OrgState& state_;
    const Stamp stamp_;
    using Group = OrgState::LineGroup;
    std::map<LineKey, const Group*> heads_;  // The next of each group.
    LineKey key_{};
    const Group* group_ = nullptr;                            // Of the run that next() came to.
    std::optional<std::pair<LineKey, const Group*>> behind_;  // The next of that group.
    std::vector<std::pair<const Group*, RunId>> left_;        // With a run of each.
    PlaceIndex kept_;
};

// The places that are kept for the runs ahead of this place in line.
PlaceIndex kept_ahead_of(OrgState& state, Stamp stamp, const LineKey& mine);

}  // namespace interlock::core
