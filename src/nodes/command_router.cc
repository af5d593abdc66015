#include "nodes/command_router.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/ensure.h"

namespace interlock::nodes {

using engine::Submission;
using engine::SubmitError;
using std::chrono::steady_clock;

namespace {

// A command that three nodes in a row pass on is going in circles.
constexpr std::uint32_t hops_max = 3;
// A living node is not robbed of a lane more often than this.
constexpr std::chrono::seconds force_interval{1};
// Others are told of commits at most this often.
constexpr std::chrono::milliseconds tell_interval{5};
constexpr std::chrono::milliseconds retry_interval{20};
constexpr int takes_max = 10;

steady_clock::duration steady(Duration duration) {
    return std::chrono::duration_cast<steady_clock::duration>(duration);
}

}  // namespace

// ---- commands on their way ----------------------------------------------------------------------------------------

void CommandRouter::submit(std::vector<Submission> submissions) {
    if (submissions.empty()) return;
    const core::OrgId first = submissions.front().command.org;
    const auto of_first = [&](const Submission& each) { return each.command.org == first; };
    if (std::ranges::all_of(submissions, of_first)) return route(first, std::move(submissions));
    std::map<core::OrgId, std::vector<Submission>> by_org;
    for (Submission& each : submissions) by_org[each.command.org].push_back(std::move(each));
    for (auto& [org, its] : by_org) route(org, std::move(its));
}

void CommandRouter::route(core::OrgId org, std::vector<Submission> submissions) {
    std::shared_ptr<LocalLane> home;
    std::shared_ptr<PeerLink> peer;
    std::vector<Submission> refused;
    {
        const Lock lock(mutex_);
        OrgRoute& way = ways_[org];
        if (way.home) {
            home = way.home;
        } else if (way.peer) {
            peer = way.peer;
        } else {
            const std::size_t room = options_.waiting_max - std::min(options_.waiting_max, way.waiting.size());
            const auto taken = static_cast<std::ptrdiff_t>(std::min(room, submissions.size()));
            std::move(submissions.begin(), submissions.begin() + taken, std::back_inserter(way.waiting));
            std::move(submissions.begin() + taken, submissions.end(), std::back_inserter(refused));
            ask_resolver(org, way);
        }
    }
    if (home) return home->lane->submit(std::move(submissions));
    if (peer) {
        std::vector<Submission> tired;
        std::erase_if(submissions, [&](Submission& each) {
            const bool is_tired = each.hops >= hops_max;
            if (is_tired) tired.push_back(std::move(each));
            return is_tired;
        });
        if (!submissions.empty()) peer->submit(std::move(submissions));
        for (Submission& each : tired) each.on_answer(fail(SubmitError::unavailable));
    }
    for (Submission& each : refused) each.on_answer(fail(SubmitError::busy));
}

// With the lock.
void CommandRouter::ask_resolver(core::OrgId org, OrgRoute& way) {
    if (std::exchange(way.queued, true)) return;
    to_resolve_.push_back(org);
    resolver_work_.notify_one();
}

// From a lane that has lost its org.
void CommandRouter::come_back(core::OrgId org, const LocalLane* from, std::vector<Submission> submissions) {
    {
        const Lock lock(mutex_);
        OrgRoute& way = ways_[org];
        if (way.home && way.home.get() == from) {
            // Not destroyed here: this is its own thread.
            retired_.push_back(std::exchange(way.home, nullptr));
            ask_resolver(org, way);
            log_.warn("lane_lost", {{"org", std::int64_t{org.value}}});
        }
    }
    reroute(std::move(submissions));
}

// From another node.
void CommandRouter::come_back(const Id& boot, PeerError trouble, std::vector<Submission> submissions) {
    {
        const Lock lock(mutex_);
        const auto peer = peers_.find(boot);
        for (const Submission& each : submissions) {
            OrgRoute& way = ways_[each.command.org];
            if (!way.peer || peer == peers_.end() || way.peer != peer->second) continue;
            // Silence alone convicts nobody; the lease will.
            if (trouble != PeerError::silent) way.suspect_epoch = way.peer_epoch;
            way.peer.reset();
        }
        if (peer != peers_.end() && trouble == PeerError::gone) {
            retired_.push_back(std::move(peer->second));
            peers_.erase(peer);
            resolver_work_.notify_one();
        }
    }
    reroute(std::move(submissions));
}

// It was on its way once and may have been carried out, whatever the second try says.
void CommandRouter::reroute(std::vector<Submission> submissions) {
    const Instant time = now();
    std::erase_if(submissions, [&](const Submission& each) {
        const bool hopeless = each.deadline < time || each.command.key.value.empty();
        if (hopeless) each.on_answer(fail(SubmitError::outcome_unknown));
        return hopeless;
    });
    for (Submission& each : submissions) {
        each.on_answer = [on_answer = std::move(each.on_answer)](engine::SubmitResult answer) {
            const bool nothing_done = !answer && answer.error() != SubmitError::key_reused;
            on_answer(nothing_done ? engine::SubmitResult(fail(SubmitError::outcome_unknown)) : std::move(answer));
        };
    }
    submit(std::move(submissions));
}

void CommandRouter::fail_waiting(core::OrgId org, SubmitError error) {
    std::vector<Submission> waiting;
    {
        const Lock lock(mutex_);
        waiting.swap(ways_[org].waiting);
    }
    for (Submission& each : waiting) each.on_answer(fail(error));
}

bool CommandRouter::writes(core::OrgId org) const {
    const Lock lock(mutex_);
    const auto found = ways_.find(org);
    return found != ways_.end() && found->second.home != nullptr;
}

bool CommandRouter::in_touch() const { return steady_clock::now() - renewed_at_.load() < steady(options_.lease); }

std::size_t CommandRouter::queue_depth() const {
    const Lock lock(mutex_);
    std::size_t depth = 0;
    for (const auto& [org, way] : ways_) {
        depth += way.waiting.size() + (way.home ? way.home->engine->queue_depth() : 0);
    }
    for (const auto& [boot, peer] : peers_) depth += peer->queue_depth();
    return depth;
}

// ---- beginning and end --------------------------------------------------------------------------------------------

CommandRouter::CommandRouter(Options options, Log& log) : options_(std::move(options)), log_(log) {
    ensure(options_.connect && options_.open_store, "a switchboard has a store");
}

CommandRouter::~CommandRouter() { stop(); }

Result<void, std::string> CommandRouter::start() {
    const auto cluster = options_.connect();
    auto shared = cluster->secret();
    if (!shared) return fail(shared.error().detail);
    secret_ = std::move(*shared);
    if (!renew(*cluster)) return fail(std::string("the store cannot be written"));
    clock_.emplace(time_.clock());
    threads_.emplace_back([this] { run_pulse(); });
    threads_.emplace_back([this] { run_resolver(); });
    threads_.emplace_back([this] { run_listener(); });
    return {};
}

Inbound::Options CommandRouter::door() {
    Inbound::Options how;
    how.secret = secret_;
    how.now = [this] { return now(); };
    how.submit = [this](std::vector<Submission> submissions) { submit(std::move(submissions)); };
    how.writes = [this](core::OrgId org) { return writes(org); };
    return how;
}

void CommandRouter::set_url(std::string url) {
    const Lock lock(mutex_);
    options_.me.url = std::move(url);
    renew_now_ = true;
    pulse_work_.notify_one();
}

void CommandRouter::stop() {
    std::map<core::OrgId, OrgRoute> ways;
    std::map<Id, std::shared_ptr<PeerLink>> peers;
    {
        const Lock lock(mutex_);
        if (std::exchange(stopping_, true)) return;
        resolver_work_.notify_all();
        pulse_work_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    {
        const Lock lock(mutex_);
        ways.swap(ways_);
        peers.swap(peers_);
    }
    for (auto& [org, way] : ways) {
        for (Submission& each : way.waiting) each.on_answer(fail(SubmitError::unavailable));
    }
    ways.clear();
    peers.clear();
    retired_.clear();
    // What those handed back on their way out has nowhere to go any more.
    for (auto& [org, way] : ways_) {
        for (Submission& each : way.waiting) each.on_answer(fail(SubmitError::unavailable));
    }
    ways_.clear();
    (void)options_.connect()->leave(options_.me.boot);
}

CommandRouter::LocalLane::~LocalLane() {
    lane.reset();
    engine.reset();
    if (store) store->close();
}

// ---- the pulse ----------------------------------------------------------------------------------------------------

void CommandRouter::run_pulse() {
    auto cluster = options_.connect();
    auto next_renewal = steady_clock::now();
    auto next_tell = steady_clock::now();
    Lock lock(mutex_);
    while (!stopping_) {
        const auto now = steady_clock::now();
        if (now >= next_renewal || std::exchange(renew_now_, false)) {
            lock.unlock();
            if (renew(*cluster)) {
                if (options_.on_renewed) options_.on_renewed(*cluster);
                find_orphans(*cluster);
            }
            next_renewal = now + steady(options_.lease) / 3;
            lock.lock();
            continue;
        }
        if (!grown_.empty() && nodes_alive_ < 2) grown_.clear();
        if (!grown_.empty() && now >= next_tell) {
            const std::vector<core::OrgId> orgs(grown_.begin(), grown_.end());
            grown_.clear();
            lock.unlock();
            (void)cluster->tell(orgs);  // A hint; whoever misses it looks by himself in the end.
            next_tell = steady_clock::now() + tell_interval;
            lock.lock();
            continue;
        }
        if (renew_now_) continue;
        pulse_work_.wait_until(lock, grown_.empty() ? next_renewal : std::min(next_renewal, next_tell));
    }
}

bool CommandRouter::renew(store::Cluster& cluster) {
    store::Node me;
    {
        const Lock lock(mutex_);
        me = options_.me;
    }
    const Duration asked = StoreTime::monotonic();
    const auto at = cluster.renew(me, options_.lease);
    const bool was_in_touch = in_touch();
    if (!at) {
        if (was_in_touch) log_.warn("store_not_reached", {{"why", at.error().detail}});
        return false;
    }
    time_.heard(*at, asked, StoreTime::monotonic());
    renewed_at_ = steady_clock::now();
    if (!was_in_touch) log_.info("store_reached");
    return true;
}

void CommandRouter::find_orphans(store::Cluster& cluster) {
    const auto nodes = cluster.nodes();
    const auto lanes = cluster.lanes();
    if (!nodes || !lanes) return;
    std::set<Id> alive;
    for (const store::Node& node : *nodes) {
        if (node.alive) alive.insert(node.boot);
    }
    const Lock lock(mutex_);
    nodes_alive_ = alive.size();
    const auto is_ours = [&](const store::LaneHolder& lane) { return lane.boot == options_.me.boot; };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(*lanes, is_ours));
    const std::size_t share = (lanes->size() + alive.size() - 1) / std::max<std::size_t>(alive.size(), 1);
    // Whoever has its share leaves what is free to the others first.
    const std::set<core::OrgId> free_before = std::exchange(free_, {});
    bool has_too_many = count > share;
    for (const store::LaneHolder& lane : *lanes) {
        const bool ours = is_ours(lane);
        OrgRoute& way = ways_[lane.org];
        // A lane here that has nothing to do does not notice by itself that it was taken.
        if (way.home && !ours && lane.epoch > way.home->from_epoch + 1) {
            retired_.push_back(std::exchange(way.home, nullptr));
            resolver_work_.notify_one();
        }
        if (!way.home && !ours && !alive.contains(lane.boot)) free_.insert(lane.org);
        if (!way.home && (ours || (free_.contains(lane.org) && (count < share || free_before.contains(lane.org))))) {
            ask_resolver(lane.org, way);
        }
        if (way.home && ours && has_too_many) {
            has_too_many = false;  // One at a time; the rest can wait for the next look.
            retired_.push_back(std::exchange(way.home, nullptr));
            resolver_work_.notify_one();
            log_.info("lane_given_back", {{"org", std::int64_t{lane.org.value}}});
        }
    }
}

// ---- the resolver -------------------------------------------------------------------------------------------------

void CommandRouter::run_resolver() {
    auto cluster = options_.connect();
    Lock lock(mutex_);
    while (true) {
        resolver_work_.wait(lock, [&] { return stopping_ || !to_resolve_.empty() || !retired_.empty(); });
        if (stopping_) return;
        if (!retired_.empty()) {
            auto retired = std::exchange(retired_, {});
            lock.unlock();
            retired.clear();
            lock.lock();
            continue;
        }
        const core::OrgId org = to_resolve_.front();
        to_resolve_.pop_front();
        ways_[org].queued = false;
        lock.unlock();
        const bool settled = resolve(*cluster, org);
        lock.lock();
        if (!settled && !ways_[org].waiting.empty() && !stopping_) {
            resolver_work_.wait_for(lock, retry_interval, [&] { return stopping_; });
            ask_resolver(org, ways_[org]);
        }
    }
}

// False: nobody knows yet, ask again.
bool CommandRouter::resolve(store::Cluster& cluster, core::OrgId org) {
    for (int takes = 0; takes < takes_max; ++takes) {
        const auto holder = cluster.lane_of(org);
        const auto nodes = cluster.nodes();
        if (!holder || !nodes) {
            fail_waiting(org, SubmitError::unavailable);
            return true;
        }
        const auto node = std::ranges::find(*nodes, holder->boot, &store::Node::boot);
        const bool nobody = holder->boot.empty() || node == nodes->end() || !node->alive;
        bool may_take = nobody || holder->boot == options_.me.boot;
        {
            const Lock lock(mutex_);
            OrgRoute& way = ways_[org];
            if (way.home) may_take = false;
            if (!may_take && !way.home && way.suspect_epoch == holder->epoch &&
                steady_clock::now() - way.forced_at > force_interval) {
                way.forced_at = steady_clock::now();
                may_take = true;
            }
        }
        if (may_take) {
            switch (take(org, holder->epoch)) {
                case Taken::yes:
                    return true;
                case Taken::by_another:
                    continue;
                case Taken::no:
                    fail_waiting(org, SubmitError::unavailable);
                    return true;
            }
        }

        // It was robbed too lately, or does not listen yet: it may answer in a moment.
        const bool reachable = node != nodes->end() && !node->url.empty() && holder->boot != options_.me.boot;
        const auto link = reachable ? link_to(*node) : nullptr;
        std::vector<Submission> waiting;
        {
            const Lock lock(mutex_);
            OrgRoute& way = ways_[org];
            if (!way.home && (!link || way.suspect_epoch == holder->epoch)) return false;
            if (!way.home) {
                way.peer = link;
                way.peer_epoch = holder->epoch;
            }
            waiting.swap(way.waiting);
        }
        submit(std::move(waiting));
        return true;
    }
    return false;
}

CommandRouter::Taken CommandRouter::take(core::OrgId org, std::int64_t epoch) {
    const auto home = std::make_shared<LocalLane>();
    home->from_epoch = epoch;
    home->store = options_.open_store(org, epoch);
    engine::Engine::Options how = options_.engine;
    how.on_moved = [this, org, self = home.get()](std::vector<Submission> batch) {
        come_back(org, self, std::move(batch));
    };
    home->engine = std::make_unique<engine::Engine>(*home->store, std::move(how));
    if (const auto opened = home->engine->open(now()); !opened) {
        const bool lost = opened.error().kind == store::OpenError::Kind::in_use;
        if (!lost) log_.warn("lane_not_opened", {{"org", std::int64_t{org.value}}, {"why", opened.error().detail}});
        return lost ? Taken::by_another : Taken::no;
    }
    home->lane =
        std::make_unique<engine::Lane>(*home->engine, time_.clock(), [this, org](const engine::BatchStats& step) {
            {
                const Lock lock(mutex_);
                if (grown_.insert(org).second && nodes_alive_ > 1) pulse_work_.notify_one();
            }
            if (options_.on_step) options_.on_step(org, step);
            if (options_.on_news) options_.on_news(org);
        });
    log_.info("lane_taken", {{"org", std::int64_t{org.value}}, {"from_epoch", epoch}});
    std::vector<Submission> waiting;
    {
        const Lock lock(mutex_);
        OrgRoute& way = ways_[org];
        way.home = home;
        way.peer.reset();
        waiting.swap(way.waiting);
    }
    home->lane->submit(std::move(waiting));
    return Taken::yes;
}

std::shared_ptr<PeerLink> CommandRouter::link_to(const store::Node& node) {
    const Lock lock(mutex_);
    auto& link = peers_[node.boot];
    if (link) return link;
    PeerLink::Options how;
    how.url = node.url;
    how.secret = secret_;
    how.ca_file = options_.ca_file;
    how.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options_.lease) + std::chrono::seconds(1);
    how.now = [this] { return now(); };
    how.hand_back = [this, boot = node.boot](PeerError trouble, std::vector<Submission> submissions) {
        come_back(boot, trouble, std::move(submissions));
    };
    how.on_head = options_.on_head;
    how.not_written_there = [this](core::OrgId org) {
        const Lock its_lock(mutex_);
        ways_[org].peer.reset();
    };
    link = std::make_shared<PeerLink>(std::move(how));
    return link;
}

// ---- the listener -------------------------------------------------------------------------------------------------

void CommandRouter::run_listener() {
    constexpr std::chrono::milliseconds timeout{250};
    auto cluster = options_.connect();
    while (true) {
        std::vector<core::OrgId> known;
        {
            const Lock lock(mutex_);
            if (stopping_) return;
            for (const auto& [org, way] : ways_) known.push_back(org);
        }
        const auto heard = cluster->listen(timeout);
        if (!heard) std::this_thread::sleep_for(timeout);
        if (!options_.on_news) continue;
        // Hints may be lost: after a silence everybody looks for himself.
        const bool silence = !heard || heard->empty();
        for (const core::OrgId org : silence ? known : *heard) options_.on_news(org);
    }
}

}  // namespace interlock::nodes
