#include "sim/nodes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/world.h"

namespace interlock::sim {
namespace {

constexpr std::uint32_t hops_max = 3;
constexpr std::uint64_t away_steps_max = 40;
constexpr std::uint64_t stuck_steps_max = 12;
constexpr std::uint64_t message_steps_max = 20;

}  // namespace

Nodes::Nodes(World& world) : world_(world), nodes_(world.profile.nodes) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i].id = {1, i + 1};
    for (Node& node : nodes_) start(node);
}

// ---- turns --------------------------------------------------------------------------------------------------------

void Nodes::turn() {
    if (alone()) return maybe_crash(0);
    Random& random = world_.random;
    store::MemoryDatabase& database = *world_.database;
    const bool calm = world_.is_calm();
    for (std::size_t i = random.below(nodes_.size()), turns = 0; turns < nodes_.size(); ++turns, ++i) {
        const std::size_t at = i % nodes_.size();
        Node& node = nodes_[at];
        if (node.stuck) continue;
        if (node.boot.empty() && node.away_until <= world_.steps()) start(node);
        if (!is_awake(node)) continue;
        for (const std::uint64_t copy : std::exchange(node.inbox, {})) arrive(copy, at);
        if (!calm && random.chance(world_.profile.freezes)) {
            ++world_.troubles.freezes;
            node.away_until = world_.steps() + 1 + random.below(away_steps_max);
            if (world_.tracing()) world_.trace(fmt::format("node {} falls asleep", at));
            continue;
        }
        if (!calm && random.percent(10)) look_after(at, random.pick(world_.known.orgs).id);
        maybe_crash(at);
    }
    if (!calm && database.late_commits() > 0 && random.percent(30)) {
        database.deliver_late(random.below(database.late_commits()));
    }
}

// The process may die before its step, between the commit and the answers, or after.
void Nodes::maybe_crash(std::size_t at) {
    Random& random = world_.random;
    const bool crashes = !world_.is_calm() && random.chance(world_.profile.crashes);
    const std::uint64_t when = crashes ? random.below(3) : 2;
    if (when > 0) step(at);
    if (when > 1) hand_out();
    if (!crashes) return;
    if (!alone() && random.percent(30)) return leave(at);
    crash(at);
}

void Nodes::step(std::size_t at) {
    Node& node = nodes_[at];
    std::vector<core::OrgId> orgs;
    for (const auto& [org, _] : node.seats) orgs.push_back(org);
    for (const core::OrgId org : orgs) {
        engine::Engine& engine = *node.seats.at(org).engine;
        engine.step(now_at(node));
        if (engine.moved()) give_up_seat(at, org);
    }
}

// Another node has the lane. What the engine has handed back goes to that one.
void Nodes::give_up_seat(std::size_t at, core::OrgId org) {
    Node& node = nodes_[at];
    Seat& seat = node.seats.at(org);
    while (seat.engine->queue_depth() > 0) seat.engine->step(now_at(node));
    ++world_.troubles.moves;
    if (world_.tracing()) world_.trace(fmt::format("node {} has lost org {}", at, org.value));

    std::vector<std::uint64_t> left;
    for (auto& [id, copy] : copies_) {
        if (copy.at != at || !copy.in_engine || org_of(copy) != org) continue;
        const bool answered = std::ranges::any_of(arrived_, [&](const Arrived& arrived) { return arrived.copy == id; });
        if (answered) continue;
        copy.in_engine = false;
        copy.asked_before = true;
        left.push_back(id);
    }
    if (seat.handed_back != left.size()) {
        world_.violated(Promise::honest_answers, fmt::format("an engine that has moved has handed back {} of {}",
                                                             seat.handed_back, left.size()));
    }
    node.seats.erase(org);
    node.beliefs.erase(org);
    for (const std::uint64_t id : left) route(id);
}

void Nodes::hand_out() {
    for (Arrived& arrived : std::exchange(arrived_, {})) {
        const auto found = copies_.find(arrived.copy);
        if (found == copies_.end()) continue;  // Its node has died with it.
        Copy& copy = found->second;
        Call& call = world_.call_at(copy.call);
        if (copy.at != copy.entry) {
            const Node& entry = nodes_[copy.entry];
            const bool gone = entry.boot != copy.entry_boot || !is_awake(entry);
            const bool lost = !world_.is_calm() && world_.random.chance(world_.profile.lost_between_nodes);
            if (lost && !gone && call.has_key() && world_.random.percent(50)) {
                ++world_.troubles.repeated_forwards;
                copy.in_engine = false;
                copy.hops = 0;
                copy.asked_before = true;
                send(arrived.copy, copy.entry);
                continue;
            }
            if (gone || lost) {
                ++world_.troubles.lost_between_nodes;
                lose(arrived.copy);
                continue;
            }
        }
        // That nothing was done this time says nothing of the time before.
        const bool nothing_done = !arrived.answer && arrived.answer.error() != engine::SubmitError::key_reused;
        if (copy.asked_before && nothing_done) arrived.answer = fail(engine::SubmitError::outcome_unknown);
        copies_.erase(found);
        world_.answered(call, std::move(arrived.answer));
    }
}

