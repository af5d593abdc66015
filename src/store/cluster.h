// Several nodes on one store: which there are, and which of them writes an org.
//
//   (1) An org has a lane, and a lane has an epoch. Whoever takes the lane raises the epoch, and only from the value it
//       has seen; so of two that want it one gets it.
//   (2) A commit proves, in its own transaction and under the lane's lock, that the epoch is still its writer's. A
//       writer that was replaced can change nothing, however late it comes.
//   (3) Taking a lane waits for the commit that is on its way there. What is read afterwards is final.
//
// Leases only say whom to replace; nothing that is promised stands on them. Time is the store's.
//
// Used by one thread at a time. After an error the next call connects anew.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/instant.h"
#include "core/rows.h"
#include "store/store.h"

namespace interlock::store {

struct Node {
    Id id = {};    // Of the data directory it runs on.
    Id boot = {};  // Of this one start of it.
    std::string name = {};
    std::string url = {};  // Where the other nodes reach it.
    std::string version = {};
    Instant started_at = far_past;
    Instant seen_at = far_past;
    Instant lease_until = far_past;
    bool alive = false;  // By the store's clock, when the row was read.
};

struct LaneHolder {
    core::OrgId org;
    std::int64_t epoch = 0;  // 0: never taken.
    Id node;                 // Empty: free.
    Id boot;
};

// What tells a store from another, and from itself before a failover or a restored backup.
struct StoreIdentity {
    std::string system;
    std::int64_t timeline = 0;
    friend bool operator==(const StoreIdentity&, const StoreIdentity&) = default;
};

class Cluster {
 public:
    virtual ~Cluster() = default;

    // Says that `me` is alive for as long as `lease`. The times of `me` are the store's to say; so is the one given
    // back.
    virtual Result<Instant, ReadError> renew(const Node& me, Duration lease) = 0;
    // Leaves in order: the row stays, its lease is over.
    virtual Result<void, ReadError> leave(Id boot) = 0;
    virtual Result<std::vector<Node>, ReadError> nodes() = 0;

    // One for each org that there is, and for that one org even when there is none yet.
    virtual Result<std::vector<LaneHolder>, ReadError> lanes() = 0;
    virtual Result<LaneHolder, ReadError> lane_of(core::OrgId org) = 0;

    virtual Result<StoreIdentity, ReadError> identity() = 0;
    // Random, made once, the same for all nodes: by it they know each other.
    virtual Result<std::string, ReadError> secret() = 0;

    // Why no node should serve this store any more, as one of them has put it; empty: nobody objects.
    virtual Result<std::string, ReadError> block_reason() = 0;
    virtual Result<void, ReadError> set_block_reason(const std::string& why) = 0;

    // A hint to every node that these orgs' feeds have grown. Hints may be lost.
    virtual Result<void, ReadError> tell(const std::vector<core::OrgId>& orgs) = 0;
    // The hints of the others and our own; empty when none came in time.
    virtual Result<std::vector<core::OrgId>, ReadError> listen(Duration timeout) = 0;
};

}  // namespace interlock::store
