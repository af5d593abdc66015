// The switchboard: every node takes every command, and brings it to the one node that writes its org.
//
//   (1) A command goes to the lane here, to the node that has the lane, or waits until it is known which. It keeps its
//       key on every way, so it may be asked twice and is carried out once.
//   (2) Whom to replace is a guess: a node whose lease has run out, that nobody answers for, or that cannot reach the
//       store. A wrong guess costs time. What makes it safe is the lane's epoch (store/cluster.h).
//   (3) An org that nobody writes is taken within a lease, with or without commands: its time must pass too.
//   (4) A node that writes more orgs than its share gives them back, one after the other.
//
// Three threads of its own, so that none waits for another's wait: the pulse renews the lease and tells of commits, the
// resolver finds out who writes an org and takes what is free, the listener hears of other nodes' commits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "engine/clock.h"
#include "engine/engine.h"
#include "engine/lane.h"
#include "nodes/inbound.h"
#include "nodes/peer_link.h"
#include "nodes/store_time.h"
#include "store/cluster.h"

namespace interlock::nodes {

class CommandRouter {
 public:
    struct Options {
        store::Node me;
        Duration lease = std::chrono::seconds(3);
        std::string ca_file = {};  // Believed for the certificates of other nodes, besides the system's authorities.
        std::size_t waiting_max = 65'536;
        engine::Engine::Options engine = {};
        std::function<std::unique_ptr<store::Cluster>()> connect;
        std::function<std::unique_ptr<store::Store>(core::OrgId, std::int64_t from_epoch)> open_store;
        std::function<void(store::Cluster&)> on_renewed = {};  // On the pulse's thread: the store has just answered.
        std::function<void(core::OrgId, const engine::BatchStats&)> on_step = {};  // On the lane's thread.
        std::function<void(const Head&)> on_head = {};  // What a writer said with its answers, before they are given.
        std::function<void(core::OrgId)> on_news = {};  // The org's feed may have grown, here or elsewhere.
    };

    CommandRouter(Options options, Log& log);
    ~CommandRouter();  // Carries out what is queued here, then gives the lanes back.

    // Makes this node known. The error is a sentence.
    Result<void, std::string> start();
    // Where the other nodes reach this one; known once it listens.
    void set_url(std::string url);

    void submit(std::vector<engine::Submission> submissions);
    // Carries out what is queued, ends the lanes and leaves. Nothing is submitted afterwards.
    void stop();

    Instant now() { return clock_->now(); }
    // For the door through which other nodes reach this one. Good as long as the switchboard.
    Inbound::Options door();
    bool writes(core::OrgId org) const;
    // Whether the store has heard of this node within the lease.
    bool in_touch() const;
    std::size_t queue_depth() const;

 private:
    // The lane of an org that is written here.
    struct LocalLane {
        ~LocalLane();
        std::int64_t from_epoch = 0;
        std::unique_ptr<store::Store> store;
        std::unique_ptr<engine::Engine> engine;
        std::unique_ptr<engine::Lane> lane;
    };
    struct OrgRoute {
        std::shared_ptr<LocalLane> home;
        std::shared_ptr<PeerLink> peer;
        std::int64_t peer_epoch = 0;
        std::int64_t suspect_epoch = -1;  // Whoever has the lane at this epoch does not answer.
        std::chrono::steady_clock::time_point forced_at{};
        std::vector<engine::Submission> waiting;
        bool queued = false;  // For the resolver.
    };
    using Lock = std::unique_lock<std::mutex>;

    void route(core::OrgId org, std::vector<engine::Submission> submissions);
    void ask_resolver(core::OrgId org, OrgRoute& way);
    void come_back(core::OrgId org, const LocalLane* from, std::vector<engine::Submission> submissions);
    void come_back(const Id& boot, PeerError trouble, std::vector<engine::Submission> submissions);
    void reroute(std::vector<engine::Submission> submissions);
    void fail_waiting(core::OrgId org, engine::SubmitError error);

    void run_pulse();
    bool renew(store::Cluster& cluster);
    void find_orphans(store::Cluster& cluster);
    void run_resolver();
    bool resolve(store::Cluster& cluster, core::OrgId org);
    enum class Taken { yes, by_another, no };
    Taken take(core::OrgId org, std::int64_t epoch);
    std::shared_ptr<PeerLink> link_to(const store::Node& node);
    void run_listener();

    Options options_;
    Log& log_;
    StoreTime time_;
    std::optional<engine::Clock> clock_;
    std::string secret_;

    mutable std::mutex mutex_;
    std::condition_variable resolver_work_;
    std::condition_variable pulse_work_;
    std::map<core::OrgId, OrgRoute> ways_;
    std::deque<core::OrgId> to_resolve_;
    std::vector<std::shared_ptr<void>> retired_;     // Destroyed by the resolver: some must not be by their own thread.
    std::map<Id, std::shared_ptr<PeerLink>> peers_;  // By boot.
    std::set<core::OrgId> grown_;                    // To be told.
    std::set<core::OrgId> free_;                     // That nobody had when we last looked.
    std::size_t nodes_alive_ = 1;
    bool renew_now_ = false;
    bool stopping_ = false;
    std::atomic<std::chrono::steady_clock::time_point> renewed_at_{};
    std::vector<std::thread> threads_;
};

}  // namespace interlock::nodes
