// P5, one worker per place, and P6, caps: in every committed state, and by what owners were told. P7, fenced: what has
// ended stays without effect.
#include <map>
#include <set>

#include <fmt/format.h>

#include "sim/checker.h"
#include "sim/places.h"

namespace interlock::sim {
namespace {

using namespace core;

using RunKey = std::pair<OrgId, RunId>;

class PlacesChecker : public Checker {
 public:
    void sent(World& world, const Call& call) override;
    void heard(World& world, const Call& call, const engine::SubmitResult& answer) override;
    void committed(World& world, const store::WriteSet& writes) override;
    void check(World& world, const Rows& rows) override;

 private:
    // A run that its owner was told it has, and that nothing the clients did or waited for can have ended.
    struct Belief {
        std::vector<Place> places;
        Instant lease_until;
    };
    void believe(World& world, const RunKey& run, Instant lease_until);
    void check_claims(World& world, const store::OrgWrites& writes);
    void check_caps(World& world, const store::OrgWrites& writes);
    void check_fences(World& world, const Rows& rows);

    bool is_above(const RunKey& above, const RunKey& run) const;
    void check_inside(World& world, const store::OrgWrites& writes);

    std::map<RunKey, std::vector<Place>> asked_;
    std::map<RunKey, RunId> parents_;
    std::set<RunKey> maybe_over_;
    std::set<RunKey> supervised_;
    std::set<RunKey> moved_;  // Perhaps, while they were at work.
    std::map<RunKey, Belief> beliefs_;
    Instant latest_;

