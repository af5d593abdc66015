// Places: when two runs would stand in each other's way.
//
//   (1) Two workspaces on one host collide when one is the other, or contains it: by path, or by the identity of the
//       directory or of an ancestor. A symlink, a bind mount or another spelling changes the path, not the identity; a
//       directory that was deleted and made again has another identity, but the same path.
//   (2) Two resources collide when they have the same name.
//   (3) Two readers never collide.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/by_text.h"
#include "core/check.h"
#include "core/rows.h"

namespace interlock::core {

// Who is where. Looking up a place costs its depth, however many places are taken.
class PlaceIndex {
 public:
    void add(RunId run, const Place& place);
    void remove(RunId run, const Place& place);

    // Every run but this one that the place would collide with, each once, by id.
    std::vector<RunId> colliding(const Place& place, RunId except) const;
    // Whether there is one. Costs no more for a place that many runs want.
    bool collides(const Place& place, RunId except) const;

 private:
    struct Stay {
        RunId run;
        ClaimMode mode;
        friend auto operator<=>(const Stay&, const Stay&) = default;
        friend bool operator==(const Stay&, const Stay&) = default;
    };
    using Stays = std::map<Stay, int>;  // A run may claim a place twice, once within the other.
    using ByKey = ByText<Stays>;
    // Calls `found` with each run that collides, some twice, until it returns false.
    template <class Found>
    void visit_colliding(const Place& place, RunId except, Found found) const;

    ByKey by_self_;   // Under what the place is.
    ByKey by_chain_;  // Under what it is and everything that contains it.
};

bool collide(const Place& a, const Place& b);

bool is_at_or_below(std::string_view path, std::string_view top);

// Whether the run that has `outer` may give `inner` to a child: it is the same or lies inside by its path, and writing
// it takes that the outer one is written.
bool encloses(const Place& outer, const Place& inner);

// Named resources that the rules themselves claim. A client that names one could be mistaken for them.
constexpr std::string_view reserved_resources = "interlock.";

// What a client may ask for in one run: a few places, each named once.
Complaint check_places(const std::vector<Place>& places);

// How workspaces that were looked at again stand to what was known of them.
enum class Restated {
    instead,  // They are the places.
    beside,   // A process is at work: where it was stays taken by its path, and by what contained it.
};
// Each workspace among `places` restated by the next of `workspaces`, in the mode that it has. Empty when there are
// more or fewer of them.
std::optional<std::vector<Place>> with_workspaces(std::vector<Place> places, const std::vector<Place>& workspaces,
                                                  Restated how);

}  // namespace interlock::core