void Nodes::calm_down() {
    store::MemoryDatabase& database = *world_.database;
    while (database.late_commits() > 0) database.deliver_late(0);
    for (Node& node : nodes_) {
        node.away_until = 0;
        if (node.boot.empty()) start(node);
    }
    if (alone()) return;
    for (std::size_t at = 0; at < nodes_.size(); ++at) {
        for (const std::uint64_t copy : std::exchange(nodes_[at].inbox, {})) arrive(copy, at);
    }
    for (const auto& [key, org] : database.rows<core::Org>()) look_after(world_.random.below(nodes_.size()), key.first);
}

bool Nodes::has_work() const {
    bool work = !messages_.empty();
    for (const Node& node : nodes_) {
        work = work || !node.inbox.empty();
        for (const auto& [org, seat] : node.seats) work = work || seat.engine->has_work(now_at(node));
    }
    return work;
}

bool Nodes::is_quiet() const {
    return world_.database->late_commits() == 0 && messages_.empty() &&
           std::ranges::all_of(nodes_, [this](const Node& node) { return is_awake(node); });
}

bool Nodes::is_awake(const Node& node) const {
    return !node.boot.empty() && !node.stuck && node.away_until <= world_.steps();
}

Instant Nodes::now_at(const Node& node) const { return world_.is_calm() ? world_.now() : world_.now() + node.skew; }

// ---- coming and going ---------------------------------------------------------------------------------------------