    std::map<std::pair<OrgId, KeyOf<Claim>>, Place> claims_;
    struct Live {
        std::string agent, provider, node;
    };
    std::map<RunKey, Live> live_;
    std::map<std::tuple<OrgId, CapKind, std::string>, std::int32_t> caps_;
    std::map<std::pair<OrgId, std::string>, std::int32_t> agent_caps_;
};

// ---- what owners were told ----------------------------------------------------------------------------------------

void PlacesChecker::sent(World&, const Call& call) {
    const OrgId org = call.command.org;
    if (const auto* admit = std::get_if<AdmitRun>(&call.command.body)) {
        if (call.expect == Expect::anything) asked_[{org, admit->run}] = admit->places;
        if (admit->process) supervised_.insert({org, admit->run});
        return;
    }
    const auto ends = [&](RunId run, Fence fence) {
        if (fence.value != 0) maybe_over_.insert({org, run});
    };
    if (const auto* finish = std::get_if<FinishRun>(&call.command.body)) ends(finish->run, finish->fence);
    if (const auto* cancel = std::get_if<CancelRun>(&call.command.body)) ends(cancel->run, cancel->fence);
    if (const auto* lose = std::get_if<LoseRun>(&call.command.body)) ends(lose->run, lose->fence);
    // Its owner is not told which places it has then, and runs that have not begun may lose theirs to it.
    if (const auto* restate = std::get_if<RestatePlaces>(&call.command.body)) {
        maybe_over_.insert({org, restate->run});
        moved_.insert({org, restate->run});
        maybe_over_.insert(supervised_.begin(), supervised_.end());
    }
}

void PlacesChecker::heard(World& world, const Call& call, const engine::SubmitResult& answer) {
    if (!answer) return;
    const OrgId org = call.command.org;
    if (const auto* admit = std::get_if<AdmitRun>(&call.command.body)) {
        const auto* told = std::get_if<AdmitReply>(&answer->reply);
        if (told == nullptr) return;  // There is no such org yet.
        const AdmitReply& reply = *told;
        if (reply.isolated) {
            auto& places = asked_[{org, admit->run}];
            std::erase_if(places, [](const Place& place) { return place.kind == ClaimKind::workspace; });
            if (admit->isolate_into) {
                places.push_back(*admit->isolate_into);
            } else {
                places.push_back(*admit->worktrees);
                places.back().path += '/' + interlock::to_text("run", admit->run.value);
                places.back().chain.clear();
            }
        }
        if (reply.status == AdmitStatus::admitted) believe(world, {org, admit->run}, reply.lease_until);
    } else if (const auto* beat = std::get_if<HeartbeatRun>(&call.command.body)) {
        const auto* told = std::get_if<RunReply>(&answer->reply);
        if (told != nullptr && told->status == RunStatus::done) believe(world, {org, beat->run}, told->lease_until);
    }
}

bool PlacesChecker::is_above(const RunKey& above, const RunKey& run) const {
    for (auto at = parents_.find(run); at != parents_.end(); at = parents_.find({run.first, at->second})) {
        if (at->second == above.second) return true;
    }
    return false;
}

void PlacesChecker::believe(World& world, const RunKey& run, Instant lease_until) {
    latest_ = std::max(latest_, world.now());
    const auto asked = asked_.find(run);
    if (asked == asked_.end() || maybe_over_.contains(run)) return;
    Belief& mine = beliefs_[run];
    mine.places = asked->second;
    mine.lease_until = std::max(mine.lease_until, lease_until);
    std::erase_if(beliefs_, [&](const auto& belief) {
        return belief.second.lease_until <= latest_ || maybe_over_.contains(belief.first);
    });
    // A lease of a run above that has run out takes this one with it.
    std::erase_if(beliefs_, [&](const auto& belief) {
        const auto parent = parents_.find(belief.first);
        return parent != parents_.end() && !beliefs_.contains({belief.first.first, parent->second});
    });
    if (!beliefs_.contains(run)) return;
    for (auto other = beliefs_.lower_bound({run.first, RunId()});
         other != beliefs_.end() && other->first.first == run.first; ++other) {
        if (other->first == run || is_above(other->first, run) || is_above(run, other->first)) continue;
        for (const Place& theirs : other->second.places) {
            for (const Place& ours : beliefs_[run].places) {
                if (!overlap(theirs, ours)) continue;
                world.violated(
                    Promise::one_worker_per_place,
                    fmt::format("the owners of runs {:x} and {:x} were both told they have {} and {}",
                                run.second.value.low, other->first.second.value.low, to_text(ours), to_text(theirs)));
            }
        }
    }
}

// ---- what was committed -------------------------------------------------------------------------------------------

void PlacesChecker::committed(World& world, const store::WriteSet& writes) {
    latest_ = std::max(latest_, world.now());
    for (const store::OrgWrites& of_org : writes.orgs) {
        // By the rows: a further try of a child is a child too, and a request that is refused makes none.
        for (const Run* run : of_org.of<Run>().put) {
            if (!run->parent.value.empty()) parents_[{of_org.org, run->id}] = run->parent;
        }
        check_claims(world, of_org);
        check_inside(world, of_org);
        check_caps(world, of_org);
    }
}

void PlacesChecker::check_claims(World& world, const store::OrgWrites& writes) {
    const OrgId org = writes.org;
    for (const auto& key : writes.of<Claim>().erased) claims_.erase({org, key});
    for (const Claim* claim : writes.of<Claim>().put) claims_[{org, {claim->run, claim->number}}] = claim->place;
    for (const Claim* claim : writes.of<Claim>().put) {
        const auto first = claims_.lower_bound({org, {RunId(), 0}});
        for (auto other = first; other != claims_.end() && other->first.first == org; ++other) {
            const RunId run = std::get<0>(other->first.second);
            if (run == claim->run || !overlap(other->second, claim->place)) continue;
            if (is_above({org, run}, {org, claim->run}) || is_above({org, claim->run}, {org, run})) continue;
            world.violated(Promise::one_worker_per_place,
                           fmt::format("runs {:x} and {:x} both claim {} and {}", run.value.low, claim->run.value.low,
                                       to_text(other->second), to_text(claim->place)));
        }
    }
}

// A directory that a child claims lies inside of one that its parent claims, or it is a worktree that was made for it.
void PlacesChecker::check_inside(World& world, const store::OrgWrites& writes) {
    const OrgId org = writes.org;
    for (const Claim* claim : writes.of<Claim>().put) {
        const auto parent = parents_.find({org, claim->run});
        // Worktrees are named after runs. A further try has that of the first one.
        const bool made_for_it = claim->place.path.find("/run_") != std::string::npos;
        if (parent == parents_.end() || claim->place.kind == ClaimKind::resource || made_for_it) continue;
        if (moved_.contains({org, claim->run})) continue;
        bool inside = false, parent_claims = false;
        for (auto other = claims_.lower_bound({org, {parent->second, 0}});
             other != claims_.end() && other->first.first == org && std::get<0>(other->first.second) == parent->second;
             ++other) {
            parent_claims = true;
            inside = inside || is_inside(claim->place, other->second);
        }
        if (inside || !parent_claims) continue;  // The parent may have ended in the same batch.
        world.violated(Promise::one_worker_per_place,
                       fmt::format("run {:x} claims {}, which is not its parent's to give", claim->run.value.low,
                                   to_text(claim->place)));
    }
}

void PlacesChecker::check_caps(World& world, const store::OrgWrites& writes) {
    const OrgId org = writes.org;
    // Within a batch a cap may be set, used and lowered again, so the highest value it had counts.
    std::map<std::tuple<CapKind, std::string>, std::int32_t> cap_max;
    std::map<std::string, std::int32_t> agent_max;
    const bool caps_change =
        !writes.of<Cap>().put.empty() || !writes.of<Cap>().erased.empty() || !writes.of<Agent>().put.empty();
    if (caps_change) {
        std::vector<Event> events;
        for (const FeedPage* page : writes.of<FeedPage>().put) read_events(page->body, events);
        for (const Event& event : events) {
            if (const auto* cap = std::get_if<CapChanged>(&event)) {
                std::int32_t& max = cap_max[{cap->kind, cap->name}];
                max = std::max(max, cap->max_live < 0 ? INT32_MAX : cap->max_live);
            } else if (const auto* agent = std::get_if<AgentChanged>(&event)) {
                std::int32_t& max = agent_max[agent->agent];
                max = std::max(max, agent->max_concurrent_runs);
            }
        }
    }

    std::vector<const Run*> admitted;
    for (const Run* run : writes.of<Run>().put) {
        if (!is_live(run->state)) {
            live_.erase({org, run->id});
        } else if (live_.emplace(RunKey(org, run->id), Live{run->who.agent, run->who.provider, run->node}).second) {
            admitted.push_back(run);
        }
    }
    for (const Run* run : admitted) {
        std::int32_t of_agent = 0, of_provider = 0, of_node = 0, of_org = 0;
        for (auto live = live_.lower_bound({org, RunId()}); live != live_.end() && live->first.first == org; ++live) {
            of_agent += live->second.agent == run->who.agent;
            of_provider += live->second.provider == run->who.provider;
            of_node += live->second.node == run->node;
            of_org += 1;
        }
        const auto check_cap = [&](CapKind kind, const std::string& name, std::int32_t live) {
            const auto cap = caps_.find({org, kind, name});
            const auto changed = cap_max.find({kind, name});
            std::int32_t max = cap == caps_.end() ? INT32_MAX : cap->second;
            if (changed != cap_max.end()) max = std::max(max, changed->second);
            if (live > max)
                world.violated(Promise::caps, fmt::format("{} '{}' has {} live runs, its cap is {}",
                                                          boost::describe::enum_to_string(kind, "?"), name, live, max));
        };
        const std::int32_t agent_cap = std::max(agent_caps_[{org, run->who.agent}], agent_max[run->who.agent]);
        if (of_agent > agent_cap) {
            world.violated(Promise::caps, fmt::format("agent '{}' has {} live runs, its cap is {}", run->who.agent,
                                                      of_agent, agent_cap));
        }
        if (!run->who.provider.empty()) check_cap(CapKind::provider, run->who.provider, of_provider);
        if (!run->node.empty()) check_cap(CapKind::node, run->node, of_node);
        check_cap(CapKind::org, "", of_org);
    }

    for (const auto& key : writes.of<Cap>().erased) caps_.erase({org, std::get<0>(key), std::get<1>(key)});
    for (const Cap* cap : writes.of<Cap>().put) caps_[{org, cap->kind, cap->name}] = cap->max_live;
    for (const Agent* agent : writes.of<Agent>().put) agent_caps_[{org, agent->name}] = agent->max_concurrent_runs;
}

// ---- what is in the rows ------------------------------------------------------------------------------------------

void PlacesChecker::check(World& world, const Rows& rows) {
    const auto& claims = rows.rows<Claim>();
    const auto& runs = rows.rows<Run>();
    for (const auto& [key, run] : runs) {
        if (!run.parent.value.empty()) parents_[key] = run.parent;
    }
    for (auto a = claims.begin(); a != claims.end(); ++a) {
        for (auto b = std::next(a); b != claims.end() && b->first.first == a->first.first; ++b) {
            if (a->second.run == b->second.run || !overlap(a->second.place, b->second.place)) continue;
            const RunKey one(a->first.first, a->second.run), two(b->first.first, b->second.run);
            if (is_above(one, two) || is_above(two, one)) continue;
            world.violated(Promise::one_worker_per_place,
                           fmt::format("runs {:x} and {:x} both claim {} and {}", a->second.run.value.low,
                                       b->second.run.value.low, to_text(a->second.place), to_text(b->second.place)));
        }
    }
    check_fences(world, rows);
}

// A run that has ended does nothing any more, no two runs were ever given the same fence, and whoever lost a run has
// lost its fence too.
void PlacesChecker::check_fences(World& world, const Rows& rows) {
    for (const auto& [org_key, org] : rows.rows<Org>()) {
        std::set<RunId> ended;
        std::map<RunId, Fence> admitted;
        std::int64_t last_fence = 0;
        std::int64_t seq = 0;
        const auto check_live = [&](RunId run, const char* what) {
            if (run.value.empty() || !ended.contains(run)) return;
            world.violated(Promise::fenced,
                           fmt::format("event {}: run {:x} has {} after its end", seq, run.value.low, what));
        };
        for (const Event& event : world.history.of(org_key.first)) {
            ++seq;
            if (const auto* end = std::get_if<RunEnded>(&event)) {
                if (!ended.insert(end->run).second) {
                    world.violated(Promise::nobody_forgotten,
                                   fmt::format("event {}: run {:x} ends a second time", seq, end->run.value.low));
                }
            } else if (const auto* changed = std::get_if<RunChanged>(&event)) {
                check_live(changed->run, "changed its state");
                if (changed->state == RunState::queued) admitted.erase(changed->run);  // Back in line.
                if (changed->state != RunState::starting) continue;
                if (changed->fence.value <= last_fence) {
                    world.violated(Promise::fenced,
                                   fmt::format("event {}: run {:x} is admitted with fence {}, after {}", seq,
                                               changed->run.value.low, changed->fence.value, last_fence));
                }
                last_fence = changed->fence.value;
                admitted[changed->run] = changed->fence;
            } else if (const auto* charged = std::get_if<Charged>(&event)) {
                // Operators correct later, and what the gateway knows is never too late.
                const auto hold = rows.rows<Hold>().find({org_key.first, charged->hold});
                const bool by_gateway =
                    hold != rows.rows<Hold>().end() && hold->second.opened_by == HoldOpener::gateway;
                if (charged->cost >= 0 && !by_gateway) check_live(charged->run, "been charged");
            } else if (const auto* appended = std::get_if<Appended>(&event)) {
                check_live(appended->run, "appended");
            } else if (const auto* held = std::get_if<Held>(&event)) {
                check_live(held->run, "reserved");
            }
        }
        const auto& runs = rows.rows<Run>();
        for (const auto& [run, fence] : admitted) {
            const auto row = runs.find({org_key.first, run});
            if (row == runs.end() || (row->second.fence == fence) == (row->second.state != RunState::lost)) continue;
            world.violated(Promise::fenced, fmt::format("run {:x} was admitted with fence {} and has {}", run.value.low,
                                                        fence.value, row->second.fence.value));
        }
    }
}

}  // namespace

std::unique_ptr<Checker> make_places_checker() { return std::make_unique<PlacesChecker>(); }

}  // namespace interlock::sim
