// The servers of the world: one that has its store to itself, or several that share a database and pass the lanes of
// its orgs on.
//
//   (1) A copy of a call is at one node or between two. It is answered, handed on or lost, once.
//   (2) Of several nodes each has an engine for every org whose lane it believes to have. What it does not write itself
//       it forwards to the writer it believes in; when it thinks that one dead, rightly or not, it takes the lane.
//   (3) Nodes crash, leave in order, come back, and fall asleep for a while: between two steps, or in the middle of
//   one,
//       when its commit is ready and has not been sent.
//   (4) Commits are written late, by a database whose client has gone away (store/memory_database.h).
//
// Which of it happens follows from the world's seed. A single server draws nothing that it would not draw alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "sim/call.h"
#include "store/memory_store.h"

namespace interlock::sim {

class World;

class Nodes {
 public:
    explicit Nodes(World& world);

    void receive(Call& call);  // A copy of it, from its client.
    void take_due();           // What one node has sent to another arrives.
    void turn();               // Each node that is there takes a turn, and its answers go out.
    // Everybody is there and awake, nothing is late, and every org has a writer.
    void calm_down();
    bool has_work() const;

    // Everybody is awake, and nothing is on its way between the nodes and to the database.
    bool is_quiet() const;

    void fail_next_commit(store::CommitFault fault) { next_commit_ = fault; }  // Whoever makes it.

 private:
    // An engine and its store: for all orgs, or for the one whose lane it has.
    struct Seat {
        std::unique_ptr<store::MemoryStore> store;
        std::unique_ptr<engine::Engine> engine;
        std::size_t handed_back = 0;
    };
    struct Node {
        Id id;
        Id boot;                       // Empty: it is down.
        std::uint64_t away_until = 0;  // A step: for as long it is down or asleep.
        bool stuck = false;            // In the middle of a commit.
        Duration skew{};               // Of its clock.
        std::map<core::OrgId, Seat> seats;
        std::map<core::OrgId, store::LaneHolder> beliefs;
        std::vector<std::uint64_t> inbox;  // Copies that came while it was asleep.
    };
    struct Copy {
        std::uint32_t call = 0;
        std::size_t at = 0;
        bool in_engine = false;
        // Where its client sent it, and where the answer has to pass.
        std::size_t entry = 0;
        Id entry_boot = {};
        std::uint32_t hops = 0;
        bool asked_before = false;  // Somewhere, and what came of it is not known.
    };
    struct Arrived {
        std::uint64_t copy = 0;
        engine::SubmitResult answer;
    };
    void check_writer(std::uint64_t copy, const engine::SubmitResult& answer, const Seat& seat);

    bool alone() const { return nodes_.size() == 1; }
    bool is_awake(const Node& node) const;
    core::OrgId org_of(const Copy& copy) const;
    core::OrgId seat_of(core::OrgId org) const { return alone() ? core::OrgId() : org; }
    Instant now_at(const Node& node) const;

    void start(Node& node);
    void crash(std::size_t at);
    void leave(std::size_t at);
    void stop(std::size_t at);
    void maybe_crash(std::size_t at);
    void get_stuck(std::size_t at);
    store::MemoryStore::Faults faults_at(std::size_t at);
    store::CommitFault draw_commit_fault();

    void arrive(std::uint64_t copy, std::size_t at);
    void route(std::uint64_t copy);
    void submit(std::uint64_t copy, Seat& seat);
    void forward(std::uint64_t copy, std::size_t to);
    void send(std::uint64_t copy, std::size_t to);
    void refuse(std::uint64_t copy);
    void lose(std::uint64_t copy);

    // Whether a node thinks that the one who has the lane is not there any more.
    bool suspects(std::size_t at, const store::LaneHolder& lane);
    std::size_t holder_of(const store::LaneHolder& lane) const;  // nodes_.size(): nobody who is there.
    bool open_seat(std::size_t at, core::OrgId org, const store::LaneHolder& seen);
    void look_after(std::size_t at, core::OrgId org);

    void step(std::size_t at);
    void give_up_seat(std::size_t at, core::OrgId org);
    void drop_seat(std::size_t at, core::OrgId org);
    void hand_out();

    World& world_;
    std::vector<Node> nodes_;
    std::uint64_t boots_ = 0;
    std::uint64_t next_copy_ = 0;
    std::map<std::uint64_t, Copy> copies_;  // Those not answered yet.
    struct Message {
        std::uint64_t copy = 0;
        std::size_t to = 0;
    };
    std::multimap<std::uint64_t, Message> messages_;
    std::vector<Arrived> arrived_;
    store::CommitFault next_commit_ = store::CommitFault::none;
};

}  // namespace interlock::sim