void Nodes::start(Node& node) {
    node.boot = {2, ++boots_};
    if (!alone()) {
        if (world_.random.percent(30)) node.skew = std::chrono::milliseconds(world_.random.between(-5'000, 0));
        return;
    }
    Seat& seat = node.seats[core::OrgId()];
    seat.store = std::make_unique<store::MemoryStore>(world_.database);
    seat.store->set_faults(faults_at(0));
    seat.engine = std::make_unique<engine::Engine>(*seat.store, world_.profile.engine);
    // A store that cannot be opened now is opened by a later step.
    if (!seat.engine->open(world_.now()) && world_.tracing()) world_.trace("the store could not be opened");
}

void Nodes::crash(std::size_t at) {
    ++world_.troubles.crashes;
    if (world_.tracing()) world_.trace(alone() ? "crash" : fmt::format("node {} crashes", at));
    stop(at);
    if (!alone()) return;
    if (world_.random.chance(world_.profile.long_downtimes)) world_.sleep_long();
    start(nodes_[at]);
}

void Nodes::leave(std::size_t at) {
    ++world_.troubles.departures;
    if (world_.tracing()) world_.trace(fmt::format("node {} leaves", at));
    for (auto& [org, seat] : nodes_[at].seats) seat.store->close();
    stop(at);
}

void Nodes::stop(std::size_t at) {
    Node& node = nodes_[at];
    node.seats.clear();
    node.beliefs.clear();
    node.inbox.clear();
    node.boot = {};
    std::vector<std::uint64_t> lost;
    for (const auto& [id, copy] : copies_) {
        const bool between = std::ranges::any_of(messages_, [&](const auto& sent) { return sent.second.copy == id; });
        if (copy.at == at && !between) lost.push_back(id);
    }
    for (const std::uint64_t id : lost) lose(id);
    if (!alone()) node.away_until = world_.steps() + 1 + world_.random.below(away_steps_max);
}

// The world goes on while this node has a commit in its hands.
void Nodes::get_stuck(std::size_t at) {
    ++world_.troubles.stuck_commits;
    if (world_.tracing()) world_.trace(fmt::format("node {} is stuck in a commit", at));
    nodes_[at].stuck = true;
    for (std::uint64_t left = 1 + world_.random.below(stuck_steps_max); left > 0; --left) world_.step();
    nodes_[at].stuck = false;
    if (world_.tracing()) world_.trace(fmt::format("node {} goes on with its commit", at));
}

store::MemoryStore::Faults Nodes::faults_at(std::size_t at) {
    World& world = world_;
    return {.at_commit =
                [this, at] {
                    const bool stuck = !alone() && !world_.is_calm() && world_.random.chance(world_.profile.freezes);
                    if (stuck) get_stuck(at);
                    return draw_commit_fault();
                },
            .at_load =
                [&world] {
                    const bool fails = !world.is_calm() && world.random.chance(world.profile.load_faults);
                    world.troubles.failed_loads += fails;
                    return fails;
                },
            .at_open = [&world]() -> std::optional<store::OpenError> {
                if (world.is_calm() || !world.random.chance(world.profile.commit_faults * 2)) return std::nullopt;
                ++world.troubles.failed_opens;
                return store::OpenError{store::OpenError::Kind::unavailable, "asked to fail"};
            },
            .takes_all_the_same = [&world] { return world.random.percent(50); }};
}

store::CommitFault Nodes::draw_commit_fault() {
    using enum store::CommitFault;
    World& world = world_;
    const auto asked = std::exchange(next_commit_, none);
    if (asked != none) return asked;
    if (world.is_calm() || !world.random.chance(world.profile.commit_faults)) return none;
    const auto fault = alone() ? world.random.pick({fail_before, lose_answer, lose_write})
                               : world.random.pick({fail_before, lose_answer, lose_write, late_on_the_wire,
                                                    late_on_the_wire, late_in_the_database, late_in_the_database});
    world.troubles.failed_commits += fault == fail_before;
    world.troubles.lost_commit_answers += fault == lose_answer;
    world.troubles.lost_writes += fault == lose_write;
    world.troubles.late_commits += fault == late_on_the_wire || fault == late_in_the_database;
    if (world.tracing()) world.trace(fmt::format("commit fault {}", static_cast<int>(fault)));
    return fault;
}

// ---- copies -------------------------------------------------------------------------------------------------------

void Nodes::receive(Call& call) {
    const std::size_t entry = alone() ? 0 : world_.random.below(nodes_.size());
    const std::uint64_t id = next_copy_++;
    copies_.emplace(id, Copy{.call = call.id, .at = entry, .entry = entry, .entry_boot = nodes_[entry].boot});
    arrive(id, entry);
    if (!alone() && copies_.contains(id) && !is_awake(nodes_[entry])) world_.stop_waiting(call);
}

void Nodes::take_due() {
    while (!messages_.empty() && messages_.begin()->first <= world_.steps()) {
        const Message due = messages_.extract(messages_.begin()).mapped();
        if (copies_.contains(due.copy)) arrive(due.copy, due.to);
    }
}

void Nodes::arrive(std::uint64_t id, std::size_t at) {
    Node& node = nodes_[at];
    copies_.at(id).at = at;
    if (node.boot.empty()) {
        lose(id);
    } else if (!is_awake(node)) {
        node.inbox.push_back(id);
    } else {
        route(id);
    }
}

void Nodes::route(std::uint64_t id) {
    const Copy& copy = copies_.at(id);
    const std::size_t at = copy.at;
    const core::OrgId org = org_of(copy);
    Node& node = nodes_[at];
    if (const auto seat = node.seats.find(seat_of(org)); seat != node.seats.end()) return submit(id, seat->second);

    // Nobody reads who has a lane for every command. What was read before may be wrong by now.
    const bool looks = world_.is_calm() || !node.beliefs.contains(org) || world_.random.percent(30);
    if (looks) node.beliefs[org] = world_.database->lane_of(org);
    const store::LaneHolder lane = node.beliefs.at(org);
    if (suspects(at, lane)) {
        if (!open_seat(at, org, lane)) return refuse(id);
        return submit(id, node.seats.at(org));
    }
    const std::size_t to = holder_of(lane);
    if (to == nodes_.size() || to == at || copy.hops >= hops_max) {
        node.beliefs.erase(org);
        return refuse(id);
    }
    forward(id, to);
}

void Nodes::submit(std::uint64_t id, Seat& seat) {
    Copy& copy = copies_.at(id);
    const Call& call = world_.call_at(copy.call);
    copy.in_engine = true;
    seat.engine->submit({.command = call.command,
                         .on_answer =
                             [this, id, &seat](engine::SubmitResult answer) {
                                 check_writer(id, answer, seat);
                                 arrived_.push_back({id, std::move(answer)});
                             },
                         .deadline = call.deadline});
}

// An answer speaks for the state as it is. Somebody who was replaced does not know that state, also where its answer
// changes nothing: the command may have been carried out by the one who came after.
void Nodes::check_writer(std::uint64_t id, const engine::SubmitResult& answer, const Seat& seat) {
    if (alone() || !answer || world_.database->lies.no_proof) return;
    const core::OrgId org = org_of(copies_.at(id));
    const store::LaneHolder lane = world_.database->lane_of(org);
    if (lane.epoch == seat.store->epoch()) return;
    world_.violated(Promise::honest_answers,
                    fmt::format("org {}: {} was answered by the writer of epoch {}, but it is {}", org.value,
                                name_of(outcome_of(answer)), seat.store->epoch(), lane.epoch));
}

void Nodes::forward(std::uint64_t id, std::size_t to) {
    Random& random = world_.random;
    Copy& copy = copies_.at(id);
    Call& call = world_.call_at(copy.call);
    ++copy.hops;
    ++world_.troubles.forwards;
    if (world_.is_calm()) return arrive(id, to);
    if (call.has_key() && random.chance(world_.profile.lost_between_nodes)) {
        ++world_.troubles.repeated_forwards;
        const std::uint64_t twin = next_copy_++;
        copies_.emplace(twin, copy);
        ++call.on_the_way;
        send(twin, to);
    }
    if (random.chance(world_.profile.lost_between_nodes)) {
        ++world_.troubles.lost_between_nodes;
        return lose(id);
    }
    random.percent(80) ? arrive(id, to) : send(id, to);
}

void Nodes::send(std::uint64_t id, std::size_t to) {
    messages_.emplace(world_.steps() + 1 + world_.random.below(message_steps_max), Message{id, to});
}

void Nodes::refuse(std::uint64_t id) { arrived_.push_back({id, fail(engine::SubmitError::unavailable)}); }

void Nodes::lose(std::uint64_t id) {
    Call& call = world_.call_at(copies_.at(id).call);
    copies_.erase(id);
    world_.lose(call);
}

core::OrgId Nodes::org_of(const Copy& copy) const { return world_.calls()[copy.call].command.org; }

// ---- lanes --------------------------------------------------------------------------------------------------------

std::size_t Nodes::holder_of(const store::LaneHolder& lane) const {
    const auto found =
        std::ranges::find_if(nodes_, [&](const Node& node) { return !node.boot.empty() && node.boot == lane.boot; });
    return static_cast<std::size_t>(found - nodes_.begin());
}

bool Nodes::suspects(std::size_t at, const store::LaneHolder& lane) {
    if (lane.boot.empty()) return true;
    const std::size_t holder = holder_of(lane);
    if (holder == at) return true;  // It was taken for us, and we have not heard of it.
    if (holder == nodes_.size()) return world_.is_calm() || world_.random.percent(50);
    if (world_.is_calm()) return !nodes_[holder].seats.contains(lane.org);
    if (!is_awake(nodes_[holder])) return world_.random.percent(15);
    const bool wrongly = world_.random.chance(world_.profile.false_suspicions);
    world_.troubles.false_suspicions += wrongly;
    return wrongly;
}

bool Nodes::open_seat(std::size_t at, core::OrgId org, const store::LaneHolder& seen) {
    Node& node = nodes_[at];
    store::LaneHolder taker = seen;
    taker.node = node.id;
    taker.boot = node.boot;
    Seat& seat = node.seats[org];
    seat.store = std::make_unique<store::MemoryStore>(world_.database, taker);
    seat.store->set_faults(faults_at(at));
    engine::Engine::Options options = world_.profile.engine;
    options.on_moved = [&seat](std::vector<engine::Submission> left) { seat.handed_back += left.size(); };
    seat.engine = std::make_unique<engine::Engine>(*seat.store, options);
    const auto opened = seat.engine->open(now_at(node));
    if (!opened && opened.error().kind == store::OpenError::Kind::in_use) {
        ++world_.troubles.lost_races;
        node.seats.erase(org);
        node.beliefs.erase(org);
        return false;
    }
    ++world_.troubles.takeovers;
    if (world_.tracing()) {
        world_.trace(
            fmt::format("node {} takes org {} from epoch {}{}", at, org.value, seen.epoch, opened ? "" : ", or will"));
    }
    return true;
}

// Somebody has to tell an org the time, also when nobody asks for it.
void Nodes::look_after(std::size_t at, core::OrgId org) {
    Node& node = nodes_[at];
    const store::LaneHolder lane = world_.database->lane_of(org);
    if (node.seats.contains(org)) {
        if (lane.boot == node.boot) return;
        drop_seat(at, org);  // It has been replaced, and reads it here before its engine finds out.
    }
    if (suspects(at, lane)) open_seat(at, org, lane);
}

void Nodes::drop_seat(std::size_t at, core::OrgId org) {
    nodes_[at].seats.erase(org);
    std::vector<std::uint64_t> lost;
    for (const auto& [id, copy] : copies_) {
        if (copy.at == at && copy.in_engine && org_of(copy) == org) lost.push_back(id);
    }
    for (const std::uint64_t id : lost) lose(id);
}

}  // namespace interlock::sim
